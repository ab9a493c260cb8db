"""Matrix decompositions: Cholesky, LU, LDL, QR, singular values, eigenvalues.

The kernels (csrc/cpu/lapack_*.cpp) report failures per matrix in `info`; the public operators turn those into
LinAlgError. What solves systems with the factors is in solvers.py.
"""

from __future__ import annotations

from tocha.ir import dtypes as dt
from tocha.operators.record import COMPLEX, composite, native, op, rule
from tocha.operators.rules import Out, broadcast_shapes, check_info, column_major, complex_dtype, real_dtype, warn_once

LAPACK = (dt.float32, dt.float64, *COMPLEX)
_OUT = "function, out"
_METHOD = "function, method, out"
NOT_POSITIVE = (
    "The factorization could not be completed because the input is not positive-definite "
    "(the leading minor of order {} is not positive-definite)."
)
ZERO_PIVOT = (
    "U[{},{}] is zero and using it on lu_solve would result in a division by zero. If you still want to perform the "
    "factorization, consider calling linalg.lu(A, pivot) or linalg.lu_factor_ex(A, pivot)"
)
ZERO_BLOCK = "The factorization has a zero block in D at {}: the matrix is singular and ldl_solve would divide by zero."
_DIVERGED = "The algorithm failed to converge because the input matrix is ill-conditioned or has too many repeated "
SVD_FAILED = _DIVERGED + "singular values (error code: {})."
EIGEN_FAILED = _DIVERGED + "eigenvalues (error code: {})."


@rule
def check_matrices(name: "str", A: "Tensor") -> "none":
    """A batch of matrices of a dtype that LAPACK knows."""
    if A.dim() < 2:
        raise RuntimeError(f"[{name}] The input tensor must have at least 2 dimensions, but got shape {A.shape}")
    if not (A.is_floating_point() or A.is_complex()):
        raise RuntimeError(f"[{name}] Expected a floating point or complex tensor as input. Got {A.dtype}")
    if A.dtype not in (dt.float32, dt.float64, dt.complex64, dt.complex128):
        raise NotImplementedError(f"[{name}] not implemented for {A.dtype}")


@rule
def check_square_matrices(name: "str", A: "Tensor") -> "none":
    check_matrices(name, A)
    if A.shape[-1] != A.shape[-2]:
        raise RuntimeError(
            f"[{name}] A must be batches of square matrices, but they are {A.shape[-2]} by {A.shape[-1]} matrices"
        )


@rule
def check_same_kind(name: "str", A: "Tensor", B: "Tensor") -> "none":
    if A.dtype != B.dtype:
        raise RuntimeError(f"[{name}] Expected both tensors to have the same dtype, but got {A.dtype} and {B.dtype}")
    if A.device != B.device:
        raise RuntimeError(f"[{name}] Expected both tensors on the same device, but got {A.device} and {B.device}")


def positive(t, *shape):
    """A sample of Hermitian positive-definite matrices."""
    import tocha

    x = t(*shape)
    return x @ x.mH + tocha.eye(shape[-1], dtype=x.dtype) * 4


def squares(t):
    return [((t(3, 3),), {}), ((t(2, 3, 3),), {})]


# -- Cholesky ------------------------------------------------------------------------------------------


@native(
    "_cholesky_factor(Tensor self, bool upper) -> (Tensor, Tensor)",
    kernel="cholesky_factor",
    dtypes=LAPACK,
    variants="",
)
def _cholesky_factor(self, upper):
    """The triangular factor of Hermitian positive-definite matrices, and where it failed."""
    check_square_matrices("linalg.cholesky", self)
    return column_major(self.shape, self.dtype), Out(self.shape[:-2], dt.int32)


@composite(
    "linalg_cholesky_ex(Tensor self, *, bool upper=False, bool check_errors=False) -> (Tensor L, Tensor info)",
    dtypes=LAPACK,
    variants=_OUT,
    samples=lambda t: [((positive(t, 3, 3),), {}), ((positive(t, 2, 3, 3),), {"upper": True})],
)
def linalg_cholesky_ex(self, upper, check_errors):
    """The Cholesky factor, with a code per matrix (0: fine) in place of an error unless check_errors."""
    L, info = op._cholesky_factor(self, upper)
    if check_errors:
        check_info("linalg.cholesky_ex", info, NOT_POSITIVE)
    return L, info


