"""Norms of vectors and matrices, distances, and scaling by norms."""

from __future__ import annotations

import math

from tocha.ir import dtypes as dt
from tocha.ir.scalar import abs, cast, constant, fmax, imag, maximum, minimum, pow, real, sqrt, where
from tocha.operators.factorizations import refuse_low_precision
from tocha.operators.record import COMPLEX, COMPLEX32, FLOATS, Fold, composite, gradient, op, reduction, rule
from tocha.operators.reductions import unreduced
from tocha.operators.rules import is_integral, recording, result_type, wrap_dim, wrap_dims

_NORMED = (*FLOATS, *COMPLEX, *COMPLEX32)
_SCHEMA = "(Tensor self, int[]? dim, bool keepdim, *, dtype? dtype=None) -> Tensor"


def _total(term, finish):
    return Fold(
        init=lambda: 0,
        combine=lambda s, x, i: s + term(x),
        merge=lambda a, b: a + b,
        finish=lambda s, n: finish(s),
        state_types=("real",),
        out_types=("real",),
    )


def _squared_magnitude(z):
    a, b = abs(real(z)), abs(imag(z))
    # An infinite part makes the magnitude infinite, also beside a NaN.
    return where(fmax(a, b) == math.inf, constant(math.inf, a.dtype), a * a + b * b)


@reduction("_norm_two" + _SCHEMA, dtypes=_NORMED, variants="", word="norm_cpu")
def _norm_two(t):
    """The root of the sum of squared magnitudes."""
    return _total(lambda x: _squared_magnitude(x) if t.is_complex else x * x, sqrt)


@reduction("_norm_one" + _SCHEMA, dtypes=_NORMED, variants="", word="norm_cpu")
def _norm_one(t):
    """The sum of magnitudes."""
    return _total(abs, lambda s: s)


@reduction("_norm_zero" + _SCHEMA, dtypes=_NORMED, variants="", word="norm_cpu")
def _norm_zero(t):
    """The number of elements that are not zero."""
    return _total(lambda x: cast(x != 0, dt.real_of(t)), lambda s: s)


@reduction("_norm_max" + _SCHEMA, dtypes=_NORMED, variants="", word="norm_cpu")
def _norm_max(t):
    """The largest magnitude."""
    return Fold(
        init=lambda: 0,
        combine=lambda s, x, i: maximum(s, abs(x)),
        merge=maximum,
        finish=lambda s, n: s,
        state_types=("real",),
        out_types=("real",),
    )


@reduction("_norm_min" + _SCHEMA, dtypes=_NORMED, variants="", word="norm_cpu")
def _norm_min(t):
    """The smallest magnitude."""
    return Fold(
        init=lambda: float("inf"),
        combine=lambda s, x, i: minimum(s, abs(x)),
        merge=minimum,
        finish=lambda s, n: s,
        state_types=("real",),
        out_types=("real",),
    )


@reduction(
    "_norm_power(Tensor self, int[]? dim, bool keepdim, float p, *, dtype? dtype=None) -> Tensor",
    dtypes=_NORMED,
    types={"params": ("real",)},
    variants="",
    word="norm_cpu",
)
def _norm_power(t):
    """The p-th root of the sum of p-th powers of magnitudes."""
    return Fold(
        init=lambda p: 0,
        combine=lambda s, x, i, p: s + pow(abs(x), p),
        merge=lambda a, b, p: a + b,
        finish=lambda s, n, p: pow(s, 1 / p),
        state_types=("real",),
        out_types=("real",),
    )


@rule
def check_norm_dtype(self: "Tensor", dtype: "dtype?", name: "str") -> "none":
    if not self.is_floating_point() and not self.is_complex():
        raise RuntimeError(f"[{name}] {name}: Expected a floating point or complex tensor as input. Got {self.dtype}")
    if dtype is not None:
        if not dtype.is_floating_point and not dtype.is_complex:
            raise RuntimeError(f"[{name}] {name}: dtype should be floating point or complex, but got {dtype}")
        if dtype.is_complex != self.is_complex():
            raise RuntimeError(
                f"[{name}] {name}: dtype should be complex for complex inputs and real for real ones, but got {dtype} for {self.dtype}"
            )
        if dtype.itemsize < self.element_size():
            raise RuntimeError(
                f"[{name}] {name}: the dtype of the input ({self.dtype}) should be convertible without narrowing to the specified dtype ({dtype})"
            )


