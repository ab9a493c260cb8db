"""The negative binomial distribution."""

from __future__ import annotations

from typing import Any

import tocha
from tocha import Size, Tensor
from tocha.distributions import constraints
from tocha.distributions._odds import OddsParameters, only_one
from tocha.distributions.distribution import Distribution
from tocha.distributions.gamma import Gamma
from tocha.distributions.utils import broadcast_all, lazy_property
from tocha.nn.functional import logsigmoid

__all__ = ["NegativeBinomial"]


class NegativeBinomial(OddsParameters, Distribution):
    """How many trials succeed, each with probability `probs`, before `total_count` of them have failed.

    >>> from tocha.distributions import NegativeBinomial
    >>> NegativeBinomial(3, tocha.tensor(0.5)).mean
    tensor(3.)
    """

    arg_constraints = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer
    _batched = {"total_count": 0, "probs": 0, "logits": 0}

    def __init__(
        self, total_count: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self._given = only_one(type(self).__name__, probs, logits)
        count, value = broadcast_all(total_count, logits if probs is None else probs)
        self.total_count = count.type_as(value)
        self.__dict__[self._given] = value
        super().__init__(value.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.total_count * tocha.exp(self.logits)

    @property
    def mode(self) -> Tensor:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self) -> Tensor:
        return self.mean / tocha.sigmoid(-self.logits)

    @lazy_property
    def _gamma(self) -> Gamma:
        # A Poisson count whose rate is drawn from this is negative binomial.
        return Gamma(concentration=self.total_count, rate=tocha.exp(-self.logits), validate_args=False)

    def sample(self, sample_shape: Any = Size()) -> Tensor:
        with tocha.no_grad():
            return tocha.poisson(self._gamma.sample(sample_shape=sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        n, logits = self.total_count, self.logits
        weight = n * logsigmoid(-logits) + value * logsigmoid(logits)
        normalizer = -tocha.lgamma(n + value) + tocha.lgamma(1.0 + value) + tocha.lgamma(n)
        # Without failures to wait for there are no successes: both lgammas are infinite there.
        return weight - normalizer.masked_fill(n + value == 0.0, 0.0)
