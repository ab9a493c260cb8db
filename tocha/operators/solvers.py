"""Systems of linear equations, inverses, determinants.

The factors come from factorizations.py; the kernels are in csrc/cpu/lapack.
"""

from __future__ import annotations

import math

from tocha.ir import dtypes as dt
from tocha.operators.factorizations import (
    LAPACK,
    check_matrices,
    check_right_hand,
    check_same_kind,
    check_square_matrices,
    positive,
    refuse_integers,
    refuse_low_precision,
    squares,
)
from tocha.operators.record import composite, gradient, native, op, rule
from tocha.operators.rules import (
    Out,
    broadcast_shapes,
    column_major,
    contiguous_strides,
    product,
    real_dtype,
    warn_once,
    wrap_dims,
)

_OUT = "function, out"
_METHOD = "function, method, out"
SINGULAR = "The solver failed because the input matrix is singular."
NOT_INVERTIBLE = (
    "The diagonal element {} is zero, the inversion could not be completed because the input matrix is singular."
)


# -- systems of equations ------------------------------------------------------------------------------


@rule
def is_vector_case(A: "Tensor", B: "Tensor") -> "bool":
    """B holds one right-hand side per matrix of A, rather than matrices of them."""
    return B.dim() == 1 or (A.dim() - 1 == B.dim() and B.shape == A.shape[:-1])


@rule
def check_system(name: "str", A: "Tensor", B: "Tensor", left: "bool", vectors: "bool") -> "none":
    """A @ X = B, or X @ A = B, can be written down."""
    check_same_kind(name, A, B)
    check_square_matrices(name, A)
    rows = B.shape[-1] if vectors else B.size(-2)
    columns = 1 if vectors else B.shape[-1]
    if A.shape[-1] != (rows if left else columns):
        equation = "AX = B" if left else "XA = B"
        raise RuntimeError(
            f"[{name}] {name}: Incompatible shapes of A and B for the equation {equation} ({A.shape[-2]}x{A.shape[-1]} and {rows}x{columns})"
        )


@native(
    "_solve(Tensor A, Tensor B, bool left, bool vectors) -> (Tensor, Tensor, Tensor, Tensor)",
    algorithm="LAPACK",
    kernel="solve",
    dtypes=LAPACK,
    variants="",
    differentiable=(0,),
    node="LinalgSolveExBackward0",
)
def _solve(A, B, left, vectors):
    """The solution, the factors of A with their row swaps, and where a pivot was zero."""
    if B.dim() == 0:
        raise RuntimeError("[linalg.solve] linalg.solve: The input tensor B must have at least 2 dimensions.")
    check_system("linalg.solve", A, B, left, vectors)
    own = B.shape[-1:] if vectors else B.shape[-2:]
    batch = broadcast_shapes(A.shape[:-2], B.shape[:-1] if vectors else B.shape[:-2], "linalg.solve")
    sizes = [*batch, *own]
    solution = column_major(sizes, A.dtype) if left else Out(sizes, A.dtype, strides=contiguous_strides(sizes))
    return solution, column_major(A.shape, A.dtype), Out(A.shape[:-1], dt.int32), Out(A.shape[:-2], dt.int32)


@gradient(_solve, "A", "B")
def solve_gradient(grad, A, left, vectors, result0, result1, result2, wanted):
    G = grad.unsqueeze(-1) if vectors else grad
    X = result0.unsqueeze(-1) if vectors else result0
    to_B = op._solve_factored(A, result1, result2, G, left, True)
    to_A: "Tensor?" = None
    if wanted[0]:
        to_A = -(to_B.matmul(X.mH) if left else X.mH.matmul(to_B))
    return to_A, to_B.squeeze(-1) if vectors else to_B


@native(
    "_solve_factored(Tensor A, Tensor LU, Tensor pivots, Tensor B, bool left, bool adjoint) -> Tensor",
    algorithm="LAPACK",
    kernel="solve_factored",
    dtypes=LAPACK,
    variants="",
)
def _solve_factored(A, LU, pivots, B, left, adjoint):
    """linalg.solve of A (or its adjoint), whose factors are known; as a function it depends on A, not on these."""
    batch = broadcast_shapes(A.shape[:-2], B.shape[:-2], "linalg.solve")
    sizes = [*batch, *B.shape[-2:]]
    return column_major(sizes, B.dtype) if left else Out(sizes, B.dtype, strides=contiguous_strides(sizes))


