"""What is defined through singular values: rank, pseudoinverse, least squares and condition number."""

from __future__ import annotations

import math

from tocha.ir import dtypes as dt
from tocha.ir.sym_types import sym_max, sym_min
from tocha.operators import interpreter
from tocha.operators.factorizations import LAPACK, check_matrices, check_same_kind, check_square_matrices, positive
from tocha.operators.record import composite, facts, gradient, native, op, rule
from tocha.operators.rules import broadcast_shapes, column_strides, real_dtype

_OUT = "function, out"


@rule
def machine_epsilon(d: "dtype") -> "float":
    return 1.1920928955078125e-07 if real_dtype(d) == dt.float32 else 2.220446049250313e-16


@rule
def default_rtol(A: "Tensor", atol: "Tensor") -> "Tensor":
    """The rounding error of the largest singular value, unless an absolute tolerance is given."""
    epsilon = machine_epsilon(A.dtype) * max(A.shape[-2], A.shape[-1])
    return op.where(atol > 0, 0.0, epsilon).to(real_dtype(A.dtype))


@rule
def number_like(A: "Tensor", value: "float") -> "Tensor":
    return op.full([], value, dtype=real_dtype(A.dtype), device=A.device)


@rule
def check_tolerance(name: "str", which: "str", tolerance: "Tensor") -> "none":
    if tolerance.is_complex():
        raise RuntimeError(
            f"[{name}] torch.{name}: {which} tensor of complex type is not supported. Got {tolerance.dtype}"
        )


@rule
def kept_values(values: "Tensor", atol: "Tensor", rtol: "Tensor") -> "Tensor":
    """Which values (in the last dim) are above max(atol, rtol * the largest)."""
    limit = op.maximum(atol.unsqueeze(-1), rtol.unsqueeze(-1) * values.amax(-1, True))
    return values > limit


@rule
def rank_above(A: "Tensor", atol: "Tensor", rtol: "Tensor", hermitian: "bool") -> "Tensor":
    if A.numel() == 0:
        return op.zeros(A.shape[:-2], dtype=dt.int64, device=A.device)
    values = op.linalg_eigvalsh(A).abs() if hermitian else op.linalg_svdvals(A)
    return kept_values(values, atol, rtol).sum(-1)


@rule
def check_ranked(A: "Tensor") -> "none":
    if A.dtype not in (dt.float32, dt.float64, dt.complex64, dt.complex128):
        raise RuntimeError(
            f"[linalg.matrix_rank] This function doesn't handle types other than float and double, got {A.dtype}"
        )
    check_matrices("linalg.matrix_rank", A)


@composite(
    "linalg_matrix_rank(Tensor self, float tol, bool hermitian=False) -> Tensor",
    autocast="float32",
    dtypes=LAPACK,
    variants=_OUT,
    samples=lambda t: [((t(2, 3, 4), 0.5), {})],
)
def linalg_matrix_rank(self, tol, hermitian):
    """How many singular values (or magnitudes of eigenvalues, where hermitian) exceed the tolerance."""
    check_ranked(self)
    return rank_above(self, number_like(self, tol), number_like(self, 0.0), hermitian)


@composite(
    "linalg_matrix_rank.tol_tensor(Tensor input, Tensor tol, bool hermitian=False) -> Tensor",
    autocast="float32",
    dtypes=LAPACK,
    variants=_OUT,
    samples=lambda t: [((t(2, 3, 4), t(2).abs() * 1e-3), {})],
    aten=("linalg_matrix_rank.out_tol_tensor",),
)
def linalg_matrix_rank_tol_tensor(input, tol, hermitian):
    """How many singular values exceed a tolerance per matrix."""
    check_ranked(input)
    check_tolerance("linalg.matrix_rank", "tol", tol)
    return rank_above(input, tol, number_like(input, 0.0), hermitian)


@composite(
    "linalg_matrix_rank.atol_rtol_tensor(Tensor input, *, Tensor? atol=None, Tensor? rtol=None, bool hermitian=False) -> Tensor",
    autocast="float32",
    dtypes=LAPACK,
    variants=_OUT,
    samples=lambda t: [((t(2, 3, 4),), {})],
)
def linalg_matrix_rank_atol_rtol_tensor(input, atol, rtol, hermitian):
    """How many singular values exceed max(atol, rtol * the largest)."""
    check_ranked(input)
    if atol is not None:
        check_tolerance("linalg.matrix_rank", "atol", atol)
    if rtol is not None:
        check_tolerance("linalg.matrix_rank", "rtol", rtol)
    least = atol if atol is not None else number_like(input, 0.0)
    return rank_above(input, least, rtol if rtol is not None else default_rtol(input, least), hermitian)


