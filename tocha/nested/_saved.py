"""How nested tensors of strided layout are pickled: as PyTorch does it, by a function that files name (tocha._utils)."""

from __future__ import annotations

import itertools
import math
from typing import Any

from tocha import _C
from tocha._utils import _rebuild_nested_tensor
from tocha.nested._strided import StridedNestedTensor


def _reduce_ex(self: StridedNestedTensor, protocol: Any) -> tuple:
    """The elements, and of each component its size, its strides and where it begins."""
    sizes = self._component_sizes
    dims = len(sizes[0]) if sizes else 0
    strides = [[math.prod(one[d + 1 :]) for d in range(dims)] for one in sizes]
    ends = itertools.accumulate((math.prod(one) for one in sizes), initial=0)
    tables = [_C.tensor(t, dtype=_C.int64).reshape(len(sizes), dims) for t in (sizes, strides)]
    return _rebuild_nested_tensor, (self._buffer, *tables, _C.tensor(list(ends)[: len(sizes)], dtype=_C.int64))


StridedNestedTensor.__reduce_ex__ = _reduce_ex  # type: ignore[assignment, method-assign]
