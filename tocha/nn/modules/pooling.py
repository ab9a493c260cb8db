"""Pooling layers. Each family has a base; a class adds its number of dims through the function it names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from tocha import _C
from tocha.nn import functional as F
from tocha.nn.modules.module import Module
from tocha.nn.modules.utils import _arguments, _ntuple, _single

Tensor = _C.Tensor
_Size = int | tuple[int, ...]

__all__ = [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d", "AdaptiveMaxPool2d", "AdaptiveMaxPool3d",
    "AvgPool1d", "AvgPool2d", "AvgPool3d", "FractionalMaxPool2d", "FractionalMaxPool3d", "LPPool1d", "LPPool2d", "LPPool3d",
    "MaxPool1d", "MaxPool2d", "MaxPool3d", "MaxUnpool1d", "MaxUnpool2d", "MaxUnpool3d",
]  # fmt: skip


class _MaxPoolNd(Module):
    """The greatest element of every window; return_indices also gives where it was, for MaxUnpool."""

    _function: ClassVar[str]

    def __init__(
        self,
        kernel_size: _Size,
        stride: _Size | None = None,
        padding: _Size = 0,
        dilation: _Size = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Any:
        """The pooled input, and with return_indices the positions."""
        return getattr(F, self._function)(
            input, self.kernel_size, self.stride, self.padding, self.dilation,
            ceil_mode=self.ceil_mode, return_indices=self.return_indices,
        )  # fmt: skip

    def extra_repr(self) -> str:
        return _arguments(self, "kernel_size", "stride", "padding", "dilation", "ceil_mode")


class MaxPool1d(_MaxPoolNd):
    """Max pooling of (N, C, L) or (C, L).

    >>> tocha.nn.MaxPool1d(2)(tocha.tensor([[1.0, 3.0, 2.0, 5.0]]))
    tensor([[3., 5.]])
    """

    _function = "max_pool1d"


class MaxPool2d(_MaxPoolNd):
    """Max pooling of (N, C, H, W) or (C, H, W).

    >>> MaxPool2d(2)
    MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)
    """

    _function = "max_pool2d"


class MaxPool3d(_MaxPoolNd):
    """Max pooling of (N, C, D, H, W) or (C, D, H, W).

    >>> tocha.nn.MaxPool3d(2)(tocha.arange(8.0).view(1, 2, 2, 2))
    tensor([[[[7.]]]])
    """

    _function = "max_pool3d"


class _MaxUnpoolNd(Module):
    """Puts pooled elements back where the indices say and zeros elsewhere."""

    _function: ClassVar[str]
    _spatial_dims: ClassVar[int]

    def __init__(self, kernel_size: _Size, stride: _Size | None = None, padding: _Size = 0) -> None:
        super().__init__()
        sizes = _ntuple(self._spatial_dims)
        self.kernel_size = sizes(kernel_size)
        self.stride = sizes(kernel_size if stride is None else stride)
        self.padding = sizes(padding)

    def forward(self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        """The unpooled input; output_size chooses among the sizes that pool to the input's."""
        return getattr(F, self._function)(input, indices, self.kernel_size, self.stride, self.padding, output_size)

    def extra_repr(self) -> str:
        return _arguments(self, "kernel_size", "stride", "padding")


class MaxUnpool1d(_MaxUnpoolNd):
    """The partial inverse of MaxPool1d.

    >>> pool = tocha.nn.MaxPool1d(2, return_indices=True)
    >>> y, at = pool(tocha.tensor([[1.0, 3.0, 2.0, 5.0]]))
    >>> tocha.nn.MaxUnpool1d(2)(y, at)
    tensor([[0., 3., 0., 5.]])
    """

    _function = "max_unpool1d"
    _spatial_dims = 1


class MaxUnpool2d(_MaxUnpoolNd):
    """The partial inverse of MaxPool2d.

    >>> pool = tocha.nn.MaxPool2d(2, return_indices=True)
    >>> y, at = pool(tocha.arange(4.0).view(1, 2, 2))
    >>> tocha.nn.MaxUnpool2d(2)(y, at)
    tensor([[[0., 0.],
             [0., 3.]]])
    """

    _function = "max_unpool2d"
    _spatial_dims = 2


