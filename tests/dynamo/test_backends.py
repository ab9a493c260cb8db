"""Backends by name, and graphs through ahead-of-time autograd."""

import subprocess
import sys
import textwrap

import pytest
from comparing import same

import tocha
from tocha import _dynamo
from tocha._dynamo.backends import registry
from tocha._dynamo.backends.common import aot_autograd
from tocha._dynamo.exc import InvalidBackend, TorchDynamoException
from tocha._dynamo.testing import CompileCounterWithBackend

AOT = ["aot_eager", "aot_eager_default_partitioner"]


@pytest.fixture
def registered():
    names = set(registry._BACKENDS)
    yield
    for name in set(registry._BACKENDS) - names:
        del registry._BACKENDS[name]


def test_backends_are_listed_without_those_for_debugging():
    shown = _dynamo.list_backends()
    assert "inductor" in shown and "eager" not in shown and "aot_eager" not in shown
    every = _dynamo.list_backends(exclude_tags=None)
    assert set(shown) < set(every) and {"eager", "aot_eager", "aot_eager_decomp_partition"} <= set(every)


def test_a_backend_is_registered_once_by_name(registered):
    @_dynamo.register_backend(name="mine", tags=("debug",))
    def mine(gm, examples):
        return gm.forward

    assert _dynamo.lookup_backend("mine") is mine and "mine" not in _dynamo.list_backends()
    assert same(tocha.compile(lambda x: x + 1, backend="mine")(tocha.ones(2)), tocha.ones(2) + 1)
    with pytest.raises(AssertionError, match="duplicate name"):
        _dynamo.register_backend(mine, name="mine")


@pytest.mark.parametrize("name", ["no_such_backend", "aot_ts", "tvm"])
def test_unknown_backends_are_refused_by_name(name):
    with pytest.raises(InvalidBackend, match=f"Invalid backend: '{name}'") as refused:
        tocha.compile(lambda x: x, backend=name)
    assert isinstance(refused.value, TorchDynamoException)


@pytest.mark.parametrize("backend", AOT)
@pytest.mark.parametrize("dynamic", [False, True])
def test_gradients_and_views_come_through(backend, dynamic):
    def f(x, y):
        z = x.sin() * y
        return z.view(-1), x, z.sum()

    compiled = tocha.compile(f, backend=backend, dynamic=dynamic, fullgraph=True)
    for rows in (3, 5):
        x, y = tocha.randn(rows, 4, requires_grad=True), tocha.randn(4)
        plain, got = f(x, y), compiled(x, y)
        assert same(plain, got) and got[1] is x
        assert same(tocha.autograd.grad(plain[2], x)[0], tocha.autograd.grad(got[2], x)[0])


@pytest.mark.parametrize("dynamic", [False, True])
def test_inputs_are_traced_as_they_were_before_the_program_changed_them(dynamic):
    def f(x):
        x.mul_(2)
        x.t_()
        return x + 1

    compiled = tocha.compile(f, backend="aot_eager", dynamic=dynamic)
    x, y = tocha.randn(2, 3), None
    y = x.clone()
    assert same(f(y), compiled(x)) and same(x, y) and x.stride() == y.stride()


def test_graphs_are_traced_in_the_modes_in_which_they_are_called():
    def f(x):
        y = x * 2
        tocha.set_grad_enabled(False)
        return y

    try:
        x = tocha.ones(2, requires_grad=True)
        assert tocha.compile(f, backend="aot_eager")(x).requires_grad
    finally:
        tocha.set_grad_enabled(True)


def test_gradients_are_switched_on_in_a_graph_that_is_called_without():
    def f(x):
        with tocha.no_grad():
            y = x * 2
            _dynamo.graph_break()
            z = y + x
        return z, x * 3

    x = tocha.ones(2, requires_grad=True)
    z, y = tocha.compile(f, backend="aot_eager")(x)
    assert not z.requires_grad and same(tocha.autograd.grad(y.sum(), x)[0], tocha.full((2,), 3.0))


