"""Distributions against PyTorch: samples with one seed, densities, gradients, expansion, KL divergences, constraints, texts and errors.

Needs torch beside tocha; run by `make parity`.
"""

from __future__ import annotations

import inspect
import itertools
import math
import pickle
import re
import warnings

import numpy as np
import pytest
import torch
import torch.distributions
from processor import MKL, X86

import tocha
import tocha.distributions

rng = np.random.default_rng(0)


def positive(*shape):
    return rng.uniform(0.4, 2.5, shape)


def real(*shape):
    return rng.standard_normal(shape)


def unit(*shape):
    return rng.uniform(0.1, 0.9, shape)


def spd(*batch, n=3):
    a = rng.standard_normal((*batch, n, n))
    return a @ a.swapaxes(-1, -2) + n * np.eye(n)


def tril(*batch, n=3):
    a = np.tril(rng.standard_normal((*batch, n, n)), -1)
    return a + np.eye(n) * rng.uniform(0.5, 1.5, (*batch, 1, n))


# Arguments by distribution: arrays become tensors (float32 unless said), other values stay.
CASES = {
    "Bernoulli": [{"probs": unit(4)}, {"logits": real(2, 3)}, {"probs": 0.3}],
    "Beta": [{"concentration1": positive(4), "concentration0": positive(4)}, {"concentration1": 0.5, "concentration0": 2}],
    "Binomial": [{"total_count": 10, "probs": unit(3)}, {"total_count": np.array([3.0, 40.0, 7.0]), "logits": real(3)}],
    "Categorical": [{"probs": positive(2, 4)}, {"logits": real(3, 2, 5)}, {"probs": positive(6)}],
    "Cauchy": [{"loc": real(3), "scale": positive(3)}, {"loc": 0.0, "scale": 1.0}],
    "Chi2": [{"df": positive(5)}, {"df": 3.0}],
    "ContinuousBernoulli": [{"probs": np.array([0.1, 0.4999, 0.5, 0.7])}, {"logits": real(4)}],
    "Dirichlet": [{"concentration": positive(3)}, {"concentration": positive(2, 4)}],
    "Exponential": [{"rate": positive(3)}, {"rate": 1.5}],
    "FisherSnedecor": [{"df1": positive(3), "df2": positive(3) * 3}, {"df1": 3.0, "df2": 5.0}],
    "Gamma": [{"concentration": positive(4), "rate": positive(4)}, {"concentration": 20.0, "rate": 2.0}],
    "GeneralizedPareto": [
        {"loc": real(3), "scale": positive(3), "concentration": np.array([-0.3, 0.0, 0.2])},
        {"loc": 0.0, "scale": 1.0, "concentration": 0.4},
    ],
    "Geometric": [{"probs": unit(4)}, {"logits": real(3)}],
    "Gumbel": [{"loc": real(3), "scale": positive(3)}, {"loc": 0.0, "scale": 1.0}],
    "HalfCauchy": [{"scale": positive(3)}, {"scale": 1.0}],
    "HalfNormal": [{"scale": positive(3)}, {"scale": 1.0}],
    "InverseGamma": [{"concentration": positive(4) + 2, "rate": positive(4)}, {"concentration": 0.5, "rate": 2.0}],
    "Kumaraswamy": [{"concentration1": positive(3) + 1, "concentration0": positive(3) + 1}],
    "LKJCholesky": [{"dim": 3, "concentration": positive(2)}, {"dim": 2}, {"dim": 5, "concentration": 0.7}],
    "Laplace": [{"loc": real(3), "scale": positive(3)}, {"loc": 0.0, "scale": 1.0}],
    "LogNormal": [{"loc": real(3), "scale": positive(3)}, {"loc": 0.0, "scale": 1.0}],
    "LogisticNormal": [{"loc": real(3), "scale": positive(3)}, {"loc": real(2, 4), "scale": positive(2, 4)}],
    "LowRankMultivariateNormal": [
        {"loc": real(3), "cov_factor": real(3, 2), "cov_diag": positive(3)},
        {"loc": real(2, 1, 3), "cov_factor": real(4, 3, 1), "cov_diag": positive(3)},
    ],
    "Multinomial": [{"total_count": 5, "probs": unit(2, 3)}, {"total_count": 3, "logits": real(4)}],
    "MultivariateNormal": [
        {"loc": real(3), "covariance_matrix": spd()},
        {"loc": real(2, 3), "precision_matrix": spd()},
        {"loc": real(2, 1, 3), "scale_tril": tril(4)},
    ],
    "NegativeBinomial": [{"total_count": 5, "probs": unit(3)}, {"total_count": positive(3), "logits": real(3)}],
    "Normal": [{"loc": real(3), "scale": positive(3)}, {"loc": real(2, 1), "scale": positive(3)}, {"loc": 0, "scale": 1}],
    "OneHotCategorical": [{"probs": positive(2, 4)}, {"logits": real(5)}],
    "OneHotCategoricalStraightThrough": [{"probs": positive(2, 4)}, {"logits": real(5)}],
    "Pareto": [{"scale": positive(3), "alpha": positive(3)}, {"scale": 1.0, "alpha": 3.0}],
    "Poisson": [{"rate": positive(4) * 3}, {"rate": 2.0}],
    "RelaxedBernoulli": [{"temperature": np.array(0.7), "probs": unit(3)}, {"temperature": np.array(1.5), "logits": real(3)}],
    "RelaxedOneHotCategorical": [{"temperature": np.array(0.7), "probs": positive(2, 3)}, {"temperature": np.array(2.0), "logits": real(4)}],
    "StudentT": [{"df": np.array([0.7, 1.5, 5.0]), "loc": real(3), "scale": positive(3)}, {"df": 4.0}],
    "Uniform": [{"low": real(3), "high": real(3) + 5}, {"low": 0.0, "high": 1.0}],
    "VonMises": [{"loc": real(4), "concentration": np.array([1e-6, 0.5, 3.0, 50.0])}, {"loc": 0.0, "concentration": 1.0}],
    "Weibull": [{"scale": positive(3), "concentration": positive(3) + 1}, {"scale": 1.0, "concentration": 2.0}],
    "Wishart": [{"df": np.array(5.0), "covariance_matrix": spd()}, {"df": np.array([4.0, 6.0]), "scale_tril": tril()}, {"df": 4.5, "precision_matrix": spd()}],
}  # fmt: skip
EACH = [(name, i) for name, cases in CASES.items() for i in range(len(cases))]
DTYPES = ["float32", "float64"]
# The variance beside a half is a difference of large numbers: another logarithm's last bit is a hundredth of it.
LOOSE = {"ContinuousBernoulli": 2e-2} if X86 else {}


