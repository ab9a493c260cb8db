"""Pooling as torch.nn.functional has it: return_indices, sizes that keep a dim, output sizes by ratio.

The operators are in tocha/operators/pooling.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tocha import _C
from tocha.ir.sym_types import SymInt

Tensor = _C.Tensor
_nn = _C._nn

__all__ = [
    "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d", "adaptive_max_pool1d_with_indices", "adaptive_max_pool2d",
    "adaptive_max_pool2d_with_indices", "adaptive_max_pool3d", "adaptive_max_pool3d_with_indices", "fractional_max_pool2d",
    "fractional_max_pool2d_with_indices", "fractional_max_pool3d", "fractional_max_pool3d_with_indices", "lp_pool1d", "lp_pool2d", "lp_pool3d",
    "max_pool1d", "max_pool1d_with_indices", "max_pool2d", "max_pool2d_with_indices", "max_pool3d", "max_pool3d_with_indices", "max_unpool1d",
    "max_unpool2d", "max_unpool3d",
]  # fmt: skip

Ints = int | Sequence[int]
Sizes = int | None | Sequence[int | None]


# -- maxima ------------------------------------------------------------------------------------------


def max_pool1d_with_indices(
    input: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    dilation: Ints = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> tuple[Tensor, Tensor]:
    """The largest of each window of a signal, and its place.

    >>> tocha.nn.functional.max_pool1d_with_indices(tocha.tensor([[1.0, 3.0, 2.0, 5.0]]), 2)
    (tensor([[3., 5.]]), tensor([[1, 3]]))
    """
    return _C.max_pool1d_with_indices(input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool2d_with_indices(
    input: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    dilation: Ints = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> tuple[Tensor, Tensor]:
    """The largest of each window of a picture, and its place in the plane.

    >>> tocha.nn.functional.max_pool2d_with_indices(tocha.arange(4.0).view(1, 2, 2), 2)
    (tensor([[[3.]]]), tensor([[[3]]]))
    """
    return _nn.max_pool2d_with_indices(input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool3d_with_indices(
    input: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    dilation: Ints = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> tuple[Tensor, Tensor]:
    """The largest of each window of a volume, and its place in the volume.

    >>> tocha.nn.functional.max_pool3d_with_indices(tocha.arange(8.0).view(1, 2, 2, 2), 2)
    (tensor([[[[7.]]]]), tensor([[[[7]]]]))
    """
    return _nn.max_pool3d_with_indices(input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool1d(
    input: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    dilation: Ints = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """The largest of each window of a signal; with return_indices also where it stands.

    >>> import tocha
    >>> max_pool1d(tocha.tensor([[1.0, 5.0, 2.0, 3.0]]), 2)
    tensor([[5., 3.]])
    """
    pool = _C.max_pool1d_with_indices if return_indices else _C.max_pool1d
    return pool(input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool2d(
    input: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    dilation: Ints = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """The largest of each window of a picture; with return_indices also its place in the plane.

    >>> import tocha
    >>> x = tocha.arange(16.0).reshape(1, 4, 4)
    >>> max_pool2d(x, 2, return_indices=True)
    (tensor([[[ 5.,  7.],
             [13., 15.]]]), tensor([[[ 5,  7],
             [13, 15]]]))
    """
    pool = _nn.max_pool2d_with_indices if return_indices else _C.max_pool2d
    return pool(input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool3d(
    input: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    dilation: Ints = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """The largest of each window of a volume; with return_indices also its place in the volume.

    >>> tocha.nn.functional.max_pool3d(tocha.arange(8.0).view(1, 2, 2, 2), 2)
    tensor([[[[7.]]]])
    """
    pool = _nn.max_pool3d_with_indices if return_indices else _C.max_pool3d
    return pool(input, kernel_size, stride, padding, dilation, ceil_mode)


# -- windows that adapt ------------------------------------------------------------------------------


def _full_size(input: Tensor, output_size: Sizes, dims: int) -> int | list[int]:
    """output_size with the input's own sizes where it says None."""
    if output_size is None or isinstance(output_size, (int, SymInt)):
        if output_size is None:
            raise TypeError("output_size must be an int or a sequence of ints and None, not None")
        return output_size
    sizes = list(output_size)
    if input.dim() <= len(sizes):
        raise ValueError(
            f"Input dimension should be at least {len(sizes) + 1}: got {tuple(input.shape)} for output_size {tuple(sizes)}"
        )
    # A wrong number of them is refused where the windows are made.
    return [own if s is None else s for s, own in zip(sizes, input.shape[input.dim() - len(sizes) :], strict=True)]


