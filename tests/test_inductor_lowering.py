"""Formulas and folds become loops: one that does not is a call of the whole operator, which gives the same values and is not noticed otherwise."""

from __future__ import annotations

from typing import Any

import pytest

import tocha
import tocha.nn.functional as F
from tocha._inductor.graph import lower_graph
from tocha._inductor.lowering import REFUSALS, Lowering
from tocha.fx.experimental.proxy_tensor import make_fx
from tocha.ir import dtypes as dt
from tocha.ir.assumptions import Assumptions
from tocha.ir.devices import CPU
from tocha.ir.loops import Call, Loop
from tocha.operators import families
from tocha.operators.derived import resolve, type_codes
from tocha.operators.facts import Facts
from tocha.operators.interpreter import converter, default_of
from tocha.operators.record import OPERATORS, Operator

REQUIRED = {"Scalar": 1, "float": 1.0, "int": 1, "bool": True, "int[]": [1]}  # where an argument has no default


def arguments_of(o: Operator, lowering: Lowering, dtype: dt.DType) -> dict[str, Any]:
    """Matrices in the dtypes that the record wants, and numbers."""
    made: dict[str, Any] = {}
    codes = iter(type_codes(o)[1] if o.kind == "pointwise" else ())
    for a in o.schema.arguments:
        if a.is_tensor:
            made[a.name] = Facts([3, 4], resolve(next(codes, "T"), dtype), CPU)
            lowering.buffer(made[a.name], a.name)
        else:
            made[a.name] = converter(a)(REQUIRED[a.type.removesuffix("?")] if a.default is None else default_of(a))
    return made


def outcome(o: Operator, dtype: dt.DType) -> str:
    """What becomes of an operator on matrices of a dtype. What is raised and is no refusal is a defect."""
    lowering = Lowering(Assumptions())
    try:
        with lowering:
            lowering.call(o, arguments_of(o, lowering, dtype))
    except REFUSALS as reason:
        return f"refused: {reason}"
    return "loops" if all(isinstance(step, Loop) for step in lowering.steps) else "whole"


@pytest.mark.parametrize("dtype", [dt.float32, dt.bfloat16, dt.int64, dt.bool_, dt.complex64], ids=str)
@pytest.mark.parametrize("kind", ["pointwise", "reduction"])
def test_formulas_and_folds_are_loops(kind, dtype):
    families.load()
    records = [
        o for o in OPERATORS.values()
        if o.kind == kind and dtype in o.dtypes and "nondeterministic_seeded" not in o.tags
    ]  # fmt: skip
    found = {o.full_name: outcome(o, dtype) for o in records}
    assert found and {name: what for name, what in found.items() if what != "loops"} == {}


def test_what_is_no_refusal_is_raised(monkeypatch):
    """A defect of a lowering is not taken for an operator that stays whole."""
    record = OPERATORS["relu"]
    monkeypatch.setattr(record, "body", lambda x: x.nothing_of_this_name)
    graph = make_fx(lambda x: (x.relu(),), tracing_mode="fake")(tocha.randn(3))
    with pytest.raises(AttributeError):
        lower_graph(graph)


@pytest.mark.parametrize("value", [float("nan"), float("-inf"), 1e30, 300.5, -3.7])
def test_floats_that_an_integer_may_not_hold(value):
    tocha._dynamo.reset()
    compiled = tocha.compile(lambda x: (x + 1).copy_(value))
    for dtype in (tocha.int64, tocha.uint8):
        x = tocha.arange(4, dtype=dtype)
        assert tocha.equal(compiled(x), (x + 1).copy_(value))


@pytest.mark.parametrize("accumulate", [False, True])
def test_masked_indices_count_from_the_end_and_are_clamped(accumulate):
    """Indices that are out of range count as the nearest one in range, from either end."""
    x, index = tocha.arange(1.0, 6.0), tocha.tensor([-2, 3, 9, -9, -5])
    mask, values = tocha.tensor([True, True, False, True, True]), tocha.arange(1.0, 6.0)

    def program(x, mask, index, values):
        if accumulate:
            return tocha.ops.aten._unsafe_masked_index_put_accumulate(x, mask, [index], values)
        return tocha.ops.aten._unsafe_masked_index(x, mask, [index], 7)

    assert tocha.compile(program)(x, mask, index, values).tolist() == program(x, mask, index, values).tolist()


def test_the_default_dtype_holds_for_calls_too():
    """Of tensors that are made, and of numbers in calls of whole operators."""

    def f(x):
        return (
            tocha.full((2,), 1.5), tocha.arange(1.5), tocha.full((2,), x.sum().item() > 0), tocha.arange(3) / 2, tocha.linspace(0, 1, 3),
            tocha.zeros(2), tocha.arange(3).mean(dtype=None if x.is_complex() else tocha.get_default_dtype()), tocha.eye(2), x.new_ones(2),
            tocha.hann_window(4), tocha.arange(4).cumsum(0) * 1.5, tocha.cat([tocha.arange(2), tocha.tensor([0.5])]), tocha.rand(2),
        )  # fmt: skip

    x = tocha.arange(3)
    tocha.set_default_dtype(tocha.float64)
    try:
        found, expected = tocha.compile(f)(x), f(x)
    finally:
        tocha.set_default_dtype(tocha.float32)
    assert [t.dtype for t in found] == [t.dtype for t in expected]
    assert all(a.equal(b) for a, b in zip(found[:-1], expected[:-1], strict=True))


def test_what_has_too_many_parts_is_given_up_early(monkeypatch):
    steps = []
    add = Lowering.add
    monkeypatch.setattr(Lowering, "add", lambda self, step: (steps.append(step), add(self, step)))
    graph = make_fx(lambda x: [F.adaptive_avg_pool2d(x, (3, 3))], tracing_mode="fake")(tocha.ones(1, 2, 31, 31))
    program = lower_graph(graph)  # windows of 11 by 11 places
    assert [type(x) for x in program.steps] == [Call]
    assert len(steps) < 100
