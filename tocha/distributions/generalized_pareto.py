"""The generalized Pareto distribution."""

from __future__ import annotations

from typing import Any

import tocha
from tocha import Size, Tensor
from tocha.distributions import constraints
from tocha.distributions.distribution import Distribution
from tocha.distributions.utils import broadcast_all

__all__ = ["GeneralizedPareto"]


class GeneralizedPareto(Distribution):
    """Excesses over a threshold `loc`, with tails that `concentration` makes heavy (positive), exponential (0) or bounded (negative).

    >>> from tocha.distributions import GeneralizedPareto
    >>> GeneralizedPareto(0.0, 1.0, tocha.tensor([-0.5, 0.0, 0.5])).cdf(tocha.tensor(1.0))
    tensor([0.7500, 0.6321, 0.5556])
    """

    arg_constraints = {
        "loc": constraints.real,
        "scale": constraints.positive,
        "concentration": constraints.real,
    }
    has_rsample = True
    _batched = {"loc": 0, "scale": 0, "concentration": 0}

    def __init__(self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        upper = tocha.where(self.concentration < 0, self.loc - self.scale / self.concentration, tocha.inf)
        return constraints.interval(self.loc, upper)

    @property
    def mean(self) -> Tensor:
        k = self.concentration
        return tocha.where(k < 1, self.loc + self.scale / (1 - k), tocha.inf)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        k = self.concentration
        return tocha.where(k < 0.5, self.scale**2 / ((1 - k) ** 2 * (1 - 2 * k)), tocha.inf)

    def rsample(self, sample_shape: Any = Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return self.icdf(tocha.rand(shape, dtype=self.loc.dtype, device=self.loc.device))

    def _z(self, x: Tensor) -> Tensor:
        return (x - self.loc) / self.scale

    def _shape_or_one(self) -> tuple[Tensor, Tensor]:
        """Where the shape is as good as 0 the exponential forms hold, and 1 stands in to keep the others finite."""
        exponential = tocha.isclose(self.concentration, tocha.zeros_like(self.concentration))
        return exponential, self.concentration.masked_fill(exponential, 1.0)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return self._log_power(value, 1) - self.scale.log()

    def _log_power(self, value: Tensor, extra: int) -> Tensor:
        """log (1 + k z)^(-1/k - extra), which becomes -z."""
        z = self._z(value)
        exponential, k = self._shape_or_one()
        return tocha.where(exponential, -z, -(1 / k + extra) * tocha.log1p(k * z))

    def log_survival_function(self, value: Tensor) -> Tensor:
        """The logarithm of the probability of greater values."""
        if self._validate_args:
            self._validate_sample(value)
        return self._log_power(value, 0)

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return 1 - tocha.exp(self._log_power(value, 0))

    def log_cdf(self, value: Tensor) -> Tensor:
        """The logarithm of cdf."""
        if self._validate_args:
            self._validate_sample(value)
        return tocha.log1p(-tocha.exp(self._log_power(value, 0)))

    def icdf(self, value: Tensor) -> Tensor:
        exponential, k = self._shape_or_one()
        survival = tocha.log1p(-value)
        return self.loc + self.scale * tocha.where(exponential, -survival, tocha.expm1(-k * survival) / k)

    def entropy(self) -> Tensor:
        return tocha.log(self.scale) + self.concentration + 1
