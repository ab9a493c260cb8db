"""Functions that are called when a capture begins and when it has ended."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class CallbackArgs:
    """What callbacks are told."""

    callback_trigger: str
    compile_id: str


_START: list[Callable[[CallbackArgs], None]] = []
_END: list[Callable[[CallbackArgs], None]] = []
_count = 0


def on_compile_start(callback: Callable[[CallbackArgs], None]) -> Callable[[CallbackArgs], None]:
    """Calls the function whenever capturing begins; returns it."""
    _START.append(callback)
    return callback


def on_compile_end(callback: Callable[[CallbackArgs], None]) -> Callable[[CallbackArgs], None]:
    """Calls the function whenever capturing has ended; returns it."""
    _END.append(callback)
    return callback


def clear() -> None:
    _START.clear()
    _END.clear()


@contextlib.contextmanager
def told(code: types.CodeType) -> Iterator[None]:
    """Around one capture."""
    global _count
    if not _START and not _END:
        yield
        return
    args = CallbackArgs("DYNAMO", f"{_count}/0")
    _count += 1
    for callback in _START:
        callback(args)
    try:
        yield
    finally:
        for callback in _END:
            callback(args)
