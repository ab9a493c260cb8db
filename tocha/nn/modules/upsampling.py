"""Layers that resize."""

from __future__ import annotations

from typing import Any

from tocha import _C
from tocha.nn import functional as F
from tocha.nn.modules.module import Module

Tensor = _C.Tensor

__all__ = ["Upsample", "UpsamplingBilinear2d", "UpsamplingNearest2d"]


class Upsample(Module):
    """Resizes (N, C, *) to a size, or by a factor, with interpolation of the given mode.

    >>> Upsample(scale_factor=2)
    Upsample(scale_factor=2.0, mode='nearest')
    """

    name: str
    size: int | tuple[int, ...] | None
    scale_factor: float | tuple[float, ...] | None
    mode: str
    align_corners: bool | None
    recompute_scale_factor: bool | None

    def __init__(
        self,
        size: int | tuple[int, ...] | None = None,
        scale_factor: float | tuple[float, ...] | None = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        self.name = type(self).__name__
        self.size = size
        if isinstance(scale_factor, tuple):
            self.scale_factor = tuple(float(factor) for factor in scale_factor)
        else:
            self.scale_factor = float(scale_factor) if scale_factor else None
        self.mode = mode
        self.align_corners = align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, input: Tensor) -> Tensor:
        """The resized input."""
        return F.interpolate(
            input,
            self.size,
            self.scale_factor,
            self.mode,
            self.align_corners,
            recompute_scale_factor=self.recompute_scale_factor,
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        state.setdefault("recompute_scale_factor", True)
        super().__setstate__(state)

    def extra_repr(self) -> str:
        target = f"size={self.size}" if self.scale_factor is None else f"scale_factor={self.scale_factor}"
        return f"{target}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Upsample of images in mode "nearest".

    >>> tocha.nn.UpsamplingNearest2d(scale_factor=2)(tocha.tensor([[[[1.0, 2.0]]]]))
    tensor([[[[1., 1., 2., 2.],
              [1., 1., 2., 2.]]]])
    """

    def __init__(
        self,
        size: int | tuple[int, int] | None = None,
        scale_factor: float | tuple[float, float] | None = None,
    ) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """Upsample of images in mode "bilinear", with the corners aligned.

    >>> tocha.nn.UpsamplingBilinear2d(size=(1, 4))(tocha.tensor([[[[0.0, 3.0]]]]))
    tensor([[[[0., 1., 2., 3.]]]])
    """

    def __init__(
        self,
        size: int | tuple[int, int] | None = None,
        scale_factor: float | tuple[float, float] | None = None,
    ) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)
