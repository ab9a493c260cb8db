"""Sparse tensors: making them, what they answer, arithmetic, gradients of embeddings, steps along them, refusals."""

from __future__ import annotations

import copy
import gc
import inspect
import io
import pickle
import subprocess
import sys
import weakref

import numpy as np
import pytest

import tocha
import tocha.nn.functional as F
from tocha import nn, optim

INDICES, VALUES = [[0, 1, 1], [2, 0, 0]], [3.0, 4.0, 5.0]
DENSE = np.array([[0.0, 0, 3], [9, 0, 0]], dtype=np.float32)
ROWS = tocha.tensor([[0, 1], [1, 3]])


def sparse(**options):
    return tocha.sparse_coo_tensor(INDICES, VALUES, (2, 3), **options)


def hybrid():
    return tocha.sparse_coo_tensor([[0, 1, 1]], tocha.arange(6.0).reshape(3, 2), (4, 2))


def weight():
    return tocha.arange(8.0).reshape(4, 2).requires_grad_()


def same(t, expected):
    np.testing.assert_allclose(t.detach().to_dense().numpy(), np.asarray(expected), rtol=1e-6)


# -- making and asking -----------------------------------------------------------------------------------


def test_parts():
    s, h = sparse(), hybrid()
    assert (s.is_sparse, s.layout, s.shape, s.dtype) == (True, tocha.sparse_coo, (2, 3), tocha.float32)
    assert (s._nnz(), s.sparse_dim(), s.dense_dim(), h.sparse_dim(), h.dense_dim()) == (3, 2, 0, 1, 1)
    assert s._indices().tolist() == INDICES and s._values().tolist() == VALUES
    assert not s.is_coalesced() and s.coalesce().is_coalesced()
    assert s.coalesce().indices().tolist() == [[0, 1], [2, 0]] and s.coalesce().values().tolist() == [3.0, 9.0]
    with pytest.raises(RuntimeError, match=r"uncoalesced tensor, please call .coalesce\(\) first"):
        s.values()
    same(s, DENSE)
    same(h, [[0, 1], [6, 8], [0, 0], [0, 0]])
    assert tocha.sparse_coo_tensor((2, 3))._nnz() == 0 and tocha.sparse_coo_tensor([[]], []).shape == (0,)
    assert s.numel() == 6 and len(s) == 2 and s.stride() == (0, 0) and not s.is_contiguous()
    assert s.untyped_storage is not None and s._values().untyped_storage().nbytes() == 12


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda c: c(INDICES, VALUES, (2, 3, 4)), r"'len\(size\) == sparse_dim \+ dense_dim' is not satisfied"),
        (lambda c: c([[0, 1]], [1.0], (2,)), "nnz from indices: 2, nnz from values: 1"),
        (lambda c: c([[0, 1]], [[1.0], [2.0]], (2, 3)), r"expected \[2, 3\], got \[2, 1\]"),
        (lambda c: c([[0, -1]], [1.0, 2.0]), "found negative index -1 for dim 0"),
        (lambda c: c(INDICES, VALUES, (1, 3), check_invariants=True), "for dim 0, size is 1 but found index 1"),
        (lambda c: c(INDICES, VALUES, (2, 3), check_invariants=True, is_coalesced=True), "uncoalesced COO tensor"),
        (lambda c: c([0, 1], [1.0, 2.0]), r"indices must be sparse_dim x nnz, but got: \[2\]"),
        (lambda c: c(INDICES, VALUES, (2**62, 2**62)), "overflow"),
        (lambda c: c(INDICES, VALUES, (2, -3)), "overflow"),
        (lambda c: c(INDICES, VALUES, (1, 3)).to_dense(), "found index 1"),
        (lambda c: c(INDICES, VALUES, (1, 3)) @ tocha.ones(3, 1), "found index 1"),
        (lambda c: tocha.zeros(1, 3).add_(c(INDICES, VALUES, (1, 3))), "found index 1"),
        (lambda c: tocha.zeros(3).index_put((tocha.tensor([0]),), c([[0]], [1.0], (1,))), "index_put"),
        (lambda c: tocha.zeros(2, 3).to_sparse(3), "sparse_dim argument must be in"),
    ],
)
def test_refused_parts(make, error):
    with pytest.raises((RuntimeError, NotImplementedError), match=error):
        make(tocha.sparse_coo_tensor)


