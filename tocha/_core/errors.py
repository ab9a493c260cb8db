"""Exceptions of devices that programs catch by their public names, and functions that only refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

__all__ = ["AcceleratorError", "OutOfMemoryError"]


class OutOfMemoryError(RuntimeError):
    """A device has no memory left.

    >>> issubclass(tocha.OutOfMemoryError, RuntimeError)
    True
    """


class AcceleratorError(RuntimeError):
    """A call to a device failed.

    >>> issubclass(tocha.AcceleratorError, RuntimeError)
    True
    """


for _class in (OutOfMemoryError, AcceleratorError):
    _class.__module__ = "tocha"


def refusing(name: str, purpose: str, error: Callable[[], Exception]) -> Callable[..., NoReturn]:
    """A function of this name that takes anything and raises the error: it needs what is not there."""

    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise error()

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = purpose
    return refuse