def rounded(text: str) -> str:
    """Numbers with four digits: the last ones are those of a library's logarithm."""
    return re.sub(r"(\d\.\d{4})\d+", r"\1", text)


def given(m, arguments, dtype="float32", grad=False):
    """The same arguments as tensors of a module."""
    return {
        k: m.tensor(v, dtype=getattr(m, dtype), requires_grad=grad) if isinstance(v, np.ndarray) else v
        for k, v in arguments.items()
    }


def make(m, name, arguments, dtype="float32", grad=False, **more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return getattr(m.distributions, name)(**given(m, arguments, dtype, grad), **more)


def both(name, i, dtype="float32", grad=False, **more):
    return tuple(make(m, name, CASES[name][i], dtype, grad, **more) for m in (tocha, torch))


def drawn(m, draw):
    m.manual_seed(7)
    return draw()


def close(ours, theirs, rtol=2e-5, atol=2e-6):
    assert tuple(ours.shape) == tuple(theirs.shape)
    assert str(ours.dtype).split(".")[1] == str(theirs.dtype).split(".")[1]
    if ours.dtype == tocha.float64:
        rtol, atol = min(rtol, 1e-9), min(atol, 1e-9)
    np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=rtol, atol=atol)


def outcome(function):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function()
    except Exception as e:
        return e


