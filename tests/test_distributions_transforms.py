"""Transforms, constraints, their registries, and KL divergences: inverses, Jacobians by differentiation, Monte Carlo."""

from __future__ import annotations

import copy
import gc
import math
import pickle

import numpy as np
import pytest

import tocha
from tocha import distributions as D
from tocha.distributions import constraints as C
from tocha.distributions import transforms as T


def f64(*shape):
    return tocha.randn(*shape, dtype=tocha.float64)


ONE_NUMBER = {
    "exp": T.ExpTransform(),
    "sigmoid": T.SigmoidTransform(),
    "softplus": T.SoftplusTransform(),
    "tanh": T.TanhTransform(),
    "affine": T.AffineTransform(0.5, -2.0),
    "affine of tensors": T.AffineTransform(tocha.ones(3, dtype=tocha.float64), tocha.tensor([1.0, -2.0, 0.5])),
    "compose": T.ComposeTransform([T.AffineTransform(1.0, 0.5), T.TanhTransform(), T.AffineTransform(2.0, 3.0)]),
    "normal cdf": T.CumulativeDistributionTransform(D.Normal(0.3, 1.2)),
    "inverse": T.ExpTransform().inv.inv,
    "nothing": T.identity_transform,
}
POSITIVE = {
    "power": T.PowerTransform(tocha.tensor(1.7, dtype=tocha.float64)),
    "power down": T.PowerTransform(tocha.tensor([-0.5, 2.0, 3.0], dtype=tocha.float64)),
    "log": T.ExpTransform().inv,
}