def test_to_sparse():
    d = tocha.tensor([[0.0, 2.0], [0.0, 0.0], [1.0, 0.0]])
    assert d.to_sparse()._indices().tolist() == [[0, 2], [1, 0]] and d.to_sparse().is_coalesced()
    assert d.to_sparse(1)._values().tolist() == [[0.0, 2.0], [1.0, 0.0]]
    assert tocha.tensor(3.0).to_sparse()._nnz() == 1 and tocha.zeros(0, 3).to_sparse()._nnz() == 0
    for t in (d.to_sparse(), d.to_sparse(1), d.to_sparse().to_sparse()):
        same(t, d.numpy())
    assert d.to_dense() is d and (d.sparse_dim(), d.dense_dim(), d.is_sparse_csr) == (0, 2, False)
    same(d.sparse_mask(d.to_sparse()), d.numpy())
    for question in (d.coalesce, d.values, d.indices, d.is_coalesced):
        with pytest.raises(RuntimeError, match="but got Strided"):
            question()


def test_copies():
    s = sparse(requires_grad=True)
    for t in (copy.deepcopy(s), pickle.loads(pickle.dumps(s)), s.clone(), s.detach(), s.data, s.double().float()):
        assert t._indices().tolist() == INDICES and t._values().tolist() == VALUES and not t.is_coalesced()
    assert copy.deepcopy(s).requires_grad and not s.detach().requires_grad
    assert pickle.loads(pickle.dumps(sparse().coalesce())).is_coalesced()
    assert s.float() is s and s.to(tocha.float64).dtype == tocha.float64 and s.type() == "tocha.sparse.FloatTensor"
    with pytest.raises(RuntimeError, match="Only Tensors created explicitly"):
        copy.deepcopy(s * 2)
    mine = sparse()
    mine.clone()._values().zero_()
    same(mine, DENSE)


def test_files():
    file = io.BytesIO()
    tocha.save({"s": sparse(), "h": hybrid().coalesce(), "layout": tocha.sparse_coo}, file)
    file.seek(0)
    back = tocha.load(file)
    same(back["s"], DENSE)
    assert back["h"].is_coalesced() and back["layout"] is tocha.sparse_coo


def test_files_are_checked():
    file = io.BytesIO()
    tocha.save(tocha.sparse_coo_tensor(INDICES, VALUES, (1, 3)), file)
    file.seek(0)
    with pytest.raises(Exception, match="found index 1"):
        tocha.load(file)


# -- arithmetic ------------------------------------------------------------------------------------------


def test_sums():
    s, c, d = sparse(), sparse().coalesce(), tocha.ones(2, 3)
    same(s + s, 2 * DENSE)
    same(s - c, 0 * DENSE)
    same(tocha.add(s, c, alpha=3), 4 * DENSE)
    assert (c + c).is_coalesced() and (c + c)._nnz() == 2 and not (s + c).is_coalesced()
    same(d + s, 1 + DENSE)
    same(d - s, 1 - DENSE)
    same(d.clone().add_(s, alpha=2), 1 + 2 * DENSE)
    same(s.clone().add_(c), 2 * DENSE)
    strided = tocha.ones(3, 4).t()[:, :2]
    same(strided.add_(hybrid()), [[1, 2], [7, 9], [1, 1], [1, 1]])
    for wrong in (lambda: s + d, lambda: s + 1, lambda: 1 + s):
        with pytest.raises(RuntimeError, match="Use add\\(dense, sparse\\)"):
            wrong()


def test_concatenated_where_values_are_read_many_times():
    one = tocha.sparse_coo_tensor([[0, 1, 1]], tocha.ones(1, 2).expand(3, 2), (4, 2))
    assert (one + one)._indices().tolist() == [[0, 1, 1, 0, 1, 1]] and (hybrid() + hybrid())._nnz() == 3


