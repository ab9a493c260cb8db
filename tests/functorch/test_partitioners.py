"""Joint graphs cut in two: together the halves compute what the whole did, and keep little between them."""

from __future__ import annotations

import operator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tocha
from tocha import fx
from tocha._dynamo.backends.common import aot_autograd
from tocha._functorch import config, costs
from tocha._functorch.aot_autograd import aot_function
from tocha._functorch.partitioners import default_partition, memory_budget_curve, min_cut_rematerialization_partition
from tocha.autograd.graph import region_activation_memory_budget

aten = tocha.ops.aten


class Valued(fx.Interpreter):
    """Runs a graph and notes each node's value on it."""

    def run_node(self, n):
        n.meta["val"] = super().run_node(n)
        return n.meta["val"]


def traced(f, args):
    module = fx.symbolic_trace(f)
    Valued(module).run(*args)
    return module


def agree(module, cut, args, results: int):
    forward, backward = cut
    inputs = [
        a for a, n in zip(args, module.graph.find_nodes(op="placeholder"), strict=True) if "tangents" not in n.name
    ]
    tangents = args[len(inputs) :]
    made = forward(*inputs)
    outs, kept = made[:results], made[results:]
    numbers = [k for k in kept if not isinstance(k, tocha.Tensor)]
    tensors = [k for k in kept if isinstance(k, tocha.Tensor)]
    gradients = backward(*numbers, *tensors, *tangents)
    for a, b in zip((*outs, *gradients), module(*args), strict=True):
        assert a is b is None or tocha.equal(a, b)
    forward.graph.lint()
    backward.graph.lint()


def names(module) -> list[str]:
    return [str(n.target) for n in module.graph.nodes if n.op == "call_function"]


def kept_bytes(forward, results: int) -> int:
    outs = forward.graph.output_node().args[0]
    return sum(costs.bytes_of(n) for n in outs[results:] if n.op == "call_function" and n not in outs[:results])


def activation(primals_1, primals_2, tangents_1):
    product = aten.mm.default(primals_1, primals_2)
    s = aten.sigmoid.default(product)
    t = aten.tanh.default(s)
    e = aten.exp.default(t)
    g = aten.mul.Tensor(tangents_1, e)
    g = aten.mul.Tensor(g, aten.rsub.Scalar(aten.mul.Tensor(t, t), 1))
    g = aten.mul.Tensor(g, aten.mul.Tensor(s, aten.rsub.Scalar(s, 1)))
    return [e, aten.mm.default(g, aten.t.default(primals_2)), aten.mm.default(aten.t.default(primals_1), g)]


ARGS = (tocha.rand(4, 5), tocha.rand(5, 6), tocha.rand(4, 6))


def test_default_keeps_what_backward_reads():
    module = traced(activation, ARGS)
    forward, backward = default_partition(module, ARGS, num_fwd_outputs=1)
    agree(module, (forward, backward), ARGS, 1)
    assert [n.name for n in forward.graph.output_node().args[0]][1:] == [
        "primals_1",
        "primals_2",
        "sigmoid_default",
        "tanh_default",
        "exp_default",
    ]
    assert not {"aten.sigmoid.default", "aten.exp.default"} & set(names(backward))


def test_the_cut_keeps_what_is_dear():
    module = traced(activation, ARGS)
    forward, backward = min_cut_rematerialization_partition(module, ARGS, num_fwd_outputs=1)
    agree(module, (forward, backward), ARGS, 1)
    assert kept_bytes(forward, 1) == 2 * 4 * 6 * 4  # two activations; the third is the result
    assert names(backward).count("aten.mm.default") == 2
    assert not {"aten.tanh.default", "aten.sigmoid.default", "aten.exp.default"} & set(names(backward))


def cheap_activation(primals_1, primals_2, tangents_1):
    product = aten.mm.default(primals_1, primals_2)
    a = aten.relu.default(product)
    b = aten.clamp_max.default(a, 0.5)
    c = aten.mul.Tensor(b, 3)
    g = aten.mul.Tensor(tangents_1, aten.mul.Tensor(a, aten.mul.Tensor(b, c)))
    return [c, aten.mm.default(g, aten.t.default(primals_2)), aten.mm.default(aten.t.default(primals_1), g)]


def test_the_cut_computes_what_is_cheap_again():
    module = traced(cheap_activation, ARGS)
    forward, backward = min_cut_rematerialization_partition(module, ARGS, num_fwd_outputs=1)
    agree(module, (forward, backward), ARGS, 1)
    assert kept_bytes(forward, 1) == 4 * 6 * 4
    assert "aten.clamp_max.default" in names(backward)


