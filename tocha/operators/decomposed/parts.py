"""What decompositions share. They are plain Python on facts: nothing here is translated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tocha.ir import dtypes as dt
from tocha.ir.dtypes import DType
from tocha.operators.facts import Facts
from tocha.operators.record import op


def raised(x: Facts) -> Facts:
    """x in the precision that kernels compute in: half types in float32."""
    return x.to(x.dtype.compute)


def empty(like: Facts, dtype: DType | None = None) -> Facts:
    """The result that was not asked for."""
    return op.zeros([0], dtype=dtype or like.dtype, device=like.device)


def summed(x: Facts, dims: Sequence[int], keepdim: bool = False) -> Facts:
    """The sum over dims, which may be none."""
    return op.sum(x, list(dims), keepdim) if dims else x


def counted(n: Any, like: Facts, dtype: DType = dt.int64) -> Facts:
    """0, 1, ..., n - 1."""
    return op.arange(n, dtype=dtype, device=like.device)


def nothing(like: Facts) -> Any:
    """Zero as a number that does not promote: 0 beside a bool makes both int64."""
    return False if like.dtype is dt.bool_ else 0


def along(vector: Facts, dim: int, ndim: int) -> Facts:
    """A vector as a tensor of ndim dims that lies along one of them."""
    return vector.reshape([vector.sizes[0] if d == dim else 1 for d in range(ndim)])


def wrapped(dim: int, ndim: int) -> int:
    return dim % max(ndim, 1)
