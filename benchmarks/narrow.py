"""Products of bfloat16 and int8: matrices, linear layers, convolution, attention; forward, and backward too.

On a processor without instructions for bfloat16 PyTorch's products take minutes: there only the smallest are timed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch
from workloads import Workload, pair

HAS_INSTRUCTIONS = torch.ops.mkldnn._is_mkldnn_bf16_supported()

rng = np.random.default_rng(5)

# (batch, in, out, kernel, stride, padding, size, groups)
CONVOLUTIONS = {
    "3x3, 64 channels at 56": (8, 64, 64, 3, 1, 1, 56, 1),
    "3x3, 256 channels at 14": (8, 256, 256, 3, 1, 1, 14, 1),
    "3x3, 512 channels at 7": (8, 512, 512, 3, 1, 1, 7, 1),
    "1x1, 64 channels at 56": (8, 64, 64, 1, 1, 0, 56, 1),
    "1x1, 256 channels at 14": (8, 256, 256, 1, 1, 0, 14, 1),
    "3x3/2, 128 to 256 channels at 28": (8, 128, 256, 3, 2, 1, 28, 1),
    "1x1/2, 64 to 128 channels at 56": (8, 64, 128, 1, 2, 0, 56, 1),
    "7x7/2, 3 to 64 channels at 224": (4, 3, 64, 7, 2, 3, 224, 1),
    "3x3, 128 channels in 32 groups at 28": (8, 128, 128, 3, 1, 1, 28, 32),
    "3x3, depthwise, 64 channels at 56": (8, 64, 64, 3, 1, 1, 56, 64),
}


def normal(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def trained(group: str, name: str, arrays: list[np.ndarray], f: Callable, target: float) -> Iterator[Workload]:
    """f(module, *bfloat16 tensors) without gradients, and with the backward pass for all of them."""

    def forward(m, t):
        tensors = [t(a).to(m.bfloat16) for a in arrays]

        def run() -> None:
            with m.no_grad():
                f(m, *tensors)

        return run

    def both(m, t):
        tensors = [t(a).to(m.bfloat16).requires_grad_() for a in arrays]
        shape = f(m, *[x.detach().to("meta") for x in tensors]).shape
        grad = t(rng.standard_normal(tuple(shape)).astype(np.float32)).to(m.bfloat16)

        def run() -> None:
            m.autograd.grad(f(m, *tensors), tensors, grad)

        return run

    yield pair(group, name, forward, target)
    yield pair(group, f"{name}, backward too", both, target)


def products() -> Iterator[Workload]:
    for n in (256, 512, 1024, 2048) if HAS_INSTRUCTIONS else (256,):
        a, b, bias = normal(n, n), normal(n, n), normal(n)
        yield from trained("bfloat16 products", f"mm {n}", [a, b], lambda m, x, y: x @ y, 0.9)
        linear = [a, b, bias]
        yield from trained(
            "bfloat16 products", f"linear {n}", linear, lambda m, x, w, c: m.nn.functional.linear(x, w, c), 0.9
        )
    if not HAS_INSTRUCTIONS:
        return
    for rows, out, width in ((32, 1024, 1024), (128, 4096, 1024), (512, 384, 128), (512, 512, 128), (512, 128, 512)):
        given = [normal(rows, width), normal(out, width), normal(out)]
        name = f"linear {rows} x {width} to {out}"
        yield from trained("bfloat16 products", name, given, lambda m, x, w, c: m.nn.functional.linear(x, w, c), 0.9)
    for batch, n, k in ((64, 64, 64), (32, 128, 128), (16, 256, 256), (8, 512, 512)):
        pair_of = [normal(batch, n, k), normal(batch, k, n)]
        yield from trained("bfloat16 products", f"bmm {batch} x {n} x {k}", pair_of, lambda m, x, y: x @ y, 0.9)


def convolutions() -> Iterator[Workload]:
    for name, (batch, channels, rows, kernel, stride, padding, size, groups) in CONVOLUTIONS.items():
        given = [normal(batch, channels, size, size), normal(rows, channels // groups, kernel, kernel)]

        def convolve(m, x, w, stride=stride, padding=padding, groups=groups):
            return m.conv2d(x, w, None, stride, padding, 1, groups)

        yield from trained("bfloat16 convolution", name, given, convolve, 1)


def attention() -> Iterator[Workload]:
    for sizes in ((8, 4, 64, 32), (8, 8, 128, 64), (4, 8, 256, 64), (2, 8, 512, 64), (1, 8, 2048, 64)):
        for causal in (False, True):

            def attend(m, q, k, v, causal=causal):
                return m.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

            name = "x".join(map(str, sizes)) + (" causal" if causal else "")
            yield from trained("bfloat16 attention", name, [normal(*sizes) for _ in range(3)], attend, 1)


def integers() -> Iterator[Workload]:
    for n in (256, 512, 1024, 2048):
        a, b = (rng.integers(-128, 128, (n, n)).astype(np.int8) for _ in range(2))

        def multiply(m, t, a=a, b=b):
            x, y = t(a), t(b)
            return lambda: m._int_mm(x, y)

        yield pair("int8 products", f"_int_mm {n}", multiply, 0.9)


def workloads() -> Iterator[Workload]:
    yield from products()
    if HAS_INSTRUCTIONS:
        yield from convolutions()
    yield from attention()
    yield from integers()
