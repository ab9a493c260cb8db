"""Statistics: variance, medians, quantiles, covariance, histograms."""

from __future__ import annotations

import math

from tocha.ir import dtypes as dt
from tocha.ir.scalar import cast, conjugate, constant, make_complex, maximum, real, sqrt, where, zero_like
from tocha.operators import interpreter
from tocha.operators.record import (
    BOOL,
    COMPLEX,
    COMPLEX32,
    FLOATS,
    INTS,
    Fold,
    composite,
    facts,
    native,
    op,
    reduction,
    rule,
)
from tocha.operators.record import gradient as derivative
from tocha.operators.reductions import placed, reduced_count, shared_among_equals, unreduced
from tocha.operators.rules import Out, apart, is_integral, refuse_dtype, warn, wrap_dim

# -- variance ------------------------------------------------------------------------------------------


@reduction(
    "_var_mean(Tensor self, int[]? dim, bool keepdim, float correction, bool root) -> (Tensor, Tensor)",
    dtypes=(*FLOATS, *COMPLEX, *COMPLEX32),
    types={
        "params": (dt.float64, dt.bool_),
        "refused": {
            (*BOOL, *INTS): RuntimeError("std and var only support floating point and complex dtypes"),
        },
    },
    variants="",
    word="std_cpu",
)
def _var_mean(t):
    """Variance (or its root) and mean by Welford's recurrence, in double precision."""
    wide = dt.complex128 if t.is_complex else dt.float64

    def scaled(z, factor):
        return z * (make_complex(factor, zero_like(factor)) if t.is_complex else factor)

    def combine(s, x, i, correction, root):
        mean, squares, n = s
        n = n + 1
        d = cast(x, wide) - mean
        mean = mean + scaled(d, 1 / n)
        return mean, squares + real(d * conjugate(cast(x, wide) - mean)), n

    def merge(a, b, correction, root):
        (mean, squares, n), (other, more, m) = a, b
        total = n + m
        share = where(total == 0, zero_like(total), m / total)
        d = other - mean
        return mean + scaled(d, share), squares + more + real(d * conjugate(d)) * n * share, total

    def finish(s, count, correction, root):
        mean, squares, n = s
        var = squares / maximum(n - correction, constant(0, dt.float64))
        nan = constant(float("nan"), dt.float64)
        nothing = make_complex(nan, nan) if t.is_complex else nan
        return where(root, sqrt(var), var), where(count == 0, nothing, mean)

    return Fold(
        init=lambda correction, root: (0, 0, 0),
        combine=combine,
        merge=merge,
        finish=finish,
        state_types=("wide", dt.float64, dt.float64),
        out_types=("real", "T"),
    )


@derivative(_var_mean, "self")
def var_mean_gradient(grad0, grad1, self, dim, keepdim, correction, root, result0):
    n = reduced_count(self, dim)
    total: "Tensor?" = None
    if grad0 is not None:
        spread = grad0
        if root:  # where nothing varies the root has no derivative: 0 is one of its subgradients
            spread = (grad0 / (result0 * 2)).masked_fill(result0 == 0, 0)
        # The recurrence has no mean of infinities; PyTorch's gradients are those of the plain one.
        mean = self.mean() if dim is None else self.mean(dim, True)
        centered = self - mean
        slope = unreduced(spread, self, dim, keepdim)
        if (dim is None or self.ndim == 0) and n <= correction:  # there PyTorch takes the sides of the mean for one
            total = slope * op.full_like(self, math.inf).masked_fill(self == mean, math.nan)
        else:
            total = slope * (2.0 / (n - correction) if n != correction else math.inf) * centered
    if grad1 is not None:
        share = (unreduced(grad1, self, dim, keepdim) / n).expand(self.shape)
        total = share if total is None else total + share
    return total


