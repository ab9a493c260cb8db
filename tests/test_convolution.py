"""Convolutions against a float64 reference in NumPy: every setting, layout and size class, and their gradients."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tocha
from tocha.nn import functional as F

FORWARD = {1: tocha.conv1d, 2: tocha.conv2d, 3: tocha.conv3d}
TRANSPOSED = {1: tocha.conv_transpose1d, 2: tocha.conv_transpose2d, 3: tocha.conv_transpose3d}


def reference(x, w, stride, padding, dilation, groups):
    """The definition: a sum over the kernel of shifted and scaled inputs."""
    n = w.ndim - 2
    x = np.pad(x, [(0, 0), (0, 0)] + [(p, p) for p in padding])
    sizes = [(x.shape[i + 2] - dilation[i] * (w.shape[i + 2] - 1) - 1) // stride[i] + 1 for i in range(n)]
    out = np.zeros((x.shape[0], w.shape[0], *sizes), x.dtype)
    rows, channels = w.shape[0] // groups, w.shape[1]
    for g, at in itertools.product(range(groups), itertools.product(*[range(k) for k in w.shape[2:]])):
        places = [slice(a * d, a * d + s * (m - 1) + 1, s) for a, d, s, m in zip(at, dilation, stride, sizes)]
        part = x[(slice(None), slice(g * channels, (g + 1) * channels), *places)]
        out[:, g * rows : (g + 1) * rows] += np.einsum(
            "nc...,rc->nr...", part, w[(slice(g * rows, (g + 1) * rows), slice(None), *at)]
        )
    return out


def transposed_reference(x, w, stride, padding, output_padding, dilation, groups):
    """Each input element spreads the kernel over the result, which loses its padding at the end."""
    n = w.ndim - 2
    full = [(x.shape[i + 2] - 1) * stride[i] + dilation[i] * (w.shape[i + 2] - 1) + 1 for i in range(n)]
    out = np.zeros((x.shape[0], w.shape[1] * groups, *[f + o for f, o in zip(full, output_padding)]), x.dtype)
    channels, rows = w.shape[0] // groups, w.shape[1]
    for g, at in itertools.product(range(groups), itertools.product(*[range(k) for k in w.shape[2:]])):
        places = [slice(a * d, a * d + s * (m - 1) + 1, s) for a, d, s, m in zip(at, dilation, stride, x.shape[2:])]
        out[(slice(None), slice(g * rows, (g + 1) * rows), *places)] += np.einsum(
            "nc...,cr->nr...",
            x[:, g * channels : (g + 1) * channels],
            w[(slice(g * channels, (g + 1) * channels), slice(None), *at)],
        )
    return out[(slice(None), slice(None), *[slice(p, m - p) for p, m in zip(padding, out.shape[2:])])]


def numbers(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).standard_normal(shape)


# (input, weight, stride, padding, dilation, groups): small ones, and each way the kernels go about it.
CASES = {
    "1d": ((2, 4, 11), (6, 4, 3), [2], [1], [1], 1),
    "1d, long rows": ((1, 2, 700), (3, 2, 5), [1], [2], [3], 1),
    "1d, strided long rows": ((2, 3, 901), (4, 3, 4), [3], [0], [1], 1),
    "3x3": ((2, 5, 9, 8), (7, 5, 3, 3), [1, 1], [1, 1], [1, 1], 1),
    "uneven settings": ((2, 4, 13, 10), (6, 2, 3, 2), [2, 1], [0, 1], [1, 3], 2),
    "stride beyond the kernel": ((2, 3, 12, 13), (4, 3, 2, 1), [3, 4], [1, 0], [1, 1], 1),
    "depthwise": ((2, 6, 14, 15), (6, 1, 3, 3), [1, 1], [1, 1], [1, 1], 6),
    "depthwise, two results per channel": ((1, 3, 8, 8), (6, 1, 5, 5), [2, 2], [2, 2], [1, 1], 3),
    "1x1": ((3, 8, 7, 6), (5, 8, 1, 1), [1, 1], [0, 0], [1, 1], 1),
    "1x1, grouped": ((2, 8, 9, 9), (6, 4, 1, 1), [1, 1], [0, 0], [1, 1], 2),
    "1x1, strided": ((2, 8, 9, 7), (5, 8, 1, 1), [2, 2], [0, 0], [1, 1], 1),
    "7x7": ((1, 3, 30, 29), (20, 3, 7, 7), [2, 2], [3, 3], [1, 1], 1),
    "few pixels": ((3, 40, 3, 4), (33, 40, 3, 3), [1, 1], [1, 1], [1, 1], 1),
    "few pixels, mostly padding": ((4, 70, 3, 3), (67, 70, 3, 3), [1, 1], [1, 1], [1, 1], 1),
    "few pixels, one picture": ((1, 100, 2, 3), (32, 100, 3, 5), [1, 1], [1, 2], [1, 1], 1),
    "few pixels, far taps": ((5, 33, 3, 2), (41, 33, 3, 3), [1, 1], [2, 2], [2, 2], 1),
    "few pixels, taps that meet nothing": ((2, 32, 1, 1), (35, 32, 5, 5), [1, 1], [2, 2], [1, 1], 1),
    "few pixels of volumes": ((2, 34, 2, 2, 2), (33, 34, 3, 3, 3), [1, 1, 1], [1, 1, 1], [1, 1, 1], 1),
    "few pixels, 1x1 strided": ((4, 96, 6, 5), (65, 96, 1, 1), [2, 2], [0, 0], [1, 1], 1),
    "few pixels, 1x1 in the padding": ((1, 32, 1, 1), (32, 32, 1, 1), [2, 2], [1, 1], [1, 1], 1),
    "few pixels, strided": ((2, 40, 6, 6), (70, 40, 3, 3), [2, 2], [1, 1], [1, 1], 1),
    "strided lines": ((3, 40, 15, 14), (50, 40, 3, 3), [2, 2], [1, 1], [1, 1], 1),
    "strided lines, far taps": ((2, 64, 17, 40), (33, 64, 3, 5), [3, 2], [2, 7], [2, 3], 1),
    "strided lines, gaps between taps": ((1, 32, 21, 25), (36, 32, 2, 2), [1, 4], [0, 1], [1, 1], 1),
    "strided lines of volumes": ((2, 33, 4, 5, 12), (32, 33, 3, 2, 3), [2, 1, 2], [1, 0, 1], [1, 1, 1], 1),
    "strided lines of many planes": ((1, 32, 12, 28, 30), (33, 32, 3, 3, 3), [2, 2, 2], [1, 1, 1], [1, 1, 1], 1),
    "winograd": ((2, 33, 20, 18), (40, 33, 3, 3), [1, 1], [1, 1], [1, 1], 1),
    "winograd, odd sizes": ((3, 32, 15, 13), (35, 32, 3, 3), [1, 1], [0, 2], [1, 1], 1),
    "winograd, few tiles": ((4, 64, 6, 6), (96, 64, 3, 3), [1, 1], [1, 1], [1, 1], 1),
    "winograd, few tiles and odd rows": ((5, 40, 5, 7), (83, 40, 3, 3), [1, 1], [1, 0], [1, 1], 1),
    "winograd, large tiles": ((2, 36, 24, 21), (64, 36, 3, 3), [1, 1], [1, 1], [1, 1], 1),
    "winograd, large tiles and blocks": ((3, 64, 32, 40), (50, 64, 3, 3), [1, 1], [2, 1], [1, 1], 1),
    "winograd, planes of a volume": ((2, 32, 3, 9, 10), (34, 32, 1, 3, 3), [1, 1, 1], [1, 1, 1], [1, 1, 1], 1),
    "winograd, small pictures": ((9, 48, 7, 8), (32, 48, 3, 3), [1, 1], [1, 1], [1, 1], 1),
    "3d": ((2, 3, 5, 6, 7), (4, 3, 3, 2, 3), [1, 2, 1], [1, 0, 1], [1, 1, 2], 1),
    "3d, thin": ((3, 9, 3, 1, 9), (3, 3, 3, 1, 9), [2, 2, 2], [2, 2, 2], [1, 1, 1], 3),
}


def close(actual, expected, tolerance):
    scale = max(1.0, np.abs(expected).max())
    np.testing.assert_allclose(actual.numpy(), expected, rtol=0, atol=tolerance * scale)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("case", CASES)
def test_forward_and_gradients(case, threads):
    shape, kernel, stride, padding, dilation, groups = CASES[case]
    x, w, b = numbers(*shape), numbers(*kernel, seed=1), numbers(kernel[0], seed=2)
    spatial = [None] * (len(shape) - 2)
    expected = reference(x, w, stride, padding, dilation, groups) + b[(slice(None), *spatial)]
    before = tocha.get_num_threads()
    tocha.set_num_threads(threads)
    try:
        for dtype, tolerance in ((tocha.float64, 1e-13), (tocha.float32, 3e-6)):
            tx, tw, tb = (tocha.tensor(a, dtype=dtype, requires_grad=True) for a in (x, w, b))
            y = FORWARD[len(shape) - 2](tx, tw, tb, stride, padding, dilation, groups)
            close(y.detach(), expected, tolerance)
            g = numbers(*y.shape, seed=3)
            y.backward(tocha.tensor(g, dtype=dtype))
            close(tx.grad, gradient_of_input(g, w, x.shape, stride, padding, dilation, groups), tolerance)
            close(tw.grad, gradient_of_weight(g, x, w.shape, stride, padding, dilation, groups), tolerance)
            close(tb.grad, g.sum(axis=(0, *range(2, g.ndim))), tolerance)
    finally:
        tocha.set_num_threads(before)


def gradient_of_input(g, w, size, stride, padding, dilation, groups):
    """The transposed convolution, padded to the input's size."""
    reach = [
        (m - 1) * s - 2 * p + d * (k - 1) + 1
        for m, s, p, d, k in zip(g.shape[2:], stride, padding, dilation, w.shape[2:])
    ]
    rest = [n - r for n, r in zip(size[2:], reach)]
    return transposed_reference(g, w, stride, padding, rest, dilation, groups)


