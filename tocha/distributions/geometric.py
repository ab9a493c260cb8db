"""The geometric distribution: failures before the first success."""

from __future__ import annotations

from typing import Any

import tocha
from tocha import Size, Tensor
from tocha.distributions import constraints
from tocha.distributions._odds import OddsParameters
from tocha.distributions.distribution import Distribution
from tocha.distributions.utils import _all_hold, broadcast_all
from tocha.nn.functional import binary_cross_entropy_with_logits

__all__ = ["Geometric"]


class Geometric(OddsParameters, Distribution):
    """How many trials of probability `probs` fail before the first succeeds: 0, 1, 2, ...

    >>> from tocha.distributions import Geometric
    >>> Geometric(tocha.tensor(0.25)).mean
    tensor(3.)
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.nonnegative_integer
    _batched = {"probs": 0, "logits": 0}

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        super().__init__(self._set_odds(probs, logits), validate_args=validate_args)
        if self._validate_args and probs is not None:
            value = self.probs
            if not _all_hold(value > 0):
                raise ValueError(
                    f"[Geometric] Expected parameter probs ({type(value).__name__} of shape {tuple(value.shape)}) of "
                    f"distribution {self!r} to be positive but found invalid values:\n{value[value <= 0]}"
                )

    @property
    def mean(self) -> Tensor:
        return 1.0 / self.probs - 1.0

    @property
    def mode(self) -> Tensor:
        return tocha.zeros_like(self.probs)

    @property
    def variance(self) -> Tensor:
        return (1.0 / self.probs - 1.0) / self.probs

    def sample(self, sample_shape: Any = Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with tocha.no_grad():
            u = self.probs.new_empty(shape).uniform_(tocha.finfo(self.probs.dtype).tiny, 1)
            return (u.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        value, probs = broadcast_all(value, self.probs)
        # 0 * log(1 - 1) counts as 0.
        failures = (-tocha.where((probs == 1) & (value == 0), 0, probs)).log1p()
        return value * failures + self.probs.log()

    def entropy(self) -> Tensor:
        return binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none") / self.probs