@rule
def check_degrees(op_name: "str", self: "Tensor", dim: "int[]?", correction: "float") -> "none":
    if not (self.is_floating_point() or self.is_complex()):
        raise RuntimeError(f"[{op_name}] std and var only support floating point and complex dtypes, got {self.dtype}")
    if reduced_count(self, dim) <= correction or self.numel() == 0:
        warn(
            f"{op_name}(): degrees of freedom is <= 0. Correction should be strictly less than the reduction factor (input numel divided by output numel)."
        )


@composite("var(Tensor self, bool unbiased=True) -> Tensor", node="VarBackward0", tags=frozenset({"reduction"}))
def var(self, unbiased):
    """The variance of all elements; unbiased divides by n - 1, otherwise by n."""
    check_degrees("var", self, None, 1.0 if unbiased else 0.0)
    return op._var_mean(self, None, False, 1.0 if unbiased else 0.0, False)[0]


@composite(
    "var.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> Tensor",
    node="VarBackward0",
    variants="function, method, out",
    aten=("var.out",),
    core=True,
    tags=frozenset({"reduction"}),
)
def var_dim(self, dim, unbiased, keepdim):
    """The variance over dim."""
    check_degrees("var", self, dim, 1.0 if unbiased else 0.0)
    return op._var_mean(self, dim, keepdim, 1.0 if unbiased else 0.0, False)[0]


@composite(
    "var.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor",
    node="VarBackward0",
    variants="function, method, out",
    core=True,
    tags=frozenset({"reduction"}),
    whole=True,
)
def var_correction(self, dim, correction, keepdim):
    """The variance over dim, divided by n - correction."""
    check_degrees("var", self, dim, correction_or_one(correction))
    return op._var_mean(self, dim, keepdim, correction_or_one(correction), False)[0]


@composite("std(Tensor self, bool unbiased=True) -> Tensor", node="StdBackward0", tags=frozenset({"reduction"}))
def std(self, unbiased):
    """The standard deviation of all elements."""
    check_degrees("std", self, None, 1.0 if unbiased else 0.0)
    return op._var_mean(self, None, False, 1.0 if unbiased else 0.0, True)[0]


@composite(
    "std.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> Tensor",
    node="StdBackward0",
    variants="function, method, out",
    aten=("std.out",),
    tags=frozenset({"reduction"}),
)
def std_dim(self, dim, unbiased, keepdim):
    """The standard deviation over dim."""
    check_degrees("std", self, dim, 1.0 if unbiased else 0.0)
    return op._var_mean(self, dim, keepdim, 1.0 if unbiased else 0.0, True)[0]


@composite(
    "std.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor",
    node="StdBackward0",
    variants="function, method, out",
    tags=frozenset({"reduction"}),
    whole=True,
)
def std_correction(self, dim, correction, keepdim):
    """The standard deviation over dim, with n - correction under the root."""
    check_degrees("std", self, dim, correction_or_one(correction))
    return op._var_mean(self, dim, keepdim, correction_or_one(correction), True)[0]


@rule
def check_moments(self: "Tensor", name: "str") -> "none":
    if not (self.is_floating_point() or self.is_complex()):
        raise RuntimeError(f"[{name}] {name} only support floating point and complex dtypes, got {self.dtype}")


@composite(
    "var_mean(Tensor self, bool unbiased=True) -> (Tensor, Tensor)",
    node="VarMeanBackward0",
    variants="function",
    tags=frozenset({"reduction"}),
)
def var_mean(self, unbiased):
    """Variance and mean of all elements."""
    check_moments(self, "var_mean")
    check_degrees("var_mean", self, None, 1.0 if unbiased else 0.0)
    spread, mean = op._var_mean(self, None, False, 1.0 if unbiased else 0.0, False)
    return spread, apart(mean)


@composite(
    "var_mean.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> (Tensor, Tensor)",
    node="VarMeanBackward0",
    variants="function",
    tags=frozenset({"reduction"}),
)
def var_mean_dim(self, dim, unbiased, keepdim):
    """Variance and mean over dim."""
    check_moments(self, "var_mean")
    check_degrees("var_mean", self, dim, 1.0 if unbiased else 0.0)
    spread, mean = op._var_mean(self, dim, keepdim, 1.0 if unbiased else 0.0, False)
    return spread, apart(mean)


