"""Sums of rows by index: embedding's gradient, embedding_bag, and the fused cross entropy, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import tocha
import tocha.nn.functional as F
from tocha.autograd import gradcheck, gradgradcheck

rng = np.random.default_rng(0)
TABLE = rng.standard_normal((7, 5))
INDICES = np.array([3, 1, 1, 6, 0, 3, 3, 2])


def table():
    return tocha.tensor(TABLE).requires_grad_()


@pytest.mark.parametrize("options", [{}, {"padding_idx": 3}, {"scale_grad_by_freq": True}, {"sparse": True}])
def test_embedding_gradient(options):
    weight, grad = table(), rng.standard_normal((2, 4, 5))
    out = F.embedding(tocha.tensor(INDICES.reshape(2, 4)), weight, **options)
    np.testing.assert_array_equal(out.detach().numpy(), TABLE[INDICES].reshape(2, 4, 5))
    expected = np.zeros_like(TABLE)
    np.add.at(expected, INDICES, grad.reshape(8, 5))
    if "padding_idx" in options:
        expected[3] = 0
    if "scale_grad_by_freq" in options:
        expected /= np.maximum(np.bincount(INDICES, minlength=7), 1)[:, None]
    out.backward(tocha.tensor(grad))
    assert weight.grad.is_sparse == ("sparse" in options)
    np.testing.assert_allclose(weight.grad.to_dense().numpy(), expected, rtol=1e-12)


def test_embedding_gradient_of_many_rows_on_all_threads():
    indices, grad = rng.integers(0, 500, 4000), rng.standard_normal((4000, 33)).astype(np.float32)
    expected = np.zeros((500, 33))
    np.add.at(expected, indices, grad)
    got = tocha.embedding_dense_backward(tocha.tensor(grad), tocha.tensor(indices), 500, -1, False)
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-4, atol=1e-4)
    half = tocha.embedding_dense_backward(tocha.tensor(grad).bfloat16(), tocha.tensor(indices), 500, -1, False)
    np.testing.assert_allclose(half.float().numpy(), expected, rtol=2e-2, atol=2e-2)


def bags(mode, offsets, keep, factors):
    """The bags one by one; an empty one is 0."""
    out = []
    for first, last in zip(offsets, [*offsets[1:], len(INDICES)], strict=True):
        at = [i for i in range(first, last) if keep[i]]
        rows = TABLE[INDICES[at]] * factors[at, None]
        fold = {"sum": np.sum, "mean": np.mean, "max": np.max}[mode]
        out.append(fold(rows, 0) if at else np.zeros(5))
    return np.stack(out)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("padding", [None, 1, -4])
def test_bags(mode, padding):
    offsets = [0, 3, 3, 6]
    keep = np.ones(8, bool) if padding is None else padding % 7 != INDICES
    factors = rng.standard_normal(8) if mode == "sum" else np.ones(8)
    given = {"per_sample_weights": tocha.tensor(factors)} if mode == "sum" else {}
    out = F.embedding_bag(
        tocha.tensor(INDICES), table(), tocha.tensor(offsets), mode=mode, padding_idx=padding, **given
    )
    np.testing.assert_allclose(out.detach().numpy(), bags(mode, offsets, keep, factors), rtol=1e-12)
    last = F.embedding_bag(
        tocha.tensor(INDICES), table(), tocha.tensor([*offsets, 8]), mode=mode, padding_idx=padding,
        include_last_offset=True, **given,
    )  # fmt: skip
    assert (last == out).all()


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bag_gradients(mode):
    indices = tocha.tensor(INDICES.reshape(2, 4))

    def f(weight, factors=None):
        return F.embedding_bag(indices, weight, mode=mode, per_sample_weights=factors, padding_idx=1)

    inputs = [table()]
    if mode == "sum":
        inputs.append(tocha.tensor(rng.standard_normal((2, 4))).requires_grad_())
    assert gradcheck(f, inputs)
    if mode != "max":
        assert gradgradcheck(f, inputs)


@pytest.mark.parametrize("width", [1, 3, 16, 37, 64, 130])
@pytest.mark.parametrize("dtype", [tocha.float32, tocha.float64, tocha.bfloat16])
def test_many_bags_on_all_threads(width, dtype):
    weight = tocha.tensor(rng.standard_normal((300, width)), dtype=dtype)
    offsets = np.sort(rng.integers(0, 2000, 150))
    offsets[0] = 0
    indices, factors = rng.integers(0, 300, 2000), rng.standard_normal(2000)
    rows = [np.arange(i, j) for i, j in zip(offsets, [*offsets[1:], 2000], strict=True)]
    values = weight.double().numpy()
    keep = indices != 7
    sums = [(values[indices[r]] * factors[r][:, None])[keep[r]].sum(0) for r in rows]
    largest = [values[indices[r]][keep[r]].max(0) if keep[r].any() else np.zeros(width) for r in rows]
    given = (tocha.tensor(indices), weight, tocha.tensor(offsets))
    tolerance = {"rtol": 2e-2, "atol": 1e-1} if dtype is tocha.bfloat16 else {"rtol": 1e-4, "atol": 1e-4}
    weights = tocha.tensor(factors, dtype=dtype)
    got = F.embedding_bag(*given, mode="sum", per_sample_weights=weights, padding_idx=7)
    np.testing.assert_allclose(got.double().numpy(), sums, **tolerance)
    got = F.embedding_bag(*given, mode="max", padding_idx=7)
    np.testing.assert_array_equal(got.double().numpy(), largest)
    strided = tocha.tensor(rng.standard_normal((300, 2 * width)), dtype=dtype)[:, ::2]
    got = F.embedding_bag(given[0], strided, given[2], mode="sum")
    np.testing.assert_allclose(
        got.double().numpy(), [strided.double().numpy()[indices[r]].sum(0) for r in rows], **tolerance
    )


def test_the_greatest_of_a_bag_is_a_nan():
    weight = tocha.tensor([[1.0, float("nan")], [2.0, 3.0], [0.5, 4.0]])
    out = F.embedding_bag(tocha.tensor([[0, 1, 2]]), weight, mode="max")
    assert out[0, 0] == 2 and out[0, 1].isnan()


def test_bag_refusals():
    i, w = tocha.tensor(INDICES), table()
    for error, call in [
        (ValueError, lambda: F.embedding_bag(i, w)),
        (ValueError, lambda: F.embedding_bag(i[None], w, tocha.tensor([0]))),
        (ValueError, lambda: F.embedding_bag(i[None], w, mode="median")),
        (ValueError, lambda: F.embedding_bag(i[None], w, mode="max", sparse=True)),
        (NotImplementedError, lambda: F.embedding_bag(i[None], w, per_sample_weights=tocha.ones(1, 8))),
        (RuntimeError, lambda: F.embedding_bag(i, w, tocha.tensor([1, 2]))),
        (RuntimeError, lambda: F.embedding_bag(i, w, tocha.tensor([0, 9]))),
        (RuntimeError, lambda: F.embedding_bag(i + 5, w, tocha.tensor([0]))),
    ]:
        with pytest.raises(error):
            call()


# -- cross entropy -----------------------------------------------------------------------------------


def test_cross_entropy_keeps_small_losses():
    """A confident and right prediction has a small loss, not 0: a score of 40 has no bits left for it, 1 has some."""
    loss = F.cross_entropy(tocha.tensor([[40.0, 25.0]]), tocha.tensor([0]))
    assert loss.item() == pytest.approx(np.exp(-15.0), abs=2**-24)


@pytest.mark.parametrize("dtype,error", [(tocha.float64, 1e-10), (tocha.float32, 1e-5), (tocha.bfloat16, 2e-2)])
@pytest.mark.parametrize("classes", [3, 100, 5000])
def test_cross_entropy_and_its_gradient(dtype, error, classes):
    scores, target = rng.standard_normal((6, classes)), rng.integers(0, classes, 6)
    target[2] = -100
    weight = rng.random(classes) + 0.5
    x = tocha.tensor(scores).to(dtype).requires_grad_()
    given = tocha.tensor(weight).to(dtype)
    loss = F.cross_entropy(x, tocha.tensor(target), weight=given)
    kept = np.delete(np.arange(6), 2)
    at, w = target[kept], weight[target[kept]]
    shares = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    assert loss.item() == pytest.approx((w * -np.log(shares[kept, at])).sum() / w.sum(), rel=max(error, 1e-9))
    expected = np.zeros_like(scores)
    expected[kept] = shares[kept] * (w / w.sum())[:, None]
    expected[kept, at] -= w / w.sum()
    loss.backward()
    np.testing.assert_allclose(x.grad.double().numpy(), expected, rtol=error, atol=error)


def test_cross_entropy_second_derivative():
    x, target = tocha.tensor(rng.standard_normal((4, 5))).requires_grad_(), tocha.tensor([0, 4, -100, 2])
    for reduction in ("mean", "sum", "none"):
        assert gradcheck(lambda x, r=reduction: F.cross_entropy(x, target, reduction=r), [x])
        assert gradgradcheck(lambda x, r=reduction: F.cross_entropy(x, target, reduction=r), [x])


def test_cross_entropy_refuses_unknown_classes():
    for target in ([0, 5], [-1, 0]):
        with pytest.raises(IndexError):
            F.cross_entropy(tocha.ones(2, 5), tocha.tensor(target))
