"""What is asked of a fake tensor besides operators: its sizes where they are symbols, its elements, which it does not have,
and new tensors made of Python's data while a mode is active. The binding looks these up by name (csrc/python/fakes.h);
NotImplemented means that the native part knows.
"""

from __future__ import annotations

import functools
from typing import Any

from tocha import _C
from tocha._library import dispatch
from tocha._subclasses.calls import answers, invoke
from tocha._subclasses.convert import format_facts, normalised
from tocha._subclasses.errors import DataDependentOutputException
from tocha._subclasses.fake import FakeTensor, new, outside
from tocha._subclasses.history import unrecorded
from tocha._subclasses.indexing import getitem, setitem
from tocha._subclasses.reader import active_mode, handle_named
from tocha.ir.sym_types import Symbolic, SymBool, SymFloat, SymInt
from tocha.operators.facts import Facts

Tensor = _C.Tensor


def _only(args: tuple, kwargs: dict[str, Any], name: str) -> Any:
    return args[0] if args else kwargs.get(name)


def shape(t: FakeTensor) -> Any:
    return _C.Size(t._facts.sizes) if t._symbolic else NotImplemented


def size(t: FakeTensor, *args: Any, **kwargs: Any) -> Any:
    if not t._symbolic:
        return NotImplemented
    dim = _only(args, kwargs, "dim")
    return _C.Size(t._facts.sizes) if dim is None else t._facts.size(dim)


def stride(t: FakeTensor, *args: Any, **kwargs: Any) -> Any:
    if not t._symbolic:
        return NotImplemented
    dim = _only(args, kwargs, "dim")
    return t._facts.steps if dim is None else t._facts.stride(dim)


def numel(t: FakeTensor) -> Any:
    return t._facts.numel() if t._symbolic else NotImplemented


def nbytes(t: FakeTensor) -> Any:
    return t._facts.numel() * t._facts.dtype.itemsize if t._symbolic else NotImplemented


def storage_offset(t: FakeTensor) -> Any:
    return t._facts.offset if t._symbolic else NotImplemented


def is_contiguous(t: FakeTensor, *args: Any, **kwargs: Any) -> Any:
    if not t._symbolic:
        return NotImplemented
    memory_format = _only(args, kwargs, "memory_format")
    return bool(t._facts.is_contiguous(None if memory_format is None else format_facts(memory_format)))


def is_same_size(t: FakeTensor, other: Tensor) -> Any:
    if not (t._symbolic or getattr(other, "_symbolic", False)):
        return NotImplemented
    mine, theirs = t._facts.sizes, tuple(other.shape)
    return len(mine) == len(theirs) and all(bool(a == b) for a, b in zip(mine, theirs, strict=True))


def length(t: FakeTensor) -> Any:
    if not t._symbolic:
        return NotImplemented
    if not t._facts.sizes:
        raise TypeError("len() of a 0-d tensor")
    return int(t._facts.sizes[0])


def data_ptr(t: FakeTensor) -> Any:
    if t._symbolic:
        raise RuntimeError("Cannot call numel() on tensor with symbolic sizes/strides")
    return NotImplemented


# ---- elements ------------------------------------------------------------------------------------


def item(t: FakeTensor) -> Any:
    """The element where it is known, else a number that nobody knows yet, where the mode makes such."""
    if dispatch.modes.stack and not _C._dispatch_disabled():
        return dispatch.ask(handle_named("_local_scalar_dense"), [], (t,), {})
    f = t._facts
    known = t.constant
    if known is not None:
        with outside():
            return known.item()
    count = f.numel()
    if not (count == 1):
        raise RuntimeError(f"a Tensor with {count} elements cannot be converted to Scalar")
    if t.item_memo is not None and t.item_version == f.memory.version:
        return t.item_memo
    env = t.fake_mode.shape_env
    if env is None or not env.allow_scalar_outputs or f.dtype.is_complex:
        raise DataDependentOutputException(handle_named("_local_scalar_dense"))
    if f.dtype.is_floating:
        made = env.create_unbacked_symfloat()
    else:
        made = env.create_unbacked_symbool() if f.dtype.name == "bool" else env.create_unbacked_symint()
    t.item_memo, t.item_version = made, f.memory.version
    return made


def tolist(t: FakeTensor) -> Any:
    if not t._facts.sizes:
        return item(t)
    return [tolist(x) for x in invoke("unbind", t)]


def truth(t: FakeTensor) -> bool:
    count = t._facts.numel()
    if count == 0:
        raise RuntimeError("Boolean value of Tensor with no values is ambiguous")
    if not (count == 1):
        raise RuntimeError("Boolean value of Tensor with more than one value is ambiguous")
    return bool(item(t))


