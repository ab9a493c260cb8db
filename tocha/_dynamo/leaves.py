"""Which functions of the library are leaves: they stand in graphs under their own names. All others are inlined."""

from __future__ import annotations

import types
from typing import Any

from tocha._core.library_name import is_ours, ours

# Rooms whose Python code is gone through: it is written in terms of leaves.
_INLINED = tuple(
    f"tocha.{room}"
    for room in (
        "nn.modules", "nn.utils", "nn.parameter", "nn.init", "nn.attention", "optim", "utils", "autograd", "amp", "_dynamo", "compiler", "func", "overrides",
        "testing", "random", "torch_version", "fx", "cuda", "backends", "masked", "distributions", "_switches", "library", "_library", "serialization",
        "_higher_order_ops.foreach_map",
    )
)  # fmt: skip

ALLOWED: set[int] = set()  # allow_in_graph
DISALLOWED: set[int] = set()  # disallow_in_graph
FORBIDDEN: set[int] = set()  # forbid_in_graph
KNOWN: set[int] = set()  # Python functions that the tracer handles itself
PURE_CLASSES: set[type] = set()  # allow_c_slot
_KEPT: list[Any] = []


def know(function: Any) -> None:
    KNOWN.add(id(function))
    _KEPT.append(function)


def allow(function: Any) -> None:
    DISALLOWED.discard(id(function))
    ALLOWED.add(id(function))
    _KEPT.append(function)


def disallow(function: Any) -> None:
    ALLOWED.discard(id(function))
    DISALLOWED.add(id(function))
    _KEPT.append(function)


def forbid(function: Any) -> None:
    FORBIDDEN.add(id(function))
    _KEPT.append(function)


def is_operator(value: Any) -> bool:
    """tocha.ops.aten.add, tocha.ops.aten.add.Tensor, and what tocha.library.custom_op returns."""
    return ours(type(value).__module__) in ("tocha._ops", "tocha._library.custom_ops") and callable(value)


def is_leaf(function: Any) -> bool:
    if id(function) in ALLOWED:
        return True
    module = ours(getattr(function, "__module__", None))
    if not isinstance(function, types.FunctionType) or not is_ours(module):
        return False
    if "." in function.__qualname__ and "<locals>" not in function.__qualname__:
        return False  # methods
    return not module.startswith(_INLINED)
