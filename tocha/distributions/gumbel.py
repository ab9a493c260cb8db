"""The Gumbel distribution."""

from __future__ import annotations

import math
from typing import Any

import tocha
from tocha import Tensor
from tocha.distributions import constraints
from tocha.distributions.transformed_distribution import TransformedDistribution
from tocha.distributions.transforms import AffineTransform, ExpTransform
from tocha.distributions.uniform import Uniform
from tocha.distributions.utils import broadcast_all, euler_constant

__all__ = ["Gumbel"]


class Gumbel(TransformedDistribution):
    """The greatest of many numbers: loc - scale * log(-log(u)) of a uniform u.

    >>> from tocha.distributions import Gumbel
    >>> Gumbel(0.0, 1.0).mean
    tensor(0.5772)
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    _batched = {"loc": 0, "scale": 0}

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        limits = tocha.finfo(self.loc.dtype)
        if isinstance(loc, (int, float)) and isinstance(scale, (int, float)):
            base = Uniform(limits.tiny, 1 - limits.eps, validate_args=validate_args)
        else:
            base = Uniform(
                tocha.full_like(self.loc, limits.tiny),
                tocha.full_like(self.loc, 1 - limits.eps),
                validate_args=validate_args,
            )
        steps = [
            ExpTransform().inv,
            AffineTransform(loc=0, scale=-tocha.ones_like(self.scale)),
            ExpTransform().inv,
            AffineTransform(loc=self.loc, scale=-self.scale),
        ]
        super().__init__(base, steps, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.loc + self.scale * euler_constant

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def stddev(self) -> Tensor:
        return math.pi / math.sqrt(6) * self.scale

    @property
    def variance(self) -> Tensor:
        return self.stddev.pow(2)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        y = (self.loc - value) / self.scale
        return (y - y.exp()) - self.scale.log()

    def entropy(self) -> Tensor:
        return self.scale.log() + (1 + euler_constant)
