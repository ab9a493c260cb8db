"""Exponentials and logarithms, element by element."""

from __future__ import annotations

import math
from functools import partial

from tocha.ir import scalar as s
from tocha.operators.record import (
    COMPLEX,
    FLOATS,
    INT_TO_FLOAT,
    UNARY,
    composite,
    gradient,
    op,
    pointwise,
    reduced_floats,
)

elementary = partial(pointwise, dtypes=(*FLOATS, *COMPLEX), promote=INT_TO_FLOAT, variants=UNARY, expensive=True)


@elementary("exp(Tensor self) -> Tensor", core=True, word="exp_vml_cpu")
def exp(x):
    """e to the power of self."""
    return s.exp(x)


@elementary("exp2(Tensor self) -> Tensor", aliases=("special.exp2",), word="exp2")
def exp2(x):
    """2 to the power of self."""
    return s.exp2(x)


@elementary("expm1(Tensor self) -> Tensor", aliases=("special.expm1",), core=True, word="expm1_vml_cpu")
def expm1(x):
    """exp(self) - 1, accurate near 0."""
    return s.expm1(x)


@elementary("log(Tensor self) -> Tensor", core=True, word="log_vml_cpu")
def log(x):
    """The natural logarithm."""
    return s.log(x)


@elementary("log2(Tensor self) -> Tensor", core=True, word="log2_vml_cpu")
def log2(x):
    """The logarithm to base 2."""
    return s.log2(x)


@elementary("log10(Tensor self) -> Tensor", core=True, word="log10_vml_cpu")
def log10(x):
    """The logarithm to base 10."""
    return s.log10(x)


@elementary("log1p(Tensor self) -> Tensor", aliases=("special.log1p",), core=True, word="log1p_vml_cpu")
def log1p(x):
    """log(1 + self), accurate near 0."""
    return s.log1p(x)


@elementary(
    "sigmoid(Tensor self) -> Tensor",
    aliases=("special.expit",),
    types={"refused": reduced_floats("sigmoid_cpu")},
    core=True,
)
def sigmoid(x):
    """1 / (1 + exp(-self))."""
    return s.sigmoid(x)


@pointwise("sigmoid_backward(Tensor grad_output, Tensor output) -> Tensor", dtypes=(*FLOATS, *COMPLEX), variants="")
def sigmoid_backward(grad, y):
    """The gradient of sigmoid from its result."""
    return grad * s.conjugate((1 - y) * y)


@gradient(sigmoid_backward, "output")
def sigmoid_backward_gradient(grad, grad_output, output):
    return s.conjugate(grad) * grad_output * s.conjugate(1 - 2 * output)  # each once: what is infinite would become NaN


STORED = frozenset({"stored"})  # the formula sees half types as they are


@elementary("_logit(Tensor self, float eps) -> Tensor", dtypes=FLOATS, variants="function", tags=STORED)
def logit_within(x, eps):
    """logit with self kept within [eps, 1 - eps]; a negative eps lets everything pass. Of half types the difference and
    the quotient are rounded."""
    dtype = x.dtype
    x, top = s.compute(x), 1 - eps
    z = s.where(eps < 0, x, s.where(x < eps, eps, s.where(x > top, top, x)))
    rest = s.compute(s.cast(1 - z, dtype))
    return s.log(s.compute(s.cast(z / rest, dtype)))


@gradient(logit_within, "self")
def logit_gradient(grad, self, eps):
    """NaN outside of (0, 1), or 0 outside of what eps leaves. Infinite at -0.0 as it is at 0."""
    low = s.where(eps < 0, s.zero_like(eps), eps)
    inside = (self >= low) & (self <= 1 - low)
    outside = s.where(eps < 0, s.constant(float("nan"), eps.dtype), s.zero_like(eps))
    return s.where(inside, grad / s.abs(self * (1 - self)), outside)


@composite(
    "logit(Tensor self, float? eps=None) -> Tensor",
    variants=UNARY,
    aliases=("special.logit",),
    tags=frozenset({"pointwise"}),
    whole=True,
)
def logit(self, eps):
    """log(self / (1 - self)), with self kept within [eps, 1 - eps] if eps is given."""
    return op._logit(self, -1.0 if eps is None else eps)


# Of two numbers


def log_sum(x, y, exp, log1p):
    """log(exp(x) + exp(y)) around the greater one, which must not overflow."""
    greater = s.maximum(x, y)
    apart = exp(-s.abs(x - y))
    # Equal infinities differ by NaN.
    return s.where((x == y) & s.isinf(x), x, greater + log1p(apart))


