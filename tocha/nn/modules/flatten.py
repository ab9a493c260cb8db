"""Layers that merge dims and split them."""

from __future__ import annotations

from collections.abc import Sequence

from tocha import _C
from tocha.nn.modules.module import Module
from tocha.nn.modules.utils import _arguments

Tensor = _C.Tensor

__all__ = ["Flatten", "Unflatten"]


class Flatten(Module):
    """Merges the dims from start_dim to end_dim into one; by default all but the batch.

    >>> tocha.nn.Flatten()(tocha.ones(2, 3, 4)).shape
    tocha.Size([2, 12])
    >>> tocha.nn.Flatten(start_dim=0)(tocha.ones(2, 3, 4)).shape
    tocha.Size([24])
    """

    start_dim: int
    end_dim: int

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Tensor) -> Tensor:
        """The input with the dims merged."""
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return _arguments(self, "start_dim", "end_dim")


class Unflatten(Module):
    """Splits dim into dims of the given sizes.

    >>> Unflatten(1, (2, 3))
    Unflatten(dim=1, unflattened_size=(2, 3))
    """

    dim: int
    unflattened_size: Sequence[int]

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        super().__init__()
        self._require_tuple_int(unflattened_size)
        self.dim = dim
        self.unflattened_size = unflattened_size

    def _require_tuple_int(self, input: object) -> None:
        if not isinstance(input, (tuple, list)):
            raise TypeError(f"unflattened_size must be a tuple of ints, but found type {type(input).__name__}")
        for position, element in enumerate(input):
            if not isinstance(element, int):
                raise TypeError(
                    f"unflattened_size must be tuple of ints, but found element of type {type(element).__name__} at pos {position}"
                )

    def forward(self, input: Tensor) -> Tensor:
        """The input with the dim split."""
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        return _arguments(self, "dim", "unflattened_size")
