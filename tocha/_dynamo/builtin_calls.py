"""Calls of native functions: what the tracer knows how to do itself, what a polyfill does, what folds, what is a node."""

from __future__ import annotations

import builtins
import collections
import copyreg
import functools
import logging
import math
import operator
import re
import sys
import types
import typing
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import tocha
from tocha import _C, _utils
from tocha._core.library_name import ours
from tocha._dynamo import config, draws, leaves, modes, operators, polyfills
from tocha._dynamo.build import is_numpy_function
from tocha._dynamo.construct import construct, make_class, new_exception, new_object
from tocha._dynamo.native_calls import CALLS, call_polyfill, known
from tocha._dynamo.refusals import Forbidden, Unsupported
from tocha._dynamo.resume import cells_of, original
from tocha._dynamo.source import Source
from tocha._dynamo.values.array import ArrayValue
from tocha._dynamo.values.base import NotConstant, Observed, Value
from tocha._dynamo.values.constant import Constant
from tocha._dynamo.values.containers import Container, ListValue, NamedTupleValue, TupleValue
from tocha._dynamo.values.exceptions import ExceptionValue
from tocha._dynamo.values.functions import BuiltinValue, FunctionValue, MethodValue
from tocha._dynamo.values.mappings import DictValue
from tocha._dynamo.values.native_method import NativeMethod
from tocha._dynamo.values.objects import MISSING, ClassValue, Identity, InstanceDict, ObjectValue, find_in_class
from tocha._dynamo.values.scopes import GlobalsValue
from tocha._dynamo.values.subclasses import ContainerObject, is_tuple_class
from tocha._dynamo.values.symbol import SymbolValue, symbolic_result
from tocha._dynamo.values.tensor import TensorValue
from tocha._dynamo.values.weak import ProxyValue
from tocha.autograd import _record_function

if TYPE_CHECKING:
    from tocha._dynamo.frame import Frame

# Modules whose native functions are pure: calls on constants are made while capturing.
_PURE = ("builtins", "math", "cmath", "operator", "_operator", "unicodedata", "binascii", "zlib", "_struct", "re", "itertools", "_bisect", "_functools", "_collections", "time_", "_string", "typing", "_abc", "numbers", "_sre")  # fmt: skip


