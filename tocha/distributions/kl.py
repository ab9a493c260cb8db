"""The Kullback-Leibler divergence of pairs of distributions, and the registry of formulas for it.

KL(p || q) = -H(p) - E_p[log q]. Where a family has no formula of its own for a pair, E_p[log q] is written by q in terms of a few
expectations that p knows: its mean and variance, E[log x], E[log(1 - x)], E[e^(-t x)].
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import tocha
from tocha import Tensor, inf
from tocha.distributions.bernoulli import Bernoulli
from tocha.distributions.beta import Beta
from tocha.distributions.binomial import Binomial
from tocha.distributions.categorical import Categorical
from tocha.distributions.cauchy import Cauchy
from tocha.distributions.continuous_bernoulli import ContinuousBernoulli
from tocha.distributions.dirichlet import Dirichlet
from tocha.distributions.distribution import Distribution
from tocha.distributions.exp_family import ExponentialFamily
from tocha.distributions.exponential import Exponential
from tocha.distributions.gamma import Gamma
from tocha.distributions.geometric import Geometric
from tocha.distributions.gumbel import Gumbel
from tocha.distributions.half_normal import HalfNormal
from tocha.distributions.independent import Independent
from tocha.distributions.laplace import Laplace
from tocha.distributions.lowrank_multivariate_normal import (
    LowRankMultivariateNormal,
    _lowrank_log_det,
    _lowrank_mahalanobis,
)
from tocha.distributions.multivariate_normal import MultivariateNormal, _batch_mahalanobis, _half_log_det
from tocha.distributions.normal import Normal
from tocha.distributions.one_hot_categorical import OneHotCategorical
from tocha.distributions.pareto import Pareto
from tocha.distributions.poisson import Poisson
from tocha.distributions.transformed_distribution import TransformedDistribution
from tocha.distributions.uniform import Uniform
from tocha.distributions.utils import _sum_rightmost, euler_constant
from tocha.nn.functional import softplus

__all__ = ["kl_divergence", "register_kl"]

_KL_REGISTRY: dict[tuple[type, type], Callable] = {}
_KL_MEMOIZE: dict[tuple[type, type], Any] = {}


def register_kl(type_p: Any, type_q: Any) -> Callable:
    """Registers a function (p, q) for a pair of distribution classes and their subclasses; a decorator.

    >>> from tocha.distributions import Normal, kl_divergence, register_kl
    >>> class Sharp(Normal):
    ...     pass
    >>> @register_kl(Sharp, Normal)
    ... def kl_sharp_normal(p, q):
    ...     return tocha.zeros(p.batch_shape)
    >>> kl_divergence(Sharp(5.0, 1.0), Normal(0.0, 1.0))
    tensor(0.)
    """
    for name, kind in (("type_p", type_p), ("type_q", type_q)):
        if not isinstance(kind, type):  # any class will do, as in PyTorch: packages have distributions of their own
            raise TypeError(f"[register_kl] issubclass() arg 1 must be a class: {name} is {kind!r}")

    def register(function: Callable) -> Callable:
        _KL_REGISTRY[type_p, type_q] = function
        _KL_MEMOIZE.clear()
        return function

    return register


def _dispatch_kl(type_p: type, type_q: type) -> Any:
    """The formula of the nearest registered classes; where nearest is not one pair, that of p's nearest class, with a warning."""
    matches = [pair for pair in _KL_REGISTRY if issubclass(type_p, pair[0]) and issubclass(type_q, pair[1])]
    if not matches:
        return NotImplemented

    def far(pair: tuple[type, type]) -> tuple[int, int]:
        return type_p.__mro__.index(pair[0]), type_q.__mro__.index(pair[1])

    left = min(matches, key=far)
    right = min(matches, key=lambda pair: far(pair)[::-1])
    if _KL_REGISTRY[left] is not _KL_REGISTRY[right]:
        warnings.warn(
            f"Ambiguous kl_divergence({type_p.__name__}, {type_q.__name__}). Please register_kl("
            f"{left[0].__name__}, {right[1].__name__})",
            RuntimeWarning,
            stacklevel=3,
        )
    return _KL_REGISTRY[left]


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """KL(p || q), one number for every batch.

    >>> from tocha.distributions import Normal, kl_divergence
    >>> kl_divergence(Normal(0.0, 1.0), Normal(tocha.tensor([0.0, 1.0]), 1.0))
    tensor([0.0000, 0.5000])
    """
    pair = type(p), type(q)
    function = _KL_MEMOIZE.get(pair)
    if function is None:
        function = _KL_MEMOIZE[pair] = _dispatch_kl(*pair)
    if function is NotImplemented:
        raise NotImplementedError(
            f"[kl_divergence] No KL(p || q) is implemented for p type {pair[0].__name__} and q type {pair[1].__name__}"
        )
    return function(p, q)


