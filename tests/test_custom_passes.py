"""Changes that programs make to graphs while they are compiled: passes and decompositions of their own."""

import pytest

import tocha
from tocha._inductor import config, decomposition
from tocha._inductor.custom_graph_pass import CustomGraphModulePass, CustomGraphPass, get_hash_for_files
from tocha._inductor.utils import fresh_cache

aten = tocha.ops.aten
X = tocha.linspace(0, 1, 8)


@pytest.fixture(autouse=True)
def forgotten():
    tocha._dynamo.reset()
    with fresh_cache():
        yield
    tocha._dynamo.reset()


def cosines(graph):
    for node in graph.find_nodes(op="call_function", target=aten.sin.default):
        with graph.inserting_before(node):
            node.replace_all_uses_with(graph.call_function(aten.cos.default, node.args))
        graph.erase_node(node)


class Cosines(CustomGraphPass):
    calls = 0

    def __init__(self, name):
        self.name = name

    def __call__(self, graph):
        Cosines.calls += 1
        cosines(graph)

    def uuid(self):
        return self.name


class OfModules(CustomGraphModulePass):
    def __call__(self, gm):
        cosines(gm.graph)

    def uuid(self):
        return None


@pytest.mark.parametrize("setting", ["post_grad_custom_pre_pass", "post_grad_custom_post_pass"])
@pytest.mark.parametrize("change", [cosines, Cosines("a"), OfModules(), [cosines, cosines]])
def test_graphs_of_operators(setting, change):
    with config.patch({setting: change}):
        tocha.testing.assert_close(tocha.compile(lambda x: x.sin() * 2)(X), X.cos() * 2)
        x = X.clone().requires_grad_()
        tocha.compile(lambda x: x.cos() * 2)(x).sum().backward()  # whose gradient has a sine
        tocha.testing.assert_close(x.grad, -2 * X.cos())
    tocha._dynamo.reset()
    tocha.testing.assert_close(tocha.compile(lambda x: x.sin() * 2)(X), X.sin() * 2)


def test_captured_graphs():
    def change(graph):
        for node in graph.nodes:
            if node.op == "call_method" and node.target == "sin":
                node.target = "cos"
            elif node.op == "call_function" and node.target in (tocha.sin, tocha.Tensor.sin):
                node.target = tocha.cos

    with config.patch(pre_grad_custom_pass=change):
        x = X.clone().requires_grad_()
        result = tocha.compile(lambda x: x.sin() * 2)(x)
        tocha.testing.assert_close(result, X.cos() * 2)
        result.sum().backward()
    tocha.testing.assert_close(x.grad, -2 * X.sin())


def test_graphs_are_kept_under_the_id_of_the_pass():
    def run(name):
        tocha._dynamo.reset()
        before = Cosines.calls
        with config.patch(post_grad_custom_post_pass=Cosines(name)):
            tocha.testing.assert_close(tocha.compile(lambda x: x.sin() * 3)(X), X.cos() * 3)
        return Cosines.calls - before

    with config.patch(fx_graph_cache=True):
        assert (run("one"), run("two"), run(None), run(None)) == (1, 1, 1, 1)


def test_hash_of_files():
    assert get_hash_for_files((__file__,)) == get_hash_for_files((__file__,)) != get_hash_for_files((__file__,), "x")


def test_decompositions_of_programs_own():
    silu = aten.silu.default
    known = decomposition.decompositions[silu]
    try:

        @decomposition.register_decomposition([silu])
        def other(x):
            return x * 100

        assert decomposition.select_decomp_table()[silu] is other
        tocha.testing.assert_close(tocha.compile(tocha.nn.functional.silu)(X), X * 100)
    finally:
        decomposition.decompositions[silu] = known
    tocha._dynamo.reset()
    tocha.testing.assert_close(tocha.compile(tocha.nn.functional.silu)(X), tocha.nn.functional.silu(X))
