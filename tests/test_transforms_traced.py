"""Transforms of functions that are traced, captured or run on fakes: what levels make of operators is what modes below see."""

from __future__ import annotations

import pytest

import tocha
from tocha._dynamo.testing import CompileCounterWithBackend
from tocha._functorch.aot_autograd import aot_function, nop
from tocha._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from tocha.func import functional_call, grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, vjp, vmap
from tocha.fx.experimental.proxy_tensor import make_fx
from tocha.utils._pytree import tree_leaves

F = tocha.nn.functional


def loss(w, x):
    return (tocha.tanh(x @ w) * 2 - 1).pow(2).sum()


def wave(x):
    return x.sin() * x


def with_writes(x):
    made = tocha.zeros(3)
    made[0] = 2.0
    made[1:].copy_(x[1:])
    made.add_(x)
    return (made * x).sum()


def network(w, x):
    y = F.max_pool2d(F.relu(F.conv2d(x.unsqueeze(0), w)), 2)
    return F.cross_entropy(y.flatten(1), tocha.tensor([1]))


tocha.manual_seed(0)
X = tocha.randn(4, 3)
ROW = X[0].clone()
IMAGES, KERNELS = tocha.randn(3, 2, 6, 6), tocha.randn(2, 2, 3, 3)
PROGRAMS = {
    "grad": (grad(loss), (tocha.randn(3, 2), X)),
    "grad_and_value": (grad_and_value(loss), (tocha.randn(3, 2), X)),
    "grad of grad": (grad(lambda x: grad(lambda y: y.sin().prod())(x).sum()), (ROW,)),
    "grad with writes": (grad(with_writes), (ROW,)),
    "vmap": (vmap(wave), (X,)),
    "vmap over other dims": (vmap(lambda a, b: a @ b, in_dims=(1, None), out_dims=1), (X, tocha.randn(4, 2))),
    "vmap of vmap": (vmap(vmap(lambda a, b: a * b + 1, (0, None)), (0, 0)), (X, tocha.randn(4))),
    "vmap of grad": (vmap(grad(lambda x: wave(x).sum())), (X,)),
    "per-sample gradients": (vmap(grad(network), (None, 0)), (KERNELS, IMAGES)),
    "vjp": (lambda x, t: vjp(wave, x)[1](t), (ROW, tocha.ones(3))),
    "jvp": (lambda x, t: jvp(wave, (x,), (t,)), (ROW, tocha.ones(3))),
    "jvp of grad": (lambda x, t: jvp(grad(lambda y: wave(y).prod()), (x,), (t,)), (ROW, tocha.ones(3))),
    "linearize": (lambda x, t: linearize(wave, x)[1](t), (ROW, tocha.ones(3))),
    "jacrev": (jacrev(wave), (ROW,)),
    "jacfwd": (jacfwd(wave), (ROW,)),
    "hessian": (hessian(lambda x: wave(x).prod()), (ROW,)),
    "layout": (vmap(lambda x: x.reshape(3, 1)[1:].expand(2, 4).t().softmax(0).sum(-1)), (X,)),
    "numbers": (vmap(grad(lambda x: F.huber_loss(F.hardshrink(x), x * 2, delta=0.3))), (X,)),
}


def same(found, expected):
    found, expected = tree_leaves(found), tree_leaves(expected)
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        assert a.shape == b.shape
        assert tocha.allclose(a, b, rtol=1e-5, atol=1e-6)


def other(args):
    """Arguments of the same shapes."""
    return tuple(a * 0.7 + 0.1 for a in args)


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_traced_transform_is_a_graph_of_what_it_computes(name, mode):
    f, args = PROGRAMS[name]
    graph = make_fx(f, tracing_mode=mode, _allow_non_fake_inputs=True)(*args)
    same(graph(*args), f(*args))
    same(graph(*other(args)), f(*other(args)))
    assert tocha._C._levels() == []


def test_sizes_inside_of_a_transform_are_guarded():
    graph = make_fx(vmap(wave), tracing_mode="symbolic")(X)
    assert "Eq" in str(graph.shape_env.guards) or "==" in str(graph.shape_env.guards)
    assert [tuple(n.meta["val"].shape) for n in graph.graph.nodes if n.op == "call_function"] == [(4, 3)] * 2