@gradient(_solve_factored, "A", "B")
def solve_factored_gradient(grad, A, LU, pivots, left, adjoint, result, wanted):
    to_B = op._solve_factored(A, LU, pivots, grad, left, not adjoint)
    to_A: "Tensor?" = None
    if wanted[0]:
        to_A = -(to_B.matmul(result.mH) if left else result.mH.matmul(to_B))
        if adjoint:
            to_A = to_A.mH
    return to_A, to_B


def _systems(t):
    return [((t(3, 3), t(3, 2)), {}), ((t(2, 3, 3), t(2, 3)), {}), ((t(3, 3), t(2, 4, 3)), {"left": False})]


@composite(
    "_linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) -> (Tensor result, Tensor LU, Tensor pivots, Tensor info)",
    dtypes=LAPACK,
    variants=_OUT,
    samples=_systems,
    whole=True,
)
def _linalg_solve_ex(A, B, left, check_errors):
    """The solution and the factors it came from."""
    result, LU, pivots, info = op._solve(A, B, left, is_vector_case(A, B))
    if check_errors:
        op._check_info(info, "linalg.solve_ex", SINGULAR)
    return result, LU, pivots, info


@composite(
    "linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) -> (Tensor result, Tensor info)",
    dtypes=LAPACK,
    variants=_OUT,
    samples=_systems,
    aten=("linalg_solve_ex.out",),
    tags={"exact_out"},
)
def linalg_solve_ex(A, B, left, check_errors):
    """linalg.solve with a code per matrix (0: fine) in place of an error."""
    result, _lu, _pivots, info = op._linalg_solve_ex(A, B, left=left, check_errors=check_errors)
    return result, info


@composite(
    "linalg_solve(Tensor A, Tensor B, *, bool left=True) -> Tensor",
    autocast="float32",
    dtypes=LAPACK,
    variants=_OUT,
    tags={"exact_out"},
    samples=_systems,
    word="lu_cpu",
)
def linalg_solve(A, B, left):
    """X with A @ X = B (or X @ A = B), for square invertible A; batch dims broadcast."""
    result, _lu, _pivots, info = op._linalg_solve_ex(A, B, left=left)
    op._check_info(info, "linalg.solve", SINGULAR)
    return result


@native(
    "linalg_solve_triangular(Tensor self, Tensor B, *, bool upper, bool left=True, bool unitriangular=False) -> Tensor",
    algorithm="LAPACK",
    kernel="triangular_solution",
    dtypes=LAPACK,
    variants=_OUT,
    samples=lambda t: [
        ((positive(t, 3, 3), t(3, 2)), {"upper": True}),
        ((positive(t, 2, 3, 3), t(4, 3)), {"upper": False, "left": False}),
    ],
    word="triangular_solve_cpu",
)
def linalg_solve_triangular(self, B, upper, left, unitriangular):
    """X with A @ X = B (or X @ A = B), reading one triangle of A, or that without its diagonal, which is then ones."""
    refuse_integers("linalg.solve_triangular", self)
    check_matrices("linalg.solve_triangular", self)
    check_matrices("linalg.solve_triangular", B)
    check_system("linalg.solve_triangular", self, B, left, False)
    batch = broadcast_shapes(self.shape[:-2], B.shape[:-2], "linalg.solve_triangular")
    return column_major([*batch, *B.shape[-2:]], B.dtype)


@gradient(linalg_solve_triangular, "self", "B")
def solve_triangular_gradient(grad, self, upper, left, unitriangular, result, wanted):
    to_B = op.linalg_solve_triangular(self.mH, grad, upper=not upper, left=left, unitriangular=unitriangular)
    to_A: "Tensor?" = None
    if wanted[0]:
        whole = -(to_B.matmul(result.mH) if left else result.mH.matmul(to_B))
        strict = 1 if unitriangular else 0
        to_A = whole.triu(strict) if upper else whole.tril(-strict)
    return to_A, to_B


@native("_column_major_copy(Tensor self) -> Tensor", algorithm="memory", kernel="copy_column_major", variants="")
def _column_major_copy(self):
    """A copy whose matrices are stored column by column."""
    return column_major(self.shape, self.dtype)