def same(ours, theirs, **tolerance):
    """The same values, or errors of one type."""
    if isinstance(theirs, Exception):
        assert type(ours) is type(theirs), (ours, theirs)
    elif isinstance(theirs, torch.Tensor):
        assert not isinstance(ours, Exception), ours
        close(ours, theirs, **tolerance)
    else:
        assert str(ours).replace("tocha", "torch") == str(theirs)


def words(text):
    return str(text).replace("tocha", "torch")


# -- names ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("module", ["", "constraints", "transforms", "utils", "kl", "constraint_registry"])
def test_names(module):
    ours, theirs = tocha.distributions, torch.distributions
    if module:
        ours, theirs = getattr(ours, module), getattr(theirs, module)
    assert sorted(ours.__all__) == sorted(theirs.__all__)
    assert all(hasattr(ours, n) for n in theirs.__all__)


def test_modules():
    for name, value in vars(torch.distributions).items():
        if inspect.ismodule(value) and value.__name__.startswith("torch.distributions."):
            assert sorted(getattr(tocha.distributions, name).__all__) == sorted(value.__all__), name


@pytest.mark.parametrize("name", [*CASES, "Independent", "MixtureSameFamily", "TransformedDistribution"])
def test_classes(name):
    ours, theirs = getattr(tocha.distributions, name), getattr(torch.distributions, name)
    assert list(inspect.signature(ours).parameters) == list(inspect.signature(theirs).parameters)
    assert [p.default for p in inspect.signature(ours).parameters.values()] == [
        p.default for p in inspect.signature(theirs).parameters.values()
    ]
    if isinstance(theirs.arg_constraints, dict):
        assert repr(ours.arg_constraints) == repr(theirs.arg_constraints)
    assert repr(ours.support) == repr(theirs.support)
    for attribute in ("has_rsample", "has_enumerate_support"):
        if isinstance(getattr(theirs, attribute), bool):
            assert getattr(ours, attribute) == getattr(theirs, attribute)
    bases = {c.__name__ for c in theirs.__mro__} & set(torch.distributions.__all__)
    assert bases <= {c.__name__ for c in ours.__mro__}


# -- every distribution -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("name", "i"), EACH)
def test_samples(name, i, dtype):
    ours, theirs = both(name, i, dtype)
    for shape in ((), (5,), (2, 30)):
        close(*(drawn(m, lambda d=d, s=shape: d.sample(s)) for m, d in ((tocha, ours), (torch, theirs))))
        r = [
            outcome(lambda m=m, d=d, s=shape: drawn(m, lambda: d.rsample(s)))
            for m, d in ((tocha, ours), (torch, theirs))
        ]
        same(*r)


# Implicit derivatives of PyTorch are approximations of a few digits.
ROUGH = {"Gamma", "Chi2", "Beta", "Dirichlet", "InverseGamma", "StudentT", "FisherSnedecor", "Wishart"}


@pytest.mark.parametrize(("name", "i"), EACH)
def test_gradients_of_samples(name, i):
    if name == "Wishart":
        pytest.skip("PyTorch's backward fails: it writes over a mask that was kept")
    slopes = []
    for m in (tocha, torch):
        arguments = given(m, CASES[name][i], "float64", True)
        d = outcome(lambda m=m, a=arguments: getattr(m.distributions, name)(**a))
        leaves = [a for a in arguments.values() if isinstance(a, m.Tensor)]
        if not d.has_rsample or not leaves:
            pytest.skip("no gradient")
        x = drawn(m, lambda d=d: d.rsample((3,)))
        weight = m.arange(1.0, 1.0 + x.numel(), dtype=m.float64).view(x.shape)
        slopes.append(m.autograd.grad((x * weight).sum(), leaves, allow_unused=True))
    for ours, theirs in zip(*slopes, strict=True):
        assert (ours is None) == (theirs is None)
        if theirs is not None:
            rough = 2e-2 if name in ROUGH else 1e-9
            np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=rough, atol=rough)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("name", "i"), EACH)