class MaxUnpool3d(_MaxUnpoolNd):
    """The partial inverse of MaxPool3d.

    >>> pool = tocha.nn.MaxPool3d(2, return_indices=True)
    >>> y, at = pool(tocha.arange(8.0).view(1, 2, 2, 2))
    >>> tocha.nn.MaxUnpool3d(2)(y, at).flatten()
    tensor([0., 0., 0., 0., 0., 0., 0., 7.])
    """

    _function = "max_unpool3d"
    _spatial_dims = 3


class _AvgPoolNd(Module):
    """The mean of every window."""

    kernel_size: Any
    stride: Any
    padding: Any
    ceil_mode: bool
    count_include_pad: bool

    def extra_repr(self) -> str:
        return _arguments(self, "kernel_size", "stride", "padding")


class AvgPool1d(_AvgPoolNd):
    """Average pooling of (N, C, L) or (C, L).

    >>> tocha.nn.AvgPool1d(2)(tocha.tensor([[1.0, 3.0, 2.0, 6.0]]))
    tensor([[2., 4.]])
    """

    def __init__(
        self,
        kernel_size: _Size,
        stride: _Size | None = None,
        padding: _Size = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.kernel_size = _single(kernel_size)
        self.stride = _single(kernel_size if stride is None else stride)
        self.padding = _single(padding)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        """The pooled input."""
        return F.avg_pool1d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)


