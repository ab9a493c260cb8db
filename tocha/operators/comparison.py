"""Comparisons of elements and questions about them, answered with bool; and comparisons of whole tensors."""

from __future__ import annotations

from functools import partial

from tocha.ir import dtypes as dt
from tocha.ir import scalar as s
from tocha.operators.record import ALL, BINARY, COMPLEX, COMPLEX32, REAL, STORED, UNSIGNED, native, pointwise

TO_BOOL = {"out": (dt.bool_,)}
comparison = partial(pointwise, dtypes=REAL, types=TO_BOOL, variants=BINARY)


@comparison(
    "eq(Tensor self, Operand other) -> Tensor",
    node="EqBackward1|other=EqBackward0",
    dtypes=STORED,
    operator="__eq__",
    core=True,
)
def eq(x, y):
    """Whether self == other."""
    return x == y


@comparison(
    "ne(Tensor self, Operand other) -> Tensor",
    node="NeBackward1|other=NeBackward0",
    dtypes=STORED,
    operator="__ne__",
    aliases=("not_equal",),
    core=True,
)
def ne(x, y):
    """Whether self != other."""
    return x != y


@comparison(
    "lt(Tensor self, Operand other) -> Tensor",
    node="LtBackward1|other=LtBackward0",
    operator="__lt__",
    aliases=("less",),
    core=True,
)
def lt(x, y):
    """Whether self < other."""
    return x < y


@comparison(
    "le(Tensor self, Operand other) -> Tensor",
    node="LeBackward1|other=LeBackward0",
    operator="__le__",
    aliases=("less_equal",),
    core=True,
)
def le(x, y):
    """Whether self <= other."""
    return x <= y


@comparison(
    "gt(Tensor self, Operand other) -> Tensor",
    node="GtBackward1|other=GtBackward0",
    operator="__gt__",
    aliases=("greater",),
    core=True,
)
def gt(x, y):
    """Whether self > other."""
    return x > y


@comparison(
    "ge(Tensor self, Operand other) -> Tensor",
    node="GeBackward1|other=GeBackward0",
    operator="__ge__",
    aliases=("greater_equal",),
    core=True,
)
def ge(x, y):
    """Whether self >= other."""
    return x >= y


# Kinds of numbers

question = partial(pointwise, dtypes=ALL, types=TO_BOOL, variants="function, method")
REAL_NUMBERS = (*REAL, *UNSIGNED)
INTEGRAL = tuple(d for d in ALL if not d.is_differentiable)


def never():
    return s.constant(False, dt.bool_)


@question("isnan(Tensor self) -> Tensor", dtypes=STORED, core=True)
def isnan(x):
    """Whether an element is NaN."""
    return s.isnan(x) if x.dtype.is_differentiable else never()


@question(
    "isinf(Tensor self) -> Tensor",
    dtypes=(*ALL, *COMPLEX32, dt.float8_e5m2),
    types={**TO_BOOL, "like_self": INTEGRAL},
    core=True,
    word="isinf",
)
def isinf(x):
    """Whether an element is infinite, or a part of it is."""
    return s.isinf(x) if x.dtype.is_differentiable else never()


@question(
    "isfinite(Tensor self) -> Tensor",
    dtypes=(*ALL, *COMPLEX32, dt.float8_e5m2, dt.float8_e8m0fnu),
    types={**TO_BOOL, "like_self": INTEGRAL},
    word="isfinite",
)
def isfinite(x):
    """Whether an element is neither infinite nor NaN."""
    return s.isfinite(x) if x.dtype.is_differentiable else ~never()


@question(
    "isposinf(Tensor self) -> Tensor",
    dtypes=REAL_NUMBERS,
    types={
        "out_words": "isposinf does not support non-boolean outputs: {out}",
        **TO_BOOL,
        "refused": {COMPLEX: RuntimeError("isposinf does not support complex inputs.")},
    },
    variants="function, method, out",
)
def isposinf(x):
    """Whether an element is plus infinity."""
    return x == float("inf") if x.dtype.is_floating else never()


@question(
    "isneginf(Tensor self) -> Tensor",
    dtypes=REAL_NUMBERS,
    types={
        "out_words": "isneginf does not support non-boolean outputs: {out}",
        **TO_BOOL,
        "refused": {COMPLEX: RuntimeError("isneginf does not support complex inputs.")},
    },
    variants="function, method, out",
)
def isneginf(x):
    """Whether an element is minus infinity."""
    return x == float("-inf") if x.dtype.is_floating else never()


@question("isreal(Tensor self) -> Tensor", dtypes=STORED, types={**TO_BOOL, "like_self": REAL})
def isreal(x):
    """Whether an element has no imaginary part."""
    return s.imag(x) == 0 if x.dtype.is_complex else ~never()


@question(
    "signbit(Tensor self) -> Tensor",
    dtypes=REAL_NUMBERS,
    types={
        "out_words": "signbit does not support non-boolean outputs: {out}",
        **TO_BOOL,
        "refused": {COMPLEX: NotImplementedError("signbit is not implemented for complex tensors.")},
    },
    variants="function, method, out",
)
def signbit(x):
    """Whether an element's sign bit is set; -0.0 has it too."""
    return never() if x.dtype is dt.bool_ else s.signbit(x)


# Closeness


def check_isclose(self, other, rtol, atol):
    if self.dtype != other.dtype:
        raise RuntimeError(f"[isclose] {self.dtype} did not match {other.dtype}")
    if not rtol >= 0:
        raise RuntimeError(f"[isclose] rtol must be greater than or equal to zero, but got {rtol}")
    if not atol >= 0:
        raise RuntimeError(f"[isclose] atol must be greater than or equal to zero, but got {atol}")


def tolerance_dtype(t):
    """Integers are compared as floats."""
    return s.real_of(t) if t.is_differentiable else dt.float32


@pointwise(
    "isclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) -> Tensor",
    dtypes=(*REAL, *UNSIGNED, *COMPLEX, *COMPLEX32),
    types={"out": (dt.bool_,), "params": (dt.float64, dt.float64, dt.bool_), "check": check_isclose},
)
def isclose(x, y, rtol, atol, equal_nan):
    """Whether abs(self - other) <= atol + rtol * abs(other)."""
    if x.dtype is dt.bool_:
        x, y = s.cast(x, dt.uint8), s.cast(y, dt.uint8)
    t = tolerance_dtype(x.dtype)
    # Integers subtract toward a non-negative result: unsigned ones would wrap.
    difference = s.abs(x - y) if x.dtype.is_differentiable else s.maximum(x, y) - s.minimum(x, y)
    error = s.cast(difference, t)
    size = s.cast(s.abs(y), t)
    close = (x == y) | (s.isfinite(error) & (error <= s.cast(atol, t) + s.cast(rtol, t) * size))
    if x.dtype.is_differentiable:
        close = close | (equal_nan & s.isnan(x) & s.isnan(y))
    return close


@native(
    "allclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) -> bool",
    algorithm="answer",
    tags=frozenset({"data_dependent_output"}),
)
def allclose(self, other, rtol, atol, equal_nan):
    """Whether isclose holds everywhere."""


@native("equal(Tensor self, Tensor other) -> bool", algorithm="answer", tags=frozenset({"data_dependent_output"}))
def equal(self, other):
    """Whether two tensors have the same shape and equal elements."""
