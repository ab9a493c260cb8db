"""Calls of classes: builtin types, classes of the user, exceptions; and classes made in captured code."""

from __future__ import annotations

import collections
import enum
import functools
import operator
import types
import weakref
from typing import TYPE_CHECKING, Any

import tocha
from tocha._core.library_name import ours
from tocha._dynamo import draws, leaves, operators, polyfills, wrappers
from tocha._dynamo.native_calls import CALLS, call_polyfill
from tocha._dynamo.refusals import Forbidden, Unsupported
from tocha._dynamo.values import cached
from tocha._dynamo.values.base import Value
from tocha._dynamo.values.constant import Constant
from tocha._dynamo.values.containers import (
    DequeValue,
    ListValue,
    NamedTupleValue,
    RangeValue,
    SizeValue,
    SliceValue,
    TupleValue,
)
from tocha._dynamo.values.exceptions import ExceptionValue
from tocha._dynamo.values.functions import CellValue, MethodValue, PartialValue
from tocha._dynamo.values.mappings import DictValue, SetValue, pairs_of
from tocha._dynamo.values.objects import MISSING, ClassValue, ObjectValue, SuperValue, find_in_class, in_python
from tocha._dynamo.values.subclasses import BASES, ContainerObject, base_of, empty, is_tuple_class
from tocha._dynamo.values.symbol import SymbolValue, number_call, symbolic_result
from tocha._dynamo.values.tensor import TensorValue
from tocha._dynamo.values.weak import make_reference
from tocha._tensor import types as tensor_types

if TYPE_CHECKING:
    from tocha._dynamo.frame import Frame


def call_class(f: Frame, cls: ClassValue, args: list[Value], kwargs: dict[str, Value]) -> Value:
    args = [a.realize() for a in args]
    kwargs = {k: v.realize() for k, v in kwargs.items()}
    if id(cls.value) in leaves.FORBIDDEN:
        raise Forbidden(f"Attempt to trace forbidden callable {cls.value}")
    if cls.value in TYPES:
        return f.handled(cls.value, TYPES[cls.value], args, kwargs)
    if cls.value in CALLS:
        return f.handled(cls.value, CALLS[cls.value], args, kwargs)
    if cls.value in polyfills.TABLE:
        return call_polyfill(f, cls.value, args, kwargs)
    instead = find_in_class(type(cls.value), "__call__")[0]
    if isinstance(instead, type):  # a TypedDict: calling it calls dict
        return call_class(f, f.wrap_known(instead), args, kwargs)  # type: ignore[arg-type]
    custom = f.class_function(type(cls.value), "__call__")
    if custom is not None and not isinstance(cls.value, enum.EnumMeta):
        return custom.call(f, [cls, *args], kwargs)
    return construct(f, cls, args, kwargs)