@composite(
    "linalg_cholesky(Tensor self, *, bool upper=False) -> Tensor",
    dtypes=LAPACK,
    variants=_OUT,
    tags={"exact_out"},
    samples=lambda t: [((positive(t, 3, 3),), {}), ((positive(t, 2, 3, 3),), {"upper": True})],
)
def linalg_cholesky(self, upper):
    """The lower triangular L with L @ L.mH = self (or the upper U with U.mH @ U = self)."""
    L, info = op._cholesky_factor(self, upper)
    check_info("linalg.cholesky", info, NOT_POSITIVE)
    return L


@composite(
    "cholesky(Tensor self, bool upper=False) -> Tensor",
    dtypes=LAPACK,
    variants=_METHOD,
    tags={"exact_out"},
    samples=lambda t: [((positive(t, 2, 3, 3),), {})],
)
def cholesky(self, upper):
    """Deprecated form of linalg.cholesky."""
    warn_once("cholesky is deprecated in favor of linalg.cholesky and will be removed in a future release.")
    L, info = op._cholesky_factor(self, upper)
    check_info("cholesky", info, NOT_POSITIVE)
    return L


# -- LU ------------------------------------------------------------------------------------------------


@native("_lu_factor(Tensor A) -> (Tensor, Tensor, Tensor)", kernel="lu_factor", dtypes=LAPACK, variants="")
def _lu_factor(A):
    """L and U in one matrix, the row swaps, and the first zero on U's diagonal."""
    check_matrices("linalg.lu_factor", A)
    k = min(A.shape[-2], A.shape[-1])
    return column_major(A.shape, A.dtype), Out([*A.shape[:-2], k], dt.int32), Out(A.shape[:-2], dt.int32)


@rule
def check_pivot(name: "str", pivot: "bool") -> "none":
    if not pivot:
        raise RuntimeError(f"[{name}] LU without pivoting is not implemented on the CPU")


@composite(
    "linalg_lu_factor_ex(Tensor A, *, bool pivot=True, bool check_errors=False) -> (Tensor LU, Tensor pivots, Tensor info)",
    dtypes=LAPACK,
    variants=_OUT,
    samples=squares,
)
def linalg_lu_factor_ex(A, pivot, check_errors):
    """L and U in one matrix and the row swaps, with a code per matrix (0: fine) in place of an error."""
    check_pivot("linalg.lu_factor", pivot)
    LU, pivots, info = op._lu_factor(A)
    if check_errors:
        check_info("linalg.lu_factor_ex", info, ZERO_PIVOT)
    return LU, pivots, info


@composite(
    "linalg_lu_factor(Tensor A, *, bool pivot=True) -> (Tensor LU, Tensor pivots)",
    dtypes=LAPACK,
    variants=_OUT,
    samples=lambda t: [((t(3, 4),), {}), ((t(2, 4, 3),), {})],
)
def linalg_lu_factor(A, pivot):
    """L and U in one matrix and the row swaps: what lu_solve and lu_unpack take."""
    check_pivot("linalg.lu_factor", pivot)
    LU, pivots, info = op._lu_factor(A)
    check_info("linalg.lu_factor", info, ZERO_PIVOT)
    return LU, pivots


@composite(
    "_lu_with_info(Tensor self, bool pivot=True, bool check_errors=True) -> (Tensor LU, Tensor pivots, Tensor info)",
    dtypes=LAPACK,
    variants="function",
    samples=squares,
)
def _lu_with_info(self, pivot, check_errors):
    """What tocha.lu calls."""
    return op.linalg_lu_factor_ex(self, pivot=pivot, check_errors=check_errors)


@native(
    "lu_unpack(Tensor LU_data, Tensor LU_pivots, bool unpack_data=True, bool unpack_pivots=True) -> (Tensor P, Tensor L, Tensor U)",
    kernel="lu_unpack_factors",
    dtypes=LAPACK,
    variants=_OUT,
    samples=lambda t: _unpack_samples(t),
)
def lu_unpack(LU_data, LU_pivots, unpack_data, unpack_pivots):
    """P, L and U from what lu_factor returns; what is not asked for is empty."""
    check_matrices("lu_unpack", LU_data)
    m, n = LU_data.shape[-2], LU_data.shape[-1]
    k = min(m, n)
    if unpack_pivots:
        if LU_pivots.dtype != dt.int32:
            raise RuntimeError(
                f"[lu_unpack] LU_pivots is expected to be a tensor of int32, as lu_factor makes it, but got {LU_pivots.dtype}"
            )
        if LU_pivots.dim() == 0 or LU_pivots.shape[-1] != k or LU_pivots.shape[:-1] != LU_data.shape[:-2]:
            raise RuntimeError(
                f"[lu_unpack] pivots of shape {LU_pivots.shape} do not belong to factors of shape {LU_data.shape}"
            )
    empty = [0]
    batch = LU_data.shape[:-2]
    return (
        Out([*batch, m, m] if unpack_pivots else empty, LU_data.dtype),
        Out([*batch, m, k] if unpack_data else empty, LU_data.dtype),
        Out([*batch, k, n] if unpack_data else empty, LU_data.dtype),
    )