def test_densities(name, i, dtype):
    if (name, dtype) == ("GeneralizedPareto", "float64"):
        pytest.skip("PyTorch compares the concentration with a float32 there, and refuses")
    ours, theirs = both(name, i, dtype)
    x = drawn(torch, lambda: theirs.sample((6,)))
    y = tocha.tensor(x.numpy())
    # PyTorch's Bessel functions in VonMises are approximations of seven digits.
    tolerance = {"rtol": LOOSE.get(name, 2e-4), "atol": 2e-5} if dtype == "float32" else {}
    for method in ("log_prob", "cdf", "log_cdf", "log_survival_function"):
        if not hasattr(theirs, method):
            continue
        a, b = outcome(lambda m=method: getattr(ours, m)(y)), outcome(lambda m=method: getattr(theirs, m)(x))
        if name == "VonMises" and isinstance(b, torch.Tensor):
            np.testing.assert_allclose(a.numpy(), b.numpy(), atol=2e-5)
        else:
            same(a, b, **tolerance)
    levels = np.linspace(0.05, 0.95, 7).reshape((7,) + (1,) * len(theirs.batch_shape))
    a, b = (
        outcome(lambda m=m, d=d: d.icdf(m.tensor(levels, dtype=getattr(m, dtype))))
        for m, d in ((tocha, ours), (torch, theirs))
    )
    same(a, b, **tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("name", "i"), EACH)
def test_moments(name, i, dtype):
    ours, theirs = both(name, i, dtype)
    tolerance = {"rtol": LOOSE.get(name, 2e-4), "atol": 2e-5} if dtype == "float32" else {}
    for what in ("mean", "mode", "variance", "stddev", "batch_shape", "event_shape", "support", "has_rsample"):
        a, b = outcome(lambda w=what: getattr(ours, w)), outcome(lambda w=what: getattr(theirs, w))
        if name == "VonMises" and what in ("variance", "stddev"):
            np.testing.assert_allclose(a.numpy(), b.numpy(), atol=2e-5)
        elif name == "Kumaraswamy" and what == "mode":
            continue  # below
        else:
            same(a, b, **tolerance)
    for method in ("entropy", "perplexity"):
        a, b = outcome(lambda m=method: getattr(ours, m)()), outcome(lambda m=method: getattr(theirs, m)())
        if name == "Multinomial":  # PyTorch takes the logarithm of the factorial in single precision
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5)
        else:
            same(a, b, **tolerance)
    for expand in (True, False):
        same(outcome(lambda e=expand: ours.enumerate_support(e)), outcome(lambda e=expand: theirs.enumerate_support(e)))
    if hasattr(theirs, "param_shape"):
        same(ours.param_shape, theirs.param_shape)


@pytest.mark.parametrize(("name", "i"), EACH)
def test_gradients_of_densities(name, i):
    if (name, i) in (("GeneralizedPareto", 0), ("Uniform", 1)):
        pytest.skip("refused by PyTorch in float64; nothing to differentiate")
    slopes = []
    theirs = make(torch, name, CASES[name][i], "float64")
    x = drawn(torch, lambda: theirs.sample((4,))).numpy()
    for m in (tocha, torch):
        arguments = given(m, CASES[name][i], "float64", True)
        d = outcome(lambda m=m, a=arguments: getattr(m.distributions, name)(**a))
        leaves = [a for a in arguments.values() if isinstance(a, m.Tensor)]
        value = m.tensor(x)
        if value.is_floating_point() and not theirs.support.is_discrete:
            leaves.append(value.requires_grad_())
        if not leaves:
            pytest.skip("no gradient")
        slopes.append(m.autograd.grad(d.log_prob(value).sum(), leaves, allow_unused=True))
    for ours, theirs in zip(*slopes, strict=True):
        assert (ours is None) == (theirs is None)
        if theirs is not None:
            loose = 1e-6 if name == "VonMises" else 1e-8
            np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=loose, atol=loose)


