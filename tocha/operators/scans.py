"""Scans: sums, products and extremes up to and including each element of a dim."""

from __future__ import annotations

from tocha.ir import dtypes as dt
from tocha.operators.record import gradient, native, op, rule
from tocha.operators.rules import Out, is_integral, refuse_dtype, wrap_dim


@rule
def accumulated_dtype(self: "Tensor", dtype: "dtype?", name: "str") -> "dtype":
    """Integers accumulate as int64 unless a dtype is asked for."""
    result = dt.int64 if is_integral(self.dtype) else self.dtype
    if dtype is not None:
        result = dtype
    if result == dt.bool_:
        refuse_dtype(name, result)
    return result


@native("_recurrence(Tensor self, Tensor? factors, int dim, bool reverse) -> Tensor", algorithm="scan", variants="")
def _recurrence(self, factors, dim, reverse):
    """y[k] = self[k] + factors[k] y[k - 1] along dim, or in reverse y[k] = self[k] + factors[k + 1] y[k + 1]: each
    direction is the adjoint of the other. Without factors, sums from one end."""
    wrap_dim(dim, self.ndim)
    return Out(self.shape, self.dtype)


@rule
def shifted(x: "Tensor", dim: "int", first: "float") -> "Tensor":
    """Each element of dim at the place of the next, and `first` at the beginning."""
    n = x.size(dim)
    if n == 0:
        return x
    return op.cat([op.full_like(x.narrow(dim, 0, 1), first), x.narrow(dim, 0, n - 1)], dim)


@gradient(_recurrence, "self", "factors")
def recurrence_gradient(grad, factors, dim, reverse, result, wanted):
    if factors is None:
        return op._recurrence(grad, None, dim, not reverse), None
    spread = op._recurrence(grad, factors.conj(), dim, not reverse)
    if not wanted[1]:
        return spread, None
    if reverse:
        return spread, shifted(spread, dim, 0) * result.conj()
    return spread, spread * shifted(result, dim, 0).conj()


@native(
    "cumsum(Tensor self, int dim, *, dtype? dtype=None) -> Tensor",
    algorithm="scan",
    variants="function, method, inplace, out",
    tags=frozenset({"out_dtype", "out_whole"}),
    core=True,
    word="cumsum_out_cpu",
)
def cumsum(self, dim, dtype):
    """Sums up to and including each element of dim."""
    wrap_dim(dim, self.ndim)
    return Out(self.shape, accumulated_dtype(self, dtype, "cumsum"))


@gradient(cumsum, "self")
def cumsum_gradient(grad, dim):
    return op._recurrence(grad, None, dim, True)


@native(
    "cumprod(Tensor self, int dim, *, dtype? dtype=None) -> Tensor",
    algorithm="scan",
    variants="function, method, inplace, out",
    tags=frozenset({"out_dtype", "out_whole"}),
    word="cumprod_out_cpu",
)
def cumprod(self, dim, dtype):
    """Products up to and including each element of dim."""
    wrap_dim(dim, self.ndim)
    return Out(self.shape, accumulated_dtype(self, dtype, "cumprod"))


@gradient(cumprod, "self")
def cumprod_gradient(grad, self, dim, result):
    # The product before an element, times the sum of gradients of the products after it: no division, so zeros are fine.
    if self.ndim == 0:
        return grad
    return shifted(result, dim, 1).conj() * op._recurrence(grad, self.to(grad.dtype).conj(), dim, True)


@rule
def check_ordered(self: "Tensor", name: "str") -> "none":
    if self.is_complex() and self.numel() > 0 and self.ndim > 0:
        refuse_dtype(name, self.dtype)


@native(
    "cummax(Tensor self, int dim) -> (Tensor values, Tensor indices)",
    algorithm="scan",
    variants="function, method, out",
    aten=("cummax.out",),
    types={"out_words": "expected scalar_type {result} but found {out}"},
)
def cummax(self, dim):
    """The largest element so far along dim and where it is: the last of equal ones. NaN wins and stays."""
    wrap_dim(dim, self.ndim)
    check_ordered(self, "cummax")
    return Out(self.shape, self.dtype), Out(self.shape, dt.int64)


@rule
def added_where_found(grad: "Tensor", dim: "int", indices: "Tensor") -> "Tensor":
    return grad.new_zeros(grad.shape).scatter_add_(dim, indices, grad)


@gradient(cummax, "self")
def cummax_gradient(grad, dim, result1):
    return added_where_found(grad, dim, result1)


@native(
    "cummin(Tensor self, int dim) -> (Tensor values, Tensor indices)",
    algorithm="scan",
    variants="function, method, out",
    aten=("cummin.out",),
    types={"out_words": "expected scalar_type {result} but found {out}"},
)
def cummin(self, dim):
    """The smallest element so far along dim and where it is: the last of equal ones. NaN wins and stays."""
    wrap_dim(dim, self.ndim)
    check_ordered(self, "cummin")
    return Out(self.shape, self.dtype), Out(self.shape, dt.int64)


@gradient(cummin, "self")
def cummin_gradient(grad, dim, result1):
    return added_where_found(grad, dim, result1)


@native(
    "logcumsumexp(Tensor self, int dim) -> Tensor",
    algorithm="scan",
    variants="function, method, out",
    tags=frozenset({"out_whole"}),
    word="logcumsumexp_out_cpu",
    types={"out_words": "expected scalar_type {result} but found {out}"},
)
def logcumsumexp(self, dim):
    """log(sum(exp(x))) up to and including each element of dim, without overflow."""
    wrap_dim(dim, self.ndim)
    if is_integral(self.dtype):
        refuse_dtype("logcumsumexp", self.dtype)
    return Out(self.shape, self.dtype)


@gradient(logcumsumexp, "self")
def logcumsumexp_gradient(grad, self, dim, result):
    # exp(self) times the sum of grad / exp(result) from here on, with every exponent kept below zero.
    if self.ndim == 0:
        return grad
    change = shifted(result, dim, 0) - result
    # From infinity to infinity nothing changes; a NaN is one for everything that went into it.
    decay = change.masked_fill((change != change) & (result == result), 0).exp()
    return (self - result).exp().conj() * op._recurrence(grad, decay.conj(), dim, True)
