"""The categorical distribution."""

from __future__ import annotations

from typing import Any

import tocha
from tocha import Size, Tensor
from tocha.distributions import constraints
from tocha.distributions._odds import only_one
from tocha.distributions.distribution import Distribution
from tocha.distributions.utils import _size, lazy_property, logits_to_probs, probs_to_logits

__all__ = ["Categorical"]


class Categorical(Distribution):
    """One of n categories 0, ..., n - 1, with probabilities (or log weights) along the last dim; they need not be normalized.

    >>> from tocha.distributions import Categorical
    >>> d = Categorical(tocha.tensor([1.0, 3.0]))
    >>> d.probs, d.log_prob(tocha.tensor(1))
    (tensor([0.2500, 0.7500]), tensor(-0.2877))
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True
    _batched = {"probs": 1, "logits": 1}

    def __init__(
        self, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None
    ) -> None:
        self._given = only_one(type(self).__name__, probs, logits)
        given: Any = logits if probs is None else probs
        if given.dim() < 1:
            raise ValueError(f"[{type(self).__name__}] `{self._given}` parameter must be at least one-dimensional.")
        if probs is None:
            self.logits = given - given.logsumexp(dim=-1, keepdim=True)
        else:
            self.probs = given / given.sum(-1, keepdim=True)
        self._num_events = given.shape[-1]
        super().__init__(given.shape[:-1], validate_args=validate_args)

    def _expand_rest(self, new: Any, batch_shape: Size) -> None:
        new._given, new._num_events = self._given, self._num_events

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self._num_events - 1)

    @lazy_property
    def logits(self) -> Tensor:
        """Normalized log probabilities."""
        return probs_to_logits(self.probs)

    @lazy_property
    def probs(self) -> Tensor:
        """Normalized probabilities."""
        return logits_to_probs(self.logits)

    @property
    def _param(self) -> Tensor:
        return getattr(self, self._given)

    @property
    def param_shape(self) -> Size:
        """The shape of the parameter."""
        return self._param.size()

    def _new(self, *args: Any, **kwargs: Any) -> Tensor:
        return self._param.new(*args, **kwargs)

    @property
    def mean(self) -> Tensor:
        return tocha.full(self._extended_shape(), tocha.nan, dtype=self.probs.dtype, device=self.probs.device)

    @property
    def mode(self) -> Tensor:
        return self.probs.argmax(dim=-1)

    @property
    def variance(self) -> Tensor:
        return self.mean

    def sample(self, sample_shape: Any = Size()) -> Tensor:
        sample_shape = _size(sample_shape)
        rows = self.probs.reshape(-1, self._num_events)
        drawn = tocha.multinomial(rows, sample_shape.numel(), True).T
        return drawn.reshape(self._extended_shape(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        index, logits = tocha.functional.broadcast_tensors(value.long().unsqueeze(-1), self.logits)
        return logits.gather(-1, index[..., :1]).squeeze(-1)

    def entropy(self) -> Tensor:
        # Categories of probability 0 have the logit -inf; 0 times a great number is 0.
        logits = tocha.clamp(self.logits, min=tocha.finfo(self.logits.dtype).min)
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        values = tocha.arange(self._num_events, dtype=tocha.int64, device=self._param.device)
        values = values.view((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1, *self._batch_shape)) if expand else values
