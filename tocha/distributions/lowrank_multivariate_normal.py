"""The multivariate normal distribution with a covariance of low rank plus a diagonal."""

from __future__ import annotations

import math
from typing import Any

import tocha
from tocha import Size, Tensor
from tocha.distributions import constraints
from tocha.distributions.distribution import Distribution
from tocha.distributions.multivariate_normal import _batch_mahalanobis, _batch_mv, _half_log_det
from tocha.distributions.utils import _standard_normal, lazy_property, linalg

__all__ = ["LowRankMultivariateNormal"]


def _capacitance_tril(W: Tensor, D: Tensor) -> Tensor:
    """The Cholesky factor of I + W^T D^-1 W, the small matrix through which W W^T + D is inverted (Woodbury)."""
    small = tocha.matmul(W.mT / D.unsqueeze(-2), W)
    return linalg.cholesky(small + tocha.eye(W.shape[-1], dtype=W.dtype, device=W.device))


def _lowrank_log_det(D: Tensor, capacitance_tril: Tensor) -> Tensor:
    return 2 * _half_log_det(capacitance_tril) + D.log().sum(-1)


def _lowrank_mahalanobis(W: Tensor, D: Tensor, x: Tensor, capacitance_tril: Tensor) -> Tensor:
    """x^T (W W^T + D)^-1 x."""
    inner = _batch_mv(W.mT / D.unsqueeze(-2), x)
    return (x.pow(2) / D).sum(-1) - _batch_mahalanobis(capacitance_tril, inner)


class LowRankMultivariateNormal(Distribution):
    """Normal vectors with covariance `cov_factor` @ `cov_factor`.T + diag(`cov_diag`); costs grow with the rank, not with the size cubed.

    >>> from tocha.distributions import LowRankMultivariateNormal
    >>> LowRankMultivariateNormal(tocha.zeros(2), tocha.tensor([[1.0], [0.0]]), tocha.ones(2)).variance
    tensor([2., 1.])
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector
    has_rsample = True
    _batched = {"loc": 1, "cov_factor": 2, "cov_diag": 1}

    def __init__(self, loc: Tensor, cov_factor: Tensor, cov_diag: Tensor, validate_args: bool | None = None) -> None:
        if loc.dim() < 1:
            raise ValueError("[LowRankMultivariateNormal] loc must be at least one-dimensional.")
        event_shape = loc.shape[-1:]
        if cov_factor.dim() < 2:
            raise ValueError(
                "[LowRankMultivariateNormal] cov_factor must be at least two-dimensional, with optional leading batch "
                f"dimensions: got {cov_factor.shape}"
            )
        if cov_factor.shape[-2:-1] != event_shape:
            raise ValueError(
                f"[LowRankMultivariateNormal] cov_factor must be a batch of matrices with shape {event_shape[0]} x m: "
                f"got {cov_factor.shape}"
            )
        if cov_diag.shape[-1:] != event_shape:
            raise ValueError(
                f"[LowRankMultivariateNormal] cov_diag must be a batch of vectors with shape {event_shape}: "
                f"got {cov_diag.shape}"
            )
        try:
            batch_shape = tocha.broadcast_shapes(loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1])
        except RuntimeError as e:
            raise ValueError(
                f"[LowRankMultivariateNormal] Incompatible batch shapes: loc {loc.shape}, cov_factor "
                f"{cov_factor.shape}, cov_diag {cov_diag.shape}"
            ) from e
        self.loc = loc.expand(batch_shape + event_shape)
        self.cov_factor = cov_factor.expand(batch_shape + cov_factor.shape[-2:])
        self.cov_diag = cov_diag.expand(batch_shape + event_shape)
        super().__init__(batch_shape, event_shape, validate_args=validate_args)
        self._unbroadcasted_cov_factor = cov_factor
        self._unbroadcasted_cov_diag = cov_diag
        self._capacitance_tril = _capacitance_tril(cov_factor, cov_diag)

    def _expand_rest(self, new: Any, batch_shape: Size) -> None:
        for name in ("_unbroadcasted_cov_factor", "_unbroadcasted_cov_diag", "_capacitance_tril"):
            setattr(new, name, getattr(self, name))

    def _expanded(self, matrix: Tensor) -> Tensor:
        return matrix.expand(self._batch_shape + self._event_shape + self._event_shape)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @lazy_property
    def variance(self) -> Tensor:  # type: ignore[override]
        variance = self._unbroadcasted_cov_factor.pow(2).sum(-1) + self._unbroadcasted_cov_diag
        return variance.expand(self._batch_shape + self._event_shape)

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The Cholesky factor of the covariance matrix."""
        # Of D^1/2 (I + V V^T) D^1/2 with V = D^-1/2 W: its inside is well conditioned.
        root = self._unbroadcasted_cov_diag.sqrt().unsqueeze(-1)
        V = self._unbroadcasted_cov_factor / root
        inside = tocha.matmul(V, V.mT) + tocha.eye(V.shape[-2], dtype=V.dtype, device=V.device)
        return self._expanded(root * linalg.cholesky(inside))

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance matrix."""
        W = self._unbroadcasted_cov_factor
        return self._expanded(tocha.matmul(W, W.mT) + tocha.diag_embed(self._unbroadcasted_cov_diag))

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance matrix."""
        D = self._unbroadcasted_cov_diag
        scaled = self._unbroadcasted_cov_factor.mT / D.unsqueeze(-2)
        A = linalg.solve_triangular(self._capacitance_tril, scaled, upper=False)
        return self._expanded(tocha.diag_embed(D.reciprocal()) - A.mT @ A)

    def rsample(self, sample_shape: Any = Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        rank = self.cov_factor.shape[-1:]
        eps_factor = _standard_normal(shape[:-1] + rank, self.loc.dtype, self.loc.device)
        eps_diag = _standard_normal(shape, self.loc.dtype, self.loc.device)
        return (
            self.loc
            + _batch_mv(self._unbroadcasted_cov_factor, eps_factor)
            + self._unbroadcasted_cov_diag.sqrt() * eps_diag
        )

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        W, D = self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag
        distance = _lowrank_mahalanobis(W, D, value - self.loc, self._capacitance_tril)
        log_det = _lowrank_log_det(D, self._capacitance_tril)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + log_det + distance)

    def entropy(self) -> Tensor:
        log_det = _lowrank_log_det(self._unbroadcasted_cov_diag, self._capacitance_tril)
        entropy = 0.5 * (self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + log_det)
        return entropy.expand(self._batch_shape) if self._batch_shape else entropy