@composite(
    "var_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> (Tensor, Tensor)",
    node="VarMeanBackward0",
    variants="function",
    tags=frozenset({"reduction"}),
    whole=True,
)
def var_mean_correction(self, dim, correction, keepdim):
    """Variance and mean over dim."""
    check_moments(self, "var_mean")
    check_degrees("var_mean", self, dim, correction_or_one(correction))
    spread, mean = op._var_mean(self, dim, keepdim, correction_or_one(correction), False)
    return spread, apart(mean)


@composite(
    "std_mean(Tensor self, bool unbiased=True) -> (Tensor, Tensor)",
    node="StdMeanBackward0",
    variants="function",
    tags=frozenset({"reduction"}),
)
def std_mean(self, unbiased):
    """Standard deviation and mean of all elements."""
    check_moments(self, "std_mean")
    check_degrees("std_mean", self, None, 1.0 if unbiased else 0.0)
    spread, mean = op._var_mean(self, None, False, 1.0 if unbiased else 0.0, True)
    return spread, apart(mean)


@composite(
    "std_mean.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> (Tensor, Tensor)",
    node="StdMeanBackward0",
    variants="function",
    tags=frozenset({"reduction"}),
)
def std_mean_dim(self, dim, unbiased, keepdim):
    """Standard deviation and mean over dim."""
    check_moments(self, "std_mean")
    check_degrees("std_mean", self, dim, 1.0 if unbiased else 0.0)
    spread, mean = op._var_mean(self, dim, keepdim, 1.0 if unbiased else 0.0, True)
    return spread, apart(mean)


@composite(
    "std_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> (Tensor, Tensor)",
    node="StdMeanBackward0",
    variants="function",
    tags=frozenset({"reduction"}),
    whole=True,
)
def std_mean_correction(self, dim, correction, keepdim):
    """Standard deviation and mean over dim."""
    check_moments(self, "std_mean")
    check_degrees("std_mean", self, dim, correction_or_one(correction))
    spread, mean = op._var_mean(self, dim, keepdim, correction_or_one(correction), True)
    return spread, apart(mean)


@rule
def correction_or_one(correction: "Scalar?") -> "float":
    if correction is None:
        return 1.0
    number: "Scalar" = correction
    return float(number)


@composite(
    "nanmean(Tensor self, int[1]? dim=None, bool keepdim=False, *, dtype? dtype=None) -> Tensor",
    variants="function, method, out",
)
def nanmean(self, dim, keepdim, dtype):
    """The mean of the elements that are not NaN."""
    if not self.is_floating_point() and not self.is_complex():
        raise RuntimeError(
            f"[nanmean] nanmean(): expected input to have floating point or complex dtype but got {self.dtype}"
        )
    return self.nansum(dim, keepdim, dtype=dtype) / (~self.isnan()).sum(dim, keepdim)


@composite("trace(Tensor self) -> Tensor", node="TraceBackward0", autocast="float32", whole=True, word="trace")
def trace(self):
    """The sum of a matrix's diagonal."""
    if self.ndim != 2:
        raise RuntimeError(f"[trace] trace: expected a matrix, but got tensor with dim {self.ndim}")
    if self.dtype == dt.bool_:
        refuse_dtype("trace", self.dtype)
    return self.diagonal().sum()


