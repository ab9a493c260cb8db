"""Fourier transforms: lines of many lengths, planes and volumes, real and complex, short-time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from workloads import Workload, pair

rng = np.random.default_rng(5)
POINTS = 1 << 16  # of a batch


def complex_numbers(*shape: int) -> np.ndarray:
    return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(np.complex64)


def real_numbers(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def called(name: str, x: np.ndarray, function: str, **options: object) -> Workload:
    """tocha.fft.function(x) and its counterpart."""

    def make(m, t):
        given, f = t(x), getattr(m.fft, function)
        return lambda: f(given, **options)

    return pair("fft", name, make, 1.0)


def workloads() -> Iterator[Workload]:
    for n in (64, 100, 128, 243, 251, 256, 512, 1000, 1009, 1024, 2048, 4093, 4096):
        batch = max(1, POINTS // n)
        yield called(f"fft {batch}x{n}", complex_numbers(batch, n), "fft")
        yield called(f"rfft {batch}x{n}", real_numbers(batch, n), "rfft")
    for n in (64, 256, 1024):
        yield called(f"irfft {POINTS // n}x{n}", complex_numbers(POINTS // n, n // 2 + 1), "irfft")
        yield called(f"fft of columns {n}x{POINTS // n}", complex_numbers(n, POINTS // n), "fft", dim=0)
    for n in (64, 251, 1024, 4096, 65536):
        yield called(f"fft of one line, {n}", complex_numbers(n), "fft")
        yield called(f"rfft of one line, {n}", real_numbers(n), "rfft")
    for n, k in ((64, 64), (127, 127), (251, 251), (256, 256), (1009, 64), (1024, 1024), (4096, 64), (4093, 64)):
        yield called(f"fft2 {n}x{k}", complex_numbers(n, k), "fft2")
        yield called(f"rfft2 {n}x{k}", real_numbers(n, k), "rfft2")
    for n in (32, 64, 97, 100):
        yield called(f"fftn {n}x{n}x{n}", complex_numbers(n, n, n), "fftn")
        yield called(f"rfftn {n}x{n}x{n}", real_numbers(n, n, n), "rfftn")
    sound, window = real_numbers(4, 16000), np.hanning(400).astype(np.float32)

    def short_time(m, t):
        x, w = t(sound), t(window)
        return lambda: m.stft(x, 400, 160, window=w, return_complex=True)

    yield pair("fft", "stft 4x16000, 400 points", short_time, 1.0)
