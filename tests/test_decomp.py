"""Tables of decompositions: what they take apart, and that nothing but core operators is left. No operator is named but in examples."""

from __future__ import annotations

import warnings
from functools import cache
from pathlib import Path

import pytest
import samples as s
from test_decompositions import CALLABLE, copied, named, usual_dtype

import tocha
from tocha import _decomp
from tocha._functorch.functionalize import functionalize_graph
from tocha._library.tags import Tag
from tocha._library.twins import TwinTarget
from tocha._ops import OpOverload
from tocha._subclasses.fake_tensor import DataDependentOutputException
from tocha.fx.experimental.proxy_tensor import decompose, make_fx
from tocha.operators.interpreter import DataDependent

aten = tocha.ops.aten
ROOT = Path(__file__).resolve().parents[1]


@cache
def core_table():
    return _decomp.core_aten_decompositions()


@cache
def smallest():
    return {h for handles in _decomp.core_overloads().values() for h in handles}


def is_core(target) -> bool:
    """Core operators, their functional twins (aten.copy for copy_), and arithmetic on sizes."""
    if not isinstance(target, OpOverload):
        return True
    return target in smallest() or isinstance(target._target, TwinTarget)


def tensors_first(o, sample):
    """The sample as a function of its tensors."""
    flat, spec = tocha.utils._pytree.tree_flatten((list(sample.args), sample.kwargs))
    places = [i for i, v in enumerate(flat) if isinstance(v, tocha.Tensor)]

    def f(*tensors):
        leaves = list(flat)
        for i, t in zip(places, tensors, strict=True):
            leaves[i] = t
        args, kwargs = tocha.utils._pytree.tree_unflatten(leaves, spec)
        return s.function_of(o)(*args, **kwargs)

    return f, [flat[i] for i in places]


def taken_apart(o, sample):
    """The functional graph of a sample in core operators, and its tensors; None where elements decide the shape."""
    f, tensors = tensors_first(o, sample)
    try:
        with warnings.catch_warnings(), decompose(core_table()):
            warnings.simplefilter("ignore")
            module = make_fx(f, core_table(), tracing_mode="fake")(*tensors)
            return functionalize_graph(module), f, tensors
    except (DataDependent, DataDependentOutputException, NotImplementedError):
        return None


RUN = [
    o for o in CALLABLE
    if not o.name.endswith("_") and not o.tags & {"random", "uninitialized", "drawn", "reads_values", "foreach_inplace"}
]  # fmt: skip


@pytest.mark.parametrize("o", RUN, ids=named)
def test_only_core_operators_are_left(o):
    for sample in s.samples(o, usual_dtype(o)):
        found = taken_apart(o, sample)
        if found is None:
            continue
        module, f, tensors = found
        left = {str(n.target) for n in module.graph.nodes if n.op == "call_function" and not is_core(n.target)}
        assert not left
        got, want = module(*copied(tensors)), f(*copied(tensors))
        s.same(leaves(got), leaves(want), 2e-4, 1e-5)


def leaves(value):
    return [v for v in tocha.utils._pytree.tree_leaves(value) if isinstance(v, tocha.Tensor)]
