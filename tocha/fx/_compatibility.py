"""Marks functions whose form is promised to stay. PyTorch's passes import this decorator; here it only keeps a list."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

_T = TypeVar("_T")
_BACK_COMPAT_OBJECTS: dict[Any, None] = {}
_MARKED_WITH_COMPATIBILITY: dict[Any, None] = {}


def compatibility(is_backward_compatible: bool) -> Callable[[_T], _T]:
    def mark(fn: _T) -> _T:
        if is_backward_compatible:
            _BACK_COMPAT_OBJECTS[fn] = None
        _MARKED_WITH_COMPATIBILITY[fn] = None
        return fn

    return mark
