"""ChannelShuffle: lets groups of channels mix."""

from __future__ import annotations

from tocha import _C
from tocha.nn import functional as F
from tocha.nn.modules.module import Module
from tocha.nn.modules.utils import _arguments

Tensor = _C.Tensor

__all__ = ["ChannelShuffle"]


class ChannelShuffle(Module):
    """Deals the channels of (N, C, *) out of their groups in turn: g groups of n become n groups of g.

    >>> tocha.nn.ChannelShuffle(2)(tocha.arange(4.0).view(1, 4, 1, 1)).flatten()
    tensor([0., 2., 1., 3.])
    """

    groups: int

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        """The input with its channels in the new order."""
        return F.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        return _arguments(self, "groups")