# -- pairs of one family ---------------------------------------------------------------------------------


@register_kl(Bernoulli, Bernoulli)
def _kl_bernoulli_bernoulli(p: Any, q: Any) -> Tensor:
    ones = p.probs * (softplus(-q.logits) - softplus(-p.logits))
    ones = ones.masked_fill(q.probs == 0, inf).masked_fill(p.probs == 0, 0)
    zeros = (1 - p.probs) * (softplus(q.logits) - softplus(p.logits))
    zeros = zeros.masked_fill(q.probs == 1, inf).masked_fill(p.probs == 1, 0)
    return ones + zeros


@register_kl(Binomial, Binomial)
def _kl_binomial_binomial(p: Any, q: Any) -> Tensor:
    if (p.total_count < q.total_count).any():
        raise NotImplementedError(
            "[kl_divergence] KL between Binomials where q.total_count > p.total_count is not implemented"
        )
    kl = p.total_count * (p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p())
    return kl.masked_fill(p.total_count > q.total_count, inf)


@register_kl(Categorical, Categorical)
def _kl_categorical_categorical(p: Any, q: Any) -> Tensor:
    terms = p.probs * (p.logits - q.logits)
    return terms.masked_fill(q.probs == 0, inf).masked_fill(p.probs == 0, 0).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _kl_onehotcategorical_onehotcategorical(p: Any, q: Any) -> Tensor:
    return _kl_categorical_categorical(p._categorical, q._categorical)


@register_kl(Cauchy, Cauchy)
def _kl_cauchy_cauchy(p: Any, q: Any) -> Tensor:
    # Chyzak and Nielsen 2019
    return ((p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)).log() - (4 * p.scale * q.scale).log()


@register_kl(Dirichlet, Dirichlet)
def _kl_dirichlet_dirichlet(p: Any, q: Any) -> Tensor:
    a, b = p.concentration, q.concentration
    total = a.sum(-1)
    normalizers = total.lgamma() - b.sum(-1).lgamma() - (a.lgamma() - b.lgamma()).sum(-1)
    return normalizers + ((a - b) * (a.digamma() - total.digamma().unsqueeze(-1))).sum(-1)


@register_kl(Beta, Beta)
def _kl_beta_beta(p: Any, q: Any) -> Tensor:
    return _kl_dirichlet_dirichlet(p._dirichlet, q._dirichlet)


@register_kl(Exponential, Exponential)
def _kl_exponential_exponential(p: Any, q: Any) -> Tensor:
    ratio = q.rate / p.rate
    return ratio - ratio.log() - 1


@register_kl(Gamma, Gamma)
def _kl_gamma_gamma(p: Any, q: Any) -> Tensor:
    a, b = p.concentration, q.concentration
    return (
        b * (p.rate / q.rate).log() + b.lgamma() - a.lgamma() + (a - b) * a.digamma() + (q.rate - p.rate) * (a / p.rate)
    )


@register_kl(Geometric, Geometric)
def _kl_geometric_geometric(p: Any, q: Any) -> Tensor:
    return -p.entropy() - (-q.probs).log1p() / p.probs - q.logits


