"""Strides of elementwise results on strange layouts: dims of size one with strides of their own, expanded, permuted, empty.

Every elementwise record against PyTorch, in all dtypes that both take.
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from beside import Operator, all_operators, counterpart, function_of, tensors_of

import tocha

FAMILIES = (
    "activations", "arithmetic", "blend", "comparison", "complex", "exponential", "logic", "rounding", "special", "trigonometric",
)  # fmt: skip
Geometry = tuple[tuple[int, ...], tuple[int, ...]]
ROWS: Geometry = ((2, 3), (3, 1))
GEOMETRIES: list[Geometry] = [
    ROWS, ((2, 3), (1, 2)), ((1, 3), (1, 1)), ((1, 3), (7, 1)), ((3, 1), (1, 10)), ((1, 1), (5, 7)), ((1, 2, 1, 1), (2, 1, 10, 10)),
    ((2, 3), (0, 1)), ((2, 3), (1, 0)), ((2, 3), (6, 2)), ((2, 3, 4), (1, 8, 2)), ((1, 3, 2, 2), (12, 1, 6, 3)), ((0, 3), (1, 1)), ((2, 0), (1, 1)),
    ((2, 0, 3), (1, 5, 2)), ((), ()), ((3,), (2,)), ((2, 3, 4), (12, 0, 1)),
]  # fmt: skip
# PyTorch computes them by several operators, whose layouts differ in dims of size one; ldexp of an empty tensor, too.
UNLIKE = (
    "isinf",
    "isfinite",
    "isreal",
    "deg2rad",
    "rad2deg",
    "prelu",
    "ldexp",
    "square",
    "view_as_complex",
    "_neg_view",
)
DTYPES = ("float32", "int64", "bool", "complex64")


def is_covered(o: Operator) -> bool:
    if o.module not in FAMILIES or o.kind not in ("pointwise", "composite") or o.name.endswith("_") or o.name in UNLIKE:
        return False
    needed = [a.name for a in o.schema.arguments if a.default is None]
    return needed == tensors_of(o) and len(needed) in (1, 2) and counterpart(o) is not None


def tensor(m: Any, geometry: Geometry, dtype: str) -> Any:
    sizes, strides = geometry
    last = sum((n - 1) * s for n, s in zip(sizes, strides, strict=True)) if 0 not in sizes else 0
    t = m.arange(last + 1) % 5 + 1
    return (t > 2 if dtype == "bool" else t.to(getattr(m, dtype))).as_strided(sizes, strides)


def layouts(m: Any, function: Any, geometries: tuple[Geometry, ...], dtype: str) -> list | None:
    try:
        results = function(*(tensor(m, g, dtype) for g in geometries))
    except (RuntimeError, TypeError, ValueError):
        return None
    results = results if isinstance(results, tuple) else (results,)
    return [(tuple(r.shape), r.stride()) for r in results if isinstance(r, m.Tensor)]


def broadcast(a: Geometry, b: Geometry) -> bool:
    return all(x == y or 1 in (x, y) for x, y in zip(a[0][::-1], b[0][::-1], strict=False))


COVERED = [o for o in all_operators() if is_covered(o)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("o", COVERED, ids=lambda o: o.full_name)
def test_layouts_are_those_of_pytorch(o: Operator) -> None:
    single: list[tuple[Geometry, ...]] = [(g,) for g in GEOMETRIES]
    pairs: list[tuple[Geometry, ...]] = [p for p in itertools.product(GEOMETRIES, repeat=2) if broadcast(*p)]
    wrong = []
    for dtype, given in itertools.product(DTYPES, single if len(tensors_of(o)) == 1 else pairs):
        want = layouts(torch, counterpart(o), given, dtype)
        if want is not None and (got := layouts(tocha, function_of(o), given, dtype)) != want:
            wrong.append(f"{dtype} {given}: PyTorch's {want}, ours {got}")
    assert not wrong, "\n".join(wrong[:8])


def test_coverage() -> None:
    assert len(COVERED) > 120


@pytest.mark.parametrize("sizes", [(0, 3), (2, 0), (2, 3), (0,)])
def test_places_of_nothing(sizes: tuple[int, ...]) -> None:
    assert tocha.zeros(sizes).nonzero().stride() == torch.zeros(sizes).nonzero().stride()


@pytest.mark.parametrize("left", [((1, 5), (5, 1)), ((3, 1), (1, 10)), ((2, 3), (3, 1)), ((1, 1), (5, 7))], ids=str)
@pytest.mark.parametrize("right", [((5, 1), (1, 5)), ((1, 3), (7, 1)), ((2, 3), (3, 1))], ids=str)
def test_layout_of_kron(left: Geometry, right: Geometry) -> None:
    want = layouts(torch, torch.kron, (left, right), "float32")  # None where PyTorch's product cannot be viewed
    assert want is None or layouts(tocha, tocha.kron, (left, right), "float32") == want


@pytest.mark.parametrize("name", ["kl_div", "binary_cross_entropy_with_logits"])
@pytest.mark.parametrize(
    "given", list(itertools.product([ROWS, ((2, 3), (1, 2)), ((2, 3), (6, 2))], repeat=2)), ids=str
)
def test_layout_of_losses(name: str, given: tuple[Geometry, Geometry]) -> None:
    def run(m: Any) -> list | None:
        return layouts(m, lambda a, b: getattr(m.nn.functional, name)(a, b, reduction="none"), given, "float32")

    assert run(tocha) == run(torch)


@pytest.mark.parametrize(
    "program",
    [
        lambda m, x: m.nn.functional.group_norm(x, 2),
        lambda m, x: m.nn.functional.grid_sample(x, m.zeros(2, 3, 5, 2), align_corners=False),
        lambda m, x: m.nn.functional.pad(x, (1, 1, 1, 1), "circular"),
        lambda m, x: m.nn.functional.pad(x, (1, -1, 1, 1), "circular"),
        lambda m, x: m.nn.functional.pad(x, (1, 1, 1, 1), "reflect"),
        lambda m, x: m.nn.functional.pad(x, (1, 1, 1, 1), "replicate"),
        lambda m, x: m.nn.functional.instance_norm(x),
    ],
)
def test_layout_of_pictures_with_channels_last(program: Any) -> None:
    def pictures(m: Any) -> Any:
        return m.arange(192.0).view(2, 4, 6, 4).contiguous(memory_format=m.channels_last).sin()

    want = program(torch, pictures(torch))
    for run in (lambda x: program(tocha, x), tocha.compile(lambda x: program(tocha, x))):
        got = run(pictures(tocha))
        assert got.stride() == want.stride()
        torch.testing.assert_close(torch.tensor(got.tolist()), want, rtol=1e-5, atol=1e-5)
