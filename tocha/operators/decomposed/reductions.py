"""Folds as sums and extremes: reductions outside the core set."""

from __future__ import annotations

import math

from tocha.ir import dtypes as dt
from tocha.operators.decomposed.parts import raised, summed
from tocha.operators.norms import _norm_max, _norm_min, _norm_one, _norm_power, _norm_two, _norm_zero
from tocha.operators.record import decomposition, op
from tocha.operators.reductions import _all, _logsumexp, aminmax, count_nonzero, nansum
from tocha.operators.statistics import _var_mean


def all_dims(self, dim):
    """The dims that a reduction is over: all of them where none is said; a number takes dim 0 and has none."""
    return list(range(self.ndim)) if not dim or not self.ndim else dim


def truth(self):
    """What any and all give: bool, but uint8 for uint8."""
    return dt.uint8 if self.dtype is dt.uint8 else dt.bool_


@decomposition(nansum)
def nansum_in_parts(self, dim, keepdim, dtype):
    kept = self if not self.dtype.is_floating_point else op.where(self.isnan(), 0, self)
    return op.sum(kept, dim, keepdim, dtype=dtype)


@decomposition(_all)
def all_in_parts(self, dim, keepdim):
    return op.logical_not(op.any(op.logical_not(self), dim or None, keepdim)).to(truth(self))


@decomposition(count_nonzero)
def count_nonzero_in_parts(self, dim):
    return op.sum(self != 0, dim)


@decomposition(aminmax)
def aminmax_in_parts(self, dim, keepdim):
    dims = [] if dim is None else [dim]
    return op.amin(self, dims, keepdim), op.amax(self, dims, keepdim)


@decomposition(_logsumexp)
def logsumexp_in_parts(self, dim, keepdim):
    x = self if self.dtype.is_differentiable else self.to(dt.float32)
    dims = all_dims(x, dim)
    real = raised(x.real if x.dtype.is_complex else x)
    if real.numel() == 0:
        return summed(raised(x).exp(), dims, keepdim).log().to(x.dtype)
    largest = op.amax(real, dims, True)
    largest = op.where(largest.isinf(), 0, largest)
    found = summed((raised(x) - largest).exp(), dims, True).log() + largest
    return (found if keepdim or not dims else op.squeeze(found, dims)).to(x.dtype)


# ---- norms -----------------------------------------------------------------------------------------


def magnitudes(self, dtype):
    """Absolute values in the precision that norms are summed in."""
    return raised(self if dtype is None else self.to(dtype)).abs()


def result_dtype(self, dtype):
    return dt.real_of(self.dtype if dtype is None else dtype)


@decomposition(_norm_two)
def norm_two_in_parts(self, dim, keepdim, dtype):
    x = magnitudes(self, dtype)
    return op.sqrt(summed(x * x, all_dims(x, dim), keepdim)).to(result_dtype(self, dtype))


@decomposition(_norm_one)
def norm_one_in_parts(self, dim, keepdim, dtype):
    x = magnitudes(self, dtype)
    return summed(x, all_dims(x, dim), keepdim).to(result_dtype(self, dtype))


@decomposition(_norm_zero)
def norm_zero_in_parts(self, dim, keepdim, dtype):
    x = magnitudes(self, dtype)
    return summed((x != 0).to(x.dtype), all_dims(x, dim), keepdim).to(result_dtype(self, dtype))


def extreme(self, dim, keepdim, dtype, choose, nothing):
    x = magnitudes(self, dtype)
    dims = all_dims(x, dim)
    if math.prod(x.sizes[d] for d in dims) == 0:
        return (summed(x, dims, keepdim) + nothing).to(result_dtype(self, dtype))
    return (choose(x, dims, keepdim) if dims else x).to(result_dtype(self, dtype))


@decomposition(_norm_max)
def norm_max_in_parts(self, dim, keepdim, dtype):
    return extreme(self, dim, keepdim, dtype, op.amax, 0.0)


@decomposition(_norm_min)
def norm_min_in_parts(self, dim, keepdim, dtype):
    return extreme(self, dim, keepdim, dtype, op.amin, math.inf)


@decomposition(_norm_power)
def norm_power_in_parts(self, dim, keepdim, p, dtype):
    x = magnitudes(self, dtype)
    return summed(x**p, all_dims(x, dim), keepdim).pow(1 / p).to(result_dtype(self, dtype))


def mean_by_recurrence(x, mean, dims):
    """A mean as Welford's recurrence has it: there is none of infinities, except of a single one that comes last."""
    last = x
    for d in dims:
        last = op.unsqueeze(op.select(last, d, -1), d)
    infinities = summed(op.isinf(x).to(x.dtype), dims, True)
    return op.where(op.isinf(mean) & ((infinities > 1) | ~op.isinf(last)), op.full_like(mean, math.nan), mean)


@decomposition(_var_mean)
def var_mean_in_parts(self, dim, keepdim, correction, root):
    x = self.to(dt.complex128 if self.dtype.is_complex else dt.float64)
    dims = all_dims(x, dim)
    mean = op.mean(x, dims, True)
    distance = x - mean
    squares = distance * distance.conj()
    total = summed(squares.real if x.dtype.is_complex else squares, dims, keepdim)
    count = math.prod(x.sizes[d] for d in dims)
    variance = total / max(count - correction, 0)
    if not x.dtype.is_complex and not any(x.sizes[d] == 0 for d in dims):
        mean = mean_by_recurrence(x, mean, dims)
    kept = mean if keepdim or not dims else op.squeeze(mean, dims)
    return (op.sqrt(variance) if root else variance).to(dt.real_of(self.dtype)), kept.to(self.dtype)
