"""nn.utils: clipping, vectors of parameters, packed sequences, reparametrizations, pruning, fusion, functional calls."""

from __future__ import annotations

import copy
import pickle
import re

import numpy as np
import pytest

import tocha
from tocha import func, nn
from tocha.nn import utils
from tocha.nn.utils import parametrizations, parametrize, prune, rnn


def raises(kind, text):
    """The error's text begins so."""
    return pytest.raises(kind, match="^" + re.escape(text))


def linear(inputs: int = 3, outputs: int = 2) -> nn.Linear:
    m = nn.Linear(inputs, outputs)
    with tocha.no_grad():
        m.weight.copy_((tocha.arange(float(inputs * outputs)).view(outputs, inputs) + 1).sin())
        m.bias.zero_()
    return m


def with_grads(*grads):
    params = []
    for g in grads:
        p = nn.Parameter(tocha.zeros(2 if g is None else len(g)))
        p.grad = None if g is None else tocha.tensor(g)
        params.append(p)
    return params


# ---- clipping ----


@pytest.mark.parametrize(("order", "norm"), [(2.0, 13.0), (1, 19.0), (float("inf"), 12.0), ("inf", 12.0)])
def test_clip_grad_norm(order, norm):
    params = with_grads([3.0, 4.0], None, [0.0, 12.0])
    assert utils.clip_grad_norm_(params, 1.0, order).item() == norm
    np.testing.assert_allclose(params[0].grad.numpy(), np.array([3, 4]) / norm, rtol=1e-5)
    np.testing.assert_allclose(params[2].grad.numpy(), np.array([0, 12]) / norm, rtol=1e-5)
    assert utils.clip_grad_norm_(params, 100.0, order).item() == pytest.approx(1.0, rel=1e-5)


def test_clip_grad_norm_details():
    assert utils.clip_grad_norm_([], 1.0).item() == 0.0
    assert utils.clip_grad_norm_(with_grads([3.0, 4.0])[0], 1.0, foreach=True).item() == 5.0
    with pytest.warns(UserWarning, match="`parameters` is an empty generator, no gradient clipping will occur."):
        utils.clip_grad_norm_((p for p in ()), 1.0)
    with raises(RuntimeError, "The total norm of order 2.0 for gradients from `parameters` is non-finite"):
        utils.clip_grad_norm_(with_grads([3.0, float("nan")]), 1.0, error_if_nonfinite=True)
    with pytest.warns(FutureWarning, match="is now deprecated"):
        utils.clip_grad_norm(with_grads([1.0]), 1.0)
    params = with_grads([3.0, 4.0])
    utils.clip_grads_with_norm_(params, 1.0, utils.get_total_norm([p.grad for p in params]))
    np.testing.assert_allclose(params[0].grad.numpy(), [0.6, 0.8], rtol=1e-5)


def test_clip_grad_value():
    params = with_grads([3.0, -4.0, 0.5])
    utils.clip_grad_value_(iter(params), 1.5)
    assert params[0].grad.tolist() == [1.5, -1.5, 0.5]


# ---- vectors, skipping initialisation ----


def test_vectors_of_parameters():
    m = nn.Sequential(linear(2, 1), linear(1, 1))
    assert utils.parameters_to_vector(m.parameters()).shape == (5,)
    vector = tocha.arange(5.0)
    params = list(m.parameters())
    utils.vector_to_parameters(vector, m.parameters())
    assert next(iter(m.parameters())) is params[0]
    assert [p.tolist() for p in params] == [[[0.0, 1.0]], [2.0], [[3.0]], [4.0]]
    assert tocha.equal(utils.parameters_to_vector(params), vector)
    with raises(TypeError, "expected tocha.Tensor, but got: list"):
        utils.vector_to_parameters([1], params)


def test_skip_init():
    m = utils.skip_init(nn.Linear, 3, 2)
    assert m.weight.shape == (2, 3) and m.weight.device.type == "cpu" and m.weight.requires_grad
    with raises(RuntimeError, "Module must support a 'device' arg to skip initialization"):
        utils.skip_init(nn.Module)
    with raises(RuntimeError, "Expected a Module; got <class 'int'>"):
        utils.skip_init(int)


# ---- sequences ----

A, B, C = tocha.arange(6.0).view(3, 2), tocha.tensor([[10.0, 11.0]]), tocha.arange(4.0).view(2, 2) + 20
LONG_FIRST = [[0.0, 1.0], [20.0, 21.0], [10.0, 11.0], [2.0, 3.0], [22.0, 23.0], [4.0, 5.0]]


