"""Pipes over data: datasets whose methods are other pipes, by the names under which `functional_datapipe` put them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ClassVar

from tocha.utils.data.dataset import Dataset, IterableDataset

__all__ = ["IterDataPipe", "MapDataPipe"]


class _Pipe:
    functions: ClassVar[dict[str, Callable]]

    def __getattr__(self, name: str) -> Any:
        if name in self.functions:
            return functools.partial(self.functions[name], self)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @classmethod
    def register_function(cls, function_name: str, function: Callable) -> None:
        """Makes a function of a pipe a method of all pipes."""
        cls.functions[function_name] = function

    @classmethod
    def register_datapipe_as_function(
        cls, function_name: str, cls_to_register: type, enable_df_api_tracing: bool = False
    ) -> None:
        """Makes a pipe that takes a pipe a method of all pipes."""
        if function_name in cls.functions:
            raise Exception(f"Unable to add DataPipe function name {function_name} as it is already taken")
        cls.functions[function_name] = cls_to_register

    def __str__(self) -> str:
        return type(self).__qualname__

    __repr__ = __str__


class IterDataPipe(_Pipe, IterableDataset):
    """A pipe that is iterated over.

    >>> class Doubled(IterDataPipe):
    ...     def __init__(self, source):
    ...         self.source = source
    ...     def __iter__(self):
    ...         return (2 * x for x in self.source)
    >>> list(Doubled([1, 2]))
    [2, 4]
    """

    functions: ClassVar[dict[str, Callable]] = {}

    def reset(self) -> None:
        """Called by programs before they iterate again; a pipe with state of its own overrides it."""


class MapDataPipe(_Pipe, Dataset):
    """A pipe whose items have keys."""

    functions: ClassVar[dict[str, Callable]] = {}
