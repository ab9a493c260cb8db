"""Products of bfloat16 and int8 against float64 and int64, for the matrix unit that TOCHA_MATRIX_UNIT names.

A unit is chosen once per process: test_matrix_units.py runs `python matrix_unit_checks.py CHECK` for each of them.
"""

from __future__ import annotations

import itertools
import random
import sys

import tocha
from tocha.nn import functional as F

BF16 = tocha.bfloat16


def near(got, expected, tolerance=0.01):
    """Rounded results of sums in float32: errors are measured by the size of all results."""
    assert got.dtype == BF16 and got.shape == expected.shape
    error = (got.double() - expected).abs() / (expected.abs() + expected.abs().mean() + 1e-3)
    assert expected.numel() == 0 or float(error.max()) < tolerance, float(error.max())


def layouts(t):
    """The same matrix by rows, by columns, and with gaps."""
    yield t
    yield t.mT.contiguous().mT
    yield t.repeat_interleave(2, -1).repeat_interleave(2, -2)[..., ::2, ::2]


def matrix(*shape):
    return tocha.randn(*shape).to(BF16)


def check_products():
    for m, k, n in [(2, 40, 70), (17, 33, 48), (64, 32, 64), (65, 70, 33), (100, 257, 130), (300, 5000, 3)]:
        a, b, c, bias = matrix(m, k), matrix(k, n), matrix(m, n), matrix(n)
        product = a.double() @ b.double()
        for x, y in itertools.product(layouts(a), layouts(b)):
            near(x @ y, product)
            near(tocha.addmm(c, x, y, beta=0.5, alpha=2), 2 * product + 0.5 * c.double())
        near(tocha.mm(a, b, out=tocha.empty(n, m, dtype=BF16).t()), product)
        near(F.linear(a, b.t(), bias), product + bias.double())
        near(F.linear(a, b.t().contiguous(), bias), product + bias.double())
    a, b = matrix(5, 34, 40), matrix(5, 40, 65)
    near(a @ b, a.double() @ b.double())
    near(tocha.baddbmm(matrix(1, 65).fill_(1), a, b), 1 + a.double() @ b.double())


def check_special_values():
    a, b = matrix(40, 50), matrix(50, 60)
    a[3, 4], a[7, 0], b[9, 5] = float("inf"), float("nan"), -float("inf")
    got, expected = a @ b, a.double() @ b.double()
    assert bool((got.isnan() == expected.isnan()).all()) and bool((got.isinf() == expected.isinf()).all())
    x, w = matrix(2, 34, 9, 9), matrix(8, 34, 3, 3)
    x[1, 5, 0, 8] = float("inf")
    g = matrix(2, 8, 9, 9)
    weight = [tocha.nn.grad.conv2d_weight(t, w.shape, u, padding=1) for t, u in ((x, g), (x.double(), g.double()))]
    assert bool((weight[0].isfinite() == weight[1].isfinite()).all())


def random_convolution(rng):
    """Arguments of tocha.convolution: sizes, strides and groups that fill blocks of a unit, and that do not."""
    rank, groups, transposed = rng.choice([1, 2, 2, 2, 3]), rng.choice([1, 1, 1, 2, 3]), rng.random() < 0.3
    channels, rows = groups * rng.choice([1, 2, 3, 16, 33, 64]), groups * rng.choice([1, 3, 8, 17, 40])
    kernel = [rng.choice([1, 1, 2, 3, 3, 5]) for _ in range(rank)]
    stride = [rng.choice([1, 1, 2, 3]) for _ in range(rank)]
    dilation = [rng.choice([1, 1, 2]) for _ in range(rank)]
    reach = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
    padding = [rng.randint(0, min(2, r)) for r in reach]
    sizes = [rng.choice([4, 7, 8, 14, 20] if rank < 3 else [5, 7]) + r for r in reach]
    x = matrix(rng.choice([1, 2, 3, 5]), channels, *sizes)
    if rank == 2 and rng.random() < 0.3:
        x = x.contiguous(memory_format=tocha.channels_last)
    w = matrix(*((channels, rows // groups) if transposed else (rows, channels // groups)), *kernel)
    bias = matrix(rows) if rng.random() < 0.5 else None
    return x, w, bias, (stride, padding, dilation, transposed, [0] * rank, groups)


def check_convolutions():
    rng = random.Random(7)
    for _ in range(60):
        x, w, bias, how = random_convolution(rng)
        y = tocha.convolution(x, w, bias, *how)
        near(y, tocha.convolution(x.double(), w.double(), None if bias is None else bias.double(), *how))
        g = matrix(*y.shape)
        got = tocha.convolution_backward(g, x, w, None, *how, [True, True, False])
        expected = tocha.convolution_backward(g.double(), x.double(), w.double(), None, *how, [True, True, False])
        for one, other in zip(got[:2], expected[:2], strict=True):
            near(one, other)


def check_attention():
    shapes = [(1, 1, 1, 8, 8), (5, 33, 2, 31, 31), (64, 64, 3, 32, 16), (100, 257, 2, 64, 64), (200, 200, 1, 80, 40)]
    for (rows, keys, heads, width, values), causal in itertools.product(shapes, (False, True)):
        mask = None if causal or rows == 64 else matrix(2, 1, rows, keys)
        given = [matrix(2, rows, heads, width).transpose(1, 2), matrix(2, heads, keys, width)]
        given.append(matrix(2, heads, keys, values))
        results = []
        for dtype in (BF16, tocha.float64):
            q, k, v = (t.to(dtype).detach().requires_grad_() for t in given)
            out = F.scaled_dot_product_attention(q, k, v, None if mask is None else mask.to(dtype), is_causal=causal)
            results.append([out, *tocha.autograd.grad(out, (q, k, v), tocha.ones_like(out))])
        for one, other in zip(*results, strict=True):
            assert float((one.double() - other).abs().max()) <= 0.03 * float(other.abs().max()) + 1e-3


def check_bytes():
    for m, k, n in [(1, 1, 1), (2, 3, 5), (17, 40, 33), (64, 64, 64), (65, 130, 31), (3, 4200, 300)]:
        a, b = (tocha.randint(-128, 128, shape, dtype=tocha.int8) for shape in ((m, k), (k, n)))
        expected = a.long() @ b.long()
        for x, y in itertools.product(layouts(a), layouts(b)):
            got = tocha._int_mm(x, y)
            assert got.dtype == tocha.int32 and bool((got == expected).all())
            assert bool((tocha.mm(x, y) == expected.to(tocha.int8)).all())
        u = a.view(tocha.uint8)
        assert bool((tocha._int_mm(u, b) == u.long() @ b.long()).all())


if __name__ == "__main__":
    tocha.manual_seed(5)
    globals()[f"check_{sys.argv[1]}"]()