def test_products():
    s, d = sparse(), tocha.arange(6.0).reshape(2, 3)
    same(s * 2, 2 * DENSE)
    same(2 * s, 2 * DENSE)
    same(s / 2, DENSE / 2)
    same(s * tocha.tensor(2.0), 2 * DENSE)
    same(s * d, DENSE * d.numpy())
    same(s * s, DENSE * DENSE)
    same(-s, -DENSE)
    same(s**2, DENSE**2)
    same(s.sqrt(), DENSE**0.5)
    same(s.clone().mul_(2).div_(4), DENSE / 2)
    assert s.clone().zero_()._nnz() == 0
    same(tocha.ones(2, 3).mul_(s), DENSE)
    with pytest.raises(RuntimeError, match="Sparse division requires a scalar"):
        s / d


def test_reflected_operators():
    s, d = sparse(), tocha.arange(6.0).reshape(3, 2)
    same(s.__rmul__(2), 2 * DENSE)
    same(s.__rmatmul__(d), d.numpy() @ DENSE)
    same(s.__radd__(tocha.ones(2, 3)), 1 + DENSE)
    same(s.__rsub__(tocha.ones(2, 3)), 1 - DENSE)
    for wrong in (lambda: 2 / s, lambda: s.__rtruediv__(2), lambda: s.__rpow__(2)):
        with pytest.raises((NotImplementedError, RuntimeError)):
            wrong()


def test_values_that_are_read_many_times_are_written():
    t = tocha.sparse_coo_tensor([[0, 1]], tocha.ones(1).expand(2), (3,))
    same(t.mul_(3), [3, 3, 0])


def test_matrix_products():
    s, d = sparse(), tocha.arange(6.0).reshape(3, 2)
    same(s @ d, DENSE @ d.numpy())
    same(tocha.sparse.mm(s, d), DENSE @ d.numpy())
    same(d @ s, d.numpy() @ DENSE)
    same(s @ s.t(), DENSE @ DENSE.T)
    same(s @ tocha.ones(3), DENSE @ np.ones(3))
    same(tocha.ones(2) @ s, np.ones(2) @ DENSE)
    same(tocha.addmm(tocha.ones(2, 2), s, d, beta=2, alpha=3), 2 + 3 * DENSE @ d.numpy())
    same(s.long() @ d.long(), DENSE @ d.numpy())
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        s @ tocha.ones(2, 2)


def test_geometry():
    s, h = sparse(), hybrid()
    same(s.t(), DENSE.T)
    same(s.T, DENSE.T)
    same(s.transpose(0, 1), DENSE.T)
    same(s.permute(1, 0), DENSE.T)
    picked = s.index_select(0, tocha.tensor([1, 0, 1]))
    assert picked._indices().tolist() == [[0, 0, 1, 2, 2], [0, 0, 2, 0, 0]]
    same(picked, DENSE[[1, 0, 1]])
    same(h.index_select(1, tocha.tensor([1])), [[1], [8], [0], [0]])
    with pytest.raises(RuntimeError, match="t\\(\\) expects a tensor with <= 2 sparse and 0 dense"):
        h.t()
    with pytest.raises(IndexError):
        s.index_select(0, tocha.tensor([7]))


def test_reductions():
    s, h = sparse(), hybrid()
    assert s.sum().item() == 12 and h.sum().item() == 15 and tocha.sparse.sum(s).item() == 12
    same(s.sum(0), DENSE.sum(0))
    same(h.sum(0), [6, 9])
    same(h.sum(1), [1, 14, 0, 0])
    same(s.sum(0, keepdim=True), DENSE.sum(0, keepdims=True))
    np.testing.assert_allclose(s.norm().item(), np.sqrt(90), rtol=1e-6)
    assert s.norm(1).item() == 12 and s.norm(float("inf")).item() == 9 and s.any().item()
    assert s.long().sum().dtype == tocha.int64 and s.bool().coalesce()._values().tolist() == [True, True]


