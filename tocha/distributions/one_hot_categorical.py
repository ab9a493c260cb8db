"""Categories as one-hot vectors."""

from __future__ import annotations

from typing import Any

import tocha
from tocha import Size, Tensor
from tocha.distributions import constraints
from tocha.distributions._categories import CategoryParameters
from tocha.distributions.categorical import Categorical
from tocha.distributions.distribution import Distribution
from tocha.nn.functional import one_hot

__all__ = ["OneHotCategorical", "OneHotCategoricalStraightThrough"]


class OneHotCategorical(CategoryParameters, Distribution):
    """One of n categories as a vector with a single 1.

    >>> from tocha.distributions import OneHotCategorical
    >>> OneHotCategorical(tocha.tensor([0.0, 1.0])).sample()
    tensor([0., 1.])
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.one_hot
    has_enumerate_support = True
    _batched = {"_categorical": 0}

    def __init__(
        self, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None
    ) -> None:
        self._categorical = Categorical(probs, logits)
        shape = self._categorical.batch_shape
        super().__init__(shape, self._categorical.param_shape[-1:], validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        return self._vectors(self.probs.argmax(-1))

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def _vectors(self, indices: Tensor) -> Tensor:
        return one_hot(indices, self._categorical._num_events).to(self.probs)

    def sample(self, sample_shape: Any = Size()) -> Tensor:
        return self._vectors(self._categorical.sample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return self._categorical.log_prob(value.argmax(-1))

    def entropy(self) -> Tensor:
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        n = self._event_shape[0]
        values = tocha.eye(n, dtype=self._param.dtype, device=self._param.device)
        values = values.view((n,) + (1,) * len(self._batch_shape) + (n,))
        return values.expand((n, *self._batch_shape, n)) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """One-hot draws through which gradients reach the probabilities as if the draw were those (Bengio et al. 2013).

    >>> from tocha.distributions import OneHotCategoricalStraightThrough
    >>> probs = tocha.tensor([0.5, 0.5], requires_grad=True)
    >>> OneHotCategoricalStraightThrough(probs).rsample().requires_grad
    True
    """

    has_rsample = True

    def rsample(self, sample_shape: Any = Size()) -> Tensor:
        samples, probs = self.sample(sample_shape), self._categorical.probs
        return samples + (probs - probs.detach())
