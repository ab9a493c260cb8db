"""The older home of the profiler's names, which programs import."""

from __future__ import annotations

import importlib
from typing import Any

from tocha.autograd._record_function import record_function

__all__ = ["emit_itt", "emit_nvtx", "record_function"]

record_function.__module__ = __name__
HOMES = {
    "ProfilerActivity": "tocha.profiler", "kineto_available": "tocha.profiler", "profile": "tocha.profiler._older",
    "EventList": "tocha.profiler._events", "FunctionEvent": "tocha.profiler._events", "FunctionEventAvg": "tocha.profiler._events",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    """The profiler stands above autograd: it is loaded when somebody asks."""
    if name in HOMES:
        return getattr(importlib.import_module(HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


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
