"""Transforms of values: forward, inverse, and the logarithm of the Jacobian's determinant.

Transforms compose (`ComposeTransform`), run backward (`.inv`), join dims (`IndependentTransform`) and work on parts (`CatTransform`,
`StackTransform`). With cache_size=1 the last pair of values is kept, so that an inverse right after a call costs nothing and loses nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import tocha
from tocha import Size, Tensor
from tocha.distributions import constraints
from tocha.distributions._transform_base import (
    ComposeTransform,
    IndependentTransform,
    Transform,
    _joined,
    _Plain,
    identity_transform,
)
from tocha.distributions._transform_base import (
    _InverseTransform as _InverseTransform,
)
from tocha.distributions.utils import (
    _sum_rightmost,
    broadcast_all,
    lazy_property,
    linalg,
    tril_matrix_to_vec,
    vec_to_tril_matrix,
)
from tocha.nn.functional import logsigmoid, pad, softplus

__all__ = [
    "AbsTransform",
    "AffineTransform",
    "CatTransform",
    "ComposeTransform",
    "CorrCholeskyTransform",
    "CumulativeDistributionTransform",
    "ExpTransform",
    "IndependentTransform",
    "LowerCholeskyTransform",
    "PositiveDefiniteTransform",
    "PowerTransform",
    "ReshapeTransform",
    "SigmoidTransform",
    "SoftmaxTransform",
    "SoftplusTransform",
    "StackTransform",
    "StickBreakingTransform",
    "TanhTransform",
    "Transform",
    "identity_transform",
]


class ReshapeTransform(Transform):
    """The last dims in another shape of as many elements.

    >>> tocha.distributions.ReshapeTransform((4,), (2, 2))(tocha.arange(4.0))
    tensor([[0., 1.],
            [2., 3.]])
    """

    bijective = True

    def __init__(self, in_shape: Any, out_shape: Any, cache_size: int = 0) -> None:
        self.in_shape = Size(in_shape)
        self.out_shape = Size(out_shape)
        if self.in_shape.numel() != self.out_shape.numel():
            raise ValueError(
                "[ReshapeTransform] in_shape, out_shape have different numbers of elements: "
                f"{self.in_shape} and {self.out_shape}"
            )
        super().__init__(cache_size=cache_size)

    @constraints.dependent_property
    def domain(self) -> Any:
        return constraints.independent(constraints.real, len(self.in_shape))

    @constraints.dependent_property
    def codomain(self) -> Any:
        return constraints.independent(constraints.real, len(self.out_shape))

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return ReshapeTransform(self.in_shape, self.out_shape, cache_size=cache_size)

    def _call(self, x: Tensor) -> Tensor:
        return x.reshape(x.shape[: x.dim() - len(self.in_shape)] + self.out_shape)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.reshape(y.shape[: y.dim() - len(self.out_shape)] + self.in_shape)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x.new_zeros(x.shape[: x.dim() - len(self.in_shape)])

    def forward_shape(self, shape: Any) -> Any:
        return _replaced(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Any) -> Any:
        return _replaced(shape, self.out_shape, self.in_shape)


def _replaced(shape: Any, old: Size, new: Size) -> Any:
    """A shape that ends in old, with new in its place."""
    if len(shape) < len(old):
        raise ValueError("[ReshapeTransform] Too few dimensions on input")
    cut = len(shape) - len(old)
    if tuple(shape[cut:]) != tuple(old):
        raise ValueError(f"[ReshapeTransform] Shape mismatch: expected {shape[cut:]} but got {old}")
    return Size(shape[:cut]) + new


class ExpTransform(_Plain):
    """y = exp(x).

    >>> f = tocha.distributions.ExpTransform()
    >>> y = f(tocha.tensor([0.0, 1.0]))
    >>> y
    tensor([1.0000, 2.7183])
    >>> f.log_abs_det_jacobian(tocha.tensor([0.0, 1.0]), y)
    tensor([0., 1.])
    """

    domain = constraints.real
    codomain = constraints.positive
    bijective = True
    sign = +1

    def _call(self, x: Tensor) -> Tensor:
        return x.exp()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x


class PowerTransform(Transform):
    """y = x^exponent, on positive numbers.

    >>> f = tocha.distributions.PowerTransform(tocha.tensor(2.0))
    >>> f(tocha.tensor([3.0]))
    tensor([9.])
    >>> f.inv(tocha.tensor([9.0]))
    tensor([3.])
    """

    domain = constraints.positive
    codomain = constraints.positive
    bijective = True

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        (self.exponent,) = broadcast_all(exponent)

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self if self._cache_size == cache_size else PowerTransform(self.exponent, cache_size=cache_size)

    @lazy_property
    def sign(self) -> Any:
        return self.exponent.sign()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PowerTransform) and bool(self.exponent.eq(other.exponent).all())

    def _call(self, x: Tensor) -> Tensor:
        return x.pow(self.exponent)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape: Any) -> Any:
        return tocha.broadcast_shapes(shape, self.exponent.shape)

    def inverse_shape(self, shape: Any) -> Any:
        return tocha.broadcast_shapes(shape, self.exponent.shape)


def _clipped_sigmoid(x: Tensor) -> Tensor:
    """sigmoid(x) kept inside (0, 1)."""
    limits = tocha.finfo(x.dtype)
    return tocha.clamp(tocha.sigmoid(x), min=limits.tiny, max=1.0 - limits.eps)


class SigmoidTransform(_Plain):
    """y = 1 / (1 + exp(-x)).

    >>> f = tocha.distributions.SigmoidTransform()
    >>> f(tocha.tensor([0.0, 2.0]))
    tensor([0.5000, 0.8808])
    >>> f.inv(tocha.tensor([0.5]))
    tensor([0.])
    """

    domain = constraints.real
    codomain = constraints.unit_interval
    bijective = True
    sign = +1

    def _call(self, x: Tensor) -> Tensor:
        return _clipped_sigmoid(x)

    def _inverse(self, y: Tensor) -> Tensor:
        limits = tocha.finfo(y.dtype)
        y = y.clamp(min=limits.tiny, max=1.0 - limits.eps)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -softplus(-x) - softplus(x)


class SoftplusTransform(_Plain):
    """y = log(1 + exp(x)), which is x for great x.

    >>> tocha.distributions.SoftplusTransform()(tocha.tensor([-1.0, 0.0, 1.0]))
    tensor([0.3133, 0.6931, 1.3133])
    """

    domain = constraints.real
    codomain = constraints.positive
    bijective = True
    sign = +1

    def _call(self, x: Tensor) -> Tensor:
        return softplus(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -softplus(-x)


class TanhTransform(_Plain):
    """y = tanh(x); with its cache, or as an affine sigmoid, it is safer than through its inverse.

    >>> tocha.distributions.TanhTransform()(tocha.tensor([0.0, 1.0]))
    tensor([0.0000, 0.7616])
    """

    domain = constraints.real
    codomain = constraints.interval(-1.0, 1.0)
    bijective = True
    sign = +1

    def _call(self, x: Tensor) -> Tensor:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Tensor:
        return tocha.atanh(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        # log(1 - tanh(x)^2), without the difference that vanishes for great x
        return 2.0 * (math.log(2.0) - x - softplus(-2.0 * x))


class AbsTransform(_Plain):
    """y = |x|; backward it gives the positive one of the two.

    >>> tocha.distributions.AbsTransform()(tocha.tensor([-1.0, 2.0]))
    tensor([1., 2.])
    """

    domain = constraints.real
    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.abs()

    def _inverse(self, y: Tensor) -> Tensor:
        return y


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return a == b
    return bool((a == b).all())


class AffineTransform(Transform):
    """y = loc + scale * x, on values of event_dim dims.

    >>> f = tocha.distributions.AffineTransform(loc=1.0, scale=2.0)
    >>> f(tocha.tensor([0.0, 3.0]))
    tensor([1., 7.])
    >>> f.inv(tocha.tensor([1.0, 7.0]))
    tensor([0., 3.])
    """

    bijective = True

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.loc = loc
        self.scale = scale
        self._event_dim = event_dim

    @property
    def event_dim(self) -> int:
        return self._event_dim

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:
        return _joined(constraints.real, self._event_dim)

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:
        return _joined(constraints.real, self._event_dim)

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return AffineTransform(self.loc, self.scale, self._event_dim, cache_size=cache_size)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AffineTransform) and _same(self.loc, other.loc) and _same(self.scale, other.scale)

    @property
    def sign(self) -> Any:
        if isinstance(self.scale, (int, float)):
            return (self.scale > 0) - (self.scale < 0)
        return self.scale.sign()

    def _call(self, x: Tensor) -> Tensor:
        return self.loc + self.scale * x

    def _inverse(self, y: Tensor) -> Tensor:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        if isinstance(self.scale, (int, float)):
            slope = tocha.full_like(x, math.log(abs(self.scale)))
        else:
            slope = self.scale.abs().log()
        if self._event_dim:
            slope = slope.expand(x.shape) if slope.dim() < self._event_dim else slope
            slope = slope.reshape(slope.shape[: -self._event_dim] + (-1,)).sum(-1)
        return slope.expand(x.shape[: x.dim() - self._event_dim])

    def forward_shape(self, shape: Any) -> Any:
        return tocha.broadcast_shapes(shape, getattr(self.loc, "shape", ()), getattr(self.scale, "shape", ()))

    def inverse_shape(self, shape: Any) -> Any:
        return self.forward_shape(shape)


def _square_size(length: int) -> int:
    """The n of an n x n matrix with length elements below its diagonal."""
    n = (1 + math.isqrt(1 + 8 * length)) // 2
    if n * (n - 1) // 2 != length:
        raise ValueError(f"[CorrCholeskyTransform] Input is not a flattened lower-diagonal number: got {length}")
    return n


class CorrCholeskyTransform(Transform):
    """Vectors of n (n - 1) / 2 numbers as Cholesky factors of n x n correlation matrices.

    tanh of each number is a partial correlation; a row's element is it times what the row's earlier elements left of length 1.

    >>> tocha.distributions.CorrCholeskyTransform()(tocha.tensor([0.5]))
    tensor([[1.0000, 0.0000],
            [0.4621, 0.8868]])
    """

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True

    def _call(self, x: Tensor) -> Tensor:
        x = tocha.tanh(x)
        eps = tocha.finfo(x.dtype).eps
        partial = vec_to_tril_matrix(x.clamp(min=-1 + eps, max=1 - eps), diag=-1)
        left = (1 - partial**2).sqrt().cumprod(-1)
        diagonal = tocha.eye(partial.shape[-1], dtype=partial.dtype, device=partial.device)
        return (partial + diagonal) * pad(left[..., :-1], [1, 0], value=1)

    def _inverse(self, y: Tensor) -> Tensor:
        left = pad((1 - tocha.cumsum(y * y, dim=-1))[..., :-1], [1, 0], value=1)
        partial = tril_matrix_to_vec(y, diag=-1) / tril_matrix_to_vec(left, diag=-1).sqrt()
        return (partial.log1p() - partial.neg().log1p()) / 2

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        left = 1 - (y * y).cumsum(dim=-1)
        rows = 0.5 * tril_matrix_to_vec(left, diag=-2).log().sum(-1)
        return rows - 2 * (x + softplus(-2 * x) - math.log(2.0)).sum(dim=-1)

    def forward_shape(self, shape: Any) -> Any:
        if len(shape) < 1:
            raise ValueError("[CorrCholeskyTransform] Too few dimensions on input")
        n = _square_size(shape[-1])
        return shape[:-1] + (n, n)

    def inverse_shape(self, shape: Any) -> Any:
        if len(shape) < 2:
            raise ValueError("[CorrCholeskyTransform] Too few dimensions on input")
        if shape[-2] != shape[-1]:
            raise ValueError(f"[CorrCholeskyTransform] Input is not square: got {tuple(shape)}")
        return shape[:-2] + (shape[-1] * (shape[-1] - 1) // 2,)


class SoftmaxTransform(_Plain):
    """Points of the simplex from any vectors; not one to one, but good for optimization by coordinates.

    >>> tocha.distributions.SoftmaxTransform()(tocha.tensor([1.0, 2.0, 3.0]))
    tensor([0.0900, 0.2447, 0.6652])
    """

    domain = constraints.real_vector
    codomain = constraints.simplex

    def _call(self, x: Tensor) -> Tensor:
        probs = (x - x.max(-1, True)[0]).exp()
        return probs / probs.sum(-1, True)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def forward_shape(self, shape: Any) -> Any:
        if len(shape) < 1:
            raise ValueError("[SoftmaxTransform] Too few dimensions on input")
        return shape

    inverse_shape = forward_shape


class StickBreakingTransform(_Plain):
    """Vectors of n numbers as points of the simplex with n + 1 parts: each number breaks its share off what is left.

    The shares are sigmoids, shifted so that zeros give equal parts.

    >>> y = tocha.distributions.StickBreakingTransform()(tocha.tensor([0.0, 1.0]))
    >>> y, y.sum()
    (tensor([0.3333, 0.4874, 0.1793]), tensor(1.0000))
    """

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = True

    @staticmethod
    def _shift(n: int, like: Tensor) -> Tensor:
        """log of how many parts are left to be made: n, n - 1, ..., 1."""
        return tocha.arange(n, 0, -1, dtype=like.dtype, device=like.device).log()

    def _call(self, x: Tensor) -> Tensor:
        share = _clipped_sigmoid(x - self._shift(x.shape[-1], x))
        left = (1 - share).cumprod(-1)
        return pad(share, [0, 1], value=1) * pad(left, [1, 0], value=1)

    def _inverse(self, y: Tensor) -> Tensor:
        parts = y[..., :-1]
        left = (1 - parts.cumsum(-1)).clamp(min=tocha.finfo(y.dtype).tiny)
        return parts.log() - left.log() + self._shift(parts.shape[-1], y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        x = x - self._shift(x.shape[-1], x)
        return (-x + logsigmoid(x) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Any) -> Any:
        if len(shape) < 1:
            raise ValueError("[StickBreakingTransform] Too few dimensions on input")
        return shape[:-1] + (shape[-1] + 1,)

    def inverse_shape(self, shape: Any) -> Any:
        if len(shape) < 1:
            raise ValueError("[StickBreakingTransform] Too few dimensions on input")
        return shape[:-1] + (shape[-1] - 1,)


class LowerCholeskyTransform(_Plain):
    """Any square matrices as lower triangular ones with a positive diagonal (the exponential of theirs).

    >>> tocha.distributions.LowerCholeskyTransform()(tocha.tensor([[0.0, 5.0], [2.0, 1.0]]))
    tensor([[1.0000, 0.0000],
            [2.0000, 2.7183]])
    """

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def _call(self, x: Tensor) -> Tensor:
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(_Plain):
    """Any square matrices as positive-definite ones, through their Cholesky factors.

    >>> tocha.distributions.PositiveDefiniteTransform()(tocha.tensor([[0.0, 5.0], [2.0, 1.0]]))
    tensor([[ 1.0000,  2.0000],
            [ 2.0000, 11.3891]])
    """

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def _call(self, x: Tensor) -> Tensor:
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y: Tensor) -> Tensor:
        return LowerCholeskyTransform().inv(linalg.cholesky(y))


class _Sequence(Transform):
    """What cat and stack share: transforms for parts along dim."""

    def __init__(self, tseq: Sequence[Transform], dim: int, cache_size: int) -> None:
        if not all(isinstance(t, Transform) for t in tseq):
            raise AssertionError("All elements of tseq must be Transform instances")
        if cache_size:
            tseq = [t.with_cache(cache_size) for t in tseq]
        super().__init__(cache_size=cache_size)
        self.transforms = list(tseq)
        self.dim = dim

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        return all(t.bijective for t in self.transforms)

    def _check(self, value: Tensor, length: int, meaning: str) -> None:
        if not -value.dim() <= self.dim < value.dim():
            raise AssertionError(f"dim {self.dim} out of range for tensor with {value.dim()} dimensions")
        if value.size(self.dim) != length:
            raise AssertionError(f"x.size({self.dim}) = {value.size(self.dim)} must equal {meaning} {length}")


class CatTransform(_Sequence):
    """Transforms side by side along dim, each for as many places as lengths says.

    >>> f = tocha.distributions.CatTransform([tocha.distributions.ExpTransform(), tocha.distributions.AffineTransform(0.0, 10.0)], dim=0, lengths=[1, 2])
    >>> f(tocha.tensor([0.0, 1.0, 2.0]))
    tensor([ 1., 10., 20.])
    """

    def __init__(
        self, tseq: Sequence[Transform], dim: int = 0, lengths: Sequence[int] | None = None, cache_size: int = 0
    ) -> None:
        super().__init__(tseq, dim, cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise AssertionError(f"lengths ({len(self.lengths)}) must match transforms ({len(self.transforms)})")

    @lazy_property
    def event_dim(self) -> int:
        return max(t.event_dim for t in self.transforms)

    @lazy_property
    def length(self) -> int:
        """How long inputs are along dim."""
        return sum(self.lengths)

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return CatTransform(self.transforms, self.dim, self.lengths, cache_size)

    def _parts(self, value: Tensor) -> list[Tensor]:
        self._check(value, self.length, "length")
        return list(value.split(self.lengths, self.dim))

    def _call(self, x: Tensor) -> Tensor:
        return tocha.cat([t(part) for t, part in zip(self.transforms, self._parts(x), strict=True)], dim=self.dim)

    def _inverse(self, y: Tensor) -> Tensor:
        parts = zip(self.transforms, self._parts(y), strict=True)
        return tocha.cat([t.inv(part) for t, part in parts], dim=self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        terms = []
        for t, before, after in zip(self.transforms, self._parts(x), self._parts(y), strict=True):
            term = t.log_abs_det_jacobian(before, after)
            terms.append(_sum_rightmost(term, self.event_dim - t.event_dim))
        dim = self.dim - x.dim() if self.dim >= 0 else self.dim
        dim += self.event_dim
        return tocha.cat(terms, dim=dim) if dim < 0 else sum(terms)  # type: ignore[return-value]

    @constraints.dependent_property
    def domain(self) -> Any:
        return constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths)

    @constraints.dependent_property
    def codomain(self) -> Any:
        return constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths)


class StackTransform(_Sequence):
    """Transforms one above another along dim, each for one slice.

    >>> f = tocha.distributions.StackTransform([tocha.distributions.ExpTransform(), tocha.distributions.AffineTransform(0.0, 10.0)], dim=0)
    >>> f(tocha.tensor([[0.0, 1.0], [2.0, 3.0]]))
    tensor([[ 1.0000,  2.7183],
            [20.0000, 30.0000]])
    """

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(tseq, dim, cache_size)

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self if self._cache_size == cache_size else StackTransform(self.transforms, self.dim, cache_size)

    def _each(self, function: Callable, *values: Tensor) -> Tensor:
        for value in values:
            self._check(value, len(self.transforms), "len(transforms)")
        slices = zip(self.transforms, *(value.unbind(self.dim) for value in values), strict=True)
        return tocha.stack([function(t, *parts) for t, *parts in slices], dim=self.dim)

    def _call(self, x: Tensor) -> Tensor:
        return self._each(lambda t, part: t(part), x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self._each(lambda t, part: t.inv(part), y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return self._each(lambda t, before, after: t.log_abs_det_jacobian(before, after), x, y)

    @constraints.dependent_property
    def domain(self) -> Any:
        return constraints.stack([t.domain for t in self.transforms], self.dim)

    @constraints.dependent_property
    def codomain(self) -> Any:
        return constraints.stack([t.codomain for t in self.transforms], self.dim)


class CumulativeDistributionTransform(Transform):
    """y = cdf(x) of a distribution of one number: its values become uniform.

    >>> from tocha.distributions import Normal
    >>> CumulativeDistributionTransform(Normal(0.0, 1.0))(tocha.tensor(0.0))
    tensor(0.5000)
    """

    bijective = True
    codomain = constraints.unit_interval
    sign = +1

    def __init__(self, distribution: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.distribution = distribution

    @property
    def domain(self) -> Any:  # type: ignore[override]
        return self.distribution.support

    def _call(self, x: Tensor) -> Tensor:
        return self.distribution.cdf(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return self.distribution.log_prob(x)

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return CumulativeDistributionTransform(self.distribution, cache_size=cache_size)
