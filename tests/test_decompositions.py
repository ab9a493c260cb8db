"""Every native kernel has a decomposition or says which algorithm it is; both forms of the former give the same values,
gradients and facts. No operator is named here: what reaches a kernel, by its body or in its gradient, is found out.
"""

from __future__ import annotations

import warnings
from functools import cache

import facts_harness as h
import pytest
import samples as s
from taken_apart import Held, NoNativeForm, TakenApart, held, released
from tape import Taped, WrittenOver

import tocha
from tocha.ir import dtypes as dt
from tocha.ir.shape_env import GuardOnDataDependentSymNode, ShapeEnv
from tocha.operators.facts import Facts
from tocha.operators.interpreter import DataDependent, Interpreter

NATIVES = [o for o in s.all_operators() if o.kind == "native"]
DECOMPOSED = [o for o in NATIVES if o.decomposition is not None]
CALLABLE = [o for o in s.all_operators() if s.function_of(o) is not None and o.kind not in ("foreach", "view")]
MOST = 60  # callers of one kernel that are tried
TOLERANCE = {dt.float64: 1e-9, dt.float32: 2e-5, dt.bfloat16: 2e-2, dt.float16: 3e-3}


def named(o) -> str:
    return o.full_name


@pytest.mark.parametrize("o", NATIVES, ids=named)
def test_a_kernel_is_decomposed_or_an_algorithm(o):
    assert (o.decomposition is not None) != bool(o.algorithm)


def usual_dtype(o):
    return dt.float32 if not o.dtypes or dt.float32 in o.dtypes else o.dtypes[0]


@cache
def reached_by(o) -> tuple[frozenset[str], frozenset[str]]:
    """The kernels that o's samples take apart: forward, and in all."""
    forward: set[str] = set()
    everything: set[str] = set()
    for sample in s.samples(o, usual_dtype(o)):
        try:
            it, arguments, result = taken_apart(o, sample)
            forward |= it.reached
            everything |= it.reached
            slopes_taken_apart(it, arguments, result)
            everything |= it.reached
        except (NoNativeForm, WrittenOver, DataDependent):
            continue
    return frozenset(forward), frozenset(everything | forward)


@cache
def reached_in_second_order(o) -> frozenset[str]:
    everything: set[str] = set()
    for sample in s.samples(o, dt.float64) if usable(o, dt.float64) else ():
        it, arguments, result = taken_apart(o, sample)
        try:
            slopes_twice(it, arguments, result)
        except (NoNativeForm, WrittenOver, DataDependent):
            continue
        everything |= it.reached
    return frozenset(everything)


@cache
def callers() -> dict[str, list]:
    found: dict[str, list] = {}
    for o in CALLABLE:
        for name in reached_by(o)[1]:
            found.setdefault(name, []).append(o)
    return found


def native_call(o, sample):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return s.function_of(o)(*sample.args, **sample.kwargs)


def copied(value):
    """Tensors of their own, since kernels may write to their arguments."""
    if isinstance(value, tocha.Tensor):
        return value.clone()
    return type(value)(copied(v) for v in value) if isinstance(value, list | tuple) else value


def close(found, expected, d, scale=1) -> None:
    found, expected = s.leaves(found), s.leaves(expected)
    assert len(found) == len(expected)
    for f, e in zip(found, expected, strict=True):
        if not isinstance(e, tocha.Tensor):
            assert f == e
            continue
        assert (tuple(f.shape), f.stride(), f.dtype) == (tuple(e.shape), e.stride(), e.dtype)
        if e.is_floating_point() or e.is_complex():
            wide = tocha.complex128 if e.is_complex() else tocha.float64
            tol = TOLERANCE[d] * scale
            assert tocha.allclose(f.to(wide), e.to(wide), rtol=tol, atol=tol, equal_nan=True), (f, e)
        else:
            assert tocha.equal(f, e), (f, e)


def taken_apart(o, sample) -> tuple:
    it = TakenApart()
    args = held(copied(list(sample.args)))
    kwargs = {k: held(copied(v)) for k, v in sample.kwargs.items()}
    with warnings.catch_warnings(), it:
        warnings.simplefilter("ignore")
        arguments = h.bound(o, args, kwargs)
        return it, arguments, it.call(o, arguments)


