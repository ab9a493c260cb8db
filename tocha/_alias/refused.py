"""Modules that PyTorch has and tocha does not: under the alias they can be imported, and their names refuse when used.

A program may import much more than it uses. What it imports is there, as a class that can be named in annotations,
`isinstance` and bases, or as a function; making or calling one raises NotImplementedError with the name.
"""

from __future__ import annotations

import functools
import json
import types
from pathlib import Path
from typing import Any, NoReturn


@functools.cache
def _table() -> dict[str, dict[str, str]]:
    return json.loads(Path(__file__).with_name("pytorch_names.json").read_text())


def known(name: str) -> dict[str, str] | None:
    """The public names, by kind, of a module torch.x that only PyTorch has."""
    return _table().get(name.removeprefix("torch."))


def _refuse(full: str) -> NoReturn:
    raise NotImplementedError(f"[{full}] is not built in tocha: it is there to be imported, not to be used")


class _Refused(type):
    """The class of refused classes: they have no instances."""

    def __call__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        _refuse(f"{cls.__module__}.{cls.__qualname__}")


def _function(module: str, name: str) -> Any:
    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        _refuse(f"{module}.{name}")

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__module__ = module
    refuse.__doc__ = "Not built in tocha."
    return refuse


def fill(module: types.ModuleType) -> None:
    """Gives a module its refusing classes and functions. Values are left out: what they are is not known."""
    kinds = known(module.__name__) or {}
    for name in kinds.get("class", "").split():
        setattr(module, name, _Refused(name, (), {"__module__": module.__name__, "__doc__": "Not built in tocha."}))
    for name in kinds.get("function", "").split():
        if not hasattr(module, name):
            setattr(module, name, _function(module.__name__, name))
