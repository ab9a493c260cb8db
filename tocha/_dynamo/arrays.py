"""NumPy on tensors' arrays: calls of NumPy in captured code become calls of tocha, with NumPy's dtypes and its scalars.

Loaded when a program's first object of NumPy's is met. Which dtype and which kind of result a call has is asked of NumPy
itself, on arrays of one element; what is computed is written here in terms of tensors.
"""

from __future__ import annotations

import functools
import inspect
import operator
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

import tocha
from tocha._dynamo.refusals import Unsupported
from tocha._dynamo.values.array import ArrayValue
from tocha._dynamo.values.base import NotConstant, Value
from tocha._dynamo.values.constant import Constant
from tocha._dynamo.values.containers import ListValue, TupleValue
from tocha._dynamo.values.functions import BuiltinValue
from tocha._dynamo.values.objects import ClassValue
from tocha._dynamo.values.symbol import SymbolValue
from tocha._dynamo.values.tensor import TensorValue

if TYPE_CHECKING:
    from tocha._dynamo.frame import Frame
    from tocha._dynamo.source import Source

_DTYPES = {
    np.dtype(n): getattr(tocha, t)
    for n, t in {
        "bool": "bool", "uint8": "uint8", "int8": "int8", "int16": "int16", "int32": "int32", "int64": "int64",
        "float16": "float16", "float32": "float32", "float64": "float64", "complex64": "complex64", "complex128": "complex128",
    }.items()
}  # fmt: skip
_BACK = {t: n for n, t in _DTYPES.items()}
_LINALG: Any = tocha.linalg


def dtype_of(d: np.dtype) -> Any:
    if d not in _DTYPES:
        raise Unsupported("value", f"an array of {d}")
    return _DTYPES[d]


