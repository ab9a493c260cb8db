"""Fourier transforms against the definition: a product with the matrix of roots of unity."""

from __future__ import annotations

import math
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tocha
from tocha.autograd import gradcheck, gradgradcheck

F = tocha.fft
PRECISION = {np.float32: 3e-6, np.complex64: 3e-6, np.float64: 1e-13, np.complex128: 1e-13}
NORMS = (None, "backward", "ortho", "forward")
SIZES = [
    *range(1, 71),
    81,
    97,
    100,
    101,
    121,
    127,
    128,
    169,
    210,
    243,
    251,
    256,
    257,
    343,
    360,
    509,
    512,
    625,
    1009,
    1024,
]


def numbers(*shape, dtype=np.complex128, seed=0):
    rng = np.random.default_rng([seed, *shape])
    x = rng.standard_normal(shape)
    if np.issubdtype(dtype, np.complexfloating):
        x = x + 1j * rng.standard_normal(shape)
    return x.astype(dtype)


def fourier_matrix(n, sign=-1):
    turns = np.outer(np.arange(n), np.arange(n)) % n
    return np.exp(sign * 2j * np.pi * turns / n)


def scale_of(norm, n, forward=True):
    return {"ortho": 1 / math.sqrt(n), "forward": 1 / n if forward else 1}.get(norm, 1 if forward else 1 / n)


def fit(x, n, axis):
    """x cut or continued with zeros."""
    x = np.moveaxis(x, axis, -1)[..., :n]
    x = np.concatenate([x, np.zeros((*x.shape[:-1], n - x.shape[-1]), x.dtype)], -1)
    return np.moveaxis(x, -1, axis)


def transform(x, n=None, axis=-1, norm=None, forward=True):
    """The definition."""
    n = x.shape[axis] if n is None else n
    x = np.moveaxis(fit(x.astype(np.complex128), n, axis), axis, -1)
    return np.moveaxis(x @ fourier_matrix(n, -1 if forward else 1), -1, axis) * scale_of(norm, n, forward)


def array(t):
    return t.resolve_conj().numpy()


def near(got, want, dtype=np.float64):
    want = np.asarray(want)
    got = array(got)
    assert got.shape == want.shape
    size = np.linalg.norm(want)
    assert np.linalg.norm(got - want) <= PRECISION[dtype] * max(size, 1e-300)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("n", SIZES)
