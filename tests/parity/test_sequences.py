"""Sequences and inverse functions to the last bit: arange, range, linspace, logspace, erfinv and what is drawn with it."""

from __future__ import annotations

import math
import platform

import numpy as np
import pytest
import torch
from beside import ours, same_bits, theirs

import tocha

SIZES = (*range(1, 41), 100, 1000, 1001, 4097, 32769, 70000)
FLOATS = ("float32", "float64", "bfloat16", "float16")
INTS = ("uint8", "int8", "int16", "int32", "int64")
# PyTorch's vectors are wider on other processors, and erfinv is another library's there.
arm = pytest.mark.skipif(platform.machine() != "aarch64", reason="measured on ARM")


def check(got: tocha.Tensor, want: torch.Tensor, call: object) -> None:
    assert tuple(got.shape) == tuple(want.shape)
    wrong = ~same_bits(theirs(got), want)
    assert not wrong.any(), (call, int(wrong.sum()), want[wrong][:3], theirs(got)[wrong][:3])


@pytest.mark.parametrize("dtype", FLOATS)
def test_linspace(dtype: str) -> None:
    r = np.random.default_rng(0)
    for n in SIZES:
        a, b = r.integers(-40, 40, 2) / 8 if dtype == "float16" else r.normal(size=2) * 10
        check(
            tocha.linspace(a, b, n, dtype=getattr(tocha, dtype)),
            torch.linspace(a, b, n, dtype=getattr(torch, dtype)),
            (a, b, n),
        )


@pytest.mark.parametrize("dtype", INTS)
def test_linspace_of_integers(dtype: str) -> None:
    r = np.random.default_rng(0)
    low, high = (0, 255) if dtype == "uint8" else (-128, 127)
    for n in SIZES:
        a, b = r.uniform(low, high, 2)
        check(
            tocha.linspace(a, b, n, dtype=getattr(tocha, dtype)),
            torch.linspace(a, b, n, dtype=getattr(torch, dtype)),
            (a, b, n),
        )


# On x86-64 PyTorch's powers of float64 come from another library: their last bits do, and integers beside them.
ON_ARM = [pytest.param(d, marks=arm) for d in ("float64", "int64")]


@pytest.mark.parametrize("dtype", ("float32", "bfloat16", *ON_ARM))
def test_logspace(dtype: str) -> None:
    r = np.random.default_rng(0)
    for n in SIZES:
        a, b = r.normal(size=2)
        for base in (10.0, 2.0, math.e):
            kwargs = {"base": base, "steps": n}
            check(
                tocha.logspace(a, b, dtype=getattr(tocha, dtype), **kwargs),
                torch.logspace(a, b, dtype=getattr(torch, dtype), **kwargs),
                (a, b, kwargs),
            )


@arm
@pytest.mark.parametrize("dtype", FLOATS)
def test_arange(dtype: str) -> None:
    r = np.random.default_rng(0)
    for n in SIZES:
        a, step = r.integers(-40, 40) / 8, r.normal()
        call = (a, a + step * (n - 0.5), step)
        check(tocha.arange(*call, dtype=getattr(tocha, dtype)), torch.arange(*call, dtype=getattr(torch, dtype)), call)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", ("float32", ON_ARM[0]))
def test_range(dtype: str) -> None:
    r = np.random.default_rng(0)
    for n in SIZES:
        a, step = r.normal() * 10, r.normal()
        call = (a, a + step * (n - 0.5), step)
        check(tocha.range(*call, dtype=getattr(tocha, dtype)), torch.range(*call, dtype=getattr(torch, dtype)), call)


@arm
@pytest.mark.parametrize("dtype", ("float32", "float64"))
def test_erfinv(dtype: str) -> None:
    r = np.random.default_rng(0)
    near = 1 - 10.0 ** r.uniform(-7, -1, 1000)
    x = torch.tensor(np.concatenate([r.uniform(-1, 1, 5000), near, -near, [0, -0.0, 0.7, -0.7, 1, -1, 2, np.nan]]))
    x = x.to(getattr(torch, dtype))
    check(tocha.erfinv(ours(x)), torch.erfinv(x), "erfinv")


@arm
def test_weights_from_a_truncated_normal_distribution() -> None:
    torch.manual_seed(3)
    tocha.manual_seed(3)
    want = torch.nn.init.trunc_normal_(torch.empty(64, 48), std=0.02, a=-0.03, b=0.05)
    check(tocha.nn.init.trunc_normal_(tocha.empty(64, 48), std=0.02, a=-0.03, b=0.05), want, "trunc_normal_")
