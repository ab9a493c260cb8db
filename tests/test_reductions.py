"""Reductions, scans, softmax and normalisations: what is special about them, held against NumPy."""

import numpy as np
import pytest

import tocha

RNG = np.random.default_rng(0)


def t(a):
    return tocha.from_numpy(np.ascontiguousarray(a))


def layouts(a):
    """The same values in several memory layouts."""
    yield t(a)
    order = tuple(reversed(range(a.ndim)))
    yield t(a.transpose(order)).permute(order)
    wide = np.zeros((*a.shape[:-1], a.shape[-1] * 2), a.dtype)
    wide[..., ::2] = a
    yield t(wide)[..., ::2]


@pytest.mark.parametrize(
    "shape", [(1,), (3,), (17,), (1000,), (100000,), (7, 300), (300, 7), (5, 6, 7), (2, 1, 513, 3)]
)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int16", "complex64"])
def test_sum_over_any_dims_and_layouts(shape, dtype):
    a = (RNG.standard_normal(shape) * 10).astype(dtype)
    for x in layouts(a):
        dims = [None, *range(a.ndim), *((0, d) for d in range(1, a.ndim))]
        for d in dims:
            expected = a.sum(
                axis=d, dtype="complex128" if dtype == "complex64" else None if dtype != "int16" else "int64"
            )
            got = x.sum(d).numpy()
            np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-2)


@pytest.mark.parametrize("shape", [(10_000_000,), (1_000_000, 8), (8, 1_000_000)])
def test_long_sums_stay_accurate(shape):
    a = RNG.random(shape, dtype=np.float32)
    for d in range(a.ndim):
        exact = a.sum(axis=d, dtype=np.float64)
        error = np.abs(t(a).sum(d).numpy() / exact - 1).max()
        assert error < 1e-6
        assert np.abs(t(a).mean(d).numpy() * a.shape[d] / exact - 1).max() < 1e-6


