"""Parameters given as probabilities or as log odds: the other one is made when asked for."""

from __future__ import annotations

from typing import Any

from tocha import Size, Tensor
from tocha.distributions.utils import broadcast_all, lazy_property, logits_to_probs, probs_to_logits


def only_one(name: str, probs: Any, logits: Any) -> str:
    """Which of the two was given; refuses both and none."""
    if (probs is None) == (logits is None):
        raise ValueError(f"[{name}] Either `probs` or `logits` must be specified, but not both.")
    return "logits" if probs is None else "probs"


class OddsParameters:
    """`probs` and `logits` of a yes-or-no event, for a distribution to inherit."""

    _given: str

    def _set_odds(self, probs: Any, logits: Any) -> Size:
        """Stores the parameter that was given, and says the batch shape it means."""
        self._given = only_one(type(self).__name__, probs, logits)
        (value,) = broadcast_all(logits if probs is None else probs)
        self.__dict__[self._given] = value
        return value.shape

    def _expand_rest(self, new: Any, batch_shape: Size) -> None:
        new._given = self._given
        super()._expand_rest(new, batch_shape)  # type: ignore[misc]

    @lazy_property
    def logits(self) -> Tensor:
        """Log odds of the event 1."""
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self) -> Tensor:
        """Probability of the event 1."""
        return logits_to_probs(self.logits, is_binary=True)

    @property
    def _param(self) -> Tensor:
        return getattr(self, self._given)

    @property
    def param_shape(self) -> Size:
        """The shape of the parameter that was given."""
        return self._param.size()

    def _new(self, *args: Any, **kwargs: Any) -> Tensor:
        return self._param.new(*args, **kwargs)
