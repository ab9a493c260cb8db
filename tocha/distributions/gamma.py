"""The gamma distribution."""

from __future__ import annotations

from typing import Any

import tocha
from tocha import Size, Tensor
from tocha.distributions import constraints
from tocha.distributions.exp_family import ExponentialFamily
from tocha.distributions.utils import broadcast_all, special

__all__ = ["Gamma"]


class Gamma(ExponentialFamily):
    """Gamma numbers of shape `concentration` and `rate`; gradients reach both through `rsample`.

    >>> from tocha.distributions import Gamma
    >>> Gamma(tocha.tensor([1.0, 2.0]), 2.0).mean
    tensor([0.5000, 1.0000])
    """

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0
    _batched = {"concentration": 0, "rate": 0}

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.concentration.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Tensor:
        return self.concentration / self.rate.pow(2)

    def rsample(self, sample_shape: Any = Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        value = tocha._C._standard_gamma(self.concentration.expand(shape)) / self.rate.expand(shape)
        value.detach().clamp_(min=tocha.finfo(value.dtype).tiny)  # no zeros, and the slope there is not cut off
        return value

    def log_prob(self, value: Tensor) -> Tensor:
        value = tocha.as_tensor(value, dtype=self.rate.dtype, device=self.rate.device)
        if self._validate_args:
            self._validate_sample(value)
        a, rate = self.concentration, self.rate
        return tocha.xlogy(a, rate) + tocha.xlogy(a - 1, value) - rate * value - tocha.lgamma(a)

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return special.gammainc(self.concentration, self.rate * value)

    def entropy(self) -> Tensor:
        a = self.concentration
        return a - tocha.log(self.rate) + tocha.lgamma(a) + (1.0 - a) * tocha.digamma(a)

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return self.concentration - 1, -self.rate

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:  # type: ignore[override]
        return tocha.lgamma(x + 1) + (x + 1) * tocha.log(-y.reciprocal())
