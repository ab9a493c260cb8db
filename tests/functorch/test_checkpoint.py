"""Checkpointed regions through ahead-of-time autograd, and selective checkpointing in eager mode."""

from __future__ import annotations

import functools

import pytest

import tocha
from tocha._functorch.aot_autograd import aot_function
from tocha._functorch.partitioners import default_partition, min_cut_rematerialization_partition
from tocha.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

aten = tocha.ops.aten
PARTITIONS = (default_partition, min_cut_rematerialization_partition)


def block(x, w):
    return ((x @ w).sin() @ w).exp()


def compiled(f, partition):
    graphs = []

    def keep(graph, inputs):
        graphs.append(graph)
        return graph

    return aot_function(f, keep, partition_fn=partition), graphs


def count(graph, target) -> int:
    """How often an operator of forward is called: not on gradients."""
    gradients = set()
    for n in graph.graph.nodes:
        if n.name.startswith("tangents") or any(i in gradients for i in n.all_input_nodes):
            gradients.add(n)
    return len([n for n in graph.graph.find_nodes(op="call_function", target=target) if n not in gradients])


def kept(graph) -> int:
    """How many values computed by forward are kept."""
    return sum(n.op == "call_function" for n in graph.graph.output_node().args[0][1:])


def inputs():
    return tocha.rand(3, 3, requires_grad=True), tocha.rand(3, 3, requires_grad=True)


def check(f, partition):
    g, graphs = compiled(f, partition)
    x, w = inputs()
    got = tocha.autograd.grad(g(x, w).sum(), (x, w))
    want = tocha.autograd.grad(f(x, w).sum(), (x, w))
    for a, b in zip(got, want, strict=True):
        tocha.testing.assert_close(a, b)
    return graphs


@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize("partition", PARTITIONS)
def test_a_region_is_computed_again(partition, reentrant):
    forward, backward = check(lambda x, w: checkpoint(block, x, w, use_reentrant=reentrant).cos(), partition)
    assert count(backward, aten.mm.default) == 1  # the product that the others are computed from
    assert kept(forward) <= 1  # what leaves the region


@pytest.mark.parametrize("partition", PARTITIONS)
def test_without_a_region_products_are_kept(partition):
    forward, backward = check(lambda x, w: block(x, w).cos(), partition)
    assert count(backward, aten.mm.default) == 0 and kept(forward) >= 2


@pytest.mark.parametrize("partition", PARTITIONS)
def test_selective_regions_keep_what_the_policy_says(partition):
    contexts = functools.partial(create_selective_checkpoint_contexts, [aten.mm.default])

    def f(x, w):
        return checkpoint(block, x, w, use_reentrant=False, context_fn=contexts).cos()

    forward, backward = check(f, partition)
    assert count(backward, aten.mm.default) == 0
    assert [str(n.target) for n in forward.graph.output_node().args[0][1:] if n.op == "call_function"] == [
        "aten.mm.default",
        "aten.exp.default",
    ]


def test_policies_are_told_of_operators_and_values():
    told = []

    def policy(ctx, op, *args, **kwargs):
        told.append((ctx.is_recompute, str(op), tuple(args[0].shape)))
        return CheckpointPolicy.MUST_RECOMPUTE

    contexts = functools.partial(create_selective_checkpoint_contexts, policy)
    check(lambda x, w: checkpoint(block, x, w, use_reentrant=False, context_fn=contexts).cos(), default_partition)
    assert (False, "aten.mm.default", (3, 3)) in told


def test_random_numbers_of_a_region_are_drawn_once():
    def region(x, w):
        return tocha.nn.functional.dropout(x @ w, 0.5).sin()

    g, graphs = compiled(
        lambda x, w: checkpoint(region, x, w, use_reentrant=False).cos(), min_cut_rematerialization_partition
    )
    x, w = inputs()
    g(x, w).sum().backward()
    assert not any(
        "random" in str(n.target) or "native_dropout.default" in str(n.target) for n in graphs[1].graph.nodes
    )