@gradient(_column_major_copy, "self")
def column_major_copy_gradient(grad):
    return grad


@composite(
    "triangular_solve(Tensor self, Tensor A, bool upper=True, bool transpose=False, bool unitriangular=False) -> (Tensor solution, Tensor cloned_coefficient)",
    node="TriangularSolveBackward0",
    autocast="float32",
    dtypes=LAPACK,
    variants=_METHOD,
    samples=lambda t: [((t(3, 2), positive(t, 3, 3)), {})],
    aten=(
        "triangular_solve.X(Tensor self, Tensor A, bool upper=True, bool transpose=False, bool unitriangular=False, *, Tensor(a!) X, Tensor(b!) M) -> (Tensor(a!) solution, Tensor(b!) cloned_coefficient)",
    ),
    whole=True,
    tags={"exact_out"},
)
def triangular_solve(self, A, upper, transpose, unitriangular):
    """Deprecated form of linalg.solve_triangular, which also copies A."""
    warn_once(
        "tocha.triangular_solve is deprecated in favor of tocha.linalg.solve_triangularand will be removed in a future tocha release."
    )
    if self.dim() < 2:
        raise RuntimeError(
            f"[triangular_solve] torch.triangular_solve: Expected b to have at least 2 dimensions, but it has {self.dim()} dimensions instead"
        )
    if A.dim() < 2:
        raise RuntimeError(
            f"[triangular_solve] torch.triangular_solve: Expected A to have at least 2 dimensions, but it has {A.dim()} dimensions instead"
        )
    check_right_hand("triangular_solve", A, self)
    refuse_integers("triangular_solve", A)
    check_square_matrices("triangular_solve", A)
    triangle = A.mT if transpose else A
    solution = op.linalg_solve_triangular(triangle, self, upper=upper != transpose, unitriangular=unitriangular)
    return solution, op._column_major_copy(A.expand([*solution.shape[:-2], *A.shape[-2:]]))


@native(
    "cholesky_solve(Tensor self, Tensor input2, bool upper=False) -> Tensor",
    algorithm="LAPACK",
    autocast="float32",
    dtypes=LAPACK,
    variants=_METHOD,
    constraints={"input2": "triangular"},
    samples=lambda t: [((t(3, 2), positive(t, 3, 3)), {}), ((t(3, 2), positive(t, 2, 3, 3)), {"upper": True})],
)
def cholesky_solve(self, input2, upper):
    """X with A @ X = self, from the Cholesky factor of A."""
    if input2.dim() < 2:
        raise RuntimeError(
            f"[cholesky_solve] u should have at least 2 dimensions, but has {input2.dim()} dimensions instead"
        )
    check_right_hand("cholesky_solve", input2, self)
    refuse_integers("cholesky_solve", input2)
    check_square_matrices("cholesky_solve", input2)
    check_system("cholesky_solve", input2, self, True, False)
    batch = broadcast_shapes(self.shape[:-2], input2.shape[:-2], "cholesky_solve")
    return column_major([*batch, *self.shape[-2:]], self.dtype)


@gradient(cholesky_solve, "self", "input2")
def cholesky_solve_gradient(grad, input2, upper, result, wanted):
    to_self = op.cholesky_solve(grad, input2, upper)
    to_factor: "Tensor?" = None
    if wanted[1]:
        product_gradient = to_self.matmul(result.mH)
        both = -(product_gradient + product_gradient.mH)
        to_factor = input2.matmul(both) if upper else both.matmul(input2)
    return to_self, to_factor


def _factored(t):
    return t.call("linalg_lu_factor", t(2, 3, 3))