class _AvgPoolWithDivisor(_AvgPoolNd):
    """Average pooling over two or three dims, where the divisor may be set."""

    _function: ClassVar[str]

    def __init__(
        self,
        kernel_size: _Size,
        stride: _Size | None = None,
        padding: _Size = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def forward(self, input: Tensor) -> Tensor:
        """The pooled input."""
        return getattr(F, self._function)(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad, self.divisor_override
        )  # fmt: skip


class AvgPool2d(_AvgPoolWithDivisor):
    """Average pooling of (N, C, H, W) or (C, H, W).

    >>> tocha.nn.AvgPool2d(2)(tocha.arange(16.0).view(1, 4, 4))
    tensor([[[ 2.5000,  4.5000],
             [10.5000, 12.5000]]])
    """

    _function = "avg_pool2d"


class AvgPool3d(_AvgPoolWithDivisor):
    """Average pooling of (N, C, D, H, W) or (C, D, H, W).

    >>> tocha.nn.AvgPool3d(2)(tocha.arange(8.0).view(1, 2, 2, 2))
    tensor([[[[3.5000]]]])
    """

    _function = "avg_pool3d"


class _FractionalMaxPoolNd(Module):
    """Max pooling with windows at pseudo-random steps, to a given size or a given ratio of the input's size."""

    _function: ClassVar[str]
    _spatial_dims: ClassVar[int]

    def __init__(
        self,
        kernel_size: _Size,
        output_size: _Size | None = None,
        output_ratio: float | tuple[float, ...] | None = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        super().__init__()
        sizes = _ntuple(self._spatial_dims)
        self.kernel_size = sizes(kernel_size)
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = None if output_size is None else sizes(output_size)
        self.output_ratio = None if output_ratio is None else sizes(output_ratio)
        if output_size is None and output_ratio is None:
            raise ValueError(f"{type(self).__name__} requires specifying either an output size, or a pooling ratio")
        if output_size is not None and output_ratio is not None:
            raise ValueError("only one of output_size and output_ratio may be specified")
        if self.output_ratio is not None and not all(0 < r < 1 for r in self.output_ratio):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")

    def forward(self, input: Tensor) -> Any:
        """The pooled input, and with return_indices the positions."""
        return getattr(F, self._function)(
            input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices,
            _random_samples=self._random_samples,
        )  # fmt: skip


class FractionalMaxPool2d(_FractionalMaxPoolNd):
    """Fractional max pooling of (N, C, H, W) or (C, H, W).

    >>> tocha.nn.FractionalMaxPool2d(2, output_size=(3, 3))(tocha.ones(1, 1, 8, 8)).shape
    tocha.Size([1, 1, 3, 3])
    >>> tocha.nn.FractionalMaxPool2d(2, output_ratio=0.5)(tocha.ones(1, 1, 8, 8)).shape
    tocha.Size([1, 1, 4, 4])
    """

    _function = "fractional_max_pool2d"
    _spatial_dims = 2


class FractionalMaxPool3d(_FractionalMaxPoolNd):
    """Fractional max pooling of (N, C, D, H, W) or (C, D, H, W).

    >>> tocha.nn.FractionalMaxPool3d(2, output_size=3)(tocha.ones(1, 1, 8, 8, 8)).shape
    tocha.Size([1, 1, 3, 3, 3])
    """

    _function = "fractional_max_pool3d"
    _spatial_dims = 3


class _LPPoolNd(Module):
    """The norm_type-norm of every window."""

    _function: ClassVar[str]

    def __init__(
        self, norm_type: float, kernel_size: _Size, stride: _Size | None = None, ceil_mode: bool = False
    ) -> None:
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Tensor:
        """The pooled input."""
        return getattr(F, self._function)(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)

    def extra_repr(self) -> str:
        return _arguments(self, "norm_type", "kernel_size", "stride", "ceil_mode")


class LPPool1d(_LPPoolNd):
    """Norm pooling of (N, C, L) or (C, L).

    >>> tocha.nn.LPPool1d(2, 2)(tocha.tensor([[3.0, 4.0, 6.0, 8.0]]))
    tensor([[ 5., 10.]])
    """

    _function = "lp_pool1d"


class LPPool2d(_LPPoolNd):
    """Norm pooling of (N, C, H, W) or (C, H, W).

    >>> tocha.nn.LPPool2d(2, 2)(tocha.ones(1, 2, 4))
    tensor([[[2., 2.]]])
    """

    _function = "lp_pool2d"


class LPPool3d(_LPPoolNd):
    """Norm pooling of (N, C, D, H, W) or (C, D, H, W).

    >>> tocha.nn.LPPool3d(2, 2)(tocha.ones(1, 2, 2, 4)).shape
    tocha.Size([1, 1, 1, 2])
    """

    _function = "lp_pool3d"


class _AdaptiveMaxPoolNd(Module):
    """Max pooling to a given output size."""

    _function: ClassVar[str]

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size = output_size
        self.return_indices = return_indices

    def forward(self, input: Tensor) -> Any:
        """The pooled input, and with return_indices the positions."""
        return getattr(F, self._function)(input, self.output_size, self.return_indices)

    def extra_repr(self) -> str:
        return _arguments(self, "output_size")


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """Max pooling of (N, C, L) or (C, L) to a given length.

    >>> tocha.nn.AdaptiveMaxPool1d(2)(tocha.tensor([[1.0, 2.0, 3.0, 4.0]]))
    tensor([[2., 4.]])
    """

    _function = "adaptive_max_pool1d"


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """Max pooling of (N, C, H, W) or (C, H, W) to a given size; None keeps that dim's size.

    >>> tocha.nn.AdaptiveMaxPool2d((1, 2))(tocha.arange(16.0).view(1, 4, 4))
    tensor([[[13., 15.]]])
    """

    _function = "adaptive_max_pool2d"


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """Max pooling of (N, C, D, H, W) or (C, D, H, W) to a given size; None keeps that dim's size.

    >>> tocha.nn.AdaptiveMaxPool3d(2)(tocha.ones(1, 3, 4, 5, 6)).shape
    tocha.Size([1, 3, 2, 2, 2])
    """

    _function = "adaptive_max_pool3d"


class _AdaptiveAvgPoolNd(Module):
    """Average pooling to a given output size."""

    _function: ClassVar[str]

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        """The pooled input."""
        return getattr(F, self._function)(input, self.output_size)

    def extra_repr(self) -> str:
        return _arguments(self, "output_size")


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """Average pooling of (N, C, L) or (C, L) to a given length.

    >>> tocha.nn.AdaptiveAvgPool1d(2)(tocha.tensor([[1.0, 2.0, 3.0, 4.0]]))
    tensor([[1.5000, 3.5000]])
    """

    _function = "adaptive_avg_pool1d"


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """Average pooling of (N, C, H, W) or (C, H, W) to a given size; None keeps that dim's size.

    >>> tocha.nn.AdaptiveAvgPool2d((1, 2))(tocha.arange(16.0).view(1, 4, 4))
    tensor([[[6.5000, 8.5000]]])
    """

    _function = "adaptive_avg_pool2d"


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """Average pooling of (N, C, D, H, W) or (C, D, H, W) to a given size; None keeps that dim's size.

    >>> tocha.nn.AdaptiveAvgPool3d(2)(tocha.ones(1, 3, 4, 5, 6)).shape
    tocha.Size([1, 3, 2, 2, 2])
    """

    _function = "adaptive_avg_pool3d"
