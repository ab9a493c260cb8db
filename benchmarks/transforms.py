"""Function transforms: gradients of each sample, Jacobians and Hessians, on both libraries; and the loop that vmap replaces."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator

import numpy as np
from workloads import Workload, pair

import tocha

SAMPLES, WIDTH = 64, 32


def network_arrays() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    made = {"c1": (8, 1, 3, 3), "b1": (8,), "c2": (16, 8, 3, 3), "b2": (16,), "w": (10, 16 * 5 * 5), "b": (10,)}
    return {k: (rng.standard_normal(s) * 0.2).astype(np.float32) for k, s in made.items()}


def network_loss(m) -> Callable:
    F = m.nn.functional

    def loss(p, x, target):
        y = F.max_pool2d(F.relu(F.conv2d(x.unsqueeze(0), p["c1"], p["b1"])), 2)
        y = F.max_pool2d(F.relu(F.conv2d(y, p["c2"], p["b2"])), 2)
        return F.cross_entropy(F.linear(y.flatten(1), p["w"], p["b"]), target.unsqueeze(0))

    return loss


def per_sample(m, t) -> Callable:
    func = importlib.import_module(f"{m.__name__}.func")
    rng = np.random.default_rng(6)
    p = {k: t(v) for k, v in network_arrays().items()}
    x = t(rng.standard_normal((SAMPLES, 1, 28, 28)).astype(np.float32))
    target = t(rng.integers(0, 10, SAMPLES))
    run = func.vmap(func.grad(network_loss(m)), in_dims=(None, 0, 0))
    return lambda: run(p, x, target)


def looped() -> Callable:
    """The same sample by sample, with autograd."""
    rng = np.random.default_rng(6)
    p = {k: tocha.tensor(v).requires_grad_() for k, v in network_arrays().items()}
    x = tocha.tensor(rng.standard_normal((SAMPLES, 1, 28, 28)).astype(np.float32))
    target = tocha.tensor(rng.integers(0, 10, SAMPLES))
    loss, leaves = network_loss(tocha), list(p.values())

    def run() -> list:
        rows = [tocha.autograd.grad(loss(p, x[i], target[i]), leaves) for i in range(SAMPLES)]
        return [tocha.stack(list(g)) for g in zip(*rows, strict=True)]

    return run


def mlp(m, t, transform: str) -> Callable:
    func = importlib.import_module(f"{m.__name__}.func")
    rng = np.random.default_rng(7)
    weights = [t((rng.standard_normal((WIDTH, WIDTH)) / WIDTH**0.5).astype(np.float32)) for _ in range(3)]
    x = t(rng.standard_normal(WIDTH).astype(np.float32))

    def f(x):
        for w in weights:
            x = (w @ x).tanh()
        return x if transform != "hessian" else (x * x).sum()

    run = getattr(func, transform)(f)
    return lambda: run(x)


def workloads() -> Iterator[Workload]:
    group = "transforms"
    yield pair(group, "vmap(grad) of a small network", per_sample, 1.3)
    ours = per_sample(tocha, tocha.tensor)
    yield Workload(group, "vmap(grad) against our own loop", ours, looped(), 3)
    yield pair(group, "jacrev of an MLP", lambda m, t: mlp(m, t, "jacrev"), 1.3)
    yield pair(group, "jacfwd of an MLP", lambda m, t: mlp(m, t, "jacfwd"), 1.3)
    yield pair(group, "hessian of an MLP", lambda m, t: mlp(m, t, "hessian"), 1.3)