def flat(a):
    return a.reshape(*a.shape[:2], -1)


def gradient_of_weight(g, x, size, stride, padding, dilation, groups):
    x = np.pad(x, [(0, 0), (0, 0)] + [(p, p) for p in padding])
    out = np.zeros(size)
    rows, channels = size[0] // groups, size[1]
    for group, at in itertools.product(range(groups), itertools.product(*[range(k) for k in size[2:]])):
        places = [slice(a * d, a * d + s * (m - 1) + 1, s) for a, d, s, m in zip(at, dilation, stride, g.shape[2:])]
        part = x[(slice(None), slice(group * channels, (group + 1) * channels), *places)]
        mine = slice(group * rows, (group + 1) * rows)
        out[(mine, slice(None), *at)] = np.einsum("nrp,ncp->rc", flat(g[:, mine]), flat(part))
    return out


TRANSPOSED_CASES = {
    "strided lines": ((2, 40, 7, 9), (40, 35, 4, 4), [2, 2], [1, 1], [1, 0], [1, 1], 1),
    "few pixels": ((3, 36, 3, 2), (36, 34, 3, 3), [1, 1], [1, 1], [0, 0], [1, 1], 1),
    "1d": ((2, 4, 7), (4, 3, 3), [2], [1], [1], [1], 1),
    "2d": ((2, 4, 5, 6), (4, 3, 3, 2), [2, 1], [1, 0], [0, 0], [1, 2], 2),
    "2d, output padding": ((1, 3, 4, 5), (3, 2, 3, 3), [3, 2], [0, 1], [2, 1], [1, 1], 1),
    "2d, few pixels": ((2, 64, 4, 4), (64, 32, 4, 4), [2, 2], [1, 1], [0, 0], [1, 1], 1),
    "2d, stride beyond the kernel": ((1, 3, 4, 5), (3, 2, 1, 2), [3, 3], [0, 0], [1, 2], [1, 1], 1),
    "3d": ((1, 4, 3, 2, 4), (4, 2, 2, 3, 3), [2, 1, 2], [0, 1, 1], [1, 0, 0], [1, 1, 1], 2),
}


