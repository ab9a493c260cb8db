"""The half-Cauchy distribution."""

from __future__ import annotations

import math
from typing import Any

import tocha
from tocha import Tensor
from tocha.distributions import constraints
from tocha.distributions.cauchy import Cauchy
from tocha.distributions.transformed_distribution import TransformedDistribution
from tocha.distributions.transforms import AbsTransform

__all__ = ["HalfCauchy"]


class HalfCauchy(TransformedDistribution):
    """Absolute values of Cauchy numbers around 0 with width `scale`.

    >>> from tocha.distributions import HalfCauchy
    >>> HalfCauchy(1.0).cdf(tocha.tensor(1.0))
    tensor(0.5000)
    """

    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _batched = {}

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Cauchy(0, scale, validate_args=False), AbsTransform(), validate_args=validate_args)

    @property
    def scale(self) -> Tensor:
        """The width of the Cauchy distribution behind it."""
        return self.base_dist.scale

    @property
    def mean(self) -> Tensor:
        return tocha.full(self._extended_shape(), tocha.inf, dtype=self.scale.dtype, device=self.scale.device)

    @property
    def mode(self) -> Tensor:
        return tocha.zeros_like(self.scale)

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        value = tocha.as_tensor(value, dtype=self.scale.dtype, device=self.scale.device)
        return (self.base_dist.log_prob(value) + math.log(2)).masked_fill(value < 0, -tocha.inf)

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, value: Tensor) -> Tensor:
        return self.base_dist.icdf((value + 1) / 2)

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() - math.log(2)
