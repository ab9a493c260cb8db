"""Ranges that programs mark, for profilers."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tocha import _C

__all__ = ["record_function"]


def _is_wanted(name: str) -> bool:
    """Whether somebody records ranges. (Captured code is asked about this function: marks are not in graphs.)"""
    return _C._profiler_is_watching()


class record_function:
    """Marks a range of a program by a name; a context, or a decorator.

    >>> with tocha.profiler.profile() as prof:
    ...     with tocha.profiler.record_function("my step"):
    ...         _ = tocha.ones(2) + 1
    >>> any(event.key == "my step" for event in prof.key_averages())
    True
    """

    def __init__(self, name: str, args: str | None = None):
        self.name, self.args = name, args
        self._open = False

    def __enter__(self) -> record_function:
        self._open = _is_wanted(self.name)
        if self._open:
            _C._profiler_push(self.name)
        return self

    def __exit__(self, *exception: object) -> None:
        if self._open:
            _C._profiler_pop()
            self._open = False

    def __call__(self, function: Callable) -> Callable:
        @functools.wraps(function)
        def marked(*args: Any, **kwargs: Any) -> Any:
            with record_function(self.name, self.args):
                return function(*args, **kwargs)

        return marked
