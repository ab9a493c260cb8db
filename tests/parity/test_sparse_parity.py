"""Sparse tensors against PyTorch's: texts of results and complaints, gradients of embeddings, steps, files both ways.

Needs torch beside tocha; run by `make parity`.
"""

from __future__ import annotations

import io
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import tocha  # noqa: E402

RESULTS = """
s; c; h; s.t(); s * 2; s / 2; s * d; s * s; a * b; -s; s + s; a + b; b + a; a + a; h + h; h + hc; hc + hc; b - a; d + s; d - s
C(i, v); C((2, 3)); C(i, v, (2, 3), dtype=m.float64); C(i, v, (2, 3), requires_grad=True); C([[]], []); C([[0, 1.5]], [1, 2])
s.coalesce(); s.is_coalesced(), c.is_coalesced(), (c + c).is_coalesced(), (c * 2).is_coalesced(), c.t().is_coalesced()
s.sum(); s.sum(0); h.sum(0); h.sum(1); s.sum(0, keepdim=True); m.sparse.sum(s, 1); s.norm(); s.norm(1); s.any()
s.index_select(0, T([1, 0, 1])); h.index_select(0, T([1, 0, 1])); h.index_select(1, T([1])); d.sparse_mask(s); b.sparse_mask(a)
s @ d.t(); d.t() @ s; s @ s.t(); m.sparse.mm(s, d.t()); m.sparse.addmm(m.ones(2, 2), s, d.t(), beta=2, alpha=3); s @ m.ones(3)
d.to_sparse(); d.to_sparse(1); T(3.0).to_sparse(); T(0.0).to_sparse(); s.to_dense(); s.double(); s.bool(); s.long() / 2
s.abs(); s.sqrt(); s ** 2; s.sign(); s.clone().mul_(2); s.clone().zero_(); d.clone().add_(s, alpha=2); s.clone().add_(s)
m.zeros_like(s); s.permute(1, 0); s.type(); s.stride(); s.is_contiguous(); C(m.arange(2000).reshape(1, -1), m.arange(2000.0))
C(i, v.requires_grad_(), (2, 3)) ; C(i, v.requires_grad_() * 1, (2, 3)); (C(i, v, (2, 3), requires_grad=True) * 2).requires_grad
s.values(); s.indices(); d.values(); d.coalesce(); d.is_coalesced(); s + d; s + 1; s / d; h.t(); h.transpose(0, 1); d.to_sparse(0)
C(i, v, (2, 3, 4)); C(T([[0, 1]]), T([1.0]), (2,)); C(T([[0, -1]]), T([1.0, 2.0])); C(i, v, (1, 3), check_invariants=True)
C(i, v, (2, 3), check_invariants=True, is_coalesced=True); C(T([0, 1]), T([1.0, 2])); c + h; s.numpy(); s.item(); s.norm(dim=0)
h + C(T([[0, 1], [0, 1]]), T([1.0, 2]), (4, 2)); s.index_select(0, T([5])); s.index_select(0, T([[1]])); s.data_ptr()
"""


def values(m):
    T, C = m.tensor, m.sparse_coo_tensor
    i, v = T([[0, 1, 1], [2, 0, 0]]), T([3.0, 4.0, 5.0])
    h = C(T([[0, 1, 1]]), m.arange(6.0).reshape(3, 2), (4, 2))
    return {
        "m": m, "T": T, "C": C, "i": i, "v": v, "s": C(i, v, (2, 3)), "c": C(i, v, (2, 3)).coalesce(), "h": h, "hc": h.coalesce(),
        "d": m.arange(6.0).reshape(2, 3), "a": C(T([[0, 2, 1]]), T([1.0, 2, 3]), (4,)), "b": C(T([[0, 1, 3]]), T([10.0, 20, 30]), (4,)),
    }  # fmt: skip


def told(m, expression):
    try:
        return str(eval(expression, values(m))).replace("tocha", "torch")
    except Exception as error:
        return f"{type(error).__name__}: {error}".replace("tocha", "torch")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("expression", [e.strip() for line in RESULTS.strip().splitlines() for e in line.split(";")])
