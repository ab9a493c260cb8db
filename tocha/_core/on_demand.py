"""Packages whose parts are loaded when somebody asks for them: PyTorch's `import torch` has loaded them."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any


def parts_of(package: str, parts: str) -> Callable[[str], Any]:
    """A package's __getattr__ for these submodules.

    >>> parts_of("tocha.utils", "checkpoint")("checkpoint").__name__.rpartition(".")[2]
    'checkpoint'
    """
    known = frozenset(parts.split())

    def __getattr__(name: str) -> Any:
        if name in known:
            return importlib.import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return __getattr__


class Later:
    """Stands for a module that few programs need: it is imported when something of it is named.

    >>> Later("textwrap").shorten("a long text", 9)
    'a [...]'
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        found = getattr(importlib.import_module(self._name), name)
        setattr(self, name, found)
        return found
