"""The Kumaraswamy distribution."""

from __future__ import annotations

from typing import Any

import tocha
from tocha import Tensor
from tocha.distributions import constraints
from tocha.distributions.transformed_distribution import TransformedDistribution
from tocha.distributions.transforms import AffineTransform, PowerTransform
from tocha.distributions.uniform import Uniform
from tocha.distributions.utils import broadcast_all, euler_constant

__all__ = ["Kumaraswamy"]


def _moment(a: Tensor, b: Tensor, n: int) -> Tensor:
    """E[x^n] = b B(1 + n / a, b)."""
    first = 1 + n / a
    return b * tocha.exp(tocha.lgamma(first) + tocha.lgamma(b) - tocha.lgamma(first + b))


class Kumaraswamy(TransformedDistribution):
    """Numbers in (0, 1) with cdf 1 - (1 - x^concentration1)^concentration0: like Beta, with simpler formulas.

    >>> from tocha.distributions import Kumaraswamy
    >>> Kumaraswamy(1.0, 1.0).mean
    tensor(0.5000)
    """

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True
    _batched = {"concentration1": 0, "concentration0": 0}

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        base = Uniform(
            tocha.full_like(self.concentration0, 0),
            tocha.full_like(self.concentration0, 1),
            validate_args=validate_args,
        )
        steps = [
            PowerTransform(exponent=self.concentration0.reciprocal()),
            AffineTransform(loc=1.0, scale=-1.0),
            PowerTransform(exponent=self.concentration1.reciprocal()),
        ]
        super().__init__(base, steps, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return _moment(self.concentration1, self.concentration0, 1)

    @property
    def mode(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        mode = ((a - 1) / (a * b - 1)) ** (1 / a)
        return mode.masked_fill((a < 1) | (b < 1), tocha.nan)

    @property
    def variance(self) -> Tensor:
        return _moment(self.concentration1, self.concentration0, 2) - self.mean.pow(2)

    def entropy(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        harmonic = tocha.digamma(b + 1) + euler_constant
        return (1 - 1 / b) + (1 - 1 / a) * harmonic - tocha.log(a) - tocha.log(b)
