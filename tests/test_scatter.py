"""Gather, scatter, slices along a dim and masks: duplicates, layouts, bounds, reductions; NumPy is the reference."""

from __future__ import annotations

import numpy as np
import pytest

import tocha

RNG = np.random.default_rng(0)


def layouts(x):
    """The same values as a contiguous tensor, a transposed one and a slice of a larger one."""
    yield tocha.from_numpy(x.copy())
    yield tocha.from_numpy(np.ascontiguousarray(x.T)).permute(*reversed(range(x.ndim)))
    big = np.zeros([2 * s for s in x.shape], x.dtype)
    big[tuple(slice(0, None, 2) for _ in x.shape)] = x
    yield tocha.from_numpy(big)[tuple(slice(0, None, 2) for _ in x.shape)]


@pytest.mark.parametrize("dim", [0, 1, 2, -1])
@pytest.mark.parametrize("dtype", [np.float32, np.complex128, np.uint8])
def test_gather(dim, dtype):
    x = RNG.integers(0, 100, (4, 5, 6)).astype(dtype)
    index = RNG.integers(0, x.shape[dim], (4, 5, 6))
    for t in layouts(x):
        for i in layouts(index):
            np.testing.assert_array_equal(t.gather(dim, i).numpy(), np.take_along_axis(x, index, dim))
            np.testing.assert_array_equal(t.gather(dim, i.to(tocha.int32)).numpy(), np.take_along_axis(x, index, dim))


def scattered(x, dim, index, source, reduce, include_self):
    """The definition, one element at a time."""
    out = x.copy()
    groups: dict[tuple, list] = {}
    for at in np.ndindex(index.shape):
        place = list(at)
        place[dim] = int(index[at])
        groups.setdefault(tuple(place), []).append(source[at])
    fold = {"sum": np.sum, "prod": np.prod, "mean": np.mean, "amax": np.max, "amin": np.min}[reduce]
    for place, items in groups.items():
        out[place] = fold(np.array(([x[place]] if include_self else []) + items, x.dtype))
    return out


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
@pytest.mark.parametrize("dim", [0, 1])
def test_scatter_reduce(dim, reduce, include_self):
    x, source = RNG.normal(size=(5, 6)), RNG.normal(size=(4, 6))
    index = RNG.integers(0, x.shape[dim], (4, 5))
    want = scattered(x, dim, index, source, reduce, include_self)
    for t in layouts(x):
        got = t.scatter_reduce(
            dim, tocha.from_numpy(index), tocha.from_numpy(source), reduce, include_self=include_self
        )
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-12)


def test_scatter_add_is_the_same_on_one_thread_and_on_many():
    x, source = np.zeros((300, 70)), RNG.normal(size=(900, 70))
    rows = RNG.integers(0, 300, 900)
    np.add.at(x, rows, source)
    index = tocha.from_numpy(rows).view(-1, 1).expand(900, 70)
    got = tocha.zeros(300, 70, dtype=tocha.float64).scatter_add(0, index, tocha.from_numpy(source))
    np.testing.assert_array_equal(got.numpy(), x)
    again = tocha.zeros(300, 70, dtype=tocha.float64).index_add(0, tocha.from_numpy(rows), tocha.from_numpy(source))
    np.testing.assert_array_equal(again.numpy(), x)


def test_integer_means_round_down():
    x = tocha.tensor([1, 5])
    got = x.scatter_reduce(0, tocha.tensor([0, 0]), tocha.tensor([-2, -4]), "mean")
    assert got.tolist() == [-2, 5]


def test_nan_wins_in_extremes():
    x = tocha.tensor([1.0, float("nan")])
    got = x.scatter_reduce(0, tocha.tensor([0, 1]), tocha.tensor([float("nan"), 3.0]), "amax")
    assert got.isnan().all()


@pytest.mark.parametrize("bad", [-1, 3])
def test_bad_indices_change_nothing(bad):
    x = tocha.zeros(3, 2)
    index, row, source = tocha.tensor([[0, 1], [bad, 0]]), tocha.tensor([0, bad]), tocha.ones(2, 2)
    for f in (
        lambda: x.scatter_(0, index, source),
        lambda: x.scatter_add_(0, index, source),
        lambda: x.scatter_reduce_(0, index, source, "mean"),
        lambda: x.index_add_(0, row, source),
        lambda: x.index_copy_(0, row, source),
        lambda: x.index_select(0, row),
        lambda: x.gather(0, index),
        lambda: tocha.nn.functional.embedding(row, x),
    ):
        with pytest.raises((RuntimeError, IndexError)):
            f()
        assert not x.any()


