"""Factories and conversions: lengths and dtypes of sequences, keywords that every factory takes, identity of no-op conversions."""

import warnings
from fractions import Fraction

import numpy as np
import pytest

import tocha

FACTORIES = [
    lambda **k: tocha.empty(2, **k),
    lambda **k: tocha.zeros(2, **k),
    lambda **k: tocha.full((2,), 1.0, **k),
    lambda **k: tocha.arange(2.0, **k),
    lambda **k: tocha.linspace(0, 1, 2, **k),
    lambda **k: tocha.eye(2, **k),
    lambda **k: tocha.zeros_like(tocha.ones(2), **k),
    lambda **k: tocha.ones(2).new_zeros(2, **k),
    lambda **k: tocha.hann_window(2, **k),
]


@pytest.mark.parametrize("make", FACTORIES)
def test_every_factory_takes_the_common_keywords(make):
    t = make(dtype=tocha.float64, device="meta", layout=tocha.strided, pin_memory=False, requires_grad=True)
    assert t.dtype is tocha.float64 and t.is_meta and t.requires_grad


def test_integers_cannot_require_gradients():
    with pytest.raises(RuntimeError, match="floating point"):
        tocha.zeros(2, dtype=tocha.int64, requires_grad=True)


def test_out_decides_the_dtype():
    assert tocha.zeros(3, out=tocha.empty(0, dtype=tocha.int16)).dtype is tocha.int16
    with pytest.raises(RuntimeError, match="does not match"):
        tocha.zeros(3, dtype=tocha.float32, out=tocha.empty(0, dtype=tocha.int16))


@pytest.mark.parametrize("arguments", [(5,), (2, 9), (9, 2, -2), (0, 1, 0.1), (1, 2, 0.3), (2**53, 2**53 + 3)])
def test_arange_is_numpys(arguments):
    expected = np.arange(*arguments)
    t = tocha.arange(*arguments, dtype=tocha.float64 if expected.dtype == np.float64 else None)
    assert t.tolist() == pytest.approx(expected.tolist(), rel=1e-15)
    assert tocha.arange(*arguments).dtype is (tocha.float32 if expected.dtype == np.float64 else tocha.int64)


@pytest.mark.parametrize("n", [0, 1, 2, 7, 100])
def test_linspace_meets_both_ends(n):
    t = tocha.linspace(0.1, 0.7, n, dtype=tocha.float64)
    assert t.tolist() == pytest.approx(np.linspace(0.1, 0.7, n).tolist(), rel=1e-15)
    if n > 1:
        assert t[0].item() == 0.1 and t[n - 1].item() == 0.7


@pytest.mark.parametrize(
    "value, dtype", [(300, "uint8"), (1e40, "float32"), (float("inf"), "int64"), (1j, "float32"), (70000.0, "float16")]
)
def test_a_value_that_does_not_fit_is_refused(value, dtype):
    with pytest.raises(RuntimeError, match="without overflow"):
        tocha.full((2,), value, dtype=getattr(tocha, dtype))


def test_fill_of_any_layout():
    x = tocha.zeros(4, 6)
    x[::2, ::3].fill_(2)
    x.t()[1].fill_(3)
    assert x.sum().item() == 4 * 2 + 4 * 3


def test_conversions_that_change_nothing_return_self():
    x = tocha.ones(2, 3)
    assert (
        x.to(tocha.float32) is x and x.float() is x and x.to("cpu") is x and x.contiguous() is x and x.type_as(x) is x
    )
    assert x.to(tocha.float32, copy=True) is not x and x.t().to(tocha.float64).stride() == (1, 3)


def test_dropping_the_imaginary_part_warns():
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        x = tocha.ones(2, dtype=tocha.complex64)
        x.bool()
        x.float()
        x.double()
    assert len(seen) <= 1  # once per process


def test_resize_keeps_what_fits():
    x = tocha.arange(6)
    assert x.resize_(2, 2).tolist() == [[0, 1], [2, 3]] and x.resize_(6)[:4].tolist() == [0, 1, 2, 3]


def test_old_type_names():
    assert tocha.ones(1).type() == "tocha.FloatTensor" and tocha.ones(1).type("tocha.LongTensor").dtype is tocha.int64


@pytest.mark.parametrize("n", [2, 3, 10, 1001])
def test_linspace_rounds_once(n):
    """Each element is its end plus or minus a multiple of the rounded step, rounded once."""
    for a, b in ((0.1, 0.7), (-3.3, 9.1)):
        step = Fraction((b - a) / (n - 1))
        exact = [Fraction(a) + i * step if i < n // 2 else Fraction(b) - (n - 1 - i) * step for i in range(n)]
        assert tocha.linspace(a, b, n, dtype=tocha.float64).tolist() == [float(v) for v in exact]


def test_ends_of_sequences():
    for d in (tocha.bfloat16, tocha.float16, tocha.float32):
        x = tocha.linspace(-1, 3, 777, dtype=d)
        assert (x[0].item(), x[-1].item()) == (-1, 3)
    assert tocha.linspace(0, 10, 5, dtype=tocha.int64).tolist() == [0, 2, 5, 7, 10]
    assert tocha.linspace(-2, -8, 4, dtype=tocha.int64).tolist() == [-2, -4, -6, -8]
    assert tocha.logspace(0, 5, 6, dtype=tocha.float64).tolist() == [1, 10, 100, 1000, 10000, 100000]


def test_arange_is_exact_where_it_can_be():
    for n in (1, 7, 33, 40000):
        assert tocha.arange(n, dtype=tocha.float32).tolist() == list(range(n))
        assert tocha.arange(0, n / 4, 0.25, dtype=tocha.float64).tolist() == [i / 4 for i in range(n)]


@pytest.mark.parametrize("periodic", [True, False])
@pytest.mark.parametrize("length", [0, 1, 2, 5, 70_000])
def test_windows_of_cosines(length, periodic):
    turn = 2 * np.pi * np.arange(length) / max(length if periodic else length - 1, 1)
    one = np.ones(1)
    for window, terms in ((tocha.hann_window, [0.5, 0.5]), (tocha.blackman_window, [0.42, 0.5, 0.08])):
        wanted = sum((-1) ** k * a * np.cos(k * turn) for k, a in enumerate(terms)) if length != 1 else one
        for dtype, tolerance in ((tocha.float64, 1e-12), (tocha.float32, 3e-7), (tocha.bfloat16, 2e-2)):
            found = window(length, periodic=periodic, dtype=dtype).double().numpy()
            assert found.shape == (length,) and np.allclose(found, wanted, rtol=0, atol=tolerance)