def complex_log_sum(x, y):
    first = s.real(x) >= s.real(y)
    greater, smaller = s.where(first, x, y), s.where(first, y, x)
    sum = greater + s.log1p(s.exp(smaller - greater))
    # The greater one decides alone where it is infinite, or the other is minus infinity.
    alone = s.isinf(s.real(greater)) | (s.real(smaller) == float("-inf"))
    return s.where(alone & ~s.isnan(smaller), greater, sum)


@pointwise(
    "logaddexp(Tensor self, Tensor other) -> Tensor",
    dtypes=(*FLOATS, *COMPLEX),
    variants="function, method, out",
    expensive=True,
)
def logaddexp(x, y):
    """log(exp(self) + exp(other))."""
    return complex_log_sum(x, y) if x.dtype.is_complex else log_sum(x, y, s.exp, s.log1p)


# The share of one operand in the sum, smooth where they tie.


@gradient(logaddexp, "self")
def logaddexp_gradient(grad, self, other):
    return grad / s.conjugate(s.exp(other - self) + 1)


@gradient(logaddexp, "other")
def logaddexp_other_gradient(grad, self, other):
    return grad / s.conjugate(s.exp(self - other) + 1)


@pointwise(
    "logaddexp2(Tensor self, Tensor other) -> Tensor", dtypes=FLOATS, variants="function, method, out", expensive=True
)
def logaddexp2(x, y):
    """log2(2**self + 2**other)."""
    return log_sum(x, y, s.exp2, lambda z: s.log1p(z) * (1 / math.log(2)))


@gradient(logaddexp2, "self")
def logaddexp2_gradient(grad, self, other):
    return grad / (1 + s.exp2(other - self))


@gradient(logaddexp2, "other")
def logaddexp2_other_gradient(grad, self, other):
    return grad / (1 + s.exp2(self - other))


product = partial(pointwise, dtypes=FLOATS, promote=INT_TO_FLOAT, expensive=True)


def product_with(x, y, logarithm):
    """x * logarithm(y), which is 0 for x = 0 whatever y is, but for NaN. Of half types the logarithm is rounded."""
    dtype = x.dtype
    x, y = s.compute(x), s.compute(y)
    factor = s.compute(s.cast(logarithm(y), dtype))
    return s.where(s.isnan(y), y, s.where(x == 0, s.zero_like(x), x * factor))


@product(
    "xlogy(Operand self, Operand other) -> Tensor",
    node="XlogyBackward0|self=XlogyBackward1|other=XlogyBackward2",
    variants=UNARY,
    aliases=("special.xlogy",),
    tags=STORED,
    aten=(
        "xlogy.Tensor",
        "xlogy.Scalar_Other",
        "xlogy.Scalar_Self(Scalar self, Tensor other) -> Tensor",
        "xlogy.OutTensor(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)",
        "xlogy.OutScalar_Other(Tensor self, Scalar other, *, Tensor(a!) out) -> Tensor(a!)",
        "xlogy.OutScalar_Self(Scalar self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)",
        "special_xlogy",
        "special_xlogy.other_scalar",
        "special_xlogy.self_scalar(Scalar self, Tensor other) -> Tensor",
    ),
)
def xlogy(x, y):
    """self * log(other), and 0 where self is 0."""
    return product_with(x, y, s.log)


@gradient(xlogy, "self")
def xlogy_gradient(grad, self, other):
    return s.where((self == 0) & (other <= 0), s.zero_like(grad), product_with(grad, other, s.log))


@gradient(xlogy, "other")
def xlogy_other_gradient(grad, self, other):
    return grad * self / other


@product(
    "special_xlog1py(Operand self, Operand other) -> Tensor",
    variants="function, out",
    tags=STORED,
    aten=(
        "special_xlog1py",
        "special_xlog1py.other_scalar",
        "special_xlog1py.self_scalar(Scalar self, Tensor other) -> Tensor",
    ),
)
def xlog1py(x, y):
    """self * log1p(other), and 0 where self is 0."""
    return product_with(x, y, s.log1p)


@gradient(xlog1py, "self")
def xlog1py_gradient(grad, self, other):
    return s.where((self == 0) & (other <= -1), s.zero_like(grad), product_with(grad, other, s.log1p))


@gradient(xlog1py, "other")
def xlog1py_other_gradient(grad, self, other):
    return grad * self / (other + 1)


@product("special_entr(Tensor self) -> Tensor", variants="function, out")
def entr(x):
    """-self * log(self); 0 at 0, minus infinity for negative numbers."""
    return s.where(x > 0, -x * s.log(x), s.where(x == 0, s.zero_like(x), s.where(s.isnan(x), x, float("-inf"))))


@gradient(entr, "self")
def entr_gradient(grad, self):
    return grad * (-s.log(self) - 1)