@pytest.mark.parametrize("n", [1, 2, 15, 16, 130, 5000])
def test_extremes_report_the_first_index_and_nan_wins(n):
    a = RNG.integers(0, 3, (4, n)).astype(np.float32)
    for x in layouts(a):
        for name in ("max", "min"):
            values, indices = getattr(x, name)(1)
            np.testing.assert_array_equal(values.numpy(), getattr(a, name)(1))
            np.testing.assert_array_equal(indices.numpy(), getattr(a, "arg" + name)(1))
            np.testing.assert_array_equal(getattr(x, "arg" + name)().numpy(), getattr(a, "arg" + name)())
    a[2, n // 2] = np.nan
    a[2, -1] = np.nan
    values, indices = t(a).max(1)
    assert np.isnan(values.numpy()[2]) and indices.numpy()[2] == n // 2


def test_extremes_of_infinities_have_an_index():
    x = tocha.full((3, 200), -tocha.inf)
    assert x.argmax(1).tolist() == [0, 0, 0]
    assert x.max(0).indices.tolist() == [0] * 200


def test_empty_reductions():
    x = tocha.empty(0, 3)
    assert x.sum(0).tolist() == [0, 0, 0] and x.prod(0).tolist() == [1, 1, 1]
    assert x.sum().item() == 0 and tocha.isnan(x.mean()).item()
    assert x.any().item() is False and x.all().item() is True
    assert x.max(1).values.shape == (0,)
    with pytest.raises(IndexError):
        x.max(0)
    with pytest.raises(RuntimeError):
        x.amax()


def test_bytes_stay_bytes_in_any_and_all():
    x = tocha.tensor([[0, 2], [1, 1]], dtype=tocha.uint8)
    assert x.any(1).dtype is tocha.uint8 and x.all(1).tolist() == [0, 1]
    assert x.any(()).shape == (2, 2)


@pytest.mark.parametrize("shape", [(1,), (5,), (7, 300), (300, 7), (2, 3, 4)])
def test_variance_with_a_large_mean(shape):
    a = (RNG.standard_normal(shape) + 1000).astype(np.float32)
    for x in layouts(a):
        for d in range(a.ndim):
            if a.shape[d] > 1:
                np.testing.assert_allclose(x.var(d).numpy(), a.astype(np.float64).var(axis=d, ddof=1), rtol=1e-5)
        np.testing.assert_allclose(x.std(correction=0).numpy(), a.astype(np.float64).std(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize(
    "shape,dim", [((4, 1000), 1), ((1000, 4), 0), ((3, 5, 7), 1), ((2, 3, 300), 1), ((5,), 0), ((), 0)]
)
def test_softmax_over_any_dim(dtype, shape, dim):
    a = RNG.standard_normal(shape).astype(np.float32) * 3
    x = t(a).to(getattr(tocha, dtype))
    a = x.double().numpy()
    e = np.exp(a - a.max(axis=dim if shape else None, keepdims=True))
    expected = e / e.sum(axis=dim if shape else None, keepdims=True)
    tolerance = {"float32": 1e-6, "float64": 1e-12, "float16": 1e-3, "bfloat16": 1e-2}[dtype]
    np.testing.assert_allclose(x.softmax(dim).double().numpy(), expected, rtol=tolerance, atol=tolerance / 10)
    np.testing.assert_allclose(
        x.log_softmax(dim).double().numpy(), np.log(expected), rtol=tolerance, atol=tolerance * 4
    )


def test_softmax_of_large_numbers_and_infinities():
    assert tocha.tensor([1e30, 1e30]).softmax(0).tolist() == [0.5, 0.5]
    assert tocha.tensor([-tocha.inf, 0.0]).softmax(0).tolist() == [0, 1]
    assert tocha.isnan(tocha.tensor([-tocha.inf, -tocha.inf]).softmax(0)).all()


@pytest.mark.parametrize("n", [1, 7, 64, 1000])
def test_layer_norm(n):
    a = (RNG.standard_normal((5, n)) + 100).astype(np.float32)
    w, b = RNG.standard_normal((2, n)).astype(np.float32)
    d = a.astype(np.float64)
    expected = (d - d.mean(1, keepdims=True)) / np.sqrt(d.var(1, keepdims=True) + 1e-5) * w + b
    np.testing.assert_allclose(tocha.layer_norm(t(a), [n], t(w), t(b)).numpy(), expected, rtol=1e-3, atol=1e-3)


def test_logsumexp_of_extremes():
    inf = tocha.inf
    x = tocha.tensor([[-inf, -inf], [inf, 1.0], [1000.0, 1000.0], [-1000.0, -1000.0]])
    np.testing.assert_allclose(x.logsumexp(1).numpy(), [-inf, inf, 1000 + np.log(2), -1000 + np.log(2)], rtol=1e-6)


def test_histograms_against_numpy():
    a = RNG.standard_normal(1000)
    hist, edges = tocha.histogram(t(a), 13)
    expected, expected_edges = np.histogram(a, 13)
    np.testing.assert_array_equal(hist.numpy(), expected)
    np.testing.assert_allclose(edges.numpy(), expected_edges)
    points = RNG.standard_normal((500, 2))
    np.testing.assert_array_equal(tocha.histogramdd(t(points), [4, 5]).hist.numpy(), np.histogramdd(points, [4, 5])[0])


def test_quantiles_against_numpy():
    a = RNG.standard_normal((6, 11))
    q = np.array([0.0, 0.3, 0.77, 1.0])
    for mode in ("linear", "lower", "higher", "midpoint", "nearest"):
        np.testing.assert_allclose(
            tocha.quantile(t(a), t(q), 1, interpolation=mode).numpy(), np.quantile(a, q, 1, method=mode)
        )


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("n", [15, 16, 17, 63, 64, 79, 200, 255, 321])
def test_rows_of_every_length_take_every_element_once(n, threads):
    a = RNG.standard_normal((203, n)).astype(np.float32)
    before = tocha.get_num_threads()
    tocha.set_num_threads(threads)
    try:
        np.testing.assert_allclose(t(a).sum(1).numpy(), a.astype(np.float64).sum(1), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(t(a).norm(dim=1).numpy(), np.linalg.norm(a.astype(np.float64), axis=1), rtol=1e-6)
        for name in ("amax", "amin"):
            assert getattr(t(a), name)(1).tolist() == getattr(a, name[1:])(1).tolist()
        ones = np.ones_like(a)
        ones[:, n // 2], ones[:, -1] = 2, -3
        assert t(ones).prod(1).tolist() == [-6.0] * 203
    finally:
        tocha.set_num_threads(before)


@pytest.mark.parametrize("place", [0, 15, 16, 63, 64, 199])
def test_the_extremes_of_rows_know_nan_and_the_first_of_equal_zeros(place):
    a = np.zeros((3, 200), np.float32)
    a[1, place] = np.nan
    high, low = t(a).amax(1).tolist(), t(a).amin(1).tolist()
    assert high[0] == low[2] == 0 and np.isnan(high[1]) and np.isnan(low[1])


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.int32])
def test_extremes_and_sums_of_runs_of_any_length(dtype):
    for n in (*range(1, 70), 127, 128, 129, 1000, 4097):
        a = RNG.integers(-1000, 1000, n).astype(dtype)
        for b in (a, np.full_like(a, -5), np.full_like(a, 5)):
            low, high = tocha.aminmax(t(b))
            assert (low.item(), high.item()) == (t(b).amin().item(), t(b).amax().item()) == (b.min(), b.max())
            assert t(b).sum().item() == b.sum(dtype=np.int64)
        if dtype in (np.float32, np.float64):
            for place in {0, n // 2, n - 1}:
                b = a.copy()
                b[place] = np.nan
                assert t(b).amax().isnan() and t(b).amin().isnan()
                b[place] = -np.inf
                assert t(b).amin().item() == -INF and t(b).amax().item() == b.max()
    wrapped = t(np.full(33, 2**62, np.int64)).sum().item()
    assert wrapped == (33 * 2**62 + 2**63) % 2**64 - 2**63


INF, NAN = float("inf"), float("nan")


@pytest.mark.parametrize(
    ("x", "whole", "along"),
    [  # of all elements, and along dim 0
        ([2.0, 3, 4], [12, 8, 6], [12, 8, 6]),
        ([1.0, INF, 3], [INF, NAN, INF], [INF, NAN, INF]),  # without zeros a quotient
        ([1e-30, 1e-30, 1e-30], [0, 0, 0], [0, 0, 0]),
        ([0.0, 2, 3], [6, 0, 0], [6, 0, 0]),
        ([0.0, INF, 3], [INF, 0, NAN], [INF, 0, NAN]),
        ([0.0, 0, NAN], [0, 0, 0], [NAN, NAN, 0]),
        ([], [], []),
    ],
)
def test_the_gradient_of_a_product(x, whole, along):
    for dim, expected in ((None, whole), (0, along)):
        leaf = tocha.tensor(x, requires_grad=True)
        (leaf.prod() if dim is None else leaf.prod(dim)).backward()
        np.testing.assert_array_equal(leaf.grad.numpy(), np.array(expected, np.float32))


@pytest.mark.parametrize("zeros", [0, 1, 5])
def test_second_derivatives_of_a_product(zeros):
    a = RNG.uniform(0.5, 1.5, (4, 5))
    a.flat[:zeros] = 0
    for call in (lambda x: x.prod(), lambda x: x.prod(1), lambda x: x.prod(0, keepdim=True)):
        x = t(a.copy()).requires_grad_()
        assert tocha.autograd.gradcheck(call, x) and tocha.autograd.gradgradcheck(call, x)
        graph = tocha.autograd.grad(call(x).sum(), x, create_graph=True)[0]
        np.testing.assert_allclose(graph.detach().numpy(), tocha.autograd.grad(call(x).sum(), x)[0].numpy(), rtol=1e-12)


def test_the_gradient_of_a_variance_that_divides_by_nothing():
    """Infinite, but for elements that are the mean: an infinite one is."""
    inf, nan = float("inf"), float("nan")
    for values, expected in (([2.0], [nan]), ([inf], [nan]), ([inf, 1.0], [nan, inf]), ([1.0, 2.0], [inf, inf])):
        x = tocha.tensor(values, requires_grad=True)
        with pytest.warns(UserWarning, match="degrees of freedom"):
            tocha.var(x, correction=len(values)).backward()
        assert str(x.grad.tolist()) == str(expected)


def test_normalize_takes_several_dims():
    x = tocha.arange(24.0).view(2, 3, 4) - 7
    expected = x / x.abs().sum((0, 2), keepdim=True)
    assert tocha.nn.functional.normalize(x, p=1, dim=(0, 2)).tolist() == expected.tolist()
    assert tocha.nn.functional.normalize(x, p=1).tolist() == tocha.nn.functional.normalize(x, p=1, dim=(1,)).tolist()


def test_a_reduction_into_a_part_of_what_it_reads():
    x = tocha.arange(6.0).view(2, 3)
    tocha.sum(x, 0, keepdim=True, out=x[:1])
    assert x.tolist() == [[3.0, 5.0, 7.0], [3.0, 4.0, 5.0]]
    tocha.amax(x, 1, out=x[:, 0])
    assert x[:, 0].tolist() == [7.0, 5.0]
    with pytest.warns(UserWarning, match="was resized"):
        tocha.sum(x, 0, out=x)
    assert x.tolist() == [12.0, 9.0, 12.0]
