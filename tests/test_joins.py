"""Joins and rearrangements against NumPy; layouts, empty parts and promotion, which NumPy does not have or does differently."""

import itertools
import warnings

import numpy as np
import pytest

import tocha


def numbers(*shape):
    return tocha.arange(int(np.prod(shape))).reshape(shape).float()


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("layout", [lambda t: t, lambda t: t.transpose(0, 2).contiguous().transpose(0, 2)])
def test_cat(dim, layout):
    parts = [layout(numbers(2, 3, 4)), layout(numbers(2, 3, 4) + 100)]
    assert tocha.cat(parts, dim).tolist() == np.concatenate([np.array(p.tolist()) for p in parts], dim).tolist()


def test_cat_promotes_and_skips_empty_vectors():
    out = tocha.cat([tocha.tensor([]), tocha.tensor([[1, 2]]), tocha.tensor([[True, False]])])
    assert out.dtype is tocha.float32 and out.tolist() == [[1, 2], [1, 0]]


def test_cat_keeps_channels_last():
    x = tocha.zeros(2, 3, 4, 5).contiguous(memory_format=tocha.channels_last)
    assert tocha.cat([x, x], 1).is_contiguous(memory_format=tocha.channels_last)


def test_cat_into_a_strided_out():
    out = tocha.zeros(3, 4).t()
    tocha.cat([numbers(2, 3), numbers(2, 3)], out=out)
    assert out.tolist() == [[0, 1, 2], [3, 4, 5]] * 2 and out.stride() == (1, 4)


@pytest.mark.parametrize("rows", [1, 40000])
def test_cat_of_narrow_parts(rows):
    a, b = numbers(rows, 1), numbers(rows, 3)
    joined = np.concatenate([a.numpy(), b.numpy()], 1)
    assert (tocha.cat([a, b], 1).numpy() == joined).all()


@pytest.mark.parametrize("dims", [(0,), (1,), (0, 2), (0, 1, 2), ()])
def test_flip(dims):
    x = numbers(2, 3, 70)
    assert x.flip(dims).tolist() == np.flip(np.array(x.tolist()), dims).tolist()
    assert x.transpose(0, 2).flip(dims).tolist() == np.flip(np.array(x.tolist()).transpose(2, 1, 0), dims).tolist()


@pytest.mark.parametrize("shift, dim", [(1, 0), (-7, 1), (5, None), ((1, 2), (0, 1))])
def test_roll(shift, dim):
    x = numbers(3, 4)
    assert x.roll(shift, () if dim is None else dim).tolist() == np.roll(x.numpy(), shift, dim).tolist()


@pytest.mark.parametrize("mode, numpy_mode", [("reflect", "reflect"), ("replicate", "edge"), ("circular", "wrap")])
def test_pad(mode, numpy_mode):
    x = numbers(2, 3, 5, 6)
    expected = np.pad(x.numpy(), ((0, 0), (0, 0), (1, 2), (3, 0)), mode=numpy_mode)
    padded = tocha.nn.functional.pad(x, (3, 0, 1, 2), mode=mode)
    assert (padded.numpy() == expected).all()
    last = tocha.nn.functional.pad(x.contiguous(memory_format=tocha.channels_last), (3, 0, 1, 2), mode=mode)
    layout = tocha.contiguous_format if mode == "circular" else tocha.channels_last
    assert last.is_contiguous(memory_format=layout) and last.tolist() == padded.tolist()


@pytest.mark.parametrize("replacement", [False, True])
@pytest.mark.parametrize("r", [1, 2, 3])
def test_combination_indices(r, replacement):
    choose = itertools.combinations_with_replacement if replacement else itertools.combinations
    assert tocha.combinations(tocha.arange(4), r, replacement).tolist() == [list(c) for c in choose(range(4), r)]


def test_meshgrid_asks_for_indexing_once():
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        tocha.functional._warned = False
        for _ in range(2):
            tocha.meshgrid(tocha.arange(2), tocha.arange(3))
    assert len(seen) == 1


@pytest.mark.parametrize("k", [-3, -1, 0, 2, 9])
def test_triangles(k):
    x = numbers(2, 4, 5)
    assert x.tril(k).tolist() == np.tril(x.numpy(), k).tolist() and x.triu(k).tolist() == np.triu(x.numpy(), k).tolist()
    assert tocha.tril_indices(4, 5, k).tolist() == [list(i) for i in np.tril_indices(4, k, 5)]
    assert tocha.triu_indices(4, 5, k).tolist() == [list(i) for i in np.triu_indices(4, k, 5)]


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32", "float64", "complex128"])
@pytest.mark.parametrize("n", [1, 3, 4, 15, 16, 17, 33, 64, 131])
def test_flips_and_transposes_of_every_length_and_width(n, dtype):
    a = (np.arange(37 * n).reshape(37, n) % 251).astype(dtype)
    t = tocha.from_numpy(a)
    assert t.flip([1]).tolist() == a[:, ::-1].tolist()
    assert t.flip([0, 1]).tolist() == a[::-1, ::-1].tolist()
    assert t.t().contiguous().tolist() == a.T.tolist()


def test_transposed_copies_keep_the_bits_of_nan():
    bits = np.full((33, 18), 0x7FA00001, np.uint32)
    copied = tocha.from_numpy(bits.view(np.float32)).t().contiguous().numpy().view(np.uint32)
    assert (copied == 0x7FA00001).all()


@pytest.mark.parametrize("dtype", [tocha.bool, tocha.int16, tocha.float32, tocha.float64, tocha.complex128])
@pytest.mark.parametrize("times", [1, 2, 3, 4, 5, 16, 17])
def test_elements_repeated_side_by_side(times, dtype):
    x = (tocha.arange(2 * 5 * 6) % 7).reshape(2, 5, 6).to(dtype)
    for t in (x, x.transpose(0, 2), x[:, ::2], x[..., 1::2]):
        for dim in range(3):
            expected = np.repeat(np.array(t.tolist()), times, dim)
            assert t.repeat_interleave(times, dim).tolist() == expected.tolist()


@pytest.mark.parametrize(
    "a, b", [((3, 4), (2, 5)), ((4,), (3, 2)), ((2, 1, 3), (4, 2)), ((5, 1), (1, 6)), ((2, 0), (3, 4))]
)
def test_kron(a, b):
    x, y = numbers(*a) + 1, numbers(*b) - 2
    expected = np.kron(x.numpy(), y.numpy())
    for left, right in ((x, y), (x.mT.contiguous().mT if x.ndim > 1 else x, y)):
        found = tocha.kron(left, right)
        assert found.shape == expected.shape and found.tolist() == expected.tolist()
