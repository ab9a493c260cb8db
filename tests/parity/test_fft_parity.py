"""Fourier transforms against PyTorch: values, shapes, strides, conj bits, nodes, warnings and errors of the same calls.

Needs torch beside tocha; run by `make parity`.
"""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest
import torch
from processor import MKL

import tocha

rng = np.random.default_rng(0)
ARRAYS = {
    "x": rng.standard_normal((3, 4, 5)).astype(np.float32),
    "d": rng.standard_normal((3, 4, 5)),
    "c": (rng.standard_normal((3, 4, 5)) + 1j * rng.standard_normal((3, 4, 5))).astype(np.complex64),
    "i": rng.integers(-5, 5, (3, 4, 5)),
    "b": rng.random((3, 4, 5)) > 0.5,
    "signal": rng.standard_normal((2, 50)).astype(np.float32),
    "window": np.hanning(16).astype(np.float32) + np.float32(0.1),
    "s": (rng.standard_normal((2, 9, 6)) + 1j * rng.standard_normal((2, 9, 6))).astype(np.complex64),
}
NAMES = [
    "fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "fft2", "ifft2", "rfft2", "irfft2", "hfft2", "ihfft2", "fftn", "ifftn",
    "rfftn", "irfftn", "hfftn", "ihfftn",
]  # fmt: skip


# Norms and sizes that there are not, dims twice, the wrong kind of number: MKL finds out late, or does not.
MISUSED = {
    "T._fft_c2c(c, [2], 3, False)", "T._fft_c2c(c, [2, 2], 1, False)", "T._fft_c2r(c, [0], 1, 0)", "T._fft_c2r(c, [2], 0, 3)",
    "T._fft_c2r(x, [1, 2], 1, 4)",
}  # fmt: skip


def answer(m, expression):
    """What a call gives: the facts of the result and its values, or the error."""
    values = {name: m.tensor(a) for name, a in ARRAYS.items()}
    values |= {"T": m, "F": m.fft, "t": values["x"].permute(2, 0, 1), "u": values["c"].permute(2, 0, 1)}
    values |= {"g": m.tensor(ARRAYS["x"], requires_grad=True), "h": m.tensor(ARRAYS["c"], requires_grad=True)}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            r = eval(expression, values)
    except Exception as e:
        return type(e), str(e)
    if not isinstance(r, m.Tensor):
        return r, None
    node = re.sub(r"\d+$", "", type(r.grad_fn).__name__)
    facts = (tuple(r.shape), str(r.dtype).split(".")[-1], r.is_conj(), node, r.requires_grad)
    if r.device.type == "meta":  # PyTorch's meta tensors have the strides of another backend than the CPU's
        return facts, None
    return (*facts, r.stride()), r.detach().resolve_conj().numpy()


def phrase(message):
    """PyTorch's sentence without the call that some begin with."""
    return re.sub(r"^i?stft\(.*\) ?:? ?", "", message.split("\n")[0]).strip()


def check(expression):
    (ours, value), (theirs, expected) = answer(tocha, expression), answer(torch, expression)
    if MKL:  # it has strides of its own, refuses empty batches, and knows neither half types nor wrong norms as such
        if theirs is RuntimeError and "MKL" in expected:
            return
        if expression in MISUSED:
            return
        if isinstance(theirs, tuple) and isinstance(ours, tuple):
            ours, theirs = ours[:5], theirs[:5]
    assert ours == theirs
    if isinstance(theirs, type):
        assert phrase(expected).replace("torch", "tocha") in value.replace("torch", "tocha"), value
    elif expected is not None:
        size = max(np.linalg.norm(expected), 1e-30)
        assert np.array_equal(value, expected, equal_nan=True) or np.linalg.norm(value - expected) <= 1e-6 * size