def tried(name: str) -> list:
    """The records by which a kernel is tried: itself where Python can call it."""
    found = callers().get(name, [])
    if not found:
        return [o for o in CALLABLE if o.gradients and name in reached_in_second_order(o)][:MOST]
    own = [o for o in found if o.full_name == name]
    return own or sorted(found, key=lambda o: (name not in reached_by(o)[0], len(reached_by(o)[1])))[:MOST]


def usable(o, d) -> bool:
    return not o.dtypes or d in o.dtypes


@pytest.mark.parametrize("d", [dt.float64, dt.float32, dt.bfloat16], ids=str)
@pytest.mark.parametrize("kernel", DECOMPOSED, ids=named)
def test_values_are_the_kernels(kernel, d):
    ran = refused = 0
    for o in tried(kernel.full_name):
        if not usable(o, d):
            refused += 1
            continue
        for sample in s.samples(o, d):
            if "uninitialized" in o.tags:
                continue
            try:
                expected = native_call(
                    o, s.Sample(copied(sample.args), {k: copied(v) for k, v in sample.kwargs.items()})
                )
            except (NotImplementedError, RuntimeError):
                refused += 1  # a dtype that it does not know
                continue
            it, _, result = taken_apart(o, sample)
            close(released(result), expected, d)
            ran += kernel.full_name in it.reached
    assert ran or refused or only_backward(kernel)


OTHER_DTYPES = [dt.bool_, dt.uint8, dt.int8, dt.int16, dt.int32, dt.int64, dt.float16, dt.complex64, dt.complex128]


@pytest.mark.parametrize("kernel", DECOMPOSED, ids=named)
def test_parts_are_of_the_kernels_dtype(kernel):
    """With operands of every dtype that the kernel takes: a number among the parts may promote them, zero makes a bool int64."""
    for o in tried(kernel.full_name):
        for d in [d for d in OTHER_DTYPES if usable(o, d) and "uninitialized" not in o.tags]:
            for sample in s.samples_if_any(o, d):
                given = s.Sample(copied(sample.args), {k: copied(v) for k, v in sample.kwargs.items()})
                try:
                    expected = native_call(o, given)
                except (NotImplementedError, RuntimeError, TypeError, ValueError):
                    continue  # a dtype that it does not know
                try:
                    found = released(taken_apart(o, sample)[2])
                except NotImplementedError:
                    continue
                assert facts_of(found) == facts_of(expected), (o.full_name, d)
                for f, e in zip(s.leaves(found), s.leaves(expected), strict=True):
                    if not is_floating(e) and d is not dt.uint8:  # images of bytes are resampled in fixed point
                        assert f == e if not isinstance(e, tocha.Tensor) else tocha.equal(f, e), (o.full_name, d)


def facts_of(value) -> list:
    return [(tuple(t.shape), t.stride(), t.dtype) if isinstance(t, tocha.Tensor) else t for t in s.leaves(value)]


def only_backward(kernel) -> bool:
    return not any(kernel.full_name in reached_by(o)[0] for o in tried(kernel.full_name))


@pytest.mark.parametrize("kernel", DECOMPOSED, ids=named)
def test_gradients_are_the_kernels(kernel):
    """The gradients of what comes to a kernel, from its decomposition and those of the kernels in backward."""
    d = dt.float64
    ran = 0
    assert tried(kernel.full_name), "no sample comes to it"
    for o in tried(kernel.full_name):
        if "no_gradient" in o.tags or o.name.endswith("_") or not usable(o, d):
            continue
        for sample in s.gradient_samples(o, d):
            twice = kernel.full_name not in callers()
            ran += kernel.full_name in check_gradients(o, sample, twice)
    assert ran or not only_backward(kernel)


def weights_for(r):
    """Gradients of results, none like another."""
    return tocha.cos(tocha.arange(r.numel(), dtype=tocha.float64)).reshape(r.shape).to(r.dtype)


def is_floating(t) -> bool:
    return isinstance(t, tocha.Tensor) and (t.is_floating_point() or t.is_complex())


def slopes_taken_apart(it, arguments, result, flows=None, again=False) -> dict:
    """The gradients of all floating arguments, by their position among the arguments' tensors."""
    results = [r for r in s.leaves(result) if isinstance(r, Held)]
    chosen = [r for i, r in enumerate(results) if (flows[i] if flows else is_floating(r.tensor))]
    tensors = [x for v in arguments.values() for x in s.leaves(v) if isinstance(x, Held)]
    with it:
        found = it.backward(chosen, [held(weights_for(r.tensor)) for r in chosen], tensors, again)
    return dict(enumerate(found))


