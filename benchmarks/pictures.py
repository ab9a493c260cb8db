"""Operators of picture models other than convolution: pooling, batch norm, resampling, patches; forward and backward."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from workloads import Workload, pair


def picture(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def forward(group: str, name: str, shape: tuple[int, ...], f: Callable, target: float | None = 1) -> Workload:
    """f(nn.functional, x) without recording."""

    def make(m, t):
        x = t(picture(*shape))

        def call():
            with m.no_grad():
                return f(m.nn.functional, x)

        return call

    return pair(group, f"{name} {'x'.join(map(str, shape))}", make, target)


def trained(group: str, name: str, shape: tuple[int, ...], f: Callable, target: float | None = 1) -> Workload:
    """f(nn.functional, x) and the gradient of x for a given gradient of the result."""

    def make(m, t):
        x = t(picture(*shape)).requires_grad_()
        g = t(picture(*f(m.nn.functional, x).shape, seed=1))

        def call():
            x.grad = None
            f(m.nn.functional, x).backward(g)

        return call

    return pair(group, f"{name} + backward {'x'.join(map(str, shape))}", make, target)


def pooling() -> Iterator[Workload]:
    def max_pool(F, x):
        return F.max_pool2d(x, 3, stride=2, padding=1)

    def average(F, x):
        return F.avg_pool2d(x, 2)

    def to_one(F, x):
        return F.adaptive_avg_pool2d(x, 1)

    group = "pooling"
    for shape in ((4, 64, 48, 48), (32, 64, 112, 112)):
        yield forward(group, "max_pool2d 3x3 s2", shape, max_pool)
        yield trained(group, "max_pool2d 3x3 s2", shape, max_pool)
    yield trained(group, "avg_pool2d 2x2", (32, 64, 56, 56), average)
    for shape in ((4, 512, 3, 3), (32, 512, 7, 7)):
        yield forward(group, "adaptive_avg_pool2d 1", shape, to_one)
        yield trained(group, "adaptive_avg_pool2d 1", shape, to_one)


def batch_norms() -> Iterator[Workload]:
    def make_trained(shape: tuple[int, ...], last: bool) -> Callable:
        def make(m, t):
            x = t(picture(*shape))
            if last:
                x = x.contiguous(memory_format=m.channels_last)
            x.requires_grad_()
            c = shape[1]
            w, b = t(picture(c)).requires_grad_(), t(picture(c)).requires_grad_()
            mean, var = m.zeros(c), m.ones(c)
            g = m.ones_like(x)

            def call():
                x.grad = w.grad = b.grad = None
                m.nn.functional.batch_norm(x, mean, var, w, b, training=True).backward(g)

            return call

        return make

    group = "batch_norm"
    shapes = ((4, 64, 48, 48), (4, 64, 24, 24), (4, 128, 12, 12), (4, 256, 6, 6), (4, 512, 3, 3), (32, 64, 56, 56))
    for shape in shapes:
        yield pair(group, f"train + backward {'x'.join(map(str, shape))}", make_trained(shape, False), 1)
    yield pair(group, "train + backward, channels last 32x64x56x56", make_trained((32, 64, 56, 56), True), 1)
    yield forward(
        group,
        "evaluate",
        (4, 64, 24, 24),
        lambda F, x: F.batch_norm(x, x[0, :, 0, 0], x[0, :, 0, 0].abs() + 1),
    )


def resampling() -> Iterator[Workload]:
    def bilinear(F, x):
        return F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)

    def nearest(F, x):
        return F.interpolate(x, scale_factor=2)

    def bicubic(F, x):
        return F.interpolate(x, scale_factor=2, mode="bicubic", align_corners=False)

    def smaller(F, x):
        return F.interpolate(x, size=(64, 64), mode="bilinear", antialias=True)

    group = "resampling"
    yield forward(group, "bilinear x2", (4, 64, 32, 32), bilinear)
    yield trained(group, "bilinear x2", (4, 64, 32, 32), bilinear)
    yield forward(group, "nearest x2", (4, 64, 32, 32), nearest)
    yield trained(group, "nearest x2", (4, 64, 32, 32), nearest)
    yield forward(group, "bicubic x2", (4, 16, 32, 32), bicubic)
    yield forward(group, "antialiased to 64x64", (4, 3, 224, 224), smaller)

    def grid(channels: int, backward: bool) -> Callable:
        def make(m, t):
            x = t(picture(4, channels, 64, 64))
            points = m.tanh(t(picture(4, 64, 64, 2, seed=2)))
            g = t(picture(4, channels, 64, 64, seed=3))
            if backward:
                x.requires_grad_()
                points.requires_grad_()

            def call():
                out = m.nn.functional.grid_sample(x, points, align_corners=False)
                if backward:
                    x.grad = points.grad = None
                    out.backward(g)

            return call

        return make

    for channels in (3, 32):
        yield pair(group, f"grid_sample 4x{channels}x64x64", grid(channels, False), 1)
        yield pair(group, f"grid_sample + backward 4x{channels}x64x64", grid(channels, True), 1)


def patches() -> Iterator[Workload]:
    group = "patches"
    yield forward(group, "unfold 3x3", (4, 32, 32, 32), lambda F, x: F.unfold(x, 3, padding=1))
    yield forward(group, "fold 3x3", (4, 288, 1024), lambda F, x: F.fold(x, (32, 32), 3, padding=1))


def workloads() -> Iterator[Workload]:
    yield from pooling()
    yield from batch_norms()
    yield from resampling()
    yield from patches()
