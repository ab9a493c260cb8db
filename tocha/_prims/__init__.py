"""Operators that are not made of smaller ones, by name: `_prims.sin`, `_prims.amax`. They come from the records; those that PyTorch
has under other names or rules (`_prims.iota`, `_prims.convert_element_type`) are `ops.prims`.

>>> import tocha
>>> tocha._prims.sin
<OpOverloadPacket(op='aten.sin')>
>>> tocha._prims.sin(tocha.zeros(2))
tensor([0., 0.])
"""

from __future__ import annotations

from functools import cache
from typing import Any

from tocha import _ops
from tocha._decomp import core_overloads
from tocha._library import composites


@cache
def _names() -> frozenset[str]:
    return frozenset(h._opname for handles in core_overloads().values() for h in handles)


def __getattr__(name: str) -> Any:
    if name.startswith("__") or name not in {*_names(), *composites.names("prims")}:
        raise AttributeError(f"module 'tocha._prims' has no attribute {name!r}")
    return getattr(_ops.ops.aten if name in _names() else _ops.ops.prims, name)


def __dir__() -> list[str]:
    return sorted({*_names(), *composites.names("prims")})
