"""Tensors from whatever Python has (tests/parity/test_construction_parity.py has the details), and sizes that no memory
holds."""

from __future__ import annotations

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tocha

EXAMPLES = int(os.environ.get("TOCHA_FUZZ", "4000")) // 20


def test_lists_of_tensors():
    x = tocha.ones(2)
    with pytest.raises(ValueError, match="only one element tensors can be converted to Python scalars"):
        tocha.tensor([x, x])
    assert tocha.tensor([tocha.tensor(1.0), tocha.ones(1)]).tolist() == [1.0, 1.0]
    assert tocha.tensor([[1.0, 2.0], x]).tolist() == [[1.0, 2.0], [1.0, 1.0]]
    with pytest.raises(TypeError, match="only integer tensors of a single element"):
        tocha.tensor([tocha.tensor(1.0)], dtype=tocha.int64)


def test_a_list_that_changes_while_it_is_read():
    items: list = []

    class Emptier:
        def __float__(self):
            items.clear()
            return 1.0

    items.extend([0.5, Emptier(), 2.0, 3.0])
    assert tocha.tensor(items, dtype=tocha.float32).tolist() == [0.5, 1.0, 2.0, 3.0]
    rows: list = [[1.0, 2.0], [3.0, 4.0]]

    class Row(list):
        def __iter__(self):
            rows.clear()
            return super().__iter__()

    rows.insert(0, Row([5.0, 6.0]))
    assert tocha.tensor(rows).tolist() == [[5, 6], [1, 2], [3, 4]]


def test_nesting_without_end():
    deep = [1.0]
    for _ in range(100_000):
        deep = [deep]
    for data in (deep, [1.0, deep]):
        with pytest.raises(ValueError, match="too many dimensions"):
            tocha.tensor(data)
    while deep:  # let go of it without recursion
        deep = deep.pop()
        if not isinstance(deep, list):
            break
    itself: list = [1.0]
    itself.append(itself)
    with pytest.raises(TypeError, match="self-referential"):
        tocha.tensor(itself)


def test_numbers_that_do_not_fit():
    with pytest.raises(ValueError, match="Overflow when unpacking long long"):
        tocha.tensor(2**63)
    with pytest.raises(RuntimeError, match="uint8 without overflow"):
        tocha.tensor([float("inf")], dtype=tocha.uint8)
    assert tocha.tensor([2**70, 1.5]).tolist() == [2.0**70, 1.5]
    assert tocha.tensor([2**64 - 1], dtype=tocha.uint64).tolist() == [2**64 - 1]


def test_the_old_constructor():
    for value in (1.5, True, None, 1j):
        with pytest.raises(TypeError, match="data must be a sequence"):
            tocha.Tensor(value)
    with pytest.raises(TypeError, match="invalid combination of arguments"):
        tocha.Tensor([1], dtype=tocha.float32)
    x = tocha.tensor([1, 2])
    y = tocha.Tensor(x)
    assert y.dtype is tocha.int64 and y.data_ptr() == x.data_ptr()
    assert tocha.Tensor(data=[1, 2]).tolist() == [1, 2]
    assert tocha.Tensor(size=(2, 3)).shape == (2, 3)
    assert tocha.Tensor(tocha.ones(2).untyped_storage()).tolist() == [1, 1]


# -- sizes beyond all memory ---------------------------------------------------------------------------

sizes = st.lists(
    st.one_of(st.integers(0, 5), st.integers(-3, 2**62), st.sampled_from([2**31, 2**32, 2**61, 2**63 - 1])), max_size=4
)
steps = st.one_of(st.integers(0, 5), st.integers(-4, 2**62), st.just(2**63 - 1))


def survives(call, *tensors):
    """The call works or raises RuntimeError, and tensors can be read after it."""
    try:
        t = call()
    except RuntimeError:
        t = None
    for x in (*tensors, *([t] if t is not None else [])):
        assert x.numel() >= 0
        if x.device.type == "cpu" and 0 < x.numel() < 1000:
            float(x.sum())  # reads all of it


@settings(max_examples=EXAMPLES, deadline=None)
@given(sizes, st.sampled_from([tocha.float32, tocha.int8, tocha.complex128]))
def test_sizes_that_overflow(size, dtype):
    x = tocha.ones(6, dtype=tocha.float32)
    survives(lambda: tocha.empty(size, dtype=dtype, device="meta"))
    survives(lambda: x.view(size), x)
    survives(lambda: x.new_empty(0).view(size))
    survives(lambda: x.reshape(size), x)
    survives(lambda: x[:1].expand(size), x)
    survives(lambda: x.new_empty(size, device="meta"))
    too_much = any(s > 2**40 for s in size)
    if too_much:  # what could be had is not asked for
        survives(lambda: tocha.empty(size, dtype=dtype))
        survives(lambda: x.resize_(size), x)


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.data())
def test_strides_that_overflow(data):
    size = data.draw(sizes)
    stride = data.draw(st.lists(steps, min_size=len(size), max_size=len(size)))
    offset = data.draw(steps)
    x, y = tocha.arange(8.0), tocha.arange(8.0)
    survives(lambda: x.as_strided(size, stride, offset), x)
    survives(lambda: tocha.empty_strided(size, stride, device="meta"))
    needed = offset + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    if needed > 2**44 or needed < 64 or 0 in size:  # else memory would be asked for, and perhaps given
        survives(lambda: tocha.empty_strided(size, stride))
        survives(lambda: y.set_(x.untyped_storage(), offset, size, stride), x, y)


def test_elements_beyond_int64():
    one = tocha.ones(1)
    for call in (
        lambda: one.expand(2**40, 2**40),
        lambda: one.as_strided((2**62, 4), (0, 0)),
        lambda: tocha.ones(1).set_(one.untyped_storage(), 0, (2**62, 4), (0, 0)),
        lambda: one.resize_(2**62, 4),
        lambda: tocha.empty(0).view(2**62, 4),
        lambda: tocha.empty(0, 2**40, 2**40),
    ):
        with pytest.raises(RuntimeError, match="overflow"):
            call()
    assert one.tolist() == [1.0]


def test_copying_a_number():
    x = tocha.zeros(2, dtype=tocha.int64)
    assert x.copy_(3).tolist() == [3, 3] and x.copy_(True).tolist() == [1, 1]
    y = tocha.ones(2, requires_grad=True) * 2
    assert y.copy_(0.5).tolist() == [0.5, 0.5]
    with pytest.raises(TypeError):
        x.copy_("a")
