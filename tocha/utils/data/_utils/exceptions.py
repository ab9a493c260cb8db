"""Exceptions on their way from a worker to the process that waits for it."""

from __future__ import annotations

import sys
import traceback
from typing import Any, NoReturn

__all__ = ["ExceptionWrapper", "KeyErrorMessage"]


class KeyErrorMessage(str):
    """A KeyError prints the repr of its argument; this one's repr is the text, so that line breaks stay readable."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class ExceptionWrapper:
    """Holds an exception's type and its formatted traceback; `reraise` raises it where somebody can see it."""

    def __init__(self, exc_info: Any = None, where: str = "in background") -> None:
        kind, value, trace = exc_info or sys.exc_info()
        self.exc_type: Any = kind
        self.exc_msg = "".join(traceback.format_exception(kind, value, trace))
        self.where = where

    def without_type(self) -> ExceptionWrapper:
        """The same as a RuntimeError, for a type that cannot be sent to another process."""
        plain = ExceptionWrapper.__new__(ExceptionWrapper)
        plain.exc_type, plain.exc_msg, plain.where = RuntimeError, self.exc_msg, self.where
        return plain

    def reraise(self) -> NoReturn:
        """Raises an exception of the original type whose message holds the original traceback."""
        message = f"Caught {self.exc_type.__name__} {self.where}.\nOriginal {self.exc_msg}"
        raise self._exception(message)

    def _exception(self, message: str) -> BaseException:
        if self.exc_type is KeyError:
            return KeyError(KeyErrorMessage(message))
        try:
            return self.exc_type(message)
        except Exception:  # its constructor wants something else than a message
            return RuntimeError(message)