def _unpack_samples(t):
    import tocha

    LU, pivots = tocha.linalg.lu_factor(t(2, 3, 4))
    return [((LU, pivots), {})]


@composite(
    "linalg_lu(Tensor A, *, bool pivot=True) -> (Tensor P, Tensor L, Tensor U)",
    dtypes=LAPACK,
    variants=_OUT,
    samples=lambda t: [((t(3, 4),), {}), ((t(2, 4, 3),), {})],
)
def linalg_lu(A, pivot):
    """A = P @ L @ U: a permutation, a lower triangle with ones on its diagonal, an upper triangle."""
    check_pivot("linalg.lu", pivot)
    LU, pivots, _info = op._lu_factor(A)
    return op.lu_unpack(LU, pivots)


# -- LDL -----------------------------------------------------------------------------------------------


@native(
    "_ldl_factor(Tensor self, bool hermitian) -> (Tensor, Tensor, Tensor)",
    kernel="ldl_factor",
    dtypes=LAPACK,
    variants="",
)
def _ldl_factor(self, hermitian):
    """L and D of the lower triangle in one matrix, the swaps, and the first zero block of D."""
    check_square_matrices("linalg.ldl_factor", self)
    return column_major(self.shape, self.dtype), Out(self.shape[:-1], dt.int32), Out(self.shape[:-2], dt.int32)


@composite(
    "linalg_ldl_factor_ex(Tensor self, *, bool hermitian=False, bool check_errors=False) -> (Tensor LD, Tensor pivots, Tensor info)",
    dtypes=LAPACK,
    variants=_OUT,
    samples=lambda t: [((positive(t, 3, 3),), {}), ((positive(t, 2, 3, 3),), {"hermitian": True})],
)
def linalg_ldl_factor_ex(self, hermitian, check_errors):
    """The LDL factors of symmetric (or Hermitian) matrices, with a code per matrix in place of an error."""
    LD, pivots, info = op._ldl_factor(self, hermitian)
    if check_errors:
        check_info("linalg.ldl_factor_ex", info, ZERO_BLOCK)
    return LD, pivots, info


@composite(
    "linalg_ldl_factor(Tensor self, *, bool hermitian=False) -> (Tensor LD, Tensor pivots)",
    dtypes=LAPACK,
    variants=_OUT,
    samples=lambda t: [((positive(t, 3, 3),), {}), ((positive(t, 2, 3, 3),), {"hermitian": True})],
)
def linalg_ldl_factor(self, hermitian):
    """L and D with L @ D @ L.mT = self (L.mH where hermitian) in one matrix, and the swaps."""
    LD, pivots, info = op._ldl_factor(self, hermitian)
    check_info("linalg.ldl_factor", info, ZERO_BLOCK)
    return LD, pivots


@native(
    "linalg_ldl_solve(Tensor LD, Tensor pivots, Tensor B, *, bool hermitian=False) -> Tensor",
    kernel="ldl_solution",
    dtypes=LAPACK,
    variants=_OUT,
    samples=lambda t: _ldl_solve_samples(t),
)
def linalg_ldl_solve(LD, pivots, B, hermitian):
    """X with A @ X = B, from the factors of A that ldl_factor returns."""
    check_square_matrices("linalg.ldl_solve", LD)
    check_matrices("linalg.ldl_solve", B)
    check_same_kind("linalg.ldl_solve", LD, B)
    if pivots.dtype != dt.int32:
        raise RuntimeError(f"[linalg.ldl_solve] Expected pivots to be integers of int32. Got {pivots.dtype}")
    if pivots.shape != LD.shape[:-1]:
        raise RuntimeError(f"[linalg.ldl_solve] pivots of shape {pivots.shape} do not belong to LD of shape {LD.shape}")
    if LD.shape[-1] != B.shape[-2]:
        raise RuntimeError(
            f"[linalg.ldl_solve] Incompatible shapes of LD and B for the equation AX = B ({LD.shape} and {B.shape})"
        )
    batch = broadcast_shapes(LD.shape[:-2], B.shape[:-2], "linalg.ldl_solve")
    return column_major([*batch, B.shape[-2], B.shape[-1]], B.dtype)