@pytest.mark.parametrize("name", [*ONE_NUMBER, *POSITIVE])
def test_transforms_of_one_number(name):
    transform = ONE_NUMBER.get(name) or POSITIVE[name]
    x = f64(5, 3).abs() + 0.1 if name in POSITIVE else f64(5, 3)
    x.requires_grad_()
    y = transform(x)
    assert transform.codomain.check(y).all() and transform.domain.check(x).all()
    np.testing.assert_allclose(transform.inv(y).detach().numpy(), x.detach().numpy(), rtol=1e-7, atol=1e-7)
    (slope,) = tocha.autograd.grad(y.sum(), x)
    jacobian = transform.log_abs_det_jacobian(x, y).detach().numpy()
    np.testing.assert_allclose(jacobian, slope.abs().log().numpy(), rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(transform.inv.log_abs_det_jacobian(y, x).detach().numpy(), -jacobian)
    assert np.all(
        np.sign(slope.numpy()) == (transform.sign if isinstance(transform.sign, int) else transform.sign.numpy())
    )
    assert tuple(transform.forward_shape((5, 3))) == (5, 3) == tuple(transform.inverse_shape((5, 3)))
    assert transform.bijective


VECTORS = {
    "stick breaking": (T.StickBreakingTransform(), (4,), lambda y: y[..., :-1]),
    "cholesky": (T.CorrCholeskyTransform(), (6,), lambda y: D.utils.tril_matrix_to_vec(y, -1)),
    "independent": (T.IndependentTransform(T.ExpTransform(), 1), (3,), lambda y: y),
    "reshape": (T.ReshapeTransform((6,), (2, 3)), (6,), lambda y: y.flatten(-2)),
    "affine": (T.AffineTransform(1.0, tocha.tensor([2.0, -3.0, 0.5]), event_dim=1), (3,), lambda y: y),
    "chain": (
        T.ComposeTransform([T.AffineTransform(0.0, 2.0), T.StickBreakingTransform()]),
        (3,),
        lambda y: y[..., :-1],
    ),
}


@pytest.mark.parametrize("name", VECTORS)
def test_transforms_of_vectors(name):
    transform, shape, free = VECTORS[name]
    x = f64(*shape)
    y = transform(x)
    assert tuple(y.shape) == tuple(transform.forward_shape(shape)) and tuple(transform.inverse_shape(y.shape)) == shape
    assert transform.codomain.check(y).all()
    np.testing.assert_allclose(transform.inv(y).numpy(), x.numpy(), rtol=1e-7, atol=1e-8)
    matrix = tocha.autograd.functional.jacobian(lambda v: free(transform(v)), x)
    expected = tocha.linalg.slogdet(matrix).logabsdet.item()
    assert transform.log_abs_det_jacobian(x, y).item() == pytest.approx(expected, rel=1e-6)
    batch = f64(5, 2, *shape)
    assert transform.log_abs_det_jacobian(batch, transform(batch)).shape == (5, 2)
    np.testing.assert_allclose(transform.inv(transform(batch)).numpy(), batch.numpy(), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("transform", [T.SoftmaxTransform(), T.LowerCholeskyTransform(), T.PositiveDefiniteTransform()])
def test_transforms_that_are_not_one_to_one(transform):
    x = f64(4, 3, 3)
    y = transform(x)
    assert transform.codomain.check(y).all() and not transform.bijective
    np.testing.assert_allclose(transform(transform.inv(y)).numpy(), y.numpy(), rtol=1e-7, atol=1e-8)
    with pytest.raises(NotImplementedError):
        transform.log_abs_det_jacobian(x, y)


def test_parts():
    x = f64(5, 4)
    cat = T.CatTransform([T.ExpTransform(), T.identity_transform], dim=1, lengths=[1, 3])
    y = cat(x)
    np.testing.assert_allclose(y.numpy(), np.concatenate([np.exp(x[:, :1].numpy()), x[:, 1:].numpy()], 1))
    np.testing.assert_allclose(cat.inv(y).numpy(), x.numpy(), atol=1e-12)
    np.testing.assert_allclose(cat.log_abs_det_jacobian(x, y).numpy()[:, 0], x[:, 0].numpy())
    stack = T.StackTransform(
        [T.ExpTransform(), T.TanhTransform(), T.AffineTransform(0.0, 2.0), T.identity_transform], 1
    )
    y = stack(x)
    assert stack.codomain.check(y).all()
    np.testing.assert_allclose(stack.inv(y).numpy(), x.numpy(), atol=1e-9)
    assert stack.log_abs_det_jacobian(x, y).shape == (5, 4)
    for transform in (cat, stack):
        with pytest.raises(AssertionError):
            transform(f64(5, 3))


def test_caches():
    calls = []

    class Counted(T.ExpTransform):
        def _inverse(self, y):
            calls.append(y)
            return super()._inverse(y)

    transform = Counted(cache_size=1)
    x = f64(3)
    y = transform(x)
    assert transform(x) is y and transform.inv(y) is x and not calls
    assert transform.inv(y.clone()) is not x and len(calls) == 1
    assert Counted().with_cache()._cache_size == 1
    with pytest.raises(ValueError, match="cache_size must be 0 or 1"):
        T.ExpTransform(cache_size=2)
    # An inverse and its transform do not keep each other alive.
    composed = T.ComposeTransform([T.ExpTransform()])
    inverse = composed.inv
    assert inverse.inv is composed
    del composed
    gc.collect()
    assert tocha.equal(inverse.inv(x), x.exp())


def test_equality_and_pickling():
    pairs = [
        T.ExpTransform(),
        T.AffineTransform(1.0, tocha.ones(2)),
        T.PowerTransform(tocha.ones(2)),
        T.ExpTransform().inv,
    ]
    pairs.append(T.ComposeTransform(pairs[:2]))
    for i, one in enumerate(pairs):
        one.inv  # noqa: B018
        for copied in (pickle.loads(pickle.dumps(one)), copy.deepcopy(one)):
            assert copied == one
            assert tocha.allclose(copied(tocha.ones(2) * 2), one(tocha.ones(2) * 2))
        assert all(one != other for other in pairs[i + 1 :])
    with pytest.raises(TypeError, match="unhashable"):
        hash(T.ExpTransform())


# -- constraints ----------------------------------------------------------------------------------------------

SHAPED = {
    "real": C.real,
    "positive": C.positive,
    "less": C.less_than(-1.0),
    "greater": C.greater_than(tocha.tensor([1.0, 2.0, 3.0])),
    "unit": C.unit_interval,
    "interval": C.interval(-2.0, 5.0),
    "half open": C.half_open_interval(1.0, 2.0),
    "simplex": C.simplex,
    "vector": C.real_vector,
    "independent": C.independent(C.positive, 1),
    "lower cholesky": C.lower_cholesky,
    "positive definite": C.positive_definite,
    "positive semidefinite": C.positive_semidefinite,
    "correlation": C.corr_cholesky,
    "cat": C.cat([C.positive, C.unit_interval], dim=-1, lengths=[1, 2]),
    "stack": C.stack([C.positive, C.unit_interval, C.real], dim=-1),
}


@pytest.mark.parametrize("name", SHAPED)
@pytest.mark.parametrize("registry", [D.transform_to, D.biject_to])
def test_registries_lead_to_constraints(name, registry):
    constraint = SHAPED[name]
    if registry is D.biject_to and name in ("lower cholesky", "positive definite", "positive semidefinite"):
        with pytest.raises(NotImplementedError, match="Cannot transform"):
            registry(constraint)
        return
    x = f64(4, 3, 3) * 2
    y = registry(constraint)(x)
    assert constraint.check(y).all()
    if registry is D.biject_to:
        np.testing.assert_allclose(registry(constraint).inv(y).numpy(), x.numpy(), rtol=1e-4, atol=1e-5)


def test_own_constraints():
    class Even(C.Constraint):
        def check(self, value):
            return value % 2 == 0

    registry = D.constraint_registry.ConstraintRegistry()

    @registry.register(Even)
    def to_even(constraint):
        return T.AffineTransform(0.0, 2.0)

    assert registry(Even()) == T.AffineTransform(0.0, 2.0) and repr(Even()) == "Even()"
    with pytest.raises(TypeError, match="Expected constraint to be either a Constraint subclass or instance"):
        registry.register(int, to_even)
    assert not C.is_dependent(C.real) and C.is_dependent(D.Uniform.support)
    with pytest.raises(NotImplementedError):
        C.dependent.event_dim  # noqa: B018


@pytest.mark.parametrize(
    ("constraint", "good", "bad"),
    [
        (C.boolean, [0.0, 1.0], [0.5, math.nan]),
        (C.nonnegative_integer, [0.0, 3.0], [-1.0, 0.5, math.nan]),
        (C.positive, [1e-30, math.inf], [0.0, -1.0, math.nan]),
        (C.nonnegative, [0.0], [-1e-30, math.nan]),
        (C.unit_interval, [0.0, 1.0], [-1e-7, 1.1, math.nan]),
        (C.half_open_interval(0.0, 1.0), [0.0], [1.0, math.nan]),
        (C.integer_interval(2, 4), [2.0, 4.0], [1.0, 5.0, 2.5]),
        (C.less_than(2.0), [1.0], [2.0, math.nan]),
        (C.real, [math.inf, -3.0], [math.nan]),
    ],
)
def test_checks(constraint, good, bad):
    assert constraint.check(tocha.tensor(good)).all()
    assert not constraint.check(tocha.tensor(bad)).any()


def test_matrices_as_vectors():
    for n in range(1, 6):
        for diag in range(-n + 1, n):
            matrix = f64(2, n, n).tril(diag)
            vector = D.utils.tril_matrix_to_vec(matrix, diag)
            assert tocha.equal(D.utils.vec_to_tril_matrix(vector, diag), matrix)
    with pytest.raises(ValueError, match="cannot be expressed"):
        D.utils.vec_to_tril_matrix(f64(5))
    with pytest.raises(ValueError, match="is outside"):
        D.utils.tril_matrix_to_vec(f64(3, 3), 3)


# -- KL divergences ---------------------------------------------------------------------------------------------


def parameters(kind):
    positive = lambda: tocha.rand((), dtype=tocha.float64) * 1.5 + 0.6  # noqa: E731
    made = {
        D.Bernoulli: lambda: D.Bernoulli(positive() / 3),
        D.Beta: lambda: D.Beta(positive(), positive()),
        D.Binomial: lambda: D.Binomial(5, positive() / 3),
        D.Categorical: lambda: D.Categorical(tocha.rand(4, dtype=tocha.float64) + 0.1),
        D.Cauchy: lambda: D.Cauchy(positive(), positive()),
        D.ContinuousBernoulli: lambda: D.ContinuousBernoulli(positive() / 3),
        D.Dirichlet: lambda: D.Dirichlet(tocha.rand(3, dtype=tocha.float64) + 0.8),
        D.Exponential: lambda: D.Exponential(positive() + 1),
        D.Gamma: lambda: D.Gamma(positive() + 1, positive() + 1),
        D.Geometric: lambda: D.Geometric(positive() / 3),
        D.Gumbel: lambda: D.Gumbel(positive(), positive()),
        D.HalfNormal: lambda: D.HalfNormal(positive()),
        D.Independent: lambda: D.Independent(D.Normal(f64(3), positive()), 1),
        D.Laplace: lambda: D.Laplace(positive(), positive()),
        D.LowRankMultivariateNormal: lambda: D.LowRankMultivariateNormal(f64(3), f64(3, 2), f64(3).abs() + 0.5),
        D.MultivariateNormal: lambda: D.MultivariateNormal(f64(3), scale_tril=f64(3, 3).tril(-1) + tocha.eye(3)),
        D.Normal: lambda: D.Normal(positive(), positive()),
        D.OneHotCategorical: lambda: D.OneHotCategorical(tocha.rand(4, dtype=tocha.float64) + 0.1),
        D.Pareto: lambda: D.Pareto(positive() / 4, positive() + 4),
        D.Poisson: lambda: D.Poisson(positive()),
        D.TransformedDistribution: lambda: D.LogNormal(positive(), positive()),
        D.Uniform: lambda: D.Uniform(positive() / 4, 0.5 + positive() / 6),
    }
    return made[kind]()


PAIRS = [pair for pair in D.kl._KL_REGISTRY if D.ExponentialFamily not in pair]


@pytest.mark.parametrize(("kind_p", "kind_q"), PAIRS, ids=lambda k: k.__name__)
def test_kl_is_the_mean_of_log_ratios(kind_p, kind_q):
    p, q = parameters(kind_p), parameters(kind_q)
    if kind_q is D.Uniform and kind_p in (D.Uniform, D.Beta, D.ContinuousBernoulli):
        q = D.Uniform(tocha.tensor(-0.1, dtype=tocha.float64), 1.3)
    if (kind_p, kind_q) == (D.Uniform, D.Pareto):
        p, q = D.Uniform(p.low + 0.6, p.high + 0.6), D.Pareto(q.scale.clamp(max=0.3), q.alpha)
    if (kind_p, kind_q) == (D.Pareto, D.Pareto):
        q = D.Pareto(p.scale * 0.7, q.alpha)
    if kind_p is D.Binomial and kind_q is D.Binomial:
        q = D.Binomial(5, q.probs)
    q._validate_args = False
    kl = D.kl_divergence(p, q)
    x = p.sample((200000,))
    if math.isinf(kl.item()):
        # Poisson counts beyond q's are rare; the others are seen.
        assert kind_p is D.Poisson or not q.support.check(x).all()
        return
    ratios = (p.log_prob(x) - q.log_prob(x)).numpy()
    error = ratios.std() / math.sqrt(len(ratios))
    assert kl.item() == pytest.approx(ratios.mean(), abs=6 * error + 1e-6)
    assert kl.item() >= 0
    assert D.kl_divergence(p, p).item() == pytest.approx(0, abs=1e-9) if kind_p is kind_q else True


def test_kl_of_batches_and_subclasses():
    p = D.MultivariateNormal(f64(5, 1, 3), scale_tril=tocha.eye(3, dtype=tocha.float64))
    q = D.LowRankMultivariateNormal(f64(3), f64(4, 3, 1), tocha.ones(3, dtype=tocha.float64))
    kl = D.kl_divergence(p, q)
    assert kl.shape == (5, 4)
    one = D.MultivariateNormal(q.loc[2], q.covariance_matrix[2])
    other = D.MultivariateNormal(p.loc[3, 0], scale_tril=tocha.eye(3, dtype=tocha.float64))
    assert kl[3, 2].item() == pytest.approx(D.kl_divergence(other, one).item(), rel=1e-9)
    assert D.kl_divergence(D.Chi2(2.0), D.Gamma(1.0, 0.5)).item() == pytest.approx(0, abs=1e-6)

    class Mine(D.Normal):
        pass

    class Yours(D.Normal):
        pass

    try:
        D.register_kl(Mine, D.Normal)(lambda p, q: "left")
        D.register_kl(D.Normal, Yours)(lambda p, q: "right")
        with pytest.warns(RuntimeWarning, match="Ambiguous kl_divergence"):
            assert D.kl_divergence(Mine(0.0, 1.0), Yours(0.0, 1.0)) == "left"
    finally:
        for pair in [(Mine, D.Normal), (D.Normal, Yours)]:
            del D.kl._KL_REGISTRY[pair]
        D.kl._KL_MEMOIZE.clear()


def test_kl_with_impossible_values():
    t = tocha.tensor
    assert D.kl_divergence(D.Bernoulli(t(0.5)), D.Bernoulli(t(0.0))).item() == math.inf
    assert D.kl_divergence(D.Bernoulli(t(0.0)), D.Bernoulli(t(0.0))).item() == 0
    assert D.kl_divergence(D.Categorical(t([1.0, 0.0])), D.Categorical(t([0.5, 0.5]))).item() == pytest.approx(
        math.log(2)
    )
    assert D.kl_divergence(D.Categorical(t([0.5, 0.5])), D.Categorical(t([1.0, 0.0]))).item() == math.inf
    assert D.kl_divergence(D.Uniform(0.0, 2.0), D.Uniform(0.0, 1.0)).item() == math.inf
    with pytest.raises(NotImplementedError, match="No KL"):
        D.kl_divergence(D.Normal(0.0, 1.0), D.Cauchy(0.0, 1.0))
    with pytest.raises(NotImplementedError):
        D.kl_divergence(D.LogNormal(0.0, 1.0), D.Gumbel(0.0, 1.0))
    with pytest.raises(TypeError):
        D.register_kl(3, D.Normal)