def construct(f: Frame, cls: ClassValue, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """type.__call__: __new__, then __init__."""
    real = cls.value
    if issubclass(real, BaseException):
        return _exception(f, cls, args, kwargs)
    if issubclass(real, enum.Enum) or real.__module__ == "numpy":
        return f.fold(real, args, kwargs)
    if issubclass(real, tuple) and hasattr(real, "_fields") and not _has_own_maker(real):
        return _named_tuple(f, cls, args, kwargs)
    if is_tuple_class(real) and not _has_own_maker(real) and len(args) < 2 and not kwargs:
        return NamedTupleValue(real, args[0].unpack(f) if args else [])
    if real is draws.random.Random and not kwargs and (generator := draws.made_of(args)) is not None:
        return generator
    if wrappers.is_kind(real):
        return wrappers.make(f, real, args, kwargs)
    new, holder = find_in_class(real, "__new__")
    if isinstance(new, (staticmethod, types.FunctionType)):
        function = getattr(new, "__func__", new)
        made = f.wrap(function, f.class_source(real, holder, "__new__", new)).call(f, [cls, *args], kwargs)
        if real not in made.python_type().__mro__:  # whatever the metaclass says of it
            return made
    elif issubclass(real, tocha.Tensor) and len(args) == 1 and isinstance(args[0], TensorValue):
        made = args[0].as_class(real)
    elif holder is object:
        if not in_python(real):
            raise Unsupported("value", f"an object of type {real.__name__}")
        made = new_object(f, real)
    elif base_of(real) is not None and holder in (*BASES, collections.OrderedDict):
        made = new_object(f, real)
    elif _is_constant_maker(real):
        return f.fold(real, args, kwargs)
    else:
        raise Unsupported("value", f"a new object of type {real.__module__}.{real.__qualname__}")
    init, init_holder = find_in_class(real, "__init__")
    if isinstance(made, ContainerObject) and not isinstance(init, types.FunctionType):
        made.native(f, "__init__", args, kwargs)
    elif isinstance(init, types.FunctionType):
        f.wrap(init, f.class_source(real, init_holder, "__init__", init)).call(f, [made, *args], kwargs)
    elif init is object.__init__ and holder is object and (args or kwargs):
        f.raise_(TypeError, f"{real.__name__}() takes no arguments")
    return made


def _is_constant_maker(real: type) -> bool:
    return real in (tocha.device, bytes, complex, bytearray) or ours(real.__module__) in ("tocha._C",)


def new_object(f: Frame, real: type) -> ObjectValue:
    base = base_of(real)
    if base is not None and real is not base and not issubclass(real, collections.defaultdict):
        return ContainerObject(real, empty(base), new=True)
    if find_in_class(real, "__del__")[0] is not MISSING:
        raise Unsupported("value", f"a new object of type {real.__name__}, which says when it dies")
    if issubclass(real, (int, float, str, bytes, list, dict, tuple, set)):
        raise Unsupported("value", f"a new object of type {real.__name__}, a subclass of a builtin type")
    if getattr(real, "__abstractmethods__", None):
        names = ", ".join(sorted(real.__abstractmethods__))  # type: ignore[attr-defined]
        f.raise_(TypeError, f"Can't instantiate abstract class {real.__name__} with abstract method{'s' * (len(real.__abstractmethods__) > 1)} {names}")  # type: ignore[attr-defined]  # fmt: skip
    return ObjectValue(real, None, new=True)


def _exception(f: Frame, cls: ClassValue, args: list[Value], kwargs: dict[str, Value]) -> Value:
    new, holder = find_in_class(cls.value, "__new__")
    if isinstance(new, staticmethod):
        made = f.wrap(new.__func__, f.class_source(cls.value, holder, "__new__", new)).call(f, [cls, *args], kwargs)
        if not issubclass(made.python_type(), cls.value):
            return made
        assert isinstance(made, ExceptionValue)
    else:
        made = ExceptionValue(cls.value, list(args))
    init = f.class_function(cls.value, "__init__")
    made.initialize(f, args, kwargs, complete=init is None)
    if init is not None:
        init.call(f, [made, *args], kwargs)
    return made


def new_exception(f: Frame, cls: type, args: list[Value], kwargs: dict[str, Value]) -> ExceptionValue:
    """BaseException.__new__ and its kin."""
    made = ExceptionValue(cls, list(args))
    made.initialize(f, args, kwargs, complete=False)
    return made


def _has_own_maker(cls: type) -> bool:
    """Does a class of named tuples say itself what its objects are made of? Else namedtuple's own __new__ takes the fields."""
    new, holder = find_in_class(cls, "__new__")
    written = isinstance(new, (staticmethod, types.FunctionType)) and "_make" not in vars(holder)
    return written or isinstance(find_in_class(cls, "__init__")[0], types.FunctionType)


def _named_tuple(f: Frame, cls: ClassValue, args: list[Value], kwargs: dict[str, Value]) -> Value:
    real: Any = cls.value
    fields, defaults = real._fields, getattr(real, "_field_defaults", {})
    given = dict(zip(fields, args))
    given.update(kwargs)
    if len(args) > len(fields) or any(k not in fields for k in kwargs):
        f.raise_(TypeError, f"{cls.value.__name__}.__new__() got arguments that it does not take")
    for name in fields:
        if name not in given:
            if name not in defaults:
                f.raise_(TypeError, f"{cls.value.__name__}.__new__() missing 1 required positional argument: '{name}'")
            given[name] = f.wrap_known(defaults[name])
    return NamedTupleValue(cls.value, [given[n] for n in fields])


# ---- builtin types


def _list(f: Frame, items: Value | None = None, /) -> Value:
    return ListValue(items.unpack(f) if items else [])


def _tuple(f: Frame, items: Value | None = None, /) -> Value:
    if type(items) is TupleValue:
        return items
    return TupleValue(items.unpack(f) if items else [])


def _size(f: Frame, items: Value | None = None, /) -> Value:
    return SizeValue([i.realize() for i in items.unpack(f)] if items else [])


def _dict(f: Frame, /, *items: Value, **named: Value) -> Value:
    made = DictValue({})
    for other in items:
        for k, v in pairs_of(f, other):
            made.put(f, k.realize(), v)
    for name, value in named.items():
        made.put(f, Constant(name), value)
    return made


def _ordered_dict(f: Frame, /, *items: Value, **named: Value) -> Value:
    made = _dict(f, *items, **named)
    made.cls = collections.OrderedDict  # type: ignore[attr-defined]
    return made


def _default_dict(f: Frame, factory: Value | None = None, /, *items: Value, **named: Value) -> Value:
    made = _dict(f, *items, **named)
    made.cls = collections.defaultdict  # type: ignore[attr-defined]
    none = factory is None or (isinstance(factory, Constant) and factory.value is None)
    made.factory = None if none else factory  # type: ignore[attr-defined]
    return made


def _set(f: Frame, items: Value | None = None, /) -> Value:
    return SetValue.of(f, items.unpack(f) if items else [])


def _frozenset(f: Frame, items: Value | None = None, /) -> Value:
    return SetValue.of(f, items.unpack(f) if items else [], frozenset)


def _deque(f: Frame, iterable: Value | None = None, maxlen: Value | None = None) -> Value:
    return DequeValue(iterable.unpack(f) if iterable else [], maxlen.constant() if maxlen else None)


def _range(f: Frame, *bounds: Value) -> Value:
    return RangeValue(range(*(f.index(b) for b in bounds)))


def _slice(f: Frame, *parts: Value) -> Value:
    if not 0 < len(parts) < 4:
        return f.fold(slice, list(parts), {})
    if len(parts) == 1:
        parts = (Constant(None), *parts)
    return SliceValue([*parts, *[Constant(None)] * (3 - len(parts))])


def _number(kind: type) -> Any:
    def make(f: Frame, value: Value | None = None, *rest: Value, **kwargs: Value) -> Value:
        if value is None:
            return f.fold(kind, [], kwargs)
        if isinstance(value, TensorValue):
            value = value.call_method(f, "item", [], {})
        number = symbolic_result(f, kind, [value, *rest]) if not kwargs else None
        if number is not None:
            return number
        if isinstance(value, ObjectValue):
            for method, of in _CONVERSIONS[kind].items():
                if value.has_method(method):
                    return _converted(f, kind, value, method, of)
        return f.fold(kind, [value, *rest], kwargs)

    return make


_CONVERSIONS: dict[type, dict[str, type]] = {
    int: {"__int__": int, "__index__": int},
    float: {"__float__": float, "__index__": int},
    complex: {"__complex__": complex, "__float__": float, "__index__": int},
}


def _converted(f: Frame, kind: type, value: ObjectValue, method: str, of: type) -> Value:
    """What an object says that it is, as a number of this kind: float(o) is a float where o has an __index__ alone."""
    said = value.special(f, method, [], {}).realize()
    if not issubclass(said.python_type(), of):
        spoken = f"{value.cls.__name__}.{method}" if method == "__float__" else method
        f.raise_(TypeError, f"{spoken} returned non-{of.__name__} (type {said.python_type().__name__})")
    if said.python_type() is kind:
        return said
    return symbolic_result(f, kind, [said]) or f.fold(kind, [said], {})


def _bool(f: Frame, value: Value | None = None, /) -> Value:
    if isinstance(value, TensorValue) and value.cls is None and value.known_truth() is None and f.out.env.allow_scalar_outputs and value.fact.numel() == 1:  # fmt: skip
        if value.fact.dtype is not tocha.bool:
            value = f.out.call(f, "call_function", operator.ne, [value, Constant(0)], {})
        return value.call_method(f, "item", [], {})
    if isinstance(value, SymbolValue) and value.fact.env.hint(value.fact.expr) is None:
        return value if value.python_type() is bool else number_call(f, operator.ne, [value, Constant(0)])
    return Constant(value is not None and value.truth(f))


def _str(f: Frame, value: Value | None = None, *rest: Value) -> Value:
    if value is None:
        return Constant("")
    return f.fold(str, [value, *rest], {}) if rest else Constant(operators.to_text(f, value, "s"))


def _type(f: Frame, *args: Value) -> Value:
    if len(args) != 1:
        raise Unsupported("class_body", "type() with three arguments")
    value = args[0]
    return f.wrap_class_of(value) if isinstance(value, ObjectValue) else f.wrap_known(value.python_type())


def _super(f: Frame, cls: Value | None = None, owner: Value | None = None) -> Value:
    if cls is None:
        held = f.cells.get("__class__")
        if held is None or held.contents is None or not f.code.co_argcount:
            f.raise_(RuntimeError, "super(): no arguments")
        cls = held.contents.realize()
        name = f.code.co_varnames[0]
        owner = f.locals[name] if name in f.locals else f.cells[name].contents
    assert owner is not None
    return SuperValue(cls.constant(), owner.realize())


def _object(f: Frame) -> Value:
    return ObjectValue(object, None, new=True)


def _partial(f: Frame, function: Value, /, *args: Value, **kwargs: Value) -> Value:
    if isinstance(function, PartialValue):
        return PartialValue(function.function, [*function.args, *args], {**function.kwargs, **kwargs})
    return PartialValue(function, list(args), kwargs)


def _method(f: Frame, function: Value, owner: Value) -> Value:
    return MethodValue(function, owner)


def _cell(f: Frame, contents: Value | None = None) -> Value:
    return CellValue(contents)


def _mapping_proxy(f: Frame, mapping: Value) -> Value:
    if not isinstance(mapping, DictValue):
        raise Unsupported("value", f"a mappingproxy of {mapping.describe()}")
    mapping.settle_keys(f)
    return DictValue(mapping.entries, types.MappingProxyType)


def _namespace(f: Frame, **attributes: Value) -> Value:
    made = ObjectValue(types.SimpleNamespace, None, new=True)
    made.written.update(attributes)
    return made


def _old_tensor(f: Frame, *args: Value, **kwargs: Value) -> Value:
    return f.inline(f.wrap_known(_of_old), list(args), kwargs)  # type: ignore[arg-type]


def _of_old(*args, **kwargs):
    """Tensor(2, 3), Tensor([1, 2]); traced."""
    return tensor_types.construct_default(args, kwargs)


TYPES: dict[Any, Any] = {
    tocha.Tensor: _old_tensor,
    types.SimpleNamespace: _namespace,
    list: _list,
    tuple: _tuple,
    tocha.Size: _size,
    dict: _dict,
    collections.OrderedDict: _ordered_dict,
    collections.defaultdict: _default_dict,
    set: _set,
    frozenset: _frozenset,
    collections.deque: _deque,
    range: _range,
    slice: _slice,
    int: _number(int),
    float: _number(float),
    complex: _number(complex),
    bool: _bool,
    str: _str,
    type: _type,
    super: _super,
    object: _object,
    functools.partial: _partial,
    functools._lru_cache_wrapper: cached.make,
    types.MethodType: _method,
    types.CellType: _cell,
    weakref.ref: make_reference,
    types.MappingProxyType: _mapping_proxy,
}


# ---- classes made in captured code


def make_class(f: Frame, body: Value, name: Value, bases: list[Value], kwargs: dict[str, Value]) -> Value:
    raise Unsupported("class_body", f"class {name.constant()}")