def test_nested_regions_are_told_apart():
    def outer(x, w):
        return checkpoint(block, x, w, use_reentrant=False) @ w

    check(lambda x, w: checkpoint(outer, x, w, use_reentrant=False).sin(), min_cut_rematerialization_partition)


# ---- eager -----------------------------------------------------------------------------------------


def test_backward_computes_a_region_once():
    runs = []

    def counted(x, w):
        runs.append(1)
        return block(x, w)

    checkpoint(counted, *inputs(), use_reentrant=False).sum().backward()
    assert len(runs) == 2


def test_saved_operators_are_not_run_again():
    x, w = inputs()
    contexts = create_selective_checkpoint_contexts([aten.mm.default])
    out = checkpoint(block, x, w, use_reentrant=False, context_fn=lambda: contexts).sum()
    storage = contexts[0].storage
    assert len(storage[aten.mm.default]) == 2
    storage[aten.mm.default][0][0].fill_(0.5)  # seen by backward, which does not compute it
    contexts[1].allows_writes = True
    got = tocha.autograd.grad(out, (x, w))
    want = tocha.autograd.grad(block(x, w).sum(), (x, w))
    assert not tocha.allclose(got[0], want[0])


@pytest.mark.parametrize(
    "policy", [lambda ctx, op, *a, **k: "mm" in str(op), lambda ctx, op, *a, **k: CheckpointPolicy.PREFER_SAVE]
)
def test_policies_in_eager_mode(policy):
    x, w = inputs()
    contexts = functools.partial(create_selective_checkpoint_contexts, policy)
    out = checkpoint(block, x, w, use_reentrant=False, context_fn=contexts).sum()
    for a, b in zip(tocha.autograd.grad(out, (x, w)), tocha.autograd.grad(block(x, w).sum(), (x, w)), strict=True):
        tocha.testing.assert_close(a, b)


def test_policies_are_asked_once_and_see_results():
    asked = []

    def every_other(ctx, op, *args, **kwargs):
        asked.append((str(op), ctx.is_recompute, tuple(ctx.op_output.shape)))
        return CheckpointPolicy.MUST_SAVE if len(asked) % 2 else CheckpointPolicy.PREFER_RECOMPUTE

    x = tocha.ones(2, 2, requires_grad=True)
    contexts = functools.partial(create_selective_checkpoint_contexts, every_other)
    out = checkpoint(lambda x: (x.sin() + x.cos().sin()).exp().sum(), x, use_reentrant=False, context_fn=contexts)
    out.backward()
    (want,) = tocha.autograd.grad((x.sin() + x.cos().sin()).exp().sum(), x)
    tocha.testing.assert_close(x.grad, want)
    assert [a[0] for a in asked] == [f"aten.{n}" for n in ("sin.default", "cos.default", "sin.default", "add.Tensor", "exp.default", "sum.default")]  # fmt: skip
    assert {a[1] for a in asked} == {False} and asked[0][2] == (2, 2) and asked[-1][2] == ()


def test_backward_again_where_nothing_is_kept():
    x = tocha.ones(2, 2, requires_grad=True)
    contexts = functools.partial(create_selective_checkpoint_contexts, lambda ctx, op, *a, **k: False)
    out = checkpoint(lambda x: (x @ x).sin().sum(), x, use_reentrant=False, context_fn=contexts)
    first, second = (tocha.autograd.grad(out, x, retain_graph=keep)[0] for keep in (True, False))
    tocha.testing.assert_close(first, second)


def test_refusals():
    with pytest.raises(TypeError, match="policy_fn_or_list must be either a function or a list of ops"):
        create_selective_checkpoint_contexts(3)
    with pytest.raises(ValueError, match=r"Expected op in `op_list` to be an OpOverload but got: aten\.mm"):
        create_selective_checkpoint_contexts([aten.mm])
