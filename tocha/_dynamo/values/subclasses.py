"""Objects of classes that derive from list, dict or set: a tracked container inside a user object."""

from __future__ import annotations

import collections
import types
from typing import TYPE_CHECKING, Any

from tocha._dynamo.refusals import Unsupported
from tocha._dynamo.values.base import Value
from tocha._dynamo.values.containers import Container, DequeValue, ListValue
from tocha._dynamo.values.mappings import DictValue, SetValue
from tocha._dynamo.values.objects import ObjectValue, find_in_class

if TYPE_CHECKING:
    from tocha._dynamo.codegen import Codegen
    from tocha._dynamo.frame import Frame

BASES = (list, dict, set, collections.deque)


def base_of(cls: type) -> type | None:
    return next((b for b in BASES if issubclass(cls, b)), None)


def is_tuple_class(cls: type) -> bool:
    """A class of tuples whose objects are their items, and are made from them alone."""
    if not issubclass(cls, tuple):
        return False
    if hasattr(cls, "_fields") or cls.__module__.endswith("return_types"):
        return True
    return cls.__new__ is tuple.__new__ and cls.__init__ is object.__init__  # type: ignore[misc]


def empty(base: type) -> Container:
    if base is dict:
        return DictValue({})
    if base is set:
        return SetValue({})
    return ListValue([]) if base is list else DequeValue([])


class ContainerObject(ObjectValue):
    def __init__(self, cls: type, inner: Any, real: Any = None, source: Any = None, new: bool = False) -> None:
        super().__init__(cls, real, source, new)
        self.inner = inner
        inner.owner = self

    def _own(self, name: str) -> bool:
        """Is the method written in Python?"""
        return isinstance(find_in_class(self.cls, name)[0], (types.FunctionType, staticmethod))

    def length(self, f: Frame) -> int:
        return super().length(f) if self._own("__len__") else self.inner.length(f)

    def truth(self, f: Frame) -> bool:
        if self._own("__bool__") or self._own("__len__"):
            return super().truth(f)
        return self.inner.truth(f)

    def iterate(self, f: Frame) -> Value:
        return super().iterate(f) if self._own("__iter__") else self.inner.iterate(f)

    def unpack(self, f: Frame) -> list[Value]:
        return super().unpack(f) if self._own("__iter__") else self.inner.unpack(f)

    def item(self, f: Frame, key: Value) -> Value:
        if self._own("__getitem__"):
            return super().item(f, key)
        return self.native_item(f, key)

    def native_item(self, f: Frame, key: Value) -> Value:
        if isinstance(self.inner, DictValue) and self._own("__missing__") and self.inner.find(f, key) is None:
            return self.special(f, "__missing__", [key], {})
        return self.inner.item(f, key)

    def set_item(self, f: Frame, key: Value, value: Value) -> None:
        super().set_item(f, key, value) if self._own("__setitem__") else self.inner.set_item(f, key, value)

    def delete_item(self, f: Frame, key: Value) -> None:
        super().delete_item(f, key) if self._own("__delitem__") else self.inner.delete_item(f, key)

    def native(self, f: Frame, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        """A method that the class inherits from its builtin base."""
        if name == "__getitem__":
            return self.native_item(f, args[0])
        if name == "copy":
            raise Unsupported("builtin", f"{self.cls.__name__}.copy")
        result = self.inner.call_method(f, name, args, kwargs)
        return self if result is self.inner else result

    def parts(self) -> list[Value]:
        return [*super().parts(), *self.inner.parts()]

    def reconstruct(self, cg: Codegen) -> None:
        cg.start_call(self.cls.__new__ if not self._own("__new__") else base_of(self.cls).__new__)
        cg.load_constant(self.cls)
        cg.end_call(1)
        cg.fill_later(self)

    def apply(self, cg: Codegen) -> None:
        super().apply(cg)
        base: Any = base_of(self.cls)
        if issubclass(self.cls, collections.OrderedDict):
            cg.start_call(refill)
            cg.load(self)
            cg.load(DictValue(self.inner.entries))
            cg.end_call(2, keep=False)
            return
        cg.start_call(base.clear)
        cg.load(self)
        cg.end_call(1, keep=False)
        cg.start_call(base.update if base in (dict, set) else base.extend)
        cg.load(self)
        cg.load(DictValue(self.inner.entries) if base is dict else ListValue(self.inner.parts()))
        cg.end_call(2, keep=False)


def refill(target: collections.OrderedDict, entries: dict) -> None:
    """An OrderedDict keeps its order beside the dict that it is: past overridden methods, but not past its own."""
    collections.OrderedDict.clear(target)
    for key, value in entries.items():
        collections.OrderedDict.__setitem__(target, key, value)
