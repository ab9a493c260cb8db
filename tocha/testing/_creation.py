"""make_tensor: random values of any dtype within bounds, the same as PyTorch's for the same seed."""

from __future__ import annotations

import math
import warnings
from typing import Any

from tocha import _C
from tocha._core.library_name import spoken
from tocha._core.type_info import finfo, iinfo

__all__ = ["make_tensor"]

Tensor = _C.Tensor


def make_tensor(
    *shape: int | list[int] | tuple[int, ...],
    dtype: _C.dtype,
    device: str | _C.device,
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: _C.memory_format | None = None,
) -> Tensor:
    """A tensor of values drawn evenly from [low, high).

    Unless told otherwise from [-9, 9) for floats, [-9, 10) for signed and [0, 10) for unsigned integers, both booleans.
    Bounds beyond the dtype's range are moved to its ends. exclude_zero replaces zeros by the smallest positive value.

    >>> import tocha
    >>> _ = tocha.manual_seed(0)
    >>> tocha.testing.make_tensor(3, dtype=tocha.int64, device="cpu")
    tensor([ 6, -5, -9])
    """
    sizes = _sizes(shape)
    if requires_grad and not (dtype.is_floating_point or dtype.is_complex):
        raise ValueError(f"`requires_grad=True` is not supported for boolean and integral dtypes, but got {dtype=!s}")
    if noncontiguous and memory_format is not None:
        raise ValueError(
            "The parameters `noncontiguous` and `memory_format` are mutually exclusive, "
            f"but got {noncontiguous=} and {memory_format=}"
        )
    spread = noncontiguous and math.prod(sizes) > 1
    drawn = _draw((*sizes[:-1], 2 * sizes[-1]) if spread else sizes, dtype, device, low, high)
    if spread:
        drawn = drawn[..., 1::2]
    elif memory_format is not None:
        drawn = drawn.clone(memory_format=memory_format)
    if exclude_zero:
        drawn[drawn == 0] = _least_positive(dtype)
    return drawn.requires_grad_(requires_grad) if requires_grad else drawn


def _sizes(shape: tuple) -> tuple[int, ...]:
    return tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], list | tuple) else shape


def _draw(sizes: tuple[int, ...], dtype: _C.dtype, device: Any, low: Any, high: Any) -> Tensor:
    if dtype.is_floating_point or dtype.is_complex:
        return _draw_floats(sizes, dtype, device, *_float_bounds(dtype, low, high))
    return _C.randint(*_integer_bounds(dtype, low, high), sizes, dtype=_drawable(dtype), device=device).to(dtype)


def _drawable(dtype: _C.dtype) -> _C.dtype:
    """Integers as PyTorch draws them; wide unsigned ones have no draw of their own."""
    return _C.int64 if dtype in (_C.uint16, _C.uint32, _C.uint64) else dtype


def _draw_floats(sizes: tuple[int, ...], dtype: _C.dtype, device: Any, low: float, high: float) -> Tensor:
    if dtype == _C.float8_e8m0fnu:
        raise TypeError(f"The requested dtype '{dtype}' is not supported by {spoken()}.testing.make_tensor()")
    narrow = dtype.is_floating_point and dtype.itemsize == 1
    drawn = _C.empty(sizes, dtype=_C.float32 if narrow else dtype, device=device)
    (_C.view_as_real(drawn) if dtype.is_complex else drawn).uniform_(low, high)
    return drawn.to(dtype)


def _float_bounds(dtype: _C.dtype, low: Any, high: Any) -> tuple[float, float]:
    low, high = _ordered_bounds(low, high, -9, 9, allow_equal=True)
    if low == high:
        warnings.warn(
            "Passing `low==high` to `tocha.testing.make_tensor` for floating or complex types is deprecated. "
            "Use `tocha.full(...)` instead.",
            FutureWarning,
            stacklevel=5,
        )
    limits = finfo(dtype)
    return max(low, limits.min), min(high, limits.max)


def _integer_bounds(dtype: _C.dtype, low: Any, high: Any) -> tuple[int, int]:
    if dtype is _C.bool:
        first, last, ends = 0, 1, (0, 2)
    else:
        limits = iinfo(dtype)
        first, last, ends = limits.min, limits.max, (-9 if dtype.is_signed else 0, 10)
    low, high = _ordered_bounds(low, high, *ends, allow_equal=False)
    return max(math.ceil(max(low, first)), first), math.ceil(min(high, last + 1))


def _ordered_bounds(low: Any, high: Any, lowest: float, highest: float, allow_equal: bool) -> tuple[Any, Any]:
    low = lowest if low is None else low
    high = highest if high is None else high
    if math.isnan(low) or math.isnan(high):
        raise ValueError(f"`low` and `high` cannot be NaN, but got {low=} and {high=}")
    if low > high or (low == high and not allow_equal):
        raise ValueError(f"`low` must be less than `high`, but got {low} >= {high}")
    return low, high


def _least_positive(dtype: _C.dtype) -> complex:
    if dtype.is_complex:
        return complex(finfo(dtype).tiny, finfo(dtype).tiny)
    return finfo(dtype).tiny if dtype.is_floating_point else 1