def test_results(expression):
    assert told(tocha, expression) == told(torch, expression)


def embedded(m, kind, **options):
    weight = m.arange(8.0).reshape(4, 2).requires_grad_()
    index = m.tensor([[0, 1], [1, 3]])
    out = getattr(m.nn.functional, kind)(index, weight, sparse=True, **options)
    out.backward(m.arange(1.0, out.numel() + 1).reshape(out.shape))
    return str(weight.grad).replace("tocha", "torch")


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("embedding", {}), ("embedding", {"padding_idx": 1}), ("embedding", {"padding_idx": -1}), ("embedding_bag", {"mode": "sum"}),
        ("embedding_bag", {"mode": "mean"}), ("embedding_bag", {"mode": "mean", "padding_idx": 1}), ("embedding_bag", {"mode": "sum", "padding_idx": 3}),
    ],
)  # fmt: skip
def test_gradients_of_embeddings(kind, options):
    assert embedded(tocha, kind, **options) == embedded(torch, kind, **options)


CASES = [
    ("SparseAdam", {}), ("SparseAdam", {"maximize": True, "betas": (0.5, 0.7), "lr": 0.1, "eps": 1e-3}), ("SGD", {"lr": 0.1}), ("SGD", {"lr": 0.1, "momentum": 0.9}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.5}), ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}), ("SGD", {"lr": 0.1, "maximize": True, "momentum": 0.9}),
    ("Adagrad", {}), ("Adagrad", {"lr": 0.1, "lr_decay": 0.1, "initial_accumulator_value": 0.1}), ("Adagrad", {"maximize": True}),
]  # fmt: skip


def trained(m, name, options, bags):
    layer = (m.nn.EmbeddingBag if bags else m.nn.Embedding)(4, 2, sparse=True)
    with m.no_grad():
        layer.weight.copy_(m.arange(8.0).reshape(4, 2) / 4 - 1)
    optimizer, path = getattr(m.optim, name)(layer.parameters(), **options), []
    for index in ([1, 1, 3], [0, 1], [2, 2, 2], [3, 3, 1, 0]):
        optimizer.zero_grad()
        layer(m.tensor([index])).sin().sum().backward()
        optimizer.step()
        path.append(layer.weight.detach().numpy().copy())
    state = {k: s for k, s in optimizer.state[layer.weight].items() if isinstance(s, m.Tensor) and k != "step"}
    return (
        path,
        {k: s.to_dense().numpy() for k, s in state.items()},
        [s._indices().tolist() for s in state.values() if s.is_sparse],
    )


@pytest.mark.parametrize("bags", [False, True])
@pytest.mark.parametrize(("name", "options"), CASES)
def test_steps(name, options, bags):
    ours, theirs = trained(tocha, name, options, bags), trained(torch, name, options, bags)
    for mine, other in zip(ours[0], theirs[0], strict=True):
        np.testing.assert_allclose(mine, other, rtol=2e-6, atol=1e-7)
    assert ours[1].keys() == theirs[1].keys() and ours[2] == theirs[2]
    for key, value in theirs[1].items():
        np.testing.assert_allclose(ours[1][key], value, rtol=2e-6, atol=1e-7)


@pytest.mark.parametrize(
    "name", ["Adam", "AdamW", "NAdam", "RAdam", "Adamax", "RMSprop", "Rprop", "ASGD", "Adadelta", "Adafactor"]
)
def test_refused_steps(name):
    said = []
    for m in (tocha, torch):
        with pytest.raises(RuntimeError) as error:
            trained(m, name, {}, False)
        said.append(str(error.value))
    assert said[0] == said[1]


@pytest.mark.parametrize(("writer", "reader"), [(tocha, torch), (torch, tocha)])
def test_files(writer, reader):
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        writer.save([values(writer)["s"], values(writer)["hc"]], file)
        file.seek(0)
        back = reader.load(file)
    assert (
        str(back[0]) == str(values(reader)["s"])
        and back[1].is_coalesced()
        and str(back[1]) == str(values(reader)["hc"])
    )
