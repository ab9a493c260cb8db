"""flex_attention as a node of graphs: traced, run, differentiated, and equal to what it computes on plain tensors."""

from __future__ import annotations

import pytest

import tocha
from tocha._functorch.aot_autograd import aot_function, nop
from tocha._functorch.partitioners import min_cut_rematerialization_partition
from tocha._subclasses import FakeTensorMode
from tocha.fx.experimental.proxy_tensor import make_fx
from tocha.nn.attention.flex_attention import AuxRequest, and_masks, create_block_mask, flex_attention, or_masks
from tocha.testing import assert_close


def inputs(heads=2, kv_heads=2, length=16, dtype=tocha.float32):
    tocha.manual_seed(0)
    sizes = ((2, heads, length, 8), (2, kv_heads, length, 8), (2, kv_heads, length, 4))
    return [tocha.rand(*s, dtype=dtype) for s in sizes]


def block_mask(mod, length=16):
    return create_block_mask(mod, None, None, length, length, BLOCK_SIZE=8)


def causal(b, h, q, k):
    return q >= k


SCORES = {
    "none": None,
    "itself": lambda s, b, h, q, k: s,
    "relative": lambda s, b, h, q, k: s + (q - k),
    "soft cap": lambda s, b, h, q, k: 20 * tocha.tanh(s / 20),
    "by head": lambda s, b, h, q, k: s * (h + 1),
    "masked": lambda s, b, h, q, k: tocha.where(q >= k, s, -float("inf")),
}
MASKS = {
    "none": None,
    "causal": causal,
    "window": and_masks(causal, lambda b, h, q, k: q - k < 5),
    "prefix": or_masks(causal, lambda b, h, q, k: k < 4),
}


def nodes(graph, name):
    return [
        n for n in graph.graph.nodes if n.op == "call_function" and n.target is getattr(tocha.ops.higher_order, name)
    ]


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("score", SCORES)
def test_graph_equals_call(score, mask, mode):
    args = inputs()
    blocks = None if MASKS[mask] is None else block_mask(MASKS[mask])

    def f(q, k, v):
        return flex_attention(q, k, v, SCORES[score], blocks)

    graph = make_fx(f, tracing_mode=mode, _allow_non_fake_inputs=True)(*args)
    assert len(nodes(graph, "flex_attention")) == 1
    assert_close(graph(*args), f(*args))


@pytest.mark.parametrize("partition", ["default", "min cut"])
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("score", SCORES)
def test_gradients_ahead_of_time(score, mask, partition):
    blocks = None if MASKS[mask] is None else block_mask(MASKS[mask])
    leaves = [x.requires_grad_() for x in inputs(dtype=tocha.float64)]

    def f(q, k, v):
        out, aux = flex_attention(q, k, v, SCORES[score], blocks, return_aux=AuxRequest(lse=True, max_scores=True))
        return out, aux.lse, aux.max_scores

    def outcome(call):
        out, lse, largest = call(*leaves)
        assert not largest.requires_grad
        return out, lse, largest, *tocha.autograd.grad(out.sin().sum() + lse.cos().sum(), leaves)

    more = {} if partition == "default" else {"partition_fn": min_cut_rematerialization_partition}
    for a, b in zip(outcome(aot_function(f, nop, nop, **more)), outcome(f), strict=True):
        assert_close(a, b)


def test_tensors_that_the_functions_read_are_inputs():
    q, k, v = (x.requires_grad_() for x in inputs())
    bias = tocha.rand(2, 16, 16).requires_grad_()
    limit = tocha.tensor([3, 9])

    def f(q, k, v, bias, limit):
        seen = block_mask(lambda b, h, i, j: i - j < 4)
        wide = create_block_mask(lambda b, h, i, j: j < limit[b] + 4, 2, None, 16, 16, BLOCK_SIZE=8)
        first = flex_attention(q, k, v, lambda s, b, h, i, j: s + bias[h, i, j], seen)
        return first + flex_attention(q, k, v, block_mask=wide)

    def outcome(call):
        out = call(q, k, v, bias, limit)
        return out, *tocha.autograd.grad(out.sin().sum(), (q, k, v, bias))

    graphs = []

    def keep(graph, _):
        graphs.append(graph)
        return graph

    for a, b in zip(outcome(aot_function(f, keep, keep)), outcome(f), strict=True):
        assert_close(a, b)
    assert len(nodes(graphs[0], "flex_attention")) == 2
    assert len(nodes(graphs[1], "flex_attention_backward")) == 2


def test_groups_of_heads_and_other_layouts():
    q, k, v = inputs(heads=4)
    q = q.transpose(1, 2).contiguous().transpose(1, 2)

    def f(q, k, v):
        return flex_attention(q, k, v, SCORES["relative"], scale=0.5, enable_gqa=True)

    graph = make_fx(f, tracing_mode="fake")(q, k, v)
    assert_close(graph(q, k, v), f(q, k, v))
    shown = nodes(graph, "flex_attention")[0].meta["val"][0]
    assert shown.shape == f(q, k, v).shape and shown.stride() == f(q, k, v).stride()


def test_traced_once_runs_at_other_sizes():
    def f(q, k, v):
        return flex_attention(q, k, v, SCORES["relative"])

    graph = make_fx(f, tracing_mode="symbolic")(*inputs())
    other = inputs(length=24)
    assert_close(graph(*other), f(*other))


def test_fakes():
    args = inputs()
    with FakeTensorMode() as mode:
        fakes = [mode.from_tensor(x) for x in args]
        out, lse = flex_attention(*fakes, SCORES["soft cap"], return_lse=True)
    assert out.shape == (2, 2, 16, 4) and lse.shape == (2, 2, 16) and lse.dtype == tocha.float32


def test_double_backward_is_refused():
    q, k, v = (x.requires_grad_() for x in inputs())

    def f(q, k, v):
        (grad,) = tocha.autograd.grad(flex_attention(q, k, v, SCORES["itself"]).sum(), q, create_graph=True)
        return grad.sum()

    with pytest.raises(RuntimeError, match="double backward"):
        make_fx(f, tracing_mode="fake")(q, k, v)
