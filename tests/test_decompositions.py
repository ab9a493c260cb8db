"""Every native kernel has a decomposition or says which algorithm it is; both forms of the former give the same values,
gradients and facts. No operator is named here: what reaches a kernel, by its body or in its gradient, is found out.
"""

from __future__ import annotations

import warnings
from functools import cache

import facts_harness as h
import pytest
import samples as s
from taken_apart import TakenApart, held, released

import tocha
from tocha.ir import dtypes as dt
from tocha.ir.shape_env import GuardOnDataDependentSymNode, ShapeEnv
from tocha.operators.differentiate import Call, gradients
from tocha.operators.facts import Facts
from tocha.operators.interpreter import DataDependent, Interpreter, formula_of

NATIVES = [o for o in s.all_operators() if o.kind == "native"]
DECOMPOSED = [o for o in NATIVES if o.decomposition is not None]
CALLABLE = [o for o in s.all_operators() if s.function_of(o) is not None and o.kind not in ("foreach", "view")]
MOST = 3  # callers of one kernel that are tried
TOLERANCE = {dt.float64: 1e-9, dt.float32: 2e-5, dt.bfloat16: 2e-2, dt.float16: 3e-3}


def named(o) -> str:
    return o.full_name


@pytest.mark.parametrize("o", NATIVES, ids=named)
def test_a_kernel_is_decomposed_or_an_algorithm(o):
    assert (o.decomposition is not None) != bool(o.algorithm)


class Reaching(Interpreter):
    """Notes the kernels that a call comes to; their decompositions are followed too."""

    def __init__(self) -> None:
        self.reached: set[str] = set()

    def native(self, o, arguments):
        self.reached.add(o.full_name)
        if o.decomposition is not None:
            self.decompose(o, arguments)
        return super().native(o, arguments)


def usual_dtype(o):
    return dt.float32 if not o.dtypes or dt.float32 in o.dtypes else o.dtypes[0]


@cache
def reached_by(o) -> tuple[frozenset[str], frozenset[str]]:
    """The kernels that o's samples come to: forward, and in all."""
    forward: set[str] = set()
    everything: set[str] = set()
    for sample in s.samples(o, usual_dtype(o)):
        memories, it = h.Memories(), Reaching()
        try:
            arguments = h.bound(
                o, memories.facts(sample.args), {k: memories.facts(v) for k, v in sample.kwargs.items()}
            )
            with warnings.catch_warnings(), it:
                warnings.simplefilter("ignore")
                results = it.call(o, arguments)
                forward |= it.reached
                if o.gradients and "no_gradient" not in o.tags and not o.name.endswith("_"):
                    results = list(results) if isinstance(results, list | tuple) else [results]
                    wanted = inputs_to_differentiate(o, arguments)
                    gradients(it, Call(o, arguments, results), [r.fresh() for r in results], wanted)
        except DataDependent:
            continue
        finally:
            everything |= it.reached
    return frozenset(forward), frozenset(everything)


@cache
def callers() -> dict[str, list]:
    found: dict[str, list] = {}
    for o in CALLABLE:
        for name in reached_by(o)[1]:
            found.setdefault(name, []).append(o)
    return found


def inputs_to_differentiate(o, arguments) -> list[str]:
    names = [n for names in o.gradients for n in names] if o.kind != "pointwise" else formula_of(o).operands
    return [n for n in names if isinstance(arguments[n], Facts) and arguments[n].dtype.is_differentiable]


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


def only_backward(kernel) -> bool:
    return not any(kernel.full_name in reached_by(o)[0] for o in tried(kernel.full_name))


@pytest.mark.parametrize("kernel", DECOMPOSED, ids=named)
def test_gradients_are_the_kernels(kernel):
    """The gradients of what comes to a kernel, from its decomposition and those of the kernels in backward."""
    d = dt.float64
    ran = 0
    assert tried(kernel.full_name), "no sample comes to it"
    for o in tried(kernel.full_name):
        if not o.gradients or "no_gradient" in o.tags or o.name.endswith("_") or not usable(o, d):
            continue
        for sample in s.gradient_samples(o, d):
            ran += kernel.full_name in check_gradients(o, sample, d)
    assert ran or not only_backward(kernel)


def leaf(value):
    if isinstance(value, tocha.Tensor) and (value.is_floating_point() or value.is_complex()):
        return value.detach().requires_grad_()
    return type(value)(leaf(v) for v in value) if isinstance(value, list | tuple) else value


def check_gradients(o, sample, d) -> set[str]:
    """Returns the kernels that were taken apart."""
    it, arguments, result = taken_apart(o, sample)
    results = list(result) if isinstance(result, list | tuple) else [result]
    wanted = inputs_to_differentiate(o, arguments)
    if not wanted:
        return it.reached
    live = s.Sample(leaf(sample.args), {k: leaf(v) for k, v in sample.kwargs.items()})
    outs = [r for r in s.leaves(native_call(o, live))]
    flows = [isinstance(r, tocha.Tensor) and r.requires_grad for r in outs]
    if not any(flows):
        return it.reached
    weights = [
        tocha.cos(tocha.arange(r.numel(), dtype=r.dtype)).reshape(r.shape) if f else None
        for r, f in zip(outs, flows, strict=True)
    ]
    found = gradients(it, Call(o, arguments, results), [None if w is None else held(w) for w in weights], wanted)
    names = [a.name for a in o.schema.arguments]
    for n, g in found.items():
        x = live.args[names.index(n)] if names.index(n) < len(live.args) else live.kwargs[n]
        if not isinstance(x, tocha.Tensor) or g is None:
            continue
        (expected,) = tocha.autograd.grad(
            [r for r, f in zip(outs, flows, strict=True) if f],
            [x],
            [w for w in weights if w is not None],
            retain_graph=True,
            allow_unused=True,
        )
        if expected is not None:
            assert tocha.allclose(released(g), expected, rtol=1e-7, atol=1e-9), (n, released(g), expected)
    return it.reached


@pytest.mark.parametrize("symbols", [False, True], ids=["ints", "symbols"])
@pytest.mark.parametrize("kernel", [o for o in DECOMPOSED if s.function_of(o) is not None], ids=named)
def test_facts_are_the_kernels(kernel, symbols):
    """Decompositions run interpreted, and give the facts that the kernel's rule gives."""
    for sample in s.samples(kernel, usual_dtype(kernel)):
        memories, env = h.Memories(), ShapeEnv()
        given = memories.facts(sample.args), {k: memories.facts(v) for k, v in sample.kwargs.items()}
        if symbols:
            given = h.symbolic(env, given[0]), {k: h.symbolic(env, v) for k, v in given[1].items()}
        it = h.SymbolicInterpreter(env) if symbols else Interpreter()
        try:
            with it:
                arguments = h.bound(kernel, *given)
                rule, parts = it.native(kernel, arguments), it.decompose(kernel, arguments)
        except (DataDependent, GuardOnDataDependentSymNode):
            continue
        assert h.described(h.at_hints(env, parts)) == h.described(h.at_hints(env, rule))