@pytest.mark.parametrize(("name", "i"), EACH)
def test_expansion(name, i):
    ours, theirs = both(name, i)
    shape = (2, *theirs.batch_shape)
    a, b = ours.expand(shape), theirs.expand(shape)
    assert tuple(a.batch_shape) == tuple(b.batch_shape) and tuple(a.event_shape) == tuple(b.event_shape)
    assert a._validate_args == b._validate_args
    assert words(a) == repr(b)
    x = drawn(tocha, lambda: a.sample((3,)))
    y = drawn(torch, lambda: b.sample((3,)))
    close(x, y)
    loose = {"rtol": LOOSE.get(name, 2e-4), "atol": 3e-5}
    same(outcome(lambda: a.log_prob(tocha.tensor(y.numpy()))), outcome(lambda: b.log_prob(y)), **loose)
    for what in ("mean", "variance"):
        same(outcome(lambda w=what: getattr(a, w)), outcome(lambda w=what: getattr(b, w)), **loose)
    odd = [outcome(lambda d=d: d.expand((7, 3, 5, 9))) for d in (ours, theirs)]
    assert type(odd[0]).__name__ == type(odd[1]).__name__


@pytest.mark.parametrize(("name", "i"), EACH)
def test_texts(name, i):
    ours, theirs = both(name, i)
    assert words(ours) == repr(theirs)
    copied = pickle.loads(pickle.dumps(ours))
    assert repr(copied) == repr(ours)
    close(drawn(tocha, lambda: copied.sample((3,))), drawn(torch, lambda: theirs.sample((3,))))


@pytest.mark.parametrize(("name", "i"), EACH)
def test_bad_parameters(name, i):
    """Each parameter in turn gets a NaN, a negative number, or another shape."""
    for key, spoil in itertools.product(CASES[name][i], ("nan", "negative", "scalar", "text")):
        value = CASES[name][i][key]
        if spoil == "text":
            bad = "x"
        elif not isinstance(value, np.ndarray):
            bad = {"nan": math.nan, "negative": -1.5, "scalar": None}[spoil]
        else:
            bad = value.copy() if spoil != "scalar" else np.array(-1.0)
            bad[(0,) * bad.ndim] = {"nan": math.nan, "negative": -1.5, "scalar": -1.0}[spoil]
        ours, theirs = (
            outcome(lambda m=m, b=bad, k=key: make(m, name, CASES[name][i] | {k: b})) for m in (tocha, torch)
        )
        assert isinstance(ours, Exception) == isinstance(theirs, Exception), (key, spoil, ours, theirs)
        if isinstance(theirs, ValueError):
            assert type(ours) is type(theirs), (key, spoil, ours, theirs)
            if "probs has invalid" not in str(theirs):
                assert words(theirs).split("\n")[0].rstrip(".") in words(ours), (key, spoil)
        elif isinstance(theirs, Exception) and spoil != "text" and not (MKL and spoil == "nan"):  # it refuses NaN first
            assert type(ours) is type(theirs), (key, spoil, ours, theirs)


@pytest.mark.parametrize(("name", "i"), EACH)
def test_bad_values(name, i):
    ours, theirs = both(name, i)
    good = drawn(torch, lambda: theirs.sample())
    ours.sample()  # what it made shows in texts
    bad = [3, "x", good.new_full(good.shape, math.nan) if good.is_floating_point() else good - 100]
    bad += [good - 1000, good + 0.25, torch.ones(17), torch.ones(2, 17), torch.tensor(-3.5)]
    for value in bad:
        mine = tocha.tensor(value.numpy()) if isinstance(value, torch.Tensor) else value
        for method in ("log_prob", "cdf"):
            a, b = (
                outcome(lambda m=method, v=mine: getattr(ours, m)(v)),
                outcome(lambda m=method, v=value: getattr(theirs, m)(v)),
            )
            assert isinstance(a, Exception) == isinstance(b, Exception), (method, value, a, b)
            if isinstance(b, Exception):
                assert type(a) is type(b), (method, value, a, b)
                if isinstance(b, ValueError):
                    assert rounded(words(b).split("\n")[0].rstrip(".")) in rounded(words(a)), (method, value)


