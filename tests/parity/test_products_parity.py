"""Products of integers with results of another dtype against PyTorch.

Needs torch beside tocha; run by `make parity`.
"""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import tocha  # noqa: E402

rng = np.random.default_rng(0)
A, B = rng.integers(-128, 128, (6, 40)).astype(np.int8), rng.integers(-128, 128, (40, 5)).astype(np.int8)


def result(f, t):
    try:
        r = f(t, t.tensor(A), t.tensor(B))
    except Exception as e:
        return type(e)
    return str(r.dtype).split(".")[-1], tuple(r.shape), r.stride(), r.numpy().tolist()


@pytest.mark.parametrize(
    "f",
    [
        lambda t, a, b: t._int_mm(a, b),
        lambda t, a, b: t._int_mm(a.view(t.uint8), b),
        lambda t, a, b: t._int_mm(b.t(), a.t()),
        lambda t, a, b: t._int_mm(a[:, ::2], b[::2]),
        lambda t, a, b: t._int_mm(a[:0], b),
        lambda t, a, b: t._int_mm(a[:, :0], b[:0]),
        lambda t, a, b: t._int_mm(a, b, out=t.empty(6, 5, dtype=t.int32)),
        lambda t, a, b: t._int_mm(a, b, out=t.empty(5, 6, dtype=t.int32)),
        lambda t, a, b: t._int_mm(a, b, out=t.empty(0, dtype=t.int32)),
        lambda t, a, b: t._int_mm(a, b, out=t.empty(6, dtype=t.int32)),
        lambda t, a, b: t._int_mm(a, b, out=t.empty(6, 5, 1, dtype=t.int32)),
        lambda t, a, b: t._int_mm(a, b, out=t.empty(5, 6, dtype=t.int32).t()),
        lambda t, a, b: t._int_mm(a, b, out=t.empty(6, 5)),
        lambda t, a, b: t._int_mm(a, a),
        lambda t, a, b: t._int_mm(a[0], b),
        lambda t, a, b: t._int_mm(a, b[0]),
        lambda t, a, b: t._int_mm(a[0, 0], b),
        lambda t, a, b: t._int_mm(a, b[0, 0]),
        lambda t, a, b: t._int_mm(a[None], b),
        lambda t, a, b: t._int_mm(a, b[None]),
        lambda t, a, b: t._int_mm(a.int(), b),
        lambda t, a, b: t._int_mm(a, b.view(t.uint8)),
        lambda t, a, b: t._int_mm(a.float(), b),
    ],
)
def test_int_mm(f):
    assert result(f, tocha) == result(f, torch)