# -- gradients -------------------------------------------------------------------------------------------


def test_gradient_of_embedding():
    w = weight()
    grad = tocha.arange(1.0, 9).reshape(2, 2, 2)
    F.embedding(ROWS, w, sparse=True).backward(grad)
    assert w.grad.is_sparse and not w.grad.is_coalesced()
    assert w.grad._indices().tolist() == [[0, 1, 1, 3]] and w.grad._values().tolist() == grad.reshape(4, 2).tolist()
    w.grad = None
    F.embedding(ROWS, w, padding_idx=1, sparse=True).backward(grad)
    assert w.grad._indices().tolist() == [[0, 3]] and w.grad._values().tolist() == [[1.0, 2.0], [7.0, 8.0]]
    with pytest.raises(RuntimeError, match="scale_grad_by_freq not supported with sparse gradients"):
        F.embedding(ROWS, w, scale_grad_by_freq=True, sparse=True).sum().backward()


@pytest.mark.parametrize("mode", ["sum", "mean"])
@pytest.mark.parametrize("options", [{}, {"padding_idx": 1}])
def test_gradient_of_bags(mode, options):
    index, offsets, grads = tocha.tensor([0, 1, 1, 3, 2]), tocha.tensor([0, 2, 2]), []
    for wanted in (False, True):
        w = weight()
        out = F.embedding_bag(index, w, offsets, mode=mode, sparse=wanted, **options)
        out.backward(tocha.arange(1.0, 7).reshape(3, 2))
        grads.append(w.grad)
    assert grads[1].is_sparse and grads[1]._nnz() == (3 if options else 5)
    same(grads[1], grads[0].numpy())


def test_gradient_of_weighted_bags():
    for layer in (nn.Embedding(4, 2, sparse=True), nn.EmbeddingBag(4, 2, sparse=True)):
        layer(ROWS).sum().backward()
        assert layer.weight.grad.is_sparse
    w, each = weight(), tocha.tensor([[1.0, 2.0], [3.0, 4.0]]).requires_grad_()
    F.embedding_bag(ROWS, w, mode="sum", per_sample_weights=each, sparse=True).sum().backward()
    assert w.grad._values()[:, 0].tolist() == [1.0, 2.0, 3.0, 4.0] and each.grad.tolist() == [[1.0, 5.0], [5.0, 13.0]]


def test_gradients_add_up():
    counts = np.array([[1.0, 1], [2, 2], [0, 0], [1, 1]])
    w = weight()
    F.embedding(ROWS, w, sparse=True).sum().backward()
    held = w.grad
    F.embedding(ROWS, w, sparse=True).sum().backward()
    assert w.grad is held and held._nnz() == 8
    same(w.grad, 2 * counts)
    (w * 2).sum().backward()
    assert not w.grad.is_sparse
    same(w.grad, 2 * counts + 2)
    dense = w.grad
    F.embedding(ROWS, w, sparse=True).sum().backward()
    assert w.grad is dense
    same(w.grad, 3 * counts + 2)
    for loss in (
        lambda w: F.embedding(ROWS, w, sparse=True).sum() + (w * 2).sum(),
        lambda w: (w * 2).sum() + F.embedding(ROWS, w, sparse=True).sum(),
    ):
        w = weight()
        loss(w).backward()
        same(w.grad, counts + 2)
    w = weight()
    (F.embedding(ROWS, w, sparse=True).sum() + F.embedding(ROWS, w, sparse=True).sum()).backward()
    assert w.grad.is_sparse
    same(w.grad, 2 * counts)


def test_gradients_through_other_operators():
    """What is no leaf passes the gradient on dense, with the same numbers."""
    for through in (
        lambda w: w * 2,
        lambda w: w.exp(),
        lambda w: w.t().t(),
        lambda w: w[:4],
        lambda w: w.double().float(),
    ):
        grads = []
        for wanted in (False, True):
            w = weight()
            F.embedding(ROWS, through(w), sparse=wanted).pow(2).sum().backward()
            grads.append(w.grad.to_dense())
        same(grads[1], grads[0].numpy())