@native(
    "linalg_lu_solve(Tensor LU, Tensor pivots, Tensor B, *, bool left=True, bool adjoint=False) -> Tensor",
    algorithm="LAPACK",
    kernel="lu_solve_with",
    dtypes=LAPACK,
    variants=_OUT,
    samples=lambda t: [((*_factored(t), t(3, 2)), {}), ((*_factored(t), t(2, 4, 3)), {"left": False, "adjoint": True})],
)
def linalg_lu_solve(LU, pivots, B, left, adjoint):
    """X with A @ X = B (or X @ A = B, or with A's adjoint), from the factors of A that lu_factor returns."""
    check_square_matrices("linalg.lu_solve", LU)
    if LU.dtype != B.dtype:
        raise RuntimeError(
            f"[linalg.lu_solve] linalg.lu_solve: Expected LU and B to have the same dtype, but found LU of type {LU.dtype} and B of type {B.dtype} instead"
        )
    if B.dim() < 2:
        raise RuntimeError(
            f"[linalg.lu_solve] linalg.lu_solve: The input tensor B must have at least 2 dimensions. Got shape {B.shape}"
        )
    if pivots.dtype != dt.int32:
        raise RuntimeError(
            f"[linalg.lu_solve] linalg.lu_solve: pivots should be a Tensor of scalar type torch.int32, but got {pivots.dtype}"
        )
    check_system("linalg.lu_solve", LU, B, left, False)
    if pivots.dim() == 0 or pivots.shape[-1] != LU.shape[-1]:
        raise RuntimeError(
            f"[linalg.lu_solve] linalg.lu_solve: Number of pivots per batch should be same as the dimension of the matrix: {pivots.shape} and {LU.shape}"
        )
    if pivots.shape[:-1] != LU.shape[:-2]:
        raise RuntimeError(
            f"[linalg.lu_solve] linalg.lu_solve: Expected LU.shape[:-1] and pivots.shape to be the same, but got pivots with shape {pivots.shape} instead"
        )
    batch = broadcast_shapes(LU.shape[:-2], B.shape[:-2], "linalg.lu_solve")
    sizes = [*batch, *B.shape[-2:]]
    return column_major(sizes, B.dtype) if left else Out(sizes, B.dtype, strides=contiguous_strides(sizes))


@gradient(linalg_lu_solve, "LU", "B")
def lu_solve_gradient(grad, LU, pivots, left, adjoint, result, wanted):
    to_B = op.linalg_lu_solve(LU, pivots, grad, left=left, adjoint=not adjoint)
    to_LU: "Tensor?" = None
    if wanted[0]:
        # the gradient of A = P @ L @ U, and from that of its factors
        to_A = -(to_B.matmul(result.mH) if left else result.mH.matmul(to_B))
        P, L, U = op.lu_unpack(LU, pivots)
        rows = P.mT.matmul(to_A.mH if adjoint else to_A)
        to_LU = rows.matmul(U.mH).tril(-1) + L.mH.matmul(rows).triu()
    return to_LU, to_B


@composite(
    "lu_solve(Tensor self, Tensor LU_data, Tensor LU_pivots) -> Tensor",
    autocast="float32",
    dtypes=LAPACK,
    variants=_METHOD,
    tags={"exact_out"},
    samples=lambda t: [((t(2, 3, 2), *_factored(t)), {})],
)
def lu_solve(self, LU_data, LU_pivots):
    """Deprecated form of linalg.lu_solve."""
    warn_once(
        "tocha.lu_solve is deprecated in favor of tocha.linalg.lu_solveand will be removed in a future tocha release."
    )
    return op.linalg_lu_solve(LU_data, LU_pivots, self)


# -- inverses ------------------------------------------------------------------------------------------


@native(
    "_inverse(Tensor A) -> (Tensor, Tensor)",
    algorithm="LAPACK",
    kernel="inverse_of",
    dtypes=LAPACK,
    variants="",
    node="LinalgInvExBackward0",
)
def _inverse(A):
    """The inverses, and where a pivot was zero."""
    refuse_low_precision("linalg.inv", A)
    check_square_matrices("linalg.inv", A)
    return column_major(A.shape, A.dtype), Out(A.shape[:-2], dt.int32)


@gradient(_inverse, "A")
def inverse_gradient(grad, result0):
    return -result0.mH.matmul(grad).matmul(result0.mH)


@composite(
    "linalg_inv_ex(Tensor A, *, bool check_errors=False) -> (Tensor inverse, Tensor info)",
    autocast="float32",
    dtypes=LAPACK,
    variants=_OUT,
    samples=squares,
    whole=True,
    tags={"exact_out"},
)
def linalg_inv_ex(A, check_errors):
    """linalg.inv with a code per matrix (0: fine) in place of an error."""
    inverse, info = op._inverse(A)
    if check_errors:
        op._check_info(info, "linalg.inv_ex", NOT_INVERTIBLE)
    return inverse, info


