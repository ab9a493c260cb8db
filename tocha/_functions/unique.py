"""Functions whose results depend on flags: unique, unique_consecutive, nonzero; and unravel_index, which takes any
sequence as a shape. They are thin Python over native operators; installed as functions and methods by `import tocha`."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

from tocha import _C
from tocha.overrides import add_method

__all__ = ["nonzero", "unique", "unique_consecutive", "unravel_index"]

_nonzero = _C.nonzero


def _chosen(values: Any, inverse: Any, counts: Any, return_inverse: bool, return_counts: bool) -> Any:
    """The results that were asked for, alone or as a tuple."""
    if return_inverse and return_counts:
        return values, inverse, counts
    if return_inverse:
        return values, inverse
    return (values, counts) if return_counts else values


def unique(
    input: _C.Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """The distinct elements (or slices along dim) in order; on request which of them every element is, and the counts.

    >>> import tocha
    >>> tocha.unique(tocha.tensor([3, 1, 3]), return_counts=True)
    (tensor([1, 3]), tensor([1, 2]))
    """
    if dim is None:
        found = _C._unique2(input, sorted, return_inverse, return_counts)
    else:
        found = _C._unique_dim(input, dim, return_inverse, return_counts)
    return _chosen(*found, return_inverse, return_counts)


def unique_consecutive(
    input: _C.Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """The first of every run of equal elements (or slices along dim); on request the run of every element, and lengths.

    >>> import tocha
    >>> tocha.unique_consecutive(tocha.tensor([1, 1, 2, 1]))
    tensor([1, 2, 1])
    """
    found = _C._unique_consecutive(input, return_inverse, return_counts, dim)
    return _chosen(*found, return_inverse, return_counts)


def nonzero(input: _C.Tensor, *, out: _C.Tensor | None = None, as_tuple: bool = False) -> Any:
    """The coordinates of the elements that are not zero: one row each, or as a tuple of one tensor for each dim.

    >>> import tocha
    >>> tocha.nonzero(tocha.tensor([0, 5]))
    tensor([[1]])
    """
    if not as_tuple:
        return _nonzero(input, out=out) if out is not None else _nonzero(input)
    if out is not None:
        raise TypeError("nonzero(): out= is not taken together with as_tuple=True")
    return _C._nonzero_tuple(input)


def unravel_index(indices: _C.Tensor, shape: int | Sequence[int]) -> tuple[_C.Tensor, ...]:
    """The coordinates, in an array of this shape, of flat positions.

    >>> import tocha
    >>> tocha.unravel_index(tocha.tensor([5]), (2, 3))
    (tensor([1]), tensor([2]))
    """
    if indices.is_complex() or indices.is_floating_point() or indices.dtype is _C.bool:
        raise TypeError(f"expected 'indices' to be integer dtype, but got {indices.dtype}")
    if isinstance(shape, _C.Tensor) or not isinstance(shape, int | Sequence) or isinstance(shape, str):
        raise TypeError(f"expected 'shape' to be int or sequence of ints, but got {type(shape)}")
    try:
        sizes = [operator.index(s) for s in (shape if isinstance(shape, Sequence) else (shape,))]
    except TypeError:
        raise TypeError(f"expected 'shape' sequence to only contain ints, but got {shape}") from None
    if any(s < 0 for s in sizes):
        raise ValueError(f"'shape' cannot have negative values, but got {tuple(sizes)}")
    if not sizes:
        return ()
    below = [math.prod(sizes[d + 1 :]) for d in range(len(sizes))]  # elements that one step along the dim spans
    at = indices.device
    steps = indices.unsqueeze(-1).div(_C.tensor(below, dtype=_C.int64, device=at), rounding_mode="floor")
    return (steps % _C.tensor(sizes, dtype=_C.int64, device=at)).unbind(-1)


def install() -> None:
    """Puts the methods onto the class; called once by `import tocha`."""
    for f in (unique, unique_consecutive, nonzero):
        add_method(f.__name__, f)
