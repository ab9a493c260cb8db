"""Constants: values known entirely, and immutable."""

from __future__ import annotations

import enum
import re
from typing import TYPE_CHECKING, Any

import tocha
from tocha._dynamo.values.base import Value

if TYPE_CHECKING:
    from tocha._dynamo.codegen import Codegen
    from tocha._dynamo.frame import Frame

PLAIN = (re.Pattern, re.Match, int, float, bool, str, bytes, complex, type(None), type(Ellipsis), type(NotImplemented), tocha.dtype, tocha.device, tocha.layout, tocha.memory_format)  # fmt: skip


def is_plain(value: Any) -> bool:
    return type(value) in PLAIN or isinstance(value, enum.Enum) or type(value).__module__ == "sys"


class Constant(Value):
    def __init__(self, value: Any, source: Any = None) -> None:
        self.value = value
        self.source = source

    def __repr__(self) -> str:
        return f"Constant({self.value!r})"

    def python_type(self) -> type:
        return type(self.value)

    def constant(self) -> Any:
        return self.value

    def truth(self, f: Frame) -> bool:
        if isinstance(self.value, enum.Enum):
            return f.fold(bool, [self], {}).value
        return bool(self.value)

    def length(self, f: Frame) -> int:
        return f.fold(len, [self], {}).value

    def iterate(self, f: Frame) -> Value:
        if isinstance(self.value, (str, bytes)):
            return f.iterator([Constant(c) for c in self.value], type(iter(self.value)))
        return super().iterate(f)

    def item(self, f: Frame, key: Value) -> Value:
        return f.fold(lambda a, b: a[b], [self, key], {})

    def get_attribute(self, f: Frame, name: str) -> Value:
        return f.wrap_constant_attribute(self, name)

    def call_method(self, f: Frame, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        method = getattr(self.value, name, None)
        if name == "__iter__" and isinstance(self.value, (str, bytes)) and not args and not kwargs:
            return self.iterate(f)
        if isinstance(self.value, str) and name == "join" and len(args) == 1:
            items = args[0].unpack(f)
            if all(i.is_constant() for i in items):
                return f.fold_real(self.value.join, [[i.constant() for i in items]], {})
        if method is None:
            return self.get_attribute(f, name)
        if isinstance(self.value, enum.Enum) and not (name.startswith("__") and name.endswith("__")):
            return self.get_attribute(f, name).call(f, args, kwargs)
        if hasattr(method, "__code__") or hasattr(method, "__func__"):
            return f.wrap_constant_attribute(self, name).call(f, args, kwargs)
        if not all(a.is_constant() for a in [*args, *kwargs.values()]):
            if isinstance(self.value, str) and name in ("format", "__mod__"):
                return f.format_string(self.value, name, args, kwargs)
            return f.call_native_method(self, name, args, kwargs)
        return f.fold(method, args, kwargs)

    def call(self, f: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
        function = f.class_function(type(self.value), "__call__") if isinstance(self.value, enum.Enum) else None
        return function.call(f, [self, *args], kwargs) if function is not None else super().call(f, args, kwargs)

    def hash_key(self, f: Frame) -> Any:
        return self.value if not isinstance(self.value, enum.Enum) else ("enum", id(self.value))

    def reconstruct(self, cg: Codegen) -> None:
        cg.load_constant(self.value)
