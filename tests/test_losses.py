"""Losses against NumPy, their reductions, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest

import tocha
import tocha.nn.functional as F

rng = np.random.default_rng(0)
X, Y = rng.normal(size=(2, 6, 4)).astype(np.float32)
x, y = tocha.from_numpy(X), tocha.from_numpy(Y)


def log_softmax(a):
    return a - np.log(np.exp(a).sum(1, keepdims=True))


def test_elementwise_losses_and_reductions():
    z = np.abs(X - Y)
    for f, each in [
        (F.mse_loss, z**2),
        (F.l1_loss, z),
        (lambda *a, **k: F.smooth_l1_loss(*a, beta=0.5, **k), np.where(z < 0.5, z * z, z - 0.25)),
        (lambda *a, **k: F.huber_loss(*a, delta=0.5, **k), np.where(z < 0.5, z * z / 2, 0.5 * (z - 0.25))),
        (F.soft_margin_loss, np.log1p(np.exp(-X * Y))),
    ]:
        np.testing.assert_allclose(f(x, y, reduction="none").numpy(), each, rtol=1e-5, atol=1e-6)
        assert f(x, y).item() == pytest.approx(each.mean(), rel=1e-5)
        assert f(x, y, reduction="sum").item() == pytest.approx(each.sum(), rel=1e-5)
    with pytest.raises(ValueError):
        F.mse_loss(x, y, reduction="total")


def test_weights():
    w = rng.uniform(size=X.shape).astype(np.float32)
    assert F.mse_loss(x, y, weight=tocha.from_numpy(w)).item() == pytest.approx(
        (w * (X - Y) ** 2).sum() / w.sum(), rel=1e-5
    )
    with pytest.raises(ValueError):
        F.mse_loss(x, y, weight=tocha.ones(4))


def test_classes():
    t = np.array([0, 3, 1, -100, 2, 2])
    scores = log_softmax(X)
    kept = t >= 0
    picked = -scores[np.arange(6)[kept], t[kept]]
    target = tocha.from_numpy(t)
    assert F.cross_entropy(x, target).item() == pytest.approx(picked.mean(), rel=1e-5)
    each = F.nll_loss(tocha.from_numpy(scores), target, reduction="none").numpy()
    np.testing.assert_allclose(each[kept], picked, rtol=1e-5)
    assert each[3] == 0
    w = np.array([1, 2, 3, 4], np.float32)
    weighted = (picked * w[t[kept]]).sum() / w[t[kept]].sum()
    assert F.cross_entropy(x, target, weight=tocha.from_numpy(w)).item() == pytest.approx(weighted, rel=1e-5)
    smooth = 0.9 * picked + 0.1 * -scores[kept].mean(1)
    assert F.cross_entropy(x, target, label_smoothing=0.1).item() == pytest.approx(smooth.mean(), rel=1e-5)
    q = np.exp(log_softmax(Y))
    assert F.cross_entropy(x, tocha.from_numpy(q)).item() == pytest.approx(-(q * scores).sum(1).mean(), rel=1e-5)
    with pytest.raises(IndexError):
        F.nll_loss(x, tocha.tensor([0, 1, 2, 3, 4, 0]))


def test_classes_of_images_in_any_layout():
    a = rng.normal(size=(2, 3, 4, 5)).astype(np.float32)
    t = rng.integers(0, 3, size=(2, 5, 4))
    loss = F.nll_loss(tocha.from_numpy(a).transpose(2, 3), tocha.from_numpy(t), reduction="none").numpy()
    np.testing.assert_array_equal(loss, -np.take_along_axis(a.swapaxes(2, 3), t[:, None], 1)[:, 0])


def test_probabilities():
    p, q = 1 / (1 + np.exp(-X)), 1 / (1 + np.exp(-Y))
    each = -(q * np.log(p) + (1 - q) * np.log(1 - p))
    t = tocha.from_numpy(q)
    np.testing.assert_allclose(
        F.binary_cross_entropy(tocha.from_numpy(p), t, reduction="none").numpy(), each, rtol=1e-4
    )
    np.testing.assert_allclose(F.binary_cross_entropy_with_logits(x, t, reduction="none").numpy(), each, rtol=1e-4)
    assert F.binary_cross_entropy(tocha.tensor([0.0]), tocha.tensor([1.0])).item() == 100
    assert np.isfinite(F.binary_cross_entropy_with_logits(tocha.tensor([1e4, -1e4]), tocha.tensor([0.0, 1.0])).item())
    with pytest.raises(RuntimeError):
        F.binary_cross_entropy(x, t)
    kl = F.kl_div(x, t, reduction="batchmean").item()
    assert kl == pytest.approx((q * (np.log(q) - X)).sum() / 6, rel=1e-4)


def test_multilabel_margin():
    # the targets are classes 3 and 0; what follows -1 does not count
    a = tocha.tensor([[0.1, 0.2, 0.4, 0.8]])
    t = tocha.tensor([[3, 0, -1, 1]])
    expected = 0.25 * ((1 - (0.1 - 0.2)) + (1 - (0.1 - 0.4)) + (1 - (0.8 - 0.2)) + (1 - (0.8 - 0.4)))
    assert F.multilabel_margin_loss(a, t).item() == pytest.approx(expected)


def test_half_precision_sums_do_not_overflow():
    a = tocha.full((20000, 2), -8.0, dtype=tocha.float16)
    t = tocha.zeros(20000, dtype=tocha.int64)
    assert F.nll_loss(a, t).item() == 8


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("target", [tocha.float16, tocha.float32, tocha.float64])
@pytest.mark.parametrize("given", [tocha.float16, tocha.float32, tocha.float64])
def test_logistic_losses_have_the_dtype_of_the_target(given, target, weighted):
    a, b = x.to(given, copy=True).requires_grad_(), tocha.sigmoid(y).to(target)
    weights = {"weight": tocha.ones(4), "pos_weight": tocha.ones(4, dtype=tocha.float64)} if weighted else {}
    loss = F.binary_cross_entropy_with_logits(a, b, **weights)
    assert loss.dtype == target
    loss.backward()
    assert a.grad.dtype == given
    expected = F.binary_cross_entropy(tocha.sigmoid(x.double()), tocha.sigmoid(y.double()))
    assert abs(loss.item() - expected.item()) < 5e-3


@pytest.mark.parametrize("bad", [3, -1])
def test_multi_margin_loss_refuses_classes_that_there_are_not(bad):
    with pytest.raises(RuntimeError, match="target out of range"):
        tocha.nn.functional.multi_margin_loss(tocha.zeros(2, 3), tocha.tensor([0, bad]))