def test_pad_sequence():
    padded = rnn.pad_sequence([A, B, C], padding_value=-1.0)
    assert padded.shape == (3, 3, 2) and padded[1].tolist() == [[2.0, 3.0], [-1.0, -1.0], [22.0, 23.0]]
    left = rnn.pad_sequence([A, B], batch_first=True, padding_side="left")
    assert left[1].tolist() == [[0.0, 0.0], [0.0, 0.0], [10.0, 11.0]]
    assert [s.tolist() for s in rnn.unpad_sequence(padded, tocha.tensor([3, 1, 2]))] == [s.tolist() for s in (A, B, C)]
    assert padded.shape == (3, 3, 2)
    with raises(RuntimeError, "received an empty list of sequences"):
        rnn.pad_sequence([])
    with raises(RuntimeError, "Expected padding_side to be one of left or right, but got x."):
        rnn.pad_sequence([A], padding_side="x")


def test_packing():
    packed = rnn.pack_sequence([A, C, B])
    assert packed.data.tolist() == LONG_FIRST and packed.batch_sizes.tolist() == [3, 2, 1]
    assert packed.sorted_indices is None
    shuffled = rnn.pack_sequence([B, A, C], enforce_sorted=False)
    assert shuffled.data.tolist() == LONG_FIRST
    assert shuffled.sorted_indices.tolist() == [1, 2, 0] and shuffled.unsorted_indices.tolist() == [2, 0, 1]
    padded, lengths = rnn.pad_packed_sequence(shuffled, batch_first=True, padding_value=-5.0, total_length=4)
    assert lengths.tolist() == [1, 3, 2] and padded.shape == (3, 4, 2)
    assert padded[2].tolist() == [[20.0, 21.0], [22.0, 23.0], [-5.0, -5.0], [-5.0, -5.0]]
    assert [s.tolist() for s in rnn.unpack_sequence(shuffled)] == [s.tolist() for s in (B, A, C)]
    first = rnn.pack_padded_sequence(rnn.pad_sequence([A, C], batch_first=True), [3, 2], batch_first=True)
    assert first.data.tolist() == rnn.pack_sequence([A, C]).data.tolist()


def test_packing_random_lengths():
    generator = np.random.default_rng(0)
    for _ in range(20):
        sequences = [tocha.tensor(generator.random((n, 3))) for n in generator.integers(1, 7, 5)]
        back = rnn.unpack_sequence(rnn.pack_sequence(sequences, enforce_sorted=False))
        assert all(tocha.equal(a, b) for a, b in zip(sequences, back, strict=True))


def test_packing_gradients():
    sequences = [tocha.ones(n, 2, requires_grad=True) for n in (3, 1, 2)]
    padded, _ = rnn.pad_packed_sequence(rnn.pack_sequence(sequences, enforce_sorted=False))
    (padded * tocha.arange(18.0).view(3, 3, 2)).sum().backward()
    assert [s.grad[:, 0].tolist() for s in sequences] == [[0.0, 6.0, 12.0], [2.0], [4.0, 10.0]]


def test_packing_complaints():
    padded = rnn.pad_sequence([A, C, B])
    with raises(RuntimeError, "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True."):
        rnn.pack_padded_sequence(padded, [1, 2, 3])
    with raises(RuntimeError, "Expected `len(lengths)` to be equal to batch_size, but got 2 (batch_size=3)"):
        rnn.pack_padded_sequence(padded, [3, 2])
    with raises(RuntimeError, "Length of all samples has to be greater than 0"):
        rnn.pack_padded_sequence(padded, [3, 2, 0])
    with raises(RuntimeError, "'lengths' argument should be a 1D CPU int64 tensor, but got 2D cpu Long tensor"):
        rnn.pack_padded_sequence(padded, tocha.tensor([[3, 2, 1]]))
    with raises(RuntimeError, "Cannot pack empty tensors."):
        rnn.pack_padded_sequence(tocha.ones(0, 3, 2), [3, 2, 1])
    with raises(ValueError, "Expected total_length to be at least the length of the longest sequence in input"):
        rnn.pad_packed_sequence(rnn.pack_sequence([A]), total_length=2)


