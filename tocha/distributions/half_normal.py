"""The half-normal distribution."""

from __future__ import annotations

import math
from typing import Any

from tocha import Tensor
from tocha.distributions._folded import Folded
from tocha.distributions.normal import Normal

__all__ = ["HalfNormal"]


class HalfNormal(Folded):
    """Absolute values of normal numbers with mean 0 and standard deviation `scale`.

    >>> from tocha.distributions import HalfNormal
    >>> HalfNormal(1.0).mean
    tensor(0.7979)
    """

    _batched = {}

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Normal(0, scale, validate_args=False), validate_args)

    @property
    def mean(self) -> Tensor:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Tensor:
        return self.scale.pow(2) * (1 - 2 / math.pi)
