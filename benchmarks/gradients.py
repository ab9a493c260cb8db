"""The autograd workloads: recording, small graphs, long chains, and the backward pass of a network."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from workloads import Workload, pair

WIDTH, BATCH, LAYERS = 512, 128, 6


def mlp_arrays() -> list[np.ndarray]:
    """A batch, then weight and bias of each layer."""
    rng = np.random.default_rng(3)
    made = [rng.standard_normal((BATCH, WIDTH))]
    for _ in range(LAYERS):
        made += [rng.standard_normal((WIDTH, WIDTH)) / WIDTH**0.5, rng.standard_normal(WIDTH)]
    return [a.astype(np.float32) for a in made]


def mlp_loss(m, x, parameters: list):
    for weight, bias in zip(parameters[::2], parameters[1::2], strict=True):
        x = m.nn.functional.relu(m.nn.functional.linear(x, weight, bias))
    return x.square().mean()


def workloads() -> Iterator[Workload]:
    rng = np.random.default_rng(4)
    a4, b4 = rng.standard_normal((2, 4)).astype(np.float32)
    thousand = rng.standard_normal(1000).astype(np.float32)
    group = "gradients"

    def leaves(f: Callable) -> Callable:
        def make(m, t):
            g, b = t(a4).requires_grad_(), t(b4).requires_grad_()
            return lambda: f(g, b)

        return make

    yield pair(group, "(g * b).sum().backward()", leaves(lambda g, b: (g * b).sum().backward()), 8)
    yield pair(group, "g + b", leaves(lambda g, b: g + b), 2.5)

    def chain(m, t):
        y = t(thousand).requires_grad_()
        for i in range(1000):
            y = y.tanh() if i % 4 == 0 else y * 1.001
        total = y.sum()
        return lambda: total.backward(retain_graph=True)

    yield pair(group, "chain of 1,000, backward", chain, 3)

    def mlp(m, t):
        x, *parameters = [t(a) for a in mlp_arrays()]
        loss = mlp_loss(m, x, [p.requires_grad_() for p in parameters])
        return lambda: loss.backward(retain_graph=True)

    yield pair(group, "6-layer MLP, backward", mlp, 1)
