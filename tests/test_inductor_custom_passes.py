"""Passes of a program's own: where they are called, what they may change, when graphs that they made are kept."""

import pytest

import tocha
from tocha._inductor import config
from tocha._inductor.compile_fx import compile_fx
from tocha._inductor.custom_graph_pass import CustomGraphModulePass, CustomGraphPass, get_hash_for_files

pytestmark = pytest.mark.usefixtures("kernel_cache")
aten = tocha.ops.aten
OF_OPERATORS = [
    "joint_custom_pre_pass", "joint_custom_post_pass", "post_grad_custom_pre_pass", "post_grad_custom_post_pass",
]  # fmt: skip


@pytest.fixture(autouse=True)
def anew():
    tocha._dynamo.reset()
    yield
    tocha._dynamo.reset()


def function(x):
    return tocha.relu(x * 2) + 1


def to_two_rows(graph):
    """Instead of relu: exp of both signs, which has another shape."""
    for n in graph.find_nodes(op="call_function", target=aten.relu.default):
        with graph.inserting_before(n):
            negative = graph.call_function(aten.neg.default, (n.args[0],))
            both = graph.call_function(aten.stack.default, ([n.args[0], negative],))
            n.replace_all_uses_with(graph.call_function(aten.exp.default, (both,)))
        graph.erase_node(n)


def two_rows(x):
    return tocha.exp(tocha.stack([x * 2, -(x * 2)])) + 1


X = tocha.linspace(-1, 2, 5)


@pytest.mark.parametrize("name", OF_OPERATORS)
def test_passes_change_what_is_computed(name):
    with config.patch({name: to_two_rows}):
        got = tocha.compile(function, fullgraph=True)(X)
    tocha.testing.assert_close(got, two_rows(X))
    tocha._dynamo.reset()  # and nothing of it was kept
    tocha.testing.assert_close(tocha.compile(function, fullgraph=True)(X), function(X))


def test_changes_before_differentiation_and_between_change_gradients():
    def to_sigmoid(graph):
        for n in graph.find_nodes(op="call_function", target=tocha.relu):
            n.target = tocha.sigmoid

    def doubled(graph):
        (n,) = graph.find_nodes(op="call_function", target=aten.sigmoid.default)
        with graph.inserting_after(n):
            twice = graph.call_function(aten.mul.Tensor, (n, 2))
        n.replace_all_uses_with(twice, delete_user_cb=lambda user: user is not twice)

    x = X.clone().requires_grad_()
    with config.patch(pre_grad_custom_pass=to_sigmoid, joint_custom_pre_pass=doubled):
        compiled = tocha.compile(function, fullgraph=True)
        got = compiled(x)
    s = tocha.sigmoid(X * 2)
    tocha.testing.assert_close(got, 2 * s + 1)
    tocha.testing.assert_close(tocha.autograd.grad(got.sum(), x)[0], 2 * (2 * s * (1 - 2 * s)))  # reads what is doubled


def test_both_ways_are_seen_though_backward_is_compiled_later():
    seen = []
    with config.patch(post_grad_custom_post_pass=lambda graph: seen.append(len(graph.nodes))):
        x = X.clone().requires_grad_()
        got = tocha.compile(function, fullgraph=True)(x)
    assert len(seen) == 1
    got.sum().backward()
    assert len(seen) == 2
    tocha.testing.assert_close(x.grad, 2.0 * (X > 0))


def test_passes_as_options_and_as_patches_of_a_backend():
    def backend(graph, inputs):
        return compile_fx(graph, inputs, config_patches=config.shallow_copy_dict() | {OF_OPERATORS[-1]: to_two_rows})

    for how in ({"options": {OF_OPERATORS[0]: to_two_rows}}, {"backend": backend}):
        tocha.testing.assert_close(tocha.compile(function, fullgraph=True, **how)(X), two_rows(X))
        tocha._dynamo.reset()


def test_graphs_of_passes_that_tell_who_they_are_are_kept():
    calls = []

    class Rows(CustomGraphPass):
        def __init__(self, name):
            self.name = name

        def __call__(self, graph):
            calls.append(self.name)
            to_two_rows(graph)

        def uuid(self):
            return self.name

    class Nothing(CustomGraphModulePass):
        def __call__(self, gm):
            calls.append("module" if isinstance(gm, tocha.fx.GraphModule) else "")

        def uuid(self):
            return None

    for one, times in ((Rows("a"), 1), (Rows("a"), 1), (Rows("b"), 2), (Nothing(), 3), (Nothing(), 4)):
        with config.patch(post_grad_custom_pre_pass=one):
            got = tocha.compile(function, fullgraph=True)(X)
        tocha.testing.assert_close(got, function(X) if isinstance(one, Nothing) else two_rows(X))
        assert len(calls) == times, calls
        tocha._dynamo.reset()
    assert calls == ["a", "b", "module", "module"]
    assert get_hash_for_files((__file__,)) != get_hash_for_files((__file__,), "more")
