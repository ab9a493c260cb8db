"""Factorizations of matrices: Cholesky, LU, LDL, QR.

The kernels (csrc/cpu/lapack) report failures per matrix in `info`; the public operators turn those into
LinAlgError. What solves systems with the factors is in solvers.py, singular values and eigenvalues in spectra.py.
"""

from __future__ import annotations

from tocha.ir import dtypes as dt
from tocha.operators.record import COMPLEX, composite, gradient, native, op, rule
from tocha.operators.rules import (
    Out,
    broadcast_shapes,
    column_major,
    is_float8,
    is_integral,
    refuse_dtype,
    warn_once,
)

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


@rule
def check_matrices(name: "str", A: "Tensor") -> "none":
    """A batch of matrices of a dtype that LAPACK knows."""
    if A.dim() < 2:
        raise RuntimeError(f"[{name}] {name}: The input tensor A must have at least 2 dimensions. Got shape {A.shape}")
    if not (A.is_floating_point() or A.is_complex()):
        raise RuntimeError(
            f"[{name}] torch.{name}: Expected a floating point or complex tensor as input. Got {A.dtype}"
        )
    if A.dtype not in (dt.float32, dt.float64, dt.complex64, dt.complex128):
        refuse_dtype(name, A.dtype)


@rule
def refuse_integers(name: "str", A: "Tensor") -> "none":
    """Where PyTorch leaves it to the kernel, which is named."""
    if A.dim() >= 2 and is_integral(A.dtype):
        refuse_dtype(name, A.dtype)


@rule
def check_square_matrices(name: "str", A: "Tensor") -> "none":
    check_matrices(name, A)
    if A.shape[-1] != A.shape[-2]:
        raise RuntimeError(
            f"[{name}] {name}: A must be batches of square matrices, but they are {A.shape[-2]} by {A.shape[-1]} matrices"
        )


@rule
def check_same_kind(name: "str", A: "Tensor", B: "Tensor") -> "none":
    if A.dtype != B.dtype:
        raise RuntimeError(
            f"[{name}] {name}: Expected A and B to have the same dtype, but found A of type {A.dtype} and B of type {B.dtype} instead"
        )
    if A.device != B.device:
        raise RuntimeError(
            f"[{name}] {name}: Expected A and B to be on the same device, but found A on {A.device} and B on {B.device} instead"
        )


@rule
def check_right_hand(name: "str", A: "Tensor", b: "Tensor") -> "none":
    """Right-hand sides of the older solvers: matrices of A's dtype."""
    if b.dim() < 2:
        raise RuntimeError(f"[{name}] b should have at least 2 dimensions, but has {b.dim()} dimensions instead")
    if A.dtype != b.dtype:
        raise RuntimeError(
            f"[{name}] Expected b and A to have the same dtype, but found b of type {b.dtype} and A of type {A.dtype} instead."
        )
    check_same_kind(name, A, b)


@rule
def refuse_low_precision(name: "str", A: "Tensor") -> "none":
    if A.dtype in (dt.float16, dt.bfloat16, dt.complex32) or is_float8(A.dtype):
        raise RuntimeError(f"[{name}] {name}: Low precision dtypes not supported. Got {A.dtype}")


def positive(t, *shape):
    """A sample of Hermitian positive-definite matrices."""
    x = t(*shape)
    return x @ x.mH + x.new_full((shape[-1],), 4).diag()


def squares(t):
    return [((t(3, 3),), {}), ((t(2, 3, 3),), {})]


# -- Cholesky ------------------------------------------------------------------------------------------


@native(
    "_cholesky_factor(Tensor self, bool upper) -> (Tensor, Tensor)",
    algorithm="LAPACK",
    kernel="cholesky_factor",
    dtypes=LAPACK,
    variants="",
    node="LinalgCholeskyExBackward0",
)
def _cholesky_factor(self, upper):
    """The triangular factor of Hermitian positive-definite matrices, and where it failed."""
    check_square_matrices("linalg.cholesky", self)
    return column_major(self.shape, self.dtype), Out(self.shape[:-2], dt.int32)


