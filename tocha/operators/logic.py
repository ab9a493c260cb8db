"""Logic on truth values and on bits, element by element."""

from __future__ import annotations

from functools import partial

from tocha.ir import dtypes as dt
from tocha.ir import scalar as s
from tocha.operators.record import BINARY, BOOL, COMPLEX, INTS, REAL, UNSIGNED, pointwise

# Truth: any number but 0 is true

# In place PyTorch leaves the history of self as it is.
truth = partial(
    pointwise,
    dtypes=(*REAL, *COMPLEX),
    types={"out": (dt.bool_,)},
    variants=BINARY,
    tags=frozenset({"no_gradient"}),
)


@truth("logical_and(Tensor self, Tensor other) -> Tensor", core=True)
def logical_and(x, y):
    """Whether both are true."""
    return s.logical_and(x, y)


@truth("logical_or(Tensor self, Tensor other) -> Tensor", core=True)
def logical_or(x, y):
    """Whether either is true."""
    return s.logical_or(x, y)


@truth("logical_xor(Tensor self, Tensor other) -> Tensor", core=True)
def logical_xor(x, y):
    """Whether exactly one is true."""
    return s.logical_xor(x, y)


@truth("logical_not(Tensor self) -> Tensor", core=True)
def logical_not(x):
    """Whether an element is 0."""
    return s.logical_not(x)


# Bits; on bool these are the logical operations

bitwise = partial(pointwise, dtypes=(*BOOL, *INTS, *UNSIGNED), variants=BINARY)


@bitwise(
    "bitwise_and(Operand self, Operand other) -> Tensor",
    operator="__and__",
    aten=("bitwise_and.Tensor", "bitwise_and.Scalar", "bitwise_and.Scalar_Tensor(Scalar self, Tensor other) -> Tensor"),
    core=True,
)
def bitwise_and(x, y):
    """The bits set in both."""
    return x & y


@bitwise(
    "bitwise_or(Operand self, Operand other) -> Tensor",
    operator="__or__",
    aten=("bitwise_or.Tensor", "bitwise_or.Scalar", "bitwise_or.Scalar_Tensor(Scalar self, Tensor other) -> Tensor"),
    core=True,
)
def bitwise_or(x, y):
    """The bits set in either."""
    return x | y


@bitwise(
    "bitwise_xor(Operand self, Operand other) -> Tensor",
    operator="__xor__",
    aten=("bitwise_xor.Tensor", "bitwise_xor.Scalar", "bitwise_xor.Scalar_Tensor(Scalar self, Tensor other) -> Tensor"),
    core=True,
)
def bitwise_xor(x, y):
    """The bits set in exactly one."""
    return x ^ y


@bitwise(
    "bitwise_not(Tensor self) -> Tensor",
    dtypes=(*BOOL, *INTS),
    operator="__invert__",
    core=True,
    types={"out_words": "Found dtype {out} but expected {result}"},
)
def bitwise_not(x):
    """Every bit the other way."""
    return ~x


@bitwise(
    "bitwise_left_shift(Operand self, Operand other) -> Tensor",
    dtypes=INTS,
    operator="__lshift__",
    aten=(
        "bitwise_left_shift.Tensor",
        "bitwise_left_shift.Tensor_Scalar",
        "bitwise_left_shift.Scalar_Tensor(Scalar self, Tensor other) -> Tensor",
    ),
    word="lshift_cpu",
)
def bitwise_left_shift(x, y):
    """self's bits moved up by other places; 0 when that is too far."""
    return x << y


@bitwise(
    "bitwise_right_shift(Operand self, Operand other) -> Tensor",
    dtypes=INTS,
    operator="__rshift__",
    aten=(
        "bitwise_right_shift.Tensor",
        "bitwise_right_shift.Tensor_Scalar",
        "bitwise_right_shift.Scalar_Tensor(Scalar self, Tensor other) -> Tensor",
    ),
    word="rshift_cpu",
)
def bitwise_right_shift(x, y):
    """self's bits moved down by other places; the sign remains."""
    return x >> y
