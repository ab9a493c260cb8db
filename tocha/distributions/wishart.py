"""The Wishart distribution."""

from __future__ import annotations

import math
import warnings
from typing import Any

import tocha
from tocha import Size, Tensor
from tocha.distributions import constraints
from tocha.distributions._covariance import WithCovariance, given_matrices
from tocha.distributions.chi2 import Chi2
from tocha.distributions.exp_family import ExponentialFamily
from tocha.distributions.multivariate_normal import _half_log_det
from tocha.distributions.utils import _size, linalg

__all__ = ["Wishart"]

_LOG_2 = math.log(2)


def _mvdigamma(x: Tensor, p: int) -> Tensor:
    """The derivative of mvlgamma by x."""
    steps = tocha.arange(p, dtype=x.dtype, device=x.device) / 2
    return tocha.digamma(x.unsqueeze(-1) - steps).sum(-1)


def _clamp_above_eps(x: Tensor) -> Tensor:
    return x.clamp(min=tocha.finfo(x.dtype).eps)


class Wishart(WithCovariance, ExponentialFamily):
    """Positive-definite matrices: sums of `df` outer products of normal vectors with a covariance matrix (or its inverse, or factor).

    >>> from tocha.distributions import Wishart
    >>> Wishart(tocha.tensor(3.0), tocha.eye(2)).mean
    tensor([[3., 0.],
            [0., 3.]])
    """

    support = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0
    _batched = {"df": 0, "covariance_matrix": 2, "precision_matrix": 2, "scale_tril": 2}

    def __init__(
        self,
        df: Any,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        given = given_matrices(covariance_matrix, precision_matrix, scale_tril)
        if len(given) != 1:
            raise AssertionError(
                "[Wishart] Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified."
            )
        ((name, matrix),) = given.items()
        if matrix.dim() < 2:
            raise ValueError(
                "[Wishart] scale_tril must be at least two-dimensional, with optional leading batch dimensions: "
                f"got {matrix.shape}"
            )
        if isinstance(df, (int, float)):
            batch_shape = Size(matrix.shape[:-2])
            self.df = tocha.tensor(df, dtype=matrix.dtype, device=matrix.device)
        else:
            batch_shape = tocha.broadcast_shapes(matrix.shape[:-2], df.shape)
            self.df = df.expand(batch_shape)
        event_shape = matrix.shape[-2:]
        if self.df.le(event_shape[-1] - 1).any():
            raise ValueError(
                f"[Wishart] Value of df={df} expected to be greater than ndim - 1 = {event_shape[-1] - 1}."
            )
        self.__dict__[name] = matrix.expand(batch_shape + (-1, -1))
        if self.df.lt(event_shape[-1]).any():
            warnings.warn(
                "Low df values detected. Singular samples are highly likely to occur for ndim - 1 < df < ndim.",
                stacklevel=2,
            )
        super().__init__(batch_shape, event_shape, validate_args=validate_args)
        self._keep_factor(name, matrix)
        self._dist_chi2 = self._diagonal_squares()

    def _diagonal_squares(self) -> Chi2:
        """The squared diagonal of Bartlett's factor: one degree of freedom less in each row."""
        p = self._event_shape[-1]
        rows = tocha.arange(p, dtype=self.df.dtype, device=self.df.device).expand(self._batch_shape + (-1,))
        return Chi2(df=self.df.unsqueeze(-1) - rows)

    def _expand_rest(self, new: Any, batch_shape: Size) -> None:
        new._batch_shape, new._event_shape = batch_shape, self._event_shape
        new._unbroadcasted_scale_tril = self._unbroadcasted_scale_tril
        new._dist_chi2 = new._diagonal_squares()

    @property
    def arg_constraints(self) -> dict[str, Any]:
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self._event_shape[-1] - 1),
        }

    @property
    def mean(self) -> Tensor:
        return self.df.view(self._batch_shape + (1, 1)) * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        factor = self.df - self.covariance_matrix.shape[-1] - 1
        factor = factor.masked_fill(factor <= 0, tocha.nan)
        return factor.view(self._batch_shape + (1, 1)) * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        V = self.covariance_matrix
        diagonal = V.diagonal(dim1=-2, dim2=-1)
        outer = diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2)
        return self.df.view(self._batch_shape + (1, 1)) * (V.pow(2) + outer)

    def _bartlett_sampling(self, sample_shape: Any = Size()) -> Tensor:
        """(L A) (L A)^T, with A normal below a diagonal of chi numbers."""
        p = self._event_shape[-1]
        noise = _clamp_above_eps(self._dist_chi2.rsample(sample_shape).sqrt()).diag_embed(dim1=-2, dim2=-1)
        i, j = tocha.tril_indices(p, p, offset=-1)
        noise[..., i, j] = tocha.randn(
            _size(sample_shape) + self._batch_shape + (p * (p - 1) // 2,), dtype=noise.dtype, device=noise.device
        )
        chol = self._unbroadcasted_scale_tril @ noise
        return chol @ chol.mT

    def rsample(self, sample_shape: Any = Size(), max_try_correction: int | None = None) -> Tensor:
        """Draws by Bartlett's decomposition; singular ones are drawn again, at most max_try_correction (10) times."""
        tries = 10 if max_try_correction is None else max_try_correction
        sample_shape = _size(sample_shape)
        # PyTorch draws every matrix twice and keeps the second; its numbers for a seed are those.
        self._bartlett_sampling(sample_shape)
        sample = self._bartlett_sampling(Size((sample_shape.numel(),)))
        singular = self._singular(sample)
        if singular.any():
            warnings.warn("Singular sample detected.", stacklevel=2)
            for _ in range(tries):
                again = self._bartlett_sampling(singular[singular].shape)
                sample[singular] = again
                singular[singular.clone()] = self._singular(again)
                if not singular.any():
                    break
        return sample.reshape(self._extended_shape(sample_shape))

    def _singular(self, sample: Tensor) -> Tensor:
        """Whether any matrix of a draw's batch is not positive definite."""
        good = self.support.check(sample)
        return ~good.reshape(good.shape[: good.dim() - len(self._batch_shape)] + (-1,)).all(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        nu, p, tril = self.df, self._event_shape[-1], self._unbroadcasted_scale_tril
        trace = tocha.cholesky_solve(value, tril).diagonal(dim1=-2, dim2=-1).sum(-1)
        return (
            -nu * (p * _LOG_2 / 2 + _half_log_det(tril))
            - tocha.mvlgamma(nu / 2, p=p)
            + (nu - p - 1) / 2 * linalg.slogdet(value).logabsdet
            - trace / 2
        )

    def entropy(self) -> Tensor:
        nu, p = self.df, self._event_shape[-1]
        return (
            (p + 1) * (p * _LOG_2 / 2 + _half_log_det(self._unbroadcasted_scale_tril))
            + tocha.mvlgamma(nu / 2, p=p)
            - (nu - p - 1) / 2 * _mvdigamma(nu / 2, p=p)
            + nu * p / 2
        )

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        nu, p = self.df, self._event_shape[-1]
        return -self.precision_matrix / 2, (nu - p - 1) / 2

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:  # type: ignore[override]
        p = self._event_shape[-1]
        half = y + (p + 1) / 2
        return half * (-linalg.slogdet(-2 * x).logabsdet + _LOG_2 * p) + tocha.mvlgamma(half, p=p)
