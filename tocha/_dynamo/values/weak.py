"""Weak references: what they point to is tracked like any other value."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from tocha._dynamo.values.base import Value
from tocha._dynamo.values.constant import Constant
from tocha._dynamo.values.containers import Container

if TYPE_CHECKING:
    from tocha._dynamo.codegen import Codegen
    from tocha._dynamo.frame import Frame


def referent_of(reference: Any) -> Any:
    """What guards and generated code fetch."""
    return reference()


class WeakReference(Container):
    """A weakref.ref. While captured code runs its object lives: who made it in captured code holds it there."""

    def __init__(self, referent: Value, callback: Value | None = None, cls: type = weakref.ref, source: Any = None) -> None:  # fmt: skip
        self.referent, self.callback, self.cls, self.source = referent, callback, cls, source

    def __repr__(self) -> str:
        return f"WeakReference({self.referent!r})"

    def python_type(self) -> type:
        return self.cls

    def truth(self, f: Frame) -> bool:
        return True

    def call(self, f: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if args or kwargs:
            f.raise_(TypeError, "weakref.__call__() takes no arguments")
        return self.referent.realize()

    def m___call__(self, f: Frame) -> Value:
        return self.referent.realize()

    def m___eq__(self, f: Frame, other: Value) -> Value:
        if not isinstance(other, WeakReference):
            return Constant(NotImplemented)
        return Constant(f.same_or_equal(self.referent, other.referent))

    def m___ne__(self, f: Frame, other: Value) -> Value:
        if not isinstance(other, WeakReference):
            return Constant(NotImplemented)
        return Constant(not f.same_or_equal(self.referent, other.referent))

    def hash_key(self, f: Frame) -> Any:
        return ("weakref", self.referent.realize().hash_key(f))

    def parts(self) -> list[Value]:
        return [self.referent, *([self.callback] if self.callback is not None else [])]

    def reconstruct(self, cg: Codegen) -> None:
        cg.start_call(self.cls)
        for part in self.parts():
            cg.load(part)
        cg.end_call(len(self.parts()))


def behind(proxy: Any) -> Any:
    """The object that a weakref.proxy stands for: whose method any method of it is. A ReferenceError where it is gone."""
    return proxy.__init__.__self__


class ProxyValue(Value):
    """A weakref.proxy from outside: whatever is done with it is done with its object."""

    has_identity = True

    def __init__(self, referent: Value, cls: type, source: Any) -> None:
        self.referent, self.cls, self.source = referent, cls, source

    def __repr__(self) -> str:
        return f"ProxyValue({self.referent!r})"

    def python_type(self) -> type:
        return self.cls

    def has_method(self, name: str) -> bool:
        return self.referent.realize().has_method(name)

    def get_attribute(self, f: Frame, name: str) -> Value:
        return self.referent.realize().get_attribute(f, name)

    def set_attribute(self, f: Frame, name: str, value: Value) -> None:
        self.referent.realize().set_attribute(f, name, value)

    def delete_attribute(self, f: Frame, name: str) -> None:
        self.referent.realize().delete_attribute(f, name)

    def call(self, f: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return self.referent.realize().call(f, args, kwargs)

    def call_method(self, f: Frame, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return self.referent.realize().call_method(f, name, args, kwargs)


def make_reference(f: Frame, referent: Value, callback: Value | None = None, /) -> Value:
    """weakref.ref(object), weakref.ref(object, function)"""
    if not referent.python_type().__weakrefoffset__:
        f.raise_(TypeError, f"cannot create weak reference to '{referent.python_type().__name__}' object")
    if callback is not None and isinstance(callback, Constant) and callback.value is None:
        callback = None
    return WeakReference(referent, callback)