@pytest.mark.parametrize(("name", "i"), EACH)
def test_without_validation(name, i):
    ours, theirs = both(name, i, validate_args=False)
    x = drawn(torch, lambda: theirs.sample((2,)))
    if x.is_floating_point():
        x = x - 0.3
        a, b = outcome(lambda: ours.log_prob(tocha.tensor(x.numpy()))), outcome(lambda: theirs.log_prob(x))
        if name not in ("LKJCholesky", "Wishart", "VonMises"):
            same(a, b, rtol=2e-3, atol=2e-4)
    assert ours._validate_args is theirs._validate_args is False


# -- composed distributions -----------------------------------------------------------------------------------

COMPOSED = {
    "independent": lambda d, t: d.Independent(d.Normal(t(real_b), t(positive_b)), 1),
    "independent 0": lambda d, t: d.Independent(d.Bernoulli(t(unit_b)), 0),
    "independent 2": lambda d, t: d.Independent(d.Gamma(t(positive_b), t(positive_b)), 2),
    "mixture": lambda d, t: d.MixtureSameFamily(d.Categorical(t(positive_b)), d.Normal(t(real_b), t(positive_b))),
    "mixture of vectors": lambda d, t: d.MixtureSameFamily(
        d.Categorical(logits=t(real_b)), d.Independent(d.Normal(t(real_c), t(positive_c)), 1)
    ),
    "mixture of counts": lambda d, t: d.MixtureSameFamily(d.Categorical(t(positive_b)), d.Poisson(t(positive_b))),
    "log normal": lambda d, t: d.TransformedDistribution(d.Normal(t(real_b), t(positive_b)), [d.ExpTransform()]),
    "turned": lambda d, t: d.TransformedDistribution(
        d.Normal(t(real_b), t(positive_b)), [d.SigmoidTransform(), d.AffineTransform(1.0, -2.0)]
    ),
    "logistic": lambda d, t: d.TransformedDistribution(
        d.Uniform(t(0 * real_b), t(0 * real_b + 1)), [d.SigmoidTransform().inv, d.AffineTransform(t(real_b), t(positive_b))]
    ),
    "broadcast by a transform": lambda d, t: d.TransformedDistribution(
        d.Normal(0.0, 1.0), [d.AffineTransform(t(real_b), t(positive_b))]
    ),
    "stick breaking": lambda d, t: d.TransformedDistribution(
        d.Normal(t(real_b), t(positive_b)), [d.StickBreakingTransform()]
    ),
    "cholesky": lambda d, t: d.TransformedDistribution(
        d.Normal(t(real_b), t(positive_b)), [d.CorrCholeskyTransform()]
    ),
    "reshaped": lambda d, t: d.TransformedDistribution(
        d.Independent(d.Normal(t(real_c), t(positive_c)), 1), [d.ReshapeTransform((4,), (2, 2)), d.ExpTransform()]
    ),
    "nothing": lambda d, t: d.TransformedDistribution(d.Normal(t(real_b), t(positive_b)), []),
    "tanh": lambda d, t: d.TransformedDistribution(d.Normal(t(real_b), t(positive_b)), d.TanhTransform(cache_size=1)),
    "independent affine": lambda d, t: d.TransformedDistribution(
        d.Normal(t(real_b), t(positive_b)), [d.AffineTransform(0.5, t(positive_b), event_dim=1)]
    ),
}  # fmt: skip
real_b, positive_b, unit_b = real(2, 3), positive(2, 3), unit(2, 3)
real_c, positive_c = real(2, 3, 4), positive(2, 3, 4)


