"""__torch_function__ in captured code: of the program's objects, of subclasses of Tensor, and of modes."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

import tocha
from tocha import _C
from tocha._dynamo import facts
from tocha._dynamo.native_calls import known
from tocha._dynamo.refusals import Unsupported
from tocha._dynamo.values.base import Value
from tocha._dynamo.values.constant import Constant
from tocha._dynamo.values.containers import ListValue, NamedTupleValue, TupleValue
from tocha._dynamo.values.functions import BuiltinValue
from tocha._dynamo.values.objects import ClassValue, ObjectValue, find_in_class
from tocha._dynamo.values.tensor import TensorValue
from tocha._library import dispatch
from tocha.overrides import TorchFunctionMode, _modes

if TYPE_CHECKING:
    from tocha._dynamo.frame import Frame

_DEFAULT = tocha.Tensor.__torch_function__.__func__  # type: ignore[attr-defined]
_NOT_ASKED = {"__class__", "as_subclass"}  # methods that look at the class itself


def _current_level() -> int:
    level = _C._set_overrides(0)
    _C._set_overrides(level)
    return level


class Overriding:
    """Who takes calls of the library over, at one moment of a capture."""

    def __init__(self) -> None:
        self.modes: list[Value] = []  # those that captured code has entered, the innermost last
        self.level = self.found = _current_level()  # 1: only modes are asked, 2: nobody is

    def is_quiet(self) -> bool:
        return not self.modes and self.level == 0


def is_overriding(v: Value) -> bool:
    if isinstance(v, ObjectValue):
        return hasattr(v.cls, "__torch_function__")
    return isinstance(v, TensorValue) and v.cls is not None and not takes_no_calls(v.cls)


def takes_no_calls(cls: type) -> bool:
    """Is the class's __torch_function__ switched off (as it is for parameters)?"""
    return getattr(cls, "__torch_function__", None) is _C._disabled_torch_function_impl


def is_kind_of_parameter(cls: type) -> bool:
    """Is it a parameter or buffer of a class of the program's, which has no say in operators?"""
    kinds = (tocha.nn.Parameter, tocha.nn.Buffer)
    return issubclass(cls, kinds) and takes_no_calls(cls) and not hasattr(cls, "__torch_dispatch__")


def overloaded(values: list[Value]) -> list[Any]:
    """The values that want to be asked, one of each class, subclasses first."""
    found: list[Any] = []
    for v in values:
        v = v.realize()
        inner = overloaded(v.items) if isinstance(v, (TupleValue, ListValue)) else [v] if is_overriding(v) else []
        for o in inner:
            if any(o.python_type() is known.python_type() for known in found):
                continue
            place = next((i for i, k in enumerate(found) if issubclass(o.python_type(), k.python_type())), len(found))
            found.insert(place, o)
    return found


