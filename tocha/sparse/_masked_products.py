"""The products of tocha.sparse: the gradient of a sparse factor has the places that the factor has, and no others."""

from __future__ import annotations

from typing import Any

from tocha import _C
from tocha.sparse import _geometry
from tocha.sparse._compressed import is_compressed
from tocha.sparse._compressed_history import held
from tocha.sparse._compressed_methods import transpose
from tocha.sparse._compressed_products import check_factors, mm, times_dense
from tocha.sparse._tensor import Tensor, is_sparse, layout_of


def masked_mm(mat1: Tensor, mat2: Tensor) -> Tensor:
    """mat1 @ mat2."""
    if is_compressed(mat1) and not (is_compressed(mat2) or is_sparse(mat2)):
        check_factors("sparse.mm", mat1, mat2)
        return times_dense(mat1, held(mat1), mat2)
    if is_compressed(mat2) and not (is_compressed(mat1) or is_sparse(mat1)):
        check_factors("sparse.mm", mat1, mat2)
        flipped: Any = transpose(mat2, 0, 1)
        return times_dense(flipped, held(flipped), mat1.t()).t()
    if is_compressed(mat1) or is_compressed(mat2):
        return mm(mat1, mat2)
    if is_sparse(mat1) or is_sparse(mat2):
        return _geometry.mm_masked(mat1, mat2)
    return _C.mm(mat1, mat2)


def addmm(mat: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1.0, alpha: Any = 1.0) -> Tensor:
    """beta * mat + alpha * (mat1 @ mat2).

    >>> import tocha
    >>> s = tocha.sparse_coo_tensor([[0, 1], [1, 0]], [3.0, 4.0], (2, 2))
    >>> tocha.sparse.addmm(tocha.ones(2, 2), s, tocha.ones(2, 2))
    tensor([[4., 4.],
            [5., 5.]])
    """
    if is_sparse(mat) or is_compressed(mat):
        if is_compressed(mat):
            return _C.addmm(mat, mat1, mat2, beta=beta, alpha=alpha)
        raise RuntimeError(
            f"addmm_sparse_dense: expected strided result tensor, got tensor with layout {layout_of(mat)}"
        )
    product = masked_mm(mat1, mat2)
    dense = product.to_dense() if is_sparse(product) or is_compressed(product) else product
    return mat * beta + dense * alpha


def spsolve(input: Tensor, other: Tensor, *, left: bool = True) -> Tensor:
    """The solution of a linear system with a sparse matrix: for devices with a sparse solver only."""
    raise RuntimeError("Calling linear solver with sparse tensors requires compiling PyTorch with CUDA cuDSS")
