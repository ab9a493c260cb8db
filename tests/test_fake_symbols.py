"""Symbols survive, derived from the records: results of a call on symbolic fakes, evaluated at other sizes, are those of the real
call there; formulas, folds, views and products add no guards but those of broadcasting.
"""

from __future__ import annotations

import warnings
from typing import Any

import facts_harness as h
import pytest
import samples as s

import tocha
from tocha._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
)
from tocha.ir import dtypes as dt
from tocha.ir.shape_env import GuardOnDataDependentSymNode, ShapeEnv

CALLABLE = [o for o in s.all_operators() if s.function_of(o) is not None and o.kind != "foreach"]
UNKNOWABLE = (DataDependentOutputException, DynamicOutputShapeException, GuardOnDataDependentSymNode)
GROWN = (lambda n: n + 1, lambda n: 2 * n + 3)


def usual_dtype(o):
    return dt.float32 if not o.dtypes or dt.float32 in o.dtypes else o.dtypes[0]


def mapped(f, value: Any) -> Any:
    if isinstance(value, tocha.Tensor):
        return f(value)
    return type(value)([mapped(f, v) for v in value]) if isinstance(value, list | tuple) else value


def tensors(value: Any) -> list:
    return [t for t in h.flat(value) if isinstance(t, tocha.Tensor)]


def native(o, sample) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return s.function_of(o)(*sample.args, **sample.kwargs)


def symbolic_call(o, sample, env) -> Any:
    mode = FakeTensorMode(shape_env=env)
    args = mapped(mode.from_tensor, sample.args)
    kwargs = {k: mapped(mode.from_tensor, v) for k, v in sample.kwargs.items()}
    with warnings.catch_warnings(), mode:
        warnings.simplefilter("ignore")
        return s.function_of(o)(*args, **kwargs)


@pytest.mark.parametrize("o", CALLABLE, ids=lambda o: o.full_name)
def test_other_sizes(o):
    for sample in s.samples(o, usual_dtype(o)):
        env = ShapeEnv()
        try:
            found = [t for t in tensors(symbolic_call(o, sample, env)) if isinstance(t, FakeTensor)]
        except UNKNOWABLE:
            continue
        if env.unbacked:
            continue
        for grow in GROWN:
            elsewhere = h.Elsewhere(env, grow)
            if elsewhere.guards_hold() and elsewhere.can_be_made(sample):
                compare(o, elsewhere, sample, found)


def compare(o, elsewhere, sample, found) -> None:
    try:
        real = tensors(native(o, elsewhere.sample(sample)))
    except (RuntimeError, IndexError, ValueError):
        return  # arguments that do not fit these sizes
    facts = [elsewhere.facts(t._facts) for t in found]
    assert [h.described(f)[:4] for f in facts] == [h.described(r)[:4] for r in real]


def is_elementary(o) -> bool:
    several = [r.type for r in o.schema.returns] == ["Tensor[]"]  # a size is how many there are
    return not several and (o.kind in ("pointwise", "reduction", "view") or o.algorithm == "product")


@pytest.mark.parametrize("o", [o for o in CALLABLE if is_elementary(o)], ids=lambda o: o.full_name)
def test_no_guards_beyond_broadcasting(o):
    """Of samples whose tensors have one shape: nothing is there to be broadcast."""
    for sample in s.samples(o, usual_dtype(o)):
        given = tensors([*sample.args, *sample.kwargs.values()])
        numbers = [v for v in h.flat([*sample.args, *sample.kwargs.values()]) if type(v) is int]
        if len({tuple(t.shape) for t in given}) != 1 or any(n > 1 for n in numbers) or not given[0].is_contiguous():
            continue
        env = ShapeEnv()
        try:
            symbolic_call(o, sample, env)
        except UNKNOWABLE:
            continue
        assert not env.guards, env.format_guards()
