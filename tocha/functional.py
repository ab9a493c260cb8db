"""Functions that take loose tensors or a list of them, and others that are Python by nature."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from tocha import _C
from tocha._functions.einsum import chain_matmul, einsum, spmm, tensordot
from tocha._functions.unique import unique, unique_consecutive, unravel_index
from tocha._lobpcg import lobpcg
from tocha._lowrank import lu, pca_lowrank, svd_lowrank

Tensor = _C.Tensor
cdist = _C.cdist
istft = _C.istft
norm = _C.norm
stft = _C.stft

__all__ = [
    "atleast_1d", "atleast_2d", "atleast_3d", "block_diag", "broadcast_shapes", "broadcast_tensors", "cartesian_prod", "cdist",
    "chain_matmul", "einsum", "istft", "lobpcg", "lu", "meshgrid", "norm", "pca_lowrank", "split", "spmm", "stft", "svd_lowrank", "tensordot", "unique", "unique_consecutive", "unravel_index",
]  # fmt: skip


def _listed(tensors: tuple) -> list[Tensor] | tuple[Tensor, ...]:
    """f(a, b) and f([a, b]) mean the same."""
    return tensors[0] if len(tensors) == 1 and isinstance(tensors[0], list | tuple) else tensors


def split(tensor: Tensor, split_size_or_sections: int | Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Views along dim, of one size (the last may be smaller) or of the given sizes.

    >>> import tocha
    >>> tocha.split(tocha.arange(5), 2)
    (tensor([0, 1]), tensor([2, 3]), tensor([4]))
    """
    return tensor.split(split_size_or_sections, dim)


def broadcast_shapes(*shapes: int | Sequence[int]) -> _C.Size:
    """The shape that tensors of the given shapes broadcast to.

    >>> import tocha
    >>> tocha.broadcast_shapes((2, 1), (3,))
    tocha.Size([2, 3])
    """
    listed = [(s,) if isinstance(s, int) else tuple(s) for s in shapes]
    out = [1] * max((len(s) for s in listed), default=0)
    for shape in listed:
        for i in range(-1, -1 - len(shape), -1):
            if shape[i] < 0:
                raise ValueError(
                    f"[broadcast_shapes] Attempting to broadcast a dimension with negative length! Got {shape[i]} in {shape}"
                )
            if shape[i] in (1, out[i]):
                continue
            if out[i] != 1:
                raise RuntimeError(
                    f"[broadcast_shapes] Attempting to broadcast a dimension of length {shape[i]} at {i}! Mismatching argument at index {listed.index(shape)} had {shape}; but expected shape should be broadcastable to {out}"
                )
            out[i] = shape[i]
    return _C.Size(out)


def broadcast_tensors(*tensors: Tensor) -> tuple[Tensor, ...]:
    """The tensors expanded to their common shape."""
    return _C.broadcast_tensors(_listed(tensors))


def meshgrid(*tensors: Tensor, indexing: str | None = None) -> tuple[Tensor, ...]:
    """Coordinates on the grid that 1-d tensors span: "ij" by rows (the default), "xy" by columns.

    >>> import tocha
    >>> tocha.meshgrid(tocha.tensor([1, 2]), tocha.tensor([3, 4]), indexing="ij")[0]
    tensor([[1, 1],
            [2, 2]])
    """
    if indexing is None:
        _warn_about_indexing()
        indexing = "ij"
    return _C.meshgrid(_listed(tensors), indexing=indexing)


_warned = False


def _warn_about_indexing() -> None:
    global _warned
    if not _warned:
        _warned = True
        warnings.warn(
            "tocha.meshgrid: in an upcoming release, it will be required to pass the indexing argument.", stacklevel=3
        )


def cartesian_prod(*tensors: Tensor) -> Tensor:
    """Every choice of one element from each vector, as rows."""
    return _C.cartesian_prod(_listed(tensors))


def block_diag(*tensors: Tensor) -> Tensor:
    """A matrix with the given matrices on its diagonal and zeros elsewhere."""
    return _C.block_diag(_listed(tensors))


def _each(function, tensors: tuple):
    listed = _listed(tensors)
    return function(listed[0]) if len(tensors) == 1 and listed is tensors else function(listed)


def atleast_1d(*tensors: Tensor) -> Tensor | tuple[Tensor, ...]:
    """Each tensor with one dim or more."""
    return _each(_C.atleast_1d, tensors)


def atleast_2d(*tensors: Tensor) -> Tensor | tuple[Tensor, ...]:
    """Each tensor with two dims or more; a vector becomes a row."""
    return _each(_C.atleast_2d, tensors)


def atleast_3d(*tensors: Tensor) -> Tensor | tuple[Tensor, ...]:
    """Each tensor with three dims or more; a vector gets a dim on either side, a matrix one at the end."""
    return _each(_C.atleast_3d, tensors)
