"""Higher-order operators: eager semantics, nodes with subgraphs, gradients ahead of time, refusals."""

from __future__ import annotations

import copy
import pickle
import warnings

import pytest

import tocha
from tocha._functorch.aot_autograd import aot_function, nop
from tocha._functorch.partitioners import default_partition, min_cut_rematerialization_partition
from tocha._higher_order_ops import UncapturedHigherOrderOpError, associative_scan, foreach_map, map, scan, while_loop
from tocha.fx.experimental.proxy_tensor import make_fx

MODES = ("real", "fake", "symbolic")
PARTITIONS = (default_partition, min_cut_rematerialization_partition)
higher = tocha.ops.higher_order


def leaf(*sizes):
    return tocha.linspace(0.5, 1.5, tocha.Size(sizes).numel()).reshape(sizes).requires_grad_()


def conditional(p, x, y):
    return tocha.cond(p > 0, lambda a, b: (a.sin() * b, a + 1), lambda a, b: (a.exp() * b.cos(), a * b), (x, y))


def with_closure(p, x, y):
    z = x * y
    return tocha.cond(p > 0, lambda a: a * z, lambda a: a - y, (x,))


def nested(p, x, y):
    def inner(a):
        return tocha.cond(a.sum() > 2, lambda b: b * y, lambda b: b / y, (a,))

    return tocha.cond(p > 0, inner, lambda a: a * 3, (x,))


def looped(p, x, y):
    return while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * y + x), (tocha.zeros((), dtype=tocha.int64), x))


def scanned(p, x, y):
    return scan(lambda c, a: (c * a + y[0], (c + a).sin()), y, x)


def scanned_back(p, x, y):
    return scan(lambda c, a: (c * a[0].sum(), c.cos() + a[1] * y[:3]), p, (x, x.exp()), dim=-1, reverse=True)


def mapped(p, x, y):
    return map(lambda a, b: (a * b * p, a.sum() + y.sum()), x, y)


def associated(p, x, y):
    return associative_scan(lambda a, b: a * b + 0 * y, x, 0, combine_mode="generic")


PROGRAMS = [conditional, with_closure, nested, looped, scanned, scanned_back, mapped, associated]


def inputs(sign):
    return (tocha.tensor(0.7 * sign, requires_grad=True), leaf(3, 4), leaf(4))


def leaves(value):
    return tocha.utils._pytree.tree_leaves(value)


def gradients(f, args):
    outs = [o for o in leaves(f(*args)) if o.requires_grad]
    return tocha.autograd.grad(sum((o * (i + 1)).sum() for i, o in enumerate(outs)), args, allow_unused=True)


def same(got, want):
    for g, w in zip(leaves(got), leaves(want), strict=True):
        if isinstance(w, tocha.Tensor):
            tocha.testing.assert_close(g, w)
        else:
            assert g == w


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_graphs_do_what_the_program_does(f, mode):
    args = [a.detach() for a in inputs(1)]
    module = make_fx(f, tracing_mode=mode)(*args)
    assert any(n.target is getattr(higher, name) for n in module.graph.nodes for name in OPERATORS)
    module.graph.lint()
    for sign in (1, -1):
        given = [a.detach() for a in inputs(sign)]
        same(module(*given), f(*given))
        same(tocha.fx.Interpreter(module).run(*given), f(*given))


OPERATORS = ("cond", "while_loop", "scan", "map_impl", "associative_scan")


@pytest.mark.parametrize("partition", PARTITIONS)
@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_gradients_ahead_of_time(f, partition):
    compiled = aot_function(f, nop, partition_fn=partition)
    for sign in (1, -1):
        args = inputs(sign)
        same(compiled(*args), f(*args))
        got, want = gradients(compiled, args), gradients(f, args)
        for g, w in zip(got, want, strict=True):
            if w is None or g is None:
                assert (g is None or not g.any()) and (w is None or not w.any())
            else:
                tocha.testing.assert_close(g, w)


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_gradients_are_traced(f):
    args = inputs(1)
    module = make_fx(lambda *a: gradients(f, a), tracing_mode="fake")(*args)
    for g, w in zip(module(*args), gradients(f, args), strict=True):
        assert (g is None or not g.any()) if w is None else tocha.allclose(g, w)