@composite(
    "linalg_matrix_rank.atol_rtol_float(Tensor self, *, float? atol=None, float? rtol=None, bool hermitian=False) -> Tensor",
    autocast="float32",
    dtypes=LAPACK,
    variants=_OUT,
    samples=lambda t: [((t(2, 3, 4),), {"atol": 1e-3})],
)
def linalg_matrix_rank_atol_rtol_float(self, atol, rtol, hermitian):
    """How many singular values exceed max(atol, rtol * the largest)."""
    check_ranked(self)
    least = number_like(self, atol if atol is not None else 0.0)
    relative = default_rtol(self, least) if rtol is None else number_like(self, float(rtol))
    return rank_above(self, least, relative, hermitian)


@composite(
    "_pseudo_inverse(Tensor A, Tensor atol, Tensor rtol, bool hermitian) -> Tensor",
    dtypes=LAPACK,
    variants="",
    node="LinalgPinvBackward0",
    samples=lambda t: [((t(2, 3, 4), t(2).abs() * 1e-3), {})],
)
def _pseudo_inverse(A, atol, rtol, hermitian):
    """The inverse on the space of the singular values that are kept, zero elsewhere."""
    if A.numel() == 0:
        return op.zeros([*A.shape[:-2], A.shape[-1], A.shape[-2]], dtype=A.dtype, device=A.device)
    if hermitian:
        values, vectors = op.linalg_eigh(A)
        kept = kept_values(values.abs(), atol, rtol)
        inverted = op.where(kept, values.reciprocal(), 0.0).to(A.dtype)
        return op.matmul(vectors * inverted.unsqueeze(-2), vectors.mH)
    U, S, Vh = op.linalg_svd(A, False)
    inverted = op.where(kept_values(S, atol, rtol), S.reciprocal(), 0.0).to(A.dtype)
    return op.matmul(Vh.mH * inverted.unsqueeze(-2), U.mH)


@rule
def pseudo_inverse_gradient(A: "Tensor", inverse: "Tensor", grad: "Tensor") -> "Tensor":
    """Golub and Pereyra's derivative: dP = -P dA P + P P^H dA^H (I - A P) + (I - P A) dA^H P^H P."""
    Ph = inverse.mH
    Gh = grad.mH
    from_rows = Gh.matmul(inverse).matmul(Ph)
    from_columns = Ph.matmul(inverse.matmul(Gh))
    found = from_rows - A.matmul(inverse.matmul(from_rows)) - Ph.matmul(grad).matmul(Ph)
    return found + from_columns - from_columns.matmul(inverse).matmul(A)


@gradient(_pseudo_inverse, "A")
def pinv_gradient(grad, A, result):
    return pseudo_inverse_gradient(A, result, grad)


@rule
def check_inverted(A: "Tensor") -> "none":
    if A.dim() < 2 or A.dtype not in (dt.float32, dt.float64, dt.complex64, dt.complex128):
        raise RuntimeError(
            f"[linalg.pinv] linalg.pinv({A.dtype}{{{A.shape}}}): expected a tensor with 2 or more dimensions of float, double, cfloat or cdouble types"
        )


@composite(
    "linalg_pinv.atol_rtol_float(Tensor self, *, float? atol=None, float? rtol=None, bool hermitian=False) -> Tensor",
    dtypes=LAPACK,
    variants=_OUT,
    constraints={"self": "hermitian if asked"},
    samples=lambda t: [((t(3, 4),), {}), ((positive(t, 2, 3, 3),), {"hermitian": True})],
)
def linalg_pinv_atol_rtol_float(self, atol, rtol, hermitian):
    """The pseudoinverse; singular values up to max(atol, rtol * the largest) count as zero."""
    check_inverted(self)
    least = number_like(self, atol if atol is not None else 0.0)
    relative = default_rtol(self, least) if rtol is None else number_like(self, float(rtol))
    return op._pseudo_inverse(self, least, relative, hermitian)


@composite(
    "linalg_pinv.atol_rtol_tensor(Tensor self, *, Tensor? atol=None, Tensor? rtol=None, bool hermitian=False) -> Tensor",
    dtypes=LAPACK,
    variants=_OUT,
    samples=lambda t: [((t(3, 4),), {})],
    whole=True,
)
def linalg_pinv_atol_rtol_tensor(self, atol, rtol, hermitian):
    """The pseudoinverse with tolerances per matrix."""
    check_inverted(self)
    if atol is not None:
        check_tolerance("linalg.pinv", "atol", atol)
    if rtol is not None:
        check_tolerance("linalg.pinv", "rtol", rtol)
    least = atol if atol is not None else number_like(self, 0.0)
    return op._pseudo_inverse(self, least, rtol if rtol is not None else default_rtol(self, least), hermitian)


