"""Views share memory and have the strides that NumPy's rules (and PyTorch's for sizes 0 and 1) give them."""

import itertools

import numpy as np
import pytest

import tocha


def numbers(*shape):
    return tocha.arange(int(np.prod(shape))).reshape(shape)


def as_numpy(t):
    return np.array(t.tolist())


def test_a_view_writes_into_its_base():
    x = tocha.zeros(2, 3)
    x.t().view_as(x.t()).select(0, 1).fill_(5)
    x.unfold(1, 2, 1)[0, 0].fill_(7)
    assert x.tolist() == [[7.0, 7.0, 0.0], [0.0, 5.0, 0.0]]
    assert x.t()._base is x and x.view(6).view(3, 2)._base is x


@pytest.mark.parametrize(
    "make, strides",
    [
        (lambda: tocha.ones(0, 3).unsqueeze(0), (0, 3, 1)),
        (lambda: tocha.ones(2, 3).unsqueeze(1), (3, 3, 1)),
        (lambda: tocha.ones(()).expand(2, 1), (0, 0)),
        (lambda: tocha.ones(3).expand(1, 3), (3, 1)),
        (lambda: tocha.ones(1).expand(5, 1), (0, 1)),
        (lambda: tocha.ones(2, 1, 3).squeeze(1), (3, 1)),
        (lambda: tocha.ones(2, 3, 4).movedim(0, 2), (4, 1, 12)),
        (lambda: tocha.ones(2, 3, 4).diagonal(1, 0, 2), (4, 13)),
        (lambda: tocha.ones(2, 3).view(tocha.uint8), (12, 1)),
    ],
)
def test_strides(make, strides):
    assert make().stride() == strides


def test_view_refuses_what_needs_a_copy():
    x = numbers(2, 3)
    with pytest.raises(RuntimeError, match=r"\[view\]"):
        x.t().view(6)
    assert x.t().reshape(6).tolist() == [0, 3, 1, 4, 2, 5]


def test_reading_as_another_dtype():
    x = tocha.tensor([1.0, -2.0])
    assert x.view(tocha.int32).tolist() == np.float32([1, -2]).view(np.int32).tolist()
    assert tocha.zeros(4, 6).view(tocha.float64).shape == (4, 3)
    with pytest.raises(RuntimeError, match="divisible"):
        tocha.zeros(3).view(tocha.float64)


def test_in_place_views_change_the_tensor_itself():
    x = numbers(2, 3)
    address = x.data_ptr()
    assert x.t_() is x and x.shape == (3, 2) and x.data_ptr() == address
    assert x.unsqueeze_(0).shape == (1, 3, 2) and x.squeeze_().shape == (3, 2)


@pytest.mark.parametrize("pieces", [3, [1, 4, 5], [0, 10]])
def test_split_covers_the_dim_without_copying(pieces):
    x = numbers(2, 10)
    parts = x.split(pieces, 1)
    assert np.concatenate([as_numpy(p) for p in parts if p.numel()], 1).tolist() == x.tolist()
    assert all(p._base is x._base for p in parts)


@pytest.mark.parametrize("sections", [1, 3, 7, (2, 5), (5, 2), (-1,)])
def test_tensor_split_is_numpys_array_split(sections):
    x = numbers(7, 2)
    expected = np.array_split(as_numpy(x), sections)
    assert [p.tolist() for p in x.tensor_split(sections)] == [e.tolist() for e in expected]
    if not isinstance(sections, int):
        assert [p.tolist() for p in x.tensor_split(tocha.tensor(sections))] == [e.tolist() for e in expected]


def test_scatter_into_a_copy_keeps_the_layout():
    x = numbers(2, 3).t()
    y = x.select_scatter(tocha.tensor([8, 9]), 0, 1)
    assert (
        y.stride() == x.stride() and y.tolist() == [[0, 3], [8, 9], [2, 5]] and x.tolist() == [[0, 3], [1, 4], [2, 5]]
    )


def test_meta_tensors_have_views():
    x = tocha.empty(2, 3, device="meta")
    assert x.t().reshape(6).device.type == "meta" and tocha.cat([x, x], 1).shape == (2, 6)


def test_copies_within_one_memory_read_before_they_write():
    for source, target in ((slice(0, 6), slice(2, 8)), (slice(2, 8), slice(0, 6))):
        x = tocha.arange(8.0)
        with pytest.raises(RuntimeError, match="some elements of the input tensor and the written-to tensor refer to"):
            x[target].copy_(x[source])
    # What cannot be decided cheaply is not refused.
    for source, target in ((slice(0, 8, 2), slice(4, 8)), (slice(0, 6, 2), slice(2, 8, 2))):
        x = tocha.arange(8.0)
        want = x.numpy().copy()
        want[target] = want[source].copy()
        x[target].copy_(x[source])
        np.testing.assert_array_equal(x.numpy(), want)
    rows = tocha.arange(40.0).view(4, 10)
    want = rows.numpy().copy()
    want[:, 1:] = want[:, :-1].copy()
    rows[:, 1:] = rows[:, :-1]
    np.testing.assert_array_equal(rows.numpy(), want)
    square = tocha.arange(9.0).view(3, 3)
    with pytest.raises(RuntimeError, match="some elements of the input tensor and the written-to tensor refer to"):
        square.copy_(square.t())