def test_a_graph_is_traced_again():
    args = [a.detach() for a in inputs(1)]
    once = make_fx(conditional, tracing_mode="fake")(*args)
    twice = make_fx(once, tracing_mode="fake")(*args)
    same(twice(*args), conditional(*args))
    assert twice.graph.find_nodes(op="call_function", target=higher.cond)
    args = inputs(-1)
    for g, w in zip(gradients(aot_function(once, nop), args), gradients(conditional, args), strict=True):
        assert (g is None) == (w is None) or g is None or not g.any()
        if w is not None and g is not None:
            tocha.testing.assert_close(g, w)


def test_what_a_node_looks_like():
    module = make_fx(lambda p, x: tocha.cond(p, lambda a: a.sin(), lambda a: a.cos(), (x,)))(
        tocha.tensor(True), tocha.ones(4)
    )
    assert module.code.strip() == (
        "def forward(self, p_1, x_1):\n"
        "    true_graph_0 = self.true_graph_0\n"
        "    false_graph_0 = self.false_graph_0\n"
        "    cond = tocha.ops.higher_order.cond(p_1, true_graph_0, false_graph_0, (x_1,));  "
        "p_1 = true_graph_0 = false_graph_0 = x_1 = None\n"
        "    getitem = cond[0];  cond = None\n"
        "    return getitem"
    )
    assert module.true_graph_0.code.strip() == (
        "def forward(self, arg0_1):\n    sin = tocha.ops.aten.sin.default(arg0_1);  arg0_1 = None\n    return (sin,)"
    )
    assert pickle.loads(pickle.dumps(higher.cond)) is higher.cond and copy.deepcopy(higher.cond) is higher.cond


def test_writes_inside_a_branch_are_removed():
    def f(p, x):
        def branch(a):
            b = a.clone()
            b[0].add_(1)
            return b

        return tocha.cond(p, branch, lambda a: a * 2, (x,))

    module = make_fx(f, tracing_mode="fake")(tocha.tensor(True), tocha.ones(2, 2))
    assert not any(
        str(n.target).split(".")[1].endswith("_") for n in module.true_graph_0.graph.nodes if n.op == "call_function"
    )
    for p in (True, False):
        same(module(tocha.tensor(p), tocha.ones(2, 2)), f(tocha.tensor(p), tocha.ones(2, 2)))


def test_branches_of_different_sizes():
    def f(p, x):
        return tocha.cond(p, lambda a: a[:2] * 1, lambda a: a * 2, (x,)).sum()

    module = make_fx(f, tracing_mode="symbolic")(tocha.tensor(True), tocha.ones(4))
    for p in (True, False):
        same(module(tocha.tensor(p), tocha.ones(4)), f(tocha.tensor(p), tocha.ones(4)))


def test_a_loop_of_numbers():
    def f(x):
        return while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a + i), (0, x))

    assert f(tocha.ones(2))[0] == 3
    module = make_fx(f, tracing_mode="symbolic")(tocha.ones(2))
    got = module(tocha.ones(2))
    assert got[0] == 3
    same(got[1], f(tocha.ones(2))[1])


