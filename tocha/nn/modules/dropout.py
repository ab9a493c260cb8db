"""Dropout layers: active while training, the identity otherwise."""

from __future__ import annotations

from tocha import _C
from tocha.nn import functional as F
from tocha.nn.modules.module import Module
from tocha.nn.modules.utils import _arguments

Tensor = _C.Tensor

__all__ = ["AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout"]


class _DropoutNd(Module):
    """A layer that drops with probability p."""

    p: float
    inplace: bool

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if p < 0 or p > 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p = p
        self.inplace = inplace

    def extra_repr(self) -> str:
        return _arguments(self, "p", "inplace")


class Dropout(_DropoutNd):
    """Zeroes elements with probability p and scales the others by 1 / (1 - p).

    >>> import tocha
    >>> Dropout().eval()(tocha.ones(2))
    tensor([1., 1.])
    """

    def forward(self, input: Tensor) -> Tensor:
        """The input with elements dropped."""
        return F.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(_DropoutNd):
    """Drops whole channels of (N, C, L) or (C, L).

    >>> _ = tocha.manual_seed(0)
    >>> drop = tocha.nn.Dropout1d(0.5)
    >>> drop(tocha.ones(1, 4, 2))
    tensor([[[0., 0.],
             [0., 0.],
             [2., 2.],
             [0., 0.]]])
    >>> drop.eval()(tocha.ones(1, 1, 2))
    tensor([[[1., 1.]]])
    """

    def forward(self, input: Tensor) -> Tensor:
        """The input with channels dropped."""
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(_DropoutNd):
    """Drops whole channels of (N, C, H, W).

    >>> _ = tocha.manual_seed(0)
    >>> tocha.nn.Dropout2d(0.5)(tocha.ones(1, 4, 1, 2))[0, :, 0]
    tensor([[0., 0.],
            [0., 0.],
            [2., 2.],
            [0., 0.]])
    """

    def forward(self, input: Tensor) -> Tensor:
        """The input with channels dropped."""
        return F.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(_DropoutNd):
    """Drops whole channels of (N, C, D, H, W) or (C, D, H, W).

    >>> _ = tocha.manual_seed(0)
    >>> tocha.nn.Dropout3d(0.5)(tocha.ones(1, 4, 1, 1, 2))[0, :, 0, 0]
    tensor([[0., 0.],
            [0., 0.],
            [2., 2.],
            [0., 0.]])
    """

    def forward(self, input: Tensor) -> Tensor:
        """The input with channels dropped."""
        return F.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(_DropoutNd):
    """Dropout that keeps mean and variance of self-normalizing activations.

    >>> _ = tocha.manual_seed(0)
    >>> tocha.nn.AlphaDropout(0.5)(tocha.ones(4))
    tensor([-0.7792, -0.7792,  1.6656, -0.7792])
    """

    def forward(self, input: Tensor) -> Tensor:
        """The input with elements dropped."""
        return F.alpha_dropout(input, self.p, self.training)


class FeatureAlphaDropout(_DropoutNd):
    """AlphaDropout of whole channels.

    >>> _ = tocha.manual_seed(0)
    >>> tocha.nn.FeatureAlphaDropout(0.5)(tocha.ones(1, 4, 2))
    tensor([[[-0.7792, -0.7792],
             [-0.7792, -0.7792],
             [ 1.6656,  1.6656],
             [-0.7792, -0.7792]]])
    """

    def forward(self, input: Tensor) -> Tensor:
        """The input with channels dropped."""
        return F.feature_alpha_dropout(input, self.p, self.training)