def as_tensor(array: np.ndarray) -> Any:
    """The memory of an array as a tensor: for guards and generated code."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an array that must not be written to
        return tocha.from_numpy(array)


# ---- values


def wrap(f: Frame, real: Any, source: Source | None) -> Value:
    if isinstance(real, np.ndarray) and type(real) is np.ndarray:
        if real.dtype not in _DTYPES or any(s < 0 for s in real.strides):
            raise Unsupported("value", f"an array of {real.dtype}")
        if source is None:
            raise Unsupported("value", "an array that no name leads to")
        f.out.guards.add(source, "type", np.ndarray)
        at = source.call(as_tensor)
        tensor = as_tensor(real)
        f.out.kept.append(tensor)
        inner = f.out.input(f, tensor, at)
        inner.source, inner.input_source = None, at
        return ArrayValue(inner, source, real)
    if isinstance(real, (np.generic, np.dtype)):
        if source is not None:
            f.out.guards.add(source, "constant", real)
        return Constant(real)
    if isinstance(real, (np.finfo, np.iinfo)):
        if source is not None:
            f.out.guards.add(source, "type", type(real))
            f.out.guards.add(source.attribute("dtype"), "constant", real.dtype)
        return Constant(real)
    if isinstance(real, np.ufunc) or callable(real):
        if source is not None:
            f.out.guards.add(source, "same", real)
        return BuiltinValue(real, source)
    raise Unsupported("value", f"an object of type numpy.{type(real).__name__}")


def probe_of(v: Any) -> Any:
    """Something small for which NumPy does the same with dtypes and dims."""
    v = v.realize()
    if isinstance(v, ArrayValue):
        one = np.ones((1,) * v.tensor.fact.ndim, _BACK[v.tensor.fact.dtype])
        return one[()] if v.scalar else one
    if isinstance(v, (TupleValue, ListValue)):
        return (tuple if isinstance(v, TupleValue) else list)(probe_of(i) for i in v.items)
    if isinstance(v, SymbolValue):
        return 1
    if isinstance(v, ClassValue):
        return v.value
    return v.constant()


def has_array(v: Any) -> bool:
    v = v.realize()
    return isinstance(v, ArrayValue) or (isinstance(v, (TupleValue, ListValue)) and any(has_array(i) for i in v.items))


def inner(v: Any, dtype: Any = None) -> Any:
    """Arrays as their tensors, of a dtype where that is given."""
    v = v.realize()
    if isinstance(v, ArrayValue):
        return Cast(v.tensor, dtype) if dtype is not None and v.tensor.fact.dtype != dtype else v.tensor
    if isinstance(v, (TupleValue, ListValue)) and has_array(v):
        return ListValue([inner(i, dtype) for i in v.items])
    if isinstance(v, Constant) and isinstance(v.value, np.generic):
        return Constant(v.value.item())
    return v


class Cast:
    """A tensor that is to be of another dtype: the call that makes it so is added when it is used."""

    def __init__(self, tensor: TensorValue, dtype: Any) -> None:
        self.tensor, self.dtype = tensor, dtype


def settled(f: Frame, v: Any) -> Value:
    if isinstance(v, Cast):
        return f.out.call(f, "call_method", "to", [v.tensor, Constant(v.dtype)], {})
    if isinstance(v, ListValue):
        v.items[:] = [settled(f, i) for i in v.items]
    return v


def typed(f: Frame, found: Value, expected: Any) -> Value:
    """A tensor, or several, as what NumPy gives: an array or a scalar, of its dtype."""
    found = found.realize()
    if isinstance(found, (TupleValue, ListValue)):
        several = isinstance(expected, (tuple, list))
        kinds = expected if several else [expected] * len(found.items)
        return (TupleValue if isinstance(expected, tuple) else ListValue if several else type(found))(
            [typed(f, i, k) for i, k in zip(found.items, kinds)]
        )
    if not isinstance(found, TensorValue):
        return found
    wanted = dtype_of(np.asarray(expected).dtype)
    if found.fact.dtype != wanted:
        found = f.out.call(f, "call_method", "to", [found, Constant(wanted)], {})
    assert isinstance(found, TensorValue)
    return ArrayValue(found, scalar=isinstance(expected, np.generic))


def computed(f: Frame, function: Callable, args: list[Any], kwargs: dict[str, Any]) -> Value:
    """Goes through one of the functions below."""
    args, kwargs = [settled(f, a) for a in args], {k: settled(f, v) for k, v in kwargs.items()}
    return f.inline(f.wrap_known(function), args, kwargs)  # type: ignore[arg-type]


# ---- calls


def call(f: Frame, function: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """A function of NumPy's."""
    name = getattr(function, "__name__", str(function))
    module = getattr(function, "__module__", None) or "numpy"
    if "random" in module:
        raise Unsupported("random", f"numpy.random.{name}")
    if "out" in kwargs or "where" in kwargs:
        raise Unsupported("builtin", f"numpy.{name} with out or where")
    if name in CREATED and function is getattr(np, name, None):
        return create(f, function, name, args, kwargs)
    if any(isinstance(v.realize(), TensorValue) for v in [*args, *kwargs.values()]):
        args = [to_array(f, a) for a in args]
        kwargs = {k: to_array(f, v) for k, v in kwargs.items()}
    if not any(has_array(v) for v in [*args, *kwargs.values()]):
        return f.fold(function, args, kwargs)
    if isinstance(function, np.ufunc):
        return ufunc(f, function, args, kwargs)
    table = LINALG if module.endswith("linalg") else FUNCTIONS
    if name not in table:
        raise Unsupported("builtin", f"{module}.{name}")
    return apply(f, function, table[name], args, kwargs)


def apply(f: Frame, function: Any, entry: tuple[str, Callable], args: list[Value], kwargs: dict[str, Value]) -> Value:
    how, written = entry
    try:
        inspect.signature(written).bind(*args, **kwargs)
    except TypeError as error:  # an argument that is not known here
        raise Unsupported("builtin", f"numpy.{function.__name__}: {error}") from None
    if how == "keeps":
        first = next(v for v in args if has_array(v))
        kept = probe_of(first)
        expected = kept[0] if isinstance(kept, list) else kept
        found = computed(f, written, [inner(a) for a in args], {k: inner(v) for k, v in kwargs.items()})
        return typed(f, found, np.asarray(expected))
    expected = asked(f, function, args, kwargs)
    dtype = dtype_of(np.asarray(expected).dtype) if how == "promotes" else None
    if written is where:
        given = [inner(args[0]), *(inner(a, dtype) for a in args[1:])]
    else:
        given = [inner(a, dtype) for a in args]
    return typed(
        f, computed(f, written, given, {k: inner(v, dtype) for k, v in kwargs.items() if k != "dtype"}), expected
    )


