"""The binomial distribution."""

from __future__ import annotations

from typing import Any

import tocha
from tocha import Size, Tensor
from tocha.distributions import constraints
from tocha.distributions._odds import OddsParameters, only_one
from tocha.distributions.distribution import Distribution
from tocha.distributions.utils import broadcast_all

__all__ = ["Binomial"]


def _clamp_by_zero(x: Tensor) -> Tensor:
    # The mean of x and |x|: like clamp(min=0), with slope 1/2 at 0.
    return (x.clamp(min=0) + x - x.clamp(max=0)) / 2


class Binomial(OddsParameters, Distribution):
    """How many of `total_count` trials succeed, each with probability `probs`.

    >>> from tocha.distributions import Binomial
    >>> Binomial(4, tocha.tensor([0.0, 0.5])).mean
    tensor([0., 2.])
    """

    arg_constraints = {
        "total_count": constraints.nonnegative_integer,
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    has_enumerate_support = True
    _batched = {"total_count": 0, "probs": 0, "logits": 0}

    def __init__(
        self, total_count: Any = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self._given = only_one(type(self).__name__, probs, logits)
        count, value = broadcast_all(total_count, logits if probs is None else probs)
        self.total_count = count.type_as(value)
        self.__dict__[self._given] = value
        super().__init__(value.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        return ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count)

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with tocha.no_grad():
            return tocha.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        n, logits = self.total_count, self.logits
        # n log(1 + e^logits), without overflow
        normalizer = n * _clamp_by_zero(logits) + n * tocha.log1p(tocha.exp(-logits.abs())) - tocha.lgamma(n + 1)
        return value * logits - tocha.lgamma(value + 1) - tocha.lgamma(n - value + 1) - normalizer

    def _one_count(self, method: str) -> int:
        count = int(self.total_count.max())
        if not self.total_count.min() == count:
            raise NotImplementedError(f"[Binomial] Inhomogeneous total count not supported by `{method}`.")
        return count

    def entropy(self) -> Tensor:
        self._one_count("entropy")
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(tocha.exp(log_prob) * log_prob).sum(0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        count, param = self._one_count("enumerate_support"), self._param
        values = tocha.arange(1 + count, dtype=param.dtype, device=param.device)
        values = values.view((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1, *self._batch_shape)) if expand else values
