"""nn.init without PyTorch at hand: ranges, moments, exact fillings, complaints."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tocha
from tocha.nn import init


@pytest.fixture(autouse=True)
def seed():
    tocha.manual_seed(0)


def test_fillers_return_their_tensor_and_record_nothing():
    p = tocha.nn.Parameter(tocha.empty(4, 4))
    for fill in (init.uniform_, init.normal_, init.trunc_normal_, init.ones_, init.zeros_, init.eye_, init.xavier_uniform_,
                 init.xavier_normal_, init.kaiming_uniform_, init.kaiming_normal_, init.orthogonal_):  # fmt: skip
        assert fill(p) is p and p.is_leaf and p.requires_grad
    assert init.constant_(p, 2.5) is p and p.unique().tolist() == [2.5]
    assert init.sparse_(p, 0.5) is p


@pytest.mark.parametrize(
    ("fill", "bound"),
    [
        (lambda t: init.xavier_uniform_(t, gain=2.0), 2.0 * math.sqrt(6.0 / (300 + 200))),
        (lambda t: init.kaiming_uniform_(t), math.sqrt(6.0 / 300)),
        (lambda t: init.kaiming_uniform_(t, mode="fan_out", nonlinearity="linear"), math.sqrt(3.0 / 200)),
    ],
)
def test_bounds(fill, bound):
    w = fill(tocha.empty(200, 300)).numpy()
    assert np.abs(w).max() <= bound and np.abs(w).max() > 0.99 * bound
    np.testing.assert_allclose(w.std(), bound / math.sqrt(3), rtol=0.02)


@pytest.mark.parametrize(
    ("fill", "std"),
    [
        (lambda t: init.xavier_normal_(t), math.sqrt(2.0 / 500)),
        (lambda t: init.kaiming_normal_(t, a=1.0), math.sqrt(1.0 / 300)),
        (lambda t: init.normal_(t, 0.0, 0.02), 0.02),
    ],
)
def test_deviations(fill, std):
    w = fill(tocha.empty(200, 300)).numpy()
    np.testing.assert_allclose(w.std(), std, rtol=0.02)
    assert abs(w.mean()) < 0.02 * std


def test_fans_of_convolutions():
    assert init._calculate_fan_in_and_fan_out(tocha.empty(3, 2, 5, 7)) == (70, 105)


@pytest.mark.parametrize(("mean", "a", "b"), [(0.0, -2.0, 2.0), (0.0, 1.0, 3.0), (1.5, 0.0, 0.5), (0.0, 0.0, 100.0)])
def test_truncated_normal(mean, a, b):
    x = init.trunc_normal_(tocha.empty(20000, dtype=tocha.float64), mean=mean, a=a, b=b).numpy()
    assert x.min() >= a and x.max() <= b
    grid = np.linspace(a, min(b, mean + 12), 200001)
    density = np.exp(-0.5 * (grid - mean) ** 2)
    expected = (grid * density).sum() / density.sum()
    assert abs(x.mean() - expected) < 5 * x.std() / math.sqrt(x.size)


def test_orthogonal():
    for shape in ((4, 4), (3, 8), (8, 3), (4, 2, 3)):
        w = init.orthogonal_(tocha.empty(shape, dtype=tocha.float64), gain=2.0).flatten(1).numpy()
        product = w @ w.T if w.shape[0] <= w.shape[1] else w.T @ w
        np.testing.assert_allclose(product, 4.0 * np.eye(len(product)), atol=1e-12)


def test_sparse():
    w = init.sparse_(tocha.empty(10, 5), sparsity=0.25)
    assert (w == 0).sum(0).tolist() == [3] * 5


def test_generator_alone_decides():
    a = init.normal_(tocha.empty(9), generator=tocha.Generator().manual_seed(5))
    tocha.manual_seed(99)
    b = init.normal_(tocha.empty(9), generator=tocha.Generator().manual_seed(5))
    assert tocha.equal(a, b)


def test_complaints():
    with pytest.raises(ValueError, match="Unsupported nonlinearity foo"):
        init.calculate_gain("foo")
    with pytest.raises(
        ValueError, match="Fan in and fan out can not be computed for tensor with fewer than 2 dimensions"
    ):
        init.xavier_normal_(tocha.empty(3))
    with pytest.raises(ValueError, match="Mode x not supported, please use one of"):
        init.kaiming_normal_(tocha.empty(3, 3), mode="x")
    with pytest.warns(UserWarning, match="Initializing zero-element tensors is a no-op"):
        init.kaiming_uniform_(tocha.empty(0, 3))
    with pytest.warns(
        FutureWarning, match=r"`nn.init.xavier_normal` is now deprecated in favor of `nn.init.xavier_normal_`."
    ):
        init.xavier_normal(tocha.empty(2, 2))


@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")
def test_a_bias_without_inputs_is_zero():
    tocha.full((3,), 7.0)  # what fresh memory may hold
    assert tocha.nn.Linear(0, 3).bias.tolist() == [0.0, 0.0, 0.0]
    assert tocha.nn.Conv1d(0, 3, 2).bias.tolist() == [0.0, 0.0, 0.0]