@pytest.mark.parametrize("name", NAMES)
def test_dtypes_layouts_and_norms(name):
    for given in "xdcibtugh":
        check(f"F.{name}({given})")
    for norm in ("None", "'backward'", "'ortho'", "'forward'", "'other'"):
        check(f"F.{name}(t, norm={norm})")
        check(f"F.{name}(u, norm={norm})")
    check(f"F.{name}(x.half())")
    check(f"F.{name}(x.bfloat16())")
    check(f"F.{name}(c.conj())")
    check(f"F.{name}(c.imag)")
    check(f"F.{name}(input=x[:0])")
    check(f"F.{name}(x[..., :0])")
    check(f"F.{name}(T.tensor(1.0))")
    check(f"F.{name}(x, out=T.empty(0))")
    check(f"F.{name}(x, out=T.empty(0, dtype=T.complex64))")
    if name not in ("ifft", "ihfft"):  # PyTorch's take another dtype only of complex inputs
        check(f"F.{name}(x, out=T.empty(0, dtype=T.complex128))")
    check(f"F.{name}(x, out=T.empty(0, dtype=T.float64))")
    check(f"F.{name}(x.to('meta'))")


@pytest.mark.parametrize("name", [n for n in NAMES if n[-1] not in "2n"])
def test_one_dim(name):
    for given in "xcu":
        for n in ("None", "-1", "0", "1", "2", "4", "7"):
            for dim in ("-1", "0", "-3", "3"):
                check(f"F.{name}({given}, {n}, {dim})")


@pytest.mark.parametrize("name", [n for n in NAMES if n[-1] in "2n"])
def test_several_dims(name):
    for given in "xcu":
        for s in ("None", "2", "(2, 7)", "(3, -1)", "(-1, 3)", "(2, 0)", "(2, -2)", "(4, 3, 6)", "(1, 2, 3, 4)", "()"):
            for dim in ("(0, 1)", "(2, 0)", "1", "(0, 0)", "(1, 4)", "(2, 1, 0)", "()"):
                check(f"F.{name}({given}, {s}, {dim})")
            check(f"F.{name}({given}, {s})")