@rule
def check_norm_range(self: "Tensor", ord: "float", dim: "int[]?", name: "str") -> "none":
    """Negative and infinite orders have no value over nothing."""
    if self.numel() != 0 or (ord >= 0 and not math.isinf(ord)):
        return
    dims = list(range(self.ndim))
    if dim is not None and len(dim) != 0:
        dims = wrap_dims(dim, self.ndim)
    if any(self.size(d) == 0 for d in dims):
        raise RuntimeError(
            f"[{name}] {name} cannot compute the {ord} norm on an empty tensor because the operation does not have an identity: got shape {self.shape}"
        )


@composite(
    "linalg_vector_norm(Tensor x, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, dtype? dtype=None) -> Tensor",
    variants="function, out",
    aten=(
        "linalg_vector_norm(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    ),
    tags=frozenset({"reduction", "exact_out"}),
)
def linalg_vector_norm(x, ord, dim, keepdim, dtype):
    """The ord-norm of all elements, or over dim: (sum |x|^ord)^(1/ord), with its limits at 0 and infinity."""
    check_norm_dtype(x, dtype, "linalg.vector_norm")
    if ord.is_complex():
        raise RuntimeError(
            "[linalg.vector_norm] linalg.vector_norm: Expected a non-complex scalar as the order of norm."
        )
    p = float(ord)
    check_norm_range(x, p, dim, "linalg.vector_norm")
    single = x.numel() == 1
    if dim is not None and len(dim) != 0 and not single:
        single = all(x.size(d) == 1 for d in wrap_dims(dim, x.ndim))
    # A single element is its own norm, of whatever order: its power might overflow.
    if p == 1 or (p != 0 and single):
        return op._norm_one(x, dim, keepdim, dtype=dtype)
    if p == 2:
        return op._norm_two(x, dim, keepdim, dtype=dtype)
    if p == 0:
        return op._norm_zero(x, dim, keepdim, dtype=dtype)
    if math.isinf(p):
        return op._norm_max(x, dim, keepdim, dtype=dtype) if p > 0 else op._norm_min(x, dim, keepdim, dtype=dtype)
    return op._norm_power(x, dim, keepdim, p, dtype=dtype)


@gradient(linalg_vector_norm, "x")
def vector_norm_gradient(grad, x, ord, dim, keepdim, result):
    # Where there is no derivative, 0 is a subgradient.
    p = float(ord)
    g = unreduced(grad, x, dim, keepdim)
    norm = unreduced(result, x, dim, keepdim)
    if p == 0:
        return None
    if p == 1:
        return x.sgn() * g
    if p == 2:
        if recording():  # PyTorch's second derivative at 0 is NaN
            return (x / norm).masked_fill(norm == 0, 0) * g
        return x * (g / norm.masked_fill(norm == 0, 1))
    if math.isinf(p):
        size = x.abs()
        # The norm of complex numbers may differ from the largest of these in the last bit.
        extreme = op.linalg_vector_norm(size, ord, dim, True) if x.is_complex() else norm
        hit = (size == extreme) | (size != size)
        return x.sgn() * (hit * (g / hit.sum(dim, True)))
    if p < 1:
        return x.sgn() * x.abs().pow(p - 1).masked_fill(x == 0, 0) * (g * norm.pow(1 - p))
    scale = (g / norm.pow(p - 1)).masked_fill(norm == 0, 0)
    if p < 2:
        return x.sgn() * x.abs().pow(p - 1) * scale
    return x * x.abs().pow(p - 2) * scale


@rule
def matrix_dims(self: "Tensor", dim: "int[]", name: "str") -> "int[]":
    if self.ndim < 2:
        raise RuntimeError(
            f"[{name}] {name}: The input tensor A must have at least 2 dimensions. Got shape {self.shape}"
        )
    if len(dim) != 2:
        raise RuntimeError(f"[{name}] {name}: dim must be a 2-tuple. Got {dim}")
    first, second = wrap_dim(dim[0], self.ndim), wrap_dim(dim[1], self.ndim)
    if first == second:
        raise RuntimeError(f"[{name}] {name}: dims must be different. Got {dim}")
    return [first, second]


@rule
def singular_values_over(self: "Tensor", dims: "int[]", dtype: "dtype?") -> "Tensor":
    """The singular values of the matrices that two dims hold, in the last dim."""
    refuse_low_precision("linalg.matrix_norm", self)
    matrices = self.permute([*[i for i in range(self.ndim) if i not in dims], *dims])
    return op.linalg_svdvals(matrices.to(dtype) if dtype is not None else matrices)


@rule
def spread_dims(norm: "Tensor", dims: "int[]", keepdim: "bool") -> "Tensor":
    """A norm over two dims, with these dims of size one where they are kept."""
    if not keepdim:
        return norm
    return norm.unsqueeze(min(dims[0], dims[1])).unsqueeze(max(dims[0], dims[1]))


@composite(
    "linalg_matrix_norm(Tensor self, Scalar ord, int[] dim=[-2,-1], bool keepdim=False, *, dtype? dtype=None) -> Tensor",
    variants="function, out",
    samples=lambda t: [((t(2, 3, 4), 1), {}), ((t(2, 3, 4), float("-inf")), {"dim": (0, 1), "keepdim": True})],
    types={"out_words": "linalg.matrix_norm expected out tensor dtype {result} but got: {out}"},
)
def linalg_matrix_norm(self, ord, dim, keepdim, dtype):
    """A matrix norm over two dims: 1 and inf are the largest sums of columns and rows, 2 the largest singular value;
    -1, -inf and -2 are the smallest ones."""
    dims = matrix_dims(self, dim, "linalg.matrix_norm")
    check_norm_dtype(self, dtype, "linalg.matrix_norm")
    if ord.is_complex():
        raise RuntimeError(
            "[linalg.matrix_norm] linalg.matrix_norm: Expected a non-complex scalar as the order of norm."
        )
    p = float(ord)
    size = -p if p < 0 else p
    if size == 2:
        values = singular_values_over(self, dims, dtype)
        if p > 0 and values.shape[-1] == 0:
            return spread_dims(values.sum(-1), dims, keepdim)
        return spread_dims(values.amax(-1) if p > 0 else values.amin(-1), dims, keepdim)
    if size != 1 and not math.isinf(size):
        raise RuntimeError(f"[linalg.matrix_norm] linalg.matrix_norm: Order {p} not supported.")
    summed = dims[0] if size == 1 else dims[1]
    kept = dims[1] if size == 1 else dims[0]
    sums = op.linalg_vector_norm(self, 1, [summed], True, dtype=dtype)
    if p > 0 and sums.size(kept) == 0:
        norm = sums.sum([kept], True)
    else:
        norm = sums.amax([kept], True) if p > 0 else sums.amin([kept], True)
    return norm if keepdim else norm.squeeze(dims)


@composite(
    "linalg_matrix_norm.str(Tensor self, str ord='fro', int[] dim=[-2,-1], bool keepdim=False, *, dtype? dtype=None) -> Tensor",
    variants="function, out",
    samples=lambda t: [((t(2, 3, 4),), {}), ((t(2, 3, 4), "fro"), {"dim": (0, 1), "keepdim": True})],
    types={"out_words": "linalg.matrix_norm expected out tensor dtype {result} but got: {out}"},
    aten=("linalg_matrix_norm.str_ord",),
)
def linalg_matrix_norm_str(self, ord, dim, keepdim, dtype):
    """The Frobenius norm ('fro') or the sum of singular values ('nuc') over two dims."""
    dims = matrix_dims(self, dim, "linalg.matrix_norm")
    check_norm_dtype(self, dtype, "linalg.matrix_norm")
    if ord == "nuc":
        return spread_dims(singular_values_over(self, dims, dtype).sum(-1), dims, keepdim)
    if ord != "fro":
        raise RuntimeError(f"[linalg.matrix_norm] linalg.matrix_norm: Order {ord} not supported.")
    return op.linalg_vector_norm(self, 2, dims, keepdim, dtype=dtype)


@composite(
    "linalg_norm(Tensor self, Scalar? ord=None, int[1]? dim=None, bool keepdim=False, *, dtype? dtype=None) -> Tensor",
    variants="function, out",
    types={"out_words": "linalg.norm expected out tensor dtype {result} but got: {out}"},
)
def linalg_norm(self, ord, dim, keepdim, dtype):
    """A vector norm (one dim, or no order given) or a matrix norm (two dims)."""
    if ord is None:
        return op.linalg_vector_norm(self, 2, dim, keepdim, dtype=dtype)
    if dim is None:
        if self.ndim != 1 and self.ndim != 2:
            raise RuntimeError(
                f"[linalg.norm] linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {self.ndim}D."
            )
        if self.ndim == 1:
            return op.linalg_vector_norm(self, ord, [0], keepdim, dtype=dtype)
        return op.linalg_matrix_norm(self, ord, [0, 1], keepdim, dtype=dtype)
    if len(dim) != 1 and len(dim) != 2:
        raise RuntimeError(f"[linalg.norm] linalg.norm: If dim is specified, it must be of length 1 or 2. Got {dim}")
    if len(dim) == 2:
        return op.linalg_matrix_norm(self, ord, dim, keepdim, dtype=dtype)
    return op.linalg_vector_norm(self, ord, dim, keepdim, dtype=dtype)


@composite(
    "linalg_norm.str(Tensor self, str ord, int[1]? dim=None, bool keepdim=False, *, dtype? dtype=None) -> Tensor",
    variants="function, out",
    samples=lambda t: [((t(3, 4), "fro"), {})],
    aten=("linalg_norm.ord_str",),
)
def linalg_norm_str(self, ord, dim, keepdim, dtype):
    """A matrix norm by name."""
    if dim is None:
        if self.ndim != 2:
            raise RuntimeError(
                f"[linalg.norm] order '{ord}' can only be used on a 2D input or with two dims. Got {self.ndim}D."
            )
        return op.linalg_matrix_norm(self, ord, [0, 1], keepdim, dtype=dtype)
    return op.linalg_matrix_norm(self, ord, dim, keepdim, dtype=dtype)


@composite(
    "norm(Tensor self, str? p='fro', int[1]? dim=None, bool keepdim=False, *, dtype? dtype=None) -> Tensor",
    variants="function, method, out",
    aten=(),
    tags={"exact_out"},
)
def norm(self, p, dim, keepdim, dtype):
    """The norm of all elements, or over dim; 'fro' is the 2-norm."""
    if p is not None and p != "fro":
        return op.linalg_norm(self, p, dim, keepdim, dtype=dtype)
    return op.linalg_vector_norm(self, 2, dim, keepdim, dtype=dtype)


@composite(
    "norm.p(Tensor self, Scalar? p, int[1]? dim=None, bool keepdim=False, *, dtype? dtype=None) -> Tensor",
    variants="function, method, out",
    aten=(
        "norm.Scalar(Tensor self, Scalar p=2) -> Tensor",
        "norm.ScalarOpt_dim(Tensor self, Scalar? p, int[1] dim, bool keepdim=False) -> Tensor",
        "norm.ScalarOpt_dim_dtype(Tensor self, Scalar? p, int[1] dim, bool keepdim, *, ScalarType dtype) -> Tensor",
        "norm.ScalarOpt_dtype(Tensor self, Scalar? p, *, ScalarType dtype) -> Tensor",
        "norm.Scalar_out",
        "norm.out",
        "norm.dtype_out",
    ),
    tags=frozenset({"reduction", "exact_out"}),
    whole=True,
)
def norm_p(self, p, dim, keepdim, dtype):
    """The p-norm of all elements, or over dim."""
    if p is None:
        return op.linalg_vector_norm(self, 2, dim, keepdim, dtype=dtype)
    return op.linalg_vector_norm(self, p, dim, keepdim, dtype=dtype)


@composite(
    "frobenius_norm(Tensor self, int[1] dim, bool keepdim=False) -> Tensor",
    variants="function, out",
    aten=("frobenius_norm.dim", "frobenius_norm.out"),
)
def frobenius_norm(self, dim, keepdim):
    """The 2-norm over dim."""
    return op.linalg_vector_norm(self, 2, dim, keepdim)


@composite("nuclear_norm(Tensor self, bool keepdim=False) -> Tensor", variants="function, out")
def nuclear_norm(self, keepdim):
    """The sum of a matrix's singular values."""
    return op.linalg_matrix_norm(self, "nuc", [-2, -1], keepdim)


@composite(
    "nuclear_norm.dim(Tensor self, int[2] dim, bool keepdim=False) -> Tensor",
    variants="function, out",
    samples=lambda t: [((t(2, 3, 4), (0, 2)), {})],
)
def nuclear_norm_dim(self, dim, keepdim):
    """The sum of the singular values of the matrices that two dims hold."""
    return op.linalg_matrix_norm(self, "nuc", dim, keepdim)


@composite("dist(Tensor self, Tensor other, Scalar p=2) -> Tensor", node="DistBackward0", whole=True)
def dist(self, other, p):
    """The p-norm of self - other."""
    gap = self - other
    if is_integral(gap.dtype):
        raise RuntimeError(
            f"[dist] norm(): input dtype should be either floating point or complex. Got {gap.dtype} instead."
        )
    return op.linalg_vector_norm(gap, p)


@composite(
    "renorm(Tensor self, Scalar p, int dim, Scalar maxnorm) -> Tensor",
    node="RenormBackward0",
    variants="function, method, inplace, out",
    tags=frozenset({"out_whole", "exact_out"}),
    whole=True,
)
def renorm(self, p, dim, maxnorm):
    """Scales down every slice along dim whose p-norm exceeds maxnorm."""
    if p.is_complex():
        raise RuntimeError("[renorm] renorm: p must be real-valued")
    if maxnorm.is_complex():
        raise RuntimeError("[renorm] renorm: maxnorm must be real-valued")
    if not float(p) > 0:
        raise RuntimeError(f"[renorm] renorm: non-positive-norm not supported, got p = {p}")
    if not float(maxnorm) >= 0:
        raise RuntimeError(f"[renorm] renorm: expected maxnorm to be >= 0 but got {maxnorm}")
    if self.ndim < 2:
        raise RuntimeError(f"[renorm] renorm: input needs at least 2 dimensions, got {self.ndim} dimensions")
    d = wrap_dim(dim, self.ndim)
    half = self.dtype == dt.float16 or self.dtype == dt.bfloat16
    wide = self.to(dt.float32) if half else self
    norms = op.linalg_vector_norm(wide, p, [i for i in range(self.ndim) if i != d], True)
    scale = op.where(norms > maxnorm, maxnorm / (norms + 1e-7), 1.0)
    return (wide * scale).to(self.dtype).contiguous()


@composite("nn_normalize(Tensor self, float p=2.0, int[1] dim=1, float eps=1e-12) -> Tensor", variants="function, out")
def nn_normalize(self, p, dim, eps):
    """input / max(its p-norm along dim, eps)."""
    return self / op.linalg_vector_norm(self, p, dim, True).clamp_min(eps).expand_as(self)


@composite("cosine_similarity(Tensor x1, Tensor x2, int dim=1, float eps=1e-08) -> Tensor", variants="function")
def cosine_similarity(x1, x2, dim, eps):
    """The cosine of the angle between x1 and x2 along dim."""
    a, b = op.broadcast_tensors([x1, x2])
    common = result_type(x1, x2)
    if not common.is_floating_point:
        raise RuntimeError(
            f"[cosine_similarity] expected common dtype to be floating point, yet common dtype is {common}: got {x1.dtype} and {x2.dtype}"
        )
    a, b = a.to(common), b.to(common)
    a = a / op.linalg_vector_norm(a, 2, [dim], True).clamp_min(eps)
    b = b / op.linalg_vector_norm(b, 2, [dim], True).clamp_min(eps)
    return (a * b).sum(dim)


@composite(
    "nn_cosine_similarity(Tensor x1, Tensor x2, int dim=1, float eps=1e-08) -> Tensor", variants="function", aten=()
)
def nn_cosine_similarity(x1, x2, dim, eps):
    """The cosine of the angle between x1 and x2 along dim."""
    return op.cosine_similarity(x1, x2, dim, eps)


@composite(
    "pairwise_distance(Tensor x1, Tensor x2, float p=2.0, float eps=1e-06, bool keepdim=False) -> Tensor",
    node="NormBackward1",
    variants="function",
)
def pairwise_distance(x1, x2, p, eps, keepdim):
    """The p-norm of x1 - x2 + eps along the last dim."""
    return op.linalg_vector_norm(x1 - x2 + eps, p, [-1], keepdim)


@composite(
    "nn_pairwise_distance(Tensor x1, Tensor x2, float p=2.0, float eps=1e-06, bool keepdim=False) -> Tensor",
    node="NormBackward1",
    variants="function",
    aten=(),
)
def nn_pairwise_distance(x1, x2, p, eps, keepdim):
    """The p-norm of x1 - x2 + eps along the last dim."""
    return op.pairwise_distance(x1, x2, p, eps, keepdim)


@composite(
    "norm_except_dim(Tensor v, int pow=2, int dim=0) -> Tensor",
    variants="function",
)
def norm_except_dim(v, pow, dim):
    """The norm of each slice of dim, all other dims kept with size 1; of all of v where dim is -1."""
    if dim == -1:
        return v.norm(pow)
    d = wrap_dim(dim, v.ndim)
    others = [i for i in range(v.ndim) if i != d]
    if len(others) == 0:
        return v.abs()
    return op.linalg_vector_norm(v, pow, others, True)
