"""The Pareto distribution (type 1)."""

from __future__ import annotations

from typing import Any

from tocha import Tensor
from tocha.distributions import constraints
from tocha.distributions.exponential import Exponential
from tocha.distributions.transformed_distribution import TransformedDistribution
from tocha.distributions.transforms import AffineTransform, ExpTransform
from tocha.distributions.utils import broadcast_all

__all__ = ["Pareto"]


class Pareto(TransformedDistribution):
    """Numbers from `scale` upwards whose tail falls as x^-alpha.

    >>> from tocha.distributions import Pareto
    >>> Pareto(1.0, tocha.tensor([1.0, 3.0])).mean
    tensor([   inf, 1.5000])
    """

    arg_constraints = {"alpha": constraints.positive, "scale": constraints.positive}
    _batched = {"scale": 0, "alpha": 0}

    def __init__(self, scale: Any, alpha: Any, validate_args: bool | None = None) -> None:
        self.scale, self.alpha = broadcast_all(scale, alpha)
        base = Exponential(self.alpha, validate_args=validate_args)
        super().__init__(base, [ExpTransform(), AffineTransform(loc=0, scale=self.scale)], validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        return constraints.greater_than_eq(self.scale)

    @property
    def mean(self) -> Tensor:
        a = self.alpha.clamp(min=1)  # infinite below
        return a * self.scale / (a - 1)

    @property
    def mode(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        a = self.alpha.clamp(min=2)  # infinite below
        return self.scale.pow(2) * a / ((a - 1).pow(2) * (a - 2))

    def entropy(self) -> Tensor:
        return (self.scale / self.alpha).log() + (1 + self.alpha.reciprocal())