def as_int(t: FakeTensor) -> int:
    return int(item(t))


def as_float(t: FakeTensor) -> float:
    return float(item(t))


def as_complex(t: FakeTensor) -> complex:
    return complex(item(t))


def as_index(t: FakeTensor) -> int:
    d = t._facts.dtype
    if d.is_floating or d.is_complex or t._facts.numel() != 1:
        raise TypeError("only integer tensors of a single element can be converted to an index")
    return int(item(t))


def contains(t: FakeTensor, element: Any) -> bool:
    return truth(invoke("any", invoke("eq", t, element)))


def invert(t: FakeTensor) -> FakeTensor:
    d = t._facts.dtype
    if not (d.is_integer or d.name == "bool"):
        raise TypeError("~ (operator.invert) is only implemented on integer and Boolean-type tensors")
    return invoke("bitwise_not", t)


def no_array(t: FakeTensor, *args: Any, **kwargs: Any) -> Any:
    raise RuntimeError(".numpy() is not supported for tensor subclasses.")


def no_dlpack(t: FakeTensor, *args: Any, **kwargs: Any) -> Any:
    raise RuntimeError("Can't export a FakeTensor through DLPack: it has no memory")


# ---- the same memory -----------------------------------------------------------------------------


def data(t: FakeTensor) -> FakeTensor:
    f = t._facts
    shown = Facts(f.sizes, f.dtype, f.device, f.steps, f.offset, f.memory, f.conjugated, f.negated)
    shown.is_plain, shown._contiguous = f.is_plain, f._contiguous
    made = new(t.fake_mode, shown)
    made.constant = t.constant
    return made


def shown_data(t: FakeTensor) -> FakeTensor:
    """The same for programs: whoever watches operators sees a detach, else writes to what comes back would be lost on them."""
    if not dispatch.modes.stack or _C._dispatch_disabled():
        return data(t)
    shown: Any = t.detach()
    shown._own_version()
    return shown


def set_data(t: FakeTensor, value: Any) -> None:
    if not isinstance(value, FakeTensor):
        raise RuntimeError(
            "Attempted to call `variable.set_data(tensor)`, but `variable` and `tensor` have incompatible tensor type."
        )
    f = value._facts
    if t.requires_grad and not f.dtype.is_differentiable:
        raise RuntimeError(
            f"data set to a tensor that requires gradients must be floating point or complex dtype, got {f.dtype}"
        )
    _C._set_fake_data(t, value)
    taken = Facts(f.sizes, f.dtype, f.device, f.steps, f.offset, f.memory, f.conjugated, f.negated)
    taken.is_plain, taken._contiguous = f.is_plain, f._contiguous
    t._facts, t._symbolic = taken, value._symbolic
    t.constant = value.constant


# ---- Python's data -------------------------------------------------------------------------------


def lifted(real: Tensor) -> Any:
    """A tensor that was just made of Python's data as a fake one; a single number is remembered."""
    if active_mode() is None:  # real tensors, seen above autograd
        return real
    with outside():
        made = active_mode().lifted(real.detach())
    fresh = shown_fresh(made)
    if real.requires_grad:
        fresh.requires_grad_()
    return fresh


def shown_fresh(made: FakeTensor) -> FakeTensor:
    """Dispatch modes are told of tensors that are made of Python's data."""
    if not dispatch.modes.stack or _C._dispatch_disabled():
        return made
    with unrecorded():
        return dispatch.ask(handle_named("lift_fresh"), [], (made,), {})


def tensor(data: Any, **kwargs: Any) -> Any:
    if active_mode() is None:  # real tensors, seen above autograd
        return NotImplemented
    if isinstance(data, Tensor):
        source = active_mode().fake_of(data)
        made = invoke("clone", source.detach())
        if kwargs.get("dtype") is not None or kwargs.get("device") is not None:
            made = made.to(dtype=kwargs.get("dtype"), device=kwargs.get("device"))
        return made.requires_grad_(bool(kwargs.get("requires_grad", False)))
    if has_symbols(data):
        return of_symbols(data, kwargs)
    device = kwargs.pop("device", None)
    where = normalised(_C.device(device) if device is not None else _C.get_default_device())
    if kwargs.get("dtype") is None and any(isinstance(n, FakeTensor) for n in numbers_in(data)):
        kwargs["dtype"] = common_dtype(data)
    data = materialised(data)
    with outside():
        real = _C.tensor(data, device="cpu", **kwargs)
    if where.type == "cpu":
        return lifted(real)
    with outside():
        made = active_mode().lifted(real.detach())
    made._facts.device = where
    moved = new(made.fake_mode, made._facts)
    moved.constant, moved.lifted_from = made.constant, real
    return shown_fresh(moved).requires_grad_(real.requires_grad)