def _ldl_solve_samples(t):
    import tocha

    LD, pivots = tocha.linalg.ldl_factor(positive(t, 2, 3, 3))
    return [((LD, pivots, t(2, 3, 4)), {})]


# -- QR ------------------------------------------------------------------------------------------------


@native("geqrf(Tensor self) -> (Tensor a, Tensor tau)", dtypes=LAPACK, variants=_METHOD, samples=squares)
def geqrf(self):
    """The Householder reflections of a QR decomposition, below R, and their factors."""
    check_matrices("geqrf", self)
    k = min(self.shape[-2], self.shape[-1])
    return column_major(self.shape, self.dtype), Out([*self.shape[:-2], k], self.dtype)


@native(
    "_qr_factors(Tensor A, bool complete, bool compute_q) -> (Tensor, Tensor)",
    kernel="qr_factors",
    dtypes=LAPACK,
    variants="",
)
def _qr_factors(A, complete, compute_q):
    """Q (empty unless wanted) and R."""
    check_matrices("linalg.qr", A)
    m, n = A.shape[-2], A.shape[-1]
    k = m if complete else min(m, n)
    batch = A.shape[:-2]
    return column_major([*batch, m, k] if compute_q else [0], A.dtype), column_major([*batch, k, n], A.dtype)


@composite(
    "linalg_qr(Tensor A, str mode='reduced') -> (Tensor Q, Tensor R)",
    dtypes=LAPACK,
    variants=_OUT,
    samples=lambda t: [((t(3, 4),), {}), ((t(2, 4, 3),), {"mode": "complete"}), ((t(4, 3),), {"mode": "r"})],
)
def linalg_qr(A, mode):
    """A = Q @ R: orthonormal columns and an upper triangle. mode is reduced, complete or r (without Q)."""
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(
            f"[linalg.qr] qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or 'complete'"
        )
    return op._qr_factors(A, mode == "complete", mode != "r")


@composite("qr(Tensor self, bool some=True) -> (Tensor Q, Tensor R)", dtypes=LAPACK, variants=_METHOD, samples=squares)
def qr(self, some):
    """Deprecated form of linalg.qr."""
    warn_once("qr is deprecated in favor of linalg.qr and will be removed in a future release.")
    return op._qr_factors(self, not some, True)


@rule
def check_reflections(name: "str", input: "Tensor", tau: "Tensor") -> "none":
    check_matrices(name, input)
    check_same_kind(name, input, tau)
    if tau.dim() != input.dim() - 1:
        raise RuntimeError(
            f"[{name}] Expected tau to have one dimension less than input, but got {tau.shape} and {input.shape}"
        )
    if tau.shape[:-1] != input.shape[:-2]:
        raise RuntimeError(f"[{name}] Expected the batch dims of tau and input to agree: {tau.shape} and {input.shape}")


@native(
    "linalg_householder_product(Tensor input, Tensor tau) -> Tensor",
    kernel="householder_product",
    dtypes=LAPACK,
    variants=_OUT,
    samples=lambda t: [((t(4, 3), t(3)), {}), ((t(2, 4, 3), t(2, 2)), {})],
)
def linalg_householder_product(input, tau):
    """The first columns of the product of Householder reflections, given as geqrf leaves them."""
    check_reflections("linalg.householder_product", input, tau)
    if input.shape[-2] < input.shape[-1]:
        raise RuntimeError(
            f"[linalg.householder_product] input.shape[-2] must be greater than or equal to input.shape[-1]: {input.shape}"
        )
    if input.shape[-1] < tau.shape[-1]:
        raise RuntimeError(
            f"[linalg.householder_product] input.shape[-1] must be greater than or equal to tau.shape[-1]: {input.shape} and {tau.shape}"
        )
    return column_major(input.shape, input.dtype)


@composite(
    "orgqr(Tensor self, Tensor input2) -> Tensor",
    dtypes=LAPACK,
    variants=_METHOD,
    tags={"exact_out"},
    samples=lambda t: [((t(4, 3), t(3)), {})],
)
def orgqr(self, input2):
    """linalg.householder_product under LAPACK's name."""
    return op.linalg_householder_product(self, input2)


