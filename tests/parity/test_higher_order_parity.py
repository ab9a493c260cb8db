"""Control flow as operators, checkpointed regions and decompositions: values, gradients and refusals as in PyTorch."""

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


def hop(t: Any, name: str) -> Any:
    return getattr(importlib.import_module(f"{t.__name__}._higher_order_ops.{name}"), name)


@program
def cond_true(t: Any, x: Any, w: Any) -> Any:
    return t.cond(x.sum() > 0, lambda a, b: (a * b).sin(), lambda a, b: a - b, (x, w))


@program
def cond_false(t: Any, x: Any, w: Any) -> Any:
    return t.cond(x.sum() > 1e9, lambda a, b: (a * b).sin(), lambda a, b: a - b, (x, w))


@program
def while_loop(t: Any, x: Any, w: Any) -> Any:
    return hop(t, "while_loop")(lambda i, a: i < 3, lambda i, a: (i + 1, a * 1.5), (t.tensor(0), x.detach()))[1]


@program
def scan(t: Any, x: Any, w: Any) -> Any:
    carry, ys = hop(t, "scan")(lambda c, a: (c + a, c * a), w[0] * 1, x, dim=0)
    return carry, ys


@program
def scan_backwards(t: Any, x: Any, w: Any) -> Any:
    carry, ys = hop(t, "scan")(lambda c, a: (c * 0.5 + a, c + 1), w[:, 0] * 1, x, dim=1, reverse=True)
    return carry, ys


@program
def mapped(t: Any, x: Any, w: Any) -> Any:
    return hop(t, "map")(lambda a, b: (a * b).sum(), x, w[0] * 1)


@program
def associative(t: Any, x: Any, w: Any) -> Any:
    return hop(t, "associative_scan")(lambda a, b: a * b, x * 1, dim=0, combine_mode="generic")


@program
def checkpointed(t: Any, x: Any, w: Any) -> Any:
    checkpoint = importlib.import_module(f"{t.__name__}.utils.checkpoint").checkpoint
    return checkpoint(lambda a, b: (a @ b.t()).relu().sum(0), x, w, use_reentrant=False)


def outcome(t: Any, name: str, x: Any, w: Any) -> list[Any]:
    leaves = [v.requires_grad_() for v in (x, w)]
    found = PROGRAMS[name](t, *leaves)
    outs = list(found) if isinstance(found, tuple | list) else [found]
    roots = [o for o in outs if o.requires_grad]
    if not roots:
        return outs
    return [*outs, *t.autograd.grad(sum(r.sin().sum() for r in roots), leaves, allow_unused=True)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_gradients(name: str) -> None:
    torch.manual_seed(0)
    x, w = torch.rand(4, 3), torch.rand(4, 3)
    found = outcome(tocha, name, ours(x), ours(w))
    for a, b in zip(found, outcome(torch, name, x.clone(), w.clone()), strict=True):
        if a is None or b is None:
            assert a is None and (b is None or not b.any())
        elif b.dtype.is_floating_point:
            torch.testing.assert_close(theirs(a), b)


REFUSED = {
    "branches of other shapes": lambda t, x: t.cond(x.sum() > 0, lambda a: a, lambda a: a[0], (x,)),
    "a predicate of several elements": lambda t, x: t.cond(x > 0, lambda a: a + 1, lambda a: a, (x,)),
    "a branch that writes": lambda t, x: t.cond(x.sum() > 0, lambda a: a.add_(1), lambda a: a + 0, (x,)),
    "no leading dim to map": lambda t, x: hop(t, "map")(lambda a: a, x[:0]),
    "another carry": lambda t, x: hop(t, "scan")(lambda c, a: (c[0], a), x[0], x, dim=0),
}


@pytest.mark.parametrize("name", REFUSED)
def test_both_refuse(name: str) -> None:
    x = torch.rand(4, 3)
    with pytest.raises(Exception):  # noqa: B017
        REFUSED[name](torch, x)
    with pytest.raises((RuntimeError, ValueError)):
        REFUSED[name](tocha, ours(x))


DECOMPOSED: dict[str, Callable] = {
    "silu": lambda t, x: t.nn.functional.silu(x),
    "gelu": lambda t, x: t.nn.functional.gelu(x),
    "softplus": lambda t, x: t.nn.functional.softplus(x),
    "huber_loss": lambda t, x: t.nn.functional.huber_loss(x, x * 2),
    "mse_loss": lambda t, x: t.nn.functional.mse_loss(x, x * 2),
    "addcmul": lambda t, x: t.addcmul(x, x, x, value=2),
    "lerp": lambda t, x: t.lerp(x, x * 2, 0.3),
    "logit": lambda t, x: t.logit(x.sigmoid()),
    "frac": lambda t, x: t.frac(x * 3),
    "roll": lambda t, x: x.roll(1, 0),
    "rot90": lambda t, x: t.rot90(x),
    "trace": lambda t, x: t.trace(x),
    "std_mean": lambda t, x: t.std_mean(x, 0),
    "unfold": lambda t, x: x.unfold(0, 2, 1),
    "tril": lambda t, x: x.tril(),
    "nan_to_num": lambda t, x: t.nan_to_num(x / 0),
    "linalg_cross": lambda t, x: t.linalg.cross(x, x * x),
    "xlogy": lambda t, x: t.xlogy(x, x),
    "l1_loss": lambda t, x: t.nn.functional.smooth_l1_loss(x, x * 3),
    "group_norm": lambda t, x: t.nn.functional.group_norm(x.view(1, 2, 6), 2),
}


def is_core(handle: Any) -> bool:
    """Whether an operator is one of docs/inside/core.md: PyTorch's core set, and what nothing smaller says."""
    known = importlib.import_module("tocha._decomp").core_overloads()
    names = {h.overloadpacket.__name__ for handles in known.values() for h in handles}
    return handle.overloadpacket.__name__.removesuffix("_") in {*names, "transpose"}  # rot90 transposes in place


@pytest.mark.parametrize("name", DECOMPOSED)
def test_core_decompositions(name: str) -> None:
    """The graph of core operators computes what PyTorch computes, and holds core operators only."""
    torch.manual_seed(0)
    x = torch.rand(4, 3)
    make_fx = importlib.import_module("tocha.fx.experimental.proxy_tensor").make_fx
    table = importlib.import_module("tocha._decomp").core_aten_decompositions()
    graph = make_fx(lambda x: DECOMPOSED[name](tocha, x), table)(ours(x))
    for n in graph.graph.nodes:
        if n.op == "call_function" and hasattr(n.target, "tags"):
            assert is_core(n.target), n.target
    found, expected = graph(ours(x)), DECOMPOSED[name](torch, x)
    for a, b in zip(*(v if isinstance(v, tuple) else (v,) for v in (found, expected)), strict=True):
        torch.testing.assert_close(theirs(a), b)


def test_get_and_register() -> None:
    ours_, theirs_ = (importlib.import_module(f"{t}._decomp") for t in ("tocha", "torch"))
    names = ["silu.default", "addcmul.default", "mse_loss.default", "native_layer_norm.default"]

    def handles(t: Any) -> list[Any]:
        return [getattr(getattr(t.ops.aten, n.split(".")[0]), n.split(".")[1]) for n in names]

    found, expected = ours_.get_decompositions(handles(tocha)), theirs_.get_decompositions(handles(torch))
    assert {str(k) for k in found} == {str(k) for k in expected}
    whole = {str(k) for k in ours_.core_aten_decompositions()}
    assert {str(k) for k in found if not is_core(k)} <= whole
