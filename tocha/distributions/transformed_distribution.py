"""Distributions of transformed values."""

from __future__ import annotations

from typing import Any

import tocha
from tocha import Size, Tensor
from tocha.distributions import constraints
from tocha.distributions.distribution import Distribution
from tocha.distributions.independent import Independent
from tocha.distributions.transforms import ComposeTransform, Transform
from tocha.distributions.utils import _size, _sum_rightmost

__all__ = ["TransformedDistribution"]


class TransformedDistribution(Distribution):
    """What becomes of a base distribution's values when they pass through transforms, first to last.

    >>> from tocha.distributions import ExpTransform, Normal, TransformedDistribution
    >>> d = TransformedDistribution(Normal(0.0, 1.0), [ExpTransform()])
    >>> d.log_prob(tocha.tensor(1.0)), d.support
    (tensor(-0.9189), GreaterThan(lower_bound=0.0))
    """

    arg_constraints: Any = {}
    _batched = {}

    def __init__(self, base_distribution: Any, transforms: Any, validate_args: bool | None = None) -> None:
        if isinstance(transforms, Transform):
            self.transforms = [transforms]
        elif isinstance(transforms, list):
            if not all(isinstance(t, Transform) for t in transforms):
                raise ValueError(
                    f"[{type(self).__name__}] transforms must be a Transform or a list of Transforms: got {transforms}"
                )
            self.transforms = transforms
        else:
            raise ValueError(f"[{type(self).__name__}] transforms must be a Transform or list, but was {transforms}")
        base_shape = base_distribution.batch_shape + base_distribution.event_shape
        whole = ComposeTransform(self.transforms)
        if len(base_shape) < whole.domain.event_dim:
            raise ValueError(
                f"[{type(self).__name__}] base_distribution needs to have shape with size at least "
                f"{whole.domain.event_dim}, but got {base_shape}."
            )
        shape = _size(whole.forward_shape(base_shape))
        needed = _size(whole.inverse_shape(shape))  # parameters of transforms may be batches too
        if base_shape != needed:
            base_distribution = base_distribution.expand(needed[: len(needed) - len(base_distribution.event_shape)])
        joined = whole.domain.event_dim - len(base_distribution.event_shape)
        self.base_dist: Any = Independent(base_distribution, joined) if joined > 0 else base_distribution
        change = whole.codomain.event_dim - whole.domain.event_dim
        event_dim = max(whole.codomain.event_dim, len(self.base_dist.event_shape) + change)
        cut = len(shape) - event_dim
        super().__init__(shape[:cut], shape[cut:], validate_args=validate_args)

    def _expand_rest(self, new: Any, batch_shape: Size) -> None:
        new.transforms = self.transforms
        shape = batch_shape + self._event_shape
        for t in reversed(self.transforms):
            shape = _size(t.inverse_shape(shape))
        new.base_dist = self.base_dist.expand(shape[: len(shape) - len(self.base_dist.event_shape)])

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        return self.base_dist.has_rsample

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> Any:
        if not self.transforms:
            return self.base_dist.support
        support = self.transforms[-1].codomain
        joined = len(self._event_shape) - support.event_dim
        return constraints.independent(support, joined) if joined > 0 else support

    def sample(self, sample_shape: Any = Size()) -> Tensor:
        with tocha.no_grad():
            x = self.base_dist.sample(sample_shape)
            for t in self.transforms:
                x = t(x)
            return x

    def rsample(self, sample_shape: Any = Size()) -> Tensor:
        x = self.base_dist.rsample(sample_shape)
        for t in self.transforms:
            x = t(x)
        return x

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        event_dim, stretch, y = len(self._event_shape), None, value
        for t in reversed(self.transforms):
            x = t.inv(y)
            event_dim += t.domain.event_dim - t.codomain.event_dim
            part = _sum_rightmost(t.log_abs_det_jacobian(x, y), event_dim - t.domain.event_dim)
            stretch = part if stretch is None else stretch + part
            y = x
        base = _sum_rightmost(self.base_dist.log_prob(y), event_dim - len(self.base_dist.event_shape))
        return base if stretch is None else base - stretch

    def _monotonize_cdf(self, value: Tensor) -> Tensor:
        """Where the transforms turn the order of values round, probabilities count from the other end."""
        sign: Any = 1
        for t in self.transforms:
            sign = sign * t.sign
        return value if isinstance(sign, int) and sign == 1 else sign * (value - 0.5) + 0.5

    def cdf(self, value: Tensor) -> Tensor:
        for t in self.transforms[::-1]:
            value = t.inv(value)
        if self._validate_args:
            self.base_dist._validate_sample(value)
        return self._monotonize_cdf(self.base_dist.cdf(value))

    def icdf(self, value: Tensor) -> Tensor:
        value = self.base_dist.icdf(self._monotonize_cdf(value))
        for t in self.transforms:
            value = t(value)
        return value
