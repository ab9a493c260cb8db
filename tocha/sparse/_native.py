"""What native code asks for where it meets sparse tensors (csrc/core/sparse.cpp)."""

from __future__ import annotations

import tocha.sparse  # noqa: F401, every form has to be known before a tensor is made
from tocha import _C
from tocha.sparse._arithmetic import add, add_
from tocha.sparse._compressed import is_compressed
from tocha.sparse._compressed_math import accumulate as accumulate_compressed
from tocha.sparse._history import build
from tocha.sparse._tensor import SparseTensor, Tensor, is_sparse


def sum_of(a: Tensor, b: Tensor) -> Tensor:
    """The sum of two gradients of which at least one is sparse."""
    if is_compressed(a) or is_compressed(b):
        return accumulate_compressed(a, b)
    if not is_sparse(a) and not is_sparse(b):
        return a + b  # nested tensors are marked too
    return add(b, a) if is_sparse(a) and not is_sparse(b) else add(a, b)


def accumulate(grad: Tensor, more: Tensor) -> Tensor:
    """The same in grad itself, unless that is sparse and the sum is not."""
    if is_compressed(grad) or is_compressed(more) or not (is_sparse(grad) or is_sparse(more)):
        return sum_of(grad, more)
    return sum_of(grad, more) if is_sparse(grad) and not is_sparse(more) else add_(grad, more)


def dense_of(t: SparseTensor) -> Tensor:
    """The same numbers in a dense tensor."""
    return t.to_dense()


def copy_of(t: SparseTensor) -> Tensor:
    """A tensor with its own indices and values, without history."""
    return t.detach().clone()


def rows_gradient(grads: Tensor, indices: Tensor, rows: int, padding_idx: int) -> Tensor:
    """The gradient of a matrix of which rows were taken: grads[i] belongs to row indices[i]."""
    at = indices.to(_C.int64)
    if padding_idx >= 0:
        kept = at.ne(padding_idx).nonzero()[:, 0]
        at, grads = at.index_select(0, kept), grads.index_select(0, kept)
    name = "SparseCooTensorWithDimsAndTensors"
    return build(name, grads, at.unsqueeze(0), (rows, grads.size(1)))