@composite(
    "sum_to_size(Tensor self, SymInt[] size) -> Tensor",
    node="SumBackward1",
    variants="method",
    samples=lambda t: [((t(2, 3, 4), (3, 1)), {})],
)
def sum_to_size(self, size):
    """Sums what broadcasting a tensor of this size would have repeated."""
    if self.ndim == 0 and len(size) == 0:
        return self.sum()
    lead = self.ndim - len(size)
    if lead < 0 or any(size[i] != self.size(i + lead) and size[i] != 1 for i in range(len(size))):
        raise RuntimeError(f"[sum_to_size] size {size} is not expandable to size {self.shape}")
    dims = [d for d in range(self.ndim) if d < lead or (size[d - lead] == 1 and self.size(d) != 1)]
    if len(dims) == 0:
        return self
    return self.sum(dims, True).reshape(size)


# -- medians, quantiles ----------------------------------------------------------------------------------


@rule
def reduced_shape(self: "Tensor", dim: "int", keepdim: "bool", name: "str") -> "int[]":
    """self's shape without dim (or with 1 there); refuses an empty dim and complex elements."""
    d = wrap_dim(dim, self.ndim)
    if self.ndim > 0 and self.size(d) == 0:
        raise IndexError(f"[{name}] {name}(): Expected reduction dim {d} to have non-zero size. Got shape {self.shape}")
    if self.is_complex():
        refuse_dtype(name, self.dtype)
    if self.ndim == 0:
        return []
    if keepdim:
        return [*self.shape[:d], 1, *self.shape[d + 1 :]]
    return [*self.shape[:d], *self.shape[d + 1 :]]


@rule
def check_medians(self: "Tensor", name: "str") -> "none":
    if self.is_complex() or self.dtype == dt.bool_:
        refuse_dtype(name, self.dtype)


@native("median(Tensor self) -> Tensor", algorithm="sort", kernel="median_all")
def median(self):
    """The median of all elements, the lower of two; NaN if there is one."""
    check_medians(self, "median")
    return Out([], self.dtype)


@derivative(median, "self")
def median_gradient(grad, self, result):
    return shared_among_equals(grad, self, result)


@native(
    "median.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
    algorithm="sort",
    kernel="median_dim",
    node="MedianBackward1",
    variants="function, method, out",
)
def median_dim(self, dim, keepdim):
    """Medians along dim, the lower of two, and where they are."""
    shape = reduced_shape(self, dim, keepdim, "median")
    check_medians(self, "median")
    return Out(shape, self.dtype), Out(shape, dt.int64)


@derivative(median_dim, "self")
def median_dim_gradient(grad, self, dim, keepdim, result1):
    return placed(grad, self, dim, keepdim, result1)


@native("nanmedian(Tensor self) -> Tensor", algorithm="sort", kernel="nanmedian_all", word="median_cpu")
def nanmedian(self):
    """The median of the elements that are not NaN."""
    check_medians(self, "nanmedian")
    return Out([], self.dtype)


@derivative(nanmedian, "self")
def nanmedian_gradient(grad, self, result):
    return shared_among_equals(grad, self, result)


@native(
    "nanmedian.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
    algorithm="sort",
    kernel="nanmedian_dim",
    node="NanmedianBackward1",
    variants="function, method, out",
)
def nanmedian_dim(self, dim, keepdim):
    """Medians along dim of the elements that are not NaN, and where they are."""
    shape = reduced_shape(self, dim, keepdim, "nanmedian")
    check_medians(self, "nanmedian")
    return Out(shape, self.dtype), Out(shape, dt.int64)


@derivative(nanmedian_dim, "self")
def nanmedian_dim_gradient(grad, self, dim, keepdim, result1):
    return placed(grad, self, dim, keepdim, result1)


@native(
    "mode(Tensor self, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)",
    algorithm="sort",
    tags=frozenset({"out_apart"}),
    variants="function, method, out",
    types={
        "out_words": (
            "expected scalar type '{result}' but got '{out}' for values output",
            "expected scalar type '{result}' but got '{out}' for indices output",
        )
    },
)
def mode(self, dim, keepdim):
    """The most frequent values along dim (the smallest of several) and where they last occur."""
    shape = reduced_shape(self, dim, keepdim, "mode")
    return Out(shape, self.dtype), Out(shape, dt.int64)


