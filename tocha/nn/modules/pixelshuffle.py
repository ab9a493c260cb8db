"""Layers that trade channels for resolution."""

from __future__ import annotations

from tocha import _C
from tocha.nn import functional as F
from tocha.nn.modules.module import Module
from tocha.nn.modules.utils import _arguments

Tensor = _C.Tensor

__all__ = ["PixelShuffle", "PixelUnshuffle"]


class PixelShuffle(Module):
    """(*, C r^2, H, W) to (*, C, H r, W r).

    >>> tocha.nn.PixelShuffle(2)(tocha.arange(4.0).view(1, 4, 1, 1))
    tensor([[[[0., 1.],
              [2., 3.]]]])
    """

    upscale_factor: int

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Tensor) -> Tensor:
        """The enlarged input."""
        return F.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        return _arguments(self, "upscale_factor")


class PixelUnshuffle(Module):
    """(*, C, H r, W r) to (*, C r^2, H, W).

    >>> tocha.nn.PixelUnshuffle(2)(tocha.ones(1, 1, 4, 4)).shape
    tocha.Size([1, 4, 2, 2])
    """

    downscale_factor: int

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        """The reduced input."""
        return F.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        return _arguments(self, "downscale_factor")