@pytest.mark.parametrize("case", TRANSPOSED_CASES)
def test_transposed(case):
    shape, kernel, stride, padding, output_padding, dilation, groups = TRANSPOSED_CASES[case]
    x, w, b = numbers(*shape), numbers(*kernel, seed=1), numbers(kernel[1] * groups, seed=2)
    expected = transposed_reference(x, w, stride, padding, output_padding, dilation, groups)
    expected = expected + b[(slice(None), *[None] * (len(shape) - 2))]
    f = TRANSPOSED[len(shape) - 2]
    for dtype, tolerance in ((tocha.float64, 1e-13), (tocha.float32, 3e-6)):
        y = f(*(tocha.tensor(a, dtype=dtype) for a in (x, w, b)), stride, padding, output_padding, groups, dilation)
        close(y, expected, tolerance)
    tensors = [tocha.tensor(a[:1, :4] if a is x else a, requires_grad=True) for a in (x, w, b)]
    if x.size <= 200:
        assert tocha.autograd.gradcheck(
            lambda x, w, b: f(x, w, b, stride, padding, output_padding, groups, dilation), tensors
        )


@pytest.mark.parametrize("transposed", [False, True])
def test_second_derivatives(transposed):
    x = tocha.tensor(numbers(2, 4, 4, 3), requires_grad=True)
    w = tocha.tensor(numbers(4, 2, 2, 3, seed=1), requires_grad=True)
    b = tocha.tensor(numbers(4, seed=2), requires_grad=True)
    settings = ([2, 1], [1, 1], [1, 1], transposed, [1 if transposed else 0, 0], 2)
    assert tocha.autograd.gradgradcheck(lambda x, w, b: tocha.convolution(x, w, b, *settings), (x, w, b))


