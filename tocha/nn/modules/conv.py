"""Convolution layers, their transposes, and the lazy forms of both. 1 to 3 spatial dims share one base each."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, ClassVar

from tocha import _C
from tocha.autograd.grad_mode import no_grad
from tocha.nn import functional as F
from tocha.nn.modules.lazy import LazyModuleMixin
from tocha.nn.modules.module import Module
from tocha.nn.modules.utils import _fan_in_uniform_, _ntuple, _reverse_repeat_tuple
from tocha.nn.parameter import Parameter, UninitializedParameter

Tensor = _C.Tensor

__all__ = [
    "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "LazyConv1d", "LazyConv2d", "LazyConv3d",
    "LazyConvTranspose1d", "LazyConvTranspose2d", "LazyConvTranspose3d",
]  # fmt: skip

_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")
_PADDING_WORDS = ("valid", "same")


def _check_arguments(in_channels: int, out_channels: int, stride: tuple, padding: Any, groups: int, mode: str) -> None:
    if groups <= 0:
        raise ValueError("groups must be a positive integer")
    if in_channels % groups != 0:
        raise ValueError("in_channels must be divisible by groups")
    if out_channels % groups != 0:
        raise ValueError("out_channels must be divisible by groups")
    if isinstance(padding, str):
        if padding not in _PADDING_WORDS:
            raise ValueError(f"Invalid padding string {padding!r}, should be one of {set(_PADDING_WORDS)}")
        if padding == "same" and any(s != 1 for s in stride):
            raise ValueError("padding='same' is not supported for strided convolutions")
    if mode not in _PADDING_MODES:
        raise ValueError(f"padding_mode must be one of {set(_PADDING_MODES)}, but got padding_mode='{mode}'")


def _both_sides(padding: str | tuple, kernel_size: tuple, dilation: tuple) -> Sequence[int]:
    """What `pad` must add to get the effect of the padding, last dim first; "same" puts the odd one at the end."""
    if not isinstance(padding, str):
        return _reverse_repeat_tuple(padding, 2)
    amounts: list[int] = []
    for k, d in zip(reversed(kernel_size), reversed(dilation), strict=False):
        total = d * (k - 1) if padding == "same" else 0
        amounts += [total // 2, total - total // 2]
    return amounts


class _ConvNd(Module):
    """What convolutions of any number of dims share: arguments, parameters, text."""

    _spatial_dims: ClassVar[int]
    in_channels: int
    out_channels: int
    kernel_size: tuple[int, ...]
    stride: tuple[int, ...]
    padding: str | tuple[int, ...]
    dilation: tuple[int, ...]
    transposed: bool
    output_padding: tuple[int, ...]
    groups: int
    padding_mode: str
    weight: Tensor
    bias: Tensor | None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: tuple[int, ...],
        stride: tuple[int, ...],
        padding: str | tuple[int, ...],
        dilation: tuple[int, ...],
        transposed: bool,
        output_padding: tuple[int, ...],
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        _check_arguments(in_channels, out_channels, stride, padding, groups, padding_mode)
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.dilation = dilation
        self.transposed = transposed
        self.output_padding = output_padding
        self.groups = groups
        self.padding_mode = padding_mode
        self._reversed_padding_repeated_twice = _both_sides(padding, kernel_size, dilation)
        self.weight = Parameter(_C.empty(self._weight_size(), device=device, dtype=dtype))
        self.register_parameter("bias", Parameter(_C.empty(out_channels, device=device, dtype=dtype)) if bias else None)
        self.reset_parameters()

    def _weight_size(self) -> tuple[int, ...]:
        rows, columns = self.out_channels, self.in_channels
        if self.transposed:
            rows, columns = columns, rows
        return (rows, columns // self.groups, *self.kernel_size)

    def reset_parameters(self) -> None:
        """Draws weight and bias anew."""
        _fan_in_uniform_(self.weight, self.bias)

    def extra_repr(self) -> str:
        zeros, ones = (0,) * len(self.padding), (1,) * len(self.dilation)
        parts = [
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}",
            f"padding={self.padding}" if self.padding != zeros else "",
            f"dilation={self.dilation}" if self.dilation != ones else "",
            f"output_padding={self.output_padding}" if self.output_padding != (0,) * len(self.output_padding) else "",
            f"groups={self.groups}" if self.groups != 1 else "",
            "bias=False" if self.bias is None else "",
            f"padding_mode={self.padding_mode}" if self.padding_mode != "zeros" else "",
        ]
        return ", ".join(p for p in parts if p)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.__dict__.setdefault("padding_mode", "zeros")


class _Convolution(_ConvNd):
    """The part of Conv1d, Conv2d and Conv3d that the number of dims does not change."""

    _function: ClassVar[str]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...] = 1,
        padding: str | int | tuple[int, ...] = 0,
        dilation: int | tuple[int, ...] = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        sizes = _ntuple(self._spatial_dims)
        super().__init__(
            in_channels, out_channels, sizes(kernel_size), sizes(stride), padding if isinstance(padding, str) else sizes(padding),
            sizes(dilation), False, sizes(0), groups, bias, padding_mode, device, dtype,
        )  # fmt: skip

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """The convolution with a weight and bias that need not be the module's own."""
        padding = self.padding
        if self.padding_mode != "zeros":
            input = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
            padding = (0,) * self._spatial_dims
        return getattr(F, self._function)(input, weight, bias, self.stride, padding, self.dilation, self.groups)

    def forward(self, input: Tensor) -> Tensor:
        """(N, C_in, *spatial) or (C_in, *spatial) to the same with C_out channels."""
        return self._conv_forward(input, self.weight, self.bias)


