"""Exceptions: their arguments are tracked; what native classes keep besides is asked of one that the class itself made."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

from tocha._dynamo.values.base import Value
from tocha._dynamo.values.constant import Constant
from tocha._dynamo.values.containers import ListValue, TupleValue
from tocha._dynamo.values.objects import ObjectValue, find_in_class

if TYPE_CHECKING:
    from tocha._dynamo.codegen import Codegen
    from tocha._dynamo.frame import Frame

_CHAIN = ("__cause__", "__context__", "__suppress_context__")


def native_class(cls: type) -> Any:
    """The nearest class that is written in C."""
    return next(c for c in cls.__mro__ if not c.__flags__ & 1 << 9)  # not on the heap


def is_simple(native: Any) -> bool:
    """It keeps its arguments and nothing else."""
    return native.__init__ is BaseException.__init__ and native.__new__ is BaseException.__new__


class TracebackValue(Value):
    """A traceback: there is one, and it can be handed on; whoever looks into it breaks the graph."""

    def python_type(self) -> type:
        return types.TracebackType


class StandIn:
    """An exception of a native class, with objects of no meaning in the place of values that are not constants."""

    def __init__(self, f: Frame, native: Any, args: list[Value], kwargs: dict[str, Value], complete: bool) -> None:
        self.values: dict[int, tuple[Any, Value]] = {}
        shown, named = [self.of(a) for a in args], {k: self.of(v) for k, v in kwargs.items()}
        self.made = f.checked(native.__new__, native, *shown, **named)
        if complete:
            f.checked(type(self.made).__init__, self.made, *shown, **named)

    @classmethod
    def of_real(cls, error: BaseException) -> StandIn:
        """One that native code raised."""
        made = cls.__new__(cls)
        made.values, made.made = {}, error
        error.__traceback__ = error.__context__ = None  # frames of the tracer
        return made

    def of(self, value: Value) -> Any:
        value = value.realize()
        made: Any
        if isinstance(value, Constant):
            return value.value
        if isinstance(value, ExceptionValue):
            made = Exception() if value.is_a(Exception) else BaseException()
        elif type(value) in (ListValue, TupleValue):
            items = [self.of(v) for v in value.items]  # type: ignore[attr-defined]
            made = items if type(value) is ListValue else tuple(items)
        else:
            made = object()
        self.values[id(made)] = (made, value)
        return made

    def value_of(self, f: Frame, found: Any) -> Value:
        known = self.values.get(id(found))
        if known is not None:
            return known[1]
        if type(found) is tuple:
            return TupleValue([self.value_of(f, x) for x in found])
        return f.wrap_known(found)


class ExceptionValue(ObjectValue):
    """`args` is what its attribute of that name is; `given` and `named` are what its native class was given."""

    def __init__(self, cls: type, args: list[Value], real: Any = None, source: Any = None) -> None:
        super().__init__(cls, real, source, new=real is None)
        self.args, self.given, self.named = args, args, dict[str, Value]()
        self.complete = True  # the native __init__ ran, not only __new__
        self.stand_in: StandIn | None = None
        self.raised = False  # it has a traceback
        self.of_operator = False  # raised by an operator for its arguments
        self.from_below = False  # came out of a function that was inlined, or out of an instruction: they say it best
        self.left: Frame | None = None  # the innermost function that it came out of

    def words(self) -> str:
        """As repr() shows it; arguments that are not constants by their kind."""
        shown = [repr(a.constant()) if a.is_constant() else a.describe() for a in (v.realize() for v in self.args)]
        return f"{self.cls.__name__}({', '.join(shown)})"

    def initialize(self, f: Frame, args: list[Value], kwargs: dict[str, Value], complete: bool = True) -> None:
        """What the native __new__ (and __init__, if complete) make of their arguments."""
        native = native_class(self.cls)
        self.args, self.given, self.named, self.complete = list(args), list(args), dict(kwargs), complete
        self.stand_in = None
        if is_simple(native):
            if kwargs and complete:
                f.raise_(TypeError, f"{self.cls.__name__}() takes no keyword arguments")
            return
        made = self.stand(f).made
        if self.cls is native:
            self.cls = type(made)  # OSError(2, ...) is a FileNotFoundError
        self.args = [self.stand(f).value_of(f, a) for a in made.args]

    def stand(self, f: Frame) -> StandIn:
        if self.stand_in is None:
            self.stand_in = StandIn(f, native_class(self.cls), self.given, self.named, self.complete)
        return self.stand_in

    def plain_attribute(self, f: Frame, name: str) -> Value | None:
        if name in self.written:
            return self.written[name]
        if name == "args":
            return TupleValue(list(self.args))
        if name == "__traceback__" and self.new:
            return TracebackValue() if self.raised else Constant(None)
        if name in (*_CHAIN, "__traceback__"):
            if self.new:
                return Constant(False if name == "__suppress_context__" else None)
            return f.wrap(getattr(self.real, name), self.source.attribute(name) if self.source else None)
        found, holder = find_in_class(self.cls, name)
        if self.new and isinstance(found, (types.MemberDescriptorType, types.GetSetDescriptorType)) and holder is not None and not holder.__flags__ & 1 << 9 and name != "__dict__":  # fmt: skip
            stand = self.stand(f)
            return stand.value_of(f, f.checked(getattr, stand.made, name))
        return super().plain_attribute(f, name)

    def plain_set(self, f: Frame, name: str, value: Value) -> None:
        if name == "args":
            self.args = value.unpack(f)
            f.out.effects.add(self)
            return
        if name == "__traceback__" and self.new:
            self.set_traceback(f, value)
            return
        if name in ("__cause__", "__context__"):
            value = value.realize()
            if not isinstance(value, ExceptionValue) and not (isinstance(value, Constant) and value.value is None):
                kind = "cause" if name == "__cause__" else "context"
                f.raise_(TypeError, f"exception {kind} must be None or derive from BaseException")
            if name == "__cause__":
                self.written["__suppress_context__"] = Constant(True)
        super().plain_set(f, name, value)

    def set_traceback(self, f: Frame, value: Value) -> None:
        value = value.realize()
        if not isinstance(value, TracebackValue) and not (isinstance(value, Constant) and value.value is None):
            if value.python_type() is types.TracebackType:
                value.refuse("mutation", "a traceback from outside")
            f.raise_(TypeError, "__traceback__ must be a traceback or None")
        self.raised = isinstance(value, TracebackValue)

    def set_context(self, active: Any) -> None:
        """It was raised while `active` was handled: no exception is in the chain behind itself."""
        seen: Any = active
        passed: set[int] = set()
        while seen is not None and seen is not self and id(seen) not in passed:
            passed.add(id(seen))
            behind = seen.written.get("__context__") if isinstance(seen, ExceptionValue) else None
            if behind is self:
                del seen.written["__context__"]
            seen = behind
        if active is not self:
            self.written["__context__"] = active

    def call_method(self, f: Frame, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name == "with_traceback" and len(args) == 1:
            self.set_traceback(f, args[0])
            return self
        if name == "add_note" and len(args) == 1:
            return self.add_note(f, args[0].realize())
        return super().call_method(f, name, args, kwargs)

    def add_note(self, f: Frame, note: Value) -> Value:
        if not issubclass(note.python_type(), str):
            f.raise_(TypeError, f"note must be a str, not '{note.python_type().__name__}'")
        notes = self.plain_attribute(f, "__notes__")
        if notes is None:
            notes = ListValue([])
            self.plain_set(f, "__notes__", notes)
        if not isinstance(notes, ListValue):
            f.raise_(TypeError, "Cannot add note: __notes__ is not a list")
        notes.call_method(f, "append", [note], {})
        return Constant(None)

    def hash_key(self, f: Frame) -> Any:
        return ("object", id(self))

    def parts(self) -> list[Value]:
        return [*super().parts(), *self.args, *self.given, *self.named.values()]

    def reconstruct(self, cg: Codegen) -> None:
        cg.start_call(_make_exception)
        cg.load_constant(self.cls)
        cg.build("BUILD_TUPLE", self.args)
        cg.build("BUILD_TUPLE", [] if is_simple(native_class(self.cls)) else self.given)
        for name, value in self.named.items():
            cg.load_constant(name)
            cg.load(value)
        cg.emit("BUILD_MAP", len(self.named))
        cg.load_constant(self.complete)
        cg.end_call(5)
        if self.written:
            cg.fill_later(self)


def _make_exception(cls: Any, args: tuple, given: tuple, named: dict[str, Any], complete: bool) -> BaseException:
    native = native_class(cls)
    made = native.__new__(cls, *given, **named)
    if complete and native.__init__ is not BaseException.__init__:
        native.__init__(made, *given, **named)
    made.args = args
    return made
