"""Products of float8 matrices with scales, and the names of the ways of scaling."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, NoReturn, TypeVar

from tocha import _C

Tensor = _C.Tensor
T = TypeVar("T")

__all__ = ["ScalingType", "SwizzleType", "scaled_grouped_mm", "scaled_mm"]


class ScalingType(enum.IntEnum):
    """What one scale belongs to: a whole matrix, a row, or a block of so many rows and columns.

    >>> tocha.nn.functional.ScalingType.TensorWise.name
    'TensorWise'
    """

    TensorWise = 0
    RowWise = 1
    BlockWise1x16 = 2
    BlockWise1x32 = 3
    BlockWise1x128 = 4
    BlockWise128x128 = 5


class SwizzleType(enum.IntEnum):
    """The order in which scales lie in memory.

    >>> tocha.nn.functional.SwizzleType.NO_SWIZZLE.name
    'NO_SWIZZLE'
    """

    NO_SWIZZLE = 0
    SWIZZLE_32_4_4 = 1


def _listed(given: T | Sequence[T] | None) -> list[T]:
    if given is None:
        return []
    return list(given) if isinstance(given, list | tuple) else [given]  # type: ignore[list-item]


def _numbers(given: Any) -> list[int]:
    return [int(g) for g in _listed(given)]


def scaled_mm(
    mat_a: Tensor,
    mat_b: Tensor,
    scale_a: Tensor | list[Tensor],
    scale_recipe_a: ScalingType | list[ScalingType],
    scale_b: Tensor | list[Tensor],
    scale_recipe_b: ScalingType | list[ScalingType],
    swizzle_a: SwizzleType | list[SwizzleType] | None = None,
    swizzle_b: SwizzleType | list[SwizzleType] | None = None,
    bias: Tensor | None = None,
    output_dtype: _C.dtype | None = _C.bfloat16,
    contraction_dim: list[int] | tuple[int, ...] = (),
    use_fast_accum: bool = False,
) -> Tensor:
    """(mat_a * scale_a) @ (mat_b * scale_b) + bias of float8 matrices; the recipes say what each scale belongs to.

    >>> import tocha
    >>> a = tocha.ones(2, 2).to(tocha.float8_e4m3fn)
    >>> half = tocha.tensor(0.5)
    >>> scaled_mm(a, a, half, ScalingType.TensorWise, half, ScalingType.TensorWise)
    tensor([[0.5000, 0.5000],
            [0.5000, 0.5000]], dtype=tocha.bfloat16)
    """
    return _C._scaled_mm_v2(
        mat_a,
        mat_b,
        _listed(scale_a),
        _numbers(scale_recipe_a),
        _numbers(swizzle_a),
        _listed(scale_b),
        _numbers(scale_recipe_b),
        _numbers(swizzle_b),
        bias,
        output_dtype,
        list(contraction_dim),
        use_fast_accum,
    )


def scaled_grouped_mm(
    mat_a: Tensor,
    mat_b: Tensor,
    scale_a: Any,
    scale_recipe_a: Any,
    scale_b: Any,
    scale_recipe_b: Any,
    swizzle_a: Any = None,
    swizzle_b: Any = None,
    bias: Tensor | None = None,
    offs: Tensor | None = None,
    output_dtype: _C.dtype | None = _C.bfloat16,
    contraction_dim: list[int] | tuple[int, ...] = (),
    use_fast_accum: bool = False,
) -> NoReturn:
    """Scaled products in groups: no CPU has them."""
    raise NotImplementedError(
        "Could not run 'aten::_scaled_grouped_mm_v2' with arguments from the 'CPU' backend: it needs an accelerator"
    )
