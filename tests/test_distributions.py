"""Distributions without a reference library: densities that integrate to 1, moments of samples, gradients, shapes, validation."""

from __future__ import annotations

import copy
import math
import pickle
import warnings

import numpy as np
import pytest

import tocha
from tocha import distributions as D
from tocha.distributions import constraints


def t(*values):
    return tocha.tensor(values, dtype=tocha.float64)


S = tocha.tensor
# Distributions of one number, with where almost all of it lies.
CONTINUOUS = {
    "Beta": (lambda: D.Beta(t(0.8, 2.5), t(1.7, 0.9)), (0, 1)),
    "Cauchy": (lambda: D.Cauchy(t(0.5, -1.0), t(1.0, 0.3)), (-20000, 20000)),
    "Chi2": (lambda: D.Chi2(t(1.5, 5.0)), (0, 80)),
    "ContinuousBernoulli": (lambda: D.ContinuousBernoulli(t(0.2, 0.5001)), (0, 1)),
    "Exponential": (lambda: D.Exponential(t(0.7, 3.0)), (0, 60)),
    "FisherSnedecor": (lambda: D.FisherSnedecor(t(3.0, 8.0), t(7.0, 12.0)), (0, 4000)),
    "Gamma": (lambda: D.Gamma(t(0.7, 6.0), t(1.0, 2.0)), (0, 60)),
    "GeneralizedPareto": (lambda: D.GeneralizedPareto(t(0.0, 1.0), t(1.0, 2.0), t(0.1, 0.0)), (0, 400)),
    "Gumbel": (lambda: D.Gumbel(t(0.0, 1.0), t(1.0, 0.5)), (-20, 60)),
    "HalfCauchy": (lambda: D.HalfCauchy(t(1.0, 0.5)), (0, 20000)),
    "HalfNormal": (lambda: D.HalfNormal(t(1.0, 0.5)), (0, 20)),
    "InverseGamma": (lambda: D.InverseGamma(t(3.5, 5.0), t(1.0, 2.0)), (0, 2000)),
    "Kumaraswamy": (lambda: D.Kumaraswamy(t(1.5, 2.5), t(1.2, 3.0)), (0, 1)),
    "Laplace": (lambda: D.Laplace(t(0.5, -1.0), t(1.0, 0.3)), (-50, 50)),
    "LogNormal": (lambda: D.LogNormal(t(0.0, 0.5), t(0.4, 0.7)), (0, 500)),
    "Normal": (lambda: D.Normal(t(0.5, -1.0), t(1.0, 0.3)), (-20, 20)),
    "Pareto": (lambda: D.Pareto(t(1.0, 0.5), t(5.0, 6.0)), (0.5, 5000)),
    "RelaxedBernoulli": (lambda: D.RelaxedBernoulli(t(1.5)[0], t(0.3, 0.6)), (0, 1)),
    "StudentT": (lambda: D.StudentT(t(5.0, 9.0), t(0.0, 1.0), t(1.0, 0.5)), (-400, 400)),
    "Uniform": (lambda: D.Uniform(t(0.0, -1.0), t(1.0, 2.0)), (-1, 2)),
    "VonMises": (lambda: D.VonMises(t(0.5, -1.0), t(0.5, 8.0)), (-math.pi, math.pi)),
    "Weibull": (lambda: D.Weibull(t(1.0, 2.0), t(1.5, 3.0)), (0, 40)),
}
DISCRETE = {
    "Bernoulli": lambda: D.Bernoulli(t(0.2, 0.7)),
    "Binomial": lambda: D.Binomial(7, t(0.2, 0.7)),
    "Categorical": lambda: D.Categorical(tocha.rand(2, 5, dtype=tocha.float64)),
    "Geometric": lambda: D.Geometric(t(0.2, 0.7)),
    "NegativeBinomial": lambda: D.NegativeBinomial(t(3.0, 1.5), t(0.2, 0.6)),
    "Poisson": lambda: D.Poisson(t(0.5, 6.0)),
}
VECTORS = {
    "Dirichlet": lambda: D.Dirichlet(tocha.rand(2, 3, dtype=tocha.float64) + 0.6),
    "LogisticNormal": lambda: D.LogisticNormal(tocha.zeros(2, 3), tocha.ones(2, 3)),
    "LowRankMultivariateNormal": lambda: D.LowRankMultivariateNormal(
        tocha.ones(2, 3), tocha.randn(3, 2), tocha.rand(3) + 0.5
    ),
    "Multinomial": lambda: D.Multinomial(4, tocha.rand(2, 3) + 0.1),
    "MultivariateNormal": lambda: D.MultivariateNormal(tocha.ones(2, 3), scale_tril=tocha.eye(3) * 2),
    "OneHotCategorical": lambda: D.OneHotCategorical(tocha.rand(2, 3) + 0.1),
    "RelaxedOneHotCategorical": lambda: D.RelaxedOneHotCategorical(S(0.7), tocha.rand(2, 3) + 0.1),
    "LKJCholesky": lambda: D.LKJCholesky(3, S([1.0, 2.0])),
    "Wishart": lambda: D.Wishart(S([4.0, 6.0]), tocha.eye(3)),
    "Independent": lambda: D.Independent(D.Normal(tocha.zeros(2, 3), 1.0), 1),
    "MixtureSameFamily": lambda: D.MixtureSameFamily(
        D.Categorical(tocha.ones(2, 4)), D.Normal(tocha.randn(2, 4), tocha.ones(2, 4))
    ),
    "TransformedDistribution": lambda: D.TransformedDistribution(
        D.Normal(tocha.zeros(2, 3), 1.0), [D.StickBreakingTransform()]
    ),
}
ALL = {name: make for name, (make, _) in CONTINUOUS.items()} | DISCRETE | VECTORS