@native(
    "ormqr(Tensor self, Tensor input2, Tensor input3, bool left=True, bool transpose=False) -> Tensor",
    dtypes=LAPACK,
    variants=_METHOD,
    samples=lambda t: [((t(4, 3), t(3), t(4, 2)), {}), ((t(2, 4, 3), t(2, 3), t(2, 2, 4)), {"left": False})],
)
def ormqr(self, input2, input3, left, transpose):
    """Q @ input3 (or input3 @ Q, or with Q's adjoint), with the square Q of the reflections self and input2."""
    check_reflections("ormqr", self, input2)
    check_matrices("ormqr", input3)
    check_same_kind("ormqr", self, input3)
    side = input3.shape[-2] if left else input3.shape[-1]
    if side < input2.shape[-1]:
        raise RuntimeError(
            f"[ormqr] other of shape {input3.shape} is smaller than the number of reflections, {input2.shape[-1]}"
        )
    if side != self.shape[-2]:
        raise RuntimeError(
            f"[ormqr] other of shape {input3.shape} cannot be multiplied by Q of order {self.shape[-2]} from the {'left' if left else 'right'}"
        )
    if self.shape[-1] < input2.shape[-1]:
        raise RuntimeError(f"[ormqr] more factors than reflections: {input2.shape} and {self.shape}")
    if input3.shape[:-2] != self.shape[:-2]:
        raise RuntimeError(f"[ormqr] the batch dims of other and input must agree: {input3.shape} and {self.shape}")
    return column_major(input3.shape, self.dtype)


# -- singular values -----------------------------------------------------------------------------------


@native(
    "_singular_values(Tensor A, bool full_matrices, bool compute_uv) -> (Tensor, Tensor, Tensor, Tensor)",
    kernel="singular_values",
    dtypes=LAPACK,
    variants="",
)
def _singular_values(A, full_matrices, compute_uv):
    """U, S, Vh (the first and the last empty unless wanted), and where it failed."""
    check_matrices("linalg.svd", A)
    m, n = A.shape[-2], A.shape[-1]
    k = min(m, n)
    batch = A.shape[:-2]
    left = [*batch, m, m if full_matrices else k]
    right = [*batch, n if full_matrices else k, n]
    return (
        column_major(left if compute_uv else [0], A.dtype),
        Out([*batch, k], real_dtype(A.dtype)),
        column_major(right if compute_uv else [0], A.dtype),
        Out(batch, dt.int32),
    )


@composite(
    "_linalg_svd(Tensor A, bool full_matrices=False, bool compute_uv=True, *, str? driver=None) -> (Tensor U, Tensor S, Tensor Vh)",
    dtypes=LAPACK,
    variants=_OUT,
    samples=squares,
)
def _linalg_svd(A, full_matrices, compute_uv, driver):
    """The singular value decomposition, without vectors where they are not wanted."""
    if driver is not None:
        raise RuntimeError("[linalg.svd] keyword argument `driver=` is only supported on CUDA inputs")
    U, S, Vh, info = op._singular_values(A, full_matrices, compute_uv)
    check_info("linalg.svd", info, SVD_FAILED)
    return U, S, Vh


@composite(
    "linalg_svd(Tensor A, bool full_matrices=True, *, str? driver=None) -> (Tensor U, Tensor S, Tensor Vh)",
    dtypes=LAPACK,
    variants=_OUT,
    samples=lambda t: [((t(3, 4),), {"full_matrices": False}), ((t(2, 3, 3),), {})],
)
def linalg_svd(A, full_matrices, driver):
    """A = U @ diag(S) @ Vh with orthonormal U and Vh and descending S."""
    return op._linalg_svd(A, full_matrices, True, driver=driver)


@composite(
    "linalg_svdvals(Tensor A, *, str? driver=None) -> Tensor",
    dtypes=LAPACK,
    variants=_OUT,
    tags={"exact_out"},
    samples=lambda t: [((t(3, 4),), {}), ((t(2, 4, 3),), {})],
)
def linalg_svdvals(A, driver):
    """The singular values, largest first."""
    _u, S, _vh = op._linalg_svd(A, False, False, driver=driver)
    return S


