"""Switches that reach native code: warnings every time, small numbers as zero, memory that nobody has written."""

from __future__ import annotations

import warnings

import pytest

import tocha
from tocha.utils import deterministic


@pytest.fixture
def filling():
    tocha.use_deterministic_algorithms(True)
    yield
    tocha.use_deterministic_algorithms(False)
    deterministic.fill_uninitialized_memory = True


def warned(call):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        call()
    return len(seen)


def test_warn_always_reaches_native_code():
    def cast():
        tocha.tensor([1j]).to(tocha.float32)

    cast_before = warned(cast)
    assert cast_before <= 1 and warned(cast) == 0
    tocha.set_warn_always(True)
    try:
        assert warned(cast) == 1 and warned(cast) == 1
    finally:
        tocha.set_warn_always(False)
    assert warned(cast) == 0


def test_small_numbers_count_as_zero_in_every_thread():
    x = tocha.full((1 << 20,), 1e-40)
    half = tocha.full((1 << 20,), 2e-38)
    try:
        if not tocha.set_flush_denormal(True):
            pytest.skip("the processor cannot")
        assert not (x * 1.0).view(tocha.int32).any()
        assert not (half * 0.01).view(tocha.int32).any()
    finally:
        tocha.set_flush_denormal(False)
    assert (x * 1.0).view(tocha.int32).all()
    with pytest.raises(RuntimeError, match="flush_denormal expects a bool, but got int"):
        tocha.set_flush_denormal(1)


GREATEST = {tocha.uint8: 255, tocha.int8: 127, tocha.int16: 2**15 - 1, tocha.int32: 2**31 - 1, tocha.int64: 2**63 - 1}
GREATEST |= {tocha.uint16: 2**16 - 1, tocha.uint32: 2**32 - 1, tocha.uint64: 2**64 - 1, tocha.bool: True}


@pytest.mark.usefixtures("filling")
def test_empty_tensors_are_filled():
    for dtype, value in GREATEST.items():
        assert tocha.empty(2, dtype=dtype).tolist() == [value, value]
    for dtype in (tocha.float32, tocha.bfloat16, tocha.float64, tocha.complex64):
        assert tocha.empty(2, dtype=dtype).isnan().all()
    x = tocha.ones(2)
    made = [tocha.empty_like(x), tocha.empty_strided((2, 3), (1, 4)), tocha.empty_permuted((2, 2), (1, 0))]
    made += [x.new_empty(2), x.new_empty_strided((2,), (1,)), tocha.Tensor(2), tocha.empty(2, out=tocha.zeros(2))]
    assert all(t.isnan().all() for t in made)


@pytest.mark.usefixtures("filling")
def test_what_resize_adds_is_filled():
    x = tocha.ones(4).resize_(2).resize_(6)
    assert x[:4].tolist() == [1, 1, 1, 1] and x[4:].isnan().all()
    x = tocha.ones(4)[2:].resize_(5)
    assert x[:2].tolist() == [1, 1] and x[2:].isnan().all()
    assert tocha.ones(2).resize_as_(tocha.ones(3))[2:].isnan().all()


@pytest.mark.usefixtures("filling")
def test_filling_can_be_switched_off():
    deterministic.fill_uninitialized_memory = False
    tocha.ones(64)  # what lies in memory that is taken again
    assert not tocha.empty(64).isnan().all()
    with pytest.raises(RuntimeError, match="expected a bool, but got int"):
        deterministic.fill_uninitialized_memory = 1
    assert deterministic.fill_uninitialized_memory is False