@composite(
    "linalg_inv(Tensor A) -> Tensor",
    autocast="float32",
    dtypes=LAPACK,
    variants=_OUT,
    tags={"exact_out"},
    samples=squares,
)
def linalg_inv(A):
    """The inverses of square matrices."""
    inverse, info = op._inverse(A)
    op._check_info(info, "linalg.inv", NOT_INVERTIBLE)
    return inverse


@composite(
    "inverse(Tensor self) -> Tensor",
    autocast="float32",
    dtypes=LAPACK,
    variants=_METHOD,
    tags={"exact_out"},
    samples=squares,
)
def inverse(self):
    """The inverses of square matrices."""
    return op.linalg_inv(self)


@native(
    "_cholesky_inverse(Tensor self, bool upper) -> (Tensor, Tensor)",
    algorithm="LAPACK",
    kernel="cholesky_inverse",
    dtypes=LAPACK,
    variants="",
)
def _cholesky_inverse(self, upper):
    """The inverses, and where a factor's diagonal was zero."""
    refuse_integers("cholesky_inverse", self)
    check_square_matrices("cholesky_inverse", self)
    return column_major(self.shape, self.dtype), Out(self.shape[:-2], dt.int32)


@gradient(_cholesky_inverse, "self")
def cholesky_inverse_gradient(grad, self, upper, result0):
    both = -result0.matmul(grad + grad.mH).matmul(result0)
    return self.matmul(both) if upper else both.matmul(self)


@composite(
    "cholesky_inverse(Tensor self, bool upper=False) -> Tensor",
    autocast="float32",
    dtypes=LAPACK,
    variants=_METHOD,
    constraints={"self": "factor"},
    samples=lambda t: [((positive(t, 3, 3),), {}), ((positive(t, 2, 3, 3),), {"upper": True})],
    whole=True,
    word="cholesky_inverse_out_cpu",
)
def cholesky_inverse(self, upper):
    """The inverses of Hermitian positive-definite matrices, from their Cholesky factors."""
    result, info = op._cholesky_inverse(self, upper)
    op._check_info(info, "cholesky_inverse", NOT_INVERTIBLE)
    return result


@composite(
    "linalg_tensorinv(Tensor self, int ind=2) -> Tensor",
    autocast="float32",
    dtypes=LAPACK,
    variants=_OUT,
    samples=lambda t: [((t(2, 3, 6),), {}), ((t(6, 2, 3),), {"ind": 1})],
)
def linalg_tensorinv(self, ind):
    """The inverse of a tensor as a map from its last dims to the first `ind` ones."""
    if ind <= 0:
        raise RuntimeError(f"[linalg.tensorinv] Expected a strictly positive integer for 'ind', but got {ind}")
    first, last = self.shape[:ind], self.shape[ind:]
    if product(first) != product(last):
        raise RuntimeError(
            f"[linalg.tensorinv] Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]), but got {product(last)} != {product(first)}"
        )
    inverse, info = op._inverse(self.reshape([product(last), product(first)]))
    op._check_info(info, "linalg.tensorinv", NOT_INVERTIBLE)
    return inverse.reshape([*last, *first])


@composite(
    "linalg_tensorsolve(Tensor self, Tensor other, int[]? dims=None) -> Tensor",
    autocast="float32",
    dtypes=LAPACK,
    variants=_OUT,
    samples=lambda t: [((t(2, 3, 6), t(2, 3)), {}), ((t(6, 2, 3), t(2, 3)), {"dims": [0]})],
)
def linalg_tensorsolve(self, other, dims):
    """X with tensordot(self, X, X.ndim) = other; `dims` of self are moved to its end first."""
    A = self
    if dims is not None:
        moved = wrap_dims(dims, self.dim())
        A = self.permute([*[i for i in range(self.dim()) if i not in moved], *moved])
    sizes = A.shape[other.dim() :]
    if product(sizes) != product(other.shape) or A.numel() != other.numel() * product(sizes):
        raise RuntimeError(
            f"[linalg.tensorsolve] Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == prod(self.shape[:other.ndim]), but got {A.shape} and {other.shape}"
        )
    n = product(sizes)
    return op.linalg_solve(A.reshape([n, n]), other.reshape([n])).reshape(sizes)


# -- determinants --------------------------------------------------------------------------------------