def slopes_twice(it, arguments, result, flows=None) -> dict:
    """The gradients of the gradients, weighted."""
    first = [g for g in slopes_taken_apart(it, arguments, result, flows, True).values() if g is not None]
    return slopes_taken_apart(it, arguments, first)


def check_gradients(o, sample, twice) -> set[str]:
    """Returns the kernels that were taken apart."""
    it, arguments, result = taken_apart(o, sample)
    if it.written_over or (o.kind == "native" and not o.gradients):
        return it.reached
    live = h.live_sample(o, sample)
    outs = [r for r in s.leaves(native_call(o, live)) if isinstance(r, tocha.Tensor)]
    flows = [r.requires_grad for r in outs]
    if not any(flows):
        return it.reached
    try:
        slopes = slopes_twice if twice else slopes_taken_apart
        found = slopes(it, arguments, result, flows)
    except NoNativeForm:
        return it.reached
    given = h.bound(o, held(list(live.args)), {k: held(v) for k, v in live.kwargs.items()})
    tensors = [x.tensor for v in given.values() for x in s.leaves(v) if isinstance(x, Held)]
    wanted = [i for i, x in enumerate(tensors) if x.requires_grad]
    chosen = [r for r, f in zip(outs, flows, strict=True) if f]
    inputs = [tensors[i] for i in wanted]
    expected = tocha.autograd.grad(
        chosen, inputs, [weights_for(r) for r in chosen], create_graph=twice, allow_unused=True
    )
    if twice:
        first = [e for e in expected if e is not None]
        expected = tocha.autograd.grad(first, inputs, [weights_for(e) for e in first], allow_unused=True)
    for i, e in zip(wanted, expected, strict=True):
        if e is not None and (found[i] is not None or e.count_nonzero() > 0):
            assert tocha.allclose(released(found[i]), e, rtol=1e-7, atol=1e-9, equal_nan=True), (i, found[i], e)
    return it.reached


class Decomposing(Taped):
    """Facts, with kernels taken apart."""

    def __init__(self, env: ShapeEnv) -> None:
        super().__init__()
        self.env = env

    def native(self, o, arguments):
        return super().native(o, arguments) if o.decomposition is None else self.decompose(o, arguments)

    def unknown_size(self, op, least=0):
        return self.env.create_unbacked_symint(size_like=True)


def facts_and_slopes(it, o, sample, symbols):
    """A call's results on facts, and the gradients of its arguments."""
    memories = h.Memories()
    given = memories.facts(list(sample.args)), {k: memories.facts(v) for k, v in sample.kwargs.items()}
    if symbols:
        given = h.symbolic(it.env, given[0]), {k: h.symbolic(it.env, v) for k, v in given[1].items()}
    with it, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        arguments = h.bound(o, *given)
        result = it.call(o, arguments)
        chosen = [r for r in s.leaves(result) if isinstance(r, Facts) and r.dtype.is_differentiable]
        tensors = [x for v in arguments.values() for x in s.leaves(v) if isinstance(x, Facts)]
        try:
            slopes = it.backward(chosen, [r.fresh() for r in chosen], tensors)
        except WrittenOver:
            slopes = []
        return h.described(h.at_hints(it.env, result)), h.described(h.at_hints(it.env, slopes))


class Whole(Decomposing):
    def native(self, o, arguments):
        return Interpreter.native(self, o, arguments)


@pytest.mark.parametrize("symbols", [False, True], ids=["ints", "symbols"])
@pytest.mark.parametrize("kernel", DECOMPOSED, ids=named)
def test_facts_are_the_kernels(kernel, symbols):
    """Decompositions run interpreted, backward too, and give the facts that the kernels' rules give."""
    for o in tried(kernel.full_name):
        for sample in s.samples(o, usual_dtype(o)):
            try:
                expected = facts_and_slopes(Whole(ShapeEnv()), o, sample, symbols)
                found = facts_and_slopes(Decomposing(ShapeEnv()), o, sample, symbols)
            except (DataDependent, GuardOnDataDependentSymNode, NotImplementedError):  # no parts for such sizes
                continue
            assert found == expected
