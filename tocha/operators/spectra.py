"""Singular values and eigenvalues. The kernels are in csrc/cpu/lapack/spectra.cpp; failures become LinAlgError."""

from __future__ import annotations

from tocha.ir import dtypes as dt
from tocha.operators.factorizations import LAPACK, check_matrices, check_square_matrices, refuse_integers, squares
from tocha.operators.record import composite, gradient, native, op, rule
from tocha.operators.rules import (
    Out,
    column_major,
    complex_dtype,
    computes,
    is_float8,
    is_integral,
    real_dtype,
    wants_gradient,
)

_OUT = "function, out"
_METHOD = "function, method, out"
_DECOMPOSED = frozenset({"phases", "exact_out"})
_DIVERGED = "The algorithm failed to converge because the input matrix is ill-conditioned or has too many repeated "
SVD_FAILED = _DIVERGED + "singular values (error code: {})."
EIGEN_FAILED = _DIVERGED + "eigenvalues (error code: {})."


# -- singular values -----------------------------------------------------------------------------------


@native(
    "_singular_values(Tensor A, bool full_matrices, bool compute_uv) -> (Tensor, Tensor, Tensor, Tensor)",
    algorithm="LAPACK",
    kernel="singular_values",
    dtypes=LAPACK,
    variants="",
    node="LinalgSvdBackward0",
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


@rule
def check_phase(name: "str", backward: "str", what: "str", diagonal: "Tensor") -> "none":
    """Refuses a loss that depends on the phases of complex vectors, which are arbitrary."""
    if not computes(diagonal):
        return
    phases = op.imag(diagonal)
    if not op.allclose(phases, op.zeros_like(phases), 1e-2, 1e-2):
        quantity = "phase term, making it" if what == "singular vectors" else "quantity, so it is"
        raise RuntimeError(
            f"[{name}] {backward}: The {what} in the complex case are specified up to multiplication by e^{{i phi}}. The specified loss function depends on this {quantity} ill-defined."
        )


@rule
def gaps_between(values: "Tensor") -> "Tensor":
    """values[j] - values[i] at i, j, and 1 on the diagonal."""
    apart = values.unsqueeze(-2) - values.unsqueeze(-1)
    return apart + op.diag_embed(op.ones_like(values))


@rule
def skew(x: "Tensor") -> "Tensor":
    return x - x.mH


@rule
def off_diagonal(x: "Tensor") -> "Tensor":
    return x.tril(-1) + x.triu(1)


@rule
def singular_vectors_gradient(
    U: "Tensor", S: "Tensor", Vh: "Tensor", to_U: "Tensor?", to_S: "Tensor?", to_Vh: "Tensor?"
) -> "Tensor":
    """The gradient of A = U @ diag(S) @ Vh, for the thin factors."""
    m, n, k = U.shape[-2], Vh.shape[-1], S.shape[-1]
    if to_U is None and to_Vh is None:
        return op.matmul(U * to_S.unsqueeze(-2), Vh)
    apart = gaps_between(S * S)
    inner = op.zeros([*S.shape, k], dtype=U.dtype, device=U.device)
    if to_S is not None:
        inner = inner + op.diag_embed(to_S)
    along_U = inner
    along_V = inner
    if to_U is not None:
        along_U = U.mH.matmul(to_U)
        inner = inner + skew(along_U) / apart * S.unsqueeze(-2)
    if to_Vh is not None:
        along_V = Vh.matmul(to_Vh.mH)
        inner = inner + S.unsqueeze(-1) * (skew(along_V) / apart)
    if U.is_complex():
        phases = op.zeros_like(inner).diagonal(0, -2, -1)
        if to_U is not None:
            phases = phases + along_U.diagonal(0, -2, -1)
        own = phases
        if to_Vh is not None:
            phases = phases + along_V.diagonal(0, -2, -1)
        check_phase("linalg.svd", "svd_backward", "singular vectors", phases)
        # the skew parts' diagonals are no part of the formula; what stands there instead is that of U, over S
        kept = op.real(inner.diagonal(0, -2, -1))
        inner = off_diagonal(inner) + op.diag_embed(op.complex(kept, op.imag(own) / S))
    found = U.matmul(inner).matmul(Vh)
    if to_U is not None and m > k:
        outside = to_U - U.matmul(along_U)
        found = found + (outside / S.unsqueeze(-2)).matmul(Vh)
    if to_Vh is not None and n > k:
        outside = to_Vh - along_V.mH.matmul(Vh)
        found = found + U.matmul(outside / S.unsqueeze(-1))
    return found


@gradient(_singular_values, "A")
def svd_gradient(grad0, grad1, grad2, A, full_matrices, compute_uv, result0, result1, result2):
    if not compute_uv:
        if grad1 is None:
            return None
        U, _values, Vh, _info = op._singular_values(A, False, True)
        return op.matmul(U * grad1.unsqueeze(-2), Vh)
    k = result1.shape[-1]
    to_U = grad0 if grad0 is None else grad0.narrow(-1, 0, k)
    to_Vh = grad2 if grad2 is None else grad2.narrow(-2, 0, k)
    return singular_vectors_gradient(result0.narrow(-1, 0, k), result1, result2.narrow(-2, 0, k), to_U, grad1, to_Vh)


@composite(
    "_linalg_svd(Tensor A, bool full_matrices=False, bool compute_uv=True, *, str? driver=None) -> (Tensor U, Tensor S, Tensor Vh)",
    dtypes=LAPACK,
    variants=_OUT,
    tags=_DECOMPOSED,
    samples=squares,
    whole=True,
)
def _linalg_svd(A, full_matrices, compute_uv, driver):
    """The singular value decomposition, without vectors where they are not wanted."""
    if driver is not None:
        raise RuntimeError(
            "[linalg.svd] torch.linalg.svd: keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER backend."
        )
    U, S, Vh, info = op._singular_values(A, full_matrices, compute_uv)
    op._check_info(info, "linalg.svd", SVD_FAILED)
    return U, S, Vh


@composite(
    "linalg_svd(Tensor A, bool full_matrices=True, *, str? driver=None) -> (Tensor U, Tensor S, Tensor Vh)",
    autocast="float32",
    dtypes=LAPACK,
    variants=_OUT,
    tags=_DECOMPOSED,
    samples=lambda t: [((t(3, 4),), {"full_matrices": False}), ((t(2, 3, 3),), {})],
    word="linalg_svd_cpu",
)
def linalg_svd(A, full_matrices, driver):
    """A = U @ diag(S) @ Vh with orthonormal U and Vh and descending S."""
    return op._linalg_svd(A, full_matrices, True, driver=driver)


@composite(
    "linalg_svdvals(Tensor A, *, str? driver=None) -> Tensor",
    autocast="float32",
    dtypes=LAPACK,
    variants=_OUT,
    tags={"exact_out"},
    samples=lambda t: [((t(3, 4),), {}), ((t(2, 4, 3),), {})],
)
def linalg_svdvals(A, driver):
    """The singular values, largest first."""
    _u, S, _vh = op._linalg_svd(A, False, wants_gradient(A), driver=driver)
    return S


@composite(
    "svd(Tensor self, bool some=True, bool compute_uv=True) -> (Tensor U, Tensor S, Tensor V)",
    autocast="float32",
    dtypes=LAPACK,
    variants=_METHOD,
    tags=_DECOMPOSED,
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
    algorithm="LAPACK",
    kernel="hermitian_eigen",
    dtypes=LAPACK,
    variants="",
    node="LinalgEighBackward0",
)
def _hermitian_eigen(A, upper, compute_v):
    """Eigenvalues, eigenvectors (empty unless wanted), and where it failed."""
    refuse_integers("linalg.eigh", A)
    check_square_matrices("linalg.eigh", A)
    return (
        Out(A.shape[:-1], real_dtype(A.dtype)),
        column_major(A.shape if compute_v else [0], A.dtype),
        Out(A.shape[:-2], dt.int32),
    )


@gradient(_hermitian_eigen, "A")
def eigh_gradient(grad0, grad1, A, upper, compute_v, result0, result1):
    if not compute_v:
        if grad0 is None:
            return None
        _values, V, _info = op._hermitian_eigen(A, upper, True)
        return op.matmul(V * grad0.unsqueeze(-2), V.mH)
    V = result1
    if grad1 is None:
        return op.matmul(V * grad0.unsqueeze(-2), V.mH)
    along = V.mH.matmul(grad1)
    if V.is_complex():
        check_phase("linalg.eigh", "linalg_eigh_backward", "eigenvectors", along.diagonal(0, -2, -1))
    inner = off_diagonal(skew(along) / (2 * gaps_between(result0)))
    if grad0 is not None:
        inner = inner + op.diag_embed(grad0)
    return V.matmul(inner).matmul(V.mH)


@composite(
    "_linalg_eigh(Tensor A, str UPLO='L', bool compute_v=True) -> (Tensor eigenvalues, Tensor eigenvectors)",
    dtypes=LAPACK,
    variants=_OUT,
    constraints={"A": "hermitian"},
    tags=_DECOMPOSED,
    samples=squares,
    whole=True,
)
def _linalg_eigh(A, UPLO, compute_v):
    """The eigenvalues of Hermitian matrices, without vectors where they are not wanted."""
    refuse_integers("linalg.eigh", A)
    check_square_matrices("linalg.eigh", A)
    if UPLO not in ("L", "U", "l", "u"):
        raise RuntimeError(f"[linalg.eigh] Expected UPLO argument to be 'L' or 'U', but got {UPLO}")
    values, vectors, info = op._hermitian_eigen(A, UPLO in ("U", "u"), compute_v)
    op._check_info(info, "linalg.eigh", EIGEN_FAILED)
    return values, vectors


@composite(
    "linalg_eigh(Tensor self, str UPLO='L') -> (Tensor eigenvalues, Tensor eigenvectors)",
    autocast="float32",
    dtypes=LAPACK,
    variants=_OUT,
    constraints={"self": "hermitian"},
    tags=_DECOMPOSED,
    samples=squares,
    aten=(
        'linalg_eigh.eigvals(Tensor self, str UPLO="L", *, Tensor(a!) eigvals, Tensor(b!) eigvecs) -> (Tensor(a!) eigenvalues, Tensor(b!) eigenvectors)',
    ),
    word="linalg_eigh_cpu",
)
def linalg_eigh(self, UPLO):
    """self = V @ diag(w) @ V.mH for Hermitian matrices, of which one triangle is read; w ascends."""
    return op._linalg_eigh(self, UPLO, True)


@composite(
    "linalg_eigvalsh(Tensor self, str UPLO='L') -> Tensor",
    autocast="float32",
    dtypes=LAPACK,
    variants=_OUT,
    tags={"exact_out"},
    constraints={"self": "hermitian"},
    samples=squares,
)
def linalg_eigvalsh(self, UPLO):
    """The eigenvalues of Hermitian matrices, smallest first."""
    values, _vectors = op._linalg_eigh(self, UPLO, wants_gradient(self))
    return values


@native(
    "_general_eigen(Tensor A, bool compute_v) -> (Tensor, Tensor, Tensor)",
    algorithm="LAPACK",
    kernel="general_eigen",
    dtypes=LAPACK,
    variants="",
    node="LinalgEigBackward0",
)
def _general_eigen(A, compute_v):
    """Eigenvalues, eigenvectors (empty unless wanted), and where it failed; complex always."""
    if is_integral(A.dtype) or is_float8(A.dtype):
        raise RuntimeError(f"[linalg.eig] Unknown Complex ScalarType for {A.dtype}")
    check_square_matrices("linalg.eig", A)
    t = A.dtype if A.is_complex() else complex_dtype(A.dtype)
    return Out(A.shape[:-1], t), column_major(A.shape if compute_v else [0], t), Out(A.shape[:-2], dt.int32)


@gradient(_general_eigen, "A")
def eig_gradient(grad0, grad1, A, compute_v, result0, result1):
    # A = V diag(w) V^-1 with columns of V of length 1.
    if not compute_v and grad0 is None:
        return None
    V = result1 if compute_v else op._general_eigen(A, True)[1]
    if grad1 is None or not compute_v:
        return op.linalg_solve(V.mH, grad0.unsqueeze(-1) * V.mH)
    along = V.mH.matmul(grad1)
    diagonal = along.diagonal(0, -2, -1)
    check_phase("linalg.eig", "linalg_eig_backward", "eigenvectors", diagonal)
    inner = off_diagonal((along - V.mH.matmul(V * op.real(diagonal).unsqueeze(-2))) / gaps_between(result0).conj())
    if grad0 is not None:
        inner = inner + op.diag_embed(grad0)
    return op.linalg_solve(V.mH, inner.matmul(V.mH))


@composite(
    "linalg_eig(Tensor self) -> (Tensor eigenvalues, Tensor eigenvectors)",
    autocast="float32",
    dtypes=LAPACK,
    variants=_OUT,
    tags=frozenset({"phases"}),
    samples=squares,
    aten=("linalg_eig.out",),
    whole=True,
    word="linalg_eig_out_cpu",
)
def linalg_eig(self):
    """self = V @ diag(w) @ inverse(V), complex, for square matrices."""
    values, vectors, info = op._general_eigen(self, True)
    op._check_info(info, "linalg.eig", EIGEN_FAILED)
    return values, vectors


@composite(
    "linalg_eigvals(Tensor self) -> Tensor",
    autocast="float32",
    dtypes=LAPACK,
    variants=_OUT,
    tags={"exact_out"},
    samples=squares,
)
def linalg_eigvals(self):
    """The eigenvalues of square matrices, complex, in no order."""
    values, _vectors, info = op._general_eigen(self, wants_gradient(self))
    op._check_info(info, "linalg.eigvals", EIGEN_FAILED)
    return values
