"""Student's t distribution."""

from __future__ import annotations

import math
from typing import Any

import tocha
from tocha import Size, Tensor
from tocha.distributions import constraints
from tocha.distributions.chi2 import Chi2
from tocha.distributions.distribution import Distribution
from tocha.distributions.utils import _standard_normal, broadcast_all

__all__ = ["StudentT"]


class StudentT(Distribution):
    """Student's t with `df` degrees of freedom, moved by `loc` and stretched by `scale`.

    >>> from tocha.distributions import StudentT
    >>> StudentT(tocha.tensor([1.0, 2.0, 4.0])).variance
    tensor([nan, inf, 2.])
    """

    arg_constraints = {"df": constraints.positive, "loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True
    _batched = {"df": 0, "loc": 0, "scale": 0, "_chi2": 0}

    def __init__(self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None) -> None:
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        self._chi2 = Chi2(self.df)
        super().__init__(self.df.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.loc.masked_fill(self.df <= 1, tocha.nan)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        df = self.df
        variance = self.scale.pow(2) * df / (df - 2)
        return variance.masked_fill(df <= 2, tocha.inf).masked_fill(df <= 1, tocha.nan)

    def rsample(self, sample_shape: Any = Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        normal = _standard_normal(shape, self.df.dtype, self.df.device)
        return self.loc + self.scale * (normal * tocha.rsqrt(self._chi2.rsample(sample_shape) / self.df))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        df = self.df
        y = (value - self.loc) / self.scale
        normalizer = (
            self.scale.log()
            + 0.5 * df.log()
            + 0.5 * math.log(math.pi)
            + tocha.lgamma(0.5 * df)
            - tocha.lgamma(0.5 * (df + 1.0))
        )
        return -0.5 * (df + 1.0) * tocha.log1p(y**2.0 / df) - normalizer

    def entropy(self) -> Tensor:
        df = self.df
        log_beta = tocha.lgamma(0.5 * df) + math.lgamma(0.5) - tocha.lgamma(0.5 * (df + 1))
        return (
            self.scale.log()
            + 0.5 * (df + 1) * (tocha.digamma(0.5 * (df + 1)) - tocha.digamma(0.5 * df))
            + 0.5 * df.log()
            + log_beta
        )
