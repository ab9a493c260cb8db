"""Differentiation of graphs ahead of time: functional form, joint graphs, partitions."""

import importlib
from typing import Any


def __getattr__(name: str) -> Any:
    """Settings are there without an import, as they are in PyTorch where something was compiled."""
    if name != "config":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(f"{__name__}.config")
