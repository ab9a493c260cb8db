"""Probability distributions that sample with PyTorch's numbers, with densities and gradients, transforms, constraints and KL divergences.

>>> from tocha.distributions import Normal, kl_divergence
>>> loc = tocha.tensor(1.0, requires_grad=True)
>>> kl_divergence(Normal(loc, 1.0), Normal(0.0, 1.0)).backward()
>>> loc.grad
tensor(1.)
"""

from __future__ import annotations

from tocha.distributions import transforms
from tocha.distributions.bernoulli import Bernoulli
from tocha.distributions.beta import Beta
from tocha.distributions.binomial import Binomial
from tocha.distributions.categorical import Categorical
from tocha.distributions.cauchy import Cauchy
from tocha.distributions.chi2 import Chi2
from tocha.distributions.constraint_registry import biject_to, transform_to
from tocha.distributions.continuous_bernoulli import ContinuousBernoulli
from tocha.distributions.dirichlet import Dirichlet
from tocha.distributions.distribution import Distribution
from tocha.distributions.exp_family import ExponentialFamily
from tocha.distributions.exponential import Exponential
from tocha.distributions.fishersnedecor import FisherSnedecor
from tocha.distributions.gamma import Gamma
from tocha.distributions.generalized_pareto import GeneralizedPareto
from tocha.distributions.geometric import Geometric
from tocha.distributions.gumbel import Gumbel
from tocha.distributions.half_cauchy import HalfCauchy
from tocha.distributions.half_normal import HalfNormal
from tocha.distributions.independent import Independent
from tocha.distributions.inverse_gamma import InverseGamma
from tocha.distributions.kl import kl_divergence, register_kl
from tocha.distributions.kumaraswamy import Kumaraswamy
from tocha.distributions.laplace import Laplace
from tocha.distributions.lkj_cholesky import LKJCholesky
from tocha.distributions.log_normal import LogNormal
from tocha.distributions.logistic_normal import LogisticNormal
from tocha.distributions.lowrank_multivariate_normal import LowRankMultivariateNormal
from tocha.distributions.mixture_same_family import MixtureSameFamily
from tocha.distributions.multinomial import Multinomial
from tocha.distributions.multivariate_normal import MultivariateNormal
from tocha.distributions.negative_binomial import NegativeBinomial
from tocha.distributions.normal import Normal
from tocha.distributions.one_hot_categorical import OneHotCategorical, OneHotCategoricalStraightThrough
from tocha.distributions.pareto import Pareto
from tocha.distributions.poisson import Poisson
from tocha.distributions.relaxed_bernoulli import RelaxedBernoulli
from tocha.distributions.relaxed_categorical import RelaxedOneHotCategorical
from tocha.distributions.studentT import StudentT
from tocha.distributions.transformed_distribution import TransformedDistribution
from tocha.distributions.transforms import *  # noqa: F403
from tocha.distributions.uniform import Uniform
from tocha.distributions.von_mises import VonMises
from tocha.distributions.weibull import Weibull
from tocha.distributions.wishart import Wishart

__all__ = [
    "Bernoulli",
    "Beta",
    "Binomial",
    "Categorical",
    "Cauchy",
    "Chi2",
    "ContinuousBernoulli",
    "Dirichlet",
    "Distribution",
    "Exponential",
    "ExponentialFamily",
    "FisherSnedecor",
    "Gamma",
    "GeneralizedPareto",
    "Geometric",
    "Gumbel",
    "HalfCauchy",
    "HalfNormal",
    "Independent",
    "InverseGamma",
    "Kumaraswamy",
    "LKJCholesky",
    "Laplace",
    "LogNormal",
    "LogisticNormal",
    "LowRankMultivariateNormal",
    "MixtureSameFamily",
    "Multinomial",
    "MultivariateNormal",
    "NegativeBinomial",
    "Normal",
    "OneHotCategorical",
    "OneHotCategoricalStraightThrough",
    "Pareto",
    "Poisson",
    "RelaxedBernoulli",
    "RelaxedOneHotCategorical",
    "StudentT",
    "TransformedDistribution",
    "Uniform",
    "VonMises",
    "Weibull",
    "Wishart",
    "biject_to",
    "kl_divergence",
    "register_kl",
    "transform_to",
]
__all__ += transforms.__all__
