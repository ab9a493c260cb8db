"""The eager workloads: small-tensor calls (overhead), a million elements (kernels), matrices, indexing."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from workloads import Workload, pair


def small() -> Iterator[Workload]:
    rng = np.random.default_rng(0)
    a4, b4 = rng.standard_normal((2, 4)).astype(np.float32)
    m8 = rng.standard_normal((8, 8)).astype(np.float32)

    def with_ab(f: Callable) -> Callable:
        def make(m, t):
            a, b = t(a4), t(b4)
            return lambda: f(m, a, b)

        return make

    def with_m(f: Callable) -> Callable:
        def make(m, t):
            x = t(m8)
            return lambda: f(m, x)

        return make

    group = "small tensors"
    yield pair(group, "a + b", with_ab(lambda m, a, b: a + b), 1)
    yield pair(group, "add(a, b, alpha=2)", with_ab(lambda m, a, b: m.add(a, b, alpha=2)), 1)
    yield pair(group, "view", with_m(lambda m, x: x.view(64)), 1)
    yield pair(group, "slice", with_m(lambda m, x: x[1:3]), 1)
    yield pair(group, "sum", with_ab(lambda m, a, b: a.sum()), 1)
    yield pair(group, "8x8 matmul", with_m(lambda m, x: x @ x), 1)
    yield pair(group, "empty", with_ab(lambda m, a, b: m.empty(4)), 1)
    yield pair(group, "add_", with_ab(lambda m, a, b: a.add_(b)), 1)
    yield pair(group, "cat", with_ab(lambda m, a, b: m.cat([a, b])), 1)
    yield pair(group, "relu", with_ab(lambda m, a, b: m.relu(a)), 1)
    yield pair(group, "a + 1", with_ab(lambda m, a, b: a + 1))
    yield pair(group, "x[0, 1]", with_m(lambda m, x: x[0, 1]))
    yield pair(group, "x.shape", with_m(lambda m, x: x.shape))
    yield pair(group, "sum(dim=1)", with_m(lambda m, x: x.sum(dim=1)))


def million() -> Iterator[Workload]:
    rng = np.random.default_rng(1)
    x1 = (rng.random(1_000_000) + 0.1).astype(np.float32)
    y1 = rng.standard_normal(1_000_000).astype(np.float32)

    def unary(name: str, target: float) -> Workload:
        def make(m, t):
            x = t(x1)
            f = getattr(m, name, None) or getattr(m.nn.functional, name)
            return lambda: f(x)

        return pair("one million float32", name, make, target)

    for name in ("exp", "tanh", "sigmoid", "log", "sin", "erf", "gelu"):
        yield unary(name, 2)

    def make_binary(f: Callable) -> Callable:
        def make(m, t):
            x, y = t(x1), t(y1)
            c = y > 0
            return lambda: f(m, x, y, c)

        return make

    group = "one million float32"
    yield pair(group, "add", make_binary(lambda m, x, y, c: x + y), 1)
    yield pair(group, "mul", make_binary(lambda m, x, y, c: x * y), 1)
    yield pair(group, "where", make_binary(lambda m, x, y, c: m.where(c, x, y)), 1)
    yield pair(group, "sum", make_binary(lambda m, x, y, c: x.sum()), 1)
    yield pair(group, "copy", make_binary(lambda m, x, y, c: x.clone()), 1)
    yield pair(group, "sort", make_binary(lambda m, x, y, c: y.sort()), 1)
    yield pair(group, "cumsum", make_binary(lambda m, x, y, c: x.cumsum(0)), 1)

    def half_add(m, t):
        x = t(x1).to(m.bfloat16)
        return lambda: x + x

    yield pair("one million bfloat16", "add", half_add, 1)


def matrices() -> Iterator[Workload]:
    rng = np.random.default_rng(2)
    square = rng.standard_normal((1024, 1024)).astype(np.float32)
    rows = rng.integers(0, 1024, 1024)

    def on_square(f: Callable) -> Callable:
        def make(m, t):
            x, i = t(square), t(rows)
            return lambda: f(m, x, i)

        return make

    group = "1024 x 1024"
    yield pair(group, "softmax", on_square(lambda m, x, i: m.softmax(x, -1)), 1.5)
    yield pair(group, "layer_norm", on_square(lambda m, x, i: m.nn.functional.layer_norm(x, (1024,))), 1.5)
    yield pair(group, "transpose copy", on_square(lambda m, x, i: x.t().contiguous()), 1)
    yield pair(group, "index_select", on_square(lambda m, x, i: m.index_select(x, 0, i)), 1)
    yield pair(group, "sum(dim=0)", on_square(lambda m, x, i: x.sum(0)))
    yield pair(group, "sum(dim=1)", on_square(lambda m, x, i: x.sum(1)))
    yield pair(group, "max(dim=1)", on_square(lambda m, x, i: x.max(1)))
    for n in (64, 128, 256, 512, 1024):
        p = square[:n, :n].copy()

        def matmul(m, t, p=p):
            x = t(p)
            return lambda: x @ x

        yield pair("matmul", f"{n} x {n}", matmul, 0.97)


def workloads() -> Iterator[Workload]:
    yield from small()
    yield from million()
    yield from matrices()
