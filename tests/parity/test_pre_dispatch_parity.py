"""make_fx(pre_dispatch=True): the operators and switches that PyTorch's graphs above autograd have, in their order."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from beside import ours, theirs

import tocha

PROGRAMS: dict[str, Callable] = {}


def program(f: Callable) -> Callable:
    PROGRAMS[f.__name__] = f
    return f


@program
def linear_and_dropout(t: Any, x: Any, w: Any) -> Any:
    return t.nn.functional.dropout(t.nn.functional.linear(x, w), 0.0, True)


@program
def composites(t: Any, x: Any, w: Any) -> Any:
    f = t.nn.functional
    y = f.layer_norm(x, (4,)).softmax(-1).reshape(4, 3).flatten() @ x.flatten()
    return f.silu(y), f.gelu(x), x.to(t.float64), f.mse_loss(x, w), f.cross_entropy(x, w), x.t() @ w


@program
def norms(t: Any, x: Any, w: Any) -> Any:
    f = t.nn.functional
    y = x.reshape(1, 3, 4)
    return f.batch_norm(y, None, None, training=True), f.group_norm(y, 1), f.instance_norm(y), f.rms_norm(y, (4,))


@program
def layers(t: Any, x: Any, w: Any) -> Any:
    f = t.nn.functional
    y = x.reshape(1, 1, 3, 4)
    z = f.conv2d(y, w[:2, :2].reshape(1, 1, 2, 2), padding=1)
    return f.max_pool2d(z, 2), f.avg_pool2d(z, 2), f.pad(y, (1, 1)), f.interpolate(y, scale_factor=2)


@program
def attention(t: Any, x: Any, w: Any) -> Any:
    q = x.reshape(1, 1, 3, 4)
    return t.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True)


@program
def indexed(t: Any, x: Any, w: Any) -> Any:
    return x[0, 1:3], x[:, None], x[..., -1]


@program
def written(t: Any, x: Any, w: Any) -> Any:
    y = x.clone()
    y.add_(1).mul_(w)
    t.add(x, w, out=y)
    return y


@program
def several_results(t: Any, x: Any, w: Any) -> Any:
    a, b = x.chunk(2, 1)
    return a + b, x.max(0).values, x.sort().indices, t.cat(x.split(1)), x.var(0)


@program
def without_recording(t: Any, x: Any, w: Any) -> Any:
    y = x * w
    with t.no_grad():
        z = x + 1
        with t.enable_grad():
            z = z * x
    return y * z


@program
def switched(t: Any, x: Any, w: Any) -> Any:
    t.set_grad_enabled(False)
    y = x * 2
    t.set_grad_enabled(True)
    return y * x


@program
def mixed_precision(t: Any, x: Any, w: Any) -> Any:
    with t.autocast("cpu", t.bfloat16):
        y = x @ w.t()
        with t.autocast("cpu", enabled=False):
            z = x @ w.t()
    return y, z


@program
def numbers(t: Any, x: Any, w: Any) -> Any:
    return 1 - x, 2 * x, x / 3, x**2, x > 0, -x


def traced(library: Any, f: Callable, mode: str, *args: Any) -> Any:
    make_fx = importlib.import_module(f"{library.__name__}.fx.experimental.proxy_tensor").make_fx
    return make_fx(lambda x, w: f(library, x, w), tracing_mode=mode, pre_dispatch=True)(*args)


def calls(graph: Any) -> list[str]:
    found = []
    for n in graph.graph.nodes:
        if n.op == "call_function" and getattr(n.target, "__name__", "") != "getitem":
            name = str(n.target) if hasattr(n.target, "_schema") else n.target.__name__
            found.append(f"{name} {n.args[0]}" if name == "_set_grad_enabled" else name)
    return found


# What PyTorch's Python calls where ours has nothing to do, or another overload of the same operator; sizes are named as they are used.
SAME = {
    "aten.std.default": "aten.std.correction",
    "aten.var.dim": "aten.var.correction",
    "aten.upsample_nearest2d.vec": "aten.upsample_nearest2d.default",
}
NOTHING = ("aten.sym_size.int", "aten.broadcast_tensors.default")


def named(graph: Any, mode: str) -> list[str]:
    """The calls; of slices that take all, which PyTorch keeps where sizes are symbols, nothing."""
    dropped = (*NOTHING, "aten.slice.Tensor") if mode == "symbolic" else NOTHING
    return [SAME.get(c, c) for c in calls(graph) if c not in dropped]


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_graph_and_values(name: str, mode: str) -> None:
    torch.manual_seed(0)
    x, w = torch.rand(3, 4), torch.rand(3, 4)
    graph = traced(tocha, PROGRAMS[name], mode, ours(x), ours(w))
    assert named(graph, mode) == named(traced(torch, PROGRAMS[name], mode, x, w), mode)
    wanted, given = PROGRAMS[name](torch, x, w), graph(ours(x), ours(w))
    for a, b in zip(
        given if isinstance(given, tuple) else (given,), wanted if isinstance(wanted, tuple) else (wanted,), strict=True
    ):
        torch.testing.assert_close(theirs(a), b)
