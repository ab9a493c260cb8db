"""Checkpointed regions in captured code: one node of the graph, computed again in backward."""

import copy
import functools

import pytest

import tocha
from tocha import nn
from tocha.utils.checkpoint import checkpoint


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 16), nn.Linear(16, 8)

    def inner(self, x, scale=1.0):
        return self.second(nn.functional.dropout(self.first(x).relu(), 0.5, self.training)) * scale

    def forward(self, x):
        x = checkpoint(self.inner, x, use_reentrant=False)
        return checkpoint(self.inner, x, scale=2.0, use_reentrant=False, preserve_rng_state=True)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("training", [False, True])
def test_gradients(backend, training):
    tocha.manual_seed(0)
    model = Block().train(training)
    other = copy.deepcopy(model)
    compiled = tocha.compile(other, backend=backend, fullgraph=True)
    x = tocha.randn(3, 8)
    for f in (model, compiled):
        tocha.manual_seed(1)
        f(x).square().sum().backward()
    for p, q in zip(model.parameters(), other.parameters(), strict=True):
        tocha.testing.assert_close(q.grad, p.grad, rtol=1e-4, atol=1e-5)


def test_the_region_is_marked_for_the_partitioner():
    seen = []

    def compiler(graph, inputs):
        seen.append({n.meta.get("ac_graph_id") for n in graph.graph.nodes if n.op == "call_function"})
        return graph

    def backend(module, inputs):
        return tocha._functorch.aot_autograd.aot_module_simplified(module, inputs, fw_compiler=compiler)

    f = tocha.compile(
        lambda x: checkpoint(lambda t: t.sin().exp(), x, use_reentrant=False), backend=backend, fullgraph=True
    )
    f(tocha.randn(3, requires_grad=True))
    assert any(number is not None for number in seen[0])


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_a_policy_says_what_is_computed_again(backend):
    from tocha.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

    def policy(ctx, op, *args, **kwargs):
        return CheckpointPolicy.MUST_SAVE if op is tocha.ops.aten.mm.default else CheckpointPolicy.PREFER_RECOMPUTE

    def f(x, weight):
        contexts = functools.partial(create_selective_checkpoint_contexts, policy)
        return checkpoint(lambda x: ((x @ weight).sin() @ weight).cos(), x, use_reentrant=False, context_fn=contexts)

    weight, same = (tocha.arange(9.0).reshape(3, 3).requires_grad_() for _ in range(2))
    f(tocha.ones(2, 3), weight).sum().backward()
    tocha.compile(f, backend=backend, fullgraph=True)(tocha.ones(2, 3), same).sum().backward()
    tocha.testing.assert_close(weight.grad, same.grad)