@gradient(_cholesky_factor, "self")
def cholesky_gradient(grad, upper, result0):
    # A = L L^H: the strict triangle of L^-1 dA L^-H is that of L^-1 dL, and half its diagonal.
    L = result0.mH if upper else result0
    whole = L.mH.matmul(grad.mH if upper else grad)
    strict = whole.tril(-1)
    inner = (strict + strict.mH + op.diag_embed(whole.diagonal(0, -2, -1))) * 0.5
    half = op.linalg_solve_triangular(L.mH, inner, upper=True)
    return op.linalg_solve_triangular(L, half, upper=False, left=False)


@composite(
    "linalg_cholesky_ex(Tensor self, *, bool upper=False, bool check_errors=False) -> (Tensor L, Tensor info)",
    autocast="float32",
    dtypes=LAPACK,
    variants=_OUT,
    constraints={"self": "hermitian"},
    samples=lambda t: [((positive(t, 3, 3),), {}), ((positive(t, 2, 3, 3),), {"upper": True})],
    whole=True,
    tags={"exact_out"},
)
def linalg_cholesky_ex(self, upper, check_errors):
    """The Cholesky factor, with a code per matrix (0: fine) in place of an error unless check_errors."""
    L, info = op._cholesky_factor(self, upper)
    if check_errors:
        op._check_info(info, "linalg.cholesky_ex", NOT_POSITIVE)
    return L, info


@composite(
    "linalg_cholesky(Tensor self, *, bool upper=False) -> Tensor",
    autocast="float32",
    dtypes=LAPACK,
    variants=_OUT,
    tags={"exact_out"},
    constraints={"self": "hermitian"},
    samples=lambda t: [((positive(t, 3, 3),), {}), ((positive(t, 2, 3, 3),), {"upper": True})],
    word="cholesky_cpu",
)
def linalg_cholesky(self, upper):
    """The lower triangular L with L @ L.mH = self (or the upper U with U.mH @ U = self)."""
    L, info = op._cholesky_factor(self, upper)
    op._check_info(info, "linalg.cholesky", NOT_POSITIVE)
    return L


@composite(
    "cholesky(Tensor self, bool upper=False) -> Tensor",
    node="CholeskyBackward0",
    autocast="float32",
    dtypes=LAPACK,
    variants=_METHOD,
    constraints={"self": "hermitian"},
    samples=lambda t: [((positive(t, 2, 3, 3),), {})],
    whole=True,
)
def cholesky(self, upper):
    """Deprecated form of linalg.cholesky."""
    warn_once("tocha.cholesky is deprecated in favor of tocha.linalg.cholesky and will be removed in a future release.")
    if self.numel() == 0:
        return self.clone()
    refuse_integers("cholesky", self)
    L, info = op._cholesky_factor(self, upper)
    op._check_info(info, "cholesky", NOT_POSITIVE)
    return L


# -- LU ------------------------------------------------------------------------------------------------


@native(
    "_lu_factor(Tensor A) -> (Tensor, Tensor, Tensor)",
    algorithm="LAPACK",
    kernel="lu_factor",
    dtypes=LAPACK,
    variants="",
    node="LinalgLuFactorExBackward0",
)
def _lu_factor(A):
    """L and U in one matrix, the row swaps, and the first zero on U's diagonal."""
    refuse_integers("linalg.lu_factor", A)
    check_matrices("linalg.lu_factor", A)
    k = min(A.shape[-2], A.shape[-1])
    return column_major(A.shape, A.dtype), Out([*A.shape[:-2], k], dt.int32), Out(A.shape[:-2], dt.int32)


