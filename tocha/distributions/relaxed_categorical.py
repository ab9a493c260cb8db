"""Relaxed one-hot draws: points of the simplex that gradients pass (Maddison et al. 2017, Jang et al. 2017)."""

from __future__ import annotations

from typing import Any

import tocha
from tocha import Size, Tensor
from tocha.distributions import constraints
from tocha.distributions._categories import CategoryParameters
from tocha.distributions.categorical import Categorical
from tocha.distributions.distribution import Distribution
from tocha.distributions.transformed_distribution import TransformedDistribution
from tocha.distributions.transforms import ExpTransform
from tocha.distributions.utils import broadcast_all, clamp_probs

__all__ = ["ExpRelaxedCategorical", "RelaxedOneHotCategorical"]


class ExpRelaxedCategorical(CategoryParameters, Distribution):
    """The logarithm of a relaxed one-hot draw: log softmax of logits with Gumbel noise, over `temperature`.

    >>> from tocha.distributions.relaxed_categorical import ExpRelaxedCategorical
    >>> ExpRelaxedCategorical(tocha.tensor(1.0), tocha.ones(3)).rsample().shape
    tocha.Size([3])
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.real_vector  # in truth the surface in it where exponentials sum to 1
    has_rsample = True
    _batched = {"_categorical": 0}

    def __init__(
        self,
        temperature: Any,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._categorical = Categorical(probs, logits)
        self.temperature = temperature
        shape = self._categorical.batch_shape
        super().__init__(shape, self._categorical.param_shape[-1:], validate_args=validate_args)

    def _expand_rest(self, new: Any, batch_shape: Size) -> None:
        new.temperature = self.temperature

    def rsample(self, sample_shape: Any = Size()) -> Tensor:
        logits = self.logits
        shape = self._extended_shape(sample_shape)
        u = clamp_probs(tocha.rand(shape, dtype=logits.dtype, device=logits.device))
        scores = (logits - (-u.log()).log()) / self.temperature
        return scores - scores.logsumexp(dim=-1, keepdim=True)

    def log_prob(self, value: Tensor) -> Tensor:
        k = self._categorical._num_events
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        log_scale = tocha.full_like(self.temperature, float(k)).lgamma() + (k - 1) * self.temperature.log()
        score = logits - value.mul(self.temperature)
        return (score - score.logsumexp(dim=-1, keepdim=True)).sum(-1) + log_scale


class RelaxedOneHotCategorical(TransformedDistribution):
    """Points of the simplex that go to one-hot draws as `temperature` goes to 0, with gradients through `rsample`.

    >>> from tocha.distributions import RelaxedOneHotCategorical
    >>> RelaxedOneHotCategorical(tocha.tensor(0.5), tocha.ones(3)).rsample().sum()
    tensor(1.)
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.simplex
    has_rsample = True
    _batched = {}

    def __init__(
        self,
        temperature: Any,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    @property
    def temperature(self) -> Tensor:
        """The temperature of the relaxation."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        """Normalized log probabilities."""
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        """Normalized probabilities."""
        return self.base_dist.probs
