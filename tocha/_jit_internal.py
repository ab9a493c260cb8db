"""Names that programs take from PyTorch's private module of the same name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Dict, Final, List, Optional, Tuple, Union  # noqa: UP035

from tocha.futures import Future
from tocha.jit import _overload, _overload_method, export, ignore, is_scripting, unused
from tocha.jit.annotations import BroadcastingList1, BroadcastingList2, BroadcastingList3
from tocha.nn.functional_misc import boolean_dispatch

__all__ = [
    "BroadcastingList1", "BroadcastingList2", "BroadcastingList3", "Dict", "Final", "Future", "List", "Optional", "Tuple", "Union",
    "boolean_dispatch", "export", "ignore", "is_scripting", "unused",
]  # fmt: skip
_overload, _overload_method = _overload, _overload_method


def _copy_to_script_wrapper(fn: Callable) -> Callable:
    return fn


def can_compile_class(cls: Any) -> bool:
    """Whether a class could be compiled: nothing is."""
    return False