def adaptive_avg_pool2d(input: Tensor, output_size: Sizes) -> Tensor:
    """Averages of windows that divide a picture into output_size parts; None keeps a dim's size.

    >>> import tocha
    >>> adaptive_avg_pool2d(tocha.arange(8.0).reshape(1, 2, 4), (None, 2))
    tensor([[[0.5000, 2.5000],
             [4.5000, 6.5000]]])
    """
    return _nn.adaptive_avg_pool2d(input, _full_size(input, output_size, 2))


def adaptive_avg_pool3d(input: Tensor, output_size: Sizes) -> Tensor:
    """Averages of windows that divide a volume into output_size parts; None keeps a dim's size.

    >>> tocha.nn.functional.adaptive_avg_pool3d(tocha.ones(1, 4, 5, 6), 2).shape
    tocha.Size([1, 2, 2, 2])
    """
    return _nn.adaptive_avg_pool3d(input, _full_size(input, output_size, 3))


def adaptive_max_pool1d_with_indices(
    input: Tensor, output_size: Ints, return_indices: bool = False
) -> tuple[Tensor, Tensor]:
    """Maxima of windows that divide a signal into output_size parts, and their places.

    >>> tocha.nn.functional.adaptive_max_pool1d_with_indices(tocha.tensor([[1.0, 5.0, 3.0, 4.0]]), 2)
    (tensor([[5., 4.]]), tensor([[1, 3]]))
    """
    return _C.adaptive_max_pool1d(input, output_size)


def adaptive_max_pool2d_with_indices(
    input: Tensor, output_size: Sizes, return_indices: bool = False
) -> tuple[Tensor, Tensor]:
    """Maxima of windows that divide a picture into output_size parts, and their places.

    >>> tocha.nn.functional.adaptive_max_pool2d_with_indices(tocha.arange(4.0).view(1, 2, 2), 1)
    (tensor([[[3.]]]), tensor([[[3]]]))
    """
    return _nn.adaptive_max_pool2d(input, _full_size(input, output_size, 2))


def adaptive_max_pool3d_with_indices(
    input: Tensor, output_size: Sizes, return_indices: bool = False
) -> tuple[Tensor, Tensor]:
    """Maxima of windows that divide a volume into output_size parts, and their places.

    >>> y, at = tocha.nn.functional.adaptive_max_pool3d_with_indices(tocha.ones(1, 4, 5, 6), 2)
    >>> y.shape, at.shape
    (tocha.Size([1, 2, 2, 2]), tocha.Size([1, 2, 2, 2]))
    """
    return _nn.adaptive_max_pool3d(input, _full_size(input, output_size, 3))


def _chosen(pair: tuple[Tensor, Tensor], return_indices: bool) -> Tensor | tuple[Tensor, Tensor]:
    return pair if return_indices else pair[0]


def adaptive_max_pool1d(
    input: Tensor, output_size: Ints, return_indices: bool = False
) -> Tensor | tuple[Tensor, Tensor]:
    """Maxima of windows that divide a signal into output_size parts.

    >>> tocha.nn.functional.adaptive_max_pool1d(tocha.tensor([[1.0, 5.0, 3.0, 4.0]]), 2)
    tensor([[5., 4.]])
    """
    return _chosen(adaptive_max_pool1d_with_indices(input, output_size), return_indices)


def adaptive_max_pool2d(
    input: Tensor, output_size: Sizes, return_indices: bool = False
) -> Tensor | tuple[Tensor, Tensor]:
    """Maxima of windows that divide a picture into output_size parts.

    >>> tocha.nn.functional.adaptive_max_pool2d(tocha.arange(16.0).view(1, 4, 4), 2)
    tensor([[[ 5.,  7.],
             [13., 15.]]])
    """
    return _chosen(adaptive_max_pool2d_with_indices(input, output_size), return_indices)


def adaptive_max_pool3d(
    input: Tensor, output_size: Sizes, return_indices: bool = False
) -> Tensor | tuple[Tensor, Tensor]:
    """Maxima of windows that divide a volume into output_size parts.

    >>> tocha.nn.functional.adaptive_max_pool3d(tocha.ones(1, 4, 5, 6), 2).shape
    tocha.Size([1, 2, 2, 2])
    """
    return _chosen(adaptive_max_pool3d_with_indices(input, output_size), return_indices)


# -- windows at random places ------------------------------------------------------------------------