@register_kl(HalfNormal, HalfNormal)
def _kl_halfnormal_halfnormal(p: Any, q: Any) -> Tensor:
    return _kl_normal_normal(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def _kl_laplace_laplace(p: Any, q: Any) -> Tensor:
    ratio, distance = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + distance / q.scale + ratio * (-distance / p.scale).exp() - 1


@register_kl(Normal, Normal)
def _kl_normal_normal(p: Any, q: Any) -> Tensor:
    ratio = (p.scale / q.scale).pow(2)
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).pow(2) - 1 - ratio.log())


@register_kl(Pareto, Pareto)
def _kl_pareto_pareto(p: Any, q: Any) -> Tensor:
    ratio = q.alpha / p.alpha
    kl = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return kl.masked_fill(p.scale < q.scale, inf)


@register_kl(Poisson, Poisson)
def _kl_poisson_poisson(p: Any, q: Any) -> Tensor:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Uniform, Uniform)
def _kl_uniform_uniform(p: Any, q: Any) -> Tensor:
    kl = ((q.high - q.low) / (p.high - p.low)).log()
    return kl.masked_fill((q.low > p.low) | (q.high < p.high), inf)


@register_kl(ExponentialFamily, ExponentialFamily)
def _kl_expfamily_expfamily(p: Any, q: Any) -> Tensor:
    """The Bregman divergence of the log normalizer."""
    if type(p) is not type(q):
        raise NotImplementedError(
            "[kl_divergence] The cross KL-divergence between different exponential families cannot be computed using "
            "Bregman divergences"
        )
    natural = [n.detach().requires_grad_() for n in p._natural_params]
    with tocha.enable_grad():
        normalizer = p._log_normalizer(*natural)
        slopes = tocha.autograd.grad(normalizer.sum(), natural, create_graph=True)
    kl = q._log_normalizer(*q._natural_params) - normalizer
    for mine, other, slope in zip(natural, q._natural_params, slopes, strict=True):
        kl = kl - _sum_rightmost((other - mine) * slope, len(q.event_shape))
    return kl


@register_kl(TransformedDistribution, TransformedDistribution)
def _kl_transformed_transformed(p: Any, q: Any) -> Tensor:
    if p.transforms != q.transforms:
        raise NotImplementedError("[kl_divergence] the transforms differ")
    if p.event_shape != q.event_shape:
        raise NotImplementedError(f"[kl_divergence] the events differ: {p.event_shape} and {q.event_shape}")
    joined = len(p.event_shape) - len(p.base_dist.event_shape)
    return _sum_rightmost(kl_divergence(p.base_dist, q.base_dist), joined)


@register_kl(Independent, Independent)
def _kl_independent_independent(p: Any, q: Any) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError(
            f"[kl_divergence] the events differ: {p.reinterpreted_batch_ndims} and {q.reinterpreted_batch_ndims} batch dims"
        )
    return _sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


# -- normal vectors ---------------------------------------------------------------------------------------


def _log_det(d: Any) -> Tensor:
    if isinstance(d, LowRankMultivariateNormal):
        return _lowrank_log_det(d._unbroadcasted_cov_diag, d._capacitance_tril)
    return 2 * _half_log_det(d._unbroadcasted_scale_tril)


def _distance(d: Any, x: Tensor) -> Tensor:
    """x^T C^-1 x for d's covariance C."""
    if isinstance(d, LowRankMultivariateNormal):
        W, D = d._unbroadcasted_cov_factor, d._unbroadcasted_cov_diag
        return _lowrank_mahalanobis(W, D, x, d._capacitance_tril)
    return _batch_mahalanobis(d._unbroadcasted_scale_tril, x)