@pytest.mark.parametrize("n", [16, 17, 30, 61, 64, 97, 101, 113, 127, 128, 360, 1000, 1009, 1024, 4096])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_at_least_as_accurate(n, dtype):
    """The distance to the transform in double precision (long double for doubles) is at most a little more than PyTorch's."""
    if dtype is np.float64 and n > 400:
        pytest.skip("the matrix in long doubles takes too long")
    x = rng.standard_normal((6, n)).astype(dtype)
    wide = np.longdouble if dtype is np.float64 else np.float64
    turns = np.outer(np.arange(n), np.arange(n // 2 + 1)) % n
    angle = turns.astype(wide) * (-2 * wide("3.14159265358979323846264338327950288") / n)
    exact = x.astype(wide) @ np.cos(angle) + 1j * (x.astype(wide) @ np.sin(angle))
    for lines in (slice(None), slice(1)):
        want = exact[lines]
        size = np.linalg.norm(want.astype(np.complex128))

        def error(found, want=want, size=size):
            return float(np.linalg.norm((found - want).astype(np.complex128))) / size

        for call in (
            lambda m, v: m.fft.rfft(v),
            lambda m, v: m.fft.fft(v.to(m.complex64 if dtype is np.float32 else m.complex128))[:, : n // 2 + 1],
        ):
            ours = error(call(tocha, tocha.tensor(x[lines])).numpy())
            theirs = error(call(torch, torch.tensor(x[lines])).numpy())
            assert ours <= 1.5 * theirs + np.finfo(dtype).eps / 4


@pytest.mark.parametrize("name", ["rfft", "fft", "irfft", "hfft2", "ihfftn", "rfft2", "irfftn"])
def test_gradients(name):
    for m in (tocha, torch):
        x = m.tensor(
            ARRAYS["d"] if name.startswith(("r", "ih")) else ARRAYS["c"].astype(np.complex128), requires_grad=True
        )
        y = getattr(m.fft, name)(x)
        weights = m.tensor(np.cos(np.arange(y.numel()).reshape(y.shape)))
        (first,) = m.autograd.grad(((y * weights).abs() ** 2).sum(), x, create_graph=True)
        (second,) = m.autograd.grad((first.abs() ** 3).sum(), x)
        found = [g.detach().resolve_conj().numpy() for g in (first, second)]
        if m is tocha:
            ours = found
    for a, b in zip(ours, found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10 * np.abs(b).max())


FREQUENCIES = [
    "F.fftfreq(5)", "F.fftfreq(6, 0.3)", "F.fftfreq(0)", "F.fftfreq(-1)", "F.fftfreq(5, 0.0)", "F.fftfreq(5, dtype=T.int64)",
    "F.fftfreq(7, 0.1, dtype=T.float16)", "F.fftfreq(7, 0.1, dtype=T.complex64)", "F.fftfreq(4, device='meta')",
    "F.fftfreq(4, out=T.empty(0, dtype=T.float64))", "F.fftfreq(4, out=T.empty(0, dtype=T.int64))", "F.rfftfreq(5)", "F.rfftfreq(6, 0.3)",
    "F.rfftfreq(0)", "F.rfftfreq(-3)", "F.rfftfreq(-4)", "F.rfftfreq(1, dtype=T.int32)", "F.fftshift(x)", "F.fftshift(t, 1)",
    "F.fftshift(i, (0, 2))", "F.fftshift(x, (0, 0))", "F.fftshift(x, 5)", "F.fftshift(x, ())", "F.fftshift(T.tensor(1))", "F.fftshift(g)",
    "F.ifftshift(x)", "F.ifftshift(t, -1)", "F.ifftshift(u)",
]  # fmt: skip


@pytest.mark.parametrize("expression", FREQUENCIES)
def test_frequencies(expression):
    check(expression)


PRIMITIVES = [
    "T._fft_c2c(c, [], 0, True)", "T._fft_c2c(u, [2, 0], 1, False)", "T._fft_c2c(c, [2, 2], 1, False)", "T._fft_c2c(x, [2], 1, False)",
    "T._fft_c2c(c, [2], 3, False)", "T._fft_r2c(x, [0], 1, False)", "T._fft_r2c(t, [2, 0], 2, True)", "T._fft_r2c(t, [2, 0], 1, False)",
    "T._fft_r2c(c, [2, 0], 1, True)", "T._fft_r2c(x.half(), [2], 1, True)", "T._fft_c2r(c, [0], 1, 4)", "T._fft_c2r(u, [1, 2], 2, 4)",
    "T._fft_c2r(c, [0], 1, 0)", "T._fft_c2r(c, [2], 0, 3)", "T._fft_c2r(x, [1, 2], 1, 4)", "T._fft_c2c(h, [0], 0, True)",
    "T._fft_r2c(g, [0], 0, True)", "T._fft_c2r(h, [0], 0, 5)",
]  # fmt: skip


@pytest.mark.parametrize("expression", PRIMITIVES)
def test_primitives(expression):
    check(expression)


SHORT_TIME = [
    "T.stft(signal, 16)", "T.stft(signal, 16, return_complex=True)", "T.stft(signal[0], 16, return_complex=True)",
    "T.stft(signal, 16, return_complex=False)", "T.stft(signal, 16, 5, 16, window, True, 'constant', True, True, True)",
    "T.stft(signal, 16, 5, 10, window[:10], return_complex=True)", "T.stft(signal, 16, 5, 10, window, return_complex=True)",
    "T.stft(signal, 16, 5, 20, return_complex=True)", "T.stft(signal, 16, 0, return_complex=True)", "T.stft(signal, 0, 4, return_complex=True)",
    "T.stft(signal, 51, 4, return_complex=True)", "T.stft(signal, 51, 4, return_complex=True, center=False)",
    "T.stft(signal, 51, 4, 10, return_complex=True, center=False)", "T.stft(signal, 100, return_complex=True)",
    "T.stft(signal, 16, win_length=10, return_complex=True, align_to_window=True)",
    "T.stft(signal, 16, win_length=10, return_complex=True, center=False, align_to_window=True)",
    "T.stft(signal, 16, win_length=10, return_complex=True, center=False, align_to_window=False)",
    "T.stft(signal, 16, return_complex=True, pad_mode='other')", "T.stft(signal, 16, return_complex=True, pad_mode='replicate')",
    "T.stft(signal, 16, return_complex=True, pad_mode='circular')", "T.stft(signal[None], 16, return_complex=True)",
    "T.stft(T.tensor(1.0), 16, return_complex=True)", "T.stft(signal.long(), 16, return_complex=True)",
    "T.stft(signal.half(), 16, return_complex=True)", "T.stft(signal * 1j, 16)", "T.stft(signal * 1j, 16, onesided=True)",
    "T.stft(signal * 1j, 16, return_complex=False)", "T.stft(signal, 16, return_complex=True, onesided=False)",
    "T.stft(signal, 16, window=window * 1j)", "T.stft(signal, 16, window=window * 1j, onesided=True)",
    "T.stft(signal, 16, window=window.double(), return_complex=True)", "T.stft(signal.double(), 16, window=window, return_complex=True)",
    "T.stft(signal, 16, window=window[None], return_complex=True)", "T.stft(signal[:, :0], 16, return_complex=True)",
    "T.stft(signal[:0], 16, return_complex=True)", "signal.stft(16, 4, window=window, normalized=True, return_complex=True)",
    "T.stft(signal.to('meta'), 16, 4, return_complex=True)", "T.stft(signal.to('meta'), 16, window=window, return_complex=True)",
    "T.istft(s, 16, window=window)", "T.istft(s, 16)", "T.istft(s[0], 16, 4, window=window)", "T.istft(s, 16, 4, window=window, center=False)",
    "T.istft(s, 16, 4, window=window, length=30)", "T.istft(s, 16, 4, window=window, length=3)", "T.istft(s, 16, 4, window=window, length=0)",
    "T.istft(s, 16, 4, window=window, normalized=True)", "T.istft(s, 16, 4, window=window, onesided=False)",
    "T.istft(s, 9, 4, onesided=False)", "T.istft(s, 9, 4, return_complex=True)", "T.istft(s, 16, 4, return_complex=True)",
    "T.istft(s, 16, 4, window=window * 1j)", "T.istft(s, 9, 4, onesided=False, return_complex=True, window=window[:9] * (1 + 1j))",
    "T.istft(s.real, 16)", "T.istft(s[0, 0], 16)", "T.istft(s[None], 16)", "T.istft(s, 14)", "T.istft(s[:0], 16)", "T.istft(s, 16, 0)",
    "T.istft(s, 16, 20)", "T.istft(s, 16, 4, 20)", "T.istft(s, 16, 4, 10)", "T.istft(s, 16, 4, 10, window[:10])",
    "T.istft(s, 16, 4, 10, window)", "T.istft(s, 16, 4, 16, window * 0)", "T.istft(s, 16, 4, 16, window.double())",
    "T.istft(s, 16, 4, 0)", "T.istft(s, 16, 4, 16, window.to('meta'))", "s.istft(16, 4, window=window)",
    "T.istft(s[:, :1], 1, 1, window=T.ones(1))",
]  # fmt: skip


@pytest.mark.parametrize("expression", SHORT_TIME)
def test_short_time(expression):
    check(expression)


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("T.stft(signal, 16, return_complex=False)", "return_complex=False is deprecated"),
        ("T.istft(s, 16)", "A window was not provided"),
        ("T.istft(s, 16, window=window, length=60)", "The length of signal is shorter than the length parameter"),
    ],
)
def test_warnings_are_in_the_same_words(expression, text):
    """Both libraries say these once in a process, so other calls may have had them already: what is said is compared."""
    said = {}
    for m in (tocha, torch):
        values = {name: m.tensor(a) for name, a in ARRAYS.items()}
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            eval(expression, values | {"T": m})
        said[m] = [re.sub(r" \(Triggered.*", "", str(w.message)).replace("torch", "tocha") for w in caught]
    for messages in said.values():
        assert all(text in message for message in messages)
    if all(said.values()):
        assert said[tocha] == said[torch]
