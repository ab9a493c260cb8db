"""The multinomial distribution."""

from __future__ import annotations

from typing import Any

import tocha
from tocha import Size, Tensor
from tocha.distributions import constraints
from tocha.distributions._categories import CategoryParameters
from tocha.distributions.binomial import Binomial
from tocha.distributions.categorical import Categorical
from tocha.distributions.distribution import Distribution
from tocha.distributions.utils import _size, broadcast_all

__all__ = ["Multinomial"]


class Multinomial(CategoryParameters, Distribution):
    """How often each category comes in `total_count` draws.

    >>> from tocha.distributions import Multinomial
    >>> Multinomial(4, tocha.tensor([0.25, 0.75])).mean
    tensor([1., 3.])
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    total_count: int
    _batched = {"_categorical": 0}

    def __init__(
        self,
        total_count: int = 1,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError(
                f"[Multinomial] inhomogeneous total_count is not supported: got {type(total_count).__name__}"
            )
        self.total_count = total_count
        self._categorical = Categorical(probs=probs, logits=logits)
        self._binomial = Binomial(total_count=total_count, probs=self.probs)
        shape = self._categorical.batch_shape
        super().__init__(shape, self._categorical.param_shape[-1:], validate_args=validate_args)

    def _expand_rest(self, new: Any, batch_shape: Size) -> None:
        new.total_count = self.total_count
        new._binomial = Binomial(total_count=self.total_count, probs=new.probs, validate_args=False)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:
        return constraints.multinomial(self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = Size()) -> Tensor:
        sample_shape = _size(sample_shape)
        drawn = self._categorical.sample(Size((self.total_count,)) + sample_shape).movedim(0, -1)
        counts = self.probs.new_zeros(self._extended_shape(sample_shape))
        return counts.scatter_add_(-1, drawn, tocha.ones_like(drawn, dtype=counts.dtype))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        logits = logits.masked_fill((value == 0) & (logits == -tocha.inf), 0)  # 0 draws of what never comes
        return tocha.lgamma(value.sum(-1) + 1) - tocha.lgamma(value + 1).sum(-1) + (logits * value).sum(-1)

    def entropy(self) -> Tensor:
        # The counts are binomial one by one, so E[log x_i!] needs only their probabilities.
        n = tocha.tensor(self.total_count, dtype=self.probs.dtype, device=self.probs.device)
        counts = self._binomial.enumerate_support(expand=False)[1:]
        expected = (tocha.exp(self._binomial.log_prob(counts)) * tocha.lgamma(counts + 1)).sum([0, -1])
        return n * self._categorical.entropy() - tocha.lgamma(n + 1) + expected