def test_every_length(n, dtype):
    x = numbers(9, n, dtype=dtype)
    near(F.fft(tocha.tensor(x)), transform(x), dtype)
    near(F.ifft(tocha.tensor(x)), transform(x, forward=False), dtype)
    near(F.fft(tocha.tensor(x[0])), transform(x[0]), dtype)
    near(F.fft(tocha.tensor(x).t(), dim=0), transform(x).T, dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", SIZES)
def test_real_lines_of_every_length(n, dtype):
    x = numbers(9, n, dtype=dtype)
    want = transform(x)[:, : n // 2 + 1]
    t = tocha.tensor(x)
    near(F.rfft(t), want, dtype)
    near(F.rfft(t[0]), want[0], dtype)
    near(F.rfft(t.t(), dim=0), want.T, dtype)
    near(F.fft(t), transform(x), dtype)
    near(F.fft(t[0]), transform(x[0]), dtype)
    half = tocha.tensor(want.astype(np.complex64 if dtype is np.float32 else np.complex128))
    near(F.irfft(half, n), x, dtype)
    near(F.irfft(half[0], n), x[0], dtype)
    near(F.irfft(half.t(), n, dim=0), x.T, dtype)


@pytest.mark.parametrize("n", [4096, 5000, 6561, 8190, 10007, 2 * 5003, 65536, 100003])
def test_long_lines(n):
    # Against a transform that is known: a few waves, and a peak.
    k = np.array([1, n // 3, n - 2])
    grid = np.arange(n)
    x = sum(np.exp(2j * np.pi * ((grid * f) % n) / n) * (i + 1) for i, f in enumerate(k))
    want = np.zeros(n, complex)
    want[k] = n * np.arange(1, 4)
    for lines in (1, 5):
        got = F.fft(tocha.tensor(np.tile(x, (lines, 1))))
        near(got, np.tile(want, (lines, 1)))
        near(F.ifft(got), np.tile(x, (lines, 1)))
    real = tocha.tensor(x.real.copy())
    near(F.irfft(F.rfft(real), n), x.real)
    full = array(F.fft(real))
    near(F.rfft(real), full[: n // 2 + 1])
    np.testing.assert_allclose(full[1:], full[1:][::-1].conj(), atol=1e-9)


def test_lines_of_different_magnitude_do_not_disturb_each_other():
    x = numbers(8, 15, dtype=np.float32)
    x[::2] *= 1e20
    got = array(F.rfft(tocha.tensor(x)))
    for i in range(8):
        want = transform(x[i])[:8]
        assert np.linalg.norm(got[i] - want) <= 1e-6 * np.linalg.norm(want)


@pytest.mark.parametrize("norm", NORMS)
def test_norms(norm):
    x, r = numbers(3, 12), numbers(3, 12, dtype=np.float64)
    t, q = tocha.tensor(x), tocha.tensor(r)
    near(F.fft(t, norm=norm), transform(x, norm=norm))
    near(F.ifft(t, norm=norm), transform(x, norm=norm, forward=False))
    near(F.rfft(q, norm=norm), transform(r, norm=norm)[:, :7])
    near(F.ihfft(q, norm=norm), transform(r, norm=norm, forward=False)[:, :7])
    near(F.irfft(F.rfft(q, norm=norm), norm=norm), r)
    near(F.hfft(F.ihfft(q, norm=norm), norm=norm), r)
    near(F.ifftn(F.fftn(t, norm=norm), norm=norm), x)
    near(F.irfftn(F.rfftn(q, norm=norm), norm=norm), r)
    near(F.hfftn(F.ihfftn(q, norm=norm), norm=norm), r)
    near(F.ifft2(F.fft2(t, norm=norm), norm=norm), x)
    near(F.irfft2(F.rfft2(q, norm=norm), norm=norm), r)
    near(F.hfft2(F.ihfft2(q, norm=norm), norm=norm), r)


@settings(max_examples=60)
@given(
    shape=st.lists(st.integers(1, 9), min_size=1, max_size=4),
    data=st.data(),
    norm=st.sampled_from(NORMS),
    real=st.booleans(),
    forward=st.booleans(),
)
def test_any_dims_and_sizes(shape, data, norm, real, forward):
    x = numbers(*shape, dtype=np.float64 if real else np.complex128)
    dims = data.draw(st.permutations(range(len(shape))).map(lambda p: p[: data.draw(st.integers(1, len(shape)))]))
    sizes = [data.draw(st.integers(1, 11)) for _ in dims]
    order = data.draw(st.permutations(range(len(shape))))
    t = tocha.tensor(np.ascontiguousarray(x.transpose(order))).permute(*np.argsort(order).tolist())
    want = x
    for d, n in zip(dims, sizes, strict=True):
        want = transform(want, n, d, norm, forward)
    near((F.fftn if forward else F.ifftn)(t, sizes, dims, norm), want)
    if real and forward:
        got = F.rfftn(t, sizes, dims, norm)
        near(got, np.take(want, range(sizes[-1] // 2 + 1), dims[-1]))
        near(F.irfftn(got, sizes, dims, norm), np.broadcast_to(refit(x, dims, sizes), want.shape))


def refit(x, dims, sizes):
    for d, n in zip(dims, sizes, strict=True):
        x = fit(x, n, d)
    return x


def test_conjugate_views_and_layouts():
    x = numbers(6, 8)
    t = tocha.tensor(x)
    near(F.fft(t.conj()), transform(x.conj()))
    near(F.irfft(t.conj()), np.fft.irfft(x.conj()))
    near(F.fft(t[::2, ::3]), transform(x[::2, ::3]))
    near(F.fft(t[:1].expand(4, 8)), transform(np.broadcast_to(x[:1], (4, 8))))
    near(F.rfft(t.conj().imag), transform(x.conj().imag)[:, :5])
    near(F.fftn(t.t(), dim=(0,)), transform(x.T, axis=0))


@pytest.mark.parametrize("n", [2, 4, 5, 6, 64, 30000])
def test_one_number_for_all_points(n):
    wide = tocha.tensor([[2.0], [3.0]]).expand(2, n)
    for transform in (F.rfft, F.fft, F.hfft):
        tocha.testing.assert_close(transform(wide), transform(wide.contiguous()))
    z = tocha.ones(n // 2 + 1, dtype=tocha.complex64, requires_grad=True)
    (gradient,) = tocha.autograd.grad(F.irfft(z, n=n).sum(), z)
    assert gradient[0] == 1 and gradient[1:].abs().max() < 1e-5


def test_integers_and_bool_become_the_default_float():
    assert F.fft(tocha.arange(4)).dtype == tocha.complex64
    assert F.rfft(tocha.tensor([True, False])).dtype == tocha.complex64
    assert F.irfft(tocha.arange(3)).dtype == tocha.float32
    tocha.set_default_dtype(tocha.float64)
    try:
        assert F.fft(tocha.arange(4)).dtype == tocha.complex128
    finally:
        tocha.set_default_dtype(tocha.float32)


def test_real_spectra_ignore_what_cannot_be():
    """The imaginary parts of the first and the last frequency belong to no real signal."""
    x = numbers(3, 5)
    y = x.copy()
    y[:, 0] = x[:, 0].real
    y[:, -1] = x[:, -1].real
    near(F.irfft(tocha.tensor(x)), array(F.irfft(tocha.tensor(y))))
    near(F.irfft(tocha.tensor(x)), np.fft.irfft(x))


ERRORS = [
    (lambda x: F.fft(x, 0), RuntimeError, "Invalid number of data points (0) specified"),
    (lambda x: F.irfft(x[:, :1]), RuntimeError, "Invalid number of data points (0) specified"),
    (lambda x: F.fft(x, norm="none"), RuntimeError, 'Invalid normalization mode: "none"'),
    (lambda x: F.fft(x, dim=2), IndexError, "Dimension out of range"),
    (lambda x: F.fft(tocha.tensor(1.0)), IndexError, "Dimension specified as -1 but tensor has no dimensions"),
    (lambda x: F.rfft(x.to(tocha.complex64)), RuntimeError, "rfft expects a real input tensor, but got ComplexFloat"),
    (lambda x: F.ihfft(x.to(tocha.complex64)), RuntimeError, "ihfft expects a real input tensor"),
    (lambda x: F.rfftn(x.to(tocha.complex64)), RuntimeError, "rfftn expects a real-valued input tensor"),
    (lambda x: F.ihfftn(x.to(tocha.complex64)), RuntimeError, "Only supports floating-point dtypes"),
    (lambda x: F.fft(x.half()), RuntimeError, "Unsupported dtype Half"),
    (lambda x: F.fftn(x, dim=(0, 0)), RuntimeError, "FFT dims must be unique"),
    (lambda x: F.fftn(x, s=(2, 2, 2)), RuntimeError, "Got shape with 3 values but input tensor only has 2 dimensions."),
    (lambda x: F.fftn(x, s=(2,), dim=(0, 1)), RuntimeError, "dim and shape arguments must have the same length"),
    (lambda x: F.rfftn(x, dim=()), RuntimeError, "rfftn must transform at least one axis"),
    (lambda x: F.hfftn(x, dim=()), RuntimeError, "hfftn must transform at least one axis"),
    (lambda x: F.fft(x, out=tocha.empty(3, 4)), RuntimeError, "fft expects a complex output tensor, but got Float"),
    (
        lambda x: F.irfft(x, out=tocha.empty(3, dtype=tocha.int64)),
        RuntimeError,
        "expects a floating point output tensor",
    ),
    (lambda x: F.fftfreq(4, dtype=tocha.int64), RuntimeError, "fftfreq requires a floating point or complex dtype"),
    (lambda x: tocha._fft_c2c(x, [0], 0, True), RuntimeError, "Only supports complex dtypes, but found: Float"),
    (lambda x: tocha._fft_c2r(x.to(tocha.complex64), [0], 0, 99), RuntimeError, "Invalid number of data points (99)"),
    (lambda x: tocha._fft_r2c(x, [], 0, True), RuntimeError, "at least one dim"),
    (lambda x: tocha._fft_r2c(x, [0], 5, True), RuntimeError, "Unsupported normalization type5"),
]


@pytest.mark.parametrize(("call", "kind", "phrase"), ERRORS)
def test_refusals(call, kind, phrase):
    with pytest.raises(kind) as caught:
        call(tocha.ones(3, 4))
    assert phrase in str(caught.value)


def test_out():
    x = numbers(3, 4, dtype=np.complex64)
    out = tocha.empty(4, 3, dtype=tocha.complex64).t()
    assert F.fft(tocha.tensor(x), out=out) is out
    near(out, transform(x), np.complex64)
    assert out.stride() == (1, 3)
    t = tocha.tensor(x)
    F.fft(t, out=t)
    near(t, transform(x), np.complex64)
    wide = tocha.empty(0, dtype=tocha.complex128)
    F.fft(tocha.tensor(x), out=wide)
    assert wide.dtype == tocha.complex128


def test_frequencies():
    assert F.fftfreq(5).tolist() == pytest.approx([0, 0.2, 0.4, -0.4, -0.2])
    assert F.fftfreq(4, 0.5).tolist() == [0, 0.5, -1, -0.5]
    assert F.rfftfreq(4, 0.5).tolist() == [0, 0.5, 1]
    assert F.fftfreq(0).tolist() == []
    assert all(math.isinf(v) or math.isnan(v) for v in F.fftfreq(3, 0.0).tolist())
    assert F.fftfreq(3, dtype=tocha.float64, requires_grad=True).requires_grad
    grid = tocha.arange(12).reshape(3, 4)
    assert F.fftshift(tocha.arange(5)).tolist() == [3, 4, 0, 1, 2]
    assert F.ifftshift(F.fftshift(grid)).tolist() == grid.tolist()
    assert F.fftshift(grid, dim=1).tolist() == [[2, 3, 0, 1], [6, 7, 4, 5], [10, 11, 8, 9]]


@pytest.mark.parametrize(
    ("f", "real"),
    [
        (lambda x: F.fft(x, 5), False),
        (lambda x: F.fft(x, 3, 0, "ortho"), True),
        (lambda x: F.ifftn(x, (3, 5)), False),
        (lambda x: F.rfft(x), True),
        (lambda x: F.rfft(x, 5), True),
        (lambda x: F.rfftn(x, (3, 4), norm="forward"), True),
        (lambda x: F.irfft(x, 6), False),
        (lambda x: F.irfft(x, 5), False),
        (lambda x: F.irfftn(x, (3, 7)), False),
        (lambda x: F.hfft2(x), False),
        (lambda x: F.ihfft2(x), True),
        (lambda x: tocha._fft_c2r(x, [0, 1], 0, 3), False),
    ],
)
def test_gradients(f, real):
    x = tocha.tensor(numbers(3, 4, dtype=np.float64 if real else np.complex128), requires_grad=True)
    assert gradcheck(f, (x,), check_forward_ad=True)
    assert gradgradcheck(f, (x,))


def test_meta_tensors_have_shapes():
    x = tocha.empty(3, 4, 5, device="meta")
    assert F.rfftn(x).shape == (3, 4, 3)
    assert F.irfft(x, 7, 0).shape == (7, 4, 5)
    assert F.fft(x, 9).dtype == tocha.complex64


def test_empty_batches():
    assert F.fft(tocha.empty(0, 4)).shape == (0, 4)
    assert F.irfft(tocha.empty(0, 4)).shape == (0, 6)
    assert F.fftn(tocha.tensor(2.0)).tolist() == 2


def test_threads_share_plans():
    """More lengths than are kept, from several threads at once."""
    wrong = []

    def work(seed):
        for n in range(40, 140):
            x = numbers(2, n, seed=seed)
            if not np.allclose(array(F.ifft(F.fft(tocha.tensor(x)))), x):
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


# -- short-time transforms -----------------------------------------------------------------------------


def spectra(x, n_fft, hop, window):
    """The definition, for a signal that is already continued at its ends."""
    starts = range(0, len(x) - n_fft + 1, hop)
    return np.stack([transform(x[i : i + n_fft] * window)[: n_fft // 2 + 1] for i in starts], -1)


def test_stft():
    x, w = numbers(50, dtype=np.float64), np.hanning(16)
    t, window = tocha.tensor(x), tocha.tensor(w)
    near(tocha.stft(t, 16, 5, window=window, center=False, return_complex=True), spectra(x, 16, 5, w))
    for mode in ("reflect", "constant", "edge"):
        longer = np.pad(x, 8, mode=mode)
        name = "replicate" if mode == "edge" else mode
        near(t.stft(16, 4, window=window, pad_mode=name, return_complex=True), spectra(longer, 16, 4, w))
    short = np.zeros(16)
    short[3:13] = w[:10]
    got = tocha.stft(t, 16, 4, 10, window[:10], center=False, return_complex=True)
    near(got, spectra(x, 16, 4, short))
    got = tocha.stft(t, 16, 4, 10, window[:10], center=False, return_complex=True, align_to_window=True)
    near(got, spectra(np.pad(x, 3), 16, 4, short))
    both = tocha.stft(t, 16, window=window, return_complex=True, onesided=False, normalized=True)
    near(both[:9] * 4, array(tocha.stft(t, 16, window=window, return_complex=True)))
    with pytest.warns(UserWarning, match="return_complex=False is deprecated"):
        parts = tocha.stft(t, 16, window=window, return_complex=False)
    assert parts.shape == (9, 13, 2)


@pytest.mark.parametrize("shape", [(60,), (3, 60)])
@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize("onesided", [True, False])
def test_istft_inverts(shape, normalized, onesided):
    x, window = tocha.tensor(numbers(*shape, dtype=np.float64)), tocha.hann_window(16, dtype=tocha.float64)
    options = {"window": window, "normalized": normalized, "onesided": onesided}
    s = tocha.stft(x, 16, 4, return_complex=True, **options)
    near(tocha.istft(s, 16, 4, **options), array(x))
    near(s.istft(16, 4, length=50, **options), array(x)[..., :50])
    longer = tocha.istft(s, 16, 4, length=80, **options)
    assert longer.shape[-1] == 80
    assert (longer[..., 70:] == 0).all()


def test_complex_signals():
    x = tocha.tensor(numbers(2, 40))
    window = tocha.tensor(numbers(8))
    s = tocha.stft(x, 8, 2, window=window)
    assert s.shape == (2, 8, 21)
    assert s.dtype == tocha.complex128
    ones = tocha.ones(8, dtype=tocha.float64)
    s = tocha.stft(x, 8, 2, window=ones)
    near(tocha.istft(s, 8, 2, window=ones, onesided=False, return_complex=True), array(x))


SHORT_TIME_ERRORS = [
    (lambda x, s: tocha.stft(x, 8), "requires the return_complex parameter be given for real inputs"),
    (lambda x, s: tocha.stft(x, 99, center=False, return_complex=True), "expected 0 < n_fft < 40, but got n_fft=99"),
    (lambda x, s: tocha.stft(x, 8, 0, return_complex=True), "expected hop_length > 0, but got hop_length=0"),
    (lambda x, s: tocha.stft(x, 8, 2, 9, return_complex=True), "expected 0 < win_length <= n_fft"),
    (lambda x, s: tocha.stft(x, 8, window=tocha.ones(7), return_complex=True), "expected a 1D window tensor of size"),
    (
        lambda x, s: tocha.stft(x, 8, return_complex=True, align_to_window=True),
        "should only be set when center = false",
    ),
    (lambda x, s: tocha.stft(x.long(), 8, center=False, return_complex=True), "expected a tensor of floating point"),
    (lambda x, s: tocha.stft(x[None, None], 8, center=False, return_complex=True), "expected a 1D or 2D tensor"),
    (lambda x, s: tocha.stft(x, 8, window=tocha.ones(8) * 1j, onesided=True), "Cannot have onesided output"),
    (lambda x, s: tocha.istft(x, 8), "requires a complex-valued input tensor"),
    (lambda x, s: tocha.istft(s[:, :0], 8), "input tensor cannot be empty."),
    (lambda x, s: tocha.istft(s[None, None], 8), "expected a tensor with 3 or 4 dimensions, but got 5"),
    (lambda x, s: tocha.istft(s, 12), "to match n_fft / 2 + 1 when onesided=True, but got 5"),
    (lambda x, s: tocha.istft(s, 8, onesided=False), "to match n_fft when onesided=False, but got 5"),
    (lambda x, s: tocha.istft(s, 8, 9), "expected 0 < hop_length <= win_length"),
    (lambda x, s: tocha.istft(s, 8, 2, 9), "expected 0 < win_length <= n_fft"),
    (lambda x, s: tocha.istft(s, 8, 2, 8, tocha.ones(5)), "Invalid window shape"),
    (lambda x, s: tocha.istft(s, 8, 2, 8, tocha.zeros(8)), "window overlap add min: 1"),
    (lambda x, s: tocha.istft(s, 8, 2, 8, tocha.ones(8) * 1j), "Complex windows are incompatible"),
]


@pytest.mark.filterwarnings("ignore:A window was not provided")
@pytest.mark.parametrize(("call", "phrase"), SHORT_TIME_ERRORS)
def test_short_time_refusals(call, phrase):
    with pytest.raises(RuntimeError) as caught:
        call(tocha.ones(40), tocha.ones(5, 6, dtype=tocha.complex64))
    assert phrase in str(caught.value)


def test_short_time_gradients():
    x = tocha.tensor(numbers(2, 20, dtype=np.float64), requires_grad=True)
    w = tocha.rand(8, dtype=tocha.float64, requires_grad=True)
    assert gradcheck(lambda x, w: tocha.stft(x, 8, 3, window=w, return_complex=True), (x, w))
    s = tocha.tensor(numbers(2, 5, 6), requires_grad=True)
    w = (tocha.rand(8, dtype=tocha.float64) + 1).requires_grad_()
    assert gradcheck(lambda s, w: tocha.istft(s, 8, 2, window=w), (s, w))
