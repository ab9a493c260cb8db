"""Sparse tensors that are given other sizes in place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tocha import _C
from tocha.sparse._methods import method_of
from tocha.sparse._tensor import SparseTensor, Tensor, make, sparse_dims
from tocha.utils._swap import swap_tensors

_ADVICE = """
You could try the following options:
1. If you need an empty sparse tensor of this size, call `x = tocha.sparse_coo_tensor(size)`.
2. If you need to resize this tensor, call `x.sparse_resize_and_clear_(size, sparse_dim, dense_dim)`, or make a new tensor of its \
indices and values."""


def _check_request(t: Tensor, size: Sequence[int], sparse_dim: int, dense_dim: int) -> None:
    if len(size) != sparse_dim + dense_dim:
        raise RuntimeError(
            f"'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = {len(size)}, sparse_dim = {sparse_dim}, "
            f"dense_dim = {dense_dim}"
        )
    if t.requires_grad and t.is_leaf and _C.is_grad_enabled():
        raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")


def _check_holds(t: SparseTensor, size: Sequence[int], sparse_dim: int, dense_dim: int) -> None:
    """Refuses what would leave values without a place."""
    before, count = tuple(t.shape), sparse_dims(t)
    if sparse_dim != count:
        changed = f"changing the number of sparse dimensions (from {count} to {sparse_dim})"
    elif dense_dim != len(before) - count:
        changed = f"changing the number of dense dimensions (from {len(before) - count} to {dense_dim})"
    elif any(new < old for new, old in zip(size[:count], before[:count], strict=True)):
        changed = f"shrinking the size of sparse dimensions (from {list(before[:count])} to {list(size[:count])})"
    elif any(new < old for new, old in zip(size[count:], before[count:], strict=True)):
        changed = f"shrinking the size of dense dimensions (from {list(before[count:])} to {list(size[count:])})"
    else:
        return
    raise RuntimeError(f"{changed} on a non-empty sparse tensor is not supported.{_ADVICE}")


def _give(t: SparseTensor, indices: Tensor, values: Tensor, size: Sequence[int]) -> SparseTensor:
    swap_tensors(t, make(indices, values, size, t._coo_coalesced, t._coo_checked))
    return t


@method_of("sparse_resize_")
def sparse_resize_(self: SparseTensor, size: Sequence[int], sparse_dim: int, dense_dim: int) -> Tensor:
    """Gives a sparse tensor sizes that hold what it has; one without elements may be given any."""
    _check_request(self, size, sparse_dim, dense_dim)
    if self._coo_values.size(0) == 0:
        return _cleared(self, size, sparse_dim)
    _check_holds(self, size, sparse_dim, dense_dim)
    values = self._coo_values
    if tuple(size[sparse_dim:]) != tuple(values.shape[1:]):
        grown = values.new_zeros((values.size(0), *size[sparse_dim:]))
        grown[tuple(slice(n) for n in values.shape)] = values
        values = grown
    return _give(self, self._coo_indices, values, size)


@method_of("sparse_resize_and_clear_")
def sparse_resize_and_clear_(self: SparseTensor, size: Sequence[int], sparse_dim: int, dense_dim: int) -> Tensor:
    """Takes all elements out of a sparse tensor and gives it these sizes."""
    _check_request(self, size, sparse_dim, dense_dim)
    return _cleared(self, size, sparse_dim)


@method_of("resize_as_sparse_")
def resize_as_sparse_(self: SparseTensor, the_template: Any) -> Tensor:
    """Gives a sparse tensor the sizes of another one."""
    count = sparse_dims(the_template)
    return sparse_resize_(self, tuple(the_template.shape), count, the_template.dim() - count)


def _cleared(t: SparseTensor, size: Sequence[int], sparse_dim: int) -> SparseTensor:
    indices = t._coo_indices.new_empty((sparse_dim, 0))
    return _give(t, indices, t._coo_values.new_empty((0, *size[sparse_dim:])), size)
