"""The older home of the profiler's names, which programs import."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["emit_itt", "emit_nvtx"]


def __getattr__(name: str) -> Any:
    """The profiler stands above autograd: it is loaded when somebody asks."""
    if name in ("profile", "record_function", "ProfilerActivity", "kineto_available"):
        return getattr(importlib.import_module("tocha.profiler"), name)
    if name in ("EventList", "FunctionEvent"):
        return getattr(importlib.import_module("tocha.profiler._ranges"), name)
    raise AttributeError(f"module 'tocha.autograd.profiler' has no attribute {name!r}")


class _Marks:
    def __init__(self, enabled: bool = True, record_shapes: bool = False):
        if enabled:
            raise NotImplementedError(f"[{type(self).__name__}] needs a vendor's profiler, which is not built in tocha")

    def __enter__(self) -> _Marks:
        return self

    def __exit__(self, *exception: object) -> None:
        pass


class emit_nvtx(_Marks):
    """Marks operators for NVIDIA's profiler: refused when enabled."""


class emit_itt(_Marks):
    """Marks operators for Intel's profiler: refused when enabled."""