def asked(f: Frame, function: Any, args: list[Value], kwargs: dict[str, Value]) -> Any:
    """What NumPy gives for such arguments, of one element each."""
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function(*[probe_of(a) for a in args], **{k: probe_of(v) for k, v in kwargs.items()})
    except NotConstant as error:
        raise Unsupported("builtin", f"numpy.{function.__name__}: {error}") from None
    except Exception as error:
        f.raise_real(error)


def ufunc(f: Frame, function: np.ufunc, args: list[Value], kwargs: dict[str, Value]) -> Value:
    if function.__name__ not in UFUNCS or kwargs or function.nout != 1:
        raise Unsupported("builtin", f"numpy.{function.__name__}")
    probes = [probe_of(a) for a in args]
    expected = asked(f, function, args, {})
    kinds = [type(p) if type(p) in (int, float, complex) else np.asarray(p).dtype for p in probes]
    try:
        wanted = function.resolve_dtypes((*kinds, None))  # type: ignore[attr-defined]
    except TypeError as error:
        f.raise_real(error)
    given = [inner(a, dtype_of(w)) for a, w in zip(args, wanted)]
    return typed(f, computed(f, UFUNCS[function.__name__], given, {}), expected)


def binary(f: Frame, function: Any, a: Value, b: Value) -> Value:
    """An operator with an array on one side."""
    if isinstance(a, TensorValue) or isinstance(b, TensorValue):
        raise Unsupported("operator", "an operator between a tensor and an array")
    a, b = (to_array(f, v) if isinstance(v, (ListValue, TupleValue)) else v for v in (a, b))
    return ufunc(f, _OPERATORS[function], [a, b], {})


def unary(f: Frame, function: Any, a: Value) -> Value:
    return ufunc(f, _OPERATORS[function], [a], {})


def in_place(f: Frame, function: Any, a: ArrayValue, b: Value) -> Value:
    """a += b: the array itself, where that can hold the result."""
    found = binary(f, function, a, b)
    if a.scalar:
        return found
    assert isinstance(found, ArrayValue)
    if not np.can_cast(_BACK[found.tensor.fact.dtype], _BACK[a.tensor.fact.dtype], "same_kind"):
        raise Unsupported("operator", "an operator in place that changes the dtype")
    f.out.call(f, "call_method", "copy_", [a.tensor, found.tensor], {})
    return a


def to_array(f: Frame, v: Value) -> Value:
    """What np.asarray makes of it."""
    v = v.realize()
    if isinstance(v, TensorValue):
        return of_tensor(f, v)
    if isinstance(v, (TupleValue, ListValue)) and has_array(v):
        return apply(f, np.stack, FUNCTIONS["stack"], [v], {})
    return v


def of_tensor(f: Frame, tensor: TensorValue) -> Value:
    """tensor.numpy()"""
    if tensor.fact.dtype not in _BACK or tensor.fact.is_conj() or tensor.fact.is_neg():
        raise Unsupported("tensor_to_python", "Tensor.numpy()")
    if tensor.fact.requires_grad:  # calls on the array are calls of tocha, which gradients go through
        return ArrayValue(tensor)
    return ArrayValue(f.out.call(f, "call_method", "detach", [tensor], {}))  # type: ignore[arg-type]