@derivative(mode, "self")
def mode_gradient(grad, self, dim, keepdim, result1):
    return placed(grad, self, dim, keepdim, result1)


# -- quantiles ---------------------------------------------------------------------------------------------


@rule
def check_quantile(self: "Tensor", q: "Tensor", interpolation: "str", name: "str") -> "none":
    if self.numel() == 0:
        raise RuntimeError(f"[{name}] quantile() input tensor must be non-empty, but has shape {self.shape}")
    if q.ndim > 1:
        raise RuntimeError(f"[{name}] quantile() q must be a scalar or 1D tensor, but has shape {q.shape}")
    if self.dtype != dt.float32 and self.dtype != dt.float64:
        raise RuntimeError(
            f"[{name}] quantile() input tensor must be either float or double dtype, but is {self.dtype}"
        )
    if self.dtype != q.dtype:
        raise RuntimeError(
            f"[{name}] quantile() q tensor must be same dtype as the input tensor: got {q.dtype} and {self.dtype}"
        )
    if interpolation not in ("linear", "lower", "higher", "midpoint", "nearest"):
        raise RuntimeError(
            f"[{name}] quantile() interpolation must be one of linear, lower, higher, midpoint or nearest, but got {interpolation}"
        )


@rule
def check_quantiles(self: "Tensor", q: "Tensor", interpolation: "str", name: "str") -> "none":
    check_quantile(self, q, interpolation, name)
    op._check_range(q, 0, 1, f"[{name}] quantile() q values must be in the range [0, 1]")


@rule
def check_rank(q: "float") -> "none":
    if not (q >= 0 and q <= 1):
        raise RuntimeError(f"[quantile] quantile() q must be in the range [0, 1] but got {q}")


@rule
def quantile_of(
    self: "Tensor", q: "Tensor", dim: "int?", keepdim: "bool", interpolation: "str", skip_nan: "bool"
) -> "Tensor":
    """The values at ranks q * (n - 1) of the sorted elements; NaN sorts last."""
    x = self.reshape(-1)
    at = 0
    if dim is not None:
        at = wrap_dim(dim, self.ndim)
        if self.ndim > 0:
            x = self.movedim(at, -1)
    n = x.size(-1)
    ordered = op.sort(x, -1)[0]
    wanted = q.reshape(-1)
    if skip_nan:
        ranks = (wanted * ((~x.isnan()).sum([-1], True) - 1)).clamp_min(0)
    else:
        ranks = op.where(ordered.narrow(-1, n - 1, 1).isnan(), n - 1.0, wanted * (n - 1))
    if interpolation == "lower":
        ranks = ranks.floor()
    elif interpolation == "higher":
        ranks = ranks.ceil()
    elif interpolation == "nearest":
        ranks = ranks.round()
    below = ranks.floor()
    result = ordered.gather(-1, below.to(dt.int64))
    if interpolation == "linear" or interpolation == "midpoint":
        share = ranks - below if interpolation == "linear" else op.full_like(ranks, 0.5)
        result = result.lerp(ordered.gather(-1, ranks.ceil().to(dt.int64)), share)
    if keepdim:
        for _ in range(self.ndim if dim is None else min(self.ndim, 1)):
            result = result.unsqueeze(at)
    # A copy, small beside what was sorted: quantiles are no view of something that nobody else has.
    return (result.squeeze(-1) if q.ndim == 0 else result.movedim(-1, 0)).clone()


@composite(
    "quantile(Tensor self, Tensor q, int? dim=None, bool keepdim=False, *, str interpolation='linear') -> Tensor",
    autocast="float32",
    variants="function, method, out",
    samples=lambda t: [((t(3, 4), t.of([0.25, 0.5])), {"dim": 1}), ((t(3, 4), t.of(0.4)), {})],
    types={"out_words": "quantile() out tensor must be same dtype as the input tensor: {result}, not {out}"},
)
def quantile(self, q, dim, keepdim, interpolation):
    """The q-th quantiles of all elements, or along dim; NaN where there is one."""
    check_quantiles(self, q, interpolation, "quantile")
    return quantile_of(self, q, dim, keepdim, interpolation, False)