def test_tensors_without_memory_are_not_read():
    x, index = tocha.zeros(3, 2), tocha.zeros(2, 2, dtype=tocha.int64, device="meta")
    for f in (
        lambda: x.scatter_add(0, index, tocha.ones(2, 2)),
        lambda: x.masked_fill_(index[:1] > 0, 1),
        lambda: x[index],
    ):
        with pytest.raises(RuntimeError, match="same device"):
            f()
    assert x.to("meta").gather(0, index).shape == (2, 2)
    assert x.to("meta")[index].shape == (2, 2, 2)
    with pytest.raises(RuntimeError):
        x.to("meta").index_add_(0, index[0], tocha.ones(3, 2, device="meta"))


def test_sources_and_indices_share_no_memory_with_the_target():
    x = tocha.arange(6.0).view(3, 2)
    assert x.clone().index_add_(0, tocha.tensor([2, 1, 0]), x).tolist() == [[4, 6], [4, 6], [4, 6]]
    y, index = x.clone(), tocha.tensor([2, 1, 0])
    for write in (
        lambda: y.index_copy_(0, index, y),
        lambda: y.__setitem__(index[:2], y[:2]),
        lambda: index.scatter_add_(0, index, tocha.ones(3, dtype=tocha.int64)),
        lambda: tocha.index_select(y, 0, index, out=y),
    ):
        with pytest.raises(RuntimeError, match="some elements of the input tensor and the written-to tensor refer to"):
            write()
    y[y > 2] = y[0, 1]  # the value is read first
    assert y.tolist() == [[0, 1], [2, 1], [1, 1]]


def test_conjugate_tensors_are_written_as_they_read():
    x = tocha.tensor([1 + 2j, 3 + 4j]).conj()
    x.index_fill_(0, tocha.tensor([0]), 5 + 6j)
    assert x.tolist() == [5 + 6j, 3 - 4j]
    assert x.gather(0, tocha.tensor([1])).tolist() == [3 - 4j]


@pytest.mark.parametrize("shape", [(4, 5), (1, 5), (5,), (4, 1), ()])
def test_masks_broadcast(shape):
    x, mask = RNG.normal(size=(4, 5)).astype(np.float32), RNG.random(shape) > 0.5
    for t in layouts(x):
        m = tocha.from_numpy(np.array(mask))
        want = np.where(mask, np.float32(2), x)
        np.testing.assert_array_equal(t.masked_fill(m, 2).numpy(), want)
        np.testing.assert_array_equal(t.masked_select(m).numpy(), x[np.broadcast_to(mask, x.shape)])
        source = np.arange(20, dtype=np.float32)
        scattered = x.copy()
        scattered[np.broadcast_to(mask, x.shape)] = source[: np.broadcast_to(mask, x.shape).sum()]
        np.testing.assert_array_equal(t.masked_scatter(m, tocha.from_numpy(source)).numpy(), scattered)
        np.testing.assert_array_equal(t.masked_fill_(m, 2).numpy(), want)


def test_a_mask_may_enlarge_the_result_but_not_self():
    x, mask = tocha.zeros(3), tocha.ones(2, 3, dtype=tocha.bool)
    assert x.masked_fill(mask, 1).shape == (2, 3)
    with pytest.raises(RuntimeError):
        x.masked_fill_(mask, 1)


def test_nonzero_forms():
    x = np.array([[0, 3, 0], [4, 0, 5]])
    t = tocha.from_numpy(x)
    np.testing.assert_array_equal(tocha.nonzero(t).numpy(), np.argwhere(x))
    for got, want in zip(t.nonzero(as_tuple=True), np.nonzero(x), strict=True):
        np.testing.assert_array_equal(got.numpy(), want)
    assert tocha.nonzero(tocha.tensor(1)).shape == (1, 0)
    assert tocha.nonzero_static(t, size=4).tolist() == [[0, 1], [1, 0], [1, 2], [-1, -1]]


