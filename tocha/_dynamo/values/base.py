"""The root of tracked values: what the tracer knows of one Python value, and what it can do with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from tocha._dynamo.refusals import Unsupported

if TYPE_CHECKING:
    from tocha._dynamo.codegen import Codegen
    from tocha._dynamo.frame import Frame
    from tocha._dynamo.source import Source


class NotConstant(Exception):
    """The value is not known as a Python constant."""


class Observed(Exception):
    """The traced program raised this."""

    def __init__(self, value: Any) -> None:
        super().__init__(value)
        self.value = value


class Value:
    source: Source | None = None
    # Is the object's identity visible to the program (so that generated code must make it only once)?
    has_identity = False
    is_list = False

    def python_type(self) -> type:
        raise Unsupported("value", f"type of {self!r}")

    def realize(self) -> Value:
        return self

    def describe(self) -> str:
        return f"{type(self).__name__}({self.python_type().__name__})"

    def refuse(self, name: str, what: str) -> NoReturn:
        raise Unsupported(name, f"{what} of {self.describe()}")

    # ---- as a constant

    def constant(self) -> Any:
        """The Python object that it certainly is (a copy, for containers); raises NotConstant."""
        raise NotConstant(repr(self))

    def is_constant(self) -> bool:
        try:
            self.constant()
        except NotConstant:
            return False
        return True

    # ---- in the graph

    def graph_argument(self) -> Any:
        """What stands for it among a node's arguments."""
        try:
            return self.constant()
        except NotConstant:
            self.refuse("value", "use in the graph")

    def example(self) -> Any:
        """What stands for it when facts are computed."""
        try:
            return self.constant()
        except NotConstant:
            self.refuse("value", "use in the graph")

    # ---- what programs do with values

    def get_attribute(self, f: Frame, name: str) -> Value:
        self.refuse("attribute", f"attribute {name!r}")

    def set_attribute(self, f: Frame, name: str, value: Value) -> None:
        self.refuse("attribute", f"setting attribute {name!r}")

    def delete_attribute(self, f: Frame, name: str) -> None:
        self.refuse("attribute", f"deleting attribute {name!r}")

    def call(self, f: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
        self.refuse("call", "call")

    def call_method(self, f: Frame, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return self.get_attribute(f, name).call(f, args, kwargs)

    def has_method(self, name: str) -> bool:
        return any(name in c.__dict__ for c in self.python_type().__mro__)

    def truth(self, f: Frame) -> bool:
        if self.has_method("__bool__"):
            said = self.call_method(f, "__bool__", [], {})
            if not issubclass(said.python_type(), bool):
                f.raise_(TypeError, f"__bool__ should return bool, returned {said.python_type().__name__}")
            return said.truth(f)
        if self.has_method("__len__"):
            return self.length(f) != 0
        return True

    def length(self, f: Frame) -> int:
        if not self.has_method("__len__"):
            f.raise_(TypeError, f"object of type '{self.python_type().__name__}' has no len()")
        said = self.call_method(f, "__len__", [], {}).constant()
        if not isinstance(said, int):
            f.raise_(TypeError, f"'{type(said).__name__}' object cannot be interpreted as an integer")
        if said < 0:
            f.raise_(ValueError, "__len__() should return >= 0")
        return said

    def iterate(self, f: Frame) -> Value:
        if not self.has_method("__iter__"):
            if self.has_method("__getitem__"):
                return f.inline(f.wrap_known(by_index), [self], {})  # type: ignore[arg-type]
            f.raise_(TypeError, f"'{self.python_type().__name__}' object is not iterable")
        made = self.call_method(f, "__iter__", [], {})
        if not made.has_method("__next__"):
            f.raise_(TypeError, f"iter() returned non-iterator of type '{made.python_type().__name__}'")
        return made

    def next(self, f: Frame) -> Value:
        if not self.has_method("__next__"):
            f.raise_(TypeError, f"'{self.python_type().__name__}' object is not an iterator")
        return self.call_method(f, "__next__", [], {})

    def unpack(self, f: Frame) -> list[Value]:
        """All items: what list(value) would hold."""
        items, iterator = [], self.iterate(f)
        while True:
            try:
                items.append(iterator.next(f))
            except Observed as stop:
                if not stop.value.is_a(StopIteration):
                    raise
                return items

    def item(self, f: Frame, key: Value) -> Value:
        if not self.has_method("__getitem__"):
            f.raise_(TypeError, f"'{self.python_type().__name__}' object is not subscriptable")
        return self.call_method(f, "__getitem__", [key], {})

    def set_item(self, f: Frame, key: Value, value: Value) -> None:
        if not self.has_method("__setitem__"):
            f.raise_(TypeError, f"'{self.python_type().__name__}' object does not support item assignment")
        self.call_method(f, "__setitem__", [key, value], {})

    def delete_item(self, f: Frame, key: Value) -> None:
        if not self.has_method("__delitem__"):
            f.raise_(TypeError, f"'{self.python_type().__name__}' object doesn't support item deletion")
        self.call_method(f, "__delitem__", [key], {})

    def hash_key(self, f: Frame) -> Any:
        """Something hashable that is equal for equal values: keys of tracked dicts and sets."""
        raise Unsupported("hash", f"{self.describe()} as a key")

    # ---- in generated code

    def reconstruct(self, cg: Codegen) -> None:
        """Emits instructions that push it, where it has no source."""
        self.refuse("reconstruct", "making anew")


def by_index(value):
    """Iterates the way of before there was __iter__; traced."""
    n = 0
    while True:
        try:
            item = value[n]
        except IndexError:
            return
        yield item
        n += 1


class Null(Value):
    """The NULL that the interpreter keeps on its stack beside a callable."""

    def reconstruct(self, cg: Codegen) -> None:
        cg.emit("PUSH_NULL")


class Unbound(Value):
    """A local variable without a value, where the interpreter keeps one on the stack."""


NULL = Null()
