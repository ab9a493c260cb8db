"""Distributions against PyTorch in detail: dtypes, layouts and errors of single calls, constraints, transforms, helpers.

Needs torch beside tocha; run by `make parity`.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
import torch.distributions

import tocha
import tocha.distributions


def answer(m, expression):
    """What an expression gives with one seed, or the error."""
    d = m.distributions
    m.manual_seed(3)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return eval(expression, {"m": m, "d": d, "t": m.tensor, "c": d.constraints, "u": d.utils})
    except Exception as e:
        return e


def words(text):
    return str(text).replace("tocha", "torch")


EXPRESSIONS = [
    line.strip()
    for line in """
    d.Distribution().sample()
    d.Distribution(validate_args=False).mode
    d.Distribution.set_default_validate_args(3)
    d.Normal(0.,1.).log_prob(1)
    d.Normal('a',1)
    d.Normal(m.zeros(3),1.).expand([2])
    d.Normal(m.zeros(3),1.).sample(2)
    d.Normal(m.zeros(3),1.).sample_n(4).shape
    d.Normal(m.zeros(3),1.).log_prob(m.zeros(1,2,1))
    d.Bernoulli()
    d.Bernoulli(0.5,0.5)
    d.Bernoulli(t([.5]))
    d.Bernoulli(t([.5,.2])).enumerate_support(False)
    d.Bernoulli(t([.5,.2,.7])).mode
    d.Categorical(t(.5))
    d.Categorical(logits=t(.5))
    d.Categorical()
    d.Categorical(t([.2,.8])).log_prob(t(.5))
    d.Categorical(t([[.2,.8]]*3)).log_prob(t([[0],[1]]))
    d.Categorical(t([0.,1.])).entropy()
    d.Categorical(t([0.,1.])).logits
    d.Multinomial(3.,t([.2,.8]))
    d.Multinomial(3,t([.2,.8])).support.check(t([1.,2]))
    d.Multinomial(3,t([0.,1])).log_prob(t([0.,3]))
    d.Binomial(t([3,4]),t(.5)).enumerate_support()
    d.Binomial(t([3,4]),t(.5)).entropy()
    d.Binomial(t([4,4]),t(.5)).enumerate_support()
    d.Uniform(1.,0.)
    d.Uniform(0.,1.).log_prob(t(1.))
    d.Uniform(t([0.,1]),2.).support
    d.Dirichlet(t(1.))
    d.Dirichlet(t([.5,.2])).mode
    d.Dirichlet(t([[.5,.2],[2.,3.]])).mode
    d.Gamma(1.,2.).log_prob(t(0.))
    d.Geometric(0.)
    d.Geometric(t([.5,0]))
    d.Geometric(1.).log_prob(t([0.,1.]))
    d.NegativeBinomial(0,t(.5)).log_prob(t(0.))
    d.Independent(d.Normal(m.zeros(3),1.),2)
    d.Independent(d.Bernoulli(m.ones(3)*.5),1).enumerate_support()
    d.MixtureSameFamily(d.Normal(0.,1.),d.Normal(m.ones(5),m.ones(5)))
    d.MixtureSameFamily(d.Categorical(m.ones(5)),3)
    d.MixtureSameFamily(d.Categorical(m.ones(5)),d.Normal(0.,1.))
    d.MixtureSameFamily(d.Categorical(m.ones(5)),d.Normal(m.ones(4),m.ones(4)))
    d.MixtureSameFamily(d.Categorical(m.ones(3,5)),d.Normal(m.ones(2,5),m.ones(2,5)))
    d.MultivariateNormal(m.zeros(2))
    d.MultivariateNormal(m.zeros(2),m.eye(2),m.eye(2))
    d.MultivariateNormal(t(0.),m.eye(2))
    d.MultivariateNormal(m.zeros(2),m.ones(2))
    d.MultivariateNormal(m.zeros(2),precision_matrix=m.ones(2))
    d.MultivariateNormal(m.zeros(2),scale_tril=m.ones(2))
    d.MultivariateNormal(m.zeros(2),m.eye(2)).log_prob(m.zeros(3))
    d.MultivariateNormal(m.zeros(2),precision_matrix=2*m.eye(2)).covariance_matrix
    d.MultivariateNormal(m.zeros(2),2*m.eye(2)).precision_matrix
    d.MultivariateNormal(m.zeros(2),4*m.eye(2)).scale_tril
    d.LowRankMultivariateNormal(m.zeros(2),m.ones(2,1),m.ones(2)).covariance_matrix
    d.LowRankMultivariateNormal(m.zeros(2),m.ones(2,1),m.ones(2)).precision_matrix
    d.LowRankMultivariateNormal(m.zeros(2),m.ones(2,1),m.ones(2)).scale_tril
    d.LowRankMultivariateNormal(t(0.),m.eye(2),m.ones(2))
    d.LowRankMultivariateNormal(m.zeros(2),m.ones(2),m.ones(2))
    d.LowRankMultivariateNormal(m.zeros(2),m.ones(3,1),m.ones(2))
    d.LowRankMultivariateNormal(m.zeros(2),m.ones(2,1),m.ones(3))
    d.LowRankMultivariateNormal(m.zeros(2),m.ones(3,2,1),m.ones(4,2))
    d.LKJCholesky(1)
    d.LKJCholesky(3).log_prob(m.ones(3,3))
    d.Wishart(1.,m.eye(3))
    d.Wishart(3.,m.ones(3))
    d.Wishart(3.)
    d.Wishart(t([3.,4]),m.eye(3)).arg_constraints
    d.Wishart(t([3.,4]),m.eye(3)).precision_matrix
    d.Pareto(1.,2.).support
    d.Pareto(1.,2.).base_dist
    d.Pareto(1.,2.).transforms
    d.Gumbel(1.,2.).base_dist
    d.Gumbel(1.,2.).transforms
    d.Weibull(1.,2.).transforms
    d.Kumaraswamy(1.,2.).base_dist
    d.HalfCauchy(1.).log_prob(t(-1.))
    d.LogisticNormal(0.,1.).event_shape
    d.RelaxedBernoulli(t(1.),.5).base_dist
    d.RelaxedOneHotCategorical(t(1.),t([.5,.5])).base_dist
    d.relaxed_bernoulli.LogitRelaxedBernoulli(t(1.),.5).has_rsample
    d.GeneralizedPareto(t([0.,1]),1.,-.5).support
    d.GeneralizedPareto(0.,1.,-.5).log_prob(t(3.))
    d.TransformedDistribution(d.Normal(0.,1.),d.SoftmaxTransform())
    d.TransformedDistribution(d.Normal(m.zeros(3),1.),3)
    d.TransformedDistribution(d.Normal(m.zeros(3),1.),[3])
    d.TransformedDistribution(3,[])
    d.TransformedDistribution(d.Normal(m.zeros(3),1.),d.ExpTransform()).log_prob(t([-1.,2,3]))
    d.TransformedDistribution(d.Normal(m.zeros(3),1.),d.ReshapeTransform((4,),(2,2)))
    d.TransformedDistribution(d.Normal(m.zeros(2,3),1.),d.AffineTransform(m.zeros(4,1,3),2.)).batch_shape
    d.TransformedDistribution(d.Normal(m.zeros(3),1.),[d.AbsTransform()]).log_prob(m.ones(3))
    d.TransformedDistribution(d.Normal(m.zeros(3),1.),[d.AbsTransform()]).cdf(m.ones(3))
    u.vec_to_tril_matrix(m.arange(1.,4))
    u.vec_to_tril_matrix(m.arange(1.,6))
    u.vec_to_tril_matrix(m.arange(1.,7),-2)
    u.vec_to_tril_matrix(m.arange(1.,9),1)
    u.vec_to_tril_matrix(m.arange(12.).view(2,6))
    u.tril_matrix_to_vec(m.arange(9.).view(3,3),3)
    u.tril_matrix_to_vec(m.arange(9.).view(3,3),-3)
    u.tril_matrix_to_vec(m.arange(18.).view(2,3,3),1)
    u.broadcast_all(1,2.)
    u.broadcast_all(True,t([1,2]))
    u.broadcast_all(1j,t([1,2]))
    u.broadcast_all(t([1.,2]),t([1.,2,3]))
    u.broadcast_all()
    u.clamp_probs(t([0.,.5,1.]))
    u.probs_to_logits(t([0.,.5,1.]))
    u.probs_to_logits(t([0.,.5,1.]),True)
    u.logits_to_probs(t([0.,.5,1.]))
    u.logits_to_probs(t([0.,.5,1.]),True)
    d.transform_to(c.positive)
    d.transform_to(c.nonnegative)
    d.transform_to(c.less_than(2.))
    d.transform_to(c.interval(0,1))
    d.transform_to(c.interval(0,2.))
    d.transform_to(c.interval(0.,t([1.,2])))(m.zeros(2))
    d.transform_to(c.half_open_interval(0.,1.))
    d.transform_to(c.simplex), d.biject_to(c.simplex)
    d.transform_to(c.real)
    d.transform_to(c.real_vector)
    d.transform_to(c.independent(c.positive,2))
    d.transform_to(c.lower_cholesky)
    d.biject_to(c.lower_cholesky)
    d.transform_to(c.positive_definite)
    d.transform_to(c.positive_semidefinite)
    d.transform_to(c.corr_cholesky)
    d.transform_to(c.cat([c.positive,c.real],0,[2,3]))(m.arange(5.))
    d.biject_to(c.stack([c.positive,c.real],0))(m.arange(4.).view(2,2))
    d.transform_to(c.boolean)
    d.transform_to(3)
    d.transform_to(c.dependent)
    d.transform_to.register(3,lambda c:c)
    d.transform_to.register(int,lambda c:c)
    c.Constraint().check(t(1.))
    c.dependent.check(t(1.))
    c.dependent.event_dim
    c.dependent(is_discrete=True,event_dim=1).event_dim
    c.cat([c.positive],0,[1,2])
    c.cat([c.positive,c.real]).check(t([1.,-1]))
    c.cat([c.positive,c.real]).event_dim
    c.stack([c.positive,c.real]).check(t([[1.,-1],[3,4]]))
    c.stack([c.positive,c.real]).event_dim
    c.stack([c.positive,c.real],-1).event_dim
    c.cat([c.positive,3])
    c.independent(c.real,1).check(t(1.))
    c.independent(3,1)
    c.MixtureSameFamilyConstraint(c.real_vector).check(t(1.))
    c.MixtureSameFamilyConstraint(c.simplex).check(m.ones(2,3)/3)
    c.MixtureSameFamilyConstraint(3)
    c.symmetric.check(m.ones(2,3))
    c.symmetric.check(t([[[1.,2],[2,1]],[[1,2],[3,4]]]))
    c.positive_definite.check(m.ones(2,3))
    c.positive_definite.check(m.stack([m.eye(2),-m.eye(2),m.ones(2,2)]))
    c.positive_semidefinite.check(m.stack([m.eye(2),-m.eye(2),m.ones(2,2)]))
    c.lower_triangular.check(m.ones(4,2,2).tril())
    c.lower_triangular.check(m.ones(2))
    c.simplex.check(t([[.5,.5],[.5,.6],[-.5,1.5]]))
    c.one_hot.check(m.eye(3))
    c.one_hot.check(m.ones(3,2))
    c.boolean.check(t([0.,1,.5]))
    c.integer_interval(0,3).check(t([0,1.5,4]))
    c.integer_interval(t(0),t([3,4]))
    c._IntegerLessThan(3).check(t([1.,4.,2.5]))
    c.positive_integer.check(t([1.,0.,2.5]))
    c.half_open_interval(0.,1.).check(t([0.,1.,.5]))
    c.multinomial(3).check(t([[1.,2],[1,1],[2,2]]))
    c.corr_cholesky.check(m.stack([m.eye(3),2*m.eye(3)]))
    c.square.check(m.ones(2,3,3))
    c.is_dependent(d.Uniform.support), d.Uniform.support.event_dim, d.Uniform.support.is_discrete
    d.Categorical.support.is_discrete
    d.Multinomial.support.event_dim
    d.Independent.support.event_dim
    d.Transform(cache_size=2)
    d.Transform().domain
    d.Transform()(t(1.))
    d.Transform().sign
    d.ExpTransform(1)==d.ExpTransform()
    d.ExpTransform()==d.SigmoidTransform()
    hash(d.ExpTransform())
    d.ExpTransform().inv, d.ExpTransform().inv.inv
    d.ExpTransform().inv.sign, d.ExpTransform().inv.domain, d.ExpTransform().inv.codomain
    d.AbsTransform().inv(t([1.,2]))
    d.AbsTransform().log_abs_det_jacobian(t(1.),t(1.))
    d.CorrCholeskyTransform().event_dim
    d.AffineTransform(1.,2.).sign, d.AffineTransform(1.,t([2.,-1])).sign, d.AffineTransform(1.,-2).sign
    d.AffineTransform(1.,2.)==d.AffineTransform(t(1.),t(2.))
    d.AffineTransform(1.,2.,event_dim=1).domain
    d.AffineTransform(1.,2.).log_abs_det_jacobian(m.zeros(3),m.zeros(3))
    d.AffineTransform(1.,2.,event_dim=1).log_abs_det_jacobian(m.zeros(3),m.zeros(3))
    d.AffineTransform(1.,t([1.,2,3]),event_dim=1).log_abs_det_jacobian(m.zeros(2,3),m.zeros(2,3))
    d.AffineTransform(t([1.,2]),2.).forward_shape((3,1))
    d.PowerTransform(2.).sign
    d.PowerTransform(t(2.))==d.PowerTransform(2)
    d.PowerTransform(t(.5)).inv(t([4.])),d.PowerTransform(t(.5)).log_abs_det_jacobian(t([4.]),t([2.]))
    d.ComposeTransform([d.ExpTransform(),d.AffineTransform(0.,-1.)]).sign
    d.ComposeTransform([d.ExpTransform(),d.AffineTransform(0.,-1.)]).inv
    d.ComposeTransform([]).domain, d.ComposeTransform([]).bijective, d.ComposeTransform([]).sign
    d.ComposeTransform([]).log_abs_det_jacobian(m.ones(3),m.ones(3))
    d.ComposeTransform([d.ExpTransform(),d.StickBreakingTransform()]).domain
    d.ComposeTransform([d.CorrCholeskyTransform(),d.ExpTransform()]).codomain
    d.ComposeTransform([d.StickBreakingTransform(),d.StickBreakingTransform()]).forward_shape((3,))
    d.ComposeTransform([d.ExpTransform(),d.AffineTransform(0.,-1.)]).with_cache()
    d.IndependentTransform(d.ExpTransform(),1)
    d.IndependentTransform(d.ExpTransform(),1).domain
    d.IndependentTransform(d.ExpTransform(),1)(t(1.))
    d.IndependentTransform(d.ExpTransform(),1).log_abs_det_jacobian(m.ones(3),m.ones(3))
    d.IndependentTransform(d.ExpTransform(),1)==d.IndependentTransform(d.ExpTransform(),1)
    d.ReshapeTransform((3,),(2,))
    d.ReshapeTransform((4,),(2,2)).domain, d.ReshapeTransform((4,),(2,2)).codomain
    d.ReshapeTransform((4,),(2,2)).forward_shape((3,4)), d.ReshapeTransform((4,),(2,2)).inverse_shape((3,2,2))
    d.ReshapeTransform((4,),(2,2)).forward_shape((3,))
    d.ReshapeTransform((4,),(2,2)).forward_shape(())
    d.ReshapeTransform((4,),(2,2)).log_abs_det_jacobian(m.ones(3,4),m.ones(3,2,2))
    d.StickBreakingTransform().forward_shape((3,)), d.StickBreakingTransform().inverse_shape((3,))
    d.StickBreakingTransform().forward_shape(())
    d.SoftmaxTransform().forward_shape(())
    d.CorrCholeskyTransform().forward_shape((3,)), d.CorrCholeskyTransform().inverse_shape((4,4))
    d.CorrCholeskyTransform().forward_shape((4,))
    d.CorrCholeskyTransform().inverse_shape((4,))
    d.CorrCholeskyTransform().inverse_shape((4,3))
    d.CatTransform([d.ExpTransform(),d.identity_transform],0,[2,1])(m.arange(3.))
    d.CatTransform([d.ExpTransform(),d.identity_transform],0,[2,1]).inv(m.arange(3.))
    d.CatTransform([d.ExpTransform(),d.identity_transform],0,[2,1]).log_abs_det_jacobian(m.arange(3.),m.arange(3.))
    d.CatTransform([d.ExpTransform(),d.identity_transform],0,[2,1])(m.arange(4.))
    d.CatTransform([d.ExpTransform(),d.identity_transform],1,[2,1])(m.arange(3.))
    d.CatTransform([d.ExpTransform(),3])
    d.CatTransform([d.ExpTransform()],0,[1,2])
    d.CatTransform([d.ExpTransform(),d.identity_transform],0,[2,1]).event_dim
    d.CatTransform([d.StickBreakingTransform(),d.IndependentTransform(d.ExpTransform(),1)],0,[2,2]).log_abs_det_jacobian(m.ones(4,2),m.ones(4,3))
    d.StackTransform([d.ExpTransform(),d.identity_transform],0)(m.arange(4.).view(2,2))
    d.StackTransform([d.ExpTransform(),d.identity_transform],0).log_abs_det_jacobian(m.arange(4.).view(2,2),m.arange(4.).view(2,2))
    d.StackTransform([d.ExpTransform(),d.identity_transform],0)(m.arange(3.))
    d.StackTransform([3])
    d.CumulativeDistributionTransform(d.Normal(0.,1.)).domain
    d.CumulativeDistributionTransform(d.Normal(0.,1.)).log_abs_det_jacobian(t([0.,1]),t([.1,.5]))
    d.TanhTransform().log_abs_det_jacobian(t([0.,20,-20]),t(0.))
    d.SoftplusTransform()(t([0.,20,-20])), d.SoftplusTransform().inv(t([0.,20,1e-5])),d.SoftplusTransform().log_abs_det_jacobian(t([0.,20,-20]),t(0.))
    d.SigmoidTransform()(t([0.,200,-200])), d.SigmoidTransform().inv(t([0.,1,.5])),d.SigmoidTransform().log_abs_det_jacobian(t([0.,20,-20]),t(0.))
    d.TanhTransform()(t([0.,200,-200])), d.TanhTransform().inv(t([0.,1,-1]))
    d.SoftmaxTransform()(t([0.,2])), d.SoftmaxTransform().inv(t([.5,.5]))
    d.StickBreakingTransform().inv(t([.5,.25,.25])), d.StickBreakingTransform().inv(t([.5,.5,0])),d.StickBreakingTransform().inv(t([0.,.5,.5]))
    d.StickBreakingTransform().log_abs_det_jacobian(t([0.,2]),d.StickBreakingTransform()(t([0.,2])))
    d.LowerCholeskyTransform()(m.arange(4.).view(2,2)), d.LowerCholeskyTransform().inv(t([[1.,0],[2,3]]))
    d.PositiveDefiniteTransform()(m.arange(4.).view(2,2)), d.PositiveDefiniteTransform().inv(t([[1.,.5],[.5,3]]))
    d.CorrCholeskyTransform()(t([0.,2,3])), d.CorrCholeskyTransform().log_abs_det_jacobian(t([0.,2,3]),d.CorrCholeskyTransform()(t([0.,2,3])))
    d.ExpTransform(1).with_cache()._cache_size
    d.Normal(t(0),t(1)).sample()
    d.Normal(t(0),1.5).scale
    d.Normal(m.zeros(2,dtype=m.half),m.ones(2,dtype=m.half)).sample()
    d.Normal(m.zeros(2,dtype=m.half),m.ones(2,dtype=m.half)).log_prob(m.ones(2,dtype=m.half))
    d.Normal(m.zeros(2,dtype=m.bfloat16),m.ones(2,dtype=m.bfloat16)).rsample((3,))
    d.Normal(m.zeros(2,dtype=m.bfloat16),1.).log_prob(m.ones(2))
    d.Normal(m.zeros(2,dtype=m.float64),1.).log_prob(m.ones(2))
    d.Normal(m.zeros(2),1.).log_prob(m.ones(2,dtype=m.int64))
    d.Normal(m.zeros(2,requires_grad=True),1.).sample((2,))
    d.Normal(m.zeros(2,requires_grad=True),1.).rsample((2,))
    d.Normal(m.zeros(2,3).t(),m.ones(3,1)).loc
    d.Normal(m.zeros(2,3).t(),m.ones(3,1)).sample((2,))
    d.Normal(m.zeros(2,3).t(),m.ones(3,1)).rsample((2,))
    d.Normal(m.zeros(2,3).t(),m.ones(3,1)).log_prob(m.zeros(3,2))
    d.Normal(0.,1.).sample((2.,))
    d.Normal(0.,1.).sample('a')
    d.Normal(0.,1.).sample(t([2,3]))
    d.Normal(0,1).icdf(t([.1,.9,0.,1.,-.1]))
    d.Bernoulli(t([1,0])).sample()
    d.Bernoulli(True).sample()
    d.Bernoulli(t([.5,.2])).log_prob(t([True,False]))
    d.Bernoulli(t([.5,.2])).log_prob(t(1.))
    d.Categorical(t([1,2,3])).sample((3,))
    d.Categorical(t([1.,2,3],requires_grad=True)).sample((3,))
    d.Categorical(t([1.,2,3])).sample((3,0))
    d.Categorical(m.ones(3,2)).sample((4,))
    d.Categorical(m.ones(0,4)).sample()
    d.Categorical(m.ones(3,2)).log_prob(m.zeros(4,1))
    d.Categorical(m.ones(3,2)).expand((5,3)).logits
    d.OneHotCategorical(m.ones(3,2)).sample((2,))
    d.Multinomial(3,m.ones(3,2)).sample((2,))
    d.Multinomial(0,m.ones(3,2)).sample((2,))
    d.Multinomial(3,m.ones(3,2)).log_prob(m.ones(4,1,2))
    d.Poisson(t([1,2])).sample()
    d.Gamma(t([1.,2],dtype=m.half),1.).sample()
    d.Gamma(t([1.,2]),1.).log_prob(3.)
    d.Chi2(t(3)).sample()
    d.Beta(t([1.,2],dtype=m.float64),1.).concentration0
    d.Beta(t([1,2]),t([1,2])).sample()
    d.Dirichlet(m.ones(2,3).t()).sample((2,))
    d.Exponential(t([1,2])).sample()
    d.Uniform(t(0),t(1)).sample((2,))
    d.Uniform(t([0.,.3]),1.,validate_args=False).log_prob(t([[2.],[.5]]))
    d.Binomial(3,t([.2,.3])).log_prob(t([1,2]))
    d.Binomial(3,0.5)
    d.NegativeBinomial(3,.5)
    d.StudentT(t(3)).sample()
    d.LKJCholesky(3,1).sample()
    d.MultivariateNormal(m.zeros(3,2),m.eye(2)).log_prob(m.zeros(2))
    d.MultivariateNormal(m.zeros(3,2),m.eye(2)).log_prob(m.zeros(4,1,2))
    d.MultivariateNormal(m.zeros(2),m.eye(2).expand(3,2,2)).rsample((4,))
    d.MultivariateNormal(m.zeros(2),m.eye(2).expand(3,2,2)).log_prob(m.zeros(5,1,2))
    d.MultivariateNormal(m.zeros(2),m.eye(2).expand(3,2,2)).entropy()
    d.MultivariateNormal(m.zeros(2),m.eye(2).expand(3,2,2)).expand((2,3)).covariance_matrix
    d.LogisticNormal(m.zeros(2,3),m.ones(3)).expand((4,2)).sample()
    d.RelaxedBernoulli(.5,.5)
    d.RelaxedBernoulli(.5,t([.5,.2])).log_prob(t([.3,.4]))
    d.RelaxedOneHotCategorical(.5,t([.5,.2])).sample()
    d.Wishart(3,m.eye(2)).sample()
    d.Wishart(t([3.,4.]),m.eye(2).expand(2,2,2)).sample((3,))
    d.Weibull(t([1.,2.]),2.).expand((3,2)).rsample()
    d.Gumbel(t(0.),1).cdf(t(.3))
    d.GeneralizedPareto(0,1,0).sample((2,))
    d.Independent(d.Categorical(m.ones(2,3)),0).enumerate_support()
    d.TransformedDistribution(d.Uniform(0.,1.),[d.SigmoidTransform().inv]).log_prob(t([.3,4.]))
    d.MixtureSameFamily(d.Categorical(m.ones(2)),d.Normal(t([0.,1.]),1.)).log_prob(t([3.,float('nan')]))
    d.MixtureSameFamily(d.Categorical(m.ones(2)),d.Gamma(t([1.,1.]),1.)).log_prob(t([-3.,1.]))
    d.kl_divergence(d.Normal(m.zeros(2,1),1.),d.Normal(m.zeros(3),2.))
    d.kl_divergence(d.Normal(m.zeros(2),1.),d.Beta(m.ones(3,1),2.))
    d.kl_divergence(d.MultivariateNormal(m.zeros(2),m.eye(2)),d.MultivariateNormal(m.zeros(3),m.eye(3)))
    d.kl_divergence(d.Categorical(m.ones(2,3)),d.Categorical(m.ones(4)))
    d.kl_divergence(d.Wishart(4.,m.eye(2)),d.Wishart(3.,m.eye(2)))
    d.Distribution(m.Size([2]),validate_args=False).batch_shape
    """.strip().splitlines()
]  # fmt: skip


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_expressions(expression):
    ours, theirs = answer(tocha, expression), answer(torch, expression)
    if isinstance(theirs, Exception):
        assert type(ours) is type(theirs), (ours, theirs)
        if not isinstance(theirs, (TypeError, AttributeError, RuntimeError)) or isinstance(theirs, NotImplementedError):
            phrase = words(theirs).strip().split("\n")[0].rstrip(".")
            # Some texts hold runs of spaces.
            assert " ".join(phrase.split()) in " ".join(words(ours).split())
    elif isinstance(theirs, torch.Tensor):
        assert not isinstance(ours, Exception), ours
        for fact in ("shape", "dtype", "requires_grad"):
            assert words(getattr(ours, fact)) == str(getattr(theirs, fact))
        assert ours.stride() == theirs.stride()
        np.testing.assert_allclose(
            ours.detach().double().numpy(), theirs.detach().double().numpy(), rtol=1e-3, atol=1e-5
        )
    else:
        assert words(repr(ours)) == repr(theirs)
