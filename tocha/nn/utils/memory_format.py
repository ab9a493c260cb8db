"""Convolution weights in another memory format, all through a module."""

from __future__ import annotations

from typing import Any

from tocha import _C

__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"]


def convert_conv2d_weight_memory_format(module: Any, memory_format: _C.memory_format) -> Any:
    """Converts the weights of all 2-d (transposed) convolutions in module, in place; returns it.

    >>> model = tocha.nn.utils.convert_conv2d_weight_memory_format(tocha.nn.Conv2d(8, 4, 3), tocha.channels_last)
    >>> model.weight.stride()
    (72, 1, 24, 8)
    """
    from tocha import nn

    return _convert(module, (nn.Conv2d, nn.ConvTranspose2d), memory_format)


def convert_conv3d_weight_memory_format(module: Any, memory_format: _C.memory_format) -> Any:
    """Converts the weights of all 3-d (transposed) convolutions in module, in place; returns it.

    >>> model = tocha.nn.utils.convert_conv3d_weight_memory_format(tocha.nn.Conv3d(8, 4, 3), tocha.channels_last_3d)
    >>> model.weight.is_contiguous(memory_format=tocha.channels_last_3d)
    True
    """
    from tocha import nn

    return _convert(module, (nn.Conv3d, nn.ConvTranspose3d), memory_format)


def _convert(module: Any, kinds: tuple, memory_format: _C.memory_format) -> Any:
    if isinstance(module, kinds):
        module.weight.data = module.weight.detach().clone().contiguous(memory_format=memory_format)
    for child in module.children():
        _convert(child, kinds, memory_format)
    return module
