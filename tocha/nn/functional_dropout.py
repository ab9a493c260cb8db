"""Dropout as torch.nn.functional has it: defaults, inplace, checks of shapes. The operators are in tocha/operators/dropout.py."""

from __future__ import annotations

import warnings
from collections.abc import Callable

from tocha import _C

Tensor = _C.Tensor

__all__ = [
    "alpha_dropout",
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "feature_alpha_dropout",
    "rrelu",
    "rrelu_",
]


def _check(p: float) -> None:
    if p < 0.0 or p > 1.0:
        raise ValueError(f"[dropout] dropout probability has to be between 0 and 1, but got {p}")


def _apply(function: Callable, in_place: Callable, input: Tensor, p: float, training: bool, inplace: bool) -> Tensor:
    return in_place(input, p, training) if inplace else function(input, p, training)


def _channels(input: Tensor, p: float, training: bool, inplace: bool, batched: bool) -> Tensor:
    """Drops whole channels; an input without a batch gets one for the call."""
    if batched:
        return _apply(_C.feature_dropout, _C.feature_dropout_, input, p, training, inplace)
    result = _apply(_C.feature_dropout, _C.feature_dropout_, input.unsqueeze(0), p, training, inplace)
    return input if inplace else result.squeeze(0)


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """When training, zeroes elements with probability p and scales the others by 1 / (1 - p).

    >>> import tocha
    >>> tocha.nn.functional.dropout(tocha.ones(3), training=False)
    tensor([1., 1., 1.])
    """
    _check(p)
    return _apply(_C.dropout, _C.dropout_, input, p, training, inplace)


def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Dropout that keeps mean and variance of self-normalizing activations.

    >>> _ = tocha.manual_seed(0)
    >>> tocha.nn.functional.alpha_dropout(tocha.ones(4), 0.5, training=True)
    tensor([-0.7792, -0.7792,  1.6656, -0.7792])
    """
    _check(p)
    return _apply(_C.alpha_dropout, _C.alpha_dropout_, input, p, training, inplace)


def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """alpha_dropout of whole channels.

    >>> _ = tocha.manual_seed(0)
    >>> tocha.nn.functional.feature_alpha_dropout(tocha.ones(1, 4, 2), 0.5, training=True)
    tensor([[[-0.7792, -0.7792],
             [-0.7792, -0.7792],
             [ 1.6656,  1.6656],
             [-0.7792, -0.7792]]])
    """
    _check(p)
    return _apply(_C.feature_alpha_dropout, _C.feature_alpha_dropout_, input, p, training, inplace)


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zeroes whole channels of (N, C, L) or (C, L).

    >>> _ = tocha.manual_seed(0)
    >>> tocha.nn.functional.dropout1d(tocha.ones(1, 4, 2), 0.5)
    tensor([[[0., 0.],
             [0., 0.],
             [2., 2.],
             [0., 0.]]])
    """
    _check(p)
    n = input.dim()
    if n not in (2, 3):
        raise RuntimeError(
            f"[dropout1d] Expected 2D or 3D input, (C, L) or (N, C, L), but received a {n}D input. For other shapes use dropout, dropout2d or dropout3d."
        )
    return _channels(input, p, training, inplace, n == 3)


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zeroes whole channels of (N, C, H, W).

    >>> _ = tocha.manual_seed(0)
    >>> tocha.nn.functional.dropout2d(tocha.ones(1, 4, 1, 2), 0.5)[0, :, 0]
    tensor([[0., 0.],
            [0., 0.],
            [2., 2.],
            [0., 0.]])
    """
    _check(p)
    n = input.dim()
    if n == 3:
        warnings.warn(
            "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout behavior is desired - "
            "input is interpreted as shape (N, C, L), where C is the channel dim. This behavior will change in a future "
            "release to interpret the input as one without a batch dimension, i.e. shape (C, H, W). To maintain the 1D "
            "channel-wise dropout behavior, please switch to using dropout1d instead.",
            stacklevel=2,
        )
    elif n != 4:
        warnings.warn(
            f"dropout2d: Received a {n}-D input to dropout2d, which is deprecated. Use dropout, or dropout1d and dropout3d for their shapes.",
            stacklevel=2,
        )
    return _channels(input, p, training, inplace, True)


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zeroes whole channels of (N, C, D, H, W) or (C, D, H, W).

    >>> _ = tocha.manual_seed(0)
    >>> tocha.nn.functional.dropout3d(tocha.ones(1, 4, 1, 1, 2), 0.5)[0, :, 0, 0]
    tensor([[0., 0.],
            [0., 0.],
            [2., 2.],
            [0., 0.]])
    """
    _check(p)
    n = input.dim()
    if n not in (4, 5):
        warnings.warn(
            f"dropout3d: Received a {n}-D input to dropout3d, which is deprecated. Use dropout, or dropout1d and dropout2d for their shapes.",
            stacklevel=2,
        )
    return _channels(input, p, training, inplace, n == 5)


def rrelu(
    input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False, inplace: bool = False
) -> Tensor:
    """input where positive, else input times a slope: random in [lower, upper) when training, else the middle.

    >>> tocha.nn.functional.rrelu(tocha.tensor([-1.0, 2.0]), 0.1, 0.3, training=False)
    tensor([-0.2000,  2.0000])
    """
    return (_C.rrelu_ if inplace else _C.rrelu)(input, lower, upper, training)


rrelu_ = _C.rrelu_