def test_second_derivatives():
    w = weight()
    (g,) = tocha.autograd.grad(F.embedding(ROWS, w, sparse=True).pow(3).sum(), w, create_graph=True)
    assert g.is_sparse and g.requires_grad
    g.to_dense().sum().backward()
    dense = weight()
    (h,) = tocha.autograd.grad(F.embedding(ROWS, dense).pow(3).sum(), dense, create_graph=True)
    h.sum().backward()
    same(w.grad, dense.grad.numpy())


def test_forward_mode():
    with tocha.autograd.forward_ad.dual_level():
        dual = tocha.autograd.forward_ad.make_dual(tocha.arange(8.0).reshape(4, 2), tocha.ones(4, 2))
        out = tocha.autograd.forward_ad.unpack_dual(F.embedding(ROWS, dual, sparse=True))
    assert out.tangent.tolist() == tocha.ones(2, 2, 2).tolist()


@pytest.mark.filterwarnings("ignore")
def test_hooks_and_anomalies():
    w, seen = weight(), []
    w.register_hook(lambda g: seen.append(g.is_sparse) or g * 2)
    w.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad._nnz()))
    with tocha.autograd.detect_anomaly(check_nan=True):
        F.embedding(ROWS, w, sparse=True).sum().backward()
    assert seen == [True, 4]
    assert w.grad._values().tolist() == [[2.0, 2.0]] * 4
    with tocha.autograd.detect_anomaly(check_nan=True), pytest.raises(RuntimeError, match="nan"):
        (F.embedding(ROWS, w, sparse=True) * float("nan")).sum().backward()


@pytest.mark.parametrize(
    "f",
    [
        lambda t: (t.to_dense() ** 2).sum(),
        lambda t: (t.coalesce().values() ** 2).sum(),
        lambda t: ((t * 3 - t / 2).to_dense() ** 2).sum(),
        lambda t: ((t @ tocha.arange(6.0).reshape(3, 2).double()) ** 2).sum(),
        lambda t: (t.t().to_dense() ** 3).sum() + t.norm(),
        lambda t: (t + t * t).sum() * t.sum(),
        lambda t: (tocha.ones(2, 3).double() + t).pow(2).sum(),
        lambda t: t.index_select(0, tocha.tensor([1, 1])).to_dense().pow(2).sum() + (t**2).sum(0).to_dense().sum(),
    ],
)
def test_gradients_of_sparse_tensors(f):
    """By the values, against the same function of the dense tensor."""
    values = tocha.tensor(VALUES, dtype=tocha.float64, requires_grad=True)
    assert tocha.autograd.gradcheck(lambda v: f(tocha.sparse_coo_tensor(INDICES, v, (2, 3))), values)
    leaf = sparse(dtype=tocha.float64, requires_grad=True)
    f(leaf).backward()
    (expected,) = tocha.autograd.grad(f(tocha.sparse_coo_tensor(INDICES, values, (2, 3))), values)
    at = leaf.grad.to_dense()[tuple(tocha.tensor(INDICES))]
    np.testing.assert_allclose(at.numpy(), expected.numpy())


def test_gradients_of_dense_sides():
    d = tocha.arange(6.0).reshape(3, 2).requires_grad_()
    tocha.sparse.mm(sparse(), d).sum().backward()
    same(d.grad, np.repeat(DENSE.sum(0)[:, None], 2, 1))
    d = tocha.ones(2, 3, requires_grad=True)
    (d.sparse_mask(sparse()) * 2).sum().backward()
    same(d.grad, [[0, 0, 2], [4, 0, 0]])


def test_in_place_on_what_is_recorded():
    s = sparse(requires_grad=True)
    for change in (lambda: s.mul_(2), lambda: s.zero_(), lambda: (s * 2).add_(s)):
        with pytest.raises(RuntimeError, match="in-place operation"):
            change()


# -- optimizers ------------------------------------------------------------------------------------------