def _hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def call_builtin(f: Frame, function: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
    args = [a.realize() for a in args]
    kwargs = {k: v.realize() for k, v in kwargs.items()}
    hashable = _hashable(function)
    _check_marks(function)
    if hashable:
        logged = log_call(f, function, BuiltinValue(function), args, kwargs)
        if logged is not None:
            return logged
    if hashable and any(isinstance(a, SymbolValue) for a in args) and not kwargs:
        number = symbolic_result(f, function, args)
        if number is not None:
            return number
    if hashable and function in CALLS:
        return f.handled(function, CALLS[function], args, kwargs)
    if hashable and function in polyfills.TABLE:
        return call_polyfill(f, function, args, kwargs)
    if type(function).__module__.startswith("numpy") or is_numpy_function(function):
        from tocha._dynamo import arrays

        return arrays.call(f, function, args, kwargs)
    if isinstance(function, _C._capture.Wrapper):
        raise Unsupported(
            "disabled", f"Skip calling `torch.compiler.disable()`d function: {function!r}{_why(function)}"
        )
    if isinstance(function, (types.MethodDescriptorType, types.WrapperDescriptorType, types.GetSetDescriptorType)):
        return _descriptor(f, function, args, kwargs)
    if leaves.is_operator(function):
        return f.out.call(f, "call_function", getattr(function, "_opoverload", function), args, kwargs)
    if leaves.is_leaf(function) or _module_of(function).split(".")[0] == "tocha":
        return _library(f, function, args, kwargs)
    if isinstance(function, types.MethodWrapperType):
        if isinstance(function.__self__, types.MemberDescriptorType):
            return _slot(f, function, args)
        if args and isinstance(args[0].realize(), TensorValue) and isinstance(function.__self__, types.GetSetDescriptorType):  # fmt: skip
            return args[0].realize().get_attribute(f, function.__self__.__name__)
        owner = f.wrap_known(function.__self__)
        if isinstance(owner, BuiltinValue):
            return f.fold(function, args, kwargs)
        return owner.call_method(f, function.__name__, args, kwargs)
    if _is_fromkeys(function):
        return f.checked(_fromkeys, f, function.__self__, *args, **kwargs)
    if _module_of(function) in _PURE or isinstance(getattr(function, "__self__", None), type):
        return f.fold(function, args, kwargs)
    raise Unsupported("builtin", f"{_module_of(function)}.{getattr(function, '__qualname__', function)}")


def _is_fromkeys(function: Any) -> bool:
    """dict.fromkeys, of dict itself or of a class derived from it."""
    owner = getattr(function, "__self__", None)
    return getattr(function, "__name__", "") == "fromkeys" and isinstance(owner, type) and issubclass(owner, dict)


def _fromkeys(f: Frame, cls: type, keys: Value, value: Value | None = None, /) -> Value:
    made = f.wrap_known(cls).call(f, [], {}).realize()
    for key in keys.unpack(f):
        made.set_item(f, key.realize(), value or Constant(None))
    return made


class LoggedCall(Value):
    """A call of a logging function, made after the graph has run."""

    new = False  # it happens, whoever asks for it

    def __init__(self, function: Value, args: list[Value], kwargs: dict[str, Value]) -> None:
        self.function, self.args, self.kwargs = function, args, kwargs

    def parts(self) -> list[Value]:
        return [*self.args, *self.kwargs.values()]

    def reconstruct(self, cg: Any) -> None:
        cg.load_constant(None)

    def apply(self, cg: Any) -> None:
        cg.call_values(self.function, self.args, self.kwargs)
        cg.emit("POP_TOP")


def log_call(f: Frame, real: Any, function: Value, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    """What config.ignore_logging_functions and config.reorderable_logging_functions say of a call; None: nothing."""
    if _is_among(config.ignore_logging_functions, real, args):
        return Constant(None)
    if not _is_among(config.reorderable_logging_functions, real, args):
        return None
    f.out.effects.add(LoggedCall(function, args, kwargs))
    return Constant(None)


def _is_among(functions: set[Any], real: Any, args: list[Value]) -> bool:
    """Also a method of an object: `logger.warning`."""
    if not functions or real in functions:
        return bool(functions)
    owner = getattr(args[0].realize(), "real", None) if args else None
    return any(isinstance(g, types.MethodType) and g.__func__ is real and g.__self__ is owner for g in functions)


def _why(function: Any) -> str:
    said = getattr(function, "_torchdynamo_disable_msg", None)
    return f" ({said})" if said else ""


def _check_marks(function: Any) -> None:
    """disallow_in_graph and forbid_in_graph."""
    if id(function) in leaves.FORBIDDEN:
        raise Forbidden(f"Attempt to trace forbidden callable {function}")
    if id(function) in leaves.DISALLOWED:
        raise Unsupported("disallowed", f"{_module_of(function)}.{getattr(function, '__qualname__', function)}")


def _slot(f: Frame, function: Any, args: list[Value]) -> Value:
    """Cls.slot.__set__(obj, value) and __get__."""
    owner, name = args[0], function.__self__.__name__
    if not isinstance(owner, ObjectValue) or function.__name__ not in ("__get__", "__set__"):
        raise Unsupported("builtin", f"{function.__name__} of a slot")
    if function.__name__ == "__set__":
        f.out.effects.add(owner)
        owner.written[name] = args[1]
        return Constant(None)
    found = owner.slot(f, name)
    if found is None:
        f.raise_(AttributeError, name)
    return found


def _module_of(function: Any) -> str:
    return ours(getattr(function, "__module__", None))


def _descriptor(f: Frame, function: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """str.join(", ", items), list.append(items, x), object.__setattr__(self, ...): the method of that class."""
    if not args:
        f.raise_(TypeError, f"unbound method {function.__qualname__}() needs an argument")
    owner, rest, name, cls = args[0], args[1:], function.__name__, function.__objclass__
    drawn = draws.name_of(function)
    if drawn is not None:
        return draws.draw(f, drawn, owner, rest)
    if isinstance(owner, ContainerObject) and cls is not object:
        return owner.native(f, name, rest, kwargs)
    if cls is object or cls is type:
        return _of_object(f, owner, name, rest, kwargs)
    if isinstance(owner, ExceptionValue) and name == "__init__":
        owner.initialize(f, rest, kwargs)
        return Constant(None)
    if isinstance(owner, ObjectValue) and not isinstance(owner, ExceptionValue):
        raise Unsupported("builtin", f"{cls.__name__}.{name} of {owner.describe()}")
    if isinstance(owner, ExceptionValue):
        if name in ("__str__", "__repr__"):
            return Constant(operators.exception_text(f, owner, name))
        if name in ("add_note", "with_traceback"):
            return owner.call_method(f, name, rest, kwargs)
        raise Unsupported("builtin", f"{cls.__name__}.{name}")
    if isinstance(owner, TensorValue) and owner.special(f, name) is not None:
        return owner.native(f, name, rest, kwargs)
    if isinstance(owner, Container) and hasattr(owner, f"m_{name}"):
        return f.checked(getattr(owner, f"m_{name}"), f, *rest, **kwargs)
    return owner.call_method(f, name, rest, kwargs)


def _of_object(f: Frame, owner: Any, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """Methods that every object inherits, called past what its class defines."""
    if name == "__init__":
        return Constant(None)
    if name == "__getattribute__" and isinstance(owner, ObjectValue):
        found = owner.plain_attribute(f, args[0].constant())
        if found is None:
            f.raise_(AttributeError, f"'{owner.cls.__name__}' object has no attribute '{args[0].constant()}'")
        return found
    if name == "__setattr__" and isinstance(owner, ObjectValue):
        owner.plain_set(f, args[0].constant(), args[1])
        return Constant(None)
    if name == "__delattr__" and isinstance(owner, ObjectValue):
        owner.plain_delete(f, args[0].constant())
        return Constant(None)
    if name == "__eq__":
        return Constant(True if operators.are_one(f, owner, args[0]) else NotImplemented)
    if (
        name == "__ne__"
        and isinstance(owner, ObjectValue)
        and find_in_class(owner.cls, "__eq__")[0] is not object.__eq__
    ):
        equal = owner.special(f, "__eq__", args, {})
        return equal if equal.is_constant() and equal.constant() is NotImplemented else Constant(not equal.truth(f))
    if name == "__ne__":
        return Constant(False if operators.are_one(f, owner, args[0]) else NotImplemented)
    if name in ("__reduce_ex__", "__reduce__") and type(owner) is ObjectValue:
        state = owner.state(f).as_dict(f)  # type: ignore[attr-defined]
        new = TupleValue([f.wrap_class_of(owner)])
        return TupleValue([f.wrap_known(copyreg.__newobj__), new, state if state.entries else Constant(None), Constant(None), Constant(None)])  # type: ignore[attr-defined]  # fmt: skip
    if name == "__init_subclass__" or name == "__subclasshook__":
        return Constant(None)
    if name == "__call__" and isinstance(owner, ClassValue):
        return construct(f, owner, args, kwargs)
    if name == "__format__":
        return Constant(operators.format_value(f, owner, args[0].constant()))
    if name in ("mro", "__instancecheck__", "__subclasscheck__") and isinstance(owner, ClassValue):
        if name == "mro":
            return f.wrap_known(list(owner.value.__mro__))
        return isinstance_(f, args[0], owner) if name == "__instancecheck__" else issubclass_(f, args[0], owner)
    raise Unsupported("builtin", f"object.{name} of {owner.describe()}")


def call_native_method(f: Frame, owner: Value, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """A native method that the tracked value does not implement: folds where all is constant."""
    cls = owner.python_type()
    if name == "__class_getitem__":
        raise Unsupported("builtin", name)
    for symbol, (_, method, reflected) in operators.BINARY.items():
        if name == method and len(args) == 1:
            return operators.binary(f, symbol, owner, args[0])
        if name == reflected and len(args) == 1:
            return operators.binary(f, symbol, args[0], owner)
    for symbol, (_, method, _other) in operators.COMPARE.items():
        if name == method:
            return operators.compare(f, symbol, owner, args[0])
    if name in ("__str__", "__repr__"):
        return Constant(operators.to_text(f, owner, name[2]))
    if name == "__hash__":
        return hash_(f, owner)
    if isinstance(find_in_class(cls, name)[0], (types.ClassMethodDescriptorType, staticmethod)):
        return f.fold(getattr(cls, name), args, kwargs)
    return f.fold(getattr(cls, name), [owner, *args], kwargs)


# ---- the library


_STATE = {"manual_seed", "seed", "set_rng_state", "set_default_dtype", "set_num_threads", "use_deterministic_algorithms", "set_printoptions", "set_default_device", "save", "load"}  # fmt: skip


_DUALS = ("_enter_dual_level", "_exit_dual_level", "_make_dual", "_unpack_dual")


def _library(f: Frame, function: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
    name = getattr(function, "__name__", "")
    if name in modes.SWITCHES:
        plain = [a.constant() for a in args]
        return f.wrap_known(f.out.switch(function, plain))
    if _module_of(function).startswith("tocha._functorch."):  # it works with levels, which facts know nothing of
        raise Unsupported("call", f"tocha.func.{name}")
    if name in _STATE or name.startswith("_set_"):
        raise Unsupported("library_state", f"tocha.{name}")
    if name in _DUALS:
        raise Unsupported("autograd", f"forward_ad: {name}")
    if name in ("backward", "grad") and "autograd" in _module_of(function):
        raise Unsupported("autograd", f"{_module_of(function)}.{name}")
    if args and function in (tocha.from_numpy, tocha.as_tensor, tocha.asarray, tocha.tensor):
        from tocha._dynamo import arrays

        if arrays.has_array(args[0]):
            return arrays.to_tensor(f, function, args[0].realize(), args[1:], kwargs)
    result = f.out.call(f, "call_function", function, args, kwargs)
    if not args and not kwargs and not modes.holds(name) and result.is_constant():
        f.out.guards.add_setting(function, result.constant())
    return result


# ---- what the tracer does itself


@known(builtins.print)
def print_(f: Frame, /, *args: Value, **kwargs: Value) -> Value:
    raise Unsupported("print", "print()")


@known(warnings.warn)
def warn(f: Frame, /, *args: Value, **kwargs: Value) -> Value:
    raise Unsupported("print", "warnings.warn()")


@known(builtins.len)
def len_(f: Frame, value: Value) -> Value:
    if isinstance(value, TensorValue) and value.fact.ndim and value.cls is None:
        return f.out.sizes(f, value)[0]
    return Constant(value.length(f))


@known(operator.length_hint)
def length_hint(f: Frame, value: Value, default: Value | None = None) -> Value:
    if value.has_method("__len__"):
        return Constant(value.length(f))
    if value.has_method("__length_hint__"):
        return value.call_method(f, "__length_hint__", [], {})
    value.refuse("builtin", "length_hint")


def _classes(f: Frame, spec: Value) -> Any:
    spec = spec.realize()
    if type(spec) is TupleValue:
        return tuple(_classes(f, s) for s in spec.items)
    if isinstance(spec, ObjectValue) and spec.cls.__module__ == "typing" and not spec.new:  # typing.Mapping
        if spec.source is not None:
            f.out.guards.add(spec.source, "same", spec.real)
        return spec.real
    try:
        return spec.constant()
    except NotConstant:
        raise Unsupported("builtin", "isinstance with an unknown class") from None


@known(builtins.isinstance)
def isinstance_(f: Frame, value: Value, spec: Value) -> Value:
    classes = _classes(f, spec)
    if isinstance(value, ProxyValue) and not issubclass(value.cls, classes):
        return isinstance_(f, value.referent.realize(), spec)
    if isinstance(value, TensorValue):
        if value.cls is not None:
            return f.fold_real(issubclass, [value.cls, classes], {})
        return f.fold_real(isinstance, [value.real if value.real is not None else value.fact, classes], {})
    if isinstance(value, SymbolValue):
        return f.fold_real(issubclass, [value.python_type(), classes], {})
    real = value.constant() if value.is_constant() else getattr(value, "real", None)
    if real is not None and not getattr(value, "new", False) and not isinstance(value, Container):
        return f.fold_real(isinstance, [real, classes], {})
    return f.fold_real(issubclass, [value.python_type(), classes], {})


@known(builtins.issubclass)
def issubclass_(f: Frame, value: Value, spec: Value) -> Value:
    return f.fold_real(issubclass, [value.constant(), _classes(f, spec)], {})


@known(builtins.callable)
def callable_(f: Frame, value: Value) -> Value:
    if isinstance(value, (FunctionValue, MethodValue, BuiltinValue, ClassValue, NativeMethod)):
        return Constant(True)
    return Constant(find_in_class(value.python_type(), "__call__")[0] is not MISSING)


@known(builtins.getattr)
def getattr_(f: Frame, value: Value, name: Value, *default: Value) -> Value:
    try:
        return value.get_attribute(f, name.constant())
    except Observed as raised:
        if not default or not raised.value.is_a(AttributeError):
            raise
        return default[0]


@known(builtins.hasattr)
def hasattr_(f: Frame, value: Value, name: Value) -> Value:
    try:
        value.get_attribute(f, name.constant())
    except Observed as raised:
        if not raised.value.is_a(AttributeError):
            raise
        return Constant(False)
    return Constant(True)


@known(builtins.setattr)
def setattr_(f: Frame, value: Value, name: Value, new: Value) -> Value:
    value.set_attribute(f, name.constant(), new)
    return Constant(None)


@known(builtins.delattr)
def delattr_(f: Frame, value: Value, name: Value) -> Value:
    value.delete_attribute(f, name.constant())
    return Constant(None)


@known(builtins.iter)
def iter_(f: Frame, value: Value, *sentinel: Value) -> Value:
    if sentinel:
        return f.inline(f.wrap_known(_until), [value, *sentinel], {})  # type: ignore[arg-type]
    return value.iterate(f)


def _until(function, sentinel):
    while True:
        value = function()
        if value == sentinel:
            return
        yield value


@known(builtins.next)
def next_(f: Frame, value: Value, *default: Value) -> Value:
    try:
        return value.next(f)
    except Observed as raised:
        if not default or not raised.value.is_a(StopIteration):
            raise
        return default[0]


@known(builtins.sorted)
def sorted_(f: Frame, items: Value, *, key: Value | None = None, reverse: Value | None = None) -> Value:
    return ListValue(operators.sort(f, items.unpack(f), key, reverse is not None and reverse.truth(f)))


@known(builtins.reversed)
def reversed_(f: Frame, value: Value) -> Value:
    if isinstance(value, Container) and hasattr(value, "m___reversed__"):
        return value.m___reversed__(f)
    if isinstance(value, InstanceDict):
        return value.as_dict(f).m___reversed__(f)
    if isinstance(value, ObjectValue) and value.has_method("__reversed__"):
        return value.special(f, "__reversed__", [], {})
    if isinstance(value, TensorValue):
        return ListValue(value.unpack(f)[::-1]).iterate(f)
    if value.has_method("__getitem__"):
        items = [value.item(f, Constant(i)) for i in range(value.length(f))]
        return ListValue(items[::-1]).iterate(f)
    f.raise_(TypeError, f"'{value.python_type().__name__}' object is not reversible")


@known(builtins.repr)
def repr_(f: Frame, value: Value) -> Value:
    return Constant(operators.to_text(f, value, "r"))


@known(builtins.format)
def format_(f: Frame, value: Value, spec: Value | None = None) -> Value:
    return Constant(operators.format_value(f, value, spec.constant() if spec else ""))


@known(builtins.hash)
def hash_(f: Frame, value: Value) -> Value:
    if value.is_constant():
        return f.fold(hash, [value], {})
    if isinstance(value, ObjectValue) and isinstance(find_in_class(value.cls, "__hash__")[0], types.FunctionType):
        return value.special(f, "__hash__", [], {})
    if isinstance(value, SymbolValue):
        return Constant(hash(value.constant()))
    if type(value) in (TupleValue, NamedTupleValue) and find_in_class(value.python_type(), "__hash__")[1] is tuple:
        return Constant(hash(tuple(_Hashed(hash_(f, i.realize()).constant()) for i in value.unpack(f))))
    raise Unsupported("hash", f"hash() of {value.describe()}")


class _Hashed:
    """Stands for an item whose hash is known."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __hash__(self) -> int:
        return self.number


@known(builtins.id)
def id_(f: Frame, value: Value) -> Value:
    real = getattr(value, "real", None)
    if real is None:
        real = getattr(value, "value", None)
    if real is not None and not getattr(value, "new", False):
        if isinstance(value, TensorValue | ArrayValue):
            if value.source is None:
                return Identity(value)
            f.out.guards.add(value.source.call(id), "constant", id(real))  # keeps it not alive
        elif value.source is not None:
            f.out.guards.add(value.source, "same", real)
        return Constant(id(real))
    return Identity(value)


@known(builtins.vars)
def vars_(f: Frame, value: Value | None = None) -> Value:
    if value is None:
        return locals_(f)
    return value.get_attribute(f, "__dict__")


@known(builtins.abs)
def abs_(f: Frame, value: Value) -> Value:
    if isinstance(value, TensorValue):
        return f.out.call(f, "call_function", abs, [value], {})
    if value.is_constant():
        return f.fold(abs, [value], {})
    if not value.has_method("__abs__"):
        f.raise_(TypeError, f"bad operand type for abs(): '{value.python_type().__name__}'")
    return value.call_method(f, "__abs__", [], {})


@known(builtins.round)
def round_(f: Frame, number: Value, ndigits: Value | None = None) -> Value:
    given = [number, *([ndigits] if ndigits else [])]
    if isinstance(number, TensorValue):
        return f.out.call(f, "call_function", round, given, {})
    if isinstance(number, ObjectValue) and number.has_method("__round__"):
        return number.special(f, "__round__", given[1:], {})
    return f.fold(round, given, {})


@known(builtins.divmod)
def divmod_(f: Frame, a: Value, b: Value) -> Value:
    if a.is_constant() and b.is_constant():
        return f.fold(divmod, [a, b], {})
    a, b = a.realize(), b.realize()
    for owner, name, other in ((a, "__divmod__", b), (b, "__rdivmod__", a)):
        if isinstance(owner, ObjectValue) and owner.has_method(name):
            return owner.call_method(f, name, [other], {})
    return TupleValue([operators.binary(f, "//", a, b), operators.binary(f, "%", a, b)])


@known(builtins.pow)
def pow_(f: Frame, a: Value, b: Value, modulus: Value | None = None) -> Value:
    if modulus is not None:
        return f.fold(pow, [a, b, modulus], {})
    return operators.binary(f, "**", a, b)


def _extremum(function: Any) -> Callable:
    def call(f: Frame, /, *args: Value, **kwargs: Value) -> Value:
        if len(args) == 1 and not kwargs:
            args = (TupleValue([i.realize() for i in args[0].unpack(f)]),)
            number = symbolic_result(f, function, args[0].items)  # type: ignore[attr-defined]
            if number is not None:
                return number
        return call_polyfill(f, function, list(args), kwargs)

    return call


known(builtins.max)(_extremum(max))
known(builtins.min)(_extremum(min))


@known(builtins.globals)
def globals_(f: Frame) -> Value:
    return f.out.memo.setdefault(id(f.globals), (f.globals, GlobalsValue(f.globals)))[1]


@known(builtins.locals)
def locals_(f: Frame) -> Value:
    made = DictValue({})
    code = original(f.code)
    for name in (*code.co_varnames, *cells_of(code)):
        value = f.cells[name].contents if name in f.cells else f.locals.get(name)
        if value is not None:
            made.put(f, Constant(name), value.realize())
    return made


def _operator(symbol: str, table: dict, inplace: bool = False) -> Callable:
    def call(f: Frame, a: Value, b: Value) -> Value:
        return operators.binary(f, symbol, a, b, inplace) if table is not operators.COMPARE else operators.compare(f, symbol, a, b)  # fmt: skip

    return call


for _symbol, (_function, *_) in operators.BINARY.items():
    CALLS[_function] = _operator(_symbol, operators.BINARY)
for _symbol, (_function, *_) in operators.INPLACE.items():
    CALLS[_function] = _operator(_symbol, operators.INPLACE, inplace=True)
for _symbol, (_function, *_) in operators.COMPARE.items():
    CALLS[_function] = _operator(_symbol, operators.COMPARE)


CALLS[operator.neg] = lambda f, v: operators.unary(f, "-", v)
CALLS[operator.pos] = lambda f, v: operators.unary(f, "+", v)
CALLS[operator.invert] = lambda f, v: operators.unary(f, "~", v)
CALLS[operator.not_] = lambda f, v: Constant(not v.truth(f))
CALLS[operator.truth] = lambda f, v: Constant(v.truth(f))
CALLS[operator.is_] = lambda f, a, b: Constant(operators.is_(f, a, b))
CALLS[operator.is_not] = lambda f, a, b: Constant(not operators.is_(f, a, b))
CALLS[operator.getitem] = lambda f, a, b: a.item(f, b)
CALLS[operator.contains] = lambda f, a, b: Constant(f.contains(a, b))
CALLS[operator.index] = lambda f, a: Constant(f.index(a))


@known(operator.setitem)
def setitem(f: Frame, container: Value, key: Value, value: Value) -> Value:
    container.set_item(f, key, value)
    return Constant(None)


@known(operator.delitem)
def delitem(f: Frame, container: Value, key: Value) -> Value:
    container.delete_item(f, key)
    return Constant(None)


def _folded(function: Any) -> Callable:
    def call(f: Frame, value: Value) -> Value:
        if isinstance(value, TensorValue):
            value = value.call_method(f, "item", [], {})
        return symbolic_result(f, function, [value]) or f.fold(function, [value], {})

    return call


for _rounding in (math.sqrt, math.floor, math.ceil, math.trunc):
    CALLS[_rounding] = _folded(_rounding)


@known(builtins.__build_class__)
def build_class(f: Frame, body: Value, name: Value, /, *bases: Value, **kwargs: Value) -> Value:
    return make_class(f, body, name, list(bases), kwargs)


def _on_constants(function: Any) -> Callable:
    def call(f: Frame, /, *args: Value, **kwargs: Value) -> Value:
        return f.fold(function, list(args), kwargs)

    return call


for _matching in (re.match, re.search, re.fullmatch, re.sub, re.subn, re.split, re.findall, re.compile, re.escape):
    known(_matching)(_on_constants(_matching))


def nothing_is_handled(_: Any) -> bool:
    return sys.exc_info()[1] is None


@known(sys.exc_info)
def exc_info(f: Frame) -> Value:
    active = _handled(f)
    if active is None:
        return TupleValue([Constant(None)] * 3)
    return TupleValue([f.wrap_class_of(active), active, active.get_attribute(f, "__traceback__")])


@known(sys.exception)
def exception(f: Frame) -> Value:
    return _handled(f) or Constant(None)


def _handled(f: Frame) -> Any:
    """The exception being handled in captured code; that none is around it is guarded."""
    active = f.active_exception()
    if active is None:
        if sys.exc_info()[1] is not None:
            raise Unsupported("builtin", "sys.exc_info() while an exception is handled by callers")
        f.out.guards.add(Source("object", None, None, "the caller"), "holds", nothing_is_handled)
    return active


@known(collections.namedtuple)
def namedtuple(f: Frame, /, *args: Value, **kwargs: Value) -> Value:
    return f.fold(collections.namedtuple, list(args), kwargs)


class _Told(Value):
    """A call without arguments or result that the library of Python is told a change by, when changes are replayed."""

    def __init__(self, function: Callable) -> None:
        self.function, self.new = function, False

    def python_type(self) -> type:
        return type(None)

    def parts(self) -> list[Value]:
        return []

    def reconstruct(self, cg: Any) -> None:
        cg.load_constant(None)

    def apply(self, cg: Any) -> None:
        cg.start_call(self.function)
        cg.end_call(0, keep=False)


@known(warnings._filters_mutated)  # type: ignore[attr-defined]
def filters_mutated(f: Frame) -> Value:
    """The filters of warnings have changed: what was decided by them is forgotten."""
    f.out.effects.add(_Told(warnings._filters_mutated))  # type: ignore[attr-defined]
    return Constant(None)


@known(typing.cast)
def cast(f: Frame, kind: Value, value: Value) -> Value:
    return value


@known(tocha.is_tensor)
def is_tensor(f: Frame, value: Value) -> Value:
    return Constant(isinstance(value, TensorValue))


@known(tocha.is_grad_enabled)
def is_grad_enabled(f: Frame) -> Value:
    return Constant(_C.is_grad_enabled())


def register(graph_break: Any, is_compiling: Any) -> None:
    """The functions by which programs talk to capture itself."""

    def refuse(f: Frame, msg: Value | None = None, *args: Value, **kwargs: Value) -> Value:
        raise Unsupported(
            "graph_break", f"Call to `torch._dynamo.graph_break()`: graph_break({msg.constant() if msg else ''})"
        )

    known(graph_break)(refuse)
    known(is_compiling, _utils.is_compiling)(lambda f: Constant(True))
    known(_utils.is_captured)(lambda f: Constant(True))
    known(_C._profiler_is_recording)(lambda f: Constant(False))
    known(_C._profiler_is_watching)(lambda f: Constant(False))


@functools.cache  # said once
def say_ignored(what: str) -> None:
    logging.getLogger("tocha._dynamo").warning("Profiler function %s will be ignored", what)


@known(_record_function._is_wanted)
def mark_wanted(f: Frame, name: Value) -> Value:
    """Marked ranges are not in graphs: what is fused has no range of its own."""
    say_ignored("<class 'tocha.autograd.profiler.record_function'>")
    return Constant(False)


@known(object.__new__, list.__new__, dict.__new__, set.__new__)
def object_new(f: Frame, cls: Value, /, *args: Value, **kwargs: Value) -> Value:
    return new_object(f, cls.constant())


@known(*{c.__new__ for c in vars(builtins).values() if isinstance(c, type) and issubclass(c, BaseException)})
def _new_exception(f: Frame, cls: Value, *args: Value, **kwargs: Value) -> Value:
    if not isinstance(cls, ClassValue):
        f.raise_(TypeError, "X is not a type object")
    return new_exception(f, cls.value, list(args), kwargs)


@known(tuple.__new__)
def _new_tuple(f: Frame, cls: Value, items: Value | None = None) -> Value:
    """What namedtuple's own methods are made with."""
    real: Any = cls.constant()
    given = items.unpack(f) if items is not None else []
    if real is tuple:
        return TupleValue(given)
    if not is_tuple_class(real) or len(given) != len(getattr(real, "_fields", given)):
        raise Unsupported("value", f"a new object of type {real.__name__}, a subclass of tuple")
    return NamedTupleValue(real, given)
