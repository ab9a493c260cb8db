"""Layers that cut images into patches and put patches together."""

from __future__ import annotations

from tocha import _C
from tocha.nn import functional as F
from tocha.nn.modules.module import Module
from tocha.nn.modules.utils import _arguments

Tensor = _C.Tensor
_Size = int | tuple[int, ...]

__all__ = ["Fold", "Unfold"]


class Fold(Module):
    """Sums patches (N, C * kernel, L) into images (N, C, *output_size).

    >>> tocha.nn.Fold((3, 3), 2)(tocha.ones(1, 4, 4))
    tensor([[[[1., 2., 1.],
              [2., 4., 2.],
              [1., 2., 1.]]]])
    """

    output_size: _Size
    kernel_size: _Size
    dilation: _Size
    padding: _Size
    stride: _Size

    def __init__(
        self, output_size: _Size, kernel_size: _Size, dilation: _Size = 1, padding: _Size = 0, stride: _Size = 1
    ) -> None:
        super().__init__()
        self.output_size = output_size
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: Tensor) -> Tensor:
        """The images."""
        return F.fold(input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        return _arguments(self, "output_size", "kernel_size", "dilation", "padding", "stride")


class Unfold(Module):
    """Cuts images (N, C, *) into patches (N, C * kernel, L).

    >>> tocha.nn.Unfold(2)(tocha.arange(9.0).view(1, 1, 3, 3))
    tensor([[[0., 1., 3., 4.],
             [1., 2., 4., 5.],
             [3., 4., 6., 7.],
             [4., 5., 7., 8.]]])
    """

    kernel_size: _Size
    dilation: _Size
    padding: _Size
    stride: _Size

    def __init__(self, kernel_size: _Size, dilation: _Size = 1, padding: _Size = 0, stride: _Size = 1) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: Tensor) -> Tensor:
        """The patches."""
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        return _arguments(self, "kernel_size", "dilation", "padding", "stride")
