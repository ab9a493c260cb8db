"""Graphs against eager mode, derived from the records: traced and interpreted, without writes, differentiated ahead of time.

No operator is named here but those of EXCEPTIONS, each with its reason.
"""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import samples as s

import tocha
from tocha import fx
from tocha._functorch.aot_autograd import aot_function, nop
from tocha._functorch.functionalize import functionalize_graph
from tocha._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException
from tocha.fx.experimental.proxy_tensor import make_fx
from tocha.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from tocha.ir import dtypes as dt
from tocha.utils import _pytree as pytree

# What cannot be in a graph: the program would depend on elements.
UNKNOWABLE = (DataDependentOutputException, DynamicOutputShapeException, GuardOnDataDependentSymNode)
EXCEPTIONS = {
    "set_.source_Storage": "nodes have no storages as arguments",
    "set_.source_Storage_storage_offset": "nodes have no storages as arguments",
}
TO_INPUTS = (tocha.ops.aten.copy_.default, tocha.ops.aten.as_strided_.default)
CALLABLE = [o for o in s.all_operators() if s.function_of(o) is not None and o.full_name not in EXCEPTIONS]
WRITING = [o for o in CALLABLE if "inplace" in o.variants and o.kind != "foreach"]
DIFFERENTIABLE = [
    o for o in CALLABLE if not o.tags & {"no_gradient", "no_derivative", "phases"} and not o.name.endswith("_") and o.kind != "foreach"
]  # fmt: skip


def named(o) -> str:
    return o.full_name


def usual_dtype(o):
    return dt.float32 if not o.dtypes or dt.float32 in o.dtypes else o.dtypes[0]


def split(f, sample) -> tuple[list[tocha.Tensor], Any]:
    """The tensors of a call, and the call as a function of them that returns the tensors of its results."""
    flat, spec = pytree.tree_flatten((tuple(sample.args), dict(sample.kwargs)))
    places = [i for i, v in enumerate(flat) if isinstance(v, tocha.Tensor)]

    def of_tensors(*tensors):
        leaves = list(flat)
        for i, t in zip(places, tensors, strict=True):
            leaves[i] = t
        args, kwargs = pytree.tree_unflatten(leaves, spec)
        return [t for t in s.leaves(f(*args, **kwargs)) if isinstance(t, tocha.Tensor)]

    return [flat[i] for i in places], of_tensors


def copies(tensors) -> list[tocha.Tensor]:
    made = [tocha.empty_strided(t.shape, t.stride(), dtype=t.dtype).copy_(t.detach()) for t in tensors]
    return [c.requires_grad_(t.requires_grad) for c, t in zip(made, tensors, strict=True)]


def run(f, tensors) -> list[tocha.Tensor]:
    tocha.manual_seed(5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return list(f(*tensors))


def close(o, found, expected) -> None:
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        if "uninitialized" in o.tags:
            assert a.shape == b.shape
            continue
        tocha.testing.assert_close(a, b, equal_nan=True, rtol=1e-5, atol=1e-6)


def traced(f, tensors, mode) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make_fx(f, tracing_mode=mode, _allow_non_fake_inputs=True)(*copies(tensors))


@pytest.mark.parametrize("mode", ["fake", "symbolic"])
@pytest.mark.parametrize("o", CALLABLE, ids=named)
def test_a_graph_computes_what_eager_mode_does(o, mode):
    for sample in s.samples(o, usual_dtype(o)):
        tensors, f = split(s.function_of(o), sample)
        expected = run(f, copies(tensors))
        try:
            graph = traced(f, tensors, mode)
        except UNKNOWABLE:
            continue
        close(o, run(fx.Interpreter(graph).run, copies(tensors)), expected)


@pytest.mark.parametrize("o", [o for o in CALLABLE if o.samples is None], ids=named)
def test_a_symbolic_graph_serves_other_sizes(o):
    d = usual_dtype(o)
    tensors, f = split(s.function_of(o), s.generic(o, d, (4, 6)))
    try:
        graph = traced(f, tensors, "symbolic")
    except UNKNOWABLE:
        return
    inputs = [n.meta["val"] for n in graph.graph.find_nodes(op="placeholder")]
    for shape in ((5, 7), (9, 2)):
        others, g = split(s.function_of(o), s.generic(o, d, shape))
        if graph.shape_env.evaluate_guards_for_args(inputs, others):
            close(o, run(fx.Interpreter(graph).run, copies(others)), run(g, copies(others)))


@pytest.mark.parametrize("o", WRITING, ids=named)
def test_without_writes(o):
    """In place: the functional graph gives the same results, and writes to its inputs at the end only."""
    for sample in s.samples(o, usual_dtype(o)):
        if not isinstance(sample.args[0], tocha.Tensor):
            continue
        tensors, f = split(s.inplace_forms(o)[0], sample)
        eager, ours = copies(tensors), copies(tensors)
        try:
            expected = run(f, eager)
        except RuntimeError:
            continue  # the result does not fit into self
        try:
            graph = functionalize_graph(traced(f, tensors, "fake"))
        except UNKNOWABLE:
            continue
        for n in graph.graph.nodes:
            writes = n.op == "call_function" and hasattr(n.target, "_schema") and n.target._schema.is_mutable
            assert not writes or (n.target in TO_INPUTS and n.args[0].op == "placeholder"), n.target
        close(o, run(graph, ours), expected)
        close(o, ours, eager)


def live(tensors, o, sample) -> list[tocha.Tensor]:
    constants = [v for n, v in zip([a.name for a in o.schema.arguments], sample.args, strict=False) if n in o.constants]
    constants += [v for n, v in sample.kwargs.items() if n in o.constants]
    return [
        t.detach().requires_grad_((t.is_floating_point() or t.is_complex()) and not any(t is c for c in constants))
        for t in tensors
    ]


def gradients(f, tensors) -> list[Any]:
    found = [r for r in run(f, tensors) if r.requires_grad]
    wanted = [t for t in tensors if t.requires_grad]
    if not found or not wanted:
        return []
    roots = [(r if not r.is_complex() else tocha.view_as_real(r.resolve_conj())).square().sum() for r in found]
    return list(tocha.autograd.grad(roots, wanted, allow_unused=True))


@pytest.mark.parametrize("o", DIFFERENTIABLE, ids=named)
def test_the_joint_graph_gives_the_gradients(o):
    d = dt.float64 if not o.dtypes or dt.float64 in o.dtypes else dt.float32
    for sample in s.gradient_samples(o, d):
        tensors, f = split(s.function_of(o), sample)
        try:
            expected = gradients(f, live(tensors, o, sample))
        except RuntimeError:
            continue  # eager mode refuses
        try:
            found = gradients(aot_function(f, nop), live(tensors, o, sample))
        except UNKNOWABLE:
            continue
        assert [g is None for g in found] == [g is None for g in expected]
        present = [[g for g in gs if g is not None] for gs in (found, expected)]
        close(o, *present)