def test_backward_mask():
    x, w = tocha.tensor(numbers(2, 3, 5, 5)), tocha.tensor(numbers(4, 3, 3, 3, seed=1))
    g = tocha.tensor(numbers(2, 4, 3, 3, seed=2))
    settings = ([1, 1], [0, 0], [1, 1], False, [0, 0], 1)
    full = tocha.convolution_backward(g, x, w, [4], *settings, [True, True, True])
    only = tocha.convolution_backward(g, x, w, [4], *settings, [False, True, False])
    assert [tuple(t.shape) for t in full] == [(2, 3, 5, 5), (4, 3, 3, 3), (4,)]
    assert [tuple(t.shape) for t in only] == [(0,), (4, 3, 3, 3), (0,)]
    assert tocha.equal(full[1], only[1])


@pytest.mark.parametrize("side", [9, 3])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_halves_are_summed_in_float32(dtype, side):
    x, w = tocha.tensor(numbers(2, 40, side, side)), tocha.tensor(numbers(33, 40, 3, 3, seed=1))
    x, w = x.to(getattr(tocha, dtype)), w.to(getattr(tocha, dtype))
    for convolve, exact_w in ((tocha.conv2d, w), (tocha.conv_transpose2d, w.transpose(0, 1).contiguous())):
        exact = convolve(x.double(), exact_w.double(), padding=1)
        error = (convolve(x, exact_w, padding=1).double() - exact).abs()
        assert (error <= exact.abs() * tocha.finfo(x.dtype).eps + 1e-4).all()


@pytest.mark.parametrize("channels, side", [(3, 7), (36, 3)])
def test_integers_are_exact(channels, side):
    x = np.random.default_rng(0).integers(-9, 9, (2, channels, side, side - 1))
    w = np.random.default_rng(1).integers(-9, 9, (channels + 1, channels, 3, 3))
    expected = reference(x, w, [1, 1], [1, 1], [1, 1], 1)
    for dtype in (tocha.int64, tocha.int32, tocha.int16):
        y = tocha.conv2d(tocha.tensor(x, dtype=dtype), tocha.tensor(w, dtype=dtype), padding=1)
        assert y.dtype == dtype
        assert np.array_equal(y.numpy(), expected.astype(str(dtype).split(".")[1]))