def test_a_constant_chooses_a_branch():
    def f(x):
        return tocha.cond(True, lambda a: a + 1, lambda a: a, (x,))

    x = tocha.ones(2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        same(f(x), x + 1)
    with pytest.warns(UserWarning, match="Pred is a Python constant"):
        same(tocha.compile(f, backend="eager")(x), x + 1)


def test_gradients_of_what_the_branch_does_not_read_are_zeros():
    a, b = leaf(2), leaf(2)
    tocha.cond(tocha.tensor(True), lambda a, b: a * 2, lambda a, b: b * 3, (a, b)).sum().backward()
    assert a.grad.tolist() == [2, 2] and b.grad.tolist() == [0, 0]


AROUND = tocha.ones(2, requires_grad=True)
LAYERS = [tocha.nn.Linear(2, 2), tocha.nn.Linear(2, 2)]


def either(pred, w, v):
    return tocha.cond(pred, lambda t: t * w, lambda t: t * v * AROUND, (tocha.ones(2),))


@pytest.mark.parametrize("pred", [True, False])
def test_gradients_of_what_either_branch_reads_around_it(pred):
    for w, v in ((leaf(2), leaf(2)), (leaf(2), leaf(2))):  # the second call finds the same code checked
        AROUND.grad = None
        either(tocha.tensor(pred), w, v).sum().backward()
        assert w.grad.tolist() == [pred, pred]
        assert AROUND.grad.tolist() == ([0, 0] if pred else v.tolist())


def test_gradients_of_layers_of_either_branch():
    tocha.cond(tocha.tensor(True), LAYERS[0], LAYERS[1], (tocha.ones(2),)).sum().backward()
    assert LAYERS[0].bias.grad.tolist() == [1, 1] and LAYERS[1].bias.grad.tolist() == [0, 0]


@pytest.mark.parametrize("yes", [lambda t: tocha.zeros(2), lambda t: (t * 2).detach()])
def test_results_require_gradients_whichever_branch_ran(yes):
    a = leaf(2)
    out = tocha.cond(tocha.tensor(True), yes, lambda t: t * 2, (a,))
    out.sum().backward()
    assert a.grad.tolist() == [0, 0]
    with tocha.no_grad():
        assert not tocha.cond(tocha.tensor(True), yes, lambda t: t * 2, (a,)).requires_grad


def test_each_result_of_a_branch_has_gradients_of_all_operands():
    a, b = leaf(2), leaf(2)
    _, second = tocha.cond(tocha.tensor(True), lambda a, b: (a * 2, b * 2), lambda a, b: (b * 3, a * 3), (a, b))
    second.sum().backward()
    assert a.grad.tolist() == [0, 0] and b.grad.tolist() == [2, 2]


P, X = tocha.tensor(True), tocha.arange(4.0)
I = tocha.tensor(0)  # noqa: E741
REFUSED = [
    (lambda: tocha.cond("a", abs, abs, (X,)), RuntimeError, "Expected pred to be bool or tensor, but got a."),
    (lambda: tocha.cond(X, abs, abs, (X,)), RuntimeError, "Expected pred to be bool or single-element tensor"),
    (lambda: tocha.cond(P, 1, abs, (X,)), RuntimeError, "Expect both branches to be callable."),
    (lambda: tocha.cond(P, abs, abs, 3), RuntimeError, "Expect operands to be a tuple of possibly nested dict/list/tuple"),
    (lambda: tocha.cond(P, lambda x: (x.sin(), x.cos()), lambda x: (x.cos(),), (X,)), UncapturedHigherOrderOpError, "differing branch outputs"),
    (lambda: tocha.cond(P, lambda x: x.sin().double(), lambda x: x.cos(), (X,)), RuntimeError, "expected same dtype but got"),
    (lambda: tocha.cond(P, lambda x: x, lambda x: x + 1, (X,)), UncapturedHigherOrderOpError, "Encountered aliasing"),
    (lambda: tocha.cond(P, lambda x: x.view(2, 2), lambda x: x.view(2, 2), (X,)), UncapturedHigherOrderOpError, "Encountered aliasing"),
    (lambda: tocha.cond(P, lambda x: [(y := x + 1), y], lambda x: [x + 1, x + 2], (X,)), UncapturedHigherOrderOpError, "Encountered aliasing"),
    (lambda: tocha.cond(P, lambda x: x.add_(1).sin(), lambda x: x.cos(), (X,)), UncapturedHigherOrderOpError, "Encountered input mutation"),
    (lambda: tocha.cond(P, lambda x: None, lambda x: None, (X,)), UncapturedHigherOrderOpError, "unsupported branch return type"),
    (lambda: while_loop(1, abs, (X,)), RuntimeError, "Expect cond_fn and body_fn to be callable."),
    (lambda: while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x.double()), (I, X)), UncapturedHigherOrderOpError, "Expected body_fn_output and carried_inputs to have same metadata but found:\npair\\[1\\] differ in 'dtype:"),
    (lambda: while_loop(lambda i, x: i < 3, lambda i, x: (i + 1,), (I, X)), UncapturedHigherOrderOpError, "to have same number of outputs but got"),
    (lambda: while_loop(lambda i, x: x < 3, lambda i, x: (i + 1, x + 1), (I, X)), UncapturedHigherOrderOpError, "unsupported cond_fn return type"),
    (lambda: while_loop(lambda i, x: i < 3, lambda i, x: (i.add_(1), x + 1), (I, X)), UncapturedHigherOrderOpError, "Encountered input mutation"),
    (lambda: while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x), (I, X)), UncapturedHigherOrderOpError, "Encountered aliasing"),
    (lambda: scan(3, X, X), RuntimeError, "Combine_fn must be a callable, but got 3"),
    (lambda: scan(lambda c, x: (c + x, x), 3, X), RuntimeError, "All init leaves must be a Tensor but got 3"),
    (lambda: scan(lambda c, x: (c + x, c * x), I, X, reverse=1), RuntimeError, "Reverse must be a bool, but got <class 'int'>"),
    (lambda: scan(lambda c, x: (c + x, c * x), X[0], X, dim=3), IndexError, "Dimension out of range"),
    (lambda: scan(lambda c, x: ((c + x).double(), c * x), X[0], X), UncapturedHigherOrderOpError, "Expected init and carry to have same metadata"),
    (lambda: scan(lambda c, x: (c + x, x), X[0], X), UncapturedHigherOrderOpError, "Encountered aliasing"),
    (lambda: scan(lambda c, x: (c.add_(x), x + 1), tocha.zeros(()), X), UncapturedHigherOrderOpError, "Encountered input mutation"),
    (lambda: map(abs, 3), RuntimeError, "Mapped xs can only consist of tensors. Got xs \\[3\\]"),
    (lambda: map(abs, tocha.zeros(0, 2)), RuntimeError, "Leading dimensions of mapped xs cannot be 0."),
    (lambda: map(abs, (tocha.zeros(3, 2), tocha.zeros(2, 2))), RuntimeError, "Leading dimensions of mapped xs must be consistent"),
    (lambda: map(lambda x: x, tocha.zeros(3, 2)), UncapturedHigherOrderOpError, "Encountered aliasing"),
    (lambda: map(lambda x: x.add_(1), tocha.zeros(3, 2)), UncapturedHigherOrderOpError, "Encountered input mutation"),
    (lambda: map(lambda x: 3, tocha.zeros(3, 2)), UncapturedHigherOrderOpError, "HOP: non tocha.Tensor leaf"),
    (lambda: associative_scan(3, X, 0), ValueError, "Combine_fn must be a callable, but got 3"),
    (lambda: associative_scan(lambda a, b: a, X, 0, combine_mode="x"), ValueError, "Combine_mode must either 'pointwise' or 'generic', but got x"),
    (lambda: associative_scan(lambda a, b: a, X, 0), ValueError, "all input tensors need to be on CUDA or XPU"),
]  # fmt: skip


