"""Python numbers that a dtype cannot hold: refused, wrapped or rounded as in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from processor import X86

import tocha

INF, NAN = float("inf"), float("nan")
DTYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64")
NUMBERS = (
    2**63, 2**64 - 1, -(2**63), 2**31, 300, -1, -129, -200, -256, 70000, 1e300, 1e5, 1.5, 300.7, -0.5, -1.5,
    2.0**63, 9.3e18, 1e19, NAN, INF, -INF, 1 + 2j, 1 + 0j, True, 3.4e38, 4e38,
)  # fmt: skip


def assigned(m: Any, d: Any, index: Any, number: Any) -> Any:
    x = m.zeros(1, dtype=d)
    x[index(m)] = number
    return x


CALLS: dict[str, Callable] = {
    "full": lambda m, d, v: m.full((1,), v, dtype=d),
    "full_like": lambda m, d, v: m.full_like(m.zeros(1, dtype=d), v),
    "scalar_tensor": lambda m, d, v: m.scalar_tensor(v, dtype=d),
    "fill_": lambda m, d, v: m.zeros(1, dtype=d).fill_(v),
    "masked_fill": lambda m, d, v: m.zeros(1, dtype=d).masked_fill(m.tensor([True]), v),
    "masked_fill_": lambda m, d, v: m.zeros(1, dtype=d).masked_fill_(m.tensor([True]), v),
    "masked_fill of a tensor": lambda m, d, v: m.zeros(1, dtype=d).masked_fill(m.tensor([True]), m.tensor(v)),
    "index_fill": lambda m, d, v: m.zeros(1, dtype=d).index_fill(0, m.tensor([0]), v),
    "scatter": lambda m, d, v: m.zeros(1, dtype=d).scatter(0, m.tensor([0]), v),
    "x[0] = v": lambda m, d, v: assigned(m, d, lambda m: 0, v),
    "x[i] = v": lambda m, d, v: assigned(m, d, lambda m: m.tensor([0]), v),
    "x[mask] = v": lambda m, d, v: assigned(m, d, lambda m: m.tensor([True]), v),
    "tensor": lambda m, d, v: m.tensor([v], dtype=d),
    "clamp": lambda m, d, v: m.ones(1, dtype=d).clamp(v),
    "clamp to both": lambda m, d, v: m.ones(1, dtype=d).clamp(0, v),
    "where": lambda m, d, v: m.where(m.tensor([True]), v, m.zeros(1, dtype=d)),
    "add": lambda m, d, v: m.ones(1, dtype=d).add(v),
    "mul": lambda m, d, v: m.ones(1, dtype=d).mul(v),
    "eq": lambda m, d, v: m.ones(1, dtype=d) == v,
    "threshold": lambda m, d, v: m.nn.functional.threshold(m.ones(1, dtype=d), 2, v),
    "addcmul": lambda m, d, v: m.addcmul(*[m.ones(1, dtype=d)] * 3, value=v),
    "leaky_relu": lambda m, d, v: m.nn.functional.leaky_relu(m.ones(1, dtype=d), v),
    "hardshrink": lambda m, d, v: m.hardshrink(m.ones(1, dtype=d), v),
    "lerp": lambda m, d, v: m.lerp(m.ones(1, dtype=d), m.ones(1, dtype=d), v),
    "linspace": lambda m, d, v: m.linspace(0, v, 2, dtype=d),
}


# PyTorch takes complex numbers without an imaginary part as bounds and weights, and says double of others.
REAL_ONLY = ("clamp", "clamp to both", "lerp")


def outcome(m: Any, f: Callable, dtype: str, number: Any) -> str:
    try:
        return str(f(m, getattr(m, dtype), number).tolist())
    except (RuntimeError, ValueError, OverflowError, TypeError) as e:
        if isinstance(e, NotImplementedError) or "not implemented" in str(e):
            return "not implemented"
        phrase = "without overflow" in str(e) and str(e)[str(e).index("value cannot") : str(e).index("overflow")]
        return f"{type(e).__name__} {phrase}"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("f", CALLS.values(), ids=CALLS.keys())
def test_outcomes_are_those_of_pytorch(f: Callable) -> None:
    wrong = []
    numbers = [n for n in NUMBERS if not (isinstance(n, complex) and f in [CALLS[name] for name in REAL_ONLY])]
    if X86:  # its conversion of the float 2 ** 63 gives the least integer, that of ARM the greatest
        numbers = [n for n in numbers if type(n) is not float or n != 2.0**63]
    for dtype in DTYPES:
        for number in numbers:
            want = outcome(torch, f, dtype, number)
            if f is CALLS["clamp to both"] and number in (2**63, 2**64 - 1) and want == "RuntimeError False":
                continue  # refused here too, but for its size, not for its type beside the other bound's
            if want != "not implemented" and (got := outcome(tocha, f, dtype, number)) != want:
                wrong.append((dtype, number, want, got))
    assert not wrong, "\n".join(map(str, wrong))
