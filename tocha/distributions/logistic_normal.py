"""The logistic-normal distribution."""

from __future__ import annotations

from typing import Any

from tocha import Tensor
from tocha.distributions import constraints
from tocha.distributions.normal import Normal
from tocha.distributions.transformed_distribution import TransformedDistribution
from tocha.distributions.transforms import StickBreakingTransform

__all__ = ["LogisticNormal"]


class LogisticNormal(TransformedDistribution):
    """Points of the simplex that stick breaking makes of independent normal numbers.

    >>> from tocha.distributions import LogisticNormal
    >>> LogisticNormal(tocha.zeros(3), tocha.ones(3)).sample().shape
    tocha.Size([4])
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.simplex
    has_rsample = True
    _batched = {}

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        if not base.batch_shape:
            base = base.expand([1])
        super().__init__(base, StickBreakingTransform(), validate_args=validate_args)

    @property
    def loc(self) -> Tensor:
        """Means of the normal numbers."""
        return self.base_dist.base_dist.loc

    @property
    def scale(self) -> Tensor:
        """Standard deviations of the normal numbers."""
        return self.base_dist.base_dist.scale
