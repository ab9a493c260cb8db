"""functools.lru_cache: what is wrapped is gone through, and equal arguments get the same object within a capture.

What was kept before captured code ran is not asked, and nothing is kept after it: as in PyTorch, with its warning.
"""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

from tocha._core import switches
from tocha._core.library_name import ours
from tocha._dynamo.refusals import SkipFrame, Unsupported
from tocha._dynamo.values.base import NotConstant, Value
from tocha._dynamo.values.functions import Callable_, MethodValue
from tocha._dynamo.values.native_method import NativeMethod
from tocha._dynamo.values.objects import ObjectValue, find_in_class
from tocha._dynamo.values.symbol import SymbolValue

if TYPE_CHECKING:
    from tocha._dynamo.codegen import Codegen
    from tocha._dynamo.frame import Frame

_NOT_PROGRAMS = ("tocha", *sys.stdlib_module_names)
_ASKED = ("cache_info", "cache_clear")


class CachedFunction(Callable_):
    """One from outside has `real`."""

    def __init__(self, function: Value, size: Any, typed: bool, real: Any = None, source: Any = None) -> None:
        self.function, self.size, self.typed, self.real, self.source = function, size, typed, real, source
        self.attributes: dict[str, Value] = {}

    def python_type(self) -> type:
        return functools._lru_cache_wrapper

    def constant(self) -> Any:
        if self.real is None:
            raise NotConstant(repr(self))
        return self.real

    def call(self, f: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
        self._warn(f)
        given = [a.realize() for a in (*args, *kwargs.values())]
        key = (id(self), len(args), *kwargs, *(_key(f, a, self.typed) for a in given))
        if key not in f.out.cached:
            f.out.cached[key] = self.function.call(f, args, kwargs)
        return f.out.cached[key]

    def _warn(self, f: Frame) -> None:
        if self.real is None or ours(self.real.__module__).split(".")[0] in _NOT_PROGRAMS:
            return
        switches.warn_once(
            f"Dynamo detected a call to a `functools.lru_cache`-wrapped function at '{f.code.co_filename}:{f.line}'. Dynamo ignores the cache wrapper and directly "
            "traces the wrapped function: what it kept before is not used, and what captured code computes is not kept."
        )

    def get_attribute(self, f: Frame, name: str) -> Value:
        if name == "__wrapped__":
            return self.function
        if name in self.attributes:
            return self.attributes[name]
        if name in _ASKED:
            return NativeMethod(self, name)
        if self.real is not None and hasattr(self.real, name):
            return f.wrap(getattr(self.real, name), self.source.attribute(name) if self.source else None)
        return self.function.get_attribute(f, name)

    def set_attribute(self, f: Frame, name: str, value: Value) -> None:
        f.out.effects.add(self)
        self.attributes[name] = value

    def call_method(self, f: Frame, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name == "__call__":
            return self.call(f, args, kwargs)
        if name == "__get__":
            return self if args[0].is_constant() and args[0].constant() is None else MethodValue(self, args[0])
        if name in _ASKED:  # captured code keeps nothing: all that the frame does has to be seen there
            refused = Unsupported("builtin", f"{name}() of a function with functools.lru_cache")
            refused.stack = f.user_stack()
            raise SkipFrame("a cache is looked at", refused)
        return super().call_method(f, name, args, kwargs)

    def parts(self) -> list[Value]:
        return [self.function, *self.attributes.values()]

    def reconstruct(self, cg: Codegen) -> None:
        if self.real is not None:
            cg.load_constant(self.real)
            return
        cg.start_call(_make)
        cg.load(self.function)
        cg.load_constant(self.size)
        cg.load_constant(self.typed)
        cg.end_call(3)
        if self.attributes:
            cg.fill_later(self)

    def apply(self, cg: Codegen) -> None:
        for name, value in self.attributes.items():
            cg.load(value)
            cg.load(self)
            cg.store_attribute(name)


def _make(function: Any, size: Any, typed: bool) -> Any:
    return functools.lru_cache(size, typed)(function)


def _key(f: Frame, value: Value, typed: bool) -> Any:
    """Symbols and objects that are equal to themselves alone are told apart without a guard of which they are."""
    if isinstance(value, SymbolValue) or (
        isinstance(value, ObjectValue) and find_in_class(value.cls, "__hash__")[0] is object.__hash__
    ):
        return ("value", id(value))
    key = value.hash_key(f)
    return (value.python_type(), key) if typed else key


def wrap(f: Frame, real: Any, source: Any) -> Value:
    if source is not None:
        f.out.guards.add(source, "type", type(real))
    inner = f.wrap(real.__wrapped__, source.attribute("__wrapped__") if source is not None else None)
    asked = real.cache_parameters()
    return CachedFunction(inner, asked["maxsize"], asked["typed"], real, source)


def make(f: Frame, function: Value, size: Value, typed: Value, info: Value) -> Value:
    """functools._lru_cache_wrapper, called in captured code."""
    if not isinstance(function, Callable_):
        raise Unsupported("value", f"functools.lru_cache of {function.describe()}")
    return CachedFunction(function, size.constant(), bool(typed.constant()))