def steps(make, wanted, **options):
    w = weight()
    optimizer = make([w], **options)
    for index in ([1, 1, 3], [0, 1], [2, 2, 2], [3, 3, 1, 0]):
        optimizer.zero_grad()
        F.embedding(tocha.tensor(index), w, sparse=wanted).pow(2).sum().mul(0.1).backward()
        optimizer.step()
    return w, optimizer


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (optim.SGD, {"lr": 0.1}),
        (optim.SGD, {"lr": 0.1, "momentum": 0.9}),
        (optim.SGD, {"lr": 0.1, "momentum": 0.9, "dampening": 0.3, "maximize": True}),
        (optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
        (optim.Adagrad, {"lr": 0.1, "lr_decay": 0.1, "initial_accumulator_value": 0.1}),
    ],
)
def test_steps_are_those_of_dense_gradients(make, options):
    w, optimizer = steps(make, True, **options)
    dense, _ = steps(make, False, **options)
    np.testing.assert_allclose(w.detach().numpy(), dense.detach().numpy(), rtol=1e-5)
    buffer = optimizer.state[w].get("momentum_buffer")
    assert buffer is None or buffer.is_sparse
    again = make([weight()], **options)
    again.load_state_dict(pickle.loads(pickle.dumps(optimizer.state_dict())))


def test_sparse_adam_leaves_other_rows():
    w = weight()
    optimizer = optim.SparseAdam([w], lr=0.1)
    F.embedding(tocha.tensor([1, 1]), w, sparse=True).sum().backward()
    optimizer.step()
    np.testing.assert_allclose(w.detach().numpy(), [[0, 1], [1.9, 2.9], [4, 5], [6, 7]], rtol=1e-6)
    assert optimizer.state[w]["exp_avg"].count_nonzero().item() == 2


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda p: optim.SGD(p, weight_decay=0.1), "Use add\\(dense, sparse\\)"),
        (lambda p: optim.SGD(p, fused=True), "does not support sparse gradients"),
        (lambda p: optim.Adagrad(p, weight_decay=0.1), "weight_decay option is not compatible"),
        (lambda p: optim.Adam(p), "please consider SparseAdam instead"),
        (lambda p: optim.AdamW(p), "please consider SparseAdam instead"),
        (lambda p: optim.RMSprop(p), "RMSprop does not support sparse gradients"),
        (lambda p: optim.Adafactor(p), "Adafactor does not support sparse gradients"),
    ],
)
def test_refused_steps(make, error):
    w = weight()
    F.embedding(ROWS, w, sparse=True).sum().backward()
    before = w.detach().clone()
    with pytest.raises(RuntimeError, match=error):
        make([w]).step()
    assert tocha.equal(before, w)


def test_dense_and_sparse_parameters_together():
    tocha.manual_seed(0)
    layer = nn.Embedding(4, 2, sparse=True)
    rest = nn.Linear(2, 1)
    optimizer = optim.SGD([*rest.parameters(), *layer.parameters()], lr=0.01, momentum=0.5)
    loss = None
    for _ in range(3):
        optimizer.zero_grad(set_to_none=False)
        now = rest(layer(tocha.tensor([0, 2]))).pow(2).sum()
        now.backward()
        optimizer.step()
        assert loss is None or now.item() < loss
        loss = now.item()
    optimizer.zero_grad(set_to_none=False)
    assert layer.weight.grad._nnz() == 0
    layer.double()
    assert layer.weight.grad.dtype == tocha.float64


