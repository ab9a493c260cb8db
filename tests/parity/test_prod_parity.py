"""The gradient of prod: PyTorch divides where nothing is zero, and multiplies what is around each element elsewhere."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from beside import ours, theirs

import tocha

SPECIAL = (0.0, -0.0, float("inf"), float("nan"), 2.0, -3.0)
DTYPES = ("float32", "float64", "bfloat16", "float16", "complex64")


def gradient(m, x, call):
    x = x.clone().requires_grad_()
    y = call(x)
    return m.autograd.grad(y, x, m.ones_like(y) * 2)[0]


CALLS = (lambda x: x.prod(), lambda x: x.prod(0), lambda x: x.prod(1), lambda x: x.prod(1, keepdim=True))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("zeros", [0, 1, 2, 40])
def test_values(dtype, zeros):
    r = np.random.default_rng(0)
    a = r.normal(size=(17, 9)) + (1j * r.normal(size=(17, 9)) if dtype == "complex64" else 0)
    if zeros:
        a.flat[:: 153 // zeros + 1] = 0
    x = torch.tensor(a).to(getattr(torch, dtype))
    for call in CALLS:
        want, got = gradient(torch, x, call), theirs(gradient(tocha, ours(x), call))
        rounds = (
            {"rtol": 0.03, "atol": 1e-3} if dtype in ("bfloat16", "float16") else {}
        )  # PyTorch's product is rounded often
        torch.testing.assert_close(got, want, **rounds)


def test_zeros_infinities_and_nan():
    for values in itertools.product(SPECIAL, repeat=3):
        x = torch.tensor([values, (1.0, 2.0, 3.0)])
        for call in CALLS:
            want, got = gradient(torch, x, call), theirs(gradient(tocha, ours(x), call))
            assert torch.equal(got.nan_to_num(7), want.nan_to_num(7)), (values, got, want)


def test_what_is_kept():
    for m in (torch, tocha):
        x = m.ones(3, requires_grad=True)
        y = x * 1
        p = y.prod()
        p += 1
        with pytest.raises(RuntimeError, match=r"modified by an inplace operation|in-place"):
            p.backward()