def has_symbols(data: Any) -> bool:
    """Are there numbers among the items that are not known, or may change?"""
    if isinstance(data, list | tuple):
        return any(has_symbols(x) for x in data)
    return isinstance(data, Symbolic) or (isinstance(data, FakeTensor) and data.constant is None)


def of_symbols(data: Any, kwargs: dict[str, Any]) -> Any:
    """A tensor of numbers that are known when the program runs: one of no dims for each, stacked."""
    where = {"dtype": kwargs.get("dtype") or common_dtype(data), "device": kwargs.get("device")}
    return stacked(data, where).requires_grad_(bool(kwargs.get("requires_grad", False)))


def numbers_in(data: Any) -> list[Any]:
    return [n for x in data for n in numbers_in(x)] if isinstance(data, list | tuple) else [data]


def common_dtype(data: Any) -> Any:
    """What the numbers of nested sequences promote to; those that are tensors have dtypes of their own."""
    real = _C.get_default_dtype()
    usual = {bool: _C.bool, int: _C.int64, float: real, complex: _C.promote_types(real, _C.complex32)}
    usual |= {SymBool: _C.bool, SymInt: _C.int64, SymFloat: real}

    def own(n: Any) -> Any:
        if isinstance(n, Tensor) or type(n) in usual:
            return n.dtype if isinstance(n, Tensor) else usual[type(n)]
        with outside():  # a number of NumPy
            return _C.tensor(n).dtype

    return functools.reduce(_C.promote_types, map(own, numbers_in(data)))


def stacked(data: Any, where: dict[str, Any]) -> Any:
    if isinstance(data, list | tuple):
        return _C.stack([stacked(x, where) for x in data]) if data else tensor(data, **where)
    if isinstance(data, Tensor):
        if data.numel() != 1:
            raise ValueError("only one element tensors can be converted to Python scalars")
        return data.detach().reshape(()).to(**where)
    return _C.scalar_tensor(data, **where)


def materialised(data: Any) -> Any:
    """Nested sequences with plain numbers for tensors of one element and symbols, which are guarded."""
    if isinstance(data, list | tuple):
        return [materialised(x) for x in data]
    if isinstance(data, FakeTensor):
        return data.tolist() if data.numel() != 1 else data.item()
    return data.__index__() if hasattr(data, "__sym_int__") and hasattr(data, "__index__") else data


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Any:
    if active_mode() is None:
        return NotImplemented
    if isinstance(data, Tensor):
        fake = active_mode().fake_of(data)
        return fake if dtype is None and device is None else fake.to(dtype=dtype, device=device)
    return tensor(data, dtype=dtype, device=device)


def legacy_tensor(*args: Any, **kwargs: Any) -> Any:
    """Tensor(2, 3) and Tensor([1, 2])."""
    if active_mode() is None:
        return NotImplemented
    if len(args) == 1 and isinstance(args[0], list | tuple) and not isinstance(args[0], _C.Size):
        return tensor(args[0], dtype=_C.get_default_dtype())
    if len(args) == 1 and isinstance(args[0], Tensor):
        return active_mode().fake_of(args[0])
    sizes = args[0] if len(args) == 1 and isinstance(args[0], _C.Size) else args or (0,)
    return invoke("empty", list(sizes))


answers["_local_scalar_dense"] = item

METHODS = {
    "shape.__get__": shape,
    "size": size,
    "stride": stride,
    "numel": numel,
    "nbytes.__get__": nbytes,
    "storage_offset": storage_offset,
    "is_contiguous": is_contiguous,
    "is_same_size": is_same_size,
    "__len__": length,
    "data_ptr": data_ptr,
    "item": item,
    "tolist": tolist,
    "__bool__": truth,
    "__int__": as_int,
    "__float__": as_float,
    "__complex__": as_complex,
    "__index__": as_index,
    "__contains__": contains,
    "__invert__": invert,
    "numpy": no_array,
    "__array__": no_array,
    "__dlpack__": no_dlpack,
    "data.__get__": shown_data,
    "data.__set__": set_data,
    "__getitem__": getitem,
    "__setitem__": setitem,
}
FUNCTIONS = {"tensor": tensor, "as_tensor": as_tensor, "Tensor": legacy_tensor, "from_numpy": lifted}
