"""Operators that are taken apart before graphs are lowered. What programs add or replace holds for what is compiled after that.

>>> import tocha
>>> tocha.ops.aten.silu.default in select_decomp_table()
True
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any

from tocha import _decomp
from tocha._decomp import core_aten_decompositions, get_decompositions, remove_decompositions

__all__ = [
    "core_aten_decompositions", "get_decompositions", "register_decomposition", "remove_decompositions",
    "select_decomp_table",
]  # fmt: skip

log = logging.getLogger("tocha._inductor")


@functools.cache
def _table() -> dict[Any, Callable]:
    """What programs read and change."""
    return dict(core_aten_decompositions())


def __getattr__(name: str) -> Any:
    """The table is made when somebody asks for it."""
    if name == "decompositions":
        return _table()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def select_decomp_table() -> dict[Any, Callable]:
    """A copy of `decompositions`, for `make_fx` and `aot_autograd`."""
    return dict(_table())


def register_decomposition(ops: Any) -> Callable[[Callable], Callable]:
    """Takes an operator apart in compiled functions (or an overload of one, or several) by this function, in place of what is known."""
    for op in ops if isinstance(ops, (list, tuple)) else [ops]:
        if op in _table():
            log.warning("duplicate decomp: %s", ops)
            _table().pop(op)
    return _decomp.register_decomposition(ops, _table())


def own() -> dict[Any, Callable]:
    """What programs have added or replaced: the others are taken apart when graphs are lowered."""
    if not _table.cache_info().currsize:
        return {}
    known = core_aten_decompositions()
    return {op: rule for op, rule in _table().items() if known.get(op) is not rule}
