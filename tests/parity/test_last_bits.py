"""Results that equal PyTorch's to the last bit: sums with alpha and cross products, which round once less than written, and windows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import tocha

DTYPES = ["float32", "float64"]


def random(seed: int, *shape: int, dtype: str = "float32") -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def differing(want: torch.Tensor, got: tocha.Tensor) -> int:
    assert str(want.dtype).split(".")[1] == str(got.dtype).split(".")[1] and want.shape == got.shape
    return int((want.double().numpy() != got.double().numpy()).sum())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["add", "sub", "add_", "sub_", "rsub"])
@pytest.mark.parametrize("size", [1, 7, 16, 33, 1000])
def test_sums_with_alpha_round_once(name: str, dtype: str, size: int) -> None:
    a, b = random(1, size, dtype=dtype), random(2, size, dtype=dtype)

    def run(m: Any, step: int) -> Any:
        x, y = m.tensor(np.repeat(a, step))[::step], m.tensor(np.repeat(b, step))[::step]
        return m.rsub(x, y, alpha=0.3) if name == "rsub" else getattr(x, name)(y, alpha=0.3)

    assert [differing(run(torch, step), run(tocha, step)) for step in (1, 2)] == [0, 0]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dim", [0, 1])
def test_cross_products_round_one_product(dtype: str, dim: int) -> None:
    shape = (3, 50) if dim == 0 else (50, 3)
    a, b = random(3, *shape, dtype=dtype), random(4, *shape, dtype=dtype)
    want = torch.linalg.cross(torch.tensor(a), torch.tensor(b), dim=dim)
    assert differing(want, tocha.linalg.cross(tocha.tensor(a), tocha.tensor(b), dim=dim)) == 0


def windows(m: Any, name: str, dtype: str, flag: bool, size: int) -> Any:
    if name.endswith("_window"):
        return getattr(m, name)(size, periodic=flag, dtype=getattr(m, dtype))
    return getattr(m.signal.windows, name)(size, sym=flag, dtype=getattr(m, dtype))


def share_differing(name: str, dtype: str) -> float:
    different = total = 0
    for flag in (True, False):
        for size in range(201):
            different += differing(windows(torch, name, dtype, flag, size), windows(tocha, name, dtype, flag, size))
            total += size
    return different / total


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["bartlett_window", "bartlett"])
def test_windows_of_arithmetic(name: str, dtype: str) -> None:
    assert share_differing(name, dtype) == 0


# The steps are PyTorch's; a cosine or an exponential may differ in its last bit.
TRANSCENDENTAL = [
    "hann_window", "hamming_window", "blackman_window", "hann", "hamming", "blackman", "nuttall", "general_hamming", "cosine", "gaussian",
    "exponential",
]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", TRANSCENDENTAL)
def test_windows_of_cosines_and_exponentials(name: str, dtype: str) -> None:
    assert share_differing(name, dtype) < 0.1
