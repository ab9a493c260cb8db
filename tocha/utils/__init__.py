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
    from tocha.utils.backend_registration import generate_methods_for_privateuse1_backend, rename_privateuse1_backend
    from tocha.utils.cpp_backtrace import get_cpp_backtrace
    from tocha.utils.throughput_benchmark import ThroughputBenchmark

__all__ = [
    "ThroughputBenchmark",
    "generate_methods_for_privateuse1_backend",
    "get_cpp_backtrace",
    "rename_privateuse1_backend",
    "set_module",
    "swap_tensors",
]


_PARTS = (
    "_mode_utils",
    "_python_dispatch",
    "_pytree",
    "backend_registration",
    "checkpoint",
    "cpp_backtrace",
    "data",
    "deterministic",
    "dlpack",
    "hooks",
    "model_zoo",
    "throughput_benchmark",
    "weak",
)


_HOMES = {
    "ThroughputBenchmark": "throughput_benchmark",
    "generate_methods_for_privateuse1_backend": "backend_registration",
    "get_cpp_backtrace": "cpp_backtrace",
    "rename_privateuse1_backend": "backend_registration",
}


def set_module(obj: Any, mod: str) -> None:
    """Says that an object belongs to a module, for its repr and its pickles.

    >>> def f():
    ...     pass
    >>> tocha.utils.set_module(f, "mine")
    >>> f.__module__
    'mine'
    """
    if not isinstance(mod, str):
        raise TypeError("The mod argument should be a string")
    obj.__module__ = mod


def __getattr__(name: str) -> Any:
    """Modules are loaded when somebody asks for them."""
    if name in _HOMES:
        return getattr(importlib.import_module(f"tocha.utils.{_HOMES[name]}"), name)
    if name in _PARTS:
        return importlib.import_module(f"tocha.utils.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
