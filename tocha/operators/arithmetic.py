"""Addition, multiplication and their relatives, element by element."""

from __future__ import annotations

from tocha.ir.dtypes import bool_
from tocha.ir.scalar import *  # noqa: F403
from tocha.operators.record import ALL, BOOL, COMPLEX, FLOATS, INT_TO_FLOAT, INTS, NUMERIC, UNSIGNED, pointwise

_EVERYWHERE = "function, method, inplace, out"


def _no_float_alpha(self, other, alpha):
    pass


@pointwise("add(Tensor self, Operand other, *, Scalar alpha=1) -> Tensor", dtypes=ALL, variants=_EVERYWHERE, operator="__add__", tags=frozenset({"direct_half"}))
def add(x, y, alpha):
    """self + alpha * other, with broadcasting and type promotion."""
    if x.dtype is bool_:
        return x | (y & alpha)
    return x + alpha * y


@pointwise("sub(Tensor self, Operand other, *, Scalar alpha=1) -> Tensor", dtypes=(*INTS, *UNSIGNED, *FLOATS, *COMPLEX), variants=_EVERYWHERE, operator="__sub__", aliases=("subtract",), tags=frozenset({"direct_half"}))
def sub(x, y, alpha):
    """self - alpha * other."""
    return x - alpha * y


@pointwise("mul(Tensor self, Operand other) -> Tensor", dtypes=ALL, variants=_EVERYWHERE, operator="__mul__", aliases=("multiply",), tags=frozenset({"direct_half"}))
def mul(x, y):
    """self * other."""
    if x.dtype is bool_:
        return x & y
    return x * y


@pointwise("div(Tensor self, Operand other) -> Tensor", dtypes=(*FLOATS, *COMPLEX), promote=INT_TO_FLOAT, variants=_EVERYWHERE, operator="__truediv__", aliases=("divide", "true_divide"), tags=frozenset({"direct_half"}))
def div(x, y):
    """self / other; integers divide to floats."""
    return x / y


@pointwise("neg(Tensor self) -> Tensor", dtypes=(*NUMERIC, *COMPLEX), variants=_EVERYWHERE, operator="__neg__", aliases=("negative",))
def neg(x):
    """-self."""
    return -x


@pointwise("exp(Tensor self) -> Tensor", dtypes=(*FLOATS, *COMPLEX), promote=INT_TO_FLOAT, variants=_EVERYWHERE, expensive=True)
def exp_(x):
    """e to the power of self."""
    return exp(x)


@pointwise("eq(Tensor self, Operand other) -> Tensor", dtypes=ALL, types={"out": (bool_,)}, variants=_EVERYWHERE, operator="__eq__")
def eq(x, y):
    """Whether self == other."""
    return x == y


@pointwise("where.tensors(Tensor condition, Operand self, Operand other) -> Tensor", dtypes=ALL, types={"in": (bool_, "T", "T")}, variants="function")
def where_(c, x, y):
    """self where the condition holds, else other."""
    return where(c, x, y)


__all__ = ["BOOL"]