def _root(d: Any) -> list[Tensor]:
    """Matrices whose squares A A^T sum to the covariance."""
    if isinstance(d, LowRankMultivariateNormal):
        return [d._unbroadcasted_cov_factor, d._unbroadcasted_cov_diag.sqrt().diag_embed()]
    return [d._unbroadcasted_scale_tril]


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
@register_kl(MultivariateNormal, LowRankMultivariateNormal)
@register_kl(LowRankMultivariateNormal, MultivariateNormal)
@register_kl(MultivariateNormal, MultivariateNormal)
def _kl_normal_vectors(p: Any, q: Any) -> Tensor:
    if p.event_shape != q.event_shape:
        low = isinstance(p, LowRankMultivariateNormal) + isinstance(q, LowRankMultivariateNormal)
        raise ValueError(
            f"[kl_divergence] KL-divergence between two {('', '(Low Rank) ', 'Low Rank ')[low]}Multivariate Normals with "
            f"different event shapes cannot be computed: {p.event_shape} and {q.event_shape}"
        )
    # The trace of C_q^-1 C_p is the sum of the distances of the columns of C_p's roots.
    shape = tocha.broadcast_shapes(p.batch_shape, q.batch_shape)
    columns = (root.expand(shape + root.shape[-2:]).movedim(-1, 0) for root in _root(p))
    trace = sum(_distance(q, each).sum(0) for each in columns)
    kl = 0.5 * (_log_det(q) - _log_det(p) + trace + _distance(q, q.loc - p.loc) - p.event_shape[0])
    return kl.expand(shape)


# -- pairs of different families: what q asks for ----------------------------------------------------------


def _x_log_x(x: Tensor) -> Tensor:
    return tocha.xlogy(x, x)


def _uniform_mean_log(low: Tensor, high: Tensor) -> Tensor:
    return (_x_log_x(high) - _x_log_x(low)) / (high - low) - 1


def _mean_log(p: Any) -> Tensor:
    """E[log x]."""
    if isinstance(p, Beta):
        return p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma()
    if isinstance(p, Gamma):
        return p.concentration.digamma() - p.rate.log()
    if isinstance(p, Exponential):
        return -euler_constant - p.rate.log()
    if isinstance(p, Pareto):
        return p.scale.log() + 1 / p.alpha
    return _uniform_mean_log(p.low, p.high)


def _laplace_transform(p: Any, t: Tensor) -> Tensor:
    """E[e^(-t x)]."""
    if isinstance(p, Gamma):
        return (1 + t / p.rate).pow(-p.concentration)
    if isinstance(p, Exponential):
        return p.rate / (p.rate + t)
    if isinstance(p, Normal):
        return (0.5 * (p.scale * t).pow(2) - p.loc * t).exp()
    return ((-p.low * t).exp() - (-p.high * t).exp()) / (t * (p.high - p.low))


def _to_normal(p: Any, q: Any) -> Tensor:
    spread = (p.variance + (p.mean - q.loc).pow(2)) / (2 * q.scale.pow(2))
    return q.scale.log() + 0.5 * math.log(2 * math.pi) + spread - p.entropy()


def _to_exponential(p: Any, q: Any) -> Tensor:
    return q.rate * p.mean - q.rate.log() - p.entropy()


def _to_gamma(p: Any, q: Any) -> Tensor:
    a = q.concentration
    return a.lgamma() - a * q.rate.log() - (a - 1) * _mean_log(p) + q.rate * p.mean - p.entropy()


def _to_gumbel(p: Any, q: Any) -> Tensor:
    t = 1 / q.scale
    return q.scale.log() + (p.mean - q.loc) * t + (q.loc * t).exp() * _laplace_transform(p, t) - p.entropy()


def _to_continuous_bernoulli(p: Any, q: Any) -> Tensor:
    return -p.entropy() - p.mean * q.logits - (-q.probs).log1p() - q._cont_bern_log_norm()


def _to_uniform(p: Any, q: Any) -> Tensor:
    return (q.high - q.low).log() - p.entropy()


def _infinite(p: Any, q: Any) -> Tensor:
    """Values of p that q never takes; in p's shape, as PyTorch has it."""
    like = next(getattr(p, name) for name in p.arg_constraints)
    return tocha.full(p.batch_shape, inf, dtype=like.dtype, device=like.device)


def _register_all(function: Callable, kinds: tuple[type, ...], q: type) -> None:
    for p in kinds:
        register_kl(p, q)(function)


_register_all(_to_normal, (Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Laplace, Pareto, Uniform), Normal)
_register_all(_to_exponential, (Beta, ContinuousBernoulli, Gamma, Pareto), Exponential)
_register_all(_to_gamma, (Beta, Exponential, Pareto), Gamma)
_register_all(_to_gumbel, (Exponential, Gamma, Normal, Uniform), Gumbel)
_register_all(_to_continuous_bernoulli, (Beta, ContinuousBernoulli), ContinuousBernoulli)

