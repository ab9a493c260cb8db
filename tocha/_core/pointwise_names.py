"""Which functions act on every element alone: the records say it, and are read when somebody asks first.

Tensor classes written in Python (nested, masked) run such functions on what they hold.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any

_ALSO = (
    "masked_fill",
    "dropout",
    "where",
    "clone",
    "to",
    "type",
    "isclose",
    "zero",
    "fill",
    "feature_dropout",
    "alpha_dropout",
)


@functools.cache
def pointwise_names() -> frozenset[str]:
    """The names of pointwise operators, with Python's own operators among them."""
    importlib.import_module("tocha.operators.families").load()
    names = set(_ALSO)
    for o in importlib.import_module("tocha.operators.record").OPERATORS.values():
        if o.kind == "pointwise" or "pointwise" in o.tags:
            found = {o.schema.name, *(alias.rpartition(".")[2] for alias in o.aliases)}
            names |= {name.removeprefix(f"{o.namespace}_") if o.namespace else name for name in found}
            names |= {o.operator.strip("_")} if o.operator else set()
    return frozenset(names)


def plain_name(func: Any) -> str:
    """A function's name without what says that it is in place, reflected, or Python's operator."""
    owner = getattr(func, "__self__", None)
    name = getattr(owner if func.__name__ == "__get__" else func, "__name__", repr(func))
    if name.startswith("__") and name.endswith("__"):
        bare = name.strip("_")
        known = pointwise_names()
        return next((n for n in (bare, bare[1:]) if n in known), bare)
    return name.rstrip("_")


def is_in_place(func: Any) -> bool:
    """Whether a function writes to its first argument: add_, __iadd__."""
    name = func.__name__
    if name.startswith("__"):
        return name.startswith("__i") and name not in ("__invert__", "__index__", "__iter__", "__int__")
    return name.endswith("_")
