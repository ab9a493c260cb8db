"""Distributions with a covariance matrix, which is given as it is, inverted, or by its Cholesky factor."""

from __future__ import annotations

import tocha
from tocha import Tensor
from tocha.distributions.distribution import Distribution
from tocha.distributions.utils import lazy_property, linalg


def _precision_to_scale_tril(precision: Tensor) -> Tensor:
    """L with L L^T = P^-1: the Cholesky factor of P read from its other end is L^-1 transposed."""
    flipped = linalg.cholesky(tocha.flip(precision, (-2, -1)))
    inverse = tocha.flip(flipped, (-2, -1)).mT
    identity = tocha.eye(precision.shape[-1], dtype=precision.dtype, device=precision.device)
    return linalg.solve_triangular(inverse, identity, upper=False)


def given_matrices(
    covariance_matrix: Tensor | None, precision_matrix: Tensor | None, scale_tril: Tensor | None
) -> dict[str, Tensor]:
    """Those of the three forms that are given, by name."""
    forms = {"covariance_matrix": covariance_matrix, "scale_tril": scale_tril, "precision_matrix": precision_matrix}
    return {name: m for name, m in forms.items() if m is not None}


class WithCovariance(Distribution):
    """Keeps the Cholesky factor of the matrix; the other forms are computed when they are asked for."""

    _unbroadcasted_scale_tril: Tensor

    def _keep_factor(self, name: str, matrix: Tensor) -> None:
        if name == "covariance_matrix":
            matrix = linalg.cholesky(matrix)
        elif name == "precision_matrix":
            matrix = _precision_to_scale_tril(matrix)
        self._unbroadcasted_scale_tril = matrix

    def _expanded(self, matrix: Tensor) -> Tensor:
        return matrix.expand(self._batch_shape + matrix.shape[-2:])

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The Cholesky factor of the covariance matrix."""
        return self._expanded(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance matrix."""
        tril = self._unbroadcasted_scale_tril
        return self._expanded(tril @ tril.mT)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance matrix."""
        return self._expanded(tocha.cholesky_inverse(self._unbroadcasted_scale_tril))
