"""Masked operations against NumPy's masked arrays, and fully masked rows."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tocha

A = np.random.default_rng(0).normal(size=(3, 5)).astype(np.float32)
M = np.array([[1, 0, 1, 1, 0], [0, 1, 1, 0, 0], [1, 1, 1, 1, 1]], bool)
x, m = tocha.from_numpy(A), tocha.from_numpy(M)
R = np.ma.masked_array(A, ~M)


@pytest.mark.parametrize("name", ["sum", "prod", "amax", "amin", "mean", "var", "std"])
def test_reductions(name):
    reference = {"amax": "max", "amin": "min"}.get(name, name)
    options = {"correction": 0} if name in ("var", "std") else {}
    for dim in (0, 1):
        got = getattr(tocha.masked, name)(x, dim, mask=m, **options).numpy()
        np.testing.assert_allclose(got, getattr(R, reference)(axis=dim).filled(np.nan), rtol=1e-5)
    assert getattr(tocha.masked, name)(x, mask=m, **options).item() == pytest.approx(
        float(getattr(R, reference)()), rel=1e-5
    )


def test_nothing_left():
    none = tocha.zeros(3, 5, dtype=tocha.bool)
    assert (tocha.masked.sum(x, 1, mask=none) == 0).all() and (tocha.masked.prod(x, 1, mask=none) == 1).all()
    assert (tocha.masked.amax(x, 1, mask=none) == -math.inf).all() and tocha.isnan(
        tocha.masked.mean(x, 1, mask=none)
    ).all()


def test_softmax_and_scans():
    e = np.where(M, np.exp(A), 0)
    np.testing.assert_allclose(tocha.masked.softmax(x, 1, mask=m).numpy(), e / e.sum(1, keepdims=True), rtol=1e-5)
    np.testing.assert_allclose(tocha.masked.cumsum(x, 1, mask=m).numpy(), np.where(M, A, 0).cumsum(1), rtol=1e-5)
    np.testing.assert_allclose(tocha.masked.logsumexp(x, 1, mask=m).numpy(), np.log(e.sum(1)), rtol=1e-5)
    n = np.sqrt(np.where(M, A**2, 0).sum(1, keepdims=True))
    np.testing.assert_allclose(tocha.masked.normalize(x, 2.0, 1, mask=m).numpy(), np.where(M, A, 0) / n, rtol=1e-5)


def test_masks_broadcast():
    np.testing.assert_allclose(tocha.masked.sum(x, 1, mask=m[0]).numpy(), A[:, M[0]].sum(1), rtol=1e-5)
    with pytest.raises(IndexError):
        tocha.masked.sum(x[0], 0, mask=m)