@composite(
    "linalg_pinv(Tensor self, float rcond, bool hermitian=False) -> Tensor",
    dtypes=LAPACK,
    variants=_OUT,
    samples=lambda t: [((t(3, 4), 1e-5), {})],
)
def linalg_pinv(self, rcond, hermitian):
    """The pseudoinverse; singular values up to rcond times the largest count as zero."""
    check_inverted(self)
    return op._pseudo_inverse(self, number_like(self, 0.0), number_like(self, rcond), hermitian)


@composite(
    "linalg_pinv.rcond_tensor(Tensor self, Tensor rcond, bool hermitian=False) -> Tensor",
    dtypes=LAPACK,
    variants=_OUT,
    samples=lambda t: [((t(2, 3, 4), t(2).abs() * 1e-3), {})],
    aten=("linalg_pinv.out_rcond_tensor",),
)
def linalg_pinv_rcond_tensor(self, rcond, hermitian):
    """The pseudoinverse with a relative tolerance per matrix."""
    check_inverted(self)
    check_tolerance("linalg.pinv", "rcond", rcond)
    return op._pseudo_inverse(self, number_like(self, 0.0), rcond, hermitian)


@composite(
    "pinverse(Tensor self, float rcond=1e-15) -> Tensor",
    autocast="float32",
    dtypes=LAPACK,
    samples=lambda t: [((t(3, 4),), {})],
)
def pinverse(self, rcond):
    """The pseudoinverse."""
    return op.linalg_pinv(self, rcond)


@native(
    "_least_squares(Tensor A, Tensor B, float rcond, str? driver) -> (Tensor, Tensor, Tensor, Tensor)",
    algorithm="LAPACK",
    kernel="least_squares",
    dtypes=LAPACK,
    variants="",
    tags={"dynamic"},
    differentiable=(0, 1),
    node="LinalgLstsqBackward0",
)
def _least_squares(A, B, rcond, driver):
    """The solution, the residuals where every matrix has full rank, the ranks and the singular values."""


@facts(_least_squares)
def least_squares_facts(A, B, rcond, driver):
    """There are residuals where every matrix has full rank: gels takes that for granted, those with singular values look."""
    batch = list(interpreter.broadcast(A.sizes[:-2], B.sizes[:-2], "linalg.lstsq"))
    (rows, columns), k = A.sizes[-2:], B.sizes[-1]
    has_values = driver in ("gelsd", "gelss")
    residuals = [0]
    if rows > columns and driver == "gels":
        residuals = [*batch, k]
    elif rows > columns and has_values:
        residuals = [interpreter.current().unknown_size("_least_squares")]
    real = real_dtype(A.dtype)
    return (
        A.fresh([*batch, columns, k], column_strides([*batch, sym_max(rows, columns), k])),
        A.fresh(residuals, dtype=real),
        A.fresh([0] if driver == "gels" else A.sizes[:-2], dtype=dt.int64),
        A.fresh([*A.sizes[:-2], sym_min(rows, columns)] if has_values else [0], dtype=real),
    )


@gradient(_least_squares, "A", "B")
def least_squares_gradient(grad0, grad1, A, B, result0):
    to_A = op.zeros_like(A)
    to_B = op.zeros_like(B)
    if grad0 is not None:
        inverse = op.linalg_pinv(A)
        to_A = to_A + pseudo_inverse_gradient(A, inverse, grad0.matmul(B.mH))
        to_B = to_B + inverse.mH.matmul(grad0)
    if grad1 is not None and grad1.numel() > 0:
        # at the minimum the residuals do not change with the solution
        off = 2 * (A.matmul(result0) - B) * grad1.unsqueeze(-2)
        to_A = to_A + off.matmul(result0.mH)
        to_B = to_B - off
    return to_A, to_B