class Conv1d(_Convolution):
    """Convolution over one spatial dim.

    >>> Conv1d(4, 8, 3, padding=1)
    Conv1d(4, 8, kernel_size=(3,), stride=(1,), padding=(1,))
    """

    _spatial_dims = 1
    _function = "conv1d"


class Conv2d(_Convolution):
    """Convolution over two spatial dims: images.

    >>> Conv2d(3, 8, 3, padding="same", bias=False)
    Conv2d(3, 8, kernel_size=(3, 3), stride=(1, 1), padding=same, bias=False)
    """

    _spatial_dims = 2
    _function = "conv2d"


class Conv3d(_Convolution):
    """Convolution over three spatial dims: volumes and films.

    >>> tocha.nn.Conv3d(2, 4, 3, padding=1)(tocha.ones(1, 2, 5, 5, 5)).shape
    tocha.Size([1, 4, 5, 5, 5])
    """

    _spatial_dims = 3
    _function = "conv3d"


class _ConvTransposeNd(_ConvNd):
    """What transposed convolutions of any number of dims share."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: tuple[int, ...], stride: tuple[int, ...], padding: tuple[int, ...],
        dilation: tuple[int, ...], transposed: bool, output_padding: tuple[int, ...], groups: int, bias: bool, padding_mode: str,
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, transposed, output_padding, groups, bias,
            padding_mode, device, dtype,
        )  # fmt: skip

    def _output_padding(
        self,
        input: Tensor,
        output_size: Sequence[int] | None,
        stride: Sequence[int],
        padding: Any,
        kernel_size: Sequence[int],
        num_spatial_dims: int,
        dilation: Sequence[int] | None = None,
    ) -> Sequence[int]:
        """How much to add at the end of each dim to reach output_size: several sizes give one output size."""
        if output_size is None:
            return _ntuple(1)(self.output_padding)
        n = num_spatial_dims
        unspatial = input.dim() - n
        if len(output_size) == unspatial + n:
            output_size = output_size[unspatial:]
        if len(output_size) != n:
            raise ValueError(
                f"ConvTranspose{n}D: for {input.dim()}D input, output_size must have {n} or {unspatial + n} elements "
                f"(got {len(output_size)})"
            )
        least = [
            (input.size(i + unspatial) - 1) * stride[i]
            - 2 * padding[i]
            + (dilation[i] if dilation is not None else 1) * (kernel_size[i] - 1)
            + 1
            for i in range(n)
        ]
        most = [m + stride[i] - 1 for i, m in enumerate(least)]
        if not all(a <= size <= b for a, size, b in zip(least, output_size, most, strict=True)):
            raise ValueError(
                f"requested an output size of {output_size}, but valid sizes range from {least} to {most} "
                f"(for an input of {input.size()[unspatial:]})"
            )
        return [size - m for size, m in zip(output_size, least, strict=True)]


class _ConvTransposeMixin(_ConvTransposeNd):
    """An older name of what transposed convolutions share: packages ask whether a layer is one."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warnings.warn(
            "`_ConvTransposeMixin` is a deprecated internal class. Please consider using public APIs.",
            FutureWarning,
            stacklevel=2,
        )
        super().__init__(*args, **kwargs)