@pytest.mark.parametrize("call, error, message", REFUSED, ids=range(len(REFUSED)))
def test_refusals(call, error, message):
    before = X.clone(), I.clone()
    with pytest.raises(error, match=message):
        call()
    same((X, I), before)


def test_a_function_of_each_element_of_lists():
    xs, ys = [tocha.ones(2), tocha.ones(3)], [tocha.full((2,), 2.0), tocha.full((3,), 3.0)]

    def f(xs, ys):
        return foreach_map(lambda x, y: x * y + 1, xs, ys), foreach_map(tocha.add, xs, 2, alpha=3)

    wanted = [[3.0] * 2, [4.0] * 3], [[7.0] * 2, [7.0] * 3]
    for run in (f, tocha.compile(f, fullgraph=True)):
        assert tuple([t.tolist() for t in found] for found in run(xs, ys)) == wanted
    assert foreach_map(tocha.neg, tocha.ones(1)).tolist() == [-1]
    with pytest.raises(ValueError, match="different lengths"):
        foreach_map(tocha.add, xs, ys[:1])


def test_products_in_another_dtype():
    """Bytes are multiplied in the wider dtype that the result has; what is no product of that kind is refused."""
    aten, out_dtype = tocha.ops.aten, tocha.ops.higher_order.out_dtype
    a, b = tocha.full((2, 3), 100, dtype=tocha.int8), tocha.full((3, 2), 100, dtype=tocha.int8)
    found = out_dtype(aten.mm.default, tocha.int32, a, b)
    assert found.dtype == tocha.int32 and found.tolist() == [[30000, 30000]] * 2
    assert out_dtype(aten.mul.Tensor, tocha.int32, a, 2).tolist() == [[200] * 3] * 2
    assert out_dtype(aten.mul.Tensor, tocha.int8, a.int(), a.int()).tolist() == [[16] * 3] * 2
    with pytest.raises(ValueError, match="must be an OpOverload"):
        out_dtype(tocha.mm, tocha.int32, a, b)
    with pytest.raises(ValueError, match="functional operator"):
        out_dtype(aten.add_.Tensor, tocha.int32, a, a)
    with pytest.raises(ValueError, match="only allows"):
        out_dtype(aten.relu.default, tocha.int32, a)
