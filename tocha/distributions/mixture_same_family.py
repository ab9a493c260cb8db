"""Mixtures of distributions of one family."""

from __future__ import annotations

from typing import Any

import tocha
from tocha import Size, Tensor
from tocha.distributions import constraints
from tocha.distributions.categorical import Categorical
from tocha.distributions.distribution import Distribution
from tocha.distributions.utils import _size

__all__ = ["MixtureSameFamily"]


class MixtureSameFamily(Distribution):
    """A mixture: `mixture_distribution` (a Categorical) chooses among the last batch dim of `component_distribution`.

    >>> from tocha.distributions import Categorical, MixtureSameFamily, Normal
    >>> d = MixtureSameFamily(Categorical(tocha.ones(2)), Normal(tocha.tensor([-1.0, 1.0]), tocha.ones(2)))
    >>> d.mean, d.variance
    (tensor(0.), tensor(2.))
    """

    arg_constraints: Any = {}
    has_rsample = False
    _batched = {}

    def __init__(
        self, mixture_distribution: Any, component_distribution: Any, validate_args: bool | None = None
    ) -> None:
        self._mixture_distribution = mixture_distribution
        self._component_distribution = component_distribution
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(
                "[MixtureSameFamily] The Mixture distribution needs to be an  instance of torch.distributions.Categorical"
                f": got {type(mixture_distribution).__name__}"
            )
        if not isinstance(component_distribution, Distribution):
            raise ValueError(
                "[MixtureSameFamily] The Component distribution needs to be an instance of torch.distributions.Distribution"
                f": got {type(component_distribution).__name__}"
            )
        mixed, parts = mixture_distribution.batch_shape, component_distribution.batch_shape[:-1]
        for a, b in zip(reversed(mixed), reversed(parts), strict=False):
            if a != 1 and b != 1 and a != b:
                raise ValueError(
                    f"[MixtureSameFamily] `mixture_distribution.batch_shape` ({mixed}) is not compatible with "
                    f"`component_distribution.batch_shape`({parts})"
                )
        count = mixture_distribution.logits.shape[-1]
        components = component_distribution.batch_shape[-1]
        if count != components:
            raise ValueError(
                f"[MixtureSameFamily] `mixture_distribution component` ({count}) does not equal "
                f"`component_distribution.batch_shape[-1]` ({components})"
            )
        self._num_component = count
        event_shape = component_distribution.event_shape
        self._event_ndims = len(event_shape)
        super().__init__(parts, event_shape, validate_args=validate_args)

    def _expand_rest(self, new: Any, batch_shape: Size) -> None:
        new._component_distribution = self._component_distribution.expand(batch_shape + (self._num_component,))
        new._mixture_distribution = self._mixture_distribution.expand(batch_shape)
        new._num_component, new._event_ndims = self._num_component, self._event_ndims

    @constraints.dependent_property
    def support(self) -> Any:
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    @property
    def mixture_distribution(self) -> Categorical:
        """The distribution that chooses the component."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Distribution:
        """The components, along the last batch dim."""
        return self._component_distribution

    def _pad(self, x: Tensor) -> Tensor:
        """A value for every component."""
        return x.unsqueeze(-1 - self._event_ndims)

    def _pad_mixture_dimensions(self, x: Tensor) -> Tensor:
        """A tensor over (batch, component) with dims for the event."""
        missing = len(self._batch_shape) - len(self._mixture_distribution.batch_shape)
        shape = x.shape
        return x.reshape(shape[:-1] + (1,) * missing + shape[-1:] + (1,) * self._event_ndims)

    @property
    def mean(self) -> Tensor:
        probs = self._pad_mixture_dimensions(self._mixture_distribution.probs)
        return (probs * self._component_distribution.mean).sum(-1 - self._event_ndims)

    @property
    def variance(self) -> Tensor:
        # The variance within components plus that of their means.
        probs, parts = self._pad_mixture_dimensions(self._mixture_distribution.probs), self._component_distribution
        within = (probs * parts.variance).sum(-1 - self._event_ndims)
        between = (probs * (parts.mean - self._pad(self.mean)).pow(2.0)).sum(-1 - self._event_ndims)
        return within + between

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        parts = self._component_distribution.log_prob(self._pad(value))
        weights = tocha.log_softmax(self._mixture_distribution.logits, dim=-1)
        return tocha.logsumexp(parts + weights, dim=-1)

    def cdf(self, value: Tensor) -> Tensor:
        parts = self._component_distribution.cdf(self._pad(value))
        return (parts * self._mixture_distribution.probs).sum(-1)

    def sample(self, sample_shape: Any = Size()) -> Tensor:
        with tocha.no_grad():
            sample_shape = _size(sample_shape)
            chosen = self._mixture_distribution.sample(sample_shape)
            drawn = self._component_distribution.sample(sample_shape)
            dim = len(sample_shape) + len(self._batch_shape)
            missing = dim - chosen.dim()
            index = chosen.reshape(sample_shape + (1,) * missing + chosen.shape[len(sample_shape) :])
            index = index.reshape(index.shape + (1,) * (self._event_ndims + 1))
            index = index.expand(drawn.shape[:dim] + (1,) + self._event_shape)
            return drawn.gather(dim, index).squeeze(dim)

    def __repr__(self) -> str:
        return f"MixtureSameFamily(\n  {self._mixture_distribution},\n  {self._component_distribution})"