@gradient(_lu_factor, "A")
def lu_gradient(grad, result0, result1):
    # From P^T dA = dL U + L dU, triangle by triangle; what is beyond the square part of L or U follows from it.
    P, L, U = op.lu_unpack(result0, result1)
    m, n = result0.shape[-2], result0.shape[-1]
    k = min(m, n)
    left, right = L.narrow(-2, 0, k), U.narrow(-1, 0, k)
    square = grad.narrow(-2, 0, k).narrow(-1, 0, k)
    lower = left.mH.matmul(square)
    upper = square.matmul(right.mH)
    if m < n:
        rest = grad.narrow(-1, k, n - k)
        lower = lower - rest.matmul(U.narrow(-1, k, n - k).mH)
    if m > n:
        rest = grad.narrow(-2, k, m - k)
        upper = upper - L.narrow(-2, k, m - k).mH.matmul(rest)
    middle = lower.tril(-1) + upper.triu()
    found = op.linalg_solve_triangular(left.mH, middle, upper=True, unitriangular=True)
    found = op.linalg_solve_triangular(right.mH, found, upper=False, left=False)
    if m < n:
        beyond = op.linalg_solve_triangular(left.mH, grad.narrow(-1, k, n - k), upper=True, unitriangular=True)
        found = op.cat([found, beyond], -1)
    if m > n:
        beyond = op.linalg_solve_triangular(right.mH, grad.narrow(-2, k, m - k), upper=False, left=False)
        found = op.cat([found, beyond], -2)
    return P.matmul(found)


@rule
def check_pivot(name: "str", pivot: "bool") -> "none":
    if not pivot:
        raise RuntimeError(f"[{name}] linalg.lu_factor: LU without pivoting is not implemented on the CPU")


@composite(
    "linalg_lu_factor_ex(Tensor A, *, bool pivot=True, bool check_errors=False) -> (Tensor LU, Tensor pivots, Tensor info)",
    dtypes=LAPACK,
    variants=_OUT,
    samples=squares,
    aten=("linalg_lu_factor_ex.out",),
    whole=True,
    tags={"exact_out"},
)
def linalg_lu_factor_ex(A, pivot, check_errors):
    """L and U in one matrix and the row swaps, with a code per matrix (0: fine) in place of an error."""
    check_pivot("linalg.lu_factor", pivot)
    LU, pivots, info = op._lu_factor(A)
    if check_errors:
        op._check_info(info, "linalg.lu_factor_ex", ZERO_PIVOT)
    return LU, pivots, info


