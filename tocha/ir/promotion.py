"""Type promotion on graph values; csrc/dispatch/promotion.cpp is the native counterpart."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from tocha.ir import dtypes as dt
from tocha.ir.dtypes import DType, Kind
from tocha.ir.sym_types import SymBool, SymFloat, SymInt

_KINDS = {Kind.BOOLEAN: 0, Kind.INTEGER: 1, Kind.FLOATING: 2, Kind.COMPLEX: 3}


class Priority(IntEnum):
    """Operands with dimensions outrank 0-d tensors, which outrank Python numbers."""

    NUMBER = 0
    ZERO_DIM = 1
    DIMENSIONED = 2


def promote_types(a: DType, b: DType) -> DType:
    if a is b:
        return a
    if _KINDS[a.kind] < _KINDS[b.kind]:
        a, b = b, a
    if a.kind is not b.kind:
        return promote_types(a, dt.complex_of(b)) if a.is_complex and b.is_floating else a
    if a.is_integer and dt.uint8 in (a, b):
        other = b if a is dt.uint8 else a
        return dt.int16 if other is dt.int8 else other
    if a.is_floating and a.itemsize == b.itemsize == 2:
        return dt.float32
    return a if a.itemsize > b.itemsize else b


def can_cast(source: DType, target: DType) -> bool:
    if source.is_complex and not target.is_complex:
        return False
    if source.is_floating and not target.is_differentiable:
        return False
    return source is dt.bool_ or target is not dt.bool_


def number_dtype(value: object, default: DType = dt.float32) -> DType:
    """The dtype a Python number brings along."""
    if isinstance(value, bool | SymBool):
        return dt.bool_
    if isinstance(value, int | SymInt):
        return dt.int64
    return default if isinstance(value, float | SymFloat) else dt.complex_of(default)


def result_type(operands: Iterable[tuple[DType, Priority]]) -> DType:
    """The common dtype of operands given as (dtype, priority)."""
    best: dict[Priority, DType] = {}
    for dtype, priority in operands:
        best[priority] = promote_types(best[priority], dtype) if priority in best else dtype
    result: DType | None = None
    for priority in sorted(best):
        higher = best[priority]
        lower = result
        if lower is None or _KINDS[lower.kind] <= _KINDS[higher.kind]:
            result = higher
        elif higher.is_floating and lower.is_complex:
            result = dt.complex_of(higher)
        else:
            result = promote_types(higher, lower)
    assert result is not None, "no operands"
    return result
