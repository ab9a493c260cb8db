"""The Weibull distribution."""

from __future__ import annotations

from typing import Any

import tocha
from tocha import Tensor
from tocha.distributions import constraints
from tocha.distributions.exponential import Exponential
from tocha.distributions.transformed_distribution import TransformedDistribution
from tocha.distributions.transforms import AffineTransform, PowerTransform
from tocha.distributions.utils import broadcast_all, euler_constant

__all__ = ["Weibull"]


class Weibull(TransformedDistribution):
    """Lifetimes of scale `scale`, with failures that grow rarer (`concentration` below 1) or more frequent (above).

    >>> from tocha.distributions import Weibull
    >>> Weibull(tocha.tensor(1.0), tocha.tensor([1.0, 2.0])).mean
    tensor([1.0000, 0.8862])
    """

    arg_constraints = {"scale": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive
    _batched = {"scale": 0, "concentration": 0, "concentration_reciprocal": 0}

    def __init__(self, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        self.concentration_reciprocal = self.concentration.reciprocal()
        base = Exponential(tocha.ones_like(self.scale), validate_args=validate_args)
        steps = [PowerTransform(exponent=self.concentration_reciprocal), AffineTransform(loc=0, scale=self.scale)]
        super().__init__(base, steps, validate_args=validate_args)

    def _expand_rest(self, new: Any, batch_shape: Any) -> None:
        new.base_dist = self.base_dist.expand(batch_shape)
        new.transforms = [
            PowerTransform(exponent=new.concentration_reciprocal),
            AffineTransform(loc=0, scale=new.scale),
        ]

    @property
    def mean(self) -> Tensor:
        return self.scale * tocha.exp(tocha.lgamma(1 + self.concentration_reciprocal))

    @property
    def mode(self) -> Tensor:
        k = self.concentration
        return self.scale * ((k - 1) / k) ** k.reciprocal()

    @property
    def variance(self) -> Tensor:
        k = self.concentration_reciprocal
        return self.scale.pow(2) * (tocha.exp(tocha.lgamma(1 + 2 * k)) - tocha.exp(2 * tocha.lgamma(1 + k)))

    def entropy(self) -> Tensor:
        k = self.concentration_reciprocal
        return euler_constant * (1 - k) + tocha.log(self.scale * k) + 1