@pytest.mark.parametrize("case", COMPOSED)
def test_composed(case):
    pair = []
    for m in (tocha, torch):
        pair.append(COMPOSED[case](m.distributions, lambda a, m=m: m.tensor(a, dtype=m.float64)))
    ours, theirs = pair
    assert words(ours) == repr(theirs)
    for what in (
        "batch_shape",
        "event_shape",
        "support",
        "has_rsample",
        "has_enumerate_support",
        "mean",
        "variance",
        "mode",
    ):
        same(outcome(lambda w=what: getattr(ours, w)), outcome(lambda w=what: getattr(theirs, w)))
    for shape in ((), (4,)):
        close(*(drawn(m, lambda d=d, s=shape: d.sample(s)) for m, d in ((tocha, ours), (torch, theirs))))
        same(
            *(
                outcome(lambda m=m, d=d, s=shape: drawn(m, lambda: d.rsample(s)))
                for m, d in ((tocha, ours), (torch, theirs))
            )
        )
    x = drawn(torch, lambda: theirs.sample((5,)))
    for method in ("log_prob", "cdf"):
        same(
            outcome(lambda m=method: getattr(ours, m)(tocha.tensor(x.numpy()))),
            outcome(lambda m=method: getattr(theirs, m)(x)),
        )
    q = np.full(theirs.batch_shape + theirs.event_shape, 0.3)
    same(outcome(lambda: ours.icdf(tocha.tensor(q))), outcome(lambda: theirs.icdf(torch.tensor(q))))
    for method in ("entropy", "enumerate_support"):
        same(outcome(lambda m=method: getattr(ours, m)()), outcome(lambda m=method: getattr(theirs, m)()))
    a, b = ours.expand((3, *ours.batch_shape)), theirs.expand((3, *theirs.batch_shape))
    assert tuple(a.batch_shape) == tuple(b.batch_shape) and words(a) == repr(b)
    close(drawn(tocha, lambda: a.sample((2,))), drawn(torch, lambda: b.sample((2,))))
    x = drawn(torch, lambda: b.sample((2,)))
    same(outcome(lambda: a.log_prob(tocha.tensor(x.numpy()))), outcome(lambda: b.log_prob(x)))


# -- KL divergences ---------------------------------------------------------------------------------------------

FOR_KL = {
    "Bernoulli": [{"probs": np.array([0.2, 0.5, 0.0, 1.0])}, {"probs": np.array([0.7, 0.0, 0.3, 1.0])}],
    "Beta": [{"concentration1": positive(4), "concentration0": positive(4)} for _ in "12"],
    "Binomial": [{"total_count": 5, "probs": unit(4)}, {"total_count": 5, "probs": unit(4)}],
    "Categorical": [{"probs": np.array([[0.2, 0.8, 0.0]] * 4)}, {"probs": np.array([[0.5, 0.2, 0.3], [0.0, 1.0, 2.0]] * 2)}],
    "Cauchy": [{"loc": real(4), "scale": positive(4)} for _ in "12"],
    "ContinuousBernoulli": [{"probs": np.array([0.1, 0.5, 0.4999, 0.8])}, {"probs": unit(4)}],
    "Dirichlet": [{"concentration": positive(4, 3)} for _ in "12"],
    "Exponential": [{"rate": positive(4)} for _ in "12"],
    "Gamma": [{"concentration": positive(4), "rate": positive(4)} for _ in "12"],
    "Geometric": [{"probs": unit(4)} for _ in "12"],
    "Gumbel": [{"loc": real(4), "scale": positive(4)} for _ in "12"],
    "HalfNormal": [{"scale": positive(4)} for _ in "12"],
    "Laplace": [{"loc": real(4), "scale": positive(4)} for _ in "12"],
    "LowRankMultivariateNormal": [
        {"loc": real(4, 3), "cov_factor": real(3, 2), "cov_diag": positive(3)},
        {"loc": real(3), "cov_factor": real(4, 3, 1), "cov_diag": positive(4, 3)},
    ],
    "MultivariateNormal": [{"loc": real(4, 3), "covariance_matrix": spd()}, {"loc": real(3), "scale_tril": tril(4)}],
    "Normal": [{"loc": real(4), "scale": positive(4)} for _ in "12"],
    "OneHotCategorical": [{"probs": positive(4, 3)} for _ in "12"],
    "Pareto": [{"scale": positive(4), "alpha": np.array([0.5, 1.5, 2.5, 3.5])}, {"scale": np.array([0.1, 0.1, 5.0, 0.1]), "alpha": positive(4)}],
    "Poisson": [{"rate": positive(4)} for _ in "12"],
    "Uniform": [{"low": np.array([0.2, -1.0, 0.3, 1.1]), "high": np.array([0.7, 2.0, 1.5, 1.3])}, {"low": np.array([0.0, -2.0, 0.5, -1.0]), "high": np.array([1.0, 3.0, 1.0, 2.0])}],
    "Chi2": [{"df": positive(4)} for _ in "12"],
    "LogNormal": [{"loc": real(4), "scale": positive(4)} for _ in "12"],
    "InverseGamma": [{"concentration": positive(4), "rate": positive(4)} for _ in "12"],
    "Weibull": [{"scale": positive(4), "concentration": positive(4)} for _ in "12"],
    "StudentT": [{"df": positive(4)} for _ in "12"],
    "Wishart": [{"df": np.array([4.0] * 4), "covariance_matrix": spd()}, {"df": np.array([5.0] * 4), "covariance_matrix": spd()}],
    "RelaxedBernoulli": [{"temperature": np.array(0.5), "probs": unit(4)} for _ in "12"],
}  # fmt: skip


