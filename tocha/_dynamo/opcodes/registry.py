"""The table of opcode handlers. A handler takes the frame and the instruction; it returns something only to leave the frame."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tocha._dynamo.bytecode import VERSION

HANDLERS: dict[str, Callable[..., Any]] = {}


def opcode(*names: str, since: tuple[int, int] = (3, 11), until: tuple[int, int] = (3, 99)) -> Callable:
    """Registers a handler for the versions of Python (both included) that have the opcode in this meaning."""

    def register(handler: Callable) -> Callable:
        if since <= VERSION <= until:
            for name in names:
                assert name not in HANDLERS, name
                HANDLERS[name] = handler
        return handler

    return register