def grid(low, high):
    """Points that lie close near 0 and where distributions have their mass, and far apart in tails."""
    if high - low <= 10:
        edges = np.linspace(0, 1, 100001)
        return low + (high - low) * edges**2 * (3 - 2 * edges)  # close at both ends
    side = np.geomspace(1e-9, max(high, 1), 80000)
    points = np.concatenate([-side[::-1] if low < 0 else [], [0.0], side])
    return points[(points >= low) & (points <= high)]


def inside(d, x):
    """The density at points, 0 outside the support."""
    good = d.support.check(x) & tocha.isfinite(x)
    safe = tocha.where(good, x, d.icdf(t(0.5)) if d.__class__.__name__ in ("Pareto", "GeneralizedPareto") else x)
    with_validation_off = copy.copy(d)
    with_validation_off._validate_args = False
    return tocha.where(good, with_validation_off.log_prob(safe).exp(), 0.0)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_densities_integrate_to_one(name):
    make, (low, high) = CONTINUOUS[name]
    d = make()
    x = grid(low, high)
    middle = tocha.tensor((x[1:] + x[:-1]) / 2).unsqueeze(-1)
    density = inside(d, middle.expand(-1, 2)).numpy()
    total = (density * np.diff(x)[:, None]).sum(0)
    np.testing.assert_allclose(total, 1, atol=5e-3)
    if low == -20000 or name in ("HalfCauchy", "VonMises"):
        return  # no moments, or circular ones
    mean = (density * middle.numpy() * np.diff(x)[:, None]).sum(0)
    try:
        expected = d.mean.numpy()
    except NotImplementedError:
        return
    np.testing.assert_allclose(mean, expected, rtol=5e-3, atol=2e-3)
    variance = (density * (middle.numpy() - mean) ** 2 * np.diff(x)[:, None]).sum(0)
    np.testing.assert_allclose(variance, d.variance.numpy(), rtol=2e-2, atol=2e-3)
    try:
        entropy = d.entropy().numpy()
    except NotImplementedError:
        return
    with np.errstate(divide="ignore", invalid="ignore"):
        h = -np.where(density > 0, density * np.log(density), 0)
    np.testing.assert_allclose((h * np.diff(x)[:, None]).sum(0), entropy, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("name", DISCRETE)
def test_probabilities_sum_to_one(name):
    d = DISCRETE[name]()
    if d.has_enumerate_support:
        x = d.enumerate_support()
        assert x.shape[1:] == d.batch_shape and d.enumerate_support(expand=False).shape[1:] == (1,)
    else:
        x = tocha.arange(400, dtype=tocha.float64).unsqueeze(-1).expand(-1, 2)
    p = d.log_prob(x).exp().numpy()
    np.testing.assert_allclose(p.sum(0), 1, rtol=1e-6)
    if name != "Categorical":
        mean = (p * x.numpy()).sum(0)
        np.testing.assert_allclose(mean, d.mean.numpy(), rtol=1e-5)
        np.testing.assert_allclose((p * (x.numpy() - mean) ** 2).sum(0), d.variance.numpy(), rtol=1e-5)
        np.testing.assert_allclose(p.max(0), d.log_prob(d.mode).exp().numpy(), rtol=1e-6)
    if name not in ("NegativeBinomial", "Poisson"):
        np.testing.assert_allclose(-(p * np.log(np.maximum(p, 1e-300))).sum(0), d.entropy().numpy(), rtol=1e-5)


@pytest.mark.parametrize("name", [n for n in ALL if n not in ("Cauchy", "HalfCauchy", "Categorical", "VonMises")])
def test_moments_of_samples(name):
    d = ALL[name]()
    x = d.sample((40000,)).double()
    assert x.shape == (40000, *d.batch_shape, *d.event_shape)
    assert d.support.check(x.to(d.sample().dtype)).all()
    try:
        mean, variance = d.mean.numpy(), d.variance.numpy()
    except NotImplementedError:
        return
    spread = np.sqrt(variance)
    np.testing.assert_allclose(x.mean(0).numpy(), mean, atol=5 * spread.max() / 200)
    np.testing.assert_allclose(x.var(0).numpy(), variance, rtol=0.25, atol=0.02)


def test_categories_of_samples():
    d = D.Categorical(S([0.1, 0.0, 0.6, 0.3]))
    counts = tocha.bincount(d.sample((40000,)), minlength=4).numpy() / 40000
    np.testing.assert_allclose(counts, [0.1, 0.0, 0.6, 0.3], atol=0.01)
    assert counts[1] == 0


@pytest.mark.parametrize("name", CONTINUOUS)
def test_quantiles(name):
    make, (low, _) = CONTINUOUS[name]
    d = make()
    try:
        levels = t(0.05, 0.3, 0.5, 0.9).unsqueeze(-1).expand(-1, 2)
        points = d.icdf(levels)
    except NotImplementedError:
        points = None
    if points is not None:
        np.testing.assert_allclose(d.cdf(points).numpy(), levels.numpy(), atol=1e-6)
    try:
        x = d.sample((20000,))
        u = d.cdf(x).numpy()
    except NotImplementedError:
        return
    # The cdf of samples is uniform.
    np.testing.assert_allclose(np.sort(u, 0), np.linspace(0, 1, 20000)[:, None] * np.ones(2), atol=0.02)
    slope = (d.cdf(x[:50] + 1e-6) - d.cdf(x[:50])).numpy() / 1e-6 if low < 0 else None
    if slope is not None and name != "Uniform":
        np.testing.assert_allclose(slope, d.log_prob(x[:50]).exp().numpy(), rtol=1e-2, atol=1e-3)


PATHS = {
    "Beta": (lambda a, b: D.Beta(a, b), (1.5, 0.7)),
    "Cauchy": (lambda a, b: D.Cauchy(a, b), (0.5, 1.2)),
    "ContinuousBernoulli": (lambda a, b: D.ContinuousBernoulli(a * b), (0.5, 0.4)),
    "Exponential": (lambda a, b: D.Exponential(a * b), (0.5, 0.4)),
    "FisherSnedecor": (lambda a, b: D.FisherSnedecor(a, b), (5.0, 7.0)),
    "Gamma": (lambda a, b: D.Gamma(a, b), (1.5, 0.7)),
    "Gumbel": (lambda a, b: D.Gumbel(a, b), (0.5, 1.2)),
    "InverseGamma": (lambda a, b: D.InverseGamma(a, b), (4.5, 0.7)),
    "Kumaraswamy": (lambda a, b: D.Kumaraswamy(a, b), (1.5, 1.7)),
    "Laplace": (lambda a, b: D.Laplace(a, b), (0.5, 1.2)),
    "LogNormal": (lambda a, b: D.LogNormal(a, b), (0.1, 0.4)),
    "Normal": (lambda a, b: D.Normal(a, b), (0.5, 1.2)),
    "Pareto": (lambda a, b: D.Pareto(a, b), (0.5, 5.2)),
    "StudentT": (lambda a, b: D.StudentT(a, 0.0, b), (6.5, 1.2)),
    "Uniform": (lambda a, b: D.Uniform(a, b), (0.5, 1.2)),
    "Weibull": (lambda a, b: D.Weibull(a, b), (0.5, 1.2)),
    "GeneralizedPareto": (lambda a, b: D.GeneralizedPareto(0.0, a, b), (0.5, 0.2)),
    "RelaxedBernoulli": (lambda a, b: D.RelaxedBernoulli(a, b), (0.5, 0.2)),
}


@pytest.mark.parametrize("name", PATHS)
def test_gradients_of_samples_keep_the_quantile(name):
    """d/dtheta of E[f(x)] by samples is that by the density: E[f d log p / dtheta]. Checked for f = tanh."""
    make, values = PATHS[name]
    a, b = (tocha.tensor(v, dtype=tocha.float64, requires_grad=True) for v in values)
    x = make(a, b).rsample((100000,))
    by_path = tocha.autograd.grad(tocha.tanh(x).mean(), (a, b))
    for i, path in enumerate(by_path):
        means = []
        for step in (-1e-3, 1e-3):
            moved = [v + step * (i == j) for j, v in enumerate(values)]
            tocha.manual_seed(1)
            d = make(*(tocha.tensor(v, dtype=tocha.float64) for v in moved))
            try:  # the same quantiles
                levels = (tocha.arange(20000, dtype=tocha.float64) + 0.5) / 20000
                means.append(tocha.tanh(d.icdf(levels)).mean().item())
            except NotImplementedError:
                grid_x = grid(*CONTINUOUS[name][1])
                middle = tocha.tensor((grid_x[1:] + grid_x[:-1]) / 2)
                density = inside(d, middle).numpy()
                means.append(float((density * np.tanh(middle.numpy()) * np.diff(grid_x)).sum()))
        expected = (means[1] - means[0]) / 2e-3
        assert path.item() == pytest.approx(expected, rel=0.05, abs=0.01)


@pytest.mark.parametrize(("a", "b"), [(0.05, 0.3), (0.5, 2.0), (3.0, 0.2), (8.0, 9.0), (200.0, 3.0), (5000.0, 4000.0)])
def test_beta_numbers_move_along_their_quantile(a, b):
    """The implicit derivative against differences of quantiles found by bisection on an integrated density."""
    x = float(np.clip(a / (a + b) + 0.3 * math.sqrt(a * b / (a + b + 1)) / (a + b), 1e-9, 1 - 1e-9))
    h = a * 1e-4
    slope_a = (integral(a + h, b, x) - integral(a - h, b, x)) / (2 * h)
    density = math.exp(
        (a - 1) * math.log(x) + (b - 1) * math.log1p(-x) + math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    )
    expected = -slope_a / density / (1 - x)
    got = tocha._dirichlet_grad(t(x), t(a), t(a + b)).item()
    assert got == pytest.approx(expected, rel=2e-3)


def integral(a, b, x):
    """The incomplete beta function by quadrature in u = log(x / (1 - x)), where the integrand falls off at both ends."""
    end = math.log(x / (1 - x))
    u = np.linspace(end - 60 / min(a, 1), end, 400001)
    log_x, log_y = -np.logaddexp(0, -u), -np.logaddexp(0, u)
    log_f = a * log_x + b * log_y + math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    f = np.exp(log_f)
    step = u[1] - u[0]
    return step / 3 * (f[0] + f[-1] + 4 * f[1:-1:2].sum() + 2 * f[2:-1:2].sum())


def test_dirichlet_gradient_at_the_ends():
    x, a = t(0.0, 1.0, 1.0), t(0.5, 0.5, 2.0)
    got = tocha._dirichlet_grad(x, a, t(1.5, 1.5, 2.0))
    assert got[0] == 0 and math.isfinite(got[1].item()) and got[2] == 0
    one = tocha.tensor([[2.0]], requires_grad=True)
    D.Dirichlet(one).rsample().sum().backward()
    assert one.grad.item() == 0
    with pytest.raises(RuntimeError, match="Found dtype Double but expected Float"):
        tocha._dirichlet_grad(tocha.ones(2), t(1.0, 1.0), tocha.ones(2))
    with pytest.raises(NotImplementedError):
        tocha._dirichlet_grad(*(tocha.ones(2, dtype=tocha.half),) * 3)


def test_wishart_samples_have_gradients():
    df = tocha.tensor(6.0, dtype=tocha.float64, requires_grad=True)
    tril = (tocha.eye(2, dtype=tocha.float64) * 1.5).requires_grad_()
    x = D.Wishart(df, scale_tril=tril).rsample((20000,))
    x.mean(0).diagonal().sum().backward()
    # E[x] = df L L^T
    assert df.grad.item() == pytest.approx(2 * 1.5**2, rel=0.05)
    np.testing.assert_allclose(tril.grad.diagonal().numpy(), [2 * 6 * 1.5] * 2, rtol=0.05)


def test_straight_through():
    probs = tocha.tensor([0.2, 0.8], requires_grad=True)
    x = D.OneHotCategoricalStraightThrough(probs).rsample()
    assert sorted(x.tolist()) == [0.0, 1.0]
    (x * S([1.0, 3.0])).sum().backward()
    assert probs.grad is not None and probs.grad.abs().sum() > 0


# -- shapes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL)
def test_expansion(name):
    d = ALL[name]()
    wide = d.expand((3, *d.batch_shape))
    assert wide.batch_shape == (3, *d.batch_shape) and wide.event_shape == d.event_shape
    x = wide.sample((4,))
    assert x.shape == (4, 3, *d.batch_shape, *d.event_shape)
    np.testing.assert_allclose(wide.log_prob(x).numpy(), d.log_prob(x).numpy(), rtol=1e-4, atol=1e-5)
    again = wide.expand((2, 3, *d.batch_shape))
    assert again.sample().shape == (2, 3, *d.batch_shape, *d.event_shape)


@pytest.mark.parametrize("name", ALL)
def test_pickling_and_copying(name):
    d = ALL[name]()
    copies = pickle.loads(pickle.dumps(d)), copy.deepcopy(d)
    assert [repr(other) for other in copies] == [repr(d)] * 2
    for other in copies:
        tocha.manual_seed(3)
        x = d.sample((3,))
        tocha.manual_seed(3)
        assert tocha.equal(other.sample((3,)), x)
        assert tocha.equal(other.log_prob(x), d.log_prob(x))


def test_subclasses_must_say_how_they_expand():
    class Mine(D.Normal):
        def __init__(self, loc):
            super().__init__(loc, 1.0)

    class Plain(D.Normal):
        pass

    with pytest.raises(NotImplementedError, match=r"must also define a custom \.expand\(\) method"):
        Mine(0.0).expand((2,))
    assert isinstance(Plain(0.0, 1.0).expand((2,)), Plain)
    with pytest.raises(NotImplementedError):
        D.Distribution(validate_args=False).expand((2,))


def test_own_exponential_family():
    class Rate(D.ExponentialFamily):
        arg_constraints = {"rate": constraints.positive}  # noqa: RUF012
        support = constraints.positive
        _mean_carrier_measure = 0

        def __init__(self, rate):
            self.rate = rate
            super().__init__(rate.shape)

        @property
        def _natural_params(self):
            return (-self.rate,)

        def _log_normalizer(self, x):
            return -tocha.log(-x)

    p, q = t(0.5, 2.0), t(1.0, 3.0)
    np.testing.assert_allclose(Rate(p).entropy().detach().numpy(), D.Exponential(p).entropy().numpy())
    np.testing.assert_allclose(
        D.kl_divergence(Rate(p), Rate(q)).detach().numpy(),
        D.kl_divergence(D.Exponential(p), D.Exponential(q)).numpy(),
    )


def test_mixture_with_one_set_of_weights():
    d = D.MixtureSameFamily(D.Categorical(tocha.ones(3)), D.Laplace(tocha.randn(2, 3), tocha.ones(2, 3)))
    assert d.sample((5,)).shape == (5, 2) and d.mean.shape == (2,) and d.log_prob(tocha.zeros(2)).shape == (2,)


# -- validation ---------------------------------------------------------------------------------------------


def test_parameters_are_checked():
    with pytest.raises(ValueError, match=r"\[Normal\] Expected parameter scale \(Tensor of shape \(2,\)\)") as e:
        D.Normal(tocha.zeros(2), S([1.0, -1.0]))
    assert "GreaterThan(lower_bound=0.0)" in str(e.value) and "tensor([ 1., -1.])" in str(e.value)
    assert D.Normal(0.0, -1.0, validate_args=False).scale == -1
    with pytest.raises(ValueError, match="must be specified, but not both"):
        D.Bernoulli()


def test_values_are_checked():
    d = D.Normal(tocha.zeros(3), 1.0)
    with pytest.raises(ValueError, match="must be a Tensor"):
        d.log_prob(1.0)
    with pytest.raises(ValueError, match="is not broadcastable"):
        d.log_prob(tocha.zeros(2))
    with pytest.raises(ValueError, match="within the support"):
        d.log_prob(S([0.0, math.nan, 1.0]))
    with pytest.raises(ValueError, match="right-most size"):
        D.Dirichlet(tocha.ones(3)).log_prob(tocha.ones(2) / 2)
    assert D.Normal(0.0, 1.0, validate_args=False).log_prob(S(math.nan)).isnan()


def test_values_are_checked_under_vmap():
    x = t([0.5, 1.0], [2.0, 3.0])
    each = lambda f: tocha.stack([f(row) for row in x])  # noqa: E731
    for f in (
        lambda v: D.Normal(v, 1.0).log_prob(v * v),
        lambda v: D.Categorical(logits=v).log_prob(tocha.tensor(1)),
        lambda v: D.MultivariateNormal(v, v.diag()).log_prob(v),
        lambda v: D.Geometric(v / 4).log_prob(v.floor()),
        lambda v: tocha.func.jacrev(lambda u: D.Laplace(u, 1.0).log_prob(u * u))(v),
    ):
        assert (tocha.vmap(f)(x) == each(f)).all()
    with pytest.raises(ValueError, match=r"Expected parameter scale .* to satisfy the constraint"):
        tocha.vmap(lambda v: D.Normal(0.0, v))(x - 2.5)  # one of four is wrong
    with pytest.raises(ValueError, match=r"Expected value argument .* to be within the support"):
        tocha.vmap(lambda v: D.Bernoulli(logits=v).log_prob(v))(x)


def test_the_default_of_validation():
    assert D.Distribution._validate_args is True
    D.Distribution.set_default_validate_args(False)
    try:
        D.Normal(0.0, -1.0)
        with pytest.raises(ValueError, match="Expected parameter"):
            D.Normal(0.0, -1.0, validate_args=True)
    finally:
        D.Distribution.set_default_validate_args(True)
    with pytest.raises(ValueError):
        D.Distribution.set_default_validate_args("yes")


def test_missing_declarations_warn():
    class Bare(D.Distribution):
        pass

    with pytest.warns(UserWarning, match="does not define `arg_constraints`"):
        bare = Bare()
    with pytest.warns(UserWarning, match="does not define `support`"):
        bare._validate_sample(S(1.0))
    for method in ("mean", "variance", "stddev", "support", "mode"):
        with pytest.raises(NotImplementedError):
            getattr(bare, method)
    with pytest.warns(FutureWarning, match="sample_n"):
        assert D.Normal(0.0, 1.0).sample_n(3).shape == (3,)


def test_impossible_values():
    assert D.Geometric(S(1.0)).log_prob(S([0.0])).item() == 0
    assert D.Geometric(S(1.0)).log_prob(S([1.0])).item() == -math.inf
    assert D.Multinomial(3, S([0.0, 1.0])).log_prob(S([0.0, 3.0])).item() == pytest.approx(0, abs=1e-6)
    assert D.Categorical(S([0.0, 1.0])).entropy().item() == pytest.approx(0, abs=1e-5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        D.Wishart(S(3.0), tocha.eye(3))


@pytest.mark.parametrize("name", [n for n in ALL if n not in VECTORS or n == "Dirichlet"])
def test_no_elements(name):
    d = ALL[name]()
    empty = d.expand((0, *d.batch_shape))
    x = empty.sample((2,))
    assert x.numel() == 0 and empty.log_prob(x).numel() == 0


def test_graphs_look_at_values_where_they_are_told_to():
    flow, told = tocha.distributions.Uniform(0.0, 1.0), tocha.distributions.Uniform(0.0, 1.0, validate_args=True)
    outside = tocha.full((2,), 2.0)
    compiled = tocha.compile(lambda x: flow.log_prob(x) * 2, backend="eager", fullgraph=True)
    assert compiled(outside).isneginf().all()
    with pytest.raises(ValueError, match="to be within the support"):
        tocha.compile(lambda x: told.log_prob(x), backend="eager")(outside)
