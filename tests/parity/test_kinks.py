"""First and second derivatives at kinks, ties, bounds and extremes: every elementwise record against PyTorch.

The points are the same for all; the records' numbers (bounds, slopes, thresholds) take values that are points too.
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
INF = float("inf")  # of NaN PyTorch's own vector and scalar code disagree
POINTS = (0.0, -0.0, 0.5, -0.5, 0.3, 1.0, -1.0, 3.0, -3.0, 6.0, 20.0, -20.0, 1e10, -1e10, INF, -INF)
FEW = (0.0, 1.0, -1.0, 0.3, 3.0, INF)  # for three operands
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


def derivatives(m: Any, function: Any, o: Operator, columns: list, numbers: dict[str, float], dtype: str) -> dict:
    """Gradients, the same with a graph, and the gradients of those, by the inputs they are for."""
    d = getattr(m, dtype)
    inputs = [m.tensor(c, dtype=d, requires_grad=True) for c in columns]
    rest = iter(inputs)
    args, kwargs = [], {}
    for a in o.schema.arguments:
        if a.name in tensors_of(o):
            args.append(next(rest))
        elif a.name in numbers and a.default is None and not a.keyword_only:
            args.append(numbers[a.name])
        elif a.name in numbers:
            kwargs[a.name] = numbers[a.name]
    out = function(*args, **kwargs)
    if not isinstance(out, m.Tensor) or not out.requires_grad:
        return {}
    weights = m.tensor([1.0 + 0.25 * (i % 3) for i in range(out.numel())], dtype=d).reshape(out.shape)
    found: dict = {}
    plain = m.autograd.grad(out, inputs, weights, retain_graph=True, allow_unused=True)
    graphed = m.autograd.grad(out, inputs, weights, create_graph=True, allow_unused=True)
    for i, (p, g) in enumerate(zip(plain, graphed, strict=True)):
        found[f"d{i}"], found[f"d{i} with a graph"] = p, g
        if g is None or not g.requires_grad:
            continue
        second = m.autograd.grad(g, inputs, m.ones_like(g), retain_graph=True, allow_unused=True)
        found |= {f"d{i}{j}": s for j, s in enumerate(second)}
    return {k: None if v is None else np.array((v.detach() + 0).tolist()) for k, v in found.items()}


def differs(key: str, ours: np.ndarray | None, theirs: np.ndarray | None, rtol: float, atol: float) -> np.ndarray:
    """Where two gradients differ; an absent one is zeros. A second derivative may be a number where PyTorch's is NaN."""
    if ours is None and theirs is None:
        return np.zeros(0, dtype=int)
    shape = (theirs if ours is None else ours).shape
    a, b = (np.zeros(shape) if v is None else v for v in (ours, theirs))
    with np.errstate(all="ignore"):
        same = (
            (a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= rtol * np.maximum(np.abs(a), np.abs(b)) + atol)
        )
    if "graph" not in key and len(key) > 2:
        same |= np.isnan(b)
    return np.nonzero(~same.reshape(-1))[0]


# PyTorch's loses the digits of the lower tail.
UNLIKE = ("special_log_ndtr",)
COVERED = [o for o in all_operators() if is_covered(o) and o.name not in UNLIKE]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("o", COVERED, ids=lambda o: o.full_name)
def test_derivatives_are_those_of_pytorch(o: Operator) -> None:
    n = len(tensors_of(o))
    points = list(itertools.product(POINTS if n < 3 else FEW, repeat=n))
    columns = [[p[k] for p in points] for k in range(n)]
    ours, theirs, wrong = function_of(o), counterpart(o), []
    for numbers, dtype in itertools.product(numbers_of(o), ("float64", "float32")):
        try:
            want = derivatives(torch, theirs, o, columns, numbers, dtype)
        except (RuntimeError, TypeError, ValueError):  # no derivative there, or no such argument
            continue
        got = derivatives(tocha, ours, o, columns, numbers, dtype)
        for key in want:
            if key not in got:
                continue
            first = want[key[:2]]  # where it is no number, its derivative says nothing
            at = differs(key, got[key], want[key], *((1e-7, 1e-12) if dtype == "float64" else (2e-4, 1e-6)))
            at = [i for i in at if first is None or not np.isnan(first.reshape(-1)[i])]
            if at:
                show = [
                    (points[i], *(None if v is None else v.reshape(-1)[i] for v in (want[key], got[key])))
                    for i in at[:4]
                ]
                wrong.append(f"{key} {dtype} {numbers}: {len(at)} differ, (point, PyTorch's, ours): {show}")
    assert not wrong, "\n".join(wrong)


def test_coverage() -> None:
    assert len(COVERED) > 100