def take_over(f: Frame, op: str, target: Any, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    """What a mode or an operand makes of a call; None where nobody is asked."""
    who = f.out.overriding
    if who.level == 2:
        return None
    asked = overloaded([*args, *kwargs.values()]) if who.level == 0 else []
    if not asked and not who.modes:
        return None
    if op == "call_method" and target in _NOT_ASKED:
        return None
    function, args = as_called(f, op, target, args, kwargs)
    return _ask(f, BuiltinValue(function), function, asked, args, kwargs)


def _ask(f: Frame, function: Value, real: Any, asked: list[Any], args: list[Value], kwargs: dict[str, Value]) -> Value | None:  # fmt: skip
    who = f.out.overriding
    classes = TupleValue([ClassValue(o.python_type()) for o in asked])
    given = [function, classes, TupleValue(args), f.new_dict(kwargs.items())]
    if who.modes:
        mode = who.modes.pop()
        try:
            result = mode.call_method(f, "__torch_function__", given, {}).realize()
        finally:
            who.modes.append(mode)
        if not _declined(result):
            return result
    for o in asked:
        plain = isinstance(find_in_class(o.python_type(), "__torch_function__")[0], types.FunctionType)  # deprecated
        method = (o if plain else ClassValue(o.python_type())).get_attribute(f, "__torch_function__")
        result = method.call(f, given, {}).realize()
        if not _declined(result):
            return result
    if not asked:
        return None
    f.raise_(TypeError, tocha.overrides.unanswered(real, [o.python_type() for o in asked]))


def _declined(result: Value) -> bool:
    return isinstance(result, Constant) and result.value is NotImplemented


def take_over_read(f: Frame, tensor: TensorValue, name: str) -> Value | None:
    """What a mode or its class makes of reading an attribute of a tensor; None where nobody is asked."""
    if not isinstance(getattr(tocha.Tensor, name, None), types.GetSetDescriptorType) or name.startswith("__"):
        return None
    custom = is_overriding(tensor) and getattr(tensor.cls.__torch_function__, "__func__", None) is not _DEFAULT  # type: ignore[union-attr]
    if not custom and not f.out.overriding.modes:
        return None
    return take_over(f, "call_function", getattr, [tensor, Constant(name)], {})


class _Seen(Exception):
    pass


class _Probe(TorchFunctionMode):
    """Sees which function the library says that it was called as."""

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        self.found = (func, args)
        raise _Seen


def as_called(f: Frame, op: str, target: Any, args: list[Value], kwargs: dict[str, Value]) -> tuple[Any, list[Value]]:
    """The function and arguments that __torch_function__ is shown: of `2 - x`, Tensor.rsub and (x, 2)."""
    if op == "call_function" and target is getattr and isinstance(args[1], Constant):
        return getattr(tocha.Tensor, args[1].value).__get__, args[:1]
    plain = getattr(tocha.Tensor, target) if op == "call_method" else target
    if op == "call_method" or getattr(plain, "__module__", "") not in ("_operator", "builtins"):
        return plain, args
    try:
        examples = [a.example() for a in args]
    except Unsupported:
        return plain, args
    probe = _Probe()
    try:
        with probe:
            facts.run(f.out.fake_mode, op, target, tuple(examples), {})
    except Exception:
        if not hasattr(probe, "found"):
            return plain, args
    function, given = probe.found
    values = [next((a for a, e in zip(args, examples) if e is g), None) for g in given]
    return function, [v if v is not None else f.wrap_known(g) for v, g in zip(values, given)]


def as_class(tensor: Any, cls: type) -> Any:
    """For generated code: a result of the graph as the subclass that the program would see."""
    return tensor.as_subclass(cls)


def as_plain(tensor: Any) -> Any:
    """For generated code and guards: what the graph works on in place of an object of a subclass."""
    before = _C._set_overrides(2)
    try:
        return tensor.as_subclass(tocha.Tensor)
    finally:
        _C._set_overrides(before)


def typed(value: Value, cls: type) -> Value:
    """Results of a call as objects of a class, as Tensor.__torch_function__ makes them."""
    if isinstance(value, TensorValue):
        return value if issubclass(value.python_type(), cls) else value.as_class(cls)
    if type(value) in (TupleValue, ListValue, NamedTupleValue):
        value.items[:] = [typed(i.realize(), cls) for i in value.items]  # type: ignore[attr-defined]
    return value


# ---- what captured code calls


@known(TorchFunctionMode.__enter__)
def enter_mode(f: Frame, mode: Value) -> Value:
    f.out.overriding.modes.append(mode)
    return mode


@known(TorchFunctionMode.__exit__)
def exit_mode(f: Frame, mode: Value, *error: Value) -> Value:
    f.out.overriding.modes.pop()
    return Constant(None)


@known(tocha.Tensor._make_subclass)
def make_subclass(f: Frame, cls: Value, data: Value, require_grad: Value | None = None) -> Value:
    """The same memory as an object of a class, without history."""
    if not isinstance(data, TensorValue) or (require_grad is not None and require_grad.truth(f)):
        raise Unsupported("builtin", "Tensor._make_subclass() that requires a gradient")
    before, f.out.overriding.level = f.out.overriding.level, 2
    try:
        made = f.out.call(f, "call_method", "detach", [data], {})
    finally:
        f.out.overriding.level = before
    return made.as_class(cls.constant())  # type: ignore[attr-defined]


@known(_C._set_overrides)
def set_overrides(f: Frame, level: Value) -> Value:
    before, f.out.overriding.level = f.out.overriding.level, level.constant()
    return Constant(before)


def _are_asked(f: Frame, values: list[Value]) -> bool:
    who = f.out.overriding
    return who.level < 2 and bool(who.modes or (who.level == 0 and overloaded(values)))


@known(tocha.overrides.has_torch_function)
def has_torch_function(f: Frame, relevant: Value) -> Value:
    return Constant(_are_asked(f, relevant.unpack(f)))


@known(tocha.overrides.has_torch_function_unary, tocha.overrides.has_torch_function_variadic)
def has_torch_function_variadic(f: Frame, *relevant: Value) -> Value:
    return Constant(_are_asked(f, list(relevant)))


@known(tocha.overrides.handle_torch_function)
def handle_torch_function(f: Frame, function: Value, relevant: Value, /, *args: Value, **kwargs: Value) -> Value:
    """For functions of the program's that ask overrides themselves."""
    real = getattr(function.realize(), "real", None)
    asked = overloaded(relevant.unpack(f)) if f.out.overriding.level == 0 else []
    result = _ask(f, function, real, asked, list(args), kwargs)
    if result is None:
        f.raise_(TypeError, tocha.overrides.unanswered(real or handle_torch_function, []))
    return result


@known(_C._disabled_torch_function_impl)
def disabled(f: Frame, func: Value, types: Value, args: Value | None = None, kwargs: Value | None = None) -> Value:
    """nn.Parameter.__torch_function__: the call itself, with no class asked."""
    given = args.unpack(f) if args is not None else []
    named = {} if kwargs is None or _is_none(kwargs) else {k.constant(): kwargs.item(f, k) for k in kwargs.unpack(f)}
    before, f.out.overriding.level = f.out.overriding.level, max(1, f.out.overriding.level)
    try:
        return func.call(f, given, named).realize()
    finally:
        f.out.overriding.level = before


@known(_DEFAULT)
def default(f: Frame, cls: Value, func: Value, types: Value, args: Value | None = None, kwargs: Value | None = None) -> Value:  # fmt: skip
    """Tensor.__torch_function__: the call itself, its results in the class that was asked."""
    if not all(issubclass(cls.constant(), t.constant()) for t in types.unpack(f)):
        return Constant(NotImplemented)
    result = disabled(f, func, types, args, kwargs)
    return typed(result, cls.constant()) if cls.constant() is not tocha.Tensor else result


def _is_none(value: Value) -> bool:
    return isinstance(value, Constant) and value.value is None


def outer_modes() -> bool:
    """Is a mode active that captured code has not entered?"""
    return bool(_modes.stack or dispatch.modes.stack)
