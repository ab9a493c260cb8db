"""Every record runs interpreted, on ints and on symbols, with the facts that the native call gives. No operator is named here.

What depends on elements says so: its shape has an unbacked symbol, or the interpreter raises DataDependent.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import warnings
from functools import partial

import facts_harness as h
import pytest
import samples as s
from taken_apart import Held, held
from tape import Taped

import tocha
from tocha._subclasses import FakeTensorMode
from tocha.ir import dtypes as dt
from tocha.ir.shape_env import GuardOnDataDependentSymNode, ShapeEnv
from tocha.operators.facts import Facts
from tocha.operators.interpreter import DataDependent, Interpreter

CALLABLE = [o for o in s.all_operators() if s.function_of(o) is not None and o.kind != "foreach"]
DIFFERENTIABLE = [
    o
    for o in CALLABLE
    if "no_gradient" not in o.tags and not o.name.endswith("_") and (not o.dtypes or dt.float64 in o.dtypes)
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


def with_odd_numbers(o, sample):
    """The sample with each of its numbers replaced by those that are no finite ones."""
    numbers = [a.name for a in o.schema.arguments if a.type.rstrip("?") in ("Scalar", "Operand", "float")]
    names = [a.name for a in o.schema.arguments]
    given = dict(zip(names, sample.args, strict=False)) | sample.kwargs
    positional = names[: len(sample.args)]
    for name in numbers:
        for odd in (math.inf, -math.inf, math.nan):
            values = given | {name: odd}
            yield s.Sample(
                tuple(values[n] for n in positional), {n: v for n, v in values.items() if n not in positional}
            )


def native_outcome(o, sample):
    try:
        return h.described(native_call(o, sample))
    except Exception as e:
        return e


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("o", CALLABLE, ids=named)
def test_numbers_that_are_not_finite(o):
    """Python's floor and int() raise for them, C++'s do not: the interpreter refuses what the native call refuses."""
    for d in {usual_dtype(o), *(d for d in (dt.int64, dt.complex64) if not o.dtypes or d in o.dtypes)}:
        for sample in [v for x in s.samples_if_any(o, d) for v in with_odd_numbers(o, x)]:
            native = native_outcome(o, sample)
            memories = h.Memories()
            given = memories.facts(sample.args), {k: memories.facts(v) for k, v in sample.kwargs.items()}
            try:
                result = h.interpreted(Interpreter(), o, *given)
            except DataDependent:
                continue
            except Exception as e:
                assert type(e) is type(native), (d, sample, native)
            else:  # what only kernels look at, the interpreter does not refuse
                assert isinstance(native, Exception) or h.described(result) == native


def columns_first(t):
    return t.mT.contiguous().mT if t.ndim > 1 else t


def with_gaps(t):
    return t.repeat_interleave(2, -1)[..., ::2] if t.ndim else t


def laid_out(value, layout):
    if isinstance(value, tocha.Tensor):
        return layout(value)
    return [laid_out(v, layout) for v in value] if isinstance(value, list | tuple) else value


@pytest.mark.parametrize("layout", [columns_first, with_gaps])
@pytest.mark.parametrize("o", CALLABLE, ids=named)
def test_facts_of_other_layouts(o, layout):
    for sample in s.samples(o, usual_dtype(o)):
        args = tuple(laid_out(a, layout) for a in sample.args)
        kwargs = {k: laid_out(v, layout) for k, v in sample.kwargs.items()}
        memories = h.Memories()
        given = memories.facts(args), {k: memories.facts(v) for k, v in kwargs.items()}
        try:
            native = native_call(o, s.Sample(args, kwargs))
            result = h.interpreted(Interpreter(), o, *given)
        except (RuntimeError, DataDependent, ValueError):  # not every layout can be viewed; elements that decide
            continue
        assert h.described(result) == h.described(native)


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


class Taping(h.SymbolicInterpreter, Taped):
    """Facts with gradients; sizes that depend on elements are unbacked symbols."""


def facts_of(env, sample, symbols):
    memories = h.Memories()
    args, kwargs = memories.facts(list(sample.args)), {k: memories.facts(v) for k, v in sample.kwargs.items()}
    return (h.symbolic(env, args), {k: h.symbolic(env, v) for k, v in kwargs.items()}) if symbols else (args, kwargs)


def tensors_in(arguments, kind) -> list:
    return [x for v in arguments.values() for x in s.leaves(v) if isinstance(x, kind)]


@pytest.mark.parametrize("symbols", [False, True], ids=["ints", "symbols"])
@pytest.mark.parametrize("o", DIFFERENTIABLE, ids=named)
def test_gradients_are_the_native_ones(o, symbols):
    """Gradients of what flows through each record, composites looked into: facts of native autograd's, and as many."""
    for sample in s.gradient_samples(o, dt.float64):
        live = h.live_sample(o, sample)
        try:
            outs = [r for r in s.leaves(native_call(o, live)) if isinstance(r, tocha.Tensor)]
        except RuntimeError as e:
            assert says_no_derivative(e)
            continue
        if any(r.requires_grad for r in outs):
            check_gradients(o, live, outs, symbols)


def says_no_derivative(e: RuntimeError) -> bool:
    return any(phrase in str(e) for phrase in ("not implemented", "not differentiable", "ill-defined", "derivative of"))


