"""Circular and hyperbolic functions and their inverses, element by element. Angles are in radians."""

from __future__ import annotations

import math
from functools import partial

from tocha.ir import scalar as s
from tocha.operators.record import BINARY, COMPLEX, FLOATS, INT_TO_FLOAT, UNARY, gradient, pointwise, reduced_floats

elementary = partial(pointwise, dtypes=(*FLOATS, *COMPLEX), promote=INT_TO_FLOAT, variants=UNARY, expensive=True)


@elementary("sin(Tensor self) -> Tensor", core=True, word="sin_vml_cpu")
def sin(x):
    """The sine."""
    return s.sin(x)


@elementary("cos(Tensor self) -> Tensor", core=True, word="cos_vml_cpu")
def cos(x):
    """The cosine."""
    return s.cos(x)


@elementary("tan(Tensor self) -> Tensor", core=True, word="tan_vml_cpu")
def tan(x):
    """The tangent."""
    return s.tan(x)


@elementary("asin(Tensor self) -> Tensor", aliases=("arcsin",), core=True, word="asin_vml_cpu")
def asin(x):
    """The angle in [-pi/2, pi/2] whose sine is self."""
    return s.asin(x)


@elementary("acos(Tensor self) -> Tensor", aliases=("arccos",), core=True, word="acos_vml_cpu")
def acos(x):
    """The angle in [0, pi] whose cosine is self."""
    return s.acos(x)


@elementary("atan(Tensor self) -> Tensor", aliases=("arctan",), core=True, word="atan_vml_cpu")
def atan(x):
    """The angle in [-pi/2, pi/2] whose tangent is self."""
    return s.atan(x)


@elementary(
    "atan2(Tensor self, Tensor other) -> Tensor", dtypes=FLOATS, variants=BINARY, aliases=("arctan2",), core=True
)
def atan2(x, y):
    """The angle in [-pi, pi] of the point (other, self)."""
    return s.atan2(x, y)


@elementary("sinh(Tensor self) -> Tensor", core=True)
def sinh(x):
    """The hyperbolic sine."""
    return s.sinh(x)


@elementary("cosh(Tensor self) -> Tensor", core=True)
def cosh(x):
    """The hyperbolic cosine."""
    return s.cosh(x)


@elementary("tanh(Tensor self) -> Tensor", core=True, word="tanh_vml_cpu")
def tanh(x):
    """The hyperbolic tangent."""
    return s.tanh(x)


@pointwise("tanh_backward(Tensor grad_output, Tensor output) -> Tensor", dtypes=(*FLOATS, *COMPLEX), variants="")
def tanh_backward(grad, y):
    """The gradient of tanh from its result."""
    return grad * s.conjugate(1 - y * y)


@elementary("asinh(Tensor self) -> Tensor", aliases=("arcsinh",), core=True)
def asinh(x):
    """The number whose hyperbolic sine is self."""
    return s.asinh(x)


@elementary("acosh(Tensor self) -> Tensor", aliases=("arccosh",), domain=(1.2, 3.0), core=True)
def acosh(x):
    """The non-negative number whose hyperbolic cosine is self."""
    return s.acosh(x)


@elementary("atanh(Tensor self) -> Tensor", aliases=("arctanh",), core=True)
def atanh(x):
    """The number whose hyperbolic tangent is self."""
    return s.atanh(x)


@elementary("sinc(Tensor self) -> Tensor", aliases=("special.sinc",))
def sinc(x):
    """sin(pi * self) / (pi * self), and 1 at 0."""
    angle = x * math.pi
    return s.where(x == 0, s.constant(1, x.dtype), s.sin(angle) / angle)


@gradient(sinc, "self")
def sinc_gradient(grad, self):
    angle = self * math.pi
    square = angle * self
    slope = (s.cos(angle) * angle - s.sin(angle)) / square  # grad once: what is infinite would become NaN
    return s.where(square == 0, s.zero_like(grad), grad * s.conjugate(slope))


def angles(name):
    return {
        "refused": {COMPLEX: RuntimeError(f"{name} is not supported for complex tensors."), **reduced_floats("mul_cpu")}
    }


@elementary("deg2rad(Tensor self) -> Tensor", dtypes=FLOATS, types=angles("deg2rad"), expensive=False)
def deg2rad(x):
    """Degrees as radians."""
    return x * (math.pi / 180)


@elementary("rad2deg(Tensor self) -> Tensor", dtypes=FLOATS, types=angles("rad2deg"), expensive=False)
def rad2deg(x):
    """Radians as degrees."""
    return x * (180 / math.pi)
