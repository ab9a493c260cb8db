"""The Dirichlet distribution."""

from __future__ import annotations

from typing import Any

import tocha
from tocha import Tensor
from tocha.distributions import constraints
from tocha.distributions.exp_family import ExponentialFamily
from tocha.nn.functional import one_hot

__all__ = ["Dirichlet"]


class Dirichlet(ExponentialFamily):
    """Points of the simplex along the last dim, with `concentration`; gradients reach it through `rsample`.

    >>> from tocha.distributions import Dirichlet
    >>> Dirichlet(tocha.tensor([1.0, 3.0])).mean
    tensor([0.2500, 0.7500])
    """

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True
    _batched = {"concentration": 1}

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        if concentration.dim() < 1:
            raise ValueError("[Dirichlet] `concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        shape = concentration.shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self) -> Tensor:
        above = (self.concentration - 1).clamp(min=0.0)
        mode = above / above.sum(-1, True)
        # All below 1: the density is infinite at every corner, and the first stands for them.
        corner = one_hot(tocha.zeros_like(mode[..., 0], dtype=tocha.int64), mode.shape[-1]).to(mode)
        return tocha.where((self.concentration < 1).all(-1, True), corner, mode)

    @property
    def variance(self) -> Tensor:
        total = self.concentration.sum(-1, True)
        return self.concentration * (total - self.concentration) / (total.pow(2) * (total + 1))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return tocha._C._sample_dirichlet(self.concentration.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return self._log_density(value)

    def _log_density(self, value: Tensor) -> Tensor:
        a = self.concentration
        return tocha.xlogy(a - 1.0, value).sum(-1) + tocha.lgamma(a.sum(-1)) - tocha.lgamma(a).sum(-1)

    def entropy(self) -> Tensor:
        a, k = self.concentration, self.concentration.size(-1)
        total = a.sum(-1)
        return (
            tocha.lgamma(a).sum(-1)
            - tocha.lgamma(total)
            - (k - total) * tocha.digamma(total)
            - ((a - 1.0) * tocha.digamma(a)).sum(-1)
        )

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.concentration,)

    def _log_normalizer(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return x.lgamma().sum(-1) - tocha.lgamma(x.sum(-1))
