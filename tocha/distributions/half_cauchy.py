"""The half-Cauchy distribution."""

from __future__ import annotations

import math
from typing import Any

import tocha
from tocha import Tensor
from tocha.distributions._folded import Folded
from tocha.distributions.cauchy import Cauchy

__all__ = ["HalfCauchy"]


class HalfCauchy(Folded):
    """Absolute values of Cauchy numbers around 0 with width `scale`.

    >>> from tocha.distributions import HalfCauchy
    >>> HalfCauchy(1.0).cdf(tocha.tensor(1.0))
    tensor(0.5000)
    """

    _batched = {}

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Cauchy(0, scale, validate_args=False), validate_args)

    @property
    def mean(self) -> Tensor:
        return tocha.full(self._extended_shape(), tocha.inf, dtype=self.scale.dtype, device=self.scale.device)

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        value = tocha.as_tensor(value, dtype=self.scale.dtype, device=self.scale.device)
        return (self.base_dist.log_prob(value) + math.log(2)).masked_fill(value < 0, -tocha.inf)