@pytest.mark.parametrize("name", ["exp", "tanh", "sigmoid", "sqrt", "reciprocal"])
def test_backward_reads_results_that_are_there_anyway(name):
    made: list = []

    def keep(graph, _):
        made.append(graph)
        return graph

    x = tocha.rand(20, requires_grad=True)
    aot_function(getattr(tocha, name), fw_compiler=keep, bw_compiler=keep, partition_fn=min_cut_rematerialization_partition)(x).sum().backward()  # fmt: skip
    assert f"aten.{name}.default" not in names(made[1])


def test_no_budget_computes_products_again():
    module = traced(activation, ARGS)
    forward, backward = min_cut_rematerialization_partition(module, ARGS, num_fwd_outputs=1, memory_budget=0)
    agree(module, (forward, backward), ARGS, 1)
    assert kept_bytes(forward, 1) == 0
    assert names(backward).count("aten.mm.default") == 3


def test_budgets_are_a_curve():
    def deep(primals_1, primals_2, tangents_1):
        xs = [primals_1]
        for _ in range(4):
            xs.append(aten.tanh.default(aten.mm.default(xs[-1], primals_2)))
        g = tangents_1
        for x in reversed(xs[1:]):
            g = aten.mm.default(aten.mul.Tensor(g, aten.rsub.Scalar(aten.mul.Tensor(x, x), 1)), primals_2)
        return [xs[-1], g, None]

    args = (tocha.rand(5, 5), tocha.rand(5, 5), tocha.rand(5, 5))
    module = traced(deep, args)
    kept = []
    for budget in (0, 0.25, 0.5, 0.75, 1):
        cut = min_cut_rematerialization_partition(module, args, num_fwd_outputs=1, memory_budget=budget)
        agree(module, cut, args, 1)
        kept.append(kept_bytes(cut[0], 1))
    assert kept == sorted(kept)
    assert kept[0] == 0
    assert kept[-1] == 3 * 100
    assert len(set(kept)) > 2
    with pytest.raises(ValueError, match="between 0 and 1"):
        min_cut_rematerialization_partition(module, args, num_fwd_outputs=1, memory_budget=2)


def test_random_numbers_are_not_drawn_twice():
    def dropped(primals_1, tangents_1):
        mask = aten.bernoulli.p(primals_1, 0.5)
        return [aten.mul.Tensor(primals_1, mask), aten.mul.Tensor(tangents_1, mask)]

    args = (tocha.rand(30), tocha.rand(30))
    module = traced(dropped, args)
    for budget in (0, 1):
        forward, backward = min_cut_rematerialization_partition(module, args, num_fwd_outputs=1, memory_budget=budget)
        assert names(forward).count("aten.bernoulli.p") == 1
        assert "aten.bernoulli.p" not in names(backward)


def test_parts_of_several_results_are_kept_not_the_whole():
    def normed(primals_1, tangents_1):
        made = aten.native_layer_norm.default(primals_1, [6], None, None, 1e-5)
        out, mean, rstd = (operator.getitem(made, i) for i in range(3))
        grad = aten.mul.Tensor(tangents_1, aten.mul.Tensor(aten.sub.Tensor(primals_1, mean), rstd))
        return [out, grad]

    args = (tocha.rand(5, 6), tocha.rand(5, 6))
    module = traced(normed, args)
    for partition in (default_partition, min_cut_rematerialization_partition):
        forward, backward = partition(module, args, num_fwd_outputs=1)
        agree(module, (forward, backward), args, 1)
        assert kept_bytes(forward, 1) == 2 * 5 * 4
        assert "aten.native_layer_norm.default" not in names(backward)


def test_results_that_backward_does_not_read_are_kept_as_copies():
    """Whoever has the result may write to it."""

    def shared(primals_1, primals_2, tangents_1):
        product = aten.mm.default(primals_1, primals_2)
        activations = [f(product) for f in (aten.relu.default, aten.abs.default, aten.neg.default)]
        g = tangents_1
        for a in activations:
            g = aten.mul.Tensor(g, a)
        return [product, aten.stack.default(activations), aten.mm.default(g, aten.t.default(primals_2)), None]

    module = traced(shared, ARGS)
    cut = min_cut_rematerialization_partition(module, ARGS, num_fwd_outputs=2)
    agree(module, cut, ARGS, 2)
    product, _, *kept = cut[0].graph.output_node().args[0]
    assert product not in kept
    assert [n.args for n in kept if n.target is aten.clone.default] == [(product,)]


def test_a_policy_decides_what_is_kept():
    module = traced(activation, ARGS)
    for n in module.graph.nodes:
        if n.op == "call_function" and str(n.target) == "aten.mm.default" and n.args[0].name == "primals_1":
            n.meta["recompute"] = "must_recompute"
        elif n.name == "tanh_default":
            n.meta["recompute"] = "must_save"
    forward, backward = min_cut_rematerialization_partition(module, ARGS, num_fwd_outputs=1)
    agree(module, (forward, backward), ARGS, 1)
    assert "mm_default" not in [n.name for n in forward.graph.output_node().args[0]]
    assert "aten.tanh.default" not in names(backward)


