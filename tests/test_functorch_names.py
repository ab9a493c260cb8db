"""The package functorch, whose names are those of tocha.func in an older coat."""

from __future__ import annotations

import importlib

import pytest

import tocha
from tocha import functorch
from tocha.functorch import compile as ahead_of_time
from tocha.functorch import experimental


class Tied(tocha.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = tocha.nn.Linear(2, 2), tocha.nn.Linear(2, 2)
        self.b.weight = self.a.weight

    def forward(self, x):
        return self.b(self.a(x))


@pytest.mark.parametrize("name", ["vmap", "grad", "grad_and_value", "jacrev", "jacfwd", "hessian", "functionalize"])
def test_transforms_say_where_they_are_now(name):
    instead = "torch.vmap" if name == "vmap" else f"torch.func.{name}"
    with pytest.warns(FutureWarning, match=rf"`functorch\.{name}` is deprecated.*Please use `{instead}` instead"):
        made = getattr(functorch, name)(tocha.sin)
    x = tocha.tensor([0.5, 0.7]) if name in ("vmap", "functionalize") else tocha.tensor(0.5)
    expected = getattr(tocha.func, name)(tocha.sin)(x)
    assert str(made(x)) == str(expected)


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_make_functional_has_copies_and_knows_tied_weights():
    model = Tied()
    f, params = functorch.make_functional(model)
    assert f.param_names == ("a.weight", "a.bias", "b.bias")
    assert f.names_map == {"a.weight": ["a.weight", "b.weight"], "a.bias": ["a.bias"], "b.bias": ["b.bias"]}
    assert all(p is not q and p.requires_grad for p, q in zip(params, model.parameters(), strict=True))
    x = tocha.ones(3, 2)
    assert tocha.equal(f(params, x), model(x))
    assert not tocha.equal(f([p * 2 for p in params], x), model(x))
    assert not any(p.requires_grad for p in functorch.make_functional(model, disable_autograd_tracking=True)[1])
    grads = tocha.func.grad(lambda p: f(p, x).sum())(params)
    model(x).sum().backward()
    assert all(tocha.allclose(g, p.grad) for g, p in zip(grads, model.parameters(), strict=True))


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_modules_with_buffers_and_ensembles():
    with pytest.raises(RuntimeError, match=r"`model` has buffers\. Please use make_functional_with_buffers"):
        functorch.make_functional(tocha.nn.BatchNorm1d(2))
    models = [tocha.nn.BatchNorm1d(2).eval() for _ in range(3)]
    for i, m in enumerate(models):
        m.running_mean.fill_(float(i))
    f, params, buffers = functorch.combine_state_for_ensemble(models)
    x = tocha.randn(4, 2)
    found = tocha.func.vmap(f, in_dims=(0, 0, None))(params, buffers, x)
    assert tocha.allclose(found, tocha.stack([m(x) for m in models]))
    for bad, text in (
        ([], "Expected at least one model, got 0"),
        ([models[0], tocha.nn.Linear(2, 2).eval()], "Expected all models to be of the same class"),
        ([models[0], tocha.nn.BatchNorm1d(2)], "same training/eval mode"),
    ):
        with pytest.raises(RuntimeError, match=text):
            functorch.combine_state_for_ensemble(bad)


def test_chunks_and_ahead_of_time():
    x = tocha.arange(7.0)
    assert tocha.equal(experimental.chunk_vmap(tocha.sin, chunks=3)(x), x.sin())
    with pytest.raises(ValueError, match="at least 1"):
        experimental.chunk_vmap(tocha.sin, chunks=0)
    assert tocha.equal(ahead_of_time.aot_function(tocha.sin, fw_compiler=ahead_of_time.nop)(x), x.sin())


class Box:
    """A container that vmap knows nothing of."""

    def __init__(self, value):
        self.value = value


def test_packages_put_their_own_steps_into_vmap(monkeypatch):
    """tensordict does: a box is a leaf, mapped over as its tensor is; levels are said by number."""
    steps = importlib.import_module("tocha._functorch.vmap")
    numbers = []

    def inputs(in_dims, args, func):
        return len(args[0].value), [0], list(args), steps.tree_flatten(args)[1]

    def batched(flat_in_dims, flat_args, vmap_level, args_spec):
        numbers.append(vmap_level)
        boxes = [Box(steps._add_batch_dim(b.value, d, vmap_level)) for b, d in zip(flat_args, flat_in_dims)]
        return steps.tree_unflatten(boxes, args_spec)

    def unwrapped(outputs, out_dims, vmap_level, batch_size, func):
        name = steps._get_name(func)
        return Box(steps._maybe_remove_batch_dim(name, outputs.value, vmap_level, batch_size, out_dims))

    monkeypatch.setattr(steps, "_process_batched_inputs", inputs)
    monkeypatch.setattr(steps, "_create_batched_inputs", batched)
    monkeypatch.setattr(steps, "_unwrap_batched", unwrapped)
    x = tocha.arange(6.0).reshape(3, 2)
    out = tocha.vmap(lambda box: Box(box.value.sum()))(Box(x))
    assert out.value.tolist() == [1.0, 5.0, 9.0]
    nested = tocha.vmap(lambda box: tocha.vmap(lambda inner: Box(inner.value * 2), out_dims=-1)(box))(Box(x))
    assert nested.value.tolist() == (x * 2).tolist()
    assert numbers == [1, 1, 2]


def test_ways_of_compiling():
    assert ahead_of_time.compiled_module is ahead_of_time.aot_module
    assert ahead_of_time.config is tocha._functorch.config
    assert tocha.ops.aten.gelu_backward.default in ahead_of_time.default_decompositions
    assert tocha.ops.aten.masked_fill.Scalar in ahead_of_time.default_decompositions
    layer = tocha.nn.Sequential(tocha.nn.Linear(3, 4), tocha.nn.GELU())
    fused = ahead_of_time.memory_efficient_fusion(layer)
    x = tocha.randn(5, 3)
    (fused(x) * 2).sum().backward()
    gradients = [p.grad for p in layer.parameters()]
    layer.zero_grad()
    (layer(x) * 2).sum().backward()
    tocha.testing.assert_close(gradients, [p.grad for p in layer.parameters()])
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = ahead_of_time.nothing
