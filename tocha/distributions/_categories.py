"""What distributions around a Categorical share: its parameters, and how they expand."""

from __future__ import annotations

from typing import Any

from tocha import Size, Tensor
from tocha.distributions.categorical import Categorical


class CategoryParameters:
    """`probs` and `logits` of the Categorical in `_categorical`, for a distribution to inherit."""

    _categorical: Categorical

    @property
    def _param(self) -> Tensor:
        return self._categorical._param

    @property
    def probs(self) -> Tensor:
        """Normalized probabilities."""
        return self._categorical.probs

    @property
    def logits(self) -> Tensor:
        """Normalized log probabilities."""
        return self._categorical.logits

    @property
    def param_shape(self) -> Size:
        """The shape of the parameter."""
        return self._categorical.param_shape

    def _new(self, *args: Any, **kwargs: Any) -> Tensor:
        return self._categorical._new(*args, **kwargs)
