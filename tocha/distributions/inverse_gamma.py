"""The inverse gamma distribution."""

from __future__ import annotations

from typing import Any

import tocha
from tocha import Tensor
from tocha.distributions import constraints
from tocha.distributions.gamma import Gamma
from tocha.distributions.transformed_distribution import TransformedDistribution
from tocha.distributions.transforms import PowerTransform

__all__ = ["InverseGamma"]


class InverseGamma(TransformedDistribution):
    """One over gamma numbers of shape `concentration` and `rate`.

    >>> from tocha.distributions import InverseGamma
    >>> InverseGamma(tocha.tensor([0.5, 3.0]), 2.0).mean
    tensor([inf, 1.])
    """

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.positive
    has_rsample = True
    _batched = {}

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        base = Gamma(concentration, rate, validate_args=validate_args)
        super().__init__(base, PowerTransform(-base.rate.new_ones(())), validate_args=validate_args)

    @property
    def concentration(self) -> Tensor:
        """The shape of the gamma distribution behind it."""
        return self.base_dist.concentration

    @property
    def rate(self) -> Tensor:
        """The rate of the gamma distribution behind it."""
        return self.base_dist.rate

    @property
    def mean(self) -> Tensor:
        return tocha.where(self.concentration > 1, self.rate / (self.concentration - 1), tocha.inf)

    @property
    def mode(self) -> Tensor:
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Tensor:
        a = self.concentration
        return tocha.where(a > 2, self.rate.square() / ((a - 1).square() * (a - 2)), tocha.inf)

    def entropy(self) -> Tensor:
        a = self.concentration
        return a + self.rate.log() + a.lgamma() - (1 + a) * a.digamma()