@pytest.mark.parametrize("shape", [(5,), (70,), (3, 65), (64, 33), (130, 70), (2, 3, 17, 40), (4, 0, 3)])
@pytest.mark.parametrize("dtype", ["uint8", "float16", "int32", "float64", "complex128"])
def test_flip_in_all_directions(shape, dtype):
    x = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    t = tocha.tensor(x)
    for dims in itertools.chain.from_iterable(
        itertools.combinations(range(len(shape)), k) for k in range(len(shape) + 1)
    ):
        np.testing.assert_array_equal(t.flip(dims).numpy(), np.flip(x, dims))
        np.testing.assert_array_equal(
            t.mT.flip(dims).numpy() if t.dim() > 1 else x, np.flip(np.swapaxes(x, -1, -2), dims) if t.dim() > 1 else x
        )
    if len(shape) > 1:
        for k in range(4):
            np.testing.assert_array_equal(t.rot90(k).numpy(), np.rot90(x, k))
        np.testing.assert_array_equal(
            t.to(tocha.complex64).conj().flip(0).numpy(), np.flip(x, 0).astype(np.complex64).conj()
        )


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5, 7, 12, 33])
@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32", "float64", "complex128"])
def test_flips_of_images_with_channels_last(channels, dtype):
    for height, width in ((3, 2), (5, 37), (2, 2100)):
        x = (np.arange(2 * height * width * channels).reshape(2, height, width, channels) % 251).astype(dtype)
        image = tocha.from_numpy(x).permute(0, 3, 1, 2)
        for dims in ((3,), (2,), (2, 3), (0, 3), (1,), (0, 1, 2, 3)):
            flipped = image.flip(dims)
            assert flipped.stride() == image.stride()
            np.testing.assert_array_equal(flipped.numpy(), np.flip(x.transpose(0, 3, 1, 2), dims))


@pytest.mark.parametrize("dtype", [tocha.uint8, tocha.bfloat16, tocha.float32, tocha.int64, tocha.complex128])
def test_fill_of_every_size(dtype):
    for n in (0, 1, 7, 63, 1000, 40_001):
        x = tocha.zeros(n + 2, dtype=dtype)
        x[1 : n + 1].fill_(3)
        assert x[0] == 0 and x[-1] == 0 and bool((x[1 : n + 1] == 3).all())


@pytest.mark.parametrize("width", [2, 3, 7, 8])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "complex128"])
def test_copies_of_short_rows(width, dtype):
    a = np.arange(3 * 700 * 11 * 2).reshape(3, 11, 700, 2)
    x = tocha.from_numpy(a).to(tocha.int8 if dtype == "int8" else tocha.int64)
    a = x.numpy()
    for ours, theirs in (
        (x[:, :width].permute(0, 2, 3, 1), a[:, :width].transpose(0, 2, 3, 1)),
        (x[:, :width, :, 0].permute(0, 2, 1), a[:, :width, :, 0].transpose(0, 2, 1)),
        (x[:, :, ::3].permute(3, 1, 0, 2), a[:, :, ::3].transpose(3, 1, 0, 2)),
        (x.flatten(1)[:, :width].flip(0), a.reshape(3, -1)[::-1, :width]),
    ):
        assert np.array_equal(ours.contiguous().numpy(), theirs)
        assert np.array_equal(ours.to(getattr(tocha, dtype)).numpy(), theirs.astype(dtype))
        target = tocha.zeros(*ours.shape, 2, dtype=getattr(tocha, dtype))
        target[..., 1] = ours
        assert np.array_equal(target.numpy(), np.stack([np.zeros_like(theirs), theirs], -1).astype(dtype))


def test_what_is_conjugated_or_negated_when_read_counts_as_dense_for_the_layout_of_results():
    x = tocha.randn(1, 33, 1, 5, dtype=tocha.complex64).permute(3, 0, 1, 2)
    conjugated = x.adjoint().expand(5, 3, -1, 33)
    assert (x + conjugated).stride() == (x + conjugated.resolve_conj()).stride() == (1, 5, 15, 495)
    negated = tocha.randn(3, 4, dtype=tocha.complex64).conj().imag
    assert negated.is_neg()
    assert tocha.select_scatter(negated, tocha.ones(4), 0, 1).stride() == (4, 1)
    assert not tocha.select_scatter(negated, tocha.ones(4), 0, 1).is_neg()
