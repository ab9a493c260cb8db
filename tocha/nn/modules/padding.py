"""Padding layers: amounts for both ends of each spatial dim, the last dim's first."""

from __future__ import annotations

from typing import ClassVar

from tocha import _C
from tocha.nn import functional as F
from tocha.nn.modules.module import Module
from tocha.nn.modules.utils import _arguments, _check_dims, _ntuple

Tensor = _C.Tensor

__all__ = [
    "CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d", "ConstantPad2d", "ConstantPad3d", "ReflectionPad1d",
    "ReflectionPad2d", "ReflectionPad3d", "ReplicationPad1d", "ReplicationPad2d", "ReplicationPad3d", "ZeroPad1d", "ZeroPad2d",
    "ZeroPad3d",
]  # fmt: skip


class _PadNd(Module):
    """Padding whose values come from the input itself."""

    _spatial_dims: ClassVar[int]
    _mode: ClassVar[str]
    padding: tuple[int, ...]

    def __init__(self, padding: int | tuple[int, ...]) -> None:
        super().__init__()
        self.padding = _ntuple(2 * self._spatial_dims)(padding)

    def forward(self, input: Tensor) -> Tensor:
        """The padded input."""
        return F.pad(input, self.padding, self._mode)

    def extra_repr(self) -> str:
        return str(self.padding)


class _CircularPadNd(_PadNd):
    """Continues the input with its other end, as if it were a ring."""

    _mode = "circular"

    def _check_input_dim(self, input: Tensor) -> None:
        _check_dims(input, self._spatial_dims + 1, self._spatial_dims + 2)

    def forward(self, input: Tensor) -> Tensor:
        """The padded input."""
        self._check_input_dim(input)
        return super().forward(input)


class CircularPad1d(_CircularPadNd):
    """Circular padding of (N, C, L) or (C, L).

    >>> tocha.nn.CircularPad1d(1)(tocha.tensor([[1.0, 2.0, 3.0]]))
    tensor([[3., 1., 2., 3., 1.]])
    """

    _spatial_dims = 1


class CircularPad2d(_CircularPadNd):
    """Circular padding of (N, C, H, W) or (C, H, W).

    >>> tocha.nn.CircularPad2d(1)(tocha.arange(4.0).view(1, 2, 2))
    tensor([[[3., 2., 3., 2.],
             [1., 0., 1., 0.],
             [3., 2., 3., 2.],
             [1., 0., 1., 0.]]])
    """

    _spatial_dims = 2


class CircularPad3d(_CircularPadNd):
    """Circular padding of (N, C, D, H, W) or (C, D, H, W).

    >>> tocha.nn.CircularPad3d(1)(tocha.ones(1, 2, 2, 2)).shape
    tocha.Size([1, 4, 4, 4])
    """

    _spatial_dims = 3


class _ConstantPadNd(Module):
    """Padding with one value."""

    _spatial_dims: ClassVar[int]
    value: float
    padding: tuple[int, ...]

    def __init__(self, padding: int | tuple[int, ...], value: float) -> None:
        super().__init__()
        self.value = value
        self.padding = _ntuple(2 * self._spatial_dims)(padding)

    def forward(self, input: Tensor) -> Tensor:
        """The padded input."""
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return _arguments(self, "padding", "value")


class ConstantPad1d(_ConstantPadNd):
    """Padding of one dim with a value.

    >>> tocha.nn.ConstantPad1d(1, 9.0)(tocha.tensor([[1.0, 2.0]]))
    tensor([[9., 1., 2., 9.]])
    """

    _spatial_dims = 1


class ConstantPad2d(_ConstantPadNd):
    """Padding of two dims with a value.

    >>> tocha.nn.ConstantPad2d((1, 0, 0, 1), 9.0)(tocha.arange(4.0).view(1, 2, 2))
    tensor([[[9., 0., 1.],
             [9., 2., 3.],
             [9., 9., 9.]]])
    """

    _spatial_dims = 2