def check_gradients(o, live, outs, symbols) -> None:
    named_tensors = h.bound(o, held(list(live.args)), {k: held(v) for k, v in live.kwargs.items()})
    tensors = [x.tensor for x in tensors_in(named_tensors, Held)]
    wanted = [i for i, x in enumerate(tensors) if x.requires_grad]
    chosen = [r for r in outs if r.requires_grad]
    try:
        expected = tocha.autograd.grad(
            chosen, [tensors[i] for i in wanted], [tocha.ones_like(r).contiguous() for r in chosen], allow_unused=True
        )
    except RuntimeError as e:
        expected = [None] * len(wanted)  # no derivative, which is said
        assert says_no_derivative(e)
    it = Taping(ShapeEnv())
    try:
        with it:
            arguments = h.bound(o, *facts_of(it.env, live, symbols))
            results = [r for r in s.leaves(it.call(o, arguments)) if isinstance(r, Facts)]
            through = [r for r, t in zip(results, outs, strict=True) if t.requires_grad]
            found = it.backward(through, [r.fresh() for r in through], tensors_in(arguments, Facts))
    except (DataDependent, GuardOnDataDependentSymNode) as e:
        assert h.says_so(e)
        return
    except RuntimeError as e:
        assert says_no_derivative(e)
        return
    for i, e in zip(wanted, expected, strict=True):
        assert e is None or h.described(h.at_hints(it.env, found[i])) == h.described(e)


# -- symbols survive -----------------------------------------------------------------------------------

GUARDLESS = [
    o
    for o in CALLABLE
    if o.kind in ("pointwise", "reduction", "view") or (o.algorithm == "product" and "rows_by_ends" not in o.tags)
]
OTHER_SIZES = (lambda n: n + 2, lambda n: 2 * n + 1)


@pytest.mark.parametrize("o", GUARDLESS, ids=named)
def test_formulas_folds_views_and_products_add_no_guards(o):
    """Where no size is given as a number, which is another tensor's business."""
    for sample in s.samples(o, usual_dtype(o)):
        in_numbers = any(isinstance(a, int | list | tuple) for a in sample.args[1:])
        if o.kind == "view" and (in_numbers or o.schema.returns[0].type == "Tensor[]"):
            continue  # as many results as the size says
        env = ShapeEnv()
        h.interpreted(h.SymbolicInterpreter(env), o, *facts_of(env, sample, True))
        assert not env.guards


def test_broadcasting_asks_only_what_it_must():
    env = ShapeEnv()
    n, m, k = (env.create_symintnode(env.create_symbol(v, "n"), hint=v) for v in (3, 4, 5))
    whole = Facts((n, m), dt.float32)
    with Interpreter():
        assert (whole + Facts((m,), dt.float32)).sizes == (n, m)
        assert (whole + Facts((n, 1), dt.float32)).sizes == (n, m)
        assert (whole.t() + Facts((m, n), dt.float32)).sizes == (m, n)
        assert (whole + 1).sizes == (n, m)
        assert not env.guards
        with pytest.raises(RuntimeError, match="must match the size"):
            whole + Facts((k,), dt.float32)
    assert env.guards


def has_places(sample) -> bool:
    tensors = [t for t in s.leaves([*sample.args, *sample.kwargs.values()]) if isinstance(t, tocha.Tensor)]
    return any(not t.is_floating_point() and not t.is_complex() for t in tensors)


@pytest.mark.parametrize("grown", OTHER_SIZES, ids=["plus two", "twice plus one"])
@pytest.mark.parametrize("o", CALLABLE, ids=named)
def test_symbols_survive(o, grown):
    """Results at other sizes, where the guards hold, are what the native call gives there."""
    for sample in s.samples(o, usual_dtype(o)):
        env = ShapeEnv()
        try:
            result = h.interpreted(h.SymbolicInterpreter(env), o, *facts_of(env, sample, True))
        except (DataDependent, GuardOnDataDependentSymNode):
            continue
        elsewhere = h.Elsewhere(env, grown)
        if env.unbacked or not elsewhere.guards_hold() or not elsewhere.can_be_made(sample):
            assert o.kind != "pointwise"
            continue
        try:
            native = native_call(o, elsewhere.sample(sample))
        except tocha.linalg.LinAlgError:
            continue  # numbers repeated in a larger matrix
        except RuntimeError:
            assert has_places(sample)  # which are no longer good ones
            continue
        assert h.described(elsewhere.facts(result)) == h.described(native)


def spread(dtype):
    return tocha.arange(4).to(dtype).as_strided((4, 6), (1, 0))


def row_by_row(dtype):
    return tocha.arange(24).view(4, 6).to(dtype)


MIXED = [
    row_by_row,
    spread,
    lambda d: columns_first(row_by_row(d)),
    lambda d: with_gaps(row_by_row(d)),
    lambda d: with_gaps(row_by_row(d).t()).t(),
    lambda d: tocha.arange(6).to(d),
    lambda d: tocha.arange(4).to(d).view(4, 1),
]


@pytest.mark.parametrize(
    "f", [tocha.add, tocha.eq, tocha.copysign, lambda x, y: tocha.where(columns_first(x > 0), x, y)]
)
def test_layouts_of_operands_that_are_cast(f):
    """They count as their copies lie: dims that were spread are no longer the last to be looked at."""
    for first, second in itertools.product(MIXED, MIXED):
        for a, b in itertools.product((tocha.float32, tocha.float64, tocha.complex64), repeat=2):
            x, y = first(a), second(b)
            with contextlib.suppress(RuntimeError):  # no complex signs, no order
                wanted = f(x, y)
                with FakeTensorMode() as mode:
                    found = f(mode.from_tensor(x), mode.from_tensor(y))
                assert (found.dtype, found.shape, found.stride()) == (wanted.dtype, wanted.shape, wanted.stride())