def test_registered_pairs():
    names = [
        sorted(
            (p.__name__, q.__name__) for p, q in m.distributions.kl._KL_REGISTRY if p.__module__.startswith(m.__name__)
        )
        for m in (tocha, torch)
    ]
    assert names[0] == names[1]


@pytest.mark.parametrize("q", FOR_KL)
@pytest.mark.parametrize("p", FOR_KL)
def test_kl(p, q):
    results = []
    for m in (tocha, torch):
        args_p, args_q = given(m, FOR_KL[p][0], "float64", True), given(m, FOR_KL[q][1], "float64", True)
        value = outcome(
            lambda m=m, a=args_p, b=args_q: m.distributions.kl_divergence(
                getattr(m.distributions, p)(**a), getattr(m.distributions, q)(**b)
            )
        )
        leaves = [a for a in (*args_p.values(), *args_q.values()) if isinstance(a, m.Tensor)]
        results.append((value, leaves))
    (ours, a), (theirs, b) = results
    same(ours, theirs)
    if isinstance(theirs, torch.Tensor) and theirs.requires_grad and bool(theirs.isfinite().all()):
        for x, y in zip(
            tocha.autograd.grad(ours.sum(), a, allow_unused=True),
            torch.autograd.grad(theirs.sum(), b, allow_unused=True),
            strict=True,
        ):
            if y is not None and bool(y.isfinite().all()):
                np.testing.assert_allclose(x.numpy(), y.numpy(), rtol=1e-7, atol=1e-8)


def test_kl_of_composed():
    for m in (tocha, torch):
        d = m.distributions
        one = d.Independent(d.Normal(m.zeros(2, 3), 1.0), 1)
        two = d.Independent(d.Normal(m.ones(2, 3), 2.0), 1)
        assert np.allclose(d.kl_divergence(one, two).numpy(), 3 * (math.log(2) + 0.25 - 0.5))
        with pytest.raises(NotImplementedError):
            d.kl_divergence(one, d.Independent(d.Normal(m.ones(2, 3), 2.0), 0))
        with pytest.raises(NotImplementedError, match="is not implemented"):
            d.kl_divergence(d.Binomial(3, m.tensor(0.5)), d.Binomial(4, m.tensor(0.5)))
        with pytest.raises(NotImplementedError, match="No KL"):
            d.kl_divergence(d.Normal(0.0, 1.0), d.Cauchy(0.0, 1.0))
        with pytest.raises(TypeError):
            d.register_kl(3, d.Normal)
