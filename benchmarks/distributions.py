"""Distributions of small batches: log_prob with its checks, with gradients, making one, sampling, KL divergences."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from workloads import Workload, pair

import tocha.distributions  # noqa: F401  loaded before anything is timed

rng = np.random.default_rng(6)


def real(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def positive(*shape: int) -> np.ndarray:
    return rng.uniform(0.5, 2.0, shape).astype(np.float32)


def unit(*shape: int) -> np.ndarray:
    return rng.uniform(0.1, 0.9, shape).astype(np.float32)


# The distribution, its parameters, and a value.
SMALL = {
    "Normal": ({"loc": real(16), "scale": positive(16)}, real(16)),
    "Bernoulli": ({"logits": real(16)}, np.ones(16, np.float32)),
    "Categorical": ({"logits": real(16, 6)}, np.arange(16) % 6),
    "Beta": ({"concentration1": positive(16), "concentration0": positive(16)}, unit(16)),
    "Gamma": ({"concentration": positive(16), "rate": positive(16)}, positive(16)),
    "Dirichlet": ({"concentration": positive(16, 4)}, np.full((16, 4), 0.25, np.float32)),
    "Laplace": ({"loc": real(16), "scale": positive(16)}, real(16)),
    "StudentT": ({"df": positive(16)}, real(16)),
    "Poisson": ({"rate": positive(16)}, np.arange(16, dtype=np.float32)),
    "Binomial": ({"total_count": 20, "probs": unit(16)}, np.arange(16, dtype=np.float32)),
    "LogNormal": ({"loc": real(16), "scale": positive(16)}, positive(16)),
    "Weibull": ({"scale": positive(16), "concentration": positive(16)}, positive(16)),
    "MultivariateNormal": ({"loc": real(16, 4), "scale_tril": np.eye(4, dtype=np.float32)}, real(16, 4)),
    "VonMises": ({"loc": real(16), "concentration": positive(16)}, real(16)),
}


def given(t, parameters: dict) -> dict:
    return {name: t(v) if isinstance(v, np.ndarray) else v for name, v in parameters.items()}


def log_prob(name: str) -> Workload:
    def make(m, t):
        parameters, value = SMALL[name]
        d, x = getattr(m.distributions, name)(**given(t, parameters)), t(value)
        return lambda: d.log_prob(x)

    return pair("distributions", f"{name}.log_prob of 16", make, 3.0)


def made(name: str) -> Workload:
    def make(m, t):
        parameters, value = SMALL[name]
        kind, arguments, x = getattr(m.distributions, name), given(t, parameters), t(value)
        return lambda: kind(**arguments).log_prob(x)

    return pair("distributions", f"{name}(...).log_prob of 16", make, 3.0)


def workloads() -> Iterator[Workload]:
    for name in SMALL:
        yield log_prob(name)
    for name in ("Normal", "Categorical", "Gamma"):
        yield made(name)

    def policy_step(m, t):
        logits, reward = t(real(32, 6)).requires_grad_(), t(real(32))

        def step():
            d = m.distributions.Categorical(logits=logits)
            loss = -(d.log_prob(d.sample()) * reward).mean() - 0.01 * d.entropy().mean()
            loss.backward()
            logits.grad = None

        return step

    yield pair("distributions", "policy gradient of 32x6, backward too", policy_step, 3.0)

    def variational(m, t):
        loc, scale = t(real(32, 8)).requires_grad_(), t(positive(32, 8)).requires_grad_()

        def step():
            d = m.distributions.Independent(m.distributions.Normal(loc, scale), 1)
            prior = m.distributions.Independent(m.distributions.Normal(m.zeros(32, 8), m.ones(32, 8)), 1)
            (d.rsample().sum() + m.distributions.kl_divergence(d, prior).sum()).backward()
            loc.grad = scale.grad = None

        return step

    yield pair("distributions", "rsample and KL of 32x8, backward too", variational, 3.0)
    for name in ("Gamma", "Dirichlet"):

        def draw(m, t, name=name):
            d = getattr(m.distributions, name)(**given(t, SMALL[name][0]))
            return lambda: d.sample((1000,))

        yield pair("distributions", f"{name}.sample of 1000x16", draw)