class ConstantPad3d(_ConstantPadNd):
    """Padding of three dims with a value.

    >>> tocha.nn.ConstantPad3d(1, 0.0)(tocha.ones(1, 2, 2, 2)).shape
    tocha.Size([1, 4, 4, 4])
    """

    _spatial_dims = 3


class _ZeroPad(_ConstantPadNd):
    """Padding with zeros: the value is not an argument and not in the text."""

    def __init__(self, padding: int | tuple[int, ...]) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return str(self.padding)


class ZeroPad1d(_ZeroPad, ConstantPad1d):
    """Padding of one dim with zeros.

    >>> tocha.nn.ZeroPad1d(1)(tocha.tensor([[1.0, 2.0]]))
    tensor([[0., 1., 2., 0.]])
    """


class ZeroPad2d(_ZeroPad, ConstantPad2d):
    """Padding of two dims with zeros.

    >>> ZeroPad2d(1)
    ZeroPad2d((1, 1, 1, 1))
    """


class ZeroPad3d(_ZeroPad, ConstantPad3d):
    """Padding of three dims with zeros.

    >>> tocha.nn.ZeroPad3d(1)(tocha.ones(1, 2, 2, 2)).shape
    tocha.Size([1, 4, 4, 4])
    """


class _ReflectionPadNd(_PadNd):
    """Continues the input with its mirror image; the edge is not repeated."""

    _mode = "reflect"


class ReflectionPad1d(_ReflectionPadNd):
    """Reflection padding of (N, C, L) or (C, L).

    >>> tocha.nn.ReflectionPad1d(2)(tocha.tensor([[1.0, 2.0, 3.0]]))
    tensor([[3., 2., 1., 2., 3., 2., 1.]])
    """

    _spatial_dims = 1


class ReflectionPad2d(_ReflectionPadNd):
    """Reflection padding of (N, C, H, W) or (C, H, W).

    >>> tocha.nn.ReflectionPad2d(1)(tocha.arange(9.0).view(1, 3, 3))
    tensor([[[4., 3., 4., 5., 4.],
             [1., 0., 1., 2., 1.],
             [4., 3., 4., 5., 4.],
             [7., 6., 7., 8., 7.],
             [4., 3., 4., 5., 4.]]])
    """

    _spatial_dims = 2


class ReflectionPad3d(_ReflectionPadNd):
    """Reflection padding of (N, C, D, H, W) or (C, D, H, W).

    >>> tocha.nn.ReflectionPad3d(1)(tocha.ones(1, 2, 2, 2)).shape
    tocha.Size([1, 4, 4, 4])
    """

    _spatial_dims = 3


class _ReplicationPadNd(_PadNd):
    """Continues the input with its edge."""

    _mode = "replicate"


class ReplicationPad1d(_ReplicationPadNd):
    """Replication padding of (N, C, L) or (C, L).

    >>> tocha.nn.ReplicationPad1d(2)(tocha.tensor([[1.0, 2.0, 3.0]]))
    tensor([[1., 1., 1., 2., 3., 3., 3.]])
    """

    _spatial_dims = 1


class ReplicationPad2d(_ReplicationPadNd):
    """Replication padding of (N, C, H, W) or (C, H, W).

    >>> tocha.nn.ReplicationPad2d(1)(tocha.arange(4.0).view(1, 2, 2))
    tensor([[[0., 0., 1., 1.],
             [0., 0., 1., 1.],
             [2., 2., 3., 3.],
             [2., 2., 3., 3.]]])
    """

    _spatial_dims = 2


class ReplicationPad3d(_ReplicationPadNd):
    """Replication padding of (N, C, D, H, W) or (C, D, H, W).

    >>> tocha.nn.ReplicationPad3d(1)(tocha.ones(1, 2, 2, 2)).shape
    tocha.Size([1, 4, 4, 4])
    """

    _spatial_dims = 3
