"""Relaxed Bernoulli draws: numbers between 0 and 1 that gradients pass (Maddison et al. 2017)."""

from __future__ import annotations

from typing import Any

import tocha
from tocha import Size, Tensor
from tocha.distributions import constraints
from tocha.distributions._odds import OddsParameters
from tocha.distributions.distribution import Distribution
from tocha.distributions.transformed_distribution import TransformedDistribution
from tocha.distributions.transforms import SigmoidTransform
from tocha.distributions.utils import broadcast_all, clamp_probs

__all__ = ["LogitRelaxedBernoulli", "RelaxedBernoulli"]


class LogitRelaxedBernoulli(OddsParameters, Distribution):
    """The logit of a relaxed Bernoulli draw: logistic noise around `logits`, over `temperature`.

    >>> from tocha.distributions.relaxed_bernoulli import LogitRelaxedBernoulli
    >>> LogitRelaxedBernoulli(tocha.tensor(1.0), logits=tocha.tensor(0.0)).log_prob(tocha.tensor(0.0))
    tensor(-1.3863)
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.real
    _batched = {"probs": 0, "logits": 0}

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self.temperature = temperature
        super().__init__(self._set_odds(probs, logits), validate_args=validate_args)

    def _expand_rest(self, new: Any, batch_shape: Size) -> None:
        super()._expand_rest(new, batch_shape)
        new.temperature = self.temperature

    def rsample(self, sample_shape: Any = Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        probs = clamp_probs(self.probs.expand(shape))
        u = clamp_probs(tocha.rand(shape, dtype=probs.dtype, device=probs.device))
        return (u.log() - (-u).log1p() + probs.log() - (-probs).log1p()) / self.temperature

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        diff = logits - value.mul(self.temperature)
        return self.temperature.log() + diff - 2 * diff.exp().log1p()


class RelaxedBernoulli(TransformedDistribution):
    """Numbers in (0, 1) that go to Bernoulli draws as `temperature` goes to 0, with gradients through `rsample`.

    >>> from tocha.distributions import RelaxedBernoulli
    >>> RelaxedBernoulli(tocha.tensor(0.5), probs=tocha.tensor([0.1, 0.9])).rsample((3,)).shape
    tocha.Size([3, 2])
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True
    _batched = {}

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        base = LogitRelaxedBernoulli(temperature, probs, logits)
        super().__init__(base, SigmoidTransform(), validate_args=validate_args)

    @property
    def temperature(self) -> Tensor:
        """The temperature of the relaxation."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        """Log odds of 1."""
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        """Probability of 1."""
        return self.base_dist.probs
