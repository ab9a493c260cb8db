"""Convolution: the forward pass of common shapes, and forward and backward of the layers of a ResNet-18 (batch 4, 96 x 96)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from workloads import Workload, pair

import tocha

# (batch, in, out, kernel, stride, padding, size, groups)
COMMON = {
    "3x3, 64 channels": (8, 64, 64, 3, 1, 1, 56, 1),
    "3x3, 256 channels": (8, 256, 256, 3, 1, 1, 14, 1),
    "1x1, 64 channels": (8, 64, 64, 1, 1, 0, 56, 1),
    "1x1, 256 channels": (8, 256, 256, 1, 1, 0, 14, 1),
    "depthwise 3x3": (8, 64, 64, 3, 1, 1, 56, 64),
    "depthwise 3x3, stride 2": (8, 64, 64, 3, 2, 1, 56, 64),
}
RESNET = {
    "7x7/2 3->64 at 96": (4, 3, 64, 7, 2, 3, 96, 1),
    "3x3 64->64 at 24": (4, 64, 64, 3, 1, 1, 24, 1),
    "3x3/2 64->128 at 24": (4, 64, 128, 3, 2, 1, 24, 1),
    "3x3 128->128 at 12": (4, 128, 128, 3, 1, 1, 12, 1),
    "1x1/2 64->128 at 24": (4, 64, 128, 1, 2, 0, 24, 1),
    "3x3/2 128->256 at 12": (4, 128, 256, 3, 2, 1, 12, 1),
    "3x3 256->256 at 6": (4, 256, 256, 3, 1, 1, 6, 1),
    "3x3/2 256->512 at 6": (4, 256, 512, 3, 2, 1, 6, 1),
    "3x3 512->512 at 3": (4, 512, 512, 3, 1, 1, 3, 1),
}


def forward(shape: tuple[int, ...]) -> Callable:
    batch, channels, rows, kernel, stride, padding, size, groups = shape
    rng = np.random.default_rng(0)
    x0 = rng.standard_normal((batch, channels, size, size)).astype(np.float32)
    w0 = rng.standard_normal((rows, channels // groups, kernel, kernel)).astype(np.float32)

    def make(m, t):
        x, w = t(x0), t(w0)
        return lambda: m.conv2d(x, w, None, stride, padding, 1, groups)

    return make


def backward(shape: tuple[int, ...], mask: list[bool]) -> Callable:
    batch, channels, rows, kernel, stride, padding, size, groups = shape
    rng = np.random.default_rng(0)
    out = (size + 2 * padding - kernel) // stride + 1
    x0 = rng.standard_normal((batch, channels, size, size)).astype(np.float32)
    w0 = rng.standard_normal((rows, channels // groups, kernel, kernel)).astype(np.float32)
    g0 = rng.standard_normal((batch, rows, out, out)).astype(np.float32)
    settings = (None, [stride] * 2, [padding] * 2, [1, 1], False, [0, 0], groups, mask)

    def make(m, t):
        x, w, g = t(x0), t(w0), t(g0)
        f = m.convolution_backward if m is tocha else m.ops.aten.convolution_backward
        return lambda: f(g, x, w, *settings)

    return make


def workloads() -> Iterator[Workload]:
    for name, shape in COMMON.items():
        yield pair("conv2d", name, forward(shape), 1)
    for name, shape in RESNET.items():
        yield pair("ResNet-18 forward", name, forward(shape), 1)
    for name, shape in list(RESNET.items())[1:]:
        yield pair("ResNet-18 backward, input", name, backward(shape, [True, False, False]), 1)
    for name, shape in RESNET.items():
        yield pair("ResNet-18 backward, weight", name, backward(shape, [False, True, False]), 1)