@composite(
    "linalg_lu_factor(Tensor A, *, bool pivot=True) -> (Tensor LU, Tensor pivots)",
    dtypes=LAPACK,
    variants=_OUT,
    samples=lambda t: [((t(3, 4),), {}), ((t(2, 4, 3),), {})],
    aten=("linalg_lu_factor.out",),
    word="lu_cpu",
    tags={"exact_out"},
)
def linalg_lu_factor(A, pivot):
    """L and U in one matrix and the row swaps: what lu_solve and lu_unpack take."""
    check_pivot("linalg.lu_factor", pivot)
    LU, pivots, info = op._lu_factor(A)
    op._check_info(info, "linalg.lu_factor", ZERO_PIVOT)
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
    algorithm="LAPACK",
    kernel="lu_unpack_factors",
    dtypes=LAPACK,
    variants=_OUT,
    differentiable=(1, 2),
    samples=lambda t: _unpack_samples(t),
    aten=("lu_unpack.out",),
    word="tril",
)
def lu_unpack(LU_data, LU_pivots, unpack_data, unpack_pivots):
    """P, L and U from what lu_factor returns; what is not asked for is empty."""
    check_matrices("lu_unpack", LU_data)
    m, n = LU_data.shape[-2], LU_data.shape[-1]
    k = min(m, n)
    if unpack_pivots:
        if LU_pivots.dtype != dt.int32:
            raise RuntimeError(
                f"[lu_unpack] torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype, as torch.linalg.lu_factor makes it, but got {LU_pivots.dtype}"
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


@gradient(lu_unpack, "LU_data")
def lu_unpack_gradient(grad1, grad2, LU_data, unpack_data):
    if not unpack_data:
        return None
    m, n = LU_data.shape[-2], LU_data.shape[-1]
    k = min(m, n)
    found = op.zeros(LU_data.shape, dtype=LU_data.dtype, device=LU_data.device)
    if grad1 is not None:
        lower = grad1.tril(-1)
        found = found + (op.cat([lower, found.narrow(-1, k, n - k)], -1) if n > k else lower)
    if grad2 is not None:
        upper = grad2.triu()
        found = found + (op.cat([upper, op.zeros_like(found).narrow(-2, k, m - k)], -2) if m > k else upper)
    return found


def _unpack_samples(t):
    return [(tuple(t.call("linalg_lu_factor", t(2, 3, 4))), {})]


@composite(
    "linalg_lu(Tensor A, *, bool pivot=True) -> (Tensor P, Tensor L, Tensor U)",
    node="LinalgLuBackward0",
    dtypes=LAPACK,
    variants=_OUT,
    samples=lambda t: [((t(3, 4),), {}), ((t(2, 4, 3),), {})],
    aten=("linalg_lu.out",),
    whole=True,
    tags={"exact_out"},
)
def linalg_lu(A, pivot):
    """A = P @ L @ U: a permutation, a lower triangle with ones on its diagonal, an upper triangle."""
    check_pivot("linalg.lu", pivot)
    LU, pivots, _info = op._lu_factor(A)
    return op.lu_unpack(LU, pivots)


# -- LDL -----------------------------------------------------------------------------------------------


@native(
    "_ldl_factor(Tensor self, bool hermitian) -> (Tensor, Tensor, Tensor)",
    underived="aten::linalg_ldl_factor_ex",
    algorithm="LAPACK",
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
    tags=frozenset({"no_derivative", "exact_out"}),
    samples=lambda t: [((positive(t, 3, 3),), {}), ((positive(t, 2, 3, 3),), {"hermitian": True})],
    aten=("linalg_ldl_factor_ex.out",),
    whole=True,
)
def linalg_ldl_factor_ex(self, hermitian, check_errors):
    """The LDL factors of symmetric (or Hermitian) matrices, with a code per matrix in place of an error."""
    LD, pivots, info = op._ldl_factor(self, hermitian)
    if check_errors:
        op._check_info(info, "linalg.ldl_factor_ex", ZERO_BLOCK)
    return LD, pivots, info


@composite(
    "linalg_ldl_factor(Tensor self, *, bool hermitian=False) -> (Tensor LD, Tensor pivots)",
    dtypes=LAPACK,
    variants=_OUT,
    tags=frozenset({"no_derivative", "exact_out"}),
    samples=lambda t: [((positive(t, 3, 3),), {}), ((positive(t, 2, 3, 3),), {"hermitian": True})],
    aten=("linalg_ldl_factor.out",),
    word="ldl_factor_kernel_cpu",
)
def linalg_ldl_factor(self, hermitian):
    """L and D with L @ D @ L.mT = self (L.mH where hermitian) in one matrix, and the swaps."""
    LD, pivots, info = op._ldl_factor(self, hermitian)
    op._check_info(info, "linalg.ldl_factor", ZERO_BLOCK)
    return LD, pivots


@native(
    "linalg_ldl_solve(Tensor LD, Tensor pivots, Tensor B, *, bool hermitian=False) -> Tensor",
    algorithm="LAPACK",
    kernel="ldl_solution",
    dtypes=LAPACK,
    variants=_OUT,
    samples=lambda t: _ldl_solve_samples(t),
    word="ldl_solve_kernel_cpu",
)
def linalg_ldl_solve(LD, pivots, B, hermitian):
    """X with A @ X = B, from the factors of A that ldl_factor returns."""
    check_square_matrices("linalg.ldl_solve", LD)
    check_right_hand("linalg.ldl_solve", LD, B)
    if pivots.dtype != dt.int32:
        raise RuntimeError(
            f"[linalg.ldl_solve] torch.linalg.ldl_solve: Expected pivots to be integers of int32. Got {pivots.dtype}"
        )
    if pivots.shape != LD.shape[:-1]:
        raise RuntimeError(
            f"[linalg.ldl_solve] torch.linalg.ldl_solve: Expected LD.shape[:-1] and pivots.shape to be the same, but got pivots with shape {pivots.shape} instead"
        )
    if LD.shape[-1] != B.shape[-2]:
        raise RuntimeError(
            f"[linalg.ldl_solve] Incompatible shapes of LD and B for the equation AX = B ({LD.shape} and {B.shape})"
        )
    batch = broadcast_shapes(LD.shape[:-2], B.shape[:-2], "linalg.ldl_solve")
    return column_major([*batch, B.shape[-2], B.shape[-1]], B.dtype)


def _ldl_solve_samples(t):
    LD, pivots = t.call("linalg_ldl_factor", positive(t, 2, 3, 3))
    return [((LD, pivots, t(2, 3, 4)), {})]


# -- QR ------------------------------------------------------------------------------------------------


@native(
    "geqrf(Tensor self) -> (Tensor a, Tensor tau)",
    underived="geqrf",
    algorithm="LAPACK",
    autocast="float32",
    dtypes=LAPACK,
    variants=_METHOD,
    samples=squares,
)
def geqrf(self):
    """The Householder reflections of a QR decomposition, below R, and their factors."""
    refuse_integers("geqrf", self)
    check_matrices("geqrf", self)
    k = min(self.shape[-2], self.shape[-1])
    return column_major(self.shape, self.dtype), Out([*self.shape[:-2], k], self.dtype)


@native(
    "_qr_factors(Tensor A, bool complete, bool compute_q) -> (Tensor, Tensor)",
    algorithm="LAPACK",
    kernel="qr_factors",
    dtypes=LAPACK,
    variants="",
    node="LinalgQrBackward0",
)
def _qr_factors(A, complete, compute_q):
    """Q (empty unless wanted) and R."""
    check_matrices("linalg.qr", A)
    m, n = A.shape[-2], A.shape[-1]
    k = m if complete else min(m, n)
    batch = A.shape[:-2]
    return column_major([*batch, m, k] if compute_q else [0], A.dtype), column_major([*batch, k, n], A.dtype)


@rule
def hermitian_of(lower: "Tensor") -> "Tensor":
    """The Hermitian matrix with this strict lower triangle and the real part of this diagonal."""
    strict = lower.tril(-1)
    return strict + strict.mH + op.diag_embed(op.real(lower.diagonal(0, -2, -1)))


@rule
def square_qr_gradient(Q: "Tensor", R: "Tensor", to_Q: "Tensor?", to_R: "Tensor?") -> "Tensor":
    """For R with as many columns as Q. Q^H dQ is skew, dR is upper triangular with a real diagonal."""
    found = op.zeros_like(Q)
    inner = op.zeros_like(R)
    if to_Q is not None:
        found = found + to_Q
        inner = Q.mH.matmul(to_Q)
    if to_R is not None:
        inner = inner - to_R.matmul(R.mH)
    found = found - Q.matmul(hermitian_of(inner.mH))
    return op.linalg_solve_triangular(R.mH, found, upper=False, left=False)


@gradient(_qr_factors, "A")
def qr_gradient(grad0, grad1, A, complete, compute_q, result0, result1):
    m, n = A.shape[-2], A.shape[-1]
    if not compute_q:
        raise RuntimeError(
            "[linalg.qr] The derivative of linalg.qr depends on Q, which is not computed when mode='r'. Please use linalg.qr(A, mode='reduced') if you are going to differentiate through linalg.qr."
        )
    if complete and m > n:
        raise RuntimeError(
            f"[linalg.qr] The QR decomposition is not differentiable when mode='complete' and nrows > ncols, and they are {m} and {n}."
        )
    if m >= n:
        return square_qr_gradient(result0, result1, grad0, grad1)
    # The columns beyond the square part: R2 = Q^H A2.
    Q, R = result0, result1.narrow(-1, 0, m)
    to_Q: "Tensor?" = grad0
    to_R: "Tensor?" = None
    beyond = op.zeros([*A.shape[:-1], n - m], dtype=A.dtype, device=A.device)
    if grad1 is not None:
        to_R = grad1.narrow(-1, 0, m)
        to_rest = grad1.narrow(-1, m, n - m)
        beyond = Q.matmul(to_rest)
        more = Q.matmul(result1.narrow(-1, m, n - m)).matmul(to_rest.mH)
        to_Q = more if grad0 is None else grad0 + more
    return op.cat([square_qr_gradient(Q, R, to_Q, to_R), beyond], -1)


@composite(
    "linalg_qr(Tensor A, str mode='reduced') -> (Tensor Q, Tensor R)",
    autocast="float32",
    dtypes=LAPACK,
    variants=_OUT,
    samples=lambda t: [((t(3, 4),), {}), ((t(2, 4, 3),), {"mode": "complete"}), ((t(4, 3),), {"mode": "r"})],
    tags={"exact_out"},
    aten=("linalg_qr.out",),
    whole=True,
    word="geqrf_cpu",
)
def linalg_qr(A, mode):
    """A = Q @ R: orthonormal columns and an upper triangle. mode is reduced, complete or r (without Q)."""
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(
            f"[linalg.qr] qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or 'complete'"
        )
    return op._qr_factors(A, mode == "complete", mode != "r")


@composite(
    "qr(Tensor self, bool some=True) -> (Tensor Q, Tensor R)",
    autocast="float32",
    dtypes=LAPACK,
    variants=_METHOD,
    tags={"exact_out"},
    samples=squares,
)
def qr(self, some):
    """Deprecated form of linalg.qr."""
    warn_once("tocha.qr is deprecated in favor of tocha.linalg.qr and will be removed in a future release.")
    return op._qr_factors(self, not some, True)


@rule
def check_reflections(name: "str", input: "Tensor", tau: "Tensor") -> "none":
    if input.dim() < 2:
        raise RuntimeError(f"[{name}] torch.{name}: input must have at least 2 dimensions. Got shape {input.shape}")
    if tau.dtype != input.dtype:
        if name == "ormqr":
            raise RuntimeError(
                f"[ormqr] torch.ormqr: Expected input and tau to have the same dtype, but input has dtype{input.dtype} and tau has dtype {tau.dtype}"
            )
        raise RuntimeError(f"[{name}] torch.{name}: tau dtype {tau.dtype} does not match input dtype {input.dtype}")
    if tau.dim() != input.dim() - 1:
        raise RuntimeError(
            f"[{name}] torch.{name}: Expected tau to have one dimension less than input, but got tau.ndim equal to {tau.dim()} and input.ndim is equal to {input.dim()}"
        )
    if tau.shape[:-1] != input.shape[:-2]:
        raise RuntimeError(f"[{name}] Expected the batch dims of tau and input to agree: {tau.shape} and {input.shape}")


@native(
    "linalg_householder_product(Tensor input, Tensor tau) -> Tensor",
    algorithm="LAPACK",
    autocast="float32",
    kernel="householder_product",
    dtypes=LAPACK,
    variants=_OUT,
    samples=lambda t: [((t(4, 3), t(3)), {}), ((t(2, 4, 3), t(2, 2)), {})],
    word="orgqr_cpu",
)
def linalg_householder_product(input, tau):
    """The first columns of the product of Householder reflections, given as geqrf leaves them."""
    check_reflections("linalg.householder_product", input, tau)
    if input.shape[-2] < input.shape[-1]:
        raise RuntimeError(
            f"[linalg.householder_product] torch.linalg.householder_product: input.shape[-2] must be greater than or equal to input.shape[-1]: {input.shape}"
        )
    if input.shape[-1] < tau.shape[-1]:
        raise RuntimeError(
            f"[linalg.householder_product] torch.linalg.householder_product: input.shape[-1] must be greater than or equal to tau.shape[-1]: {input.shape} and {tau.shape}"
        )
    refuse_integers("linalg.householder_product", input)
    check_matrices("linalg.householder_product", input)
    return column_major(input.shape, input.dtype)


@rule
def reflected(Y: "Tensor", v: "Tensor", tau: "Tensor") -> "Tensor":
    """(I - tau v v^H) Y"""
    return Y - tau * v.matmul(v.mH.matmul(Y))


@rule
def reflections_gradient(
    V: "Tensor", tau: "Tensor", C: "Tensor", grad: "Tensor", adjoint: "bool"
) -> "(Tensor|Tensor|Tensor)":
    """The gradients of V, tau and C in Q @ C, Q = H_1 H_2 ... with H_i = I - tau_i v_i v_i^H, or in Q^H @ C.

    Forward through the reflections once more, keeping what each was applied to, then backward.
    """
    k = tau.shape[-1]
    m, n = V.shape[-2], V.shape[-1]
    unit = op.eye(m, k, dtype=V.dtype, device=V.device)
    vectors = V.narrow(-1, 0, k).tril(-1) + unit
    factors = (tau.conj() if adjoint else tau).unsqueeze(-2)
    order = [i if adjoint else k - 1 - i for i in range(k)]
    before = [C]
    for i in order:
        before.append(reflected(before[len(before) - 1], vectors.narrow(-1, i, 1), factors.narrow(-1, i, 1)))
    to_vectors = [vectors.narrow(-1, i, 1) for i in range(k)]
    to_factors = [factors.narrow(-1, i, 1) for i in range(k)]
    G = grad
    for at in reversed(range(k)):
        i = order[at]
        v, factor, Y = vectors.narrow(-1, i, 1), factors.narrow(-1, i, 1), before[at]
        Yv = Y.mH.matmul(v)
        Gv = G.mH.matmul(v)
        to_factors[i] = -Gv.mH.matmul(Yv)
        to_vectors[i] = -(factor.conj() * G.matmul(Yv) + factor * Y.matmul(Gv))
        G = reflected(G, v, factor.conj())
    if k == 0:
        return op.zeros_like(V), op.zeros_like(tau), G
    to_V = op.cat(to_vectors, -1).tril(-1)
    if n > k:
        to_V = op.cat([to_V, op.zeros([*V.shape[:-1], n - k], dtype=V.dtype, device=V.device)], -1)
    to_tau = op.cat(to_factors, -1).squeeze(-2)
    return to_V, to_tau.conj() if adjoint else to_tau, G


@gradient(linalg_householder_product, "input", "tau")
def householder_product_gradient(grad, input, tau):
    columns = op.eye(input.shape[-2], input.shape[-1], dtype=input.dtype, device=input.device)
    to_input, to_tau, _rest = reflections_gradient(input, tau, columns.expand(input.shape), grad, False)
    return to_input, to_tau


@composite(
    "orgqr(Tensor self, Tensor input2) -> Tensor",
    autocast="float32",
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
    algorithm="LAPACK",
    autocast="float32",
    dtypes=LAPACK,
    variants=_METHOD,
    samples=lambda t: [((t(4, 3), t(3), t(4, 2)), {}), ((t(2, 4, 3), t(2, 3), t(2, 2, 4)), {"left": False})],
)
def ormqr(self, input2, input3, left, transpose):
    """Q @ input3 (or input3 @ Q, or with Q's adjoint), with the square Q of the reflections self and input2."""
    check_reflections("ormqr", self, input2)
    if input3.dim() < 2:
        raise RuntimeError(f"[ormqr] torch.ormqr: other must have at least 2 dimensions. Got shape {input3.shape}")
    if self.dtype != input3.dtype:
        raise RuntimeError(
            f"[ormqr] torch.ormqr: Expected input and other to have the same dtype, but input has dtype{self.dtype} and other has dtype {input3.dtype}"
        )
    check_same_kind("ormqr", self, input3)
    side = input3.shape[-2] if left else input3.shape[-1]
    if side < input2.shape[-1]:
        raise RuntimeError(
            f"[ormqr] torch.ormqr: other.shape[{'-2' if left else '-1'}] must be greater than or equal to tau.shape[-1]: {input3.shape} and {input2.shape}"
        )
    if side != self.shape[-2]:
        raise RuntimeError(
            f"[ormqr] torch.ormqr: other.shape[{'-2' if left else '-1'}] must be equal to input.shape[-2]: {input3.shape} and {self.shape}"
        )
    if self.shape[-1] < input2.shape[-1]:
        raise RuntimeError(
            f"[ormqr] torch.ormqr: tau.shape[-1] must be equal to min(other.shape[-2], input.shape[-1]): {input2.shape} and {self.shape}"
        )
    if input3.shape[:-2] != self.shape[:-2]:
        raise RuntimeError(
            f"[ormqr] torch.ormqr: Expected other to have the same number of dimensions as input, but got other.ndim equal to {input3.dim()} and input.ndim is equal to {self.dim()}: {input3.shape} and {self.shape}"
        )
    refuse_integers("ormqr", self)
    check_matrices("ormqr", self)
    return column_major(input3.shape, self.dtype)


@gradient(ormqr, "self", "input2", "input3")
def ormqr_gradient(grad, self, input2, input3, left, transpose):
    # C @ Q is the adjoint of Q^H @ C^H.
    C = input3 if left else input3.mH
    G = grad if left else grad.mH
    to_self, to_tau, to_C = reflections_gradient(self, input2, C, G, transpose == left)
    return to_self, to_tau, to_C if left else to_C.mH
