"""The back end, called by backends of others: what compiles each graph of operators, which decompositions, which cut in two."""

import pytest

import tocha
from tocha._dynamo.testing import InductorAndRecordGraphs
from tocha._functorch.partitioners import default_partition
from tocha._inductor import config
from tocha._inductor.compile_fx import compile_fx, compile_fx_inner
from tocha._inductor.custom_graph_pass import CustomPartitionerFn

pytestmark = pytest.mark.usefixtures("kernel_cache")
aten = tocha.ops.aten


class Inner:
    """Compiles graphs of operators, and keeps what it was called with."""

    def __init__(self):
        self.graphs, self.how = [], []

    def __call__(self, graph, inputs, **how):
        self.graphs.append({n.target for n in graph.graph.nodes if n.op == "call_function"})
        self.how.append(how)
        return compile_fx_inner(graph, inputs, **how)

    def backend(self, graph, inputs):
        return compile_fx(graph, inputs, inner_compile=self)


def test_each_graph_of_operators_is_compiled_by_what_is_given():
    inner, x = Inner(), tocha.ones(3, requires_grad=True)
    f = tocha.compile(lambda x: (x.sin() * 2).sum(), backend=inner.backend)
    loss = f(x)
    assert len(inner.graphs) == 1
    loss.backward()
    assert x.grad.tolist() == pytest.approx([2 * 0.5403023] * 3)
    forward, backward = inner.graphs
    assert aten.sin.default in forward and aten.cos.default in backward
    assert [bool(how.get("is_backward")) for how in inner.how] == [False, True]
    with tocha.no_grad():
        f(x)
    assert inner.how[-1] == {"is_inference": True}


def test_sizes_that_change_and_writes_with_another_compiler():
    inner = Inner()

    def f(x):
        x.add_(1)
        return x * x.shape[0]

    compiled = tocha.compile(f, backend=inner.backend, dynamic=True)
    for n in (3, 4, 5):
        x = tocha.ones(n, 2)
        assert compiled(x).tolist() == [[2.0 * n] * 2] * n and x.tolist() == [[2.0] * 2] * n
    assert len(inner.graphs) == 1


def test_passes_run_once_with_another_compiler():
    ran = []
    names = ("pre_grad_custom_pass", "joint_custom_pre_pass", "post_grad_custom_pre_pass")
    with config.patch({n: lambda graph, n=n: ran.append(n) for n in names}):
        tocha.compile(lambda x: x.cos() + 1, backend=Inner().backend)(tocha.ones(2))
    assert ran == list(names)


def test_decompositions_of_one_call():
    def backend(graph, inputs):
        return compile_fx(graph, inputs, decompositions={aten.sin.default: lambda x: x.cos()})

    assert tocha.compile(lambda x: x.sin(), backend=backend)(tocha.zeros(2)).tolist() == [1, 1]
    tocha._dynamo.reset()
    assert tocha.compile(lambda x: x.sin())(tocha.zeros(2)).tolist() == [0, 0]


def test_graphs_that_the_back_end_compiles_are_kept():
    backend, x = InductorAndRecordGraphs(), tocha.ones(2, requires_grad=True)
    tocha.compile(lambda x: x.sin(), backend=backend)(x).sum().backward()
    assert len(backend.graphs) == 1 and len(backend.inductor_graphs) == 2


class Cut(CustomPartitionerFn):
    def __init__(self):
        self.calls = 0

    def __call__(self, gm, joint_inputs, **kwargs):
        self.calls += 1
        return default_partition(gm, joint_inputs, **kwargs)

    def uuid(self):
        return "default"


def test_a_partitioner_of_ones_own():
    cut, x = Cut(), tocha.ones(3, requires_grad=True)
    with config.patch(custom_partitioner_fn=cut):
        tocha.compile(lambda x: x.sin().exp().sum())(x).backward()
    y = tocha.ones(3, requires_grad=True)
    y.sin().exp().sum().backward()
    assert cut.calls == 1
    tocha.testing.assert_close(x.grad, y.grad)
