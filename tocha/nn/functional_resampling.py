"""Pictures at other sizes and at the points of grids, as torch.nn.functional has them: modes by name, sizes or factors.

The operators are in tocha/operators/resampling.py.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence

from tocha import _C
from tocha.nn.functional_pooling import adaptive_avg_pool2d, adaptive_avg_pool3d

Tensor = _C.Tensor
_nn = _C._nn

__all__ = ["affine_grid", "grid_sample", "interpolate", "upsample", "upsample_bilinear", "upsample_nearest"]

_ALIGNABLE = {"linear": 3, "bilinear": 4, "bicubic": 4, "trilinear": 5}  # with the dims of their inputs
_MODES = "nearest | linear | bilinear | bicubic | trilinear | lanczos | area | nearest-exact"
_CHOSEN: dict[tuple[str, int], Callable[..., Tensor]] = {
    ("nearest", 3): _nn.upsample_nearest1d, ("nearest", 4): _nn.upsample_nearest2d, ("nearest", 5): _nn.upsample_nearest3d,
    ("nearest-exact", 3): _nn._upsample_nearest_exact1d, ("nearest-exact", 4): _nn._upsample_nearest_exact2d,
    ("nearest-exact", 5): _nn._upsample_nearest_exact3d,
}  # fmt: skip
_FILTERED: dict[tuple[str, int], Callable[..., Tensor]] = {
    ("linear", 3): _nn.upsample_linear1d, ("bilinear", 4): _nn.upsample_bilinear2d, ("trilinear", 5): _nn.upsample_trilinear3d,
    ("bicubic", 4): _nn.upsample_bicubic2d,
}  # fmt: skip
_ANTIALIASED = {
    "bilinear": _nn._upsample_bilinear2d_aa,
    "bicubic": _nn._upsample_bicubic2d_aa,
    "lanczos": _nn._upsample_lanczos2d_aa,
}
_AVERAGED = {3: _C.adaptive_avg_pool1d, 4: adaptive_avg_pool2d, 5: adaptive_avg_pool3d}


def _per_dim(value: object, dims: int, what: str, shape: Sequence[int]) -> list:
    """One number for each spatial dim."""
    if not isinstance(value, list | tuple):
        return [value] * dims
    if len(value) != dims:
        whole, given, form = (
            ("output", "output size", "(o1, o2, ...,oK)")
            if what == "size"
            else ("scale_factor", "scale_factor", "(s1, s2, ...,sK)")
        )
        raise ValueError(
            f"Input and {whole} must have the same number of spatial dimensions, but got input with spatial dimensions of "
            f"{list(shape)} and {given} of {tuple(value)}. Please provide input tensor in (N, C, d1, d2, ...,dK) format and "
            f"{given} in {form} format."
        )
    return list(value)


def _target(
    input: Tensor,
    size: int | Sequence[int] | None,
    scale_factor: float | Sequence[float] | None,
    recompute_scale_factor: bool | None,
) -> tuple[list[int], list[float] | list[None]]:
    """The spatial sizes asked for, and the factors that stand for their ratios (None: the ratios of the sizes)."""
    spatial = list(input.shape[2:])
    dims = len(spatial)
    if (size is None) == (scale_factor is None):
        known = "either" if size is None else "only one of"
        raise ValueError(f"{known} size or scale_factor should be defined")
    if size is not None:
        if recompute_scale_factor:
            raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
        sizes = _per_dim(size, dims, "size", spatial)
        if not all(hasattr(s, "__index__") for s in sizes):
            raise TypeError(
                f"expected size to be one of int or Tuple[int] or Tuple[int, int] or Tuple[int, int, int], but got size with types {[type(s) for s in sizes]}"
            )
        return sizes, [None] * dims
    factors = [float(f) for f in _per_dim(scale_factor, dims, "scale_factor", spatial)]
    sizes = [math.floor(n * f) for n, f in zip(spatial, factors, strict=True)]
    return sizes, ([None] * dims if recompute_scale_factor else factors)


def _check_mode(input: Tensor, mode: str, align_corners: bool | None, antialias: bool) -> None:
    dims = input.dim()
    if align_corners is not None and mode not in _ALIGNABLE:
        raise ValueError(f"align_corners option can only be set with the interpolating modes: {' | '.join(_ALIGNABLE)}")
    if antialias and not (mode in _ANTIALIASED and dims == 4):
        raise ValueError(
            "Anti-alias option is restricted to bilinear, bicubic, and lanczos modes and requires a 4-D tensor as input"
        )
    if mode == "lanczos" and not antialias:
        raise ValueError("Lanczos mode requires antialias=True")


def interpolate(
    input: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """(N, C, spatial...) at other spatial sizes: `size`, or scale_factor times those it has.

    Modes: nearest, nearest-exact and area for one to three spatial dims, linear for one, bilinear and bicubic for two,
    trilinear for three; with antialias also lanczos. align_corners keeps the outer places' middles where they are.

    >>> import tocha
    >>> interpolate(tocha.tensor([[[0.0, 1.0]]]), size=4, mode="linear")
    tensor([[[0.0000, 0.2500, 0.7500, 1.0000]]])
    """
    _check_mode(input, mode, align_corners, antialias)
    sizes, factors = _target(input, size, scale_factor, recompute_scale_factor)
    dims = input.dim()
    if antialias:
        return _ANTIALIASED[mode](input, sizes, bool(align_corners), *factors)
    if mode == "area" and dims in _AVERAGED:
        return _AVERAGED[dims](input, sizes)
    choose = _CHOSEN.get((mode, dims))
    if choose is not None:
        return choose(input, sizes, *factors)
    filtered = _FILTERED.get((mode, dims))
    if filtered is not None:
        return filtered(input, sizes, bool(align_corners), *factors)
    if mode in _ALIGNABLE and mode != "bicubic" and dims in (3, 4, 5):
        raise NotImplementedError(f"Got {dims}D input, but {mode} mode needs {_ALIGNABLE[mode]}D input")
    raise NotImplementedError(
        f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {dims}D) for the modes: {_MODES} (got {mode})"
    )


def _deprecated(name: str) -> None:
    warnings.warn(f"`nn.functional.{name}` is deprecated. Use `nn.functional.interpolate` instead.", stacklevel=3)


def upsample(
    input: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """interpolate under its old name.

    >>> tocha.nn.functional.upsample(tocha.tensor([[[1.0, 2.0]]]), scale_factor=2)
    tensor([[[1., 1., 2., 2.]]])
    """
    _deprecated("upsample")
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(
    input: Tensor, size: int | Sequence[int] | None = None, scale_factor: float | Sequence[float] | None = None
) -> Tensor:
    """interpolate with mode nearest.

    >>> tocha.nn.functional.upsample_nearest(tocha.tensor([[[1.0, 2.0]]]), scale_factor=2)
    tensor([[[1., 1., 2., 2.]]])
    """
    _deprecated("upsample_nearest")
    return interpolate(input, size, scale_factor, mode="nearest")


def upsample_bilinear(
    input: Tensor, size: int | Sequence[int] | None = None, scale_factor: float | Sequence[float] | None = None
) -> Tensor:
    """interpolate with mode bilinear and aligned corners.

    >>> tocha.nn.functional.upsample_bilinear(tocha.tensor([[[[0.0, 3.0]]]]), size=(1, 4))
    tensor([[[[0., 1., 2., 3.]]]])
    """
    _deprecated("upsample_bilinear")
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


# -- grids -------------------------------------------------------------------------------------------

_INTERPOLATIONS = {"bilinear": 0, "nearest": 1, "bicubic": 2}
_PADDINGS = {"zeros": 0, "border": 1, "reflection": 2}
_CHANGED = (
    "Default grid_sample and affine_grid behavior has changed to align_corners=False since 1.3.0. Please specify "
    "align_corners=True if the old behavior is desired. See the documentation of grid_sample for details."
)


def _aligned(align_corners: bool | None) -> bool:
    if align_corners is None:
        warnings.warn(_CHANGED, stacklevel=3)
    return bool(align_corners)


def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """Pictures (N, C, H, W) at the points of a grid (N, h, w, 2), or volumes at those of (N, d, h, w, 3).

    A point's first coordinate runs along the width; -1 and 1 are the picture's ends: the outer pixels' borders, or their
    middles with align_corners. Beyond them padding_mode says what there is: zeros, border or reflection.

    >>> import tocha
    >>> x = tocha.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])
    >>> grid_sample(x, tocha.zeros(1, 1, 1, 2), align_corners=False)
    tensor([[[[2.5000]]]])
    """
    if mode not in _INTERPOLATIONS:
        raise ValueError(
            f"nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: '{mode}'"
        )
    if padding_mode not in _PADDINGS:
        raise ValueError(
            f"nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or 'reflection', but got: '{padding_mode}'"
        )
    return _C.grid_sampler(input, grid, _INTERPOLATIONS[mode], _PADDINGS[padding_mode], _aligned(align_corners))


def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """The grid that grid_sample needs to read pictures of this size (N, C, ...) under affine maps theta.

    >>> import tocha
    >>> affine_grid(tocha.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]]), (1, 1, 2, 2), align_corners=True)
    tensor([[[[-1., -1.],
              [ 1., -1.]],
    <BLANKLINE>
             [[-1.,  1.],
              [ 1.,  1.]]]])
    """
    aligned = _aligned(align_corners)
    if not theta.is_floating_point():
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    dims = len(size) - 2
    if dims not in (2, 3):
        raise NotImplementedError(
            f"affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, respectively. Got size {size}."
        )
    if theta.dim() != 3 or theta.shape[-2] != dims or theta.shape[-1] != dims + 1:
        raise ValueError(
            f"Expected a batch of {dims}D affine matrices of shape Nx{dims}x{dims + 1} for size {size}. Got {theta.shape}."
        )
    if aligned and min(size[2:]) == 1:
        warnings.warn(
            "Since version 1.3.0, affine_grid behavior has changed for unit-size grids when align_corners=True. This is "
            "not an intended use case of affine_grid. See the documentation of affine_grid for details.",
            stacklevel=2,
        )
    elif min(size) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {size}")
    return _C.affine_grid_generator(theta, list(size), aligned)
