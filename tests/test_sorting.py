"""Sorting, selection by rank, distinct elements and searching, over dims and layouts; NumPy is the reference."""

from __future__ import annotations

import numpy as np
import pytest

import tocha

RNG = np.random.default_rng(1)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("dtype", [np.float64, np.int16, np.bool_])
def test_sort_is_stable_along_any_dim(dtype, dim, descending):
    x = RNG.integers(0, 5, (4, 7, 5)).astype(dtype)
    key = -x.astype(np.int64) if descending else x
    order = np.argsort(key, axis=dim, kind="stable")
    values, indices = tocha.sort(tocha.from_numpy(x), dim=dim, descending=descending, stable=True)
    np.testing.assert_array_equal(indices.numpy(), order)
    np.testing.assert_array_equal(values.numpy(), np.take_along_axis(x, order, dim))
    np.testing.assert_array_equal(tocha.argsort(tocha.from_numpy(x), dim, descending, stable=True).numpy(), order)


def test_sort_results_have_names_and_take_out():
    x = tocha.tensor([3.0, float("nan"), 1.0])
    r = x.sort()
    assert r.values[:2].tolist() == [1, 3] and r.indices.tolist() == [2, 0, 1]
    values, indices = tocha.empty(0), tocha.empty(0, dtype=tocha.int64)
    tocha.sort(x, descending=True, out=(values, indices))
    assert values[0].isnan() and indices.tolist() == [1, 0, 2]
    with pytest.raises(RuntimeError, match="dtype"):
        tocha.sort(x, out=(tocha.empty(0, dtype=tocha.float64), indices))


@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_topk_and_kthvalue(dim, largest):
    x = RNG.permutation(60).reshape(3, 4, 5).astype(np.float32)
    values, indices = tocha.topk(tocha.from_numpy(x), 2, dim, largest)
    want = np.sort(x, axis=dim)
    want = np.flip(want, dim) if largest else want
    np.testing.assert_array_equal(values.numpy(), np.take(want, [0, 1], dim))
    np.testing.assert_array_equal(np.take_along_axis(x, indices.numpy(), dim), values.numpy())
    value, index = tocha.kthvalue(tocha.from_numpy(x), 2, dim, keepdim=True)
    np.testing.assert_array_equal(value.numpy(), np.take(np.sort(x, axis=dim), [1], dim))
    np.testing.assert_array_equal(np.take_along_axis(x, index.numpy(), dim), value.numpy())


@pytest.mark.parametrize("dim", [None, 0, 1])
def test_unique(dim):
    x = RNG.integers(0, 2, (6, 3))
    want = np.unique(x, return_inverse=True, return_counts=True, axis=dim)
    got = tocha.unique(tocha.from_numpy(x), return_inverse=True, return_counts=True, dim=dim)
    for g, w in zip(got, want, strict=True):
        np.testing.assert_array_equal(g.numpy(), w.reshape(g.shape))
    assert isinstance(tocha.from_numpy(x).unique(), tocha.Tensor)


def test_unique_consecutive():
    values, inverse, counts = tocha.unique_consecutive(
        tocha.tensor([1, 1, 2, 1]), return_inverse=True, return_counts=True
    )
    assert (values.tolist(), inverse.tolist(), counts.tolist()) == ([1, 2, 1], [0, 0, 1, 2], [2, 1, 1])
    assert tocha.unique_consecutive(tocha.tensor([[1, 2], [1, 2], [0, 2]]), dim=0).tolist() == [[1, 2], [0, 2]]


@pytest.mark.parametrize("side", ["left", "right"])
def test_searchsorted(side):
    rows, values = np.sort(RNG.integers(0, 9, (3, 8)), axis=1), RNG.integers(-1, 10, (3, 5))
    want = np.stack([np.searchsorted(r, v, side) for r, v in zip(rows, values, strict=True)])
    got = tocha.searchsorted(tocha.from_numpy(rows), tocha.from_numpy(values), side=side, out_int32=True)
    assert got.dtype is tocha.int32
    np.testing.assert_array_equal(got.numpy(), want)
    shuffled = tocha.from_numpy(rows[:, ::-1].copy())
    np.testing.assert_array_equal(
        tocha.searchsorted(shuffled, tocha.from_numpy(values), side=side, sorter=shuffled.argsort(stable=True)).numpy(),
        want,
    )
    assert tocha.bucketize(2.5, tocha.tensor([1.0, 2.0, 3.0])).item() == 2


def test_isin():
    x, y = tocha.tensor([1.5, float("nan"), 2.0]), tocha.tensor([2, 3])
    assert tocha.isin(x, y).tolist() == [False, False, True]
    assert tocha.isin(tocha.tensor([1, 2]), 2, invert=True).tolist() == [True, False]