def test_differentiation_inside_a_graph_whose_inputs_want_no_gradients():
    def f(x):
        x = x.detach().requires_grad_()
        (g,) = tocha.autograd.grad((x**3).sum(), x)
        return g

    assert same(tocha.compile(f, backend="aot_eager")(tocha.ones(2)), tocha.full((2,), 3.0))


def test_leaves_are_made_outside_of_graphs():
    def f(x):
        y = x.detach().clone().requires_grad_()
        return y, (y * y).sum()

    y, z = tocha.compile(f, backend="aot_eager")(tocha.ones(2))
    z.backward()
    assert y.is_leaf and same(y.grad, tocha.full((2,), 2.0))


def test_state_of_modules_is_written():
    def model():
        tocha.manual_seed(0)
        return tocha.nn.Sequential(tocha.nn.Linear(4, 4), tocha.nn.BatchNorm1d(4), tocha.nn.ReLU())

    plain, given = model(), model()
    compiled = tocha.compile(given, backend="aot_eager", fullgraph=True)
    for _ in range(2):
        x = tocha.randn(3, 4)
        assert same(plain(x), compiled(x))
        plain(x).sum().backward()
        compiled(x).sum().backward()
    assert same(dict(plain.named_buffers()), dict(given.named_buffers()))
    assert same([p.grad for p in plain.parameters()], [p.grad for p in given.parameters()])


def test_a_backend_of_two_compilers():
    seen = []

    def keep(gm, examples):
        seen.append([n.target for n in gm.graph.nodes if n.op == "call_function"])
        return gm

    counter = CompileCounterWithBackend(aot_autograd(fw_compiler=keep))
    compiled = tocha.compile(lambda x: x.exp().sum(), backend=counter)
    x = tocha.ones(2, requires_grad=True)
    out = compiled(x)
    assert counter.frame_count == 1 and seen == [[tocha.ops.aten.exp.default, tocha.ops.aten.sum.default]]
    out.backward()
    assert len(seen) == 2 and same(x.grad, tocha.ones(2).exp())
    compiled(tocha.ones(2))
    assert len(seen) == 3  # without gradients nothing is differentiated


def test_a_graph_runs_as_it_is_when_its_forward_is_first_asked_for():
    kept = []

    def backend(module, examples):
        assert "_code" not in vars(module), "nobody has asked for its code"
        (sin,) = [n for n in module.graph.nodes if n.target == "sin"]
        sin.target = "cos"
        kept.append(module.forward)
        assert "cos" in module.code and isinstance(module, tocha.fx.GraphModule)
        return kept[0]

    x = tocha.arange(3.0)
    assert same(tocha.compile(lambda x: x.sin() + 1, backend=backend)(x), x.cos() + 1)
    assert kept[0].__func__ is type(kept[0].__self__).forward, "what is kept is the generated function itself"


def test_a_first_capture_loads_only_what_it_needs():
    code = """
        import sys
        before = set(sys.modules)
        import tocha
        tocha.compile(lambda x: x.sin() + 1, backend="eager")(tocha.ones(4))
        print(sorted({"tocha.nn.modules.conv", "tocha.serialization", "tocha.sparse", "pathlib", "hashlib", "ctypes"} & set(sys.modules) - before))
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_what_a_backend_cannot_know_runs_uncaptured():
    mask = tocha.tensor([True, False, True])

    def f(x, v):
        return tocha.index_put(x, (mask,), v)

    x, v = tocha.zeros(3, 2, requires_grad=True), tocha.ones(2, 2, requires_grad=True)
    tocha.compile(f, backend="aot_eager")(x, v).sum().backward()
    assert v.grad.tolist() == [[1, 1], [1, 1]] and x.grad.sum() == 2
    _dynamo.reset()
    assert same(tocha.compile(f, backend="aot_eager", fullgraph=True)(x, v), f(x, v))  # sizes that nothing is known of
