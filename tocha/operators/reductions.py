"""Reductions: sums, extremes, truth, over any dims."""

from __future__ import annotations

from tocha.ir.dtypes import bool_
from tocha.operators.record import ALL, COMPLEX, FLOATS, SUM_LIKE, TO_BOOL, Fold, reduction
from tocha.ir import dtypes as dt


@reduction("sum(Tensor self, int[1]? dim=None, bool keepdim=False, *, dtype? dtype=None) -> Tensor", dtypes=(dt.int64, dt.int32, dt.int16, dt.int8, dt.uint8, dt.bool_, *FLOATS, *COMPLEX), promote=SUM_LIKE)
def sum(t):
    """The sum of all elements, or over dim."""
    if t is bool_:
        return Fold(init=lambda: False, combine=lambda s, x, i: s | x, merge=lambda a, b: a | b, finish=lambda s, n: s, state_types=("T",))
    return Fold(init=lambda: 0, combine=lambda s, x, i: s + x, merge=lambda a, b: a + b, finish=lambda s, n: s, state_types=("T",))


@reduction("any(Tensor self, int[1]? dim=None, bool keepdim=False) -> Tensor", dtypes=ALL, promote=TO_BOOL)
def any(t):
    """Whether any element is true."""
    return Fold(init=lambda: False, combine=lambda s, x, i: s | (x != 0 if t is not bool_ else x), merge=lambda a, b: a | b, finish=lambda s, n: s, state_types=(bool_,), out_types=(bool_,))
