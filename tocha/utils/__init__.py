"""Tools around tensors: hooks, checkpoints of activations, data loading."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tocha.utils._swap import swap_tensors

if TYPE_CHECKING:
    from tocha.utils import backend_registration as backend_registration
    from tocha.utils import checkpoint as checkpoint
    from tocha.utils import data as data
    from tocha.utils import deterministic as deterministic
    from tocha.utils import dlpack as dlpack

__all__ = ["swap_tensors"]


_PARTS = (
    "_mode_utils",
    "_python_dispatch",
    "_pytree",
    "backend_registration",
    "checkpoint",
    "data",
    "deterministic",
    "dlpack",
    "hooks",
    "model_zoo",
)


def __getattr__(name: str) -> Any:
    """Modules are loaded when somebody asks for them."""
    if name in ("generate_methods_for_privateuse1_backend", "rename_privateuse1_backend"):
        return getattr(importlib.import_module("tocha.utils.backend_registration"), name)
    if name in _PARTS:
        return importlib.import_module(f"tocha.utils.{name}")
    raise AttributeError(f"module 'tocha.utils' has no attribute {name!r}")
