"""make_fx(pre_dispatch=True): what graphs above autograd hold, and that they run as the program does."""

from __future__ import annotations

import pytest

import tocha
from tocha import nn
from tocha.fx.experimental.proxy_tensor import make_fx
from tocha.nn import functional as F
from tocha.testing import assert_close

MODES = pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])


def above(f, mode, *args):
    return make_fx(f, tracing_mode=mode, pre_dispatch=True, _allow_non_fake_inputs=True)(*args)


def targets(graph):
    return [str(n.target) for n in graph.graph.nodes if n.op == "call_function" and "getitem" not in str(n.target)]


@MODES
def test_composites_stay_whole(mode):
    def f(x, w):
        return F.layer_norm(F.linear(x, w).softmax(-1), (4,))

    args = tocha.rand(2, 3), tocha.rand(4, 3)
    graph = above(f, mode, *args)
    assert targets(graph) == ["aten.linear.default", "aten.softmax.int", "aten.layer_norm.default"]
    assert_close(graph(*args), f(*args))


@MODES
def test_gradients_flow_through_the_graph(mode):
    def f(x, w):
        with tocha.no_grad():
            scale = (x * 2).sum()
        return (F.linear(x, w) * scale).sum()

    x, w = tocha.rand(2, 3), tocha.rand(4, 3)
    graph = above(f, mode, x, w)
    leaf = w.clone().requires_grad_()
    expected = tocha.autograd.grad(f(x, leaf), leaf)[0]
    assert_close(tocha.autograd.grad(graph(x, leaf), leaf)[0], expected)
    held = x.clone().requires_grad_()
    assert_close(tocha.autograd.grad(graph(held, w), held)[0], tocha.autograd.grad(f(held, w), held)[0])


@MODES
def test_gradients_that_the_program_asks_for(mode):
    def f(x):
        x = x.clone().requires_grad_()
        return tocha.autograd.grad((x.sin() * x).sum(), x)[0]

    x = tocha.rand(3)
    graph = above(f, mode, x)
    assert "aten.cos.default" in targets(graph)
    other = tocha.rand(3)
    assert_close(graph(other), f(other))


@MODES
def test_mixed_precision_is_entered_again(mode):
    def f(x):
        with tocha.autocast("cpu", tocha.bfloat16):
            return x @ x.t()

    x = tocha.rand(2, 3)
    graph = above(f, mode, x)
    assert graph(x).dtype == tocha.bfloat16
    assert not tocha.is_autocast_enabled("cpu")
    graph.graph.eliminate_dead_code()
    graph.recompile()
    assert graph(x).dtype == tocha.bfloat16


@MODES
def test_written_indexed_and_made(mode):
    def f(x):
        y = tocha.zeros(2, 3) + tocha.tensor([1.0, 2.0, 3.0])
        y[0] = x[1]
        y.mul_(2)
        tocha.add(x, y, out=y)
        return y, x[:, 1:], x.max(0).indices, x[x[:, 0].argsort()]

    x = tocha.rand(2, 3)
    graph = above(f, mode, x)
    for a, b in zip(graph(x), f(x), strict=True):
        assert_close(a, b)


def test_modules():
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Dropout(0.0), nn.Flatten()).train()
    x = tocha.rand(2, 1, 5, 5)
    graph = above(model, "real", x)
    assert {"aten.conv2d.default", "aten.batch_norm.default", "aten.flatten.using_ints"} <= set(targets(graph))
    assert_close(graph(x), model(x))


@MODES
def test_functions_inside_graphs_are_above_too(mode):
    def f(x):
        return tocha.cond(x.sum() > 0, lambda a: F.linear(a, a), lambda a: a @ a.t(), (x,))

    x = tocha.rand(2, 3)
    graph = above(f, mode, x)
    assert "aten.linear.default" in targets(graph.true_graph_0)
    assert_close(graph(x), f(x))


def test_symbols_serve_other_sizes():
    def f(x):
        return F.softmax(x.reshape(-1), 0).view(x.shape[0], -1)

    graph = above(f, "symbolic", tocha.rand(2, 3))
    other = tocha.rand(4, 5)
    assert_close(graph(other), f(other))


def test_the_switch_is_off_afterwards():
    above(lambda x: x + 1, "real", tocha.ones(2))
    with pytest.raises(ZeroDivisionError):
        above(lambda x: x + 1 / 0, "real", tocha.ones(2))
    below = make_fx(lambda x: F.linear(x, x))(tocha.ones(2, 2))
    assert "aten.linear.default" not in targets(below)
    assert type(tocha.ones(2) + 1) is tocha.Tensor


def test_decompositions_count():
    table = {tocha.ops.aten.silu.default: lambda x: x * x.sigmoid()}
    graph = make_fx(lambda x: F.silu(x), table, pre_dispatch=True)(tocha.rand(2))
    assert targets(graph) == ["aten.sigmoid.default", "aten.mul.Tensor"]


def test_what_returns_its_argument_is_kept():
    """Called on something else, it is no such thing."""
    graph = make_fx(lambda x: x.to(tocha.float32).flatten() * 1, pre_dispatch=True)(tocha.ones(3))
    assert graph(tocha.ones(2, 3, dtype=tocha.float64)).dtype is tocha.float32
    assert graph(tocha.ones(2, 3)).shape == (6,)
