"""Modules that hold flags: `backends.cudnn.benchmark = True` is checked, `flags(...)` holds values for a while."""

from __future__ import annotations

import contextlib
import sys
import types
from collections.abc import Iterator
from typing import Any, ClassVar

PRECISIONS = ("none", "ieee", "tf32", "bf16")


class FlagModule(types.ModuleType):
    """A module some of whose attributes are flags, each with a type that is held when it is set."""

    flag_types: ClassVar[dict[str, type]] = {}

    def __setattr__(self, name: str, value: Any) -> None:
        check_flag(f"{self.__name__}.{name}", self.flag_types.get(name), value)
        super().__setattr__(name, value)


def check_flag(name: str, kind: type | None, value: Any) -> None:
    """RuntimeError unless value is of the flag's type; fp32_precision has words of its own."""
    if kind is not None and type(value) is not kind:
        raise RuntimeError(f"{name} expects a {kind.__name__}, but got {type(value).__name__}")
    if name.endswith(".fp32_precision") and value not in PRECISIONS:
        raise RuntimeError(f"Unknown precision: {value}")


def make_flags(module: str, **kinds: type) -> None:
    """Turns a module that has these attributes into one that checks them."""
    sys.modules[module].__class__ = type("Flags", (FlagModule,), {"flag_types": kinds})


def exchange(module: str, values: dict[str, Any]) -> tuple:
    """Sets the flags whose value is not None; returns what all of these were."""
    target = sys.modules[module]
    before = tuple(getattr(target, name) for name in values)
    for name, value in values.items():
        if value is not None:
            setattr(target, name, value)
    return before


@contextlib.contextmanager
def held(module: str, values: dict[str, Any]) -> Iterator[None]:
    """Flags with these values until the end of the context."""
    before = exchange(module, values)
    try:
        yield
    finally:
        for name, value in zip(values, before, strict=True):
            setattr(sys.modules[module], name, value)


class Precision:
    """backends.cudnn.conv.fp32_precision and its like: how far float32 may be rounded in one kind of work."""

    def __init__(self, name: str, fp32_precision: str) -> None:
        self._name = name
        self.fp32_precision = fp32_precision

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "fp32_precision":
            check_flag(f"{self._name}.{name}", str, value)
        super().__setattr__(name, value)


class Verbose:
    """A context in which a library reports what it runs. Of one that is not in this build there is nothing to report."""

    library = ""

    def __init__(self, level: int) -> None:
        self.level = level

    def __enter__(self) -> Verbose:
        if self.level:
            raise RuntimeError(f"tocha was built without {self.library}: there is nothing to report")
        return self

    def __exit__(self, *exception: object) -> None:
        return None
