"""Cholesky factors of random correlation matrices."""

from __future__ import annotations

import math
from typing import Any

import tocha
from tocha import Size, Tensor
from tocha.distributions import constraints
from tocha.distributions.beta import Beta
from tocha.distributions.distribution import Distribution
from tocha.distributions.utils import broadcast_all

__all__ = ["LKJCholesky"]


class LKJCholesky(Distribution):
    """Cholesky factors of dim x dim correlation matrices with density det(M)^(concentration - 1) (Lewandowski, Kurowicka and Joe 2009).

    Matrices are drawn row by row by the onion method: a uniform direction, and a radius whose square is a Beta number.

    >>> from tocha.distributions import LKJCholesky
    >>> L = LKJCholesky(3, 0.5).sample()
    >>> tocha.allclose((L @ L.mT).diagonal(), tocha.ones(3))
    True
    """

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky
    _batched = {"concentration": 0}

    def __init__(self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None) -> None:
        if dim < 2:
            raise ValueError(
                f"[LKJCholesky] Expected dim to be an integer greater than or equal to 2. Found dim={dim}."
            )
        self.dim = dim
        event_shape = Size((dim, dim))
        (self.concentration,) = broadcast_all(concentration)
        self._beta = self._squared_radii(self.concentration)
        super().__init__(self.concentration.size(), event_shape, validate_args)

    def _squared_radii(self, concentration: Tensor) -> Beta:
        """What rows have below the diagonal: nothing in the first, then k / 2 of length against the rest of the matrix."""
        rows = tocha.arange(self.dim - 1, dtype=concentration.dtype, device=concentration.device)
        rows = tocha.cat([rows.new_zeros((1,)), rows])
        marginal = (concentration + 0.5 * (self.dim - 2)).unsqueeze(-1)
        return Beta(rows + 0.5, marginal - 0.5 * rows)

    def _expand_rest(self, new: Any, batch_shape: Size) -> None:
        new.dim = self.dim
        new._beta = self._beta.expand(batch_shape + (self.dim,))

    def sample(self, sample_shape: Any = Size()) -> Tensor:
        squares = self._beta.sample(sample_shape).unsqueeze(-1)
        shape = self._extended_shape(sample_shape)
        normal = tocha.randn(shape, dtype=squares.dtype, device=squares.device).tril(-1)
        direction = normal / normal.norm(dim=-1, keepdim=True)
        direction[..., 0, :].fill_(0.0)  # the first row is (1, 0, ..., 0)
        w = tocha.sqrt(squares) * direction
        left = (1 - w.pow(2).sum(-1)).clamp(min=tocha.finfo(w.dtype).tiny)
        return w + tocha.diag_embed(left.sqrt())

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        diagonal = value.diagonal(dim1=-1, dim2=-2)[..., 1:]
        order = tocha.arange(2, self.dim + 1, device=self.concentration.device)
        order = 2 * (self.concentration - 1).unsqueeze(-1) + self.dim - order
        below = self.dim - 1
        alpha = self.concentration + 0.5 * below
        normalizer = 0.5 * below * math.log(math.pi) + tocha.mvlgamma(alpha - 0.5, below) - tocha.lgamma(alpha) * below
        return (order * diagonal.log()).sum(-1) - normalizer
