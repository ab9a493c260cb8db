"""The continuous Bernoulli distribution."""

from __future__ import annotations

import math
from typing import Any

import tocha
from tocha import Size, Tensor
from tocha.distributions import constraints
from tocha.distributions._odds import OddsParameters, only_one
from tocha.distributions.exp_family import ExponentialFamily
from tocha.distributions.utils import broadcast_all, clamp_probs
from tocha.nn.functional import binary_cross_entropy_with_logits

__all__ = ["ContinuousBernoulli"]


class ContinuousBernoulli(OddsParameters, ExponentialFamily):
    """Numbers in [0, 1] with density proportional to probs^x (1 - probs)^(1 - x) (Loaiza-Ganem and Cunningham 2019).

    Formulas divide by 1 - 2 probs; where probs lies between `lims`, their Taylor series at 1/2 stand in.

    >>> from tocha.distributions import ContinuousBernoulli
    >>> ContinuousBernoulli(tocha.tensor(0.5)).mean
    tensor(0.5000)
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True
    _mean_carrier_measure = 0
    _batched = {"probs": 0, "logits": 0}

    def __init__(
        self,
        probs: Any = None,
        logits: Any = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        self._given = only_one(type(self).__name__, probs, logits)
        (value,) = broadcast_all(logits if probs is None else probs)
        if probs is not None and validate_args is not None and not constraints.unit_interval.check(value).all():
            raise ValueError("[ContinuousBernoulli] The parameter probs has invalid values")
        self.__dict__[self._given] = value if probs is None else clamp_probs(value)
        self._lims = lims
        super().__init__(value.shape, validate_args=validate_args)

    def _expand_rest(self, new: Any, batch_shape: Size) -> None:
        super()._expand_rest(new, batch_shape)
        new._lims = self._lims

    def _outside_unstable_region(self) -> Tensor:
        return (self.probs <= self._lims[0]) | (self.probs > self._lims[1])

    def _cut_probs(self) -> Tensor:
        """probs, with a harmless value where the series are used."""
        return tocha.where(self._outside_unstable_region(), self.probs, self._lims[0])

    def _cont_bern_log_norm(self) -> Tensor:
        """log(2 artanh(1 - 2 p) / (1 - 2 p)): the logarithm of the normalizing constant."""
        p = self._cut_probs()
        away = tocha.log((tocha.log1p(-p) - tocha.log(p)).abs()) - tocha.log((1 - 2 * p).abs())
        x = (self.probs - 0.5).pow(2)
        return tocha.where(self._outside_unstable_region(), away, math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * x) * x)

    @property
    def mean(self) -> Tensor:
        p = self._cut_probs()
        away = p / (2.0 * p - 1.0) + 1.0 / (tocha.log1p(-p) - tocha.log(p))
        x = self.probs - 0.5
        series = 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * x.pow(2)) * x
        return tocha.where(self._outside_unstable_region(), away, series)

    @property
    def stddev(self) -> Tensor:
        return tocha.sqrt(self.variance)

    @property
    def variance(self) -> Tensor:
        p = self._cut_probs()
        away = p * (p - 1.0) / (1.0 - 2.0 * p).pow(2) + 1.0 / (tocha.log1p(-p) - tocha.log(p)).pow(2)
        x = (self.probs - 0.5).pow(2)
        series = 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * x) * x
        return tocha.where(self._outside_unstable_region(), away, series)

    def rsample(self, sample_shape: Any = Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return self.icdf(tocha.rand(shape, dtype=self.probs.dtype, device=self.probs.device))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        return -binary_cross_entropy_with_logits(logits, value, reduction="none") + self._cont_bern_log_norm()

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        p = self._cut_probs()
        away = (p.pow(value) * (1.0 - p).pow(1.0 - value) + p - 1.0) / (2.0 * p - 1.0)
        inside = tocha.where(self._outside_unstable_region(), away, value)
        return tocha.where(value <= 0.0, 0.0, tocha.where(value >= 1.0, 1.0, inside))

    def icdf(self, value: Tensor) -> Tensor:
        p = self._cut_probs()
        away = (tocha.log1p(-p + value * (2.0 * p - 1.0)) - tocha.log1p(-p)) / (tocha.log(p) - tocha.log1p(-p))
        return tocha.where(self._outside_unstable_region(), away, value)

    def entropy(self) -> Tensor:
        log_0, log_1 = tocha.log1p(-self.probs), tocha.log(self.probs)
        return self.mean * (log_0 - log_1) - self._cont_bern_log_norm() - log_0

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.logits,)

    def _log_normalizer(self, x: Tensor) -> Tensor:  # type: ignore[override]
        """log of (e^x - 1) / x, which is 1 at 0."""
        away = (x <= self._lims[0] - 0.5) | (x > self._lims[1] - 0.5)
        cut = tocha.where(away, x, self._lims[0] - 0.5)
        log_norm = tocha.log(tocha.expm1(cut).abs()) - tocha.log(cut.abs())
        return tocha.where(away, log_norm, 0.5 * x + x.pow(2) / 24.0 - x.pow(4) / 2880.0)
