"""Which numbers a dtype can hold, and what is said of those that it cannot: the Python side of Scalar::store (csrc/core/scalar.h)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tocha.ir import dtypes as dt
from tocha.ir.dtypes import DType

_C_NAMES = {**{f"{sign}int{n}": f"{sign}int{n}_t" for sign in ("", "u") for n in (8, 16, 32, 64)}, "int32": "int"}


def c_name(d: DType) -> str:
    """The C++ type that PyTorch names where a value does not fit."""
    if d.name in _C_NAMES or d.name in ("bool", "float32", "float64"):
        return _C_NAMES.get(d.name) or d.cpp
    return f"c10::{d.cpp[0].lower() + d.cpp[1:] if d.is_complex else d.cpp}"


def holds(d: DType, value: Any) -> bool:
    """Whether a number can be an element. Infinity is a value of floats that have one; NaN is one of every float."""
    if not isinstance(value, int | float | complex) or d is dt.bool_:  # symbols are not known
        return True
    if d.is_complex:
        if d is dt.complex32:  # what is too large becomes infinite
            return True
        parts = (value.real, value.imag) if isinstance(value, complex) else (value,)
        return all(_holds_real(dt.real_of(d), v) for v in parts)
    if isinstance(value, complex):
        if value.imag != 0:
            return False
        value = value.real
    return _holds_real(d, value)


def _holds_real(d: DType, value: float | int) -> bool:
    if d.is_integer:
        low, high = d.smallest_integer, d.largest_integer
        if isinstance(value, float):
            return low <= value <= float(high)
        # A negative integer wraps into an unsigned dtype that has room for its magnitude.
        return (low if d.is_signed else -high) <= value <= high
    assert d.format is not None
    if isinstance(value, float) and not math.isfinite(value):
        return d.format.has_infinity or value != value
    if isinstance(d.format, dt.PowersOfTwo):
        return 2.0**d.format.min_exponent <= value <= d.format.largest
    return abs(value) <= d.format.largest


def check_fill(sizes: Sequence[Any], d: DType, value: Any) -> None:
    """Refuses a number that a tensor cannot be filled with: one element rounds what is beyond a half type to infinity."""
    check_held(d, value, rounds=all(isinstance(n, int) and n == 1 for n in sizes))


def check_held(d: DType, value: Any, rounds: bool = False) -> None:
    """Refuses a number that d cannot hold. `rounds`: beyond the range of a half type it is infinity, and no error."""
    if rounds and d.is_reduced and not d.is_complex:
        d = dt.float64
    if not holds(d, value):
        raise RuntimeError(f"value cannot be converted to type {c_name(d)} without overflow: got {value}")