def test_embedding_renorm_touches_the_rows_it_reads():
    weight = tocha.ones(3, 4)
    out = tocha.nn.functional.embedding(tocha.tensor([[0, 2]]), weight, max_norm=1.0)
    assert out.shape == (1, 2, 4)
    np.testing.assert_allclose(weight.numpy(), [[0.5] * 4, [1] * 4, [0.5] * 4], rtol=1e-6)


def test_segments():
    x = tocha.tensor([1.0, 2, 3, 4, 5])
    assert tocha.segment_reduce(x, "mean", lengths=tocha.tensor([2, 3])).tolist() == [1.5, 4.0]
    assert tocha.segment_reduce(x, "max", offsets=tocha.tensor([0, 2, 2, 5])).tolist() == [2.0, -float("inf"), 5.0]
    with pytest.raises(RuntimeError):
        tocha.segment_reduce(x, "sum", offsets=tocha.tensor([0, 9]))


def test_half_sums_are_rounded_once():
    index, tenths = tocha.zeros(1000, dtype=tocha.int64), tocha.full((1000,), 0.1).bfloat16()
    zero = tocha.zeros(1, dtype=tocha.bfloat16)
    assert zero.scatter_add(0, index, tenths).item() == 100
    assert zero.scatter_reduce(0, index, tenths, "sum").item() == 100
    x = tocha.zeros(1, dtype=tocha.bfloat16, requires_grad=True)
    x.gather(0, index).backward(tenths)
    assert x.grad.item() == 100
    rows = tocha.zeros(2, 3, dtype=tocha.bfloat16).index_add(0, index, tenths[:, None].expand(1000, 3))
    assert rows.tolist() == [[100] * 3, [0] * 3]


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float16", "float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("places", [3, 4, 1000, 30_000])
def test_threads_share_out_the_places_of_a_long_line(dtype, places):
    """What comes to a place comes in the order of the indices, however many threads there are: the same to the bit."""
    n, kind = 40_000, getattr(tocha, dtype)
    x = (
        tocha.from_numpy(RNG.integers(0, 100, places)).to(kind) / 7
        if kind.is_floating_point
        else tocha.ones(places, dtype=kind)
    )
    source = tocha.from_numpy(RNG.standard_normal(n) * 50).to(kind)
    index = tocha.from_numpy(RNG.integers(0, places, n))
    before = tocha.get_num_threads()
    try:
        found = []
        for threads in (1, 2, 4, 9):
            tocha.set_num_threads(threads)
            given = (index, source), (index, source[:1].expand(n))
            found.append(
                [x.to(kind).scatter_add(0, i, s) for i, s in given]
                + [x.to(kind).scatter_reduce(0, index, source, "prod")]
            )
    finally:
        tocha.set_num_threads(before)
    for others in found[1:]:
        for one, other in zip(found[0], others):
            np.testing.assert_array_equal(one.numpy(), other.numpy())


@pytest.mark.parametrize("shape", [(40_000,), (300, 200), (5, 4)])
def test_an_index_out_of_bounds_changes_nothing(shape):
    index = tocha.zeros(shape, dtype=tocha.int64)
    index.view(-1)[-1] = shape[-1]
    x, source = tocha.ones(shape), tocha.ones(shape)
    view = x.view(shape)
    backed = np.ones(shape, np.float32)
    for call in (
        lambda: x.scatter_add_(-1, index, source),
        lambda: x.view(shape).scatter_add_(-1, index, source),
        lambda: tocha.from_numpy(backed).scatter_(-1, index, 5.0),
        lambda: x.scatter_add(-1, index, source),
        lambda: x.clone().scatter_reduce_(-1, index, source, "sum"),
    ):
        with pytest.raises(RuntimeError, match=f"index {shape[-1]} is out of bounds for dimension {len(shape) - 1}"):
            call()
    assert (x == 1).all() and (view == 1).all() and (backed == 1).all()


def test_an_index_of_fewer_dims_is_refused_before_it_is_looked_at():
    x, index = tocha.zeros([1] * 7 + [3]), tocha.zeros(40, 40, dtype=tocha.int64)
    for call in (lambda: x.scatter_add(7, index, index.float()), lambda: x.clone().scatter_(7, index, 1.0)):
        with pytest.raises(RuntimeError, match="same number of dimensions"):
            call()
