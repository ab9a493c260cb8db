"""Exponential families: log p(x) = <t(x), theta> - F(theta) + k(x); their entropy follows from F."""

from __future__ import annotations

from typing import Any

import tocha
from tocha import Tensor
from tocha.distributions.distribution import Distribution

__all__ = ["ExponentialFamily"]


class ExponentialFamily(Distribution):
    """Distributions with natural parameters `_natural_params` and log normalizer `_log_normalizer`.

    Where a subclass has no formula of its own, the entropy is the Bregman form F - <theta, dF/dtheta> - E[k], with derivatives by autograd.

    >>> from tocha.distributions import Normal
    >>> isinstance(Normal(0.0, 1.0), ExponentialFamily)
    True
    """

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        raise NotImplementedError

    def _log_normalizer(self, *natural_params: Any) -> Tensor:
        raise NotImplementedError

    @property
    def _mean_carrier_measure(self) -> Any:
        """E[k(x)]."""
        raise NotImplementedError

    def entropy(self) -> Tensor:
        carrier = self._mean_carrier_measure
        natural = [p.detach().requires_grad_() for p in self._natural_params]
        with tocha.enable_grad():
            normalizer = self._log_normalizer(*natural)
            slopes = tocha.autograd.grad(normalizer.sum(), natural, create_graph=True)
        result = -carrier + normalizer
        for parameter, slope in zip(natural, slopes, strict=True):
            result = result - (parameter * slope).reshape(self._batch_shape + (-1,)).sum(-1)
        return result
