"""Pooling against windows written out in NumPy: paddings, dilation, ceil_mode, layouts, NaN, dtypes, gradients."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tocha
from tocha.autograd import gradcheck, gradgradcheck

F = tocha.nn.functional


def windows(size: int, out: int, kernel: int, stride: int, padding: int, dilation: int = 1) -> list[list[int]]:
    """The places inside that each window sees."""
    seen = []
    for i in range(out):
        places = [i * stride - padding + k * dilation for k in range(kernel)]
        seen.append([p for p in places if 0 <= p < size])
    return seen


def adaptive(size: int, out: int) -> list[list[int]]:
    return [list(range(i * size // out, -((i + 1) * size // -out))) for i in range(out)]


def pooled(x: np.ndarray, seen: list[list[list[int]]], f) -> np.ndarray:
    """f of every window of the last dims; f gets the values and their places in the flat plane."""
    dims = len(seen)
    lead, spatial = x.shape[:-dims], x.shape[-dims:]
    place = np.arange(np.prod(spatial)).reshape(spatial)
    out = np.zeros((*lead, *(len(s) for s in seen)))
    for index in itertools.product(*(range(len(s)) for s in seen)):
        grid = np.ix_(*(s[i] for s, i in zip(seen, index, strict=True)))
        for n in np.ndindex(*lead):
            out[(*n, *index)] = f(x[n][grid].ravel(), place[grid].ravel())
    return out


def largest(values: np.ndarray, places: np.ndarray) -> float:
    return values.max()


def largest_place(values: np.ndarray, places: np.ndarray) -> int:
    return places[values.argmax()]


def distinct(*shape: int, seed: int = 0) -> np.ndarray:
    """No two elements are alike, so that maxima are unique."""
    n = int(np.prod(shape))
    return np.random.default_rng(seed).permutation(n).reshape(shape).astype(np.float64) / n


def output_size(size: int, kernel: int, stride: int, padding: int, dilation: int, ceil: bool) -> int:
    out = (size + 2 * padding - dilation * (kernel - 1) - 1 + (stride - 1 if ceil else 0)) // stride + 1
    return out - 1 if ceil and (out - 1) * stride >= size + padding else out


CASES = [(3, 2, 1, 1, False), (3, 2, 1, 1, True), (2, 1, 0, 2, False), (3, 3, 1, 2, True), (2, 3, 0, 1, True)]


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("kernel,stride,padding,dilation,ceil", CASES)
def test_max_pool(dims, kernel, stride, padding, dilation, ceil):
    spatial = (9, 8, 7)[:dims]
    x = distinct(2, 3, *spatial)
    sizes = [output_size(n, kernel, stride, padding, dilation, ceil) for n in spatial]
    seen = [windows(n, o, kernel, stride, padding, dilation) for n, o in zip(spatial, sizes, strict=True)]
    pool = getattr(F, f"max_pool{dims}d")
    for dtype in (tocha.float32, tocha.float64):
        y, where = pool(tocha.tensor(x, dtype=dtype), kernel, stride, padding, dilation, ceil, return_indices=True)
        np.testing.assert_allclose(y.numpy(), pooled(x, seen, largest), rtol=1e-6)
        np.testing.assert_array_equal(where.numpy(), pooled(x, seen, largest_place))
    single = pool(tocha.tensor(x[0]), kernel, stride, padding, dilation, ceil)
    np.testing.assert_array_equal(single.numpy(), pooled(x[0], seen, largest))


def test_max_pool_takes_the_first_of_equals_and_keeps_nan():
    x = tocha.zeros(1, 4, 4)
    _, where = F.max_pool2d(x, 3, stride=1, return_indices=True)
    assert where.tolist() == [[[0, 1], [4, 5]]]
    x[0, 1, 1] = float("nan")
    x[0, 2, 2] = float("nan")
    y, where = F.max_pool2d(x, 3, stride=1, return_indices=True)
    assert y.isnan().all()
    assert where.tolist() == [[[10, 10], [10, 10]]]
    lowest = tocha.full((1, 2, 2), -float("inf"))
    y, where = F.max_pool2d(lowest, 2, padding=1, return_indices=True)
    assert where.flatten().tolist() == [0, 1, 2, 3]
    assert (y == -float("inf")).all()


@pytest.mark.parametrize("dtype", [tocha.float32, tocha.float64, tocha.bfloat16, tocha.float16])
@pytest.mark.parametrize("size", [1, 6, 33, 200])
def test_maxima_of_signals_are_the_same_with_and_without_their_places(size, dtype):
    rng = np.random.default_rng(size)
    x = tocha.tensor(rng.integers(-3, 3, (2, 3, size)) * rng.choice([1.0, -1.0], (2, 3, size)), dtype=dtype)
    x[0, 1] = tocha.where(tocha.tensor(rng.random(size)) < 0.1, float("nan"), x[0, 1])
    x[1, 2] = -float("inf")
    turned = x.transpose(0, 2).contiguous().transpose(0, 2)
    for kernel, stride, padding, dilation, ceil in [
        *CASES,
        (2, 2, 1, 1, False),
        (5, 1, 2, 1, False),
        (1, 3, 0, 1, True),
    ]:
        if output_size(size, kernel, stride, padding, dilation, ceil) < 1:
            continue
        call = (kernel, stride, padding, dilation, ceil)
        wanted, _ = F.max_pool1d(x, *call, return_indices=True)
        for given in (x, turned, x[0], x.requires_grad_()):
            got = F.max_pool1d(given, *call).detach()
            expected = wanted.detach()[0] if given.ndim == 2 else wanted.detach()
            assert tocha.equal(got.isnan(), expected.isnan()) and tocha.equal(got.nan_to_num(), expected.nan_to_num())
            assert tocha.equal(got.signbit(), expected.signbit())  # of equal zeros the first
        x.requires_grad_(False)


@pytest.mark.parametrize("dtype", [tocha.uint8, tocha.int8, tocha.int32, tocha.int64])
def test_max_pool_of_integers(dtype):
    x = tocha.tensor(np.random.default_rng(0).integers(0, 100, (1, 2, 6, 6)), dtype=dtype)
    y = F.max_pool2d(x, 2)
    assert y.dtype == dtype
    expected = x.numpy().reshape(1, 2, 3, 2, 3, 2).max((3, 5))
    np.testing.assert_array_equal(y.numpy(), expected)


def average(count_pad: bool, kernel: int, stride: int, padding: int, size: int, out: int) -> np.ndarray:
    begin = np.arange(out) * stride - padding
    if count_pad:
        return np.minimum(begin + kernel, size + padding) - begin
    return np.minimum(begin + kernel, size) - np.maximum(begin, 0)


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("count_pad", [True, False])
@pytest.mark.parametrize(
    "kernel,stride,padding,ceil", [(3, 2, 1, False), (3, 2, 1, True), (2, 2, 0, False), (3, 1, 1, False)]
)
def test_avg_pool(dims, count_pad, kernel, stride, padding, ceil):
    spatial = (9, 8, 7)[:dims]
    x = distinct(2, 3, *spatial)
    sizes = [output_size(n, kernel, stride, padding, 1, ceil) for n in spatial]
    seen = [windows(n, o, kernel, stride, padding) for n, o in zip(spatial, sizes, strict=True)]
    divisor = np.ones(())
    for n, o in zip(spatial, sizes, strict=True):
        divisor = np.multiply.outer(divisor, average(count_pad, kernel, stride, padding, n, o))
    expected = pooled(x, seen, lambda v, p: v.sum()) / divisor
    y = getattr(F, f"avg_pool{dims}d")(tocha.tensor(x), kernel, stride, padding, ceil, count_pad)
    np.testing.assert_allclose(y.numpy(), expected)


def test_avg_pool_divisor_override_and_integers():
    x = tocha.arange(16).reshape(1, 4, 4)
    assert F.avg_pool2d(x.double(), 2, divisor_override=3).flatten().tolist() == [10 / 3, 18 / 3, 42 / 3, 50 / 3]
    assert F.avg_pool2d(x, 2).tolist() == [[[2, 4], [10, 12]]]
    with pytest.raises(RuntimeError, match="divisor"):
        F.avg_pool2d(x.double(), 2, divisor_override=0)


@pytest.mark.parametrize("dims,sizes", [(1, (4,)), (2, (4, 5)), (2, (1, 1)), (3, (2, 3, 4)), (2, (10, 9))])
def test_adaptive_pools(dims, sizes):
    spatial = (7, 8, 9)[:dims]
    x = distinct(2, 3, *spatial)
    seen = [adaptive(n, o) for n, o in zip(spatial, sizes, strict=True)]
    t = tocha.tensor(x)
    mean = getattr(F, f"adaptive_avg_pool{dims}d")(t, sizes)
    np.testing.assert_allclose(mean.numpy(), pooled(x, seen, lambda v, p: v.mean()))
    y, where = getattr(F, f"adaptive_max_pool{dims}d")(t, sizes, return_indices=True)
    np.testing.assert_array_equal(y.numpy(), pooled(x, seen, largest))
    np.testing.assert_array_equal(where.numpy(), pooled(x, seen, largest_place))


def test_adaptive_sizes_of_none_keep_the_dim():
    x = tocha.rand(2, 3, 5, 7)
    assert F.adaptive_avg_pool2d(x, (None, 2)).shape == (2, 3, 5, 2)
    assert F.adaptive_max_pool2d(x, (2, None)).shape == (2, 3, 2, 7)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: F.max_pool2d(x, 3, 2, 1),
        lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True)[1],
        lambda x: F.avg_pool2d(x, 3, 2, 1),
        lambda x: F.adaptive_avg_pool2d(x, (2, 3)),
        lambda x: F.adaptive_max_pool2d(x, (2, 3)),
    ],
)
def test_channels_last_stays_so_and_agrees(f):
    x = tocha.tensor(distinct(2, 5, 7, 8))
    last = x.contiguous(memory_format=tocha.channels_last)
    y = f(last)
    assert y.is_contiguous(memory_format=tocha.channels_last)
    np.testing.assert_allclose(y.numpy(), f(x).numpy(), rtol=1e-12)
    if y.is_floating_point():
        g = tocha.rand(*y.shape, dtype=tocha.float64)
        grads = []
        for t in (x, last):
            leaf = t.detach().requires_grad_()
            f(leaf).backward(g)
            grads.append(leaf.grad.numpy())
        np.testing.assert_allclose(grads[1], grads[0], rtol=1e-12)


@pytest.mark.parametrize("dtype,tolerance", [(tocha.bfloat16, 1e-2), (tocha.float16, 1e-3)])
def test_half_types(dtype, tolerance):
    x = distinct(2, 3, 8, 8)
    t = tocha.tensor(x, dtype=dtype)
    for f in (lambda t: F.max_pool2d(t, 3, 2, 1), lambda t: F.avg_pool2d(t, 2), lambda t: F.adaptive_avg_pool2d(t, 3)):
        y = f(t)
        assert y.dtype == dtype
        np.testing.assert_allclose(y.double().numpy(), f(tocha.tensor(x)).numpy(), atol=tolerance)


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_unpooling_puts_maxima_back(dims):
    x = distinct(2, 2, *(6,) * dims)
    y, where = getattr(F, f"max_pool{dims}d")(tocha.tensor(x), 2, return_indices=True)
    back = getattr(F, f"max_unpool{dims}d")(y, where, 2).numpy().reshape(2, 2, -1)
    flat, places = x.reshape(2, 2, -1), where.numpy().reshape(2, 2, -1)
    expected = np.zeros_like(flat)
    np.put_along_axis(expected, places, np.take_along_axis(flat, places, -1), -1)
    np.testing.assert_array_equal(back, expected)


def test_unpooling_refuses_places_outside():
    with pytest.raises(RuntimeError, match="invalid max index: 99"):
        F.max_unpool2d(tocha.ones(1, 1, 1, 1), tocha.tensor([[[[99]]]]), 2)
    with pytest.raises(ValueError, match="output_size"):
        F.max_unpool1d(tocha.ones(1, 1, 2), tocha.tensor([[[0, 1]]]), 2, output_size=(9,))


def test_fractional_windows_follow_the_samples():
    x = tocha.tensor(distinct(1, 1, 6, 6))
    samples = tocha.tensor([[[0.25, 0.75]]], dtype=tocha.float64)  # for the width, then for the height
    y, where = F.fractional_max_pool2d(x, 2, output_size=3, _random_samples=samples, return_indices=True)
    starts = [[int((i + u) * 2) - int(u * 2) for i in range(2)] + [4] for u in (0.75, 0.25)]
    seen = [[[s, s + 1] for s in along] for along in starts]
    np.testing.assert_array_equal(y.numpy(), pooled(x.numpy(), seen, largest))
    np.testing.assert_array_equal(where.numpy(), pooled(x.numpy(), seen, largest_place))
    tocha.manual_seed(3)
    drawn = F.fractional_max_pool2d(x, 2, output_ratio=0.5)
    tocha.manual_seed(3)
    again = F.fractional_max_pool2d(x, 2, output_size=3, _random_samples=tocha.rand(1, 1, 2, dtype=tocha.float64))
    assert tocha.equal(drawn, again)


@pytest.mark.parametrize("compiled", [False, True])
def test_lp_pool_of_an_infinite_norm_is_an_extreme(compiled):
    x = tocha.tensor([[[1.0, -3.0, 2.0, 4.0, -5.0]]])

    def pools(x):
        return [
            *(F.lp_pool1d(x, p, 2, 1) for p in (np.inf, -np.inf)),
            *(F.lp_pool2d(x.unsqueeze(0), p, (1, 3), ceil_mode=True) for p in (np.inf, -np.inf)),
            *(F.lp_pool3d(x[None, None], p, (1, 1, 2)) for p in (np.inf, -np.inf)),
        ]

    found = [y.flatten().tolist() for y in (tocha.compile(pools, fullgraph=True) if compiled else pools)(x)]
    assert found == [[3, 3, 4, 5], [1, 2, 2, 4], [3, 5], [1, 4], [3, 4], [1, 2]]


def test_lp_pool_is_the_norm_of_windows():
    x = distinct(1, 2, 6, 6)
    y = F.lp_pool2d(tocha.tensor(x), 3, 2)
    expected = (x.reshape(1, 2, 3, 2, 3, 2) ** 3).sum((3, 5)) ** (1 / 3)
    np.testing.assert_allclose(y.numpy(), expected)


@pytest.mark.parametrize(
    "f,shape",
    [
        (lambda x: F.max_pool1d(x, 3, 2, 1), (2, 2, 7)),
        (lambda x: F.max_pool2d(x, 3, 2, 1), (2, 2, 5, 6)),
        (lambda x: F.max_pool3d(x, 2), (1, 2, 4, 4, 4)),
        (lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), (2, 2, 5, 6)),
        (lambda x: F.avg_pool3d(x, 2, ceil_mode=True), (1, 2, 3, 5, 4)),
        (lambda x: F.adaptive_avg_pool2d(x, (2, 4)), (2, 2, 5, 6)),
        (lambda x: F.adaptive_avg_pool2d(x, 1), (2, 2, 5, 6)),
        (lambda x: F.adaptive_max_pool3d(x, 2), (1, 2, 3, 4, 5)),
        (lambda x: F.lp_pool2d(x, 2, 2), (1, 2, 4, 4)),
    ],
)
def test_gradients(f, shape):
    x = (tocha.tensor(distinct(*shape)) + 0.5).requires_grad_()
    assert gradcheck(f, (x,))
    assert gradgradcheck(f, (x,))


@pytest.mark.parametrize(
    "call",
    [
        lambda: F.max_pool2d(tocha.rand(2, 2), 2),
        lambda: F.max_pool2d(tocha.rand(1, 1, 4, 4), 2, padding=2),
        lambda: F.max_pool2d(tocha.rand(1, 1, 4, 4), 5),
        lambda: F.max_pool2d(tocha.rand(1, 1, 4, 4), 2, stride=0),
        lambda: F.max_pool2d(tocha.rand(1, 1, 4, 4), (2, 2, 2)),
        lambda: F.avg_pool2d(tocha.rand(1, 0, 4, 4), 2),
        lambda: F.adaptive_avg_pool2d(tocha.rand(1, 1, 4, 4), -1),
    ],
)
def test_bad_arguments(call):
    with pytest.raises(RuntimeError):
        call()


def test_dtypes_that_are_refused():
    for x in (tocha.ones(1, 2, 2, dtype=tocha.bool), tocha.ones(1, 2, 2, dtype=tocha.complex64)):
        with pytest.raises(NotImplementedError):
            F.max_pool2d(x, 2)
    with pytest.raises(NotImplementedError):
        F.adaptive_avg_pool2d(tocha.ones(1, 2, 2, dtype=tocha.int64), 1)


def test_node_names():
    x = tocha.rand(1, 2, 4, 4, requires_grad=True)
    assert F.max_pool2d(x, 2).grad_fn.name() == "MaxPool2DWithIndicesBackward0"
    assert F.avg_pool2d(x, 2).grad_fn.name() == "AvgPool2DBackward0"
    assert F.adaptive_avg_pool2d(x, 2).grad_fn.name() == "AdaptiveAvgPool2DBackward0"


@pytest.mark.parametrize("backend", [None, "aot_eager", "inductor"])
def test_averages_of_volumes_do_not_keep_channels_last(backend):
    F = tocha.nn.functional

    def f(x):
        return (
            F.avg_pool3d(x, 2), F.adaptive_avg_pool3d(x, 2), F.adaptive_max_pool3d(x, 2), F.lp_pool3d(x, 2.0, 2), F.max_pool3d(x, 2)
        )  # fmt: skip

    x = tocha.randn(2, 3, 4, 4, 4)
    last = x.to(memory_format=tocha.channels_last_3d).requires_grad_()
    found = (tocha.compile(f, backend=backend) if backend else f)(last)
    for mine, wanted in zip(found, f(x), strict=True):
        tocha.testing.assert_close(mine, wanted)
    assert all(y.is_contiguous() for y in found[:4])
    assert found[4].is_contiguous(memory_format=tocha.channels_last_3d)
    if backend is None:  # compiled, they come as one sum with that of max_pool3d
        assert all(tocha.autograd.grad(y.sum(), last)[0].is_contiguous() for y in found[:4])


def test_gradients_of_maxima_refuse_what_no_pooling_handed_out():
    x, backward = tocha.rand(1, 2, 4, 4), tocha.ops.aten.max_pool2d_with_indices_backward
    out, places = tocha.ops.aten.max_pool2d_with_indices(x, [2, 2])
    window = ([2, 2], [2, 2], [0, 0], [1, 1], False)
    with pytest.raises(RuntimeError, match="non-empty 3D or 4D"):
        backward(out[0, 0], x[0, 0], *window, places[0, 0])
    with pytest.raises(RuntimeError, match="expected scalar type Long but found Float"):
        backward(out, x, *window, places.float())
    with pytest.raises(RuntimeError, match="expected dtype float for `gradOutput` but got dtype double"):
        backward(out.double(), x, *window, places)
