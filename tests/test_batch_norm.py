"""batch_norm, instance_norm and local_response_norm against NumPy, in every layout, with running statistics and gradients."""

from __future__ import annotations

import numpy as np
import pytest

import tocha
from tocha.autograd import gradcheck, gradgradcheck

F = tocha.nn.functional
EPS = 1e-5


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape) * 2 + 3


def by_channel(v: np.ndarray, ndim: int) -> np.ndarray:
    return v.reshape(1, -1, *(1,) * (ndim - 2))


def expected(x: np.ndarray, w: np.ndarray, b: np.ndarray) -> np.ndarray:
    dims = tuple(d for d in range(x.ndim) if d != 1)
    y = (x - x.mean(dims, keepdims=True)) / np.sqrt(x.var(dims, keepdims=True) + EPS)
    return y * by_channel(w, x.ndim) + by_channel(b, x.ndim)


# Short and long planes, one element each, more than one piece of a plane, many samples.
SHAPES = [(4, 5), (3, 4, 7), (4, 16, 3, 3), (2, 3, 12, 11), (2, 3, 2, 5, 6), (300, 5), (2, 2, 97, 101), (40, 3, 16, 16)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("dtype,tolerance", [(tocha.float32, 2e-5), (tocha.float64, 1e-10)])
def test_training(shape, last, dtype, tolerance):
    x, w, b = normal(*shape), normal(shape[1], seed=1), normal(shape[1], seed=2)
    t = tocha.tensor(x, dtype=dtype)
    if last and len(shape) in (4, 5):
        t = t.contiguous(memory_format=tocha.channels_last if len(shape) == 4 else tocha.channels_last_3d)
    mean, var = tocha.zeros(shape[1], dtype=dtype), tocha.ones(shape[1], dtype=dtype)
    y = F.batch_norm(
        t, mean, var, tocha.tensor(w, dtype=dtype), tocha.tensor(b, dtype=dtype), training=True, momentum=0.25
    )
    np.testing.assert_allclose(y.numpy(), expected(x, w, b), rtol=tolerance, atol=tolerance)
    dims = tuple(d for d in range(x.ndim) if d != 1)
    np.testing.assert_allclose(mean.numpy(), 0.25 * x.mean(dims), rtol=tolerance * 10)
    np.testing.assert_allclose(var.numpy(), 0.75 + 0.25 * x.var(dims, ddof=1), rtol=tolerance * 10)
    assert y.stride() == t.stride()


@pytest.mark.parametrize("shape", SHAPES[:5])
def test_evaluation(shape):
    x, mean, var = normal(*shape), normal(shape[1], seed=1), np.abs(normal(shape[1], seed=2)) + 0.5
    running = tocha.tensor(mean), tocha.tensor(var)
    y = F.batch_norm(tocha.tensor(x), *running)
    by = [by_channel(v, x.ndim) for v in (mean, var)]
    np.testing.assert_allclose(y.numpy(), (x - by[0]) / np.sqrt(by[1] + EPS))
    np.testing.assert_array_equal(running[0].numpy(), mean)


@pytest.mark.parametrize("shape", [(4, 16, 3, 3), (2, 3, 12, 11), (2, 3, 33, 37), (30, 4)])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("training", [True, False])
def test_backward_against_its_formula(shape, last, training):
    x, g, w = normal(*shape), normal(*shape, seed=1), normal(shape[1], seed=2)
    mean, var = normal(shape[1], seed=3), np.abs(normal(shape[1], seed=4)) + 0.5
    t = tocha.tensor(x)
    if last and len(shape) == 4:
        t = t.contiguous(memory_format=tocha.channels_last)
    leaves = [
        t.requires_grad_(),
        tocha.tensor(w).requires_grad_(),
        tocha.zeros(shape[1], dtype=tocha.float64).requires_grad_(),
    ]
    F.batch_norm(leaves[0], tocha.tensor(mean), tocha.tensor(var), leaves[1], leaves[2], training).backward(
        tocha.tensor(g)
    )
    dims = tuple(d for d in range(x.ndim) if d != 1)
    m = x.mean(dims, keepdims=True) if training else by_channel(mean, x.ndim)
    v = x.var(dims, keepdims=True) if training else by_channel(var, x.ndim)
    y = (x - m) / np.sqrt(v + EPS)
    q = g * by_channel(w, x.ndim)
    if training:
        q = q - q.mean(dims, keepdims=True) - y * (q * y).mean(dims, keepdims=True)
    np.testing.assert_allclose(leaves[0].grad.numpy(), q / np.sqrt(v + EPS), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(leaves[1].grad.numpy(), (g * y).sum(dims), rtol=1e-9)
    np.testing.assert_allclose(leaves[2].grad.numpy(), g.sum(dims), rtol=1e-9)


@pytest.mark.parametrize("dtype", [tocha.bfloat16, tocha.float16])
def test_half_inputs_with_float_parameters(dtype):
    x = tocha.tensor(normal(4, 3, 5, 5), dtype=dtype)
    w, b = tocha.rand(3), tocha.rand(3)
    mean, var = tocha.zeros(3), tocha.ones(3)
    out, kept_mean, kept_scale = tocha.native_batch_norm(x, w, b, mean, var, True, 0.1, EPS)
    assert (out.dtype, kept_mean.dtype, kept_scale.dtype) == (dtype, tocha.float32, tocha.float32)
    np.testing.assert_allclose(
        out.double().numpy(), expected(x.double().numpy(), w.numpy(), b.numpy()), atol=2e-2, rtol=2e-2
    )


def test_large_means_do_not_cancel():
    x = (np.random.default_rng(0).standard_normal((8, 2, 16, 16)) + 4096).astype(np.float32)
    for layout in (tocha.contiguous_format, tocha.channels_last):
        y = F.batch_norm(tocha.tensor(x).contiguous(memory_format=layout), None, None, training=True)
        np.testing.assert_allclose(y.numpy(), expected(x.astype(np.float64), np.ones(2), np.zeros(2)), atol=2e-3)


@pytest.mark.parametrize("training", [True, False])
def test_second_derivatives(training):
    x = tocha.tensor(normal(3, 2, 2, 3)).requires_grad_()
    w, b = tocha.rand(2, dtype=tocha.float64).requires_grad_(), tocha.rand(2, dtype=tocha.float64).requires_grad_()
    mean, var = tocha.rand(2, dtype=tocha.float64), tocha.rand(2, dtype=tocha.float64) + 0.5

    def f(x, w, b):
        return F.batch_norm(x, mean.clone(), var.clone(), w, b, training)

    assert gradcheck(f, (x, w, b))
    assert gradgradcheck(f, (x, w, b))


def test_errors():
    with pytest.raises(ValueError, match="more than 1 value"):
        F.batch_norm(tocha.rand(1, 3), None, None, training=True)
    with pytest.raises(RuntimeError, match="running_mean must be defined"):
        F.batch_norm(tocha.rand(2, 3), None, None)
    with pytest.raises(RuntimeError, match="weight should contain 3"):
        F.batch_norm(tocha.rand(2, 3), None, None, weight=tocha.ones(4), training=True)
    with pytest.raises(RuntimeError, match="mixed dtype"):
        F.batch_norm(tocha.rand(2, 3), None, None, weight=tocha.ones(3, dtype=tocha.float64), training=True)
    with pytest.raises(NotImplementedError):
        F.batch_norm(tocha.ones(2, 3, dtype=tocha.int64), None, None, training=True)
    assert F.batch_norm(tocha.rand(0, 3), tocha.zeros(3), tocha.ones(3), training=True).shape == (0, 3)


def test_instance_norm_is_batch_norm_of_each_sample():
    x, w, b = normal(3, 2, 4, 5), normal(2, seed=1), normal(2, seed=2)
    mean, var = tocha.zeros(2, dtype=tocha.float64), tocha.ones(2, dtype=tocha.float64)
    y = F.instance_norm(tocha.tensor(x), mean, var, tocha.tensor(w), tocha.tensor(b), momentum=0.5)
    np.testing.assert_allclose(y.numpy(), np.concatenate([expected(s[None], w, b) for s in x]))
    np.testing.assert_allclose(mean.numpy(), 0.5 * x.mean((2, 3)).mean(0))
    np.testing.assert_allclose(var.numpy(), 0.5 + 0.5 * x.var((2, 3), ddof=1).mean(0))
    with pytest.raises(ValueError, match="more than 1 spatial element"):
        F.instance_norm(tocha.rand(2, 3, 1))


@pytest.mark.parametrize("shape", [(2, 5, 3), (2, 5, 3, 4), (1, 4, 2, 3, 2)])
@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_local_response_norm(shape, size):
    x = normal(*shape)
    pad = [(0, 0)] * x.ndim
    pad[1] = (size // 2, (size - 1) // 2)
    squares = np.pad(x**2, pad)
    mean = sum(squares[:, k : k + shape[1]] for k in range(size)) / size
    y = F.local_response_norm(tocha.tensor(x), size, alpha=0.5, beta=0.6, k=2.0)
    np.testing.assert_allclose(y.numpy(), x / (2 + 0.5 * mean) ** 0.6)