@composite(
    "linalg_lstsq(Tensor self, Tensor b, float? rcond=None, *, str? driver=None) -> (Tensor solution, Tensor residuals, Tensor rank, Tensor singular_values)",
    autocast="float32",
    dtypes=LAPACK,
    variants=_OUT,
    samples=lambda t: [((t(4, 3), t(4, 2)), {"driver": "gelsd"}), ((t(2, 3, 4), t(2, 3)), {})],
    tags=frozenset({"reads_values", "dynamic_output_shape"}),
    aten=("linalg_lstsq.out",),
    whole=True,
)
def linalg_lstsq(self, b, rcond, driver):
    """X that minimizes the norm of self @ X - b, by LAPACK's gels, gelsy (the default), gelsd or gelss."""
    if self.dim() < 2 or b.dim() < 1:
        raise RuntimeError(
            f"[linalg.lstsq] torch.linalg.lstsq: input must have at least 2 dimensions, and other at least 1: got {self.shape} and {b.shape}"
        )
    if self.dim() != b.dim() and self.dim() != b.dim() + 1:
        raise RuntimeError(
            f"[linalg.lstsq] torch.linalg.lstsq: input.dim() must be greater or equal to other.dim() and (input.dim() - other.dim()) <= 1: {self.shape} and {b.shape}"
        )
    if self.dtype != b.dtype:
        raise RuntimeError(
            f"[linalg.lstsq] torch.linalg.lstsq: Expected input and other to have the same dtype, but got input's dtype {self.dtype} and other's dtype {b.dtype}"
        )
    if self.dtype not in (dt.float32, dt.float64, dt.complex64, dt.complex128):
        raise RuntimeError(
            f"[linalg.lstsq] This function doesn't handle types other than float and double: got {self.dtype}"
        )
    check_same_kind("linalg.lstsq", self, b)
    vectors = self.dim() != b.dim()
    right = b.unsqueeze(-1) if vectors else b
    if right.shape[-2] != self.shape[-2]:
        raise RuntimeError(
            f"[linalg.lstsq] torch.linalg.lstsq: input.size(-2) should match other.size({-1 if vectors else -2}): {self.shape} and {b.shape}"
        )
    broadcast_shapes(self.shape[:-2], right.shape[:-2], "linalg.lstsq")
    rounding = machine_epsilon(self.dtype) * max(self.shape[-2], self.shape[-1])
    tolerance = rounding if rcond is None else float(rcond)
    solution, residuals, rank, values = op._least_squares(self, right, tolerance, driver)
    return solution.squeeze(-1) if vectors else solution, residuals, rank, values


@rule
def inverse_norm(norm: "Tensor", norm_of_inverse: "Tensor", info: "Tensor") -> "Tensor":
    """A norm's condition number, infinite for singular matrices."""
    return op.where(info == 0, norm * norm_of_inverse, math.inf)


@composite(
    "linalg_cond(Tensor self, Scalar? p=None) -> Tensor",
    autocast="float32",
    dtypes=LAPACK,
    variants=_OUT,
    samples=lambda t: [((t(2, 3, 4),), {}), ((t(3, 3), 1), {})],
)
def linalg_cond(self, p):
    """The condition number in a matrix norm, by default the ratio of the largest to the smallest singular value."""
    if self.dim() < 2:
        raise RuntimeError(
            f"[linalg.cond] linalg.cond: The input tensor must have at least 2 dimensions. Got shape {self.shape}"
        )
    order = 2.0 if p is None else float(p)
    size = -order if order < 0 else order
    if size == 2:
        S = op.linalg_svdvals(self)
        if S.shape[-1] == 0:
            return S.new_zeros(S.shape[:-1])
        largest, least = S.select(-1, 0), S.select(-1, -1)
        return largest / least if order > 0 else least / largest
    if size != 1 and not math.isinf(size):
        raise RuntimeError(f"[linalg.cond] linalg.cond got an invalid norm type: {order}")
    check_square_matrices("linalg.cond", self)
    if self.numel() == 0:
        return op.zeros(self.shape[:-2], dtype=real_dtype(self.dtype), device=self.device)
    inverse, info = op._inverse(self)
    return inverse_norm(op.linalg_matrix_norm(self, order), op.linalg_matrix_norm(inverse, order), info)


@composite(
    "linalg_cond.p_str(Tensor self, str p) -> Tensor",
    autocast="float32",
    dtypes=LAPACK,
    variants=_OUT,
    samples=lambda t: [((t(3, 3), "fro"), {})],
)
def linalg_cond_p_str(self, p):
    """The condition number in the Frobenius ('fro') or nuclear ('nuc') norm."""
    if p not in ("fro", "nuc"):
        raise RuntimeError(f"[linalg.cond] linalg.cond got an invalid norm type: {p}")
    check_square_matrices("linalg.cond", self)
    if self.numel() == 0:
        return op.zeros(self.shape[:-2], dtype=real_dtype(self.dtype), device=self.device)
    inverse, info = op._inverse(self)
    if p == "fro":
        return inverse_norm(op.linalg_matrix_norm(self, "fro"), op.linalg_matrix_norm(inverse, "fro"), info)
    # nan and inf in a singular matrix's inverse have no singular values
    inverse = op.where((info == 0).unsqueeze(-1).unsqueeze(-1), inverse, 0.0)
    return inverse_norm(op.linalg_matrix_norm(self, "nuc"), op.linalg_matrix_norm(inverse, "nuc"), info)