def to_tensor(f: Frame, function: Any, array: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """from_numpy(array) and its like, also of lists with arrays in them."""
    if function is tocha.from_numpy and (not isinstance(array, ArrayValue) or array.scalar):
        raise Unsupported("builtin", "from_numpy of a scalar, or of a list")
    found = side_by_side(f, array)
    if function is tocha.tensor and isinstance(array, ArrayValue):
        found = f.out.call(f, "call_method", "clone", [found], {})  # type: ignore[assignment]
    dtype = kwargs.get("dtype", args[0] if args else None)
    if dtype is not None and dtype.constant() is not None:
        narrow = (
            found.fact.dtype.is_floating_point and found.fact.dtype != tocha.float64
        )  # its items are no floats of Python
        if narrow and not isinstance(array, ArrayValue) and not dtype.constant().is_floating_point:
            raise Unsupported("builtin", "floats of NumPy as integers")
        found = f.out.call(f, "call_method", "to", [found, dtype], {})  # type: ignore[assignment]
    return found


def side_by_side(f: Frame, v: Value) -> TensorValue:
    """What tensor() makes of a list with arrays in it: one of the dtype that theirs and the numbers' promote to."""
    v = v.realize()
    if isinstance(v, ArrayValue):
        return v.tensor
    if isinstance(v, TensorValue):
        return f.out.call(f, "call_method", "detach", [v], {})  # type: ignore[return-value]
    if not isinstance(v, (TupleValue, ListValue)):
        return f.out.call(f, "call_function", tocha.tensor, [v], {})  # type: ignore[return-value]
    parts = [side_by_side(f, i) for i in v.items]
    dtype = functools.reduce(tocha.promote_types, [p.fact.dtype for p in parts])
    alike = [
        p if p.fact.dtype == dtype else f.out.call(f, "call_method", "to", [p, Constant(dtype)], {}) for p in parts
    ]
    return f.out.call(f, "call_function", tocha.stack, [ListValue(alike)], {})  # type: ignore[return-value]


# ---- making arrays

CREATED = {"zeros", "ones", "empty", "full", "arange", "eye", "identity", "linspace", "array", "asarray"}


def create(f: Frame, function: Any, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
    if name in ("array", "asarray") and any(has_array(a) or isinstance(a.realize(), TensorValue) for a in args):
        made = to_array(f, args[0])
        dtype = kwargs.get("dtype", args[1] if len(args) > 1 else None)
        if dtype is not None:
            made = method(f, made, "astype", [dtype], {})  # type: ignore[arg-type]
        return method(f, made, "copy", [], {}) if name == "array" and made is args[0] else made  # type: ignore[arg-type]
    try:
        real = function(*[a.constant() for a in args], **{k: v.constant() for k, v in kwargs.items()})
    except NotConstant:
        raise Unsupported("builtin", f"numpy.{name} of what is not known") from None
    except Exception as error:
        f.raise_real(error)
    dtype = Constant(dtype_of(real.dtype))
    call = f.out.call
    if name in ("zeros", "ones", "empty"):
        made = call(f, "call_function", getattr(tocha, name), [Constant(real.shape)], {"dtype": dtype})
    elif name == "full":
        made = call(f, "call_function", tocha.full, [Constant(real.shape), Constant(real.flat[0].item() if real.size else 0)], {"dtype": dtype})  # fmt: skip
    else:
        made = call(f, "call_function", tocha.tensor, [Constant(real.tolist())], {"dtype": dtype})
    return ArrayValue(made)  # type: ignore[arg-type]


# ---- attributes and methods of arrays

_AS_FUNCTIONS = {"sum", "prod", "mean", "std", "var", "max", "min", "argmax", "argmin", "any", "all", "cumsum", "cumprod", "ravel", "squeeze", "swapaxes", "repeat", "take", "clip", "dot", "trace", "argsort", "diagonal", "round", "ptp"}  # fmt: skip


def attribute(f: Frame, a: ArrayValue, name: str) -> Value:
    fact = a.tensor.fact
    if name == "shape":
        return TupleValue(f.out.sizes(f, a.tensor))
    if name in ("ndim", "size", "itemsize", "nbytes"):
        return f.wrap_known({"ndim": lambda: fact.ndim, "size": fact.numel, "itemsize": fact.element_size, "nbytes": lambda: fact.numel() * fact.element_size()}[name]())  # fmt: skip
    if name == "dtype":
        return Constant(_BACK[fact.dtype])
    if name == "T":
        return apply(f, np.transpose, FUNCTIONS["transpose"], [a], {})
    assert name in ("real", "imag")
    if fact.is_complex():
        return ArrayValue(f.out.call(f, "call_function", getattr, [a.tensor, Constant(name)], {}), scalar=a.scalar)  # type: ignore[arg-type]
    if name == "real":
        return ArrayValue(a.tensor, scalar=a.scalar)
    return ArrayValue(f.out.call(f, "call_function", tocha.zeros_like, [a.tensor], {}), scalar=a.scalar)  # type: ignore[arg-type]


def method(f: Frame, a: ArrayValue, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
    if name in ("reshape", "transpose") and args and not isinstance(args[0].realize(), (TupleValue, ListValue)) and len(args) > 1:  # fmt: skip
        args = [TupleValue(list(args))]
    if name in ("reshape", "transpose", "flatten", "copy") or name in _AS_FUNCTIONS:
        key = {"flatten": "ravel"}.get(name, name)
        function = np.copy if name == "copy" else getattr(np, key)
        found = apply(f, function, FUNCTIONS[key], [a, *args], kwargs)
        return method(f, found, "copy", [], {}) if name == "flatten" else found  # type: ignore[arg-type]
    if name == "astype":
        wanted = np.dtype(args[0].constant())
        found = f.out.call(f, "call_method", "to", [a.tensor, Constant(dtype_of(wanted))], {})
        if found is a.tensor:
            found = f.out.call(f, "call_method", "clone", [a.tensor], {})
        return ArrayValue(found, scalar=a.scalar)  # type: ignore[arg-type]
    if name == "tolist" or (name == "item" and not a.tensor.fact.ndim and not args):
        return a.tensor.call_method(f, name, [], {})
    if name == "item" and len(args) < 2 and not kwargs:
        flat = apply(f, np.ravel, FUNCTIONS["ravel"], [a], {})
        return item(f, flat, args[0] if args else Constant(0)).call_method(f, name, [], {})  # type: ignore[arg-type]
    if name == "fill":
        f.out.call(f, "call_method", "fill_", [a.tensor, inner(args[0])], {})
        return Constant(None)
    if name == "sort" and not kwargs:
        found = f.out.call(f, "call_method", "sort", [a.tensor, *(args or [Constant(-1)])], {})
        f.out.call(f, "call_method", "copy_", [a.tensor, found.unpack(f)[0]], {})
        return Constant(None)
    for symbol, function in _DUNDERS.items():
        if name == f"__{symbol}__":
            return binary(f, function, a, args[0])
        if name == f"__r{symbol}__":
            return binary(f, function, args[0], a)
    raise Unsupported("builtin", f"ndarray.{name}")


def item(f: Frame, a: ArrayValue, key: Value) -> Value:
    found = f.out.call(f, "call_function", operator.getitem, [a.tensor, inner_key(key)], {})
    assert isinstance(found, TensorValue)
    whole = isinstance(key, Constant) and key.value is Ellipsis
    return ArrayValue(found, scalar=found.fact.ndim == 0 and not whole)


def set_item(f: Frame, a: ArrayValue, key: Value, value: Value) -> None:
    value = value.realize()
    if isinstance(value, (ListValue, TupleValue)):
        value = create(f, np.asarray, "asarray", [value], {})
    given = settled(f, inner(value, a.tensor.fact.dtype if isinstance(value, ArrayValue) else None))
    f.out.call(f, "call_function", operator.setitem, [a.tensor, inner_key(key), given], {})


def inner_key(key: Value) -> Value:
    key = key.realize()
    if isinstance(key, TupleValue):
        return TupleValue([inner_key(i) for i in key.items])
    return inner(key)


# ---- in terms of tensors: gone through like any Python


def _axes(a, axis):
    if axis is None:
        return tuple(range(a.ndim))
    return tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)


def where(condition, x, y):
    return tocha.where(condition != 0 if condition.dtype != tocha.bool else condition, x, y)


def _sum(a, axis=None, dtype=None, keepdims=False):
    return tocha.sum(a, _axes(a, axis), keepdim=bool(keepdims))


def _mean(a, axis=None, dtype=None, keepdims=False):
    return tocha.mean(a, _axes(a, axis), keepdim=bool(keepdims))


def _prod(a, axis=None, dtype=None, keepdims=False):
    for d in sorted([d % a.ndim for d in _axes(a, axis)], reverse=True):
        a = tocha.prod(a, d, keepdim=bool(keepdims))
    return a


def _std(a, axis=None, dtype=None, ddof=0, keepdims=False):
    return tocha.std(a, _axes(a, axis), correction=ddof, keepdim=bool(keepdims))


def _var(a, axis=None, dtype=None, ddof=0, keepdims=False):
    return tocha.var(a, _axes(a, axis), correction=ddof, keepdim=bool(keepdims))


def _max(a, axis=None, keepdims=False):
    return tocha.amax(a, _axes(a, axis), keepdim=bool(keepdims))


def _min(a, axis=None, keepdims=False):
    return tocha.amin(a, _axes(a, axis), keepdim=bool(keepdims))


def _ptp(a, axis=None, keepdims=False):
    return _max(a, axis, keepdims) - _min(a, axis, keepdims)


def _countable(a):
    return a.to(tocha.uint8) if a.dtype == tocha.bool else a


def _argmax(a, axis=None, keepdims=False):
    return tocha.argmax(_countable(a), axis, keepdim=bool(keepdims))


def _argmin(a, axis=None, keepdims=False):
    return tocha.argmin(_countable(a), axis, keepdim=bool(keepdims))


def _any(a, axis=None, keepdims=False):
    return tocha.any(a != 0, _axes(a, axis), keepdim=bool(keepdims))


def _all(a, axis=None, keepdims=False):
    return tocha.all(a != 0, _axes(a, axis), keepdim=bool(keepdims))


def _count_nonzero(a, axis=None, keepdims=False):
    return tocha.sum(a != 0, _axes(a, axis), keepdim=bool(keepdims))


def _cumsum(a, axis=None, dtype=None):
    return tocha.cumsum(a.reshape(-1) if axis is None else a, 0 if axis is None else axis)


def _cumprod(a, axis=None, dtype=None):
    return tocha.cumprod(a.reshape(-1) if axis is None else a, 0 if axis is None else axis)


def _concatenate(arrays, axis=0):
    return tocha.cat([a.reshape(-1) for a in arrays], 0) if axis is None else tocha.cat(list(arrays), axis)


def _stack(arrays, axis=0):
    return tocha.stack(list(arrays), axis)


def _reshape(a, shape, order="C"):
    return a.reshape(shape)


def _transpose(a, axes=None):
    return a.permute(tuple(range(a.ndim - 1, -1, -1)) if axes is None else axes)


def _expand_dims(a, axis):
    for d in sorted(axis) if isinstance(axis, (tuple, list)) else (axis,):
        a = a.unsqueeze(d)
    return a


def _squeeze(a, axis=None):
    return a.squeeze() if axis is None else a.squeeze(axis)


def _flip(a, axis=None):
    return a.flip(_axes(a, axis))


def _roll(a, shift, axis=None):
    return tocha.roll(a, shift) if axis is None else tocha.roll(a, shift, axis)


def _repeat(a, repeats, axis=None):
    return tocha.repeat_interleave(a.reshape(-1) if axis is None else a, repeats, 0 if axis is None else axis)


def _take(a, indices, axis=None):
    source = a.reshape(-1) if axis is None else a
    if not isinstance(indices, tocha.Tensor):
        indices = tocha.tensor(indices)
    found = tocha.index_select(source, 0 if axis is None else axis, indices.reshape(-1))
    if axis is None:
        return found.reshape(indices.shape)
    return found if indices.ndim == 1 else found.unflatten(axis, indices.shape)


def _split(a, sections, axis=0):
    if isinstance(sections, int):
        if a.shape[axis] % sections:
            raise ValueError("array split does not result in an equal division")
        return list(tocha.split(a, a.shape[axis] // sections, axis))
    return list(tocha.tensor_split(a, list(sections), axis))


def _meshgrid(*arrays, indexing="xy"):
    """Each of its own dtype: tocha.meshgrid wants one for all."""
    places = list(range(len(arrays)))
    if indexing == "xy":
        places[:2] = places[:2][::-1]
    shape = [arrays[i].numel() for i in places]
    lying = [a.reshape([-1 if i == k else 1 for i in places]) for k, a in enumerate(arrays)]
    return [a.expand(shape).clone(memory_format=tocha.contiguous_format) for a in lying]


def _take_along_axis(a, indices, axis=-1):
    return tocha.take_along_dim(a, indices.long(), axis)


def _shifted(back):
    def shift(x, axes=None):
        dims = _axes(x, axes)
        return x.roll([(-1 if back else 1) * (x.shape[d] // 2) for d in dims], dims)

    return shift


def _sort(a, axis=-1):
    return tocha.sort(a.reshape(-1) if axis is None else a, -1 if axis is None else axis, stable=True).values


def _argsort(a, axis=-1, kind=None, stable=None):
    return tocha.argsort(a.reshape(-1) if axis is None else a, dim=-1 if axis is None else axis, stable=True)


def _clip(a, a_min=None, a_max=None, min=None, max=None):
    return tocha.clamp(a, a_min if a_min is not None else min, a_max if a_max is not None else max)


def _dot(a, b):
    if a.ndim == 0 or b.ndim == 0:
        return a * b
    return a @ b if b.ndim <= 2 else tocha.tensordot(a, b, ([a.ndim - 1], [b.ndim - 2]))


def _tensordot(a, b, axes=2):
    return tocha.tensordot(a, b, axes)


def _einsum(subscripts, *operands):
    return tocha.einsum(subscripts, *operands)


def _norm(x, ord=None, axis=None, keepdims=False):
    if axis is None and ord is None:
        return tocha.linalg.vector_norm(x, 2, keepdim=keepdims)
    if (isinstance(axis, (tuple, list)) and len(axis) == 2) or (axis is None and x.ndim == 2):
        return tocha.linalg.matrix_norm(x, "fro" if ord is None else ord, (-2, -1) if axis is None else axis, keepdim=keepdims)  # fmt: skip
    return tocha.linalg.vector_norm(x, 2 if ord is None else ord, axis, keepdim=keepdims)


def _like(make):
    return lambda a, dtype=None: make(a)


def _float_power(a, b):
    return tocha.pow(a, b)


FUNCTIONS: dict[str, tuple[str, Callable]] = {
    "sum": ("promotes", _sum), "mean": ("promotes", _mean), "prod": ("promotes", _prod), "std": ("promotes", _std), "var": ("promotes", _var),
    "max": ("gives", _max), "amax": ("gives", _max), "min": ("gives", _min), "amin": ("gives", _min), "ptp": ("gives", _ptp),
    "argmax": ("gives", _argmax), "argmin": ("gives", _argmin), "any": ("gives", _any), "all": ("gives", _all), "count_nonzero": ("gives", _count_nonzero),
    "cumsum": ("promotes", _cumsum), "cumprod": ("promotes", _cumprod), "argsort": ("gives", _argsort), "sort": ("keeps", _sort),
    "concatenate": ("promotes", _concatenate), "stack": ("promotes", _stack), "vstack": ("promotes", lambda a: tocha.vstack(list(a))),
    "hstack": ("promotes", lambda a: tocha.hstack(list(a))), "where": ("promotes", where), "clip": ("promotes", _clip),
    "dot": ("promotes", _dot), "inner": ("promotes", lambda a, b: tocha.inner(a, b)), "outer": ("promotes", lambda a, b: tocha.outer(a.reshape(-1), b.reshape(-1))),
    "tensordot": ("promotes", _tensordot), "einsum": ("promotes", _einsum), "trace": ("promotes", lambda a: tocha.trace(a)),
    "reshape": ("keeps", _reshape), "ravel": ("keeps", lambda a: a.reshape(-1)), "transpose": ("keeps", _transpose), "swapaxes": ("keeps", lambda a, i, k: a.transpose(i, k)),
    "moveaxis": ("keeps", lambda a, i, k: tocha.movedim(a, i, k)), "squeeze": ("keeps", _squeeze), "expand_dims": ("keeps", _expand_dims),
    "broadcast_to": ("keeps", lambda a, shape: a.expand(shape)), "flip": ("keeps", _flip), "roll": ("keeps", _roll), "repeat": ("keeps", _repeat),
    "tile": ("keeps", lambda a, reps: tocha.tile(a, reps if isinstance(reps, tuple) else (reps,))), "take": ("keeps", _take), "split": ("keeps", _split),
    "copy": ("keeps", lambda a: a.clone()), "tril": ("keeps", lambda a, k=0: tocha.tril(a, k)), "triu": ("keeps", lambda a, k=0: tocha.triu(a, k)),
    "diag": ("keeps", lambda a, k=0: tocha.diag(a, k)), "diagonal": ("keeps", lambda a, k=0: tocha.diagonal(a, k)), "round": ("keeps", lambda a, decimals=0: tocha.round(a, decimals=decimals)),
    "zeros_like": ("promotes", _like(lambda a: tocha.zeros_like(a))), "ones_like": ("promotes", _like(lambda a: tocha.ones_like(a))),
    "empty_like": ("promotes", _like(lambda a: tocha.empty_like(a))), "full_like": ("promotes", lambda a, value, dtype=None: tocha.full_like(a, value)),
    "real": ("gives", lambda a: a.real if a.is_complex() else a), "imag": ("gives", lambda a: a.imag if a.is_complex() else tocha.zeros_like(a)),
    "meshgrid": ("gives", _meshgrid), "take_along_axis": ("keeps", _take_along_axis), "unique": ("keeps", lambda a: tocha.unique(a)),
    "fftshift": ("keeps", _shifted(False)), "ifftshift": ("keeps", _shifted(True)),
    "atleast_1d": ("keeps", lambda a: tocha.atleast_1d(a)), "atleast_2d": ("keeps", lambda a: a.reshape(1, -1) if a.ndim < 2 else a), "array_equal": ("gives", lambda a, b: tocha.all(a == b)),
}  # fmt: skip
LINALG: dict[str, tuple[str, Callable]] = {
    "norm": ("promotes", _norm), "inv": ("promotes", lambda a: _LINALG.inv(a)), "det": ("promotes", lambda a: _LINALG.det(a)),
    "solve": ("promotes", lambda a, b: _LINALG.solve(a, b)), "matrix_power": ("promotes", lambda a, n: _LINALG.matrix_power(a, n)),
    "cholesky": ("promotes", lambda a: _LINALG.cholesky(a)),
}  # fmt: skip
_SAME_NAME = ["sqrt", "sin", "cos", "tan", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "floor", "ceil", "trunc", "sign", "square", "reciprocal", "tanh", "sinh", "cosh", "isnan", "isinf", "isfinite", "logical_not", "signbit", "fmod", "maximum", "minimum", "fmax", "fmin", "hypot", "logaddexp", "logaddexp2", "copysign", "logical_and", "logical_or", "logical_xor", "remainder", "floor_divide"]  # fmt: skip
_OTHER_NAMES = {"absolute": "abs", "fabs": "abs", "negative": "neg", "positive": "positive", "rint": "round", "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh", "arctan2": "atan2", "degrees": "rad2deg", "rad2deg": "rad2deg", "radians": "deg2rad", "deg2rad": "deg2rad", "conjugate": "conj_physical", "invert": "bitwise_not", "float_power": "pow"}  # fmt: skip


def _named(name: str) -> Callable:
    function = getattr(tocha, name)

    def call(*args):
        if len(args) == 2 and not isinstance(args[0], tocha.Tensor):
            args = (tocha.full_like(args[1], args[0]), args[1])
        elif len(args) == 2 and not isinstance(args[1], tocha.Tensor):
            args = (args[0], tocha.full_like(args[0], args[1]))
        return function(*args)

    return call


UFUNCS: dict[str, Callable] = {n: _named(n) for n in _SAME_NAME}
UFUNCS |= {n: _named(t) for n, t in _OTHER_NAMES.items()}
UFUNCS |= {
    "add": lambda a, b: a + b, "subtract": lambda a, b: a - b, "multiply": lambda a, b: a * b, "divide": lambda a, b: a / b, "power": lambda a, b: a**b,
    "matmul": lambda a, b: a @ b, "equal": lambda a, b: a == b, "not_equal": lambda a, b: a != b, "less": lambda a, b: a < b, "less_equal": lambda a, b: a <= b,
    "greater": lambda a, b: a > b, "greater_equal": lambda a, b: a >= b, "bitwise_and": lambda a, b: a & b, "bitwise_or": lambda a, b: a | b,
    "bitwise_xor": lambda a, b: a ^ b, "left_shift": lambda a, b: a << b, "right_shift": lambda a, b: a >> b,
}  # fmt: skip
_OPERATORS: dict[Any, np.ufunc] = {
    operator.add: np.add, operator.sub: np.subtract, operator.mul: np.multiply, operator.truediv: np.divide, operator.floordiv: np.floor_divide,
    operator.mod: np.remainder, operator.pow: np.power, operator.matmul: np.matmul, operator.and_: np.bitwise_and, operator.or_: np.bitwise_or,
    operator.xor: np.bitwise_xor, operator.lshift: np.left_shift, operator.rshift: np.right_shift, operator.eq: np.equal, operator.ne: np.not_equal,
    operator.lt: np.less, operator.le: np.less_equal, operator.gt: np.greater, operator.ge: np.greater_equal, operator.neg: np.negative,
    operator.pos: np.positive, operator.invert: np.invert,
}  # fmt: skip
_DUNDERS = {"add": operator.add, "sub": operator.sub, "mul": operator.mul, "truediv": operator.truediv, "floordiv": operator.floordiv, "mod": operator.mod, "pow": operator.pow, "matmul": operator.matmul}  # fmt: skip