def test_gradient_scaler():
    w = weight()
    scaler, optimizer = tocha.amp.GradScaler("cpu", init_scale=4.0), optim.SGD([w], lr=1.0)
    scaler.scale(F.embedding(tocha.tensor([1, 1]), w, sparse=True).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    same(w, [[0, 1], [0, 1], [4, 5], [6, 7]])
    scaler.scale(F.embedding(ROWS, w, sparse=True).sum() * float("inf")).backward()
    scaler.step(optimizer)
    same(w, [[0, 1], [0, 1], [4, 5], [6, 7]])


# -- refusals --------------------------------------------------------------------------------------------


def _calls():
    """Functions and methods with a sparse operand or two, by label."""
    names = [n for n in dir(tocha) if not n.startswith(("__", "set_", "_set", "manual_seed", "_assert"))]
    functions = {n: getattr(tocha, n) for n in names if n not in ("save", "load")}
    functions |= {f"F.{n}": getattr(F, n) for n in dir(F) if not n.startswith("__")}
    dense = tocha.ones(2, 3)
    for name, f in functions.items():
        if not callable(f) or inspect.isclass(f):
            continue
        for args in (
            lambda: (sparse(),),
            lambda: (sparse(), sparse()),
            lambda: (dense.clone(), sparse()),
            lambda: ([sparse()],),
        ):
            yield name, f, args


@pytest.mark.filterwarnings("ignore")
def test_nothing_computes_with_zeros():
    """Whatever takes a sparse tensor answers as for the dense one, or refuses."""
    allowed = {"empty_like", "asarray", "as_tensor", "typename", "is_storage", "is_tensor", "stack"}
    wrong = []
    for name, f, args in _calls():
        try:
            got = f(*args())
        except Exception:
            continue
        if not isinstance(got, tocha.Tensor) or name in allowed:
            continue
        try:
            expected = f(*[[a[0].to_dense()] if isinstance(a, list) else a.to_dense() for a in args()])
        except Exception:
            wrong.append(name)
            continue
        if not tocha.allclose(got.to_dense().double(), expected.double(), equal_nan=True):
            wrong.append(name)
    assert wrong == []


@pytest.mark.parametrize(
    "f",
    [
        lambda s: s.exp(),
        lambda s: s == s,
        lambda s: tocha.linalg.vector_norm(s),
        lambda s: nn.utils.clip_grad_norm_([s], 1.0) if s.grad is not None else s.mean(),
        lambda s: s.view(6),
        lambda s: s[0:1],
        lambda s: s.tolist(),
        lambda s: s.untyped_storage(),
        lambda s: tocha.tensor([s]),
        lambda s: tocha.zeros(2, 3).masked_fill_(s, 1),
        lambda s: s.as_subclass(tocha.Tensor),
        lambda s: tocha.Tensor._make_subclass(tocha.Tensor, s),
        lambda s: s in [tocha.ones(1)] or 3 in s,
        lambda s: tocha.full((2,), s),
    ],
)
def test_refused(f):
    with pytest.raises((RuntimeError, TypeError)):
        f(sparse())
    with tocha.DisableTorchFunctionSubclass(), pytest.raises((RuntimeError, TypeError)):
        f(sparse())


def test_refused_otherwise():
    s, d = sparse(), tocha.ones(2, 3)
    with pytest.raises(TypeError, match="can't convert Sparse layout tensor to numpy"):
        s.numpy()
    with pytest.raises(BufferError):
        tocha.from_dlpack(s)
    with pytest.raises(RuntimeError, match="incompatible tensor type"):
        d.data = s
    for question in (bool, float, int):
        with pytest.raises(RuntimeError):
            question(s)
    d.grad = s
    assert d.grad is s and d.grad.is_sparse
    with pytest.raises(RuntimeError, match="gradient of size"):
        tocha.ones(3).grad = s
    with pytest.raises(NotImplementedError):
        nn.utils.clip_grad_norm_(d, 1.0)
    assert tocha.sparse_coo_tensor(tocha.zeros((0, 1), dtype=tocha.int64), [5.0], ()).item() == 5.0


def test_sparse_tensors_are_freed():
    s = sparse()
    gone = weakref.ref(s)
    s.itself = s
    del s
    gc.collect()
    assert gone() is None


def test_the_room_is_opened_when_it_is_needed():
    code = (
        "import sys, tocha; w = tocha.ones(4, 2, requires_grad=True); i = tocha.tensor([1]); f = tocha.nn.functional.embedding;"
        "f(i, w).sum().backward(); assert 'tocha.sparse' not in sys.modules;"
        "w.grad = None; f(i, w, sparse=True).sum().backward(); assert w.grad.is_sparse, w.grad"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