@composite(
    "quantile.scalar(Tensor self, float q, int? dim=None, bool keepdim=False, *, str interpolation='linear') -> Tensor",
    autocast="float32",
    variants="function, method, out",
    types={"out_words": "quantile() out tensor must be same dtype as the input tensor: {result}, not {out}"},
)
def quantile_scalar(self, q, dim, keepdim, interpolation):
    """The q-th quantile of all elements, or along dim."""
    check_rank(q)
    rank = op.scalar_tensor(q, dtype=self.dtype, device=self.device)
    check_quantile(self, rank, interpolation, "quantile")
    return quantile_of(self, rank, dim, keepdim, interpolation, False)


@composite(
    "nanquantile(Tensor self, Tensor q, int? dim=None, bool keepdim=False, *, str interpolation='linear') -> Tensor",
    autocast="float32",
    variants="function, method, out",
    samples=lambda t: [((t(3, 4), t.of([0.25, 0.5])), {"dim": 1, "keepdim": True})],
    types={"out_words": "quantile() out tensor must be same dtype as the input tensor: {result}, not {out}"},
)
def nanquantile(self, q, dim, keepdim, interpolation):
    """The q-th quantiles of the elements that are not NaN."""
    check_quantiles(self, q, interpolation, "nanquantile")
    return quantile_of(self, q, dim, keepdim, interpolation, True)


@composite(
    "nanquantile.scalar(Tensor self, float q, int? dim=None, bool keepdim=False, *, str interpolation='linear') -> Tensor",
    autocast="float32",
    variants="function, method, out",
    types={"out_words": "quantile() out tensor must be same dtype as the input tensor: {result}, not {out}"},
)
def nanquantile_scalar(self, q, dim, keepdim, interpolation):
    """The q-th quantile of the elements that are not NaN."""
    check_rank(q)
    rank = op.scalar_tensor(q, dtype=self.dtype, device=self.device)
    check_quantile(self, rank, interpolation, "nanquantile")
    return quantile_of(self, rank, dim, keepdim, interpolation, True)


# -- covariance ------------------------------------------------------------------------------------------


@rule
def check_vector(weights: "Tensor", name: "str") -> "none":
    if weights.ndim > 1:
        raise RuntimeError(
            f"[cov] cov(): expected {name} to have one or fewer dimensions but got {name} with {weights.ndim} dimensions"
        )


@rule
def check_weights(weights: "Tensor", count: "int", name: "str") -> "none":
    if weights.numel() != count:
        raise RuntimeError(
            f"[cov] cov(): expected {name} to have the same numel as there are observations in the input but got {weights.numel()} != {count}"
        )


