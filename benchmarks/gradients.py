"""The autograd workloads: recording, small graphs, long chains, and the backward pass of a network."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import models
import numpy as np
from workloads import Workload, pair


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
        x, *parameters = [t(a) for a in models.mlp_arrays()]
        loss = models.mlp_loss(m, x, [p.requires_grad_() for p in parameters])
        return lambda: loss.backward(retain_graph=True)

    yield pair(group, "6-layer MLP, backward", mlp, 1)
