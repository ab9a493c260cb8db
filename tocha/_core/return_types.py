"""tocha.return_types: the named tuples of operators with several results. PyTorch has a twin of each for calls with out=."""

from __future__ import annotations

from typing import Any

from tocha import _C

_types = _C.return_types


def _find(name: str) -> Any:
    """max_out is max: calls with out= return the same kind of tuple here. all_return_types has them all."""
    if name == "all_return_types":
        return [t for n, t in sorted(vars(_types).items()) if isinstance(t, type) and not n.startswith("_")]
    if name.endswith("_out") and hasattr(_types, name.removesuffix("_out")):
        return getattr(_types, name.removesuffix("_out"))
    raise AttributeError(f"module 'tocha.return_types' has no attribute {name!r}")


def install() -> None:
    """Teaches the native module these names; called once by `import tocha`."""
    _types.__getattr__ = _find  # type: ignore[attr-defined]