_register_all(_infinite, (Exponential, Gamma, Gumbel, Laplace, Normal, Pareto), Beta)
_register_all(_infinite, (Exponential, Gamma, Gumbel, Laplace, Normal, Pareto), ContinuousBernoulli)
_register_all(_infinite, (Exponential, Gamma, Gumbel, Laplace, Normal, Pareto), Uniform)
_register_all(_infinite, (Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Laplace, Normal), Pareto)
_register_all(_infinite, (Gumbel, Laplace, Normal), Exponential)
_register_all(_infinite, (Gumbel, Laplace, Normal), Gamma)
_register_all(_infinite, (Poisson,), Bernoulli)
_register_all(_infinite, (Poisson,), Binomial)


@register_kl(Beta, Uniform)
def _kl_beta_uniform(p: Any, q: Any) -> Tensor:
    return _to_uniform(p, q).masked_fill((q.low > 0) | (q.high < 1), inf)


@register_kl(ContinuousBernoulli, Uniform)
def _kl_continuous_bernoulli_uniform(p: Any, q: Any) -> Tensor:
    # PyTorch counts uniform distributions that end at 0 or 1 as too narrow.
    return _to_uniform(p, q).masked_fill((q.low >= 0) | (q.high <= 1), inf)


@register_kl(Bernoulli, Poisson)
def _kl_bernoulli_poisson(p: Any, q: Any) -> Tensor:
    return q.rate - p.probs * q.rate.log() - p.entropy()


@register_kl(Gumbel, Gumbel)
def _kl_gumbel_gumbel(p: Any, q: Any) -> Tensor:
    # E[e^(-t x)] = e^(-t loc) Gamma(1 + t scale)
    ratio, shift = p.scale / q.scale, (q.loc - p.loc) / q.scale
    return -ratio.log() - shift + ratio * euler_constant + (shift + (1 + ratio).lgamma()).exp() - (1 + euler_constant)


@register_kl(Normal, Laplace)
def _kl_normal_laplace(p: Any, q: Any) -> Tensor:
    z = (p.loc - q.loc) / p.scale
    # E|x - loc|: the mean of a folded normal
    distance = p.scale * math.sqrt(2 / math.pi) * (-0.5 * z.pow(2)).exp() + (p.loc - q.loc) * (z * math.sqrt(0.5)).erf()
    return (2 * q.scale).log() + distance / q.scale - p.entropy()


@register_kl(Uniform, Beta)
def _kl_uniform_beta(p: Any, q: Any) -> Tensor:
    a, b = q.concentration1, q.concentration0
    normalizer = a.lgamma() + b.lgamma() - (a + b).lgamma()
    powers = (a - 1) * _mean_log(p) + (b - 1) * _uniform_mean_log(1 - p.high, 1 - p.low)
    return (normalizer - powers - p.entropy()).masked_fill((p.high > 1) | (p.low < 0), inf)


@register_kl(Uniform, ContinuousBernoulli)
def _kl_uniform_continuous_bernoulli(p: Any, q: Any) -> Tensor:
    return _to_continuous_bernoulli(p, q).masked_fill((p.high > 1) | (p.low < 0), inf)


@register_kl(Uniform, Exponential)
def _kl_uniform_exponential(p: Any, q: Any) -> Tensor:
    return _to_exponential(p, q).masked_fill(p.low < 0, inf)


@register_kl(Uniform, Gamma)
def _kl_uniform_gamma(p: Any, q: Any) -> Tensor:
    return _to_gamma(p, q).masked_fill(p.low < 0, inf)


@register_kl(Uniform, Pareto)
def _kl_uniform_pareto(p: Any, q: Any) -> Tensor:
    kl = (q.alpha + 1) * _mean_log(p) - q.alpha.log() - q.alpha * q.scale.log() - p.entropy()
    return kl.masked_fill(p.low < q.scale, inf)