@composite(
    "svd(Tensor self, bool some=True, bool compute_uv=True) -> (Tensor U, Tensor S, Tensor V)",
    dtypes=LAPACK,
    variants=_METHOD,
    samples=squares,
)
def svd(self, some, compute_uv):
    """self = U @ diag(S) @ V.mH; without compute_uv, U and V are zeros."""
    if not compute_uv:
        values = op.linalg_svdvals(self)
        m, n = self.shape[-2], self.shape[-1]
        batch = self.shape[:-2]
        return self.new_zeros([*batch, m, m]), values, self.new_zeros([*batch, n, n]).mT
    U, S, Vh = op._linalg_svd(self, not some, True)
    return U, S, Vh.mH


# -- eigenvalues ---------------------------------------------------------------------------------------


@native(
    "_hermitian_eigen(Tensor A, bool upper, bool compute_v) -> (Tensor, Tensor, Tensor)",
    kernel="hermitian_eigen",
    dtypes=LAPACK,
    variants="",
)
def _hermitian_eigen(A, upper, compute_v):
    """Eigenvalues, eigenvectors (empty unless wanted), and where it failed."""
    check_square_matrices("linalg.eigh", A)
    return (
        Out(A.shape[:-1], real_dtype(A.dtype)),
        column_major(A.shape if compute_v else [0], A.dtype),
        Out(A.shape[:-2], dt.int32),
    )


@composite(
    "_linalg_eigh(Tensor A, str UPLO='L', bool compute_v=True) -> (Tensor eigenvalues, Tensor eigenvectors)",
    dtypes=LAPACK,
    variants=_OUT,
    samples=squares,
)
def _linalg_eigh(A, UPLO, compute_v):
    """The eigenvalues of Hermitian matrices, without vectors where they are not wanted."""
    check_square_matrices("linalg.eigh", A)
    if UPLO not in ("L", "U", "l", "u"):
        raise RuntimeError(f"[linalg.eigh] Expected UPLO argument to be 'L' or 'U', but got {UPLO}")
    values, vectors, info = op._hermitian_eigen(A, UPLO in ("U", "u"), compute_v)
    check_info("linalg.eigh", info, EIGEN_FAILED)
    return values, vectors


@composite(
    "linalg_eigh(Tensor self, str UPLO='L') -> (Tensor eigenvalues, Tensor eigenvectors)",
    dtypes=LAPACK,
    variants=_OUT,
    samples=squares,
)
def linalg_eigh(self, UPLO):
    """self = V @ diag(w) @ V.mH for Hermitian matrices, of which one triangle is read; w ascends."""
    return op._linalg_eigh(self, UPLO, True)


@composite(
    "linalg_eigvalsh(Tensor self, str UPLO='L') -> Tensor",
    dtypes=LAPACK,
    variants=_OUT,
    tags={"exact_out"},
    samples=squares,
)
def linalg_eigvalsh(self, UPLO):
    """The eigenvalues of Hermitian matrices, smallest first."""
    values, _vectors = op._linalg_eigh(self, UPLO, False)
    return values


@native(
    "_general_eigen(Tensor A, bool compute_v) -> (Tensor, Tensor, Tensor)",
    kernel="general_eigen",
    dtypes=LAPACK,
    variants="",
)
def _general_eigen(A, compute_v):
    """Eigenvalues, eigenvectors (empty unless wanted), and where it failed; complex always."""
    check_square_matrices("linalg.eig", A)
    t = A.dtype if A.is_complex() else complex_dtype(A.dtype)
    return Out(A.shape[:-1], t), column_major(A.shape if compute_v else [0], t), Out(A.shape[:-2], dt.int32)


@composite(
    "linalg_eig(Tensor self) -> (Tensor eigenvalues, Tensor eigenvectors)",
    dtypes=LAPACK,
    variants=_OUT,
    samples=squares,
)
def linalg_eig(self):
    """self = V @ diag(w) @ inverse(V), complex, for square matrices."""
    values, vectors, info = op._general_eigen(self, True)
    check_info("linalg.eig", info, EIGEN_FAILED)
    return values, vectors


@composite("linalg_eigvals(Tensor self) -> Tensor", dtypes=LAPACK, variants=_OUT, tags={"exact_out"}, samples=squares)
def linalg_eigvals(self):
    """The eigenvalues of square matrices, complex, in no order."""
    values, _vectors, info = op._general_eigen(self, False)
    check_info("linalg.eigvals", info, EIGEN_FAILED)
    return values