def test_packed_sequence():
    packed = rnn.pack_sequence([B, A], enforce_sorted=False)
    assert packed.to("cpu") is packed and packed.float() is packed
    double = packed.double()
    assert double.data.dtype == tocha.float64 and double.sorted_indices is packed.sorted_indices
    assert [packed.long().data.dtype, packed.half().data.dtype] == [tocha.int64, tocha.float16]
    assert isinstance(packed, tuple) and packed._fields == ("data", "batch_sizes", "sorted_indices", "unsorted_indices")
    for c in (copy.deepcopy(packed), pickle.loads(pickle.dumps(packed))):
        assert type(c) is rnn.PackedSequence and tocha.equal(c.data, packed.data)
    assert rnn.invert_permutation(tocha.tensor([2, 0, 1])).tolist() == [1, 2, 0]


# ---- parametrizations ----


class Symmetric(nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).transpose(-1, -2)

    def right_inverse(self, a):
        return a.triu()


class Double(nn.Module):
    def forward(self, x):
        return 2 * x


class Sum(nn.Module):
    def forward(self, a, b):
        return a + b

    def right_inverse(self, x):
        return x - 1.0, tocha.ones_like(x)


def test_parametrize():
    m = linear(3, 3)
    original = m.weight
    parametrize.register_parametrization(m, "weight", Symmetric())
    assert type(m).__name__ == "ParametrizedLinear" and isinstance(m, nn.Linear)
    assert tocha.equal(m.weight, m.weight.T)
    assert [n for n, _ in m.named_parameters()] == ["bias", "parametrizations.weight.original"]
    assert m.parametrizations.weight.original is original
    m.weight = tocha.arange(9.0).view(3, 3)
    assert m.weight.tolist() == [[0.0, 1.0, 2.0], [1.0, 4.0, 5.0], [2.0, 5.0, 8.0]]
    m(tocha.ones(3)).sum().backward()
    assert original.grad.tolist() == [[1.0, 2.0, 2.0], [0.0, 1.0, 2.0], [0.0, 0.0, 1.0]]
    parametrize.register_parametrization(m, "weight", Double())
    assert m.weight[2, 2].item() == 16.0 and len(m.parametrizations.weight) == 2
    with raises(RuntimeError, "parametrization Double does not implement right_inverse."):
        m.weight = tocha.ones(3, 3)
    assert parametrize.is_parametrized(m) and parametrize.is_parametrized(m, "weight")
    assert not parametrize.is_parametrized(m, "bias") and parametrize.type_before_parametrizations(m) is nn.Linear
    parametrize.remove_parametrizations(m, "weight")
    assert type(m) is nn.Linear and m.weight is original and original[2, 2].item() == 16.0


def test_parametrize_state_and_copies():
    a, b = linear(3, 3), linear(3, 3)
    for m in (a, b):
        parametrize.register_parametrization(m, "weight", Symmetric())
    a.weight = tocha.ones(3, 3)
    b.load_state_dict(a.state_dict())
    assert b.weight.tolist() == [[1.0] * 3] * 3
    c = copy.deepcopy(a)
    parametrize.remove_parametrizations(c, "weight", leave_parametrized=False)
    assert c.weight.tolist() == [[1.0, 1.0, 1.0], [0.0, 1.0, 1.0], [0.0, 0.0, 1.0]]
    assert a.weight.tolist() == [[1.0] * 3] * 3
    with raises(RuntimeError, "Serialization of parametrized modules is only supported through state_dict()."):
        pickle.dumps(a)
    d = parametrize.transfer_parametrizations_and_params(a, linear(3, 3))
    assert tocha.equal(d.weight, a.weight) and type(d).__name__ == "ParametrizedLinear"


def test_parametrize_several_tensors_and_buffers():
    m = linear()
    before = m.weight.detach().clone()
    parametrize.register_parametrization(m, "weight", Sum())
    assert list(m.state_dict()) == ["bias", "parametrizations.weight.original0", "parametrizations.weight.original1"]
    assert tocha.allclose(m.weight, before)
    with raises(ValueError, "Cannot leave unparametrized (`leave_parametrized=False`) a tensor"):
        parametrize.remove_parametrizations(m, "weight", leave_parametrized=False)
    m.register_buffer("scale", tocha.ones(2))
    parametrize.register_parametrization(m, "scale", Double())
    assert m.scale.tolist() == [2.0, 2.0] and "parametrizations.scale.original" in dict(m.named_buffers())
    parametrize.remove_parametrizations(m, "scale")
    assert "scale" in m._buffers and parametrize.is_parametrized(m)