def test_complex():
    x = numbers(2, 3, 6, 5) + 1j * numbers(2, 3, 6, 5, seed=1)
    w = numbers(4, 3, 3, 2, seed=2) + 1j * numbers(4, 3, 3, 2, seed=3)
    b = numbers(4, seed=4) + 1j * numbers(4, seed=5)
    expected = reference(x, w, [1, 1], [1, 1], [1, 1], 1) + b[:, None, None]
    y = tocha.conv2d(tocha.tensor(x), tocha.tensor(w), tocha.tensor(b), padding=1)
    np.testing.assert_allclose(y.numpy(), expected, atol=1e-12)


def test_strided_gradients_in_other_layouts():
    x = tocha.tensor(numbers(2, 34, 19, 16), dtype=tocha.float32)
    w = tocha.tensor(numbers(37, 34, 3, 3, seed=1), dtype=tocha.float32)
    y = tocha.conv2d(x, w, None, 2, 1)
    g = tocha.tensor(numbers(*y.shape, seed=2), dtype=tocha.float32)
    settings = (None, [2, 2], [1, 1], [1, 1], False, [0, 0], 1, [True, True, False])
    expected = [t.numpy().astype(float) for t in tocha.convolution_backward(g, x, w, *settings)[:2]]
    last = {"memory_format": tocha.channels_last}
    wide = tocha.nn.functional.pad(g, (1, 2))[..., 1:-2]
    for one, other in ((g.contiguous(**last), x.contiguous(**last)), (wide, x), (g.bfloat16(), x.bfloat16())):
        tolerance = 2e-2 if one.dtype == tocha.bfloat16 else 3e-6
        for ours, theirs in zip(tocha.convolution_backward(one, other, w.to(one.dtype), *settings)[:2], expected):
            close(ours.float(), theirs, tolerance)


@pytest.mark.parametrize("kernel", [(3, 3), (1, 1)])
@pytest.mark.parametrize("channels, size", [(5, (16, 14)), (40, (16, 14)), (40, (3, 2))])
def test_channels_last(kernel, channels, size):
    x = tocha.tensor(numbers(2, channels, *size), dtype=tocha.float32)
    w = tocha.tensor(numbers(36, channels, *kernel, seed=1), dtype=tocha.float32)
    last = x.contiguous(memory_format=tocha.channels_last)
    plain, y = tocha.conv2d(x, w, padding=1), tocha.conv2d(last, w, padding=1)
    assert plain.is_contiguous() and y.is_contiguous(memory_format=tocha.channels_last)
    close(y, plain.numpy().astype(float), 3e-6)
    g = tocha.tensor(numbers(*y.shape, seed=2), dtype=tocha.float32)
    settings = (None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [True, True, False])
    for ours, theirs in zip(
        tocha.convolution_backward(g.contiguous(memory_format=tocha.channels_last), last, w, *settings)[:2],
        tocha.convolution_backward(g, x, w, *settings)[:2],
    ):
        close(ours, theirs.numpy().astype(float), 3e-6)


def test_strided_and_expanded_inputs():
    x = tocha.tensor(numbers(10, 9, 4, 2)).permute(3, 2, 1, 0)
    w = tocha.tensor(numbers(5, 1, 3, 3, seed=1)).expand(5, 4, 3, 3)
    y = tocha.conv2d(x, w, padding=1)
    assert tocha.equal(y, tocha.conv2d(x.contiguous(), w.contiguous(), padding=1))


