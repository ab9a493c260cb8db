"""contextvars.ContextVar: what it holds is guarded, what captured code sets is set again when the graph has run."""

from __future__ import annotations

import contextvars
from typing import TYPE_CHECKING, Any

from tocha._dynamo.values.base import Value
from tocha._dynamo.values.constant import Constant
from tocha._dynamo.values.containers import Container

if TYPE_CHECKING:
    from tocha._dynamo.codegen import Codegen
    from tocha._dynamo.frame import Frame

_UNSET = object()


def content_of(variable: contextvars.ContextVar) -> Any:
    """What a variable was set to, for guards; an object of ours where it was not."""
    return variable.get(_UNSET)


def default_of(variable: contextvars.ContextVar) -> Any:
    return contextvars.Context().run(variable.get)


class Token(Value):
    """What set() returns: with it the variable gets back what it held."""

    def __init__(self, variable: ContextVariable, before: Value | None) -> None:
        self.variable, self.before = variable, before

    def python_type(self) -> type:
        return contextvars.Token

    def get_attribute(self, f: Frame, name: str) -> Value:
        if name == "var":
            return self.variable
        return super().get_attribute(f, name)


class ContextVariable(Container):
    def __init__(self, real: contextvars.ContextVar, source: Any) -> None:
        self.real, self.source = real, source
        self.held: Value | None = None  # since captured code has set it
        self.first: Value | None = None  # what it held before
        self.asked = False

    def python_type(self) -> type:
        return contextvars.ContextVar

    def content(self, f: Frame) -> Value | None:
        """What it is set to now; None: nothing."""
        if self.held is not None:
            return self.held
        if not self.asked:
            self.asked = True
            assert self.source is not None
            real = content_of(self.real)
            place = self.source.call(content_of)
            if real is _UNSET:
                f.out.guards.add(place, "same", _UNSET)
            else:
                self.first = f.wrap(real, place)
        return self.first

    def m_get(self, f: Frame, default: Value | None = None, /) -> Value:
        found = self.content(f)
        if found is not None:
            return found
        return default if default is not None else f.fold_real(default_of, [self.real], {})

    def m_set(self, f: Frame, value: Value) -> Value:
        before = self.content(f)
        f.out.effects.add(self)
        self.held = value
        return Token(self, before)

    def m_reset(self, f: Frame, token: Value) -> Value:
        if not isinstance(token, Token) or token.variable is not self:
            self.refuse("mutation", "reset()")
        self.held = token.before
        return Constant(None)

    def get_attribute(self, f: Frame, name: str) -> Value:
        return Constant(self.real.name) if name == "name" else super().get_attribute(f, name)

    def parts(self) -> list[Value]:
        return [self.held] if self.held is not None else []

    def apply(self, cg: Codegen) -> None:
        if self.held is not None and self.held is not self.first:
            cg.call_method_of(self, "set", [self.held])