@composite("cov(Tensor self, *, int correction=1, Tensor? fweights=None, Tensor? aweights=None) -> Tensor")
def cov(self, correction, fweights, aweights):
    """The covariance matrix of variables (rows) over observations (columns)."""
    if self.ndim > 2:
        raise RuntimeError(
            f"[cov] cov(): expected input to have two or fewer dimensions but got an input with {self.ndim} dimensions"
        )
    if self.dtype == dt.bool_:
        raise RuntimeError("[cov] cov(): bool dtype is not supported for input")
    x = self if self.ndim == 2 else self.reshape(1, -1)
    count = x.size(1)
    weights: "Tensor?" = None
    if fweights is not None:
        check_vector(fweights, "fweights")
        if not is_integral(fweights.dtype) or fweights.dtype == dt.bool_:
            raise RuntimeError(
                f"[cov] cov(): expected fweights to have integral dtype but got fweights with {fweights.dtype} dtype"
            )
        check_weights(fweights, count, "fweights")
        op._check_range(fweights, 0, math.inf, "[cov] cov(): fweights cannot be negative")
        weights = fweights
    if aweights is not None:
        check_vector(aweights, "aweights")
        if not aweights.is_floating_point():
            raise RuntimeError(
                f"[cov] cov(): expected aweights to have floating point dtype but got aweights with {aweights.dtype} dtype"
            )
        check_weights(aweights, count, "aweights")
        op._check_range(aweights, 0, math.inf, "[cov] cov(): aweights cannot be negative")
        weights = aweights if weights is None else weights * aweights
    if weights is None:
        if count - correction <= 0:
            warn(
                "cov(): degrees of freedom is <= 0. Correction should be strictly less than the number of observations."
            )
        centered = x - (x.sum(1) / count).unsqueeze(1)
        return (centered @ centered.t().conj() / max(count - correction, 0)).squeeze()
    total = weights.sum()
    centered = x - ((x * weights).sum(1) / total).unsqueeze(1)
    spread = total - correction
    if aweights is not None and correction != 0:
        spread = total - correction * (weights * aweights).sum() / total
    return (centered @ (centered * weights).t().conj() / spread.clamp_min(0)).squeeze()


@composite("corrcoef(Tensor self) -> Tensor")
def corrcoef(self):
    """The matrix of correlation coefficients of variables (rows)."""
    if self.ndim > 2:
        raise RuntimeError(
            f"[corrcoef] corrcoef(): expected input to have two or fewer dimensions but got an input with {self.ndim} dimensions"
        )
    c = self.cov()
    if c.ndim == 0:
        return c / c
    deviations = op.real(c.diagonal()) if c.is_complex() else c.diagonal()
    deviations = deviations.sqrt()
    c = c / deviations.unsqueeze(1) / deviations.unsqueeze(0)
    if c.is_complex():
        return op.complex(op.real(c).clamp(-1, 1), op.imag(c).clamp(-1, 1))
    return c.clamp(-1, 1)


# -- counting ----------------------------------------------------------------------------------------------


@native(
    "bincount(Tensor self, Tensor? weights=None, SymInt minlength=0) -> Tensor",
    algorithm="histogram",
    tags=frozenset({"dynamic", "dynamic_output_shape"}),
    samples=lambda t: [((t.index(7, below=5),), {}), ((t.index(7, below=5), t(7)), {"minlength": 8})],
)
def bincount(self, weights, minlength):
    """How often each integer from 0 up occurs, or the sum of its weights."""


@facts(bincount)
def bincount_facts(self, weights, minlength):
    count = interpreter.current().unknown_size("bincount", least=minlength)
    d = dt.int64 if weights is None else weights.dtype if weights.dtype in (dt.float32, dt.float64) else dt.float64
    return self.fresh([count], dtype=d)


@native(
    "histc(Tensor self, int bins=100, Scalar min=0, Scalar max=0) -> Tensor",
    algorithm="histogram",
    variants="function, method, out",
    tags=frozenset({"no_gradient"}),
    word="histogram_cpu",
    types={
        "out_words": "torch.histogram: input tensor and hist tensor should have the same dtype, but got input {result} and hist {out}"
    },
)
def histc(self, bins, min, max):
    """Counts in equal bins between min and max; where both are equal, between the smallest and largest element."""
    if not self.is_floating_point():
        refuse_dtype("histc", self.dtype)
    if bins <= 0:
        raise RuntimeError(f"[histc] torch.histogram(): bins must be > 0, but got {bins} for dimension 0")
    return Out([bins], self.dtype)


@native(
    "histogram.edges(Tensor self, Tensor bins, *, Tensor? weight=None, bool density=False) -> (Tensor hist, Tensor bin_edges)",
    algorithm="histogram",
    kernel="histogram_edges",
    tags=frozenset({"dynamic"}),
    variants="function, method, out",
    samples=lambda t: [((t(3, 4), t.of([0.2, 0.4, 0.9])), {})],
    aten=("histogram.bins_tensor", "histogram.bins_tensor_out"),
)
def histogram_edges(self, bins, weight, density):
    """Counts (or weights) between given edges."""