def test_same_padding_keeps_the_size():
    x = numbers(2, 3, 8, 7)
    for kernel, dilation in (((3, 5), (1, 2)), ((4, 2), (1, 1)), ((2, 3), (3, 1))):
        w = numbers(4, 3, *kernel, seed=1)
        total = [d * (k - 1) for d, k in zip(dilation, kernel)]
        wide = np.pad(x, [(0, 0), (0, 0)] + [(t // 2, t - t // 2) for t in total])
        y = tocha.conv2d(tocha.tensor(x), tocha.tensor(w), padding="same", dilation=dilation)
        assert y.shape[2:] == (8, 7)
        np.testing.assert_allclose(y.numpy(), reference(wide, w, [1, 1], [0, 0], dilation, 1), atol=1e-12)


def test_unbatched_empty_and_tbc():
    x, w = tocha.tensor(numbers(3, 6, 5)), tocha.tensor(numbers(4, 3, 3, 3, seed=1))
    assert tocha.equal(F.conv2d(x, w), F.conv2d(x[None], w)[0])
    assert F.conv2d(x[None][:0], w).shape == (0, 4, 4, 3)
    empty = tocha.zeros(0, 3, 6, 5, dtype=tocha.float64, requires_grad=True)
    weight = w.clone().requires_grad_()
    F.conv2d(empty, weight).sum().backward()
    assert empty.grad.shape == empty.shape and not weight.grad.any()
    t, k, b = numbers(7, 2, 3), numbers(3, 3, 4, seed=1), numbers(4, seed=2)
    y = tocha.conv_tbc(tocha.tensor(t), tocha.tensor(k), tocha.tensor(b), 1)
    expected = reference(t.transpose(1, 2, 0), k.transpose(2, 1, 0), [1], [1], [1], 1) + b[:, None]
    np.testing.assert_allclose(y.numpy(), expected.transpose(2, 0, 1), atol=1e-12)


def test_same_threads_same_bits():
    x, w = tocha.randn(4, 64, 24, 24), tocha.randn(64, 64, 3, 3)
    first, second = (
        tocha.convolution_backward(x, x, w, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [True, True, False])
        for _ in range(2)
    )
    assert all(tocha.equal(a, b) for a, b in zip(first, second))
    assert tocha.equal(tocha.conv2d(x, w), tocha.conv2d(x, w))


ERRORS = [
    (RuntimeError, lambda x, w: tocha.conv2d(x, w, stride=0), r"\[conv2d\] non-positive stride"),
    (RuntimeError, lambda x, w: tocha.conv2d(x, w, padding=-1), r"negative padding"),
    (RuntimeError, lambda x, w: tocha.conv2d(x, w, dilation=0), r"dilation should be greater than zero"),
    (RuntimeError, lambda x, w: tocha.conv2d(x, w, groups=0), r"non-positive groups"),
    (RuntimeError, lambda x, w: tocha.conv2d(x, w, groups=2), r"expected input\[2, 3, 5, 5\] to have 6 channels"),
    (RuntimeError, lambda x, w: tocha.conv2d(x, w, stride=(1, 2, 3)), r"stride to be a single integer value or"),
    (RuntimeError, lambda x, w: tocha.conv2d(x, w, tocha.zeros(3)), r"bias to be 1-dimensional with 4 elements"),
    (RuntimeError, lambda x, w: tocha.conv2d(x[0, 0], w), r"Expected 3D \(unbatched\) or 4D"),
    (RuntimeError, lambda x, w: tocha.conv2d(x, w.double()), r"should be the same.*Float but found Double"),
    (RuntimeError, lambda x, w: tocha.conv2d(x[..., :2], w), r"padded input size per channel: \(5 x 2\)"),
    (RuntimeError, lambda x, w: tocha.conv2d(x, w, padding="some"), r"Invalid padding string: 'some'"),
    (RuntimeError, lambda x, w: tocha.conv2d(x, w, padding="same", stride=2), r"not supported for strided"),
    (RuntimeError, lambda x, w: tocha.conv_transpose2d(x, w[:3], output_padding=1), r"output padding must be smaller"),
    (NotImplementedError, lambda x, w: tocha.conv2d(x > 0, w > 0), r"not implemented for"),
]


@pytest.mark.parametrize("kind, call, message", ERRORS)
def test_errors(kind, call, message):
    with pytest.raises(kind, match=message):
        call(tocha.zeros(2, 3, 5, 5), tocha.zeros(4, 3, 3, 3))


@pytest.mark.parametrize("shape", [(1, 3, 12, 13), (2, 5, 9, 8)])
@pytest.mark.parametrize("kernel", [(3, 3, 3), (2, 3, 3), (1, 3, 3)])
def test_planes_of_3x3_kernels_with_many_channels(shape, kernel):
    rng = np.random.default_rng(3)
    batch, *size = shape
    x = rng.standard_normal((batch, 32, *size)).astype(np.float32)
    w = (rng.standard_normal((40, 32, *kernel)) / 20).astype(np.float32)
    tx, tw = tocha.tensor(x, requires_grad=True), tocha.tensor(w, requires_grad=True)
    y = tocha.conv3d(tx, tw, padding=1)
    want = reference(x.astype(np.float64), w.astype(np.float64), (1, 1, 1), (1, 1, 1), (1, 1, 1), 1)
    np.testing.assert_allclose(y.detach().numpy(), want, atol=2e-5)
    g = rng.standard_normal(want.shape).astype(np.float32)
    y.backward(tocha.from_numpy(g))
    dx, dw = (
        tocha.tensor(x, dtype=tocha.float64, requires_grad=True),
        tocha.tensor(w, dtype=tocha.float64, requires_grad=True),
    )
    tocha.conv3d(dx, dw, padding=1).backward(tocha.from_numpy(g).double())
    np.testing.assert_allclose(tx.grad.numpy(), dx.grad.numpy(), atol=2e-5)
    np.testing.assert_allclose(tw.grad.numpy(), dw.grad.numpy(), atol=1e-3)


@pytest.mark.parametrize("dtype", [tocha.bool, tocha.uint8, tocha.int64, tocha.complex64])
@pytest.mark.parametrize("asked", [0, 1])
def test_gradients_are_of_floating_tensors(dtype, asked):
    grad, x, w = (tocha.ones(*sizes).to(dtype) for sizes in ((1, 3, 4), (1, 2, 6), (3, 2, 3)))
    mask = [i == asked for i in range(3)]
    with pytest.raises(NotImplementedError, match="not implemented for"):
        tocha.ops.aten.convolution_backward(grad, x, w, [3], [1], [0], [1], False, [0], 1, mask)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize(
    ("size", "weight", "settings"),
    [
        ((2, 32, 6, 14, 15), (64, 32, 3, 3, 3), {"stride": 2, "padding": 1}),
        ((1, 16, 5, 9, 30), (25, 16, 2, 3, 4), {"stride": (1, 2, 3), "padding": (0, 2, 3)}),
        ((2, 32, 4, 10, 21), (64, 16, 3, 3, 3), {"stride": 2, "padding": 2, "dilation": 2, "groups": 2}),
        ((1, 20, 3, 1, 13), (32, 20, 1, 1, 5), {"stride": (1, 1, 2), "padding": (2, 1, 4)}),
    ],
)
@pytest.mark.parametrize("bias", [False, True])
def test_volumes_with_strides(size, weight, settings, dtype, bias):
    """Line by line: taps side by side and apart, borders on every side, rows that do not fill a panel, any layout."""
    rng = np.random.default_rng(0)
    x, w, b = (rng.integers(-3, 4, s).astype("float64") for s in (size, weight, weight[:1]))
    full = {"stride": 1, "padding": 0, "dilation": 1, "groups": 1} | settings
    triples = [full[k] if isinstance(full[k], tuple) else (full[k],) * 3 for k in ("stride", "padding", "dilation")]
    want = reference(x, w, *triples, full["groups"]) + (b[:, None, None, None] if bias else 0)
    tx, tw, tb = (tocha.from_numpy(a).to(getattr(tocha, dtype)) for a in (x, w, b))
    want = tocha.from_numpy(want).to(tx.dtype)  # whole numbers: exact until they are stored
    before = tocha.get_num_threads()
    try:
        for threads in (1, 3):
            tocha.set_num_threads(threads)
            for given in (tx, tx.to(memory_format=tocha.channels_last_3d), tx.repeat(1, 1, 1, 1, 2)[..., : size[-1]]):
                assert tocha.conv3d(given, tw, tb if bias else None, **settings).equal(want)
    finally:
        tocha.set_num_threads(before)
