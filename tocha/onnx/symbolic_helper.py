"""Helpers for functions that write operators in ONNX: what is needed to define them. None is called: nothing is exported."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["parse_args"]


def parse_args(*arg_descriptors: str) -> Callable[[Callable], Callable]:
    """Says what the arguments of a translation are: "v" a value, "i" an int, "is" ints, "f" a float, "none" not used."""

    def mark(function: Callable) -> Callable:
        function._arg_descriptors = arg_descriptors  # type: ignore[attr-defined]
        return function

    return mark
