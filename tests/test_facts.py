"""Every record runs interpreted, on ints and on symbols, with the facts that the native call gives. No operator is named here.

What depends on elements says so: its shape has an unbacked symbol, or the interpreter raises DataDependent.
"""

from __future__ import annotations

import warnings

import facts_harness as h
import pytest
import samples as s

import tocha
from tocha.ir import dtypes as dt
from tocha.ir.shape_env import GuardOnDataDependentSymNode, ShapeEnv
from tocha.operators.differentiate import Call, gradients
from tocha.operators.facts import Facts
from tocha.operators.interpreter import DataDependent, Interpreter, formula_of

CALLABLE = [o for o in s.all_operators() if s.function_of(o) is not None and o.kind != "foreach"]
DIFFERENTIABLE = [
    o for o in CALLABLE if "no_gradient" not in o.tags and (o.gradients or o.kind in ("pointwise", "view"))
]


def named(o) -> str:
    return o.full_name


def usual_dtype(o):
    return dt.float32 if not o.dtypes or dt.float32 in o.dtypes else o.dtypes[0]


def native_call(o, sample):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return s.function_of(o)(*sample.args, **sample.kwargs)


@pytest.mark.parametrize("o", CALLABLE, ids=named)
def test_facts_are_the_native_ones(o):
    ran = unknown = 0
    for sample in s.samples(o, usual_dtype(o)):
        memories = h.Memories()
        interpreter = Interpreter()
        try:
            result = h.interpreted(
                interpreter, o, memories.facts(sample.args), {k: memories.facts(v) for k, v in sample.kwargs.items()}
            )
        except DataDependent as e:
            assert h.says_so(e), "the record does not say that it reads elements"
            unknown += 1
            continue
        native = native_call(o, sample)
        assert h.described(result) == h.described(native)
        assert h.sharing(o, result, memories) == h.native_sharing(o, native, sample)
        ran += 1
    assert ran or unknown


@pytest.mark.parametrize("o", CALLABLE, ids=named)
def test_facts_on_symbols(o):
    """Symbols in place of sizes, evaluated at their hints, give the native facts."""
    for sample in s.samples(o, usual_dtype(o)):
        env = ShapeEnv()
        memories = h.Memories()
        interpreter = h.SymbolicInterpreter(env)
        args = h.symbolic(env, memories.facts(sample.args))
        kwargs = {k: h.symbolic(env, memories.facts(v)) for k, v in sample.kwargs.items()}
        try:
            result = h.interpreted(interpreter, o, args, kwargs)
        except (DataDependent, GuardOnDataDependentSymNode) as e:
            assert h.says_so(e)
            continue
        if not env.unbacked:
            assert h.described(h.at_hints(env, result)) == h.described(native_call(o, sample))


@pytest.mark.parametrize("o", [o for o in CALLABLE if o.kind in ("pointwise", "reduction")], ids=named)
def test_formulas_and_folds_add_no_guards(o):
    for sample in s.samples(o, usual_dtype(o)):
        env = ShapeEnv()
        memories = h.Memories()
        args = h.symbolic(env, memories.facts(sample.args))
        kwargs = {k: h.symbolic(env, memories.facts(v)) for k, v in sample.kwargs.items()}
        h.interpreted(h.SymbolicInterpreter(env), o, args, kwargs)
        assert not env.guards


def differentiable_inputs(o, arguments) -> list[str]:
    names = (
        formula_of(o).operands
        if o.kind == "pointwise"
        else [n for names in o.gradients for n in names] or [o.schema.arguments[0].name]
    )
    found = []
    for n in names:
        values = arguments[n] if isinstance(arguments[n], list) else [arguments[n]]
        given = [v for v in values if v is not None]
        if given and all(isinstance(v, Facts) and v.dtype.is_differentiable for v in given):
            found.append(n)
    return found


@pytest.mark.parametrize("o", DIFFERENTIABLE, ids=named)
def test_gradients_run_interpreted(o):
    """Each input's gradient has the input's shape and dtype, as native autograd's has."""
    d = dt.float64 if not o.dtypes or dt.float64 in o.dtypes else usual_dtype(o)
    for sample in s.gradient_samples(o, d):
        if o.name.endswith("_"):
            continue
        results = native_call(o, sample)
        results = list(results) if isinstance(results, list | tuple) else [results]
        memories = h.Memories()
        outs = [memories.facts(r) for r in results]
        grads = [
            memories.facts(tocha.ones_like(r)) if r.is_floating_point() or r.is_complex() else None for r in results
        ]
        if not any(g is not None for g in grads):
            continue
        arguments = h.bound(o, memories.facts(sample.args), {k: memories.facts(v) for k, v in sample.kwargs.items()})
        wanted = [n for n in differentiable_inputs(o, arguments) if h.has_derivative(o, n, d)]
        try:
            found = gradients(Interpreter(), Call(o, arguments, outs), grads, wanted)
        except DataDependent as e:
            assert h.says_so(e)
            continue
        for n, g in found.items():
            if isinstance(g, Facts):
                assert (g.shape, g.dtype) == (arguments[n].shape, arguments[n].dtype)
