"""The Laplace distribution."""

from __future__ import annotations

import math
from typing import Any

import tocha
from tocha import Size, Tensor
from tocha.distributions import constraints
from tocha.distributions.distribution import Distribution
from tocha.distributions.utils import broadcast_all

__all__ = ["Laplace"]


class Laplace(Distribution):
    """Numbers around `loc` whose distance from it is exponential with mean `scale`.

    >>> from tocha.distributions import Laplace
    >>> Laplace(0.0, 1.0).log_prob(tocha.tensor([0.0, -2.0]))
    tensor([-0.6931, -2.6931])
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True
    _batched = {"loc": 0, "scale": 0}

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return 2 * self.scale.pow(2)

    @property
    def stddev(self) -> Tensor:
        return math.sqrt(2) * self.scale

    def rsample(self, sample_shape: Any = Size()) -> Tensor:
        # Uniform in (-1, 1): the sign chooses the side, the size the quantile of the distance.
        u = self.loc.new_empty(self._extended_shape(sample_shape)).uniform_(tocha.finfo(self.loc.dtype).eps - 1, 1)
        return self.loc - self.scale * u.sign() * tocha.log1p(-u.abs())

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return -tocha.log(2 * self.scale) - tocha.abs(value - self.loc) / self.scale

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        distance = value - self.loc
        return 0.5 - 0.5 * distance.sign() * tocha.expm1(-distance.abs() / self.scale)

    def icdf(self, value: Tensor) -> Tensor:
        side = value - 0.5
        return self.loc - self.scale * side.sign() * tocha.log1p(-2 * side.abs())

    def entropy(self) -> Tensor:
        return 1 + tocha.log(2 * self.scale)