def test_what_computes_again_stands_where_it_is_used():
    def two(primals_1, tangents_1):
        a = aten.exp.default(primals_1)
        b = aten.exp.default(a)
        out = aten.exp.default(b)
        g = aten.mul.Tensor(tangents_1, aten.sin.default(b))
        g = aten.mul.Tensor(aten.sum.default(g), aten.cos.default(a))
        return [out, g]

    args = (tocha.rand(8), tocha.rand(8))
    module = traced(two, args)
    _, backward = min_cut_rematerialization_partition(module, args, num_fwd_outputs=1, memory_budget=0)
    agree(module, min_cut_rematerialization_partition(module, args, num_fwd_outputs=1), args, 1)
    order = names(backward)
    assert order.index("aten.cos.default") > order.index("aten.sum.default")


UNARY = [aten.sin.default, aten.exp.default, aten.neg.default, aten.t.default]
BINARY = [aten.mul.Tensor, aten.add.Tensor, aten.mm.default]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 30), st.integers(0, 30)), min_size=3, max_size=25),
    st.floats(0, 1),
)
def test_random_graphs(steps, budget):
    graph = fx.Graph()
    values = [graph.placeholder(f"primals_{i}") for i in (1, 2)]
    tangent = graph.placeholder("tangents_1")
    before = list(values)

    def step(known, kind, a, b):
        a, b = known[a % len(known)], known[b % len(known)]
        target = (*UNARY, *BINARY)[kind]
        known.append(graph.call_function(target, (a,) if kind < len(UNARY) else (a, b)))

    half = len(steps) // 2
    for kind, a, b in steps[:half]:
        step(before, kind, a, b)
    after = [*before, tangent]
    for kind, a, b in steps[half:]:
        step(after, kind, a, b)
    out = before[-1]
    grads = [graph.call_function(aten.mul.Tensor, (after[-1], tangent)), values[0], None]
    graph.output([out, *grads])
    module = fx.GraphModule({}, graph)
    args = tuple(tocha.rand(3, 3, dtype=tocha.float64) for _ in range(3))
    Valued(module).run(*args)
    for cut in (
        default_partition(module, args, num_fwd_outputs=1),
        min_cut_rematerialization_partition(module, args, num_fwd_outputs=1, memory_budget=budget),
    ):
        agree(module, cut, args, 1)


def test_the_curve_of_memory_against_work():
    module = traced(activation, ARGS)
    points = memory_budget_curve(module, num_fwd_outputs=1, budgets=(0, 0.5, 1))
    assert [p.budget for p in points] == [0, 0.5, 1]
    assert points[0].bytes_kept <= points[1].bytes_kept <= points[2].bytes_kept
    assert points[0].work_again >= points[1].work_again >= points[2].work_again
    assert points[0].bytes_kept == 0 < points[2].bytes_kept


def products_again(f):
    """How many matrix products backward of a compiled function computes again."""
    graphs = []
    backend = aot_autograd(
        fw_compiler=lambda g, _: g, bw_compiler=lambda g, _: graphs.append(g) or g, partition_fn=min_cut_rematerialization_partition
    )  # fmt: skip
    x, w = tocha.rand(5, 5, requires_grad=True), tocha.rand(5, 5)
    expected = tocha.autograd.grad((x @ w).tanh().mm(w).tanh().sum(), x)[0]
    tocha.compile(f, backend=backend, fullgraph=True)(x, w).backward()
    assert tocha.allclose(x.grad, expected)
    return names(graphs[0]).count("aten.mm.default") - 2


def two_products(x, w):
    return (x @ w).tanh().mm(w).tanh().sum()


def test_the_setting_is_the_budget():
    assert products_again(two_products) == 0
    with config.patch(activation_memory_budget=0.0):
        assert products_again(two_products) == 2


def test_a_region_has_its_budget():
    def f(x, w):
        with region_activation_memory_budget(0.0):
            return two_products(x, w)

    assert products_again(f) == 2
    with config.patch(activation_memory_budget=0.0):
        assert products_again(f) == 2

    def in_part(x, w):
        y = x @ w
        with region_activation_memory_budget(0.0):
            return y.tanh().mm(w).tanh().sum()

    def of_two(x, w):
        with region_activation_memory_budget(0.5):
            y = x @ w
        with region_activation_memory_budget(0.0):
            return y.tanh().mm(w).tanh().sum()

    for g, words in ((in_part, "must cover the entire forward"), (of_two, r"conflicting budgets .* \[0.0, 0.5\]")):
        with pytest.raises(RuntimeError, match=words):
            products_again(g)
    with pytest.raises(RuntimeError, match=r"can only be used inside a tocha\.compile region"):
        f(tocha.ones(2, 2), tocha.ones(2, 2))
    with pytest.raises(ValueError, match=r"must be in \[0, 1\]"), region_activation_memory_budget(2):
        pass