class _TransposedConvolution(_ConvTransposeNd):
    """The part of ConvTranspose1d, 2d and 3d that the number of dims does not change."""

    _function: ClassVar[str]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...] = 1,
        padding: int | tuple[int, ...] = 0,
        output_padding: int | tuple[int, ...] = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: int | tuple[int, ...] = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        sizes = _ntuple(self._spatial_dims)
        super().__init__(
            in_channels, out_channels, sizes(kernel_size), sizes(stride), sizes(padding), sizes(dilation), True,
            sizes(output_padding), groups, bias, padding_mode, device, dtype,
        )  # fmt: skip

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        """The transposed convolution; output_size chooses among the sizes that convolve to the input's."""
        added = self._output_padding(
            input, output_size, self.stride, self.padding, self.kernel_size, self._spatial_dims, self.dilation
        )
        function = getattr(F, self._function)
        return function(input, self.weight, self.bias, self.stride, self.padding, added, self.groups, self.dilation)


class ConvTranspose1d(_TransposedConvolution):
    """The transpose of Conv1d: its gradient as a layer.

    >>> tocha.nn.ConvTranspose1d(2, 4, 2, stride=2)(tocha.ones(1, 2, 5)).shape
    tocha.Size([1, 4, 10])
    """

    _spatial_dims = 1
    _function = "conv_transpose1d"


class ConvTranspose2d(_TransposedConvolution):
    """The transpose of Conv2d: its gradient as a layer.

    >>> ConvTranspose2d(8, 3, 2, stride=2)
    ConvTranspose2d(8, 3, kernel_size=(2, 2), stride=(2, 2))
    """

    _spatial_dims = 2
    _function = "conv_transpose2d"


class ConvTranspose3d(_TransposedConvolution):
    """The transpose of Conv3d: its gradient as a layer.

    >>> tocha.nn.ConvTranspose3d(2, 4, 2, stride=2)(tocha.ones(1, 2, 3, 3, 3)).shape
    tocha.Size([1, 4, 6, 6, 6])
    """

    _spatial_dims = 3
    _function = "conv_transpose3d"


