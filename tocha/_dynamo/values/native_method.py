"""Methods that are not written in Python, with their object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tocha._dynamo.values.base import Value
from tocha._dynamo.values.constant import Constant

if TYPE_CHECKING:
    from tocha._dynamo.codegen import Codegen
    from tocha._dynamo.frame import Frame


class NativeMethod(Value):
    """A method of a tracked value that is not written in Python: list.append of this list."""

    def __init__(self, owner: Value, name: str) -> None:
        self.owner, self.name = owner, name

    def python_type(self) -> type:
        return type([].append)

    def call(self, f: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return self.owner.call_method(f, self.name, args, kwargs)

    def get_attribute(self, f: Frame, name: str) -> Value:
        if name == "__self__":
            return self.owner
        if name == "__name__":
            return Constant(self.name)
        return super().get_attribute(f, name)

    def hash_key(self, f: Frame) -> Any:
        return (id(self.owner), self.name)

    def reconstruct(self, cg: Codegen) -> None:
        cg.load(self.owner)
        cg.load_attribute(self.name)
