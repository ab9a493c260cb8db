"""Tools around tensors: hooks, checkpoints of activations, data loading."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tocha.utils import data as data


def __getattr__(name: str) -> Any:
    """tocha.utils.data is loaded when somebody asks for it."""
    if name == "data":
        return importlib.import_module("tocha.utils.data")
    raise AttributeError(f"module 'tocha.utils' has no attribute {name!r}")
