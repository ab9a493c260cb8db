"""First and second derivatives at kinks, ties, bounds and extremes: every elementwise record against PyTorch.

The points are the same for all; the records' numbers (bounds, slopes, thresholds) take values that are points too, and what
arrives from above is a number, 0, infinite or NaN. Where PyTorch's own vector and scalar code disagree, nothing is asked.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from beside import Operator, all_operators, counterpart, function_of, tensors_of

import tocha

FAMILIES = ("activations", "arithmetic", "blend", "exponential", "losses", "rounding", "special", "trigonometric")
INF, NAN = float("inf"), float("nan")
POINTS = (0.0, -0.0, 0.5, -0.5, 0.3, 1.0, -1.0, 3.0, -3.0, 6.0, 20.0, -20.0, 1e10, -1e10, INF, -INF, NAN)
FEW = (0.0, 1.0, -1.0, 0.3, 3.0, INF)  # for three operands
WEIGHTS = (1.0, -0.5, 0.0, INF, NAN)  # the gradients of results
TURN = 11  # by so many places, other points are behind the last full vector
NUMBERS = (0.0, 0.5, 1.0, 3.0)


def is_covered(o: Operator) -> bool:
    if o.module not in FAMILIES or o.kind not in ("pointwise", "composite") or o.name.endswith("_"):
        return False
    others = [a.type for a in o.schema.arguments if a.default is None and a.type not in ("Tensor", "Operand")]
    if "n" in tensors_of(o):  # the degree of a polynomial: as many steps as it says, none of them differentiable
        return False
    return 1 <= len(tensors_of(o)) <= 3 and set(others) <= {"Scalar", "float"} and counterpart(o) is not None


def numbers_of(o: Operator) -> list[dict[str, float]]:
    """The calls' numbers: 0.5 for all that are required, and each number at each of its values."""
    required = {a.name: 0.5 for a in o.schema.arguments if a.default is None and a.type not in ("Tensor", "Operand")}
    calls = [required]
    for a in o.schema.arguments:
        if a.type in ("Scalar", "Scalar?", "float", "float?"):
            calls += [{**required, a.name: v} for v in NUMBERS]
    return calls


Columns = list[list[float]]


def derivatives(
    m: Any, function: Any, o: Operator, columns: Columns, numbers: dict[str, float], dtype: str, strided: bool = False
) -> dict:
    """Gradients, the same with a graph, and the gradients of those, by the inputs they are for. The last column is what arrives."""
    d = getattr(m, dtype)

    def tensor(values: list[float]) -> Any:
        t = m.tensor(values, dtype=d)
        return m.stack([t, t], 1)[:, 0] if strided else t

    *inputs, weights = (tensor(c) for c in columns)
    inputs = [t.detach().requires_grad_() for t in inputs]
    rest = iter(inputs)
    args: list = []
    kwargs: dict = {}
    for a in o.schema.arguments:
        if a.name in tensors_of(o):
            args.append(next(rest))
        elif a.name in numbers and a.default is None and not a.keyword_only:
            args.append(numbers[a.name])
        elif a.name in numbers:
            kwargs[a.name] = numbers[a.name]
        elif a.name == "reduction":
            kwargs[a.name] = "none" if m is torch else 0
    out = function(*args, **kwargs)
    if not isinstance(out, m.Tensor) or not out.requires_grad or out.shape != weights.shape:
        return {}
    found: dict = {}
    plain = m.autograd.grad(out, inputs, weights, retain_graph=True, allow_unused=True)
    graphed = m.autograd.grad(out, inputs, weights, create_graph=True, allow_unused=True)
    for i, (p, g) in enumerate(zip(plain, graphed, strict=True)):
        found[f"d{i}"], found[f"d{i} with a graph"] = p, g
        if g is None or not g.requires_grad:
            continue
        arriving = {
            "": m.ones_like(g),
            " of g": g.detach(),
            " of inf": m.full_like(g, INF),
            " of nan": m.full_like(g, NAN),
        }
        for word, v in arriving.items():
            second = m.autograd.grad(g, inputs, v, retain_graph=True, allow_unused=True)
            found |= {f"d{i}{j}{word}": s for j, s in enumerate(second)}
    return {k: np.zeros(len(columns[0])) if v is None else v.detach().double().numpy() for k, v in found.items()}


def equal(a: np.ndarray, b: np.ndarray, dtype: str) -> np.ndarray:
    rtol, atol = (1e-7, 1e-12) if dtype == "float64" else (2e-4, 1e-6)
    with np.errstate(all="ignore"):
        close = np.abs(a - b) <= rtol * np.maximum(np.abs(a), np.abs(b)) + atol
        return (a == b) | (np.isnan(a) & np.isnan(b)) | close


# PyTorch's loses the digits of the lower tail.
UNLIKE = ("special_log_ndtr",)
# PyTorch's second derivatives are NaN where something overflows on the way; ours are the limits.
OVERFLOWS = ("nn_mish",)
# The derivative is a difference of equals far from 0: what is infinite, times its last bit.
LAST_BITS = ("special_i0e", "special_i1e")
# PyTorch's 2 x erfcx(x) - 2 / sqrt(pi) is the difference of two equal numbers far out; ours is the series.
SERIES = ("special_erfcx",)
COVERED = [o for o in all_operators() if is_covered(o) and o.name not in UNLIKE]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("o", COVERED, ids=lambda o: o.full_name)
def test_derivatives_are_those_of_pytorch(o: Operator) -> None:
    n = len(tensors_of(o))
    points = list(itertools.product(*[POINTS if n < 3 else FEW] * n, WEIGHTS if n < 3 else (1.0, 0.0)))
    columns = [[p[k] for p in points] for k in range(n + 1)]
    far = np.array([max(map(abs, p[:-1])) >= 1e10 for p in points])
    ours, theirs, wrong = function_of(o), counterpart(o), []
    for numbers, dtype in itertools.product(numbers_of(o), ("float64", "float32")):
        try:
            want = derivatives(torch, theirs, o, columns, numbers, dtype)
            scalar = derivatives(torch, theirs, o, columns, numbers, dtype, strided=True)
            turned = derivatives(torch, theirs, o, [c[-TURN:] + c[:-TURN] for c in columns], numbers, dtype)
        except (RuntimeError, TypeError, ValueError):  # no derivative there, or no such argument
            continue
        got = derivatives(tocha, ours, o, columns, numbers, dtype)
        for key in want:
            if key not in got:
                continue
            settled = equal(scalar[key], want[key], dtype) & equal(np.roll(turned[key], -TURN), want[key], dtype)
            same = equal(got[key], want[key], dtype) | ~settled
            if "graph" not in key and len(key) > 2:
                same |= np.isnan(want[key[:2]])  # where the first is no number, its derivative says nothing
                if o.name in OVERFLOWS:
                    same |= np.isnan(want[key])
            if o.name in LAST_BITS + SERIES:
                same |= far
            at = np.nonzero(~same)[0]
            if len(at):
                show = [(points[i], want[key][i], got[key][i]) for i in at[:4]]
                wrong.append(f"{key} {dtype} {numbers}: {len(at)} differ, (point, PyTorch's, ours): {show}")
    assert not wrong, "\n".join(wrong)


def test_coverage() -> None:
    assert len(COVERED) > 100