@facts(histogram_edges)
def histogram_edges_facts(self, bins, weight, density):
    return self.fresh([bins.sizes[0] - 1]), bins.fresh()


@native(
    "histogram(Tensor self, int bins, *, float[]? range=None, Tensor? weight=None, bool density=False) -> (Tensor hist, Tensor bin_edges)",
    algorithm="histogram",
    tags=frozenset({"dynamic"}),
    variants="function, method, out",
    samples=lambda t: [((t(3, 4), 5), {"range": [0.0, 1.0], "weight": t(3, 4)})],
    aten=(
        "histogram.bin_ct(Tensor self, int bins=100, *, float[]? range=None, Tensor? weight=None, bool density=False) -> (Tensor hist, Tensor bin_edges)",
        "histogram.bin_ct_out",
    ),
    word="histogramdd",
)
def histogram(self, bins, range, weight, density):
    """Counts (or weights) in equal bins over range, or over all elements."""


@facts(histogram)
def histogram_facts(self, bins, range, weight, density):
    return self.fresh([bins]), self.fresh([bins + 1])


@native(
    "histogramdd.edges(Tensor self, Tensor[] bins, float[]? range=None, Tensor? weight=None, bool density=False) -> (Tensor hist, Tensor[] bin_edges)",
    underived="aten::_histogramdd_from_bin_tensors",
    algorithm="histogram",
    kernel="histogramdd_edges",
    variants="function, method",
    samples=lambda t: [((t(6, 2), [t.of([0.2, 0.4, 0.9]), t.of([0.0, 1.0])]), {})],
    aten=("histogramdd.TensorList_bins",),
)
def histogramdd_edges(self, bins, range, weight, density):
    """Counts of points in a grid between given edges; the last dim holds coordinates."""


@native(
    "histogramdd(Tensor self, int[] bins, float[]? range=None, Tensor? weight=None, bool density=False) -> (Tensor hist, Tensor[] bin_edges)",
    underived="aten::_histogramdd_from_bin_cts",
    algorithm="histogram",
    variants="function, method",
    samples=lambda t: [((t(6, 2), [3, 2]), {"weight": t(6)})],
    word="histogramdd",
)
def histogramdd(self, bins, range, weight, density):
    """Counts of points in a grid of equal bins; the last dim holds coordinates."""


@native(
    "histogramdd.bins(Tensor self, int bins, float[]? range=None, Tensor? weight=None, bool density=False) -> (Tensor hist, Tensor[] bin_edges)",
    underived="aten::_histogramdd_from_bin_cts",
    algorithm="histogram",
    kernel="histogramdd_bins",
    variants="function, method",
    samples=lambda t: [((t(6, 2), 3), {})],
    aten=("histogramdd.int_bins",),
)
def histogramdd_bins(self, bins, range, weight, density):
    """Counts of points in a grid with as many equal bins in every direction."""


def check_directions(self, count):
    if self.sizes[-1] != count:
        raise RuntimeError(
            f"[histogramdd] histogramdd: The size of bins must be equal to the innermost dimension of the input. Got {count} for {self.sizes[-1]}"
        )


@facts(histogramdd_edges)
def histogramdd_edges_facts(self, bins, range, weight, density):
    check_directions(self, len(bins))
    return self.fresh([b.sizes[0] - 1 for b in bins]), [b.fresh() for b in bins]


@facts(histogramdd)
def histogramdd_facts(self, bins, range, weight, density):
    check_directions(self, len(bins))
    return self.fresh(bins), [self.fresh([n + 1]) for n in bins]


@facts(histogramdd_bins)
def histogramdd_bins_facts(self, bins, range, weight, density):
    return histogramdd_facts(self, [bins] * self.sizes[-1], range, weight, density)