def test_parametrize_cached():
    calls = []

    class Count(nn.Module):
        def forward(self, x):
            calls.append(1)
            return x * 1

    m = linear()
    parametrize.register_parametrization(m, "weight", Count())
    calls.clear()
    with parametrize.cached():
        assert m.weight is m.weight
    assert len(calls) == 1 and m.weight is not m.weight


def test_parametrize_complaints():
    class First(nn.Module):
        def forward(self, x):
            return x[:1]

    with raises(
        ValueError, "Registering a parametrization may not change the shape of the tensor, unless `unsafe` flag"
    ):
        parametrize.register_parametrization(linear(), "weight", First())
    assert parametrize.register_parametrization(linear(), "weight", First(), unsafe=True).weight.shape == (1, 3)
    with raises(ValueError, "Module 'Linear(in_features=3, out_features=2, bias=True)' does not have a parameter"):
        parametrize.register_parametrization(linear(), "foo", Double())
    with raises(
        ValueError, "Module Linear(in_features=3, out_features=2, bias=True) does not have a parametrization on weight"
    ):
        parametrize.remove_parametrizations(linear(), "weight")


# ---- weight and spectral norm, orthogonal ----


@pytest.mark.parametrize("dim", [0, 1, None])
def test_weight_norm(dim):
    m, x = linear(), tocha.ones(3)
    expected = m(x).detach()
    with pytest.warns(FutureWarning, match="is deprecated in favor of"):
        utils.weight_norm(m, dim=dim)
    assert sorted(n for n, _ in m.named_parameters()) == ["bias", "weight_g", "weight_v"]
    np.testing.assert_allclose(m(x).detach().numpy(), expected.numpy(), rtol=1e-6)
    axes = None if dim is None else 1 - dim
    np.testing.assert_allclose(
        m.weight_g.detach().numpy().squeeze(), np.linalg.norm(m.weight_v.detach().numpy(), axis=axes), rtol=1e-6
    )
    new = parametrizations.weight_norm(linear(), dim=dim)
    with tocha.no_grad():
        m.weight_g.mul_(2)
    new.load_state_dict(m.state_dict())
    np.testing.assert_allclose(new(x).detach().numpy(), 2 * expected.numpy(), rtol=1e-6)
    utils.remove_weight_norm(m)
    np.testing.assert_allclose(m(x).detach().numpy(), 2 * expected.numpy(), rtol=1e-6)
    assert isinstance(m.weight, nn.Parameter) and not m._forward_pre_hooks
    with raises(ValueError, "weight_norm of 'weight' not found in"):
        utils.remove_weight_norm(m)


def test_spectral_norm():
    tocha.manual_seed(0)
    old = utils.spectral_norm(linear(5, 4), n_power_iterations=30)
    new = parametrizations.spectral_norm(linear(5, 4), n_power_iterations=30)
    for m in (old, new):
        m(tocha.ones(5)).sum().backward()
        assert np.linalg.svd(m.weight.detach().numpy())[1][0] == pytest.approx(1.0, rel=1e-4)
    assert old.weight_orig.grad is not None and new.parametrizations.weight.original.grad is not None
    assert old.state_dict()._metadata[""] == {"version": 1, "spectral_norm": {"weight.version": 1}}
    other = utils.spectral_norm(linear(5, 4)).eval()
    other.load_state_dict(old.state_dict())
    np.testing.assert_allclose(
        other(tocha.ones(5)).detach().numpy(), old.eval()(tocha.ones(5)).detach().numpy(), rtol=1e-5
    )
    with raises(RuntimeError, "Cannot register two spectral_norm hooks on the same parameter weight"):
        utils.spectral_norm(old)
    utils.remove_spectral_norm(old)
    assert isinstance(old.weight, nn.Parameter) and not old._forward_pre_hooks and not old._state_dict_hooks
    with raises(ValueError, "Expected n_power_iterations to be positive, but got n_power_iterations=0"):
        parametrizations.spectral_norm(linear(), n_power_iterations=0)


@pytest.mark.parametrize("trivial", [True, False])
@pytest.mark.parametrize("kind", ["matrix_exp", "cayley", "householder"])
@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4)])
def test_orthogonal(shape, kind, trivial):
    tocha.manual_seed(0)
    m = parametrizations.orthogonal(linear(*shape), orthogonal_map=kind, use_trivialization=trivial)
    m.weight.pow(3).sum().backward()
    with tocha.no_grad():
        for p in m.parameters():
            if p.grad is not None:
                p -= 0.1 * p.grad
    w = m.weight.detach().double()
    product = w @ w.T if w.size(0) <= w.size(1) else w.T @ w
    np.testing.assert_allclose(product.numpy(), np.eye(len(product)), atol=1e-5)
    target = nn.init.orthogonal_(tocha.empty(w.shape))
    if trivial or kind == "householder":
        m.weight = target
        np.testing.assert_allclose(m.weight.detach().numpy(), target.numpy(), atol=1e-5)
    else:
        with raises(NotImplementedError, "It is not possible to assign to the matrix exponential or the Cayley"):
            m.weight = target