@pytest.mark.parametrize("name", PROGRAMS)
def test_fakes_have_the_shapes_of_real_results(name):
    f, args = PROGRAMS[name]
    expected = tree_leaves(f(*args))
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    with mode:
        found = tree_leaves(f(*map(mode.from_tensor, args)))
    assert all(isinstance(t, FakeTensor) for t in found)
    assert [(t.shape, t.dtype) for t in found] == [(t.shape, t.dtype) for t in expected]
    assert tocha._C._levels() == []


@pytest.mark.parametrize("name", PROGRAMS)
def test_differentiated_ahead_of_time(name):
    f, args = PROGRAMS[name]
    plain, compiled = [[a.clone().requires_grad_() for a in args] for _ in range(2)]
    made = aot_function(lambda *xs: tuple(tree_leaves(f(*xs))), fw_compiler=nop)(*compiled)
    expected = tree_leaves(f(*plain))
    same([t.detach() for t in made], [t.detach() for t in expected])
    sum(t.cos().sum() for t in expected).backward()
    sum(t.cos().sum() for t in made).backward()
    for a, b in zip(compiled, plain, strict=True):
        assert (a.grad is None) == (b.grad is None)
        if a.grad is not None:
            assert tocha.allclose(a.grad, b.grad, rtol=1e-4, atol=1e-5)


def captured(backend):
    net = tocha.nn.Linear(3, 2)
    params = {k: v.detach() for k, v in net.named_parameters()}

    def model(p, x, scale=1.0):
        return functional_call(net, p, (x,)).pow(2).sum() * scale

    def pulled(x, t):
        y, pull = vjp(wave, x)
        return y, pull(t), pull(t * 2)

    def linear(x, t):
        y, derivative = linearize(wave, x)
        return y, derivative(t)

    programs = {
        "functional_call": (lambda x: grad(model)(params, x), (X,)),
        "keyword": (lambda x: grad(model)(params, x, scale=2.0), (X,)),
        "keyword of a vmap": (lambda x: vmap(lambda a, b=None: a * b)(x, b=x + 1), (X,)),
        "vjp": (pulled, (ROW, tocha.ones(3))),
        "linearize": (linear, (ROW, tocha.ones(3))),
        "has_aux": (lambda x: grad(lambda y: (wave(y).sum(), y * 2), has_aux=True)(x), (ROW,)),
        "captured tensor": (lambda x, w: vmap(lambda a: a * w)(x), (X, ROW)),
    }
    for name, (f, args) in {**PROGRAMS, **programs}.items():
        yield pytest.param(backend, f, args, id=f"{backend}-{name}")


@pytest.mark.parametrize(("backend", "f", "args"), [*captured("eager"), *captured("aot_eager")])
def test_captured_without_a_break(backend, f, args):
    def program(*xs):
        return f(*xs)

    tocha._dynamo.reset()
    tocha.manual_seed(0)
    made = tocha.compile(program, backend=backend, fullgraph=True)
    same(made(*args), f(*args))
    same(made(*other(args)), f(*other(args)))


def test_sizes_that_change_are_captured_again():
    tocha._dynamo.reset()
    f = grad(lambda x: wave(x).prod())
    made = tocha.compile(lambda x: f(x), backend="aot_eager", fullgraph=True)
    for n in (3, 4, 5, 4):
        same(made(tocha.arange(1.0, n)), f(tocha.arange(1.0, n)))


@pytest.mark.parametrize("name", ["grad", "vmap", "vmap of grad", "jacrev", "hessian"])
def test_a_transform_itself_is_compiled(name):
    f, args = PROGRAMS[name]
    tocha._dynamo.reset()
    counter = CompileCounterWithBackend("aot_eager")
    made = tocha.compile(f, backend=counter, fullgraph=True)
    same(made(*args), f(*args))
    assert counter.frame_count == 1


def test_gradients_of_products_with_views_that_levels_expand():
    """The batched product expands w.t() below autograd; what comes back is summed to its shape."""
    w = tocha.randn(5, 2, requires_grad=True)
    y = tocha.randn(4, 3, 5)

    def one(w, y):
        return vmap(lambda a: w.t().matmul(a.unsqueeze(2)))(y)

    def two(w, y):
        return vmap(lambda a: jacfwd(lambda z: F.linear(F.linear(z, w.t()).sin(), w[:2]))(a[0]))(y)

    for f in (one, two):
        (want,) = tocha.autograd.grad(f(w, y).sum(), w)
        (got,) = tocha.autograd.grad(tocha.compile(f, backend="aot_eager")(w, y).sum(), w)
        tocha.testing.assert_close(got, want)
