"""The multivariate normal distribution."""

from __future__ import annotations

import math
from typing import Any

import tocha
from tocha import Size, Tensor
from tocha.distributions import constraints
from tocha.distributions._covariance import WithCovariance, _precision_to_scale_tril, given_matrices
from tocha.distributions.distribution import Distribution as Distribution  # packages take it from here
from tocha.distributions.utils import _standard_normal, linalg

__all__ = ["MultivariateNormal"]
_ALSO = (_precision_to_scale_tril,)  # where PyTorch has it


def _batch_mv(matrix: Tensor, vector: Tensor) -> Tensor:
    """Matrices times vectors, both batched."""
    return tocha.matmul(matrix, vector.unsqueeze(-1)).squeeze(-1)


def _batch_mahalanobis(tril: Tensor, x: Tensor) -> Tensor:
    """x^T (L L^T)^-1 x. Leading dims that only x has become columns, so that one factor serves them all."""
    extra = max(x.dim() + 1 - tril.dim(), 0)
    shape = x.shape[:extra]
    columns = x.reshape((-1,) + x.shape[extra:]).movedim(0, -1)
    solved = linalg.solve_triangular(tril, columns, upper=False).pow(2).sum(-2)
    return solved.movedim(-1, 0).reshape(shape + solved.shape[:-1])


def _half_log_det(tril: Tensor) -> Tensor:
    return tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)


class MultivariateNormal(WithCovariance):
    """Normal vectors of mean `loc` with a covariance matrix, its inverse, or its Cholesky factor `scale_tril` (which serves fastest).

    >>> from tocha.distributions import MultivariateNormal
    >>> MultivariateNormal(tocha.zeros(2), tocha.eye(2)).log_prob(tocha.zeros(2))
    tensor(-1.8379)
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    has_rsample = True
    _batched = {"loc": 1, "covariance_matrix": 2, "precision_matrix": 2, "scale_tril": 2}

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if loc.dim() < 1:
            raise ValueError("[MultivariateNormal] loc must be at least one-dimensional.")
        given = given_matrices(covariance_matrix, precision_matrix, scale_tril)
        if len(given) != 1:
            raise ValueError(
                "[MultivariateNormal] Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified."
            )
        ((name, matrix),) = given.items()
        if matrix.dim() < 2:
            kind = "scale_tril matrix" if name == "scale_tril" else name
            raise ValueError(
                f"[MultivariateNormal] {kind} must be at least two-dimensional, with optional leading batch dimensions: "
                f"got {matrix.shape}"
            )
        batch_shape = tocha.broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        self.__dict__[name] = matrix.expand(batch_shape + (-1, -1))
        self.loc = loc.expand(batch_shape + (-1,))
        super().__init__(batch_shape, self.loc.shape[-1:], validate_args=validate_args)
        self._keep_factor(name, matrix)

    def _expand_rest(self, new: Any, batch_shape: Size) -> None:
        new._unbroadcasted_scale_tril = self._unbroadcasted_scale_tril

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return self._unbroadcasted_scale_tril.pow(2).sum(-1).expand(self._batch_shape + self._event_shape)

    def rsample(self, sample_shape: Any = Size()) -> Tensor:
        eps = _standard_normal(self._extended_shape(sample_shape), self.loc.dtype, self.loc.device)
        return self.loc + _batch_mv(self._unbroadcasted_scale_tril, eps)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        tril = self._unbroadcasted_scale_tril
        distance = _batch_mahalanobis(tril, value - self.loc)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + distance) - _half_log_det(tril)

    def entropy(self) -> Tensor:
        constant = 0.5 * self._event_shape[0] * (1.0 + math.log(2 * math.pi))
        entropy = constant + _half_log_det(self._unbroadcasted_scale_tril)
        return entropy.expand(self._batch_shape) if self._batch_shape else entropy