@native(
    "_linalg_det(Tensor A) -> (Tensor result, Tensor LU, Tensor pivots)",
    algorithm="LAPACK",
    kernel="determinant",
    dtypes=LAPACK,
    variants=_OUT,
    differentiable=(0,),
    samples=squares,
)
def _linalg_det(A):
    """The determinant and the factors it came from."""
    check_square_matrices("linalg.det", A)
    return Out(A.shape[:-2], A.dtype), column_major(A.shape, A.dtype), Out(A.shape[:-1], dt.int32)


@rule
def scaled_inverse_adjoint(A: "Tensor", LU: "Tensor", pivots: "Tensor", factor: "Tensor") -> "Tensor":
    """factor * inverse(A).mH, with a factor for each matrix."""
    diagonal = factor.unsqueeze(-1).expand(A.shape[:-1])
    return op._solve_factored(A, LU, pivots, op.diag_embed(diagonal), True, True)


@gradient(_linalg_det, "A")
def det_gradient(grad, A, result0, result1, result2):
    if A.numel() == 0:
        return op.zeros_like(A)
    found = scaled_inverse_adjoint(A, result1, result2, grad * result0.conj())
    return found.masked_fill((result0 == 0).unsqueeze(-1).unsqueeze(-1), 0)


@composite(
    "linalg_det(Tensor A) -> Tensor", dtypes=LAPACK, variants=_OUT, tags={"exact_out"}, samples=squares, word="lu_cpu"
)
def linalg_det(A):
    """The determinants of square matrices."""
    result, _lu, _pivots = op._linalg_det(A)
    return result


@composite("det(Tensor self) -> Tensor", dtypes=LAPACK, samples=squares)
def det(self):
    """The determinants of square matrices."""
    return op.linalg_det(self)


@native(
    "_linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet, Tensor LU, Tensor pivots)",
    algorithm="LAPACK",
    kernel="sign_and_log_determinant",
    dtypes=LAPACK,
    variants=_OUT,
    differentiable=(0, 1),
    samples=squares,
)
def _linalg_slogdet(A):
    """The determinant in parts, and the factors it came from."""
    refuse_low_precision("linalg.slogdet", A)
    check_square_matrices("linalg.slogdet", A)
    batch = A.shape[:-2]
    return (
        Out(batch, A.dtype),
        Out(batch, real_dtype(A.dtype)),
        column_major(A.shape, A.dtype),
        Out(A.shape[:-1], dt.int32),
    )


@gradient(_linalg_slogdet, "A")
def slogdet_gradient(grad0, grad1, A, result0, result2, result3):
    # A real sign is constant. A complex one turns with the imaginary part of trace(inverse(A) @ dA).
    if A.numel() == 0:
        return op.zeros_like(A)
    if not A.is_complex():
        if grad1 is None:
            return None
        return scaled_inverse_adjoint(A, result2, result3, grad1)
    factor = op.zeros_like(result0)
    if grad1 is not None:
        factor = factor + grad1
    if grad0 is not None:
        turn = op.imag(grad0.conj() * result0)
        factor = factor + op.complex(op.zeros_like(turn), -turn)
    return scaled_inverse_adjoint(A, result2, result3, factor)


@composite(
    "linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet)",
    dtypes=LAPACK,
    variants=_OUT,
    samples=squares,
    aten=("linalg_slogdet.out",),
    tags={"exact_out"},
)
def linalg_slogdet(A):
    """The sign (for complex matrices the unit number) of the determinants, and the logarithm of their magnitude."""
    sign, logabsdet, _lu, _pivots = op._linalg_slogdet(A)
    return sign, logabsdet


@composite(
    "slogdet(Tensor self) -> (Tensor sign, Tensor logabsdet)",
    dtypes=LAPACK,
    variants=_METHOD,
    samples=squares,
    aten=("slogdet.out",),
)
def slogdet(self):
    """The sign of the determinants and the logarithm of their magnitude."""
    return op.linalg_slogdet(self)


@composite("logdet(Tensor self) -> Tensor", dtypes=LAPACK, samples=lambda t: [((positive(t, 2, 3, 3),), {})])
def logdet(self):
    """The logarithm of the determinants; nan where a real one is negative."""
    sign, logabsdet = op.linalg_slogdet(self)
    if self.is_complex():
        return sign.log() + logabsdet
    return op.where(sign == -1, math.nan, logabsdet)
