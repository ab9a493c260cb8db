"""globals(): reads and writes are those of the module's names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tocha._dynamo.source import Source
from tocha._dynamo.values.base import Value
from tocha._dynamo.values.constant import Constant
from tocha._dynamo.values.lazy import Lazy
from tocha._dynamo.values.mappings import DictValue
from tocha._dynamo.values.native_method import NativeMethod

if TYPE_CHECKING:
    from tocha._dynamo.codegen import Codegen
    from tocha._dynamo.frame import Frame


class GlobalsValue(Value):
    """The dict of a module's names."""

    has_identity = True

    def __init__(self, scope: dict[str, Any]) -> None:
        self.scope = scope
        self.place = Source("object", scope, None, f"globals of {scope.get('__name__')}")

    def python_type(self) -> type:
        return dict

    def written(self, f: Frame) -> dict[str, Value]:
        return {name: value for (scope, name), value in f.out.global_writes.items() if scope == id(self.scope)}

    def find(self, f: Frame, name: Any) -> Value | None:
        if name in self.written(f) or name in self.scope:
            return f.load_from(self.scope, name)
        f.out.guards.add(self.place, "without", name)
        return None

    def as_dict(self, f: Frame) -> DictValue:
        """All of it, as it is now."""
        f.out.guards.add(self.place, "keys", tuple(self.scope))
        made = DictValue({})
        for name, real in self.scope.items():
            made.put(f, Constant(name), Lazy(f, real, f.source_in(self.scope, name)))
        for name, value in self.written(f).items():
            made.put(f, Constant(name), value)
        return made

    def item(self, f: Frame, key: Value) -> Value:
        found = self.find(f, key.constant())
        if found is None:
            f.raise_(KeyError, key)
        return found

    def set_item(self, f: Frame, key: Value, value: Value) -> None:
        f.out.scopes[id(self.scope)] = self.scope
        f.out.global_writes[id(self.scope), key.constant()] = value

    def length(self, f: Frame) -> int:
        return self.as_dict(f).length(f)

    def unpack(self, f: Frame) -> list[Value]:
        return self.as_dict(f).unpack(f)

    def iterate(self, f: Frame) -> Value:
        return self.as_dict(f).iterate(f)

    def get_attribute(self, f: Frame, name: str) -> Value:
        return NativeMethod(self, name)

    def call_method(self, f: Frame, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        match name:
            case "__getitem__":
                return self.item(f, *args)
            case "__setitem__":
                self.set_item(f, *args)
                return Constant(None)
            case "__contains__":
                return Constant(self.find(f, args[0].constant()) is not None)
            case "get":
                return self.find(f, args[0].constant()) or (args[1] if len(args) > 1 else Constant(None))
            case "keys" | "values" | "items" | "copy":
                return self.as_dict(f).call_method(f, name, args, kwargs)
        self.refuse("mutation", f"{name}()")

    def reconstruct(self, cg: Codegen) -> None:
        cg.load_constant(self.scope)