# ---- pruning ----


def test_prune_and_remove():
    m = linear()
    weight = m.weight
    prune.l1_unstructured(m, "weight", amount=2)
    assert list(dict(m.named_parameters())) == ["bias", "weight_orig"] and m.weight_orig is weight
    assert m.weight_mask.tolist() == [[1.0, 1.0, 0.0], [1.0, 1.0, 0.0]]
    m(tocha.ones(3)).sum().backward()
    assert weight.grad.tolist() == [[1.0, 1.0, 0.0], [1.0, 1.0, 0.0]]
    assert prune.is_pruned(nn.Sequential(m))
    prune.remove(m, "weight")
    assert m.weight is weight and (weight == 0).sum().item() == 2 and not prune.is_pruned(m)
    with raises(
        ValueError, "Parameter 'weight' of module Linear(in_features=3, out_features=2, bias=True) has to be pruned"
    ):
        prune.remove(m, "weight")


def test_prune_amounts():
    for amount, left in ((0.5, 3), (2, 4), (0, 6), (1.0, 0)):
        assert int(prune.random_unstructured(linear(), "weight", amount).weight_mask.sum()) == left
    with raises(ValueError, "amount=1.5 should either be a float in the range [0, 1] or a non-negative integer"):
        prune.l1_unstructured(linear(), "weight", 1.5)
    with raises(ValueError, "amount=7 should be smaller than the number of parameters to prune=6"):
        prune.l1_unstructured(linear(), "weight", 7)
    with raises(TypeError, "Invalid type for amount: a. Must be int or float."):
        prune.l1_unstructured(linear(), "weight", "a")
    m = linear()
    with raises(IndexError, "Invalid index 5 for tensor of size tocha.Size([2, 3])"):
        prune.ln_structured(m, "weight", 1, 2, 5)
    assert "weight" in m._parameters


def test_prune_structured():
    m = prune.ln_structured(linear(3, 4), "weight", amount=0.5, n=2, dim=0)
    norms = np.linalg.norm(m.weight_orig.detach().numpy(), axis=1)
    assert (m.weight_mask.numpy().sum(1) == 0).tolist() == (norms < np.sort(norms)[2]).tolist()
    tocha.manual_seed(0)
    m = prune.random_structured(linear(3, 4), "weight", amount=1, dim=1)
    assert sorted(m.weight_mask.sum(0).tolist()) == [0.0, 4.0, 4.0]


def test_prune_again():
    m = linear()
    prune.l1_unstructured(m, "weight", 2)
    prune.l1_unstructured(m, "weight", 1)
    prune.ln_structured(m, "weight", 1, n=1, dim=0)
    (hook,) = m._forward_pre_hooks.values()
    assert isinstance(hook, prune.PruningContainer) and len(hook) == 3
    assert m.weight_mask.tolist() == [[1.0, 1.0, 0.0], [0.0, 0.0, 0.0]]
    prune.custom_from_mask(m, "weight", tocha.zeros(2, 3))
    assert m.weight.abs().sum().item() == 0


def test_prune_global():
    a, b = linear(), linear(4, 2)
    prune.global_unstructured([(a, "weight"), (b, "weight")], pruning_method=prune.L1Unstructured, amount=0.5)
    values = np.sort(np.abs(np.concatenate([m.weight_orig.detach().numpy().ravel() for m in (a, b)])))
    left = np.abs(np.concatenate([m.weight.detach().numpy().ravel() for m in (a, b)]))
    assert (left == 0).sum() == 7 and left[left > 0].min() >= values[7]
    with raises(TypeError, 'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`.'):
        prune.global_unstructured([(a, "weight")], prune.LnStructured, amount=0.3, n=1)


def test_prune_tensors():
    t = tocha.tensor([3.0, 1.0, 2.0, 4.0])
    assert prune.L1Unstructured(2).prune(t).tolist() == [3.0, 0.0, 0.0, 4.0]
    assert prune.L1Unstructured(1).prune(t, importance_scores=t.flip(0)).tolist() == [3.0, 1.0, 0.0, 4.0]


