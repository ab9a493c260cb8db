"""Tools around tensors: hooks, checkpoints of activations, data loading."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tocha.utils._swap import swap_tensors

if TYPE_CHECKING:
    from tocha.utils import checkpoint as checkpoint
    from tocha.utils import data as data
    from tocha.utils import deterministic as deterministic
    from tocha.utils import dlpack as dlpack

__all__ = ["swap_tensors"]


def __getattr__(name: str) -> Any:
    """Modules are loaded when somebody asks for them."""
    if name in ("checkpoint", "data", "deterministic", "dlpack"):
        return importlib.import_module(f"tocha.utils.{name}")
    raise AttributeError(f"module 'tocha.utils' has no attribute {name!r}")
