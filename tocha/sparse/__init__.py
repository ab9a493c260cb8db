"""Sparse tensors: in coordinate form (COO), and compressed by rows or columns, of values or of blocks (CSR, CSC, BSR, BSC).

`tocha.sparse_coo_tensor`, `tocha.sparse_csr_tensor` and their kin make one, `Tensor.to_sparse` too, and so does the backward
of embeddings with sparse=True. What has no sparse form is refused; `to_dense()` gives the same numbers to everything.
"""

from __future__ import annotations

from typing import Any

from tocha.sparse import _coordinates, _factories, _geometry, _layouts, _out, _resize, _saved  # noqa: F401
from tocha.sparse._compressed_products import reduced_mm, sampled_addmm
from tocha.sparse._construct import check_sparse_tensor_invariants
from tocha.sparse._functions import as_sparse_gradcheck, log_softmax, softmax, spdiags
from tocha.sparse._masked_products import addmm, masked_mm, spsolve
from tocha.sparse._tensor import Tensor, is_sparse, layout_of
from tocha.sparse._types import sparse_types

__all__ = [
    "addmm",
    "as_sparse_gradcheck",
    "check_sparse_tensor_invariants",
    "log_softmax",
    "mm",
    "sampled_addmm",
    "softmax",
    "spdiags",
    "spsolve",
    "sum",
]

globals().update(sparse_types())


def mm(mat1: Tensor, mat2: Tensor, reduce: str | None = None) -> Tensor:
    """The product of two matrices of which one or both may be sparse. The gradient of a sparse factor has its places only.

    With reduce ("sum", "mean", "amax", "amin") the products that make an element are combined so.

    >>> import tocha
    >>> s = tocha.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3))
    >>> tocha.sparse.mm(s, tocha.ones(3, 2))
    tensor([[3., 3.],
            [4., 4.]])
    """
    return masked_mm(mat1, mat2) if reduce is None else reduced_mm(mat1, mat2, reduce)


def sum(input: Tensor, dim: Any = None, dtype: Any = None) -> Tensor:
    """The sum of a sparse tensor's elements, or along dims: sparse where a sparse dimension is left.

    >>> import tocha
    >>> s = tocha.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3))
    >>> tocha.sparse.sum(s)
    tensor(7.)
    """
    if not is_sparse(input):
        if dim is not None and layout_of(input) != "Strided":
            name = layout_of(input)
            raise NotImplementedError(f"Could not run 'aten::_indices' with arguments from the '{name}CPU' backend")
        raise RuntimeError(f"coalesce expected sparse coordinate tensor layout but got {layout_of(input)}")
    return _geometry.sum(input, dim, dtype=dtype)