class _LazyConvXdMixin(LazyModuleMixin):
    """Leaves in_channels, weight and bias open until the first input."""

    in_channels: int
    out_channels: int
    groups: int
    weight: UninitializedParameter
    bias: UninitializedParameter | None
    _spatial_dims: ClassVar[int]

    def _leave_open(self, out_channels: int, bias: bool, device: Any, dtype: Any) -> None:
        self.out_channels = out_channels
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draws weight and bias anew, once their sizes are known."""
        if not self.has_uninitialized_params() and self.in_channels != 0:  # type: ignore[misc]
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self, input: Tensor, *args: Any, **kwargs: Any) -> None:  # type: ignore[override]
        """Gives the parameters the sizes that fit the input, and their first values."""
        if not self.has_uninitialized_params():  # type: ignore[misc]
            return
        self.in_channels = self._get_in_channels(input)
        if self.in_channels % self.groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        with no_grad():
            self.weight.materialize(self._weight_size())  # type: ignore[attr-defined]
            if self.bias is not None:
                self.bias.materialize((self.out_channels,))
            self.reset_parameters()

    def _get_in_channels(self, input: Tensor) -> int:
        n = self._get_num_spatial_dims()
        if input.dim() not in (n + 1, n + 2):
            raise RuntimeError(
                f"Expected {n + 1}D (unbatched) or {n + 2}D (batched) input to {type(self).__name__}, "
                f"but got input of size: {input.shape}"
            )
        return input.shape[-n - 1]

    def _get_num_spatial_dims(self) -> int:
        return self._spatial_dims


class _LazyConvolution(_LazyConvXdMixin):
    """The arguments of LazyConv1d, 2d and 3d."""

    def __init__(
        self,
        out_channels: int,
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...] = 1,
        padding: str | int | tuple[int, ...] = 0,
        dilation: int | tuple[int, ...] = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode, device, dtype)
        self._leave_open(out_channels, bias, device, dtype)


class LazyConv1d(_LazyConvolution, Conv1d):  # type: ignore[misc]
    """A Conv1d that takes in_channels from its first input.

    >>> conv = tocha.nn.LazyConv1d(4, 3)
    >>> conv(tocha.ones(1, 2, 8)).shape
    tocha.Size([1, 4, 6])
    >>> conv.in_channels
    2
    """

    cls_to_become = Conv1d


class LazyConv2d(_LazyConvolution, Conv2d):  # type: ignore[misc]
    """A Conv2d that takes in_channels from its first input.

    >>> conv = tocha.nn.LazyConv2d(4, 3)
    >>> conv(tocha.ones(1, 2, 8, 8)).shape
    tocha.Size([1, 4, 6, 6])
    >>> conv.in_channels
    2
    """

    cls_to_become = Conv2d


class LazyConv3d(_LazyConvolution, Conv3d):  # type: ignore[misc]
    """A Conv3d that takes in_channels from its first input.

    >>> conv = tocha.nn.LazyConv3d(4, 3)
    >>> conv(tocha.ones(1, 2, 4, 4, 4)).shape
    tocha.Size([1, 4, 2, 2, 2])
    >>> conv.in_channels
    2
    """

    cls_to_become = Conv3d


class _LazyTransposedConvolution(_LazyConvXdMixin):
    """The arguments of LazyConvTranspose1d, 2d and 3d."""

    def __init__(
        self,
        out_channels: int,
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...] = 1,
        padding: int | tuple[int, ...] = 0,
        output_padding: int | tuple[int, ...] = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: int | tuple[int, ...] = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            0, 0, kernel_size, stride, padding, output_padding, groups, False, dilation, padding_mode, device, dtype
        )
        self._leave_open(out_channels, bias, device, dtype)


class LazyConvTranspose1d(_LazyTransposedConvolution, ConvTranspose1d):  # type: ignore[misc]
    """A ConvTranspose1d that takes in_channels from its first input.

    >>> conv = tocha.nn.LazyConvTranspose1d(4, 2, stride=2)
    >>> conv(tocha.ones(1, 2, 8)).shape
    tocha.Size([1, 4, 16])
    >>> conv.in_channels
    2
    """

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyTransposedConvolution, ConvTranspose2d):  # type: ignore[misc]
    """A ConvTranspose2d that takes in_channels from its first input.

    >>> conv = tocha.nn.LazyConvTranspose2d(4, 2, stride=2)
    >>> conv(tocha.ones(1, 2, 4, 4)).shape
    tocha.Size([1, 4, 8, 8])
    >>> conv.in_channels
    2
    """

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyTransposedConvolution, ConvTranspose3d):  # type: ignore[misc]
    """A ConvTranspose3d that takes in_channels from its first input.

    >>> conv = tocha.nn.LazyConvTranspose3d(4, 2, stride=2)
    >>> conv(tocha.ones(1, 2, 4, 4, 4)).shape
    tocha.Size([1, 4, 8, 8, 8])
    >>> conv.in_channels
    2
    """

    cls_to_become = ConvTranspose3d
