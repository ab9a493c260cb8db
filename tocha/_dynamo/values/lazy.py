"""A value from outside that nothing has asked for yet: no guards until somebody does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tocha._dynamo.values.base import Value

if TYPE_CHECKING:
    from tocha._dynamo.codegen import Codegen
    from tocha._dynamo.frame import Frame


class Lazy(Value):
    def __init__(self, f: Frame, real: Any, source: Any) -> None:
        self.frame, self.real, self.source = f, real, source
        self.known: Value | None = None

    def realize(self) -> Value:
        if self.known is None:
            self.known = self.frame.wrap(self.real, self.source)
        return self.known

    def __getattribute__(self, name: str) -> Any:
        if name in (
            "frame",
            "real",
            "source",
            "known",
            "realize",
            "__class__",
            "__dict__",
            "reconstruct",
            "has_identity",
        ):
            return object.__getattribute__(self, name)
        return getattr(object.__getattribute__(self, "realize")(), name)

    def reconstruct(self, cg: Codegen) -> None:
        cg.load(self.realize())