# ---- fusion ----


def test_fusion():
    tocha.manual_seed(0)
    bn = nn.BatchNorm1d(2).eval()
    with tocha.no_grad():
        for t in (bn.weight, bn.bias, bn.running_mean):
            t.normal_()
        bn.running_var.uniform_(0.5, 2.0)
    m, x = linear().eval(), tocha.randn(4, 3)
    fused = utils.fuse_linear_bn_eval(m, bn)
    expected = (m(x) - bn.running_mean) / (bn.running_var + bn.eps).sqrt() * bn.weight + bn.bias
    np.testing.assert_allclose(fused(x).detach().numpy(), expected.detach().numpy(), rtol=1e-5, atol=1e-6)
    with pytest.raises(AssertionError, match="Fusion only for eval!"):
        utils.fuse_linear_bn_eval(m.train(), bn)
    weight, bias = utils.fuse_conv_bn_weights(
        tocha.ones(2, 3, 1), None, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    )
    factor = bn.weight / (bn.running_var + bn.eps).sqrt()
    assert tocha.allclose(weight, factor.view(2, 1, 1).expand(2, 3, 1))
    assert tocha.allclose(bias, bn.bias - bn.running_mean * factor)


def test_memory_format():
    m = nn.Sequential(nn.Conv2d(2, 4, 3), linear())
    weight = m[0].weight
    assert utils.convert_conv2d_weight_memory_format(m, tocha.channels_last) is m
    assert m[0].weight is weight and weight.is_contiguous(memory_format=tocha.channels_last)


# ---- functional calls ----


def test_functional_call():
    m = linear()
    own = m.weight
    weight = tocha.zeros(2, 3, requires_grad=True)
    out = func.functional_call(m, {"weight": weight}, tocha.ones(3))
    out.sum().backward()
    assert out.tolist() == [0.0, 0.0] and weight.grad.tolist() == [[1.0] * 3] * 2
    assert m.weight is own and own.grad is None
    assert func.functional_call(m, ({"weight": weight}, {"bias": tocha.ones(2)}), tocha.ones(3)).tolist() == [1.0, 1.0]
    with raises(ValueError, "['weight'] appeared in multiple dictionaries"):
        func.functional_call(m, ({"weight": weight}, {"weight": weight}), tocha.ones(3))
    with raises(RuntimeError, "Error(s) in reparametrizing for Linear:\n\tMissing key(s): 'bias'."):
        func.functional_call(m, {"weight": weight}, tocha.ones(3), strict=True)
    with raises(TypeError, "3 is not an instance of tocha.Tensor"):
        func.functional_call(m, {"weight": 3}, tocha.ones(3))
    with pytest.raises(RuntimeError):
        func.functional_call(m, {"weight": weight}, tocha.ones(7))
    assert m.weight is own
    with pytest.warns(FutureWarning, match=r"Please use `tocha.func.functional_call` instead"):
        utils.stateless.functional_call(m, {"weight": weight}, tocha.ones(3))


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = linear(1, 1), linear(1, 1)
        self.b.weight = self.a.weight
        self.register_buffer("steps", tocha.zeros(1))

    def forward(self, x):
        self.steps = self.steps + 1
        return self.a(x) + self.b(x)


def test_functional_call_tied_and_buffers():
    m, five = Tied(), tocha.full((1, 1), 5.0)
    assert func.functional_call(m, {"b.weight": five}, tocha.ones(1)).item() == 10.0
    alone = func.functional_call(m, {"b.weight": five}, tocha.ones(1), tie_weights=False).item()
    assert alone == pytest.approx(5 + np.sin(1.0), rel=1e-6)
    with raises(ValueError, "functional_call got multiple values for keys ['a.weight', 'b.weight'], which are tied."):
        func.functional_call(m, {"a.weight": five, "b.weight": five + 1}, tocha.ones(1))
    state = {"steps": tocha.full((1,), 7.0)}
    func.functional_call(m, state, tocha.ones(1))
    assert state["steps"].item() == 8.0 and m.steps.item() == 2.0


def test_stack_module_state():
    params, buffers = func.stack_module_state([linear(), linear()])
    assert params["weight"].shape == (2, 2, 3) and params["weight"].requires_grad and params["weight"].is_leaf
    assert buffers == {}
    with raises(RuntimeError, "stack_module_state: Expected all models to be of the same class."):
        func.stack_module_state([linear(), nn.Sequential()])
