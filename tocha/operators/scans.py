"""Scans: sums, products and extremes up to and including each element of a dim."""

from __future__ import annotations

from tocha.ir import dtypes as dt
from tocha.operators.record import native, rule
from tocha.operators.rules import Out, is_integral, wrap_dim


@rule
def accumulated_dtype(self: "Tensor", dtype: "dtype?", name: "str") -> "dtype":
    """Integers accumulate as int64 unless a dtype is asked for."""
    result = dt.int64 if is_integral(self.dtype) else self.dtype
    if dtype is not None:
        result = dtype
    if result == dt.bool_:
        raise NotImplementedError(f"[{name}] not implemented for 'bool'")
    return result


@native("cumsum(Tensor self, int dim, *, dtype? dtype=None) -> Tensor", variants="function, method, inplace, out")
def cumsum(self, dim, dtype):
    """Sums up to and including each element of dim."""
    wrap_dim(dim, self.ndim)
    return Out(self.shape, accumulated_dtype(self, dtype, "cumsum"))


@native("cumprod(Tensor self, int dim, *, dtype? dtype=None) -> Tensor", variants="function, method, inplace, out")
def cumprod(self, dim, dtype):
    """Products up to and including each element of dim."""
    wrap_dim(dim, self.ndim)
    return Out(self.shape, accumulated_dtype(self, dtype, "cumprod"))


@rule
def check_ordered(self: "Tensor", name: "str") -> "none":
    if self.is_complex():
        raise NotImplementedError(f"[{name}] not implemented for '{self.dtype}'")


@native("cummax(Tensor self, int dim) -> (Tensor values, Tensor indices)", variants="function, method, out")
def cummax(self, dim):
    """The largest element so far along dim and where it is: the last of equal ones. NaN wins and stays."""
    wrap_dim(dim, self.ndim)
    check_ordered(self, "cummax")
    return Out(self.shape, self.dtype), Out(self.shape, dt.int64)


@native("cummin(Tensor self, int dim) -> (Tensor values, Tensor indices)", variants="function, method, out")
def cummin(self, dim):
    """The smallest element so far along dim and where it is: the last of equal ones. NaN wins and stays."""
    wrap_dim(dim, self.ndim)
    check_ordered(self, "cummin")
    return Out(self.shape, self.dtype), Out(self.shape, dt.int64)


@native("logcumsumexp(Tensor self, int dim) -> Tensor", variants="function, method, out")
def logcumsumexp(self, dim):
    """log(sum(exp(x))) up to and including each element of dim, without overflow."""
    wrap_dim(dim, self.ndim)
    if is_integral(self.dtype):
        raise NotImplementedError(f"[logcumsumexp] not implemented for '{self.dtype}'")
    return Out(self.shape, self.dtype)