def _fractional(
    pool: Callable,
    dims: int,
    input: Tensor,
    kernel_size: Ints,
    output_size: Ints | None,
    output_ratio: float | Sequence[float] | None,
    samples: Tensor | None,
) -> tuple[Tensor, Tensor]:
    name = f"fractional_max_pool{dims}d"
    if output_size is None:
        if output_ratio is None:
            raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
        ratios = [output_ratio] * dims if isinstance(output_ratio, int | float) else list(output_ratio)
        if len(ratios) != dims:
            raise ValueError(
                f"{name} requires output_ratio to either be a single Int or tuple of Ints. It needs {dims} numbers, got {output_ratio}"
            )
        output_size = [int(n * r) for n, r in zip(input.shape[-dims:], ratios, strict=True)]
    if samples is None:
        batch = 1 if input.dim() == dims + 1 else input.size(0)
        samples = _C.rand(batch, input.size(-dims - 1), dims, dtype=input.dtype, device=input.device)
    return pool(input, kernel_size, output_size, samples)


def fractional_max_pool2d_with_indices(
    input: Tensor,
    kernel_size: Ints,
    output_size: Ints | None = None,
    output_ratio: float | Sequence[float] | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Maxima of output_size windows at random distances, and their places in the plane.

    >>> y, at = tocha.nn.functional.fractional_max_pool2d_with_indices(tocha.ones(1, 8, 8), 2, output_size=3)
    >>> y.shape, at.shape
    (tocha.Size([1, 3, 3]), tocha.Size([1, 3, 3]))
    """
    return _fractional(_nn.fractional_max_pool2d, 2, input, kernel_size, output_size, output_ratio, _random_samples)


def fractional_max_pool3d_with_indices(
    input: Tensor,
    kernel_size: Ints,
    output_size: Ints | None = None,
    output_ratio: float | Sequence[float] | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Maxima of output_size windows at random distances, and their places in the volume.

    >>> y, at = tocha.nn.functional.fractional_max_pool3d_with_indices(tocha.ones(1, 8, 8, 8), 2, output_size=3)
    >>> y.shape, at.shape
    (tocha.Size([1, 3, 3, 3]), tocha.Size([1, 3, 3, 3]))
    """
    return _fractional(_nn.fractional_max_pool3d, 3, input, kernel_size, output_size, output_ratio, _random_samples)


def fractional_max_pool2d(
    input: Tensor,
    kernel_size: Ints,
    output_size: Ints | None = None,
    output_ratio: float | Sequence[float] | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Tensor | tuple[Tensor, Tensor]:
    """Maxima of output_size (or output_ratio times the size) windows at random distances.

    >>> tocha.nn.functional.fractional_max_pool2d(tocha.ones(1, 8, 8), 2, output_size=3).shape
    tocha.Size([1, 3, 3])
    """
    pair = fractional_max_pool2d_with_indices(
        input, kernel_size, output_size, output_ratio, _random_samples=_random_samples
    )
    return _chosen(pair, return_indices)


def fractional_max_pool3d(
    input: Tensor,
    kernel_size: Ints,
    output_size: Ints | None = None,
    output_ratio: float | Sequence[float] | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Tensor | tuple[Tensor, Tensor]:
    """Maxima of output_size (or output_ratio times the size) windows at random distances in a volume.

    >>> tocha.nn.functional.fractional_max_pool3d(tocha.ones(1, 8, 8, 8), 2, output_size=3).shape
    tocha.Size([1, 3, 3, 3])
    """
    pair = fractional_max_pool3d_with_indices(
        input, kernel_size, output_size, output_ratio, _random_samples=_random_samples
    )
    return _chosen(pair, return_indices)


# -- power averages ----------------------------------------------------------------------------------


def _lp_pool(
    input: Tensor, norm_type: float, kernel_size: Ints, stride: Ints | None, ceil_mode: bool, dims: int
) -> Tensor:
    """The windows' sums of powers, made from averages; what a power leaves negative keeps its sign. Norms without end are extremes."""
    if norm_type in (math.inf, -math.inf):
        largest = (_C.max_pool1d, _C.max_pool2d, _C.max_pool3d)[dims - 1]
        magnitudes = input.abs() if norm_type > 0 else -input.abs()
        found = largest(magnitudes, kernel_size, stride, 0, 1, ceil_mode)
        return found if norm_type > 0 else -found
    mean = (_C.avg_pool1d, _nn.avg_pool2d, _nn.avg_pool3d)[dims - 1](
        input.pow(norm_type), kernel_size, stride, 0, ceil_mode
    )
    return (mean.sign() * mean.abs().relu()).mul(_places(kernel_size, dims)).pow(1.0 / norm_type)


def _places(kernel_size: Ints, dims: int) -> int:
    sizes = [kernel_size] * dims if isinstance(kernel_size, (int, SymInt)) else list(kernel_size)
    total = 1
    for s in sizes:
        total *= s
    return total


def lp_pool1d(
    input: Tensor, norm_type: float, kernel_size: int, stride: Ints | None = None, ceil_mode: bool = False
) -> Tensor:
    """The norm_type-norm of each window of a signal.

    >>> import tocha
    >>> lp_pool1d(tocha.tensor([[3.0, 4.0]]), 2, 2)
    tensor([[5.]])
    """
    return _lp_pool(input, norm_type, kernel_size, stride, ceil_mode, 1)


def lp_pool2d(
    input: Tensor, norm_type: float, kernel_size: Ints, stride: Ints | None = None, ceil_mode: bool = False
) -> Tensor:
    """The norm_type-norm of each window of a picture.

    >>> tocha.nn.functional.lp_pool2d(tocha.ones(1, 2, 4), 2.0, 2)
    tensor([[[2., 2.]]])
    """
    return _lp_pool(input, norm_type, kernel_size, stride, ceil_mode, 2)


def lp_pool3d(
    input: Tensor, norm_type: float, kernel_size: Ints, stride: Ints | None = None, ceil_mode: bool = False
) -> Tensor:
    """The norm_type-norm of each window of a volume.

    >>> tocha.nn.functional.lp_pool3d(tocha.ones(1, 2, 2, 4), 2.0, 2).shape
    tocha.Size([1, 1, 1, 2])
    """
    return _lp_pool(input, norm_type, kernel_size, stride, ceil_mode, 3)


# -- the way back ------------------------------------------------------------------------------------


def _per_dim(value: Ints, dims: int) -> list[int]:
    return [value] * dims if isinstance(value, (int, SymInt)) else list(value)


def _unpooled_size(
    input: Tensor, kernel: list[int], stride: list[int], padding: list[int], output_size: Sequence[int] | None
) -> list[int]:
    """The size that pooling came from: the smallest that fits, or one that is given and near it."""
    dims = len(kernel)
    smallest = [
        (n - 1) * s + k - 2 * p for n, k, s, p in zip(input.shape[-dims:], kernel, stride, padding, strict=True)
    ]
    if output_size is None:
        return smallest
    wanted = list(output_size)
    if len(wanted) not in (dims, dims + 2):
        raise ValueError(
            f"output_size should be a sequence containing {dims} or {dims + 2} elements, but it has a length of '{len(wanted)}'"
        )
    wanted = wanted[-dims:]
    for d, (size, near, s) in enumerate(zip(wanted, smallest, stride, strict=True)):
        if not near - s < size < near + s:
            raise ValueError(f'invalid output_size "{wanted}" (dim {d} must be between {near - s} and {near + s})')
    return wanted


def max_unpool1d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """What max_pool1d left of a signal, back where it stood among zeros.

    >>> import tocha
    >>> x = tocha.tensor([[1.0, 5.0, 2.0, 3.0]])
    >>> max_unpool1d(*max_pool1d(x, 2, return_indices=True), 2)
    tensor([[0., 5., 0., 3.]])
    """
    kernel = _per_dim(kernel_size, 1)
    step = kernel if stride is None else _per_dim(stride, 1)
    size = _unpooled_size(input, kernel, step, _per_dim(padding, 1), output_size)
    return _nn.max_unpool2d(input.unsqueeze(-1), indices.unsqueeze(-1), [*size, 1]).squeeze(-1)


def max_unpool2d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """What max_pool2d left of a picture, back where it stood among zeros.

    >>> tocha.nn.functional.max_unpool2d(tocha.tensor([[[3.0]]]), tocha.tensor([[[3]]]), 2)
    tensor([[[0., 0.],
             [0., 3.]]])
    """
    kernel = _per_dim(kernel_size, 2)
    step = kernel if stride is None else _per_dim(stride, 2)
    return _nn.max_unpool2d(input, indices, _unpooled_size(input, kernel, step, _per_dim(padding, 2), output_size))


def max_unpool3d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """What max_pool3d left of a volume, back where it stood among zeros.

    >>> tocha.nn.functional.max_unpool3d(tocha.tensor([[[[3.0]]]]), tocha.tensor([[[[7]]]]), 2).flatten()
    tensor([0., 0., 0., 0., 0., 0., 0., 3.])
    """
    kernel = _per_dim(kernel_size, 3)
    step = kernel if stride is None else _per_dim(stride, 3)
    pad = _per_dim(padding, 3)
    return _nn.max_unpool3d(input, indices, _unpooled_size(input, kernel, step, pad, output_size), step, pad)
