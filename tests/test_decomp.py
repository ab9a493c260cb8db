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
    """Core operators, their functional twins (aten.copy for copy_), sizes and arithmetic on them."""
    if not isinstance(target, OpOverload) or target._opname.startswith("sym_"):
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


IN_PARTS = [o for o in CALLABLE if o.parts is not None]


@pytest.mark.parametrize("o", IN_PARTS, ids=named)
def test_what_is_no_view_is_none_in_parts(o):
    """Views cannot be detached in place, and share their base's memory: a graph must see them where eager does."""
    tried = 0
    for sample in s.samples(o, usual_dtype(o)):
        f, tensors = tensors_first(o, sample)
        seen = []

        def traced(*given, f=f, seen=seen):
            found = f(*given)
            seen.extend(t._is_view() for t in leaves(found))
            return found

        make_fx(traced, tracing_mode="fake")(*copied(tensors))
        want = [t._is_view() for t in leaves(f(*copied(tensors)))]
        assert not [i for i, (now, before) in enumerate(zip(seen, want, strict=True)) if now and not before]
        tried += 1
    assert tried


# ---- tables ----------------------------------------------------------------------------------------


def test_core_operators_are_not_in_the_core_table():
    assert not any(Tag.core in h.tags for h in core_table())
    assert all(h in _decomp.decomposition_table for h in core_table())


def test_an_operator_stands_for_all_its_overloads():
    found = _decomp.get_decompositions([aten.addcmul, aten.mul.Tensor])
    assert aten.addcmul.default in found and aten.addcmul.out in found and aten.mul.Tensor not in found
    _decomp.remove_decompositions(found, [aten.addcmul])
    assert not found


def test_programs_register_their_own():
    own = {}

    @_decomp.register_decomposition([aten.silu.default, aten.hardswish], own)
    def plain(x):
        return x * 2

    assert own[aten.silu.default] is plain and own[aten.hardswish.default] is plain
    module = make_fx(lambda x: tocha.nn.functional.silu(x), own)(tocha.ones(2))
    assert [str(n.target) for n in module.graph.find_nodes(op="call_function", target=aten.mul.Tensor)]
    with pytest.raises(RuntimeError, match=r"duplicate registrations for aten\.silu\.default"):
        _decomp.register_decomposition(aten.silu.default, own)(plain)
    with pytest.raises(AssertionError, match="type must be one of post_autograd, pre_autograd, or meta, got x"):
        _decomp.register_decomposition(aten.silu, type="x")
    with pytest.raises(AssertionError, match="expected OpOverloadPacket, got <class 'str'>"):
        _decomp.register_decomposition("silu", own)(plain)


def test_a_registered_decomposition_replaces_the_records():
    before = _decomp.decomposition_table[aten.deg2rad.default]
    try:
        _decomp.register_decomposition(aten.deg2rad.default)(lambda x: x * 3)
        assert _decomp.core_aten_decompositions()[aten.deg2rad.default](tocha.ones(1)).item() == 3
        with pytest.raises(RuntimeError, match="duplicate"):
            _decomp.register_decomposition(aten.deg2rad.default)(lambda x: x)
    finally:
        _decomp.decomposition_table[aten.deg2rad.default] = before
        _decomp._registered.discard(aten.deg2rad.default)


def test_writes_are_taken_apart_too():
    x, out = tocha.rand(3), tocha.empty(0)
    table = _decomp.decomposition_table
    want = tocha.addcmul(x, x, x, value=2)
    s.same(table[aten.addcmul.out](x, x, x, value=2, out=out), want)
    s.same(out, want)
    got = x.clone()
    assert table[aten.addcmul_.default](got, x, x, value=2) is got
    s.same(got, want)


@pytest.mark.parametrize("mode", ["fake", "symbolic"])
def test_gradients_ahead_of_time_in_core_operators(mode):
    from tocha._functorch.aot_autograd import aot_function, nop

    graphs = []

    def keep(graph, inputs):
        graphs.append(graph)
        return nop(graph, inputs)

    def f(x, w):
        return tocha.nn.functional.gelu(tocha.nn.functional.silu(x @ w)).addcmul_(x, x).logsumexp(-1)

    g = aot_function(f, keep, decompositions=core_table(), dynamic=mode == "symbolic")
    x, w = tocha.rand(3, 3, requires_grad=True), tocha.rand(3, 3, requires_grad=True)
    got = tocha.autograd.grad(g(x, w).sum(), (x, w))
    want = tocha.autograd.grad(f(x, w).sum(), (x, w))
    s.same(list(got), list(want))
    left = {
        str(n.target)
        for graph in graphs
        for n in graph.graph.nodes
        if n.op == "call_function" and not is_core(n.target)
    }
    assert len(graphs) == 2 and not left


@pytest.mark.parametrize("d", ["bfloat16", "float64", "complex64", "int64"])
def test_formulas_keep_the_precision_and_dtype_of_their_kernels(d):
    dtype = getattr(tocha, d)
    x = (tocha.arange(1, 7) / (1 if d == "int64" else 7)).to(dtype).reshape(2, 3).t()
    ran = 0
    for handle, rule in core_table().items():
        o = getattr(handle._target, "overload", None)
        if o is None or o.record.kind != "pointwise" or o.form != "functional" or o.record.name.startswith("_"):
            continue
        tensors = [a for a in handle._schema._arguments if a.text == "Tensor"]
        if len(tensors) != len([a for a in handle._schema._arguments if not a.has_default_value()]):
            continue
        try:
            want = handle(*[x] * len(tensors))
        except (RuntimeError, NotImplementedError):
            continue
        got = rule(*[x] * len(tensors))
        ran += 1
        for g, w in zip(leaves(got), leaves(want), strict=True):
            assert (g.dtype, tuple(g.shape), g.stride()) == (w.dtype, tuple(w.shape), w.stride()), handle
            wide = tocha.complex128 if w.is_complex() else tocha.float64
            assert tocha.allclose(g.to(wide), w.to(wide), rtol=1e-2 if d == "bfloat16" else 1e-5, equal_nan=True), (
                handle
            )
    assert ran > 5


# ---- the page --------------------------------------------------------------------------------------


def test_the_page_of_core_operators_is_current():
    """docs/inside/core.md is written by `python -m tocha._decomp.page`."""
    from tocha._decomp.page import text

    assert (ROOT / "docs/inside/core.md").read_text() == text()


# ---- _prims and _refs ------------------------------------------------------------------------------


def test_names_of_primitives_and_references_come_from_the_records():
    from tocha import _prims, _refs

    x = tocha.rand(2, 3)
    s.same(_prims.sin(x), x.sin())
    s.same(_refs.addcmul(x, x, x, value=2), tocha.addcmul(x, x, x, value=2))
    s.same(_refs.nn.functional.silu(x), tocha.nn.functional.silu(x))
    s.same(_refs.special.expit(x), tocha.special.expit(x))
    s.same(_refs.linalg.vector_norm(x), tocha.linalg.vector_norm(x))
    got = x.clone()
    assert _refs.addcmul_(got, x, x) is got
    assert "addcmul" in dir(_refs) and "sin" in dir(_prims) and "addcmul" not in dir(_prims)
    with pytest.raises(AttributeError):
        _refs.no_such_operator  # noqa: B018
