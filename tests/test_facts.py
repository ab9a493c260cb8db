"""Every record runs interpreted, on ints and on symbols, with the facts that the native call gives. No operator is named here.

What depends on elements says so: its shape has an unbacked symbol, or the interpreter raises DataDependent.
"""

from __future__ import annotations

import warnings
from functools import partial

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


def both_forms(o, sample, native, interpreted) -> None:
    """The facts of the interpreted form are those of the native one; where that refuses, so does this."""
    memories = h.Memories()
    facts = memories.facts(list(sample.args)), {k: memories.facts(v) for k, v in sample.kwargs.items()}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = native()
    except RuntimeError:
        expected = None
    try:
        with Interpreter() as it:
            found = interpreted(it, memories, h.bound(o, *facts))
    except DataDependent as e:
        assert h.says_so(e)
        return
    except RuntimeError:
        assert expected is None
        return
    assert expected is not None, "the native form refuses"
    assert h.described(found) == h.described(expected)


def check_in_place(o, sample) -> None:
    def interpreted(it, memories, arguments):
        first = arguments[o.schema.arguments[0].name]
        result = it.call(o, arguments, True)
        assert result is first
        assert o.kind == "view" or first.memory.version > 0
        return result

    both_forms(o, sample, lambda: s.inplace_forms(o)[0](*sample.args, **sample.kwargs), interpreted)


@pytest.mark.parametrize("o", [o for o in CALLABLE if "inplace" in o.variants], ids=named)
def test_facts_in_place(o):
    for sample in s.samples(o, usual_dtype(o)):
        if isinstance(sample.args[0], tocha.Tensor):
            check_in_place(o, sample)


def out_like(r, empty: bool):
    return tocha.empty(0, dtype=r.dtype) if empty else tocha.empty_like(r)


def check_out(o, sample, outs) -> None:
    given = outs[0] if len(outs) == 1 else tuple(outs)
    targets = [h.Memories().facts(r) for r in outs]

    def interpreted(it, memories, arguments):
        found = it.into(o, arguments, targets)
        assert all(f is t for f, t in zip(h.flat(found), targets, strict=True))
        return found

    both_forms(o, sample, lambda: s.function_of(o)(*sample.args, **sample.kwargs, out=given), interpreted)


@pytest.mark.parametrize("empty", [False, True], ids=["alike", "empty"])
@pytest.mark.parametrize("o", [o for o in CALLABLE if "out" in o.variants], ids=named)
def test_facts_with_out(o, empty):
    """out= of the results' shape, and without elements, which takes that shape."""
    for sample in s.samples(o, usual_dtype(o)):
        results = native_call(o, sample)
        check_out(o, sample, [out_like(r, empty) for r in (results if isinstance(results, tuple) else [results])])


FOREACH = [o for o in s.all_operators() if o.kind == "foreach"]


@pytest.mark.parametrize("o", FOREACH, ids=named)
def test_facts_of_lists(o):
    for sample in s.samples(o, usual_dtype(o)):
        both_forms(o, sample, partial(native_call, o, sample), lambda it, _, arguments: it.call(o, arguments))


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
