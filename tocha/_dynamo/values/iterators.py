"""Iterators: over tracked items, over ranges, and generators, which are frames that wait."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

from tocha._dynamo.refusals import Unsupported
from tocha._dynamo.values.base import Observed, Value
from tocha._dynamo.values.constant import Constant
from tocha._dynamo.values.native_method import NativeMethod

if TYPE_CHECKING:
    from tocha._dynamo.codegen import Codegen
    from tocha._dynamo.frame import Frame


class IteratorValue(Value):
    has_identity = True

    def iterate(self, f: Frame) -> Value:
        return self

    def truth(self, f: Frame) -> bool:
        return True

    def call_method(self, f: Frame, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name == "__next__":
            return self.next(f)
        if name == "__iter__":
            return self
        self.refuse("attribute", f"method {name!r}")

    def get_attribute(self, f: Frame, name: str) -> Value:
        if callable(getattr(self.python_type(), name, None)):
            return NativeMethod(self, name)
        f.raise_(AttributeError, f"'{self.python_type().__name__}' object has no attribute '{name}'")

    def hash_key(self, f: Frame) -> Any:
        return ("object", id(self))


class SequenceIterator(IteratorValue):
    """Over a list of items that may change meanwhile; `owner` is the container they are of."""

    def __init__(self, items: list[Value], cls: type, owner: Value | None = None) -> None:
        self.items, self.cls, self.owner = items, cls, owner
        self.at = 0
        self.size = len(items)

    def python_type(self) -> type:
        return self.cls

    def next(self, f: Frame) -> Value:
        if self.owner is not None and hasattr(self.owner, "entries") and len(self.owner.entries) != self.size:
            f.raise_(RuntimeError, "dictionary changed size during iteration")
        if self.at >= len(self.items):
            f.raise_(StopIteration)
        self.at += 1
        return self.items[self.at - 1].realize()

    def unpack(self, f: Frame) -> list[Value]:
        rest = self.items[self.at :]
        self.at = len(self.items)
        return rest

    def call_method(self, f: Frame, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name == "__length_hint__":
            return Constant(len(self.items) - self.at)
        return super().call_method(f, name, args, kwargs)

    def reconstruct(self, cg: Codegen) -> None:
        whole = self.owner is not None and self.owner.is_list
        cg.start_call(advanced if whole else iter)
        if whole:
            assert self.owner is not None
            cg.load(self.owner)
            cg.load_constant(self.at)
        else:
            cg.build("BUILD_LIST", self.items[self.at :])
        cg.end_call(1 + whole)


def advanced(items: Any, count: int) -> Any:
    """An iterator over a list that has given `count` items."""
    iterator = iter(items)
    for _ in range(count):
        next(iterator, None)
    return iterator


class RangeIterator(IteratorValue):
    def __init__(self, over: range) -> None:
        self.over = over

    def python_type(self) -> type:
        return type(iter(self.over))

    def next(self, f: Frame) -> Value:
        if not self.over:
            f.raise_(StopIteration)
        first, self.over = self.over[0], self.over[1:]
        return Constant(first)

    def unpack(self, f: Frame) -> list[Value]:
        rest, self.over = self.over, self.over[:0]
        return [Constant(i) for i in rest]

    def reconstruct(self, cg: Codegen) -> None:
        cg.start_call(iter)
        cg.load_constant(self.over)
        cg.end_call(1)


class GeneratorValue(IteratorValue):
    """A generator: its frame stands after the last yield. `made_by` is the call that made it, for making it anew."""

    def __init__(self, frame: Frame, made_by: tuple[Value, list[Value], dict[str, Value]] | None) -> None:
        self.frame = frame
        self.made_by = made_by
        self.started = self.finished = self.running = False
        self.started_at = 0  # the captured frame's instruction that advanced it first

    def python_type(self) -> type:
        return types.GeneratorType

    def next(self, f: Frame) -> Value:
        return self.send(f, Constant(None))

    def send(self, f: Frame, value: Value, error: Any = None) -> Value:
        if self.running:
            f.raise_(ValueError, "generator already executing")
        if self.finished:
            if error is not None:
                raise Observed(error)
            f.raise_(StopIteration)
        if error is not None and not self.started:
            self.finished = True
            self.frame.passed_by(error)
            raise Observed(error)
        frame = self.frame
        frame.caller = f
        if self.started and error is None:
            frame.push(value)
        if not self.started:
            self.started_at = f.out.note_generator(self)
        self.started, self.running = True, True
        try:
            yielded, result = frame.resume_generator(error)
        except Observed as raised:
            self.finished = True
            frame.passed_by(raised.value)
            if raised.value.is_a(StopIteration):
                raise Observed(f.generator_stopped(raised.value)) from raised
            raise
        finally:
            self.running = False
        if yielded:
            return result
        self.finished = True
        f.raise_(StopIteration, *([] if isinstance(result, Constant) and result.value is None else [result]))

    def call_method(self, f: Frame, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name == "send":
            if not self.started and not (args[0].is_constant() and args[0].constant() is None):
                f.raise_(TypeError, "can't send non-None value to a just-started generator")
            return self.send(f, args[0])
        if name == "throw":
            return self.send(f, Constant(None), f.as_exception(args[0] if len(args) < 2 else args[1]))
        if name == "close":
            if not self.started or self.finished:
                self.finished = True
                return Constant(None)
            try:
                self.send(f, Constant(None), f.make_exception(GeneratorExit))
            except Observed as raised:
                if raised.value.is_a(GeneratorExit) or raised.value.is_a(StopIteration):
                    return Constant(None)
                raise
            f.raise_(RuntimeError, "generator ignored GeneratorExit")
        return super().call_method(f, name, args, kwargs)

    def get_attribute(self, f: Frame, name: str) -> Value:
        if name in ("__name__", "__qualname__"):
            whole = self.frame.function.name if self.frame.function is not None else self.frame.code.co_qualname
            return Constant(whole if name == "__qualname__" else self.frame.code.co_name)
        if name == "gi_running":
            return Constant(self.running)
        if name.startswith("gi_"):
            self.refuse("attribute", name)
        return super().get_attribute(f, name)

    def owes_cleanup(self) -> bool:
        """Suspended inside a try or with: something runs when it is dropped."""
        return self.started and not self.finished and self.frame.is_protected() and not self.frame.closes_quietly()

    def reconstruct(self, cg: Codegen) -> None:
        if self.started or self.made_by is None:
            raise Unsupported("generator", "a generator that has started")
        function, args, kwargs = self.made_by
        cg.call_values(function, args, kwargs)
