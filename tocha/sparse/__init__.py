"""Sparse tensors in coordinate form (COO): indices of the elements that are held, and their values.

`tocha.sparse_coo_tensor` makes one, `Tensor.to_sparse` too, and so does the backward of embeddings with sparse=True. What
has no sparse form is refused; `to_dense()` gives the same numbers to everything.
"""

from __future__ import annotations

from typing import Any

from tocha import _C
from tocha.sparse import _geometry, _saved  # noqa: F401
from tocha.sparse._construct import check_sparse_tensor_invariants
from tocha.sparse._geometry import addmm
from tocha.sparse._tensor import Tensor, is_sparse

__all__ = ["addmm", "check_sparse_tensor_invariants", "mm", "sum"]


def mm(mat1: Tensor, mat2: Tensor) -> Tensor:
    """The product of two matrices of which one or both may be sparse; both have gradients.

    >>> import tocha
    >>> s = tocha.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3))
    >>> tocha.sparse.mm(s, tocha.ones(3, 2))
    tensor([[3., 3.],
            [4., 4.]])
    """
    return _C.mm(mat1, mat2)


def sum(input: Tensor, dim: Any = None, dtype: Any = None) -> Tensor:
    """The sum of a sparse tensor's elements, or along dims: sparse where a sparse dimension is left.

    >>> import tocha
    >>> s = tocha.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3))
    >>> tocha.sparse.sum(s)
    tensor(7.)
    """
    if not is_sparse(input):
        raise RuntimeError("coalesce expected sparse coordinate tensor layout but got Strided")
    return _geometry.sum(input, dim, dtype=dtype)
