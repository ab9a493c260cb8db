"""Fake quantization against PyTorch: values, masks, gradients, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import tocha

BOTH = (torch, tocha)
VALUES = [-1.0, -0.35, -0.34, -0.25, -0.05, 0.0, 0.05, 0.15, 0.25, 0.3, 0.35, 0.77, 0.83, 5.0, 100.0, 1e20, -1e20]
DTYPES = ["float32", "float64", "float16", "bfloat16"]


def values(t) -> np.ndarray:
    return np.array(t.detach().double().numpy())


def both(f) -> list:
    """What f makes of each library, as arrays."""
    return [[values(t) if t.dtype != m.bool else np.array(t.numpy()) for t in f(m)] for m in BOTH]


def assert_same(f) -> None:
    theirs, ours = both(f)
    for a, b in zip(theirs, ours, strict=True):
        np.testing.assert_array_equal(b, a)


def refusals(f) -> list:
    found = []
    for m in BOTH:
        with pytest.raises(Exception) as e:
            f(m)
        found.append((type(e.value).__name__, str(e.value)))
    return found


def assert_refused_alike(f) -> None:
    theirs, ours = refusals(f)
    assert ours[0] == theirs[0]
    assert theirs[1].split(" (Could")[0].rstrip(".") in ours[1]


def whole(m, numbers):
    return m.tensor(numbers, dtype=m.int32)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("zero", "low", "high"), [(0, -4, 8), (2, 0, 255), (-128, -128, 127), (3, 3, 3)])
def test_one_scale(dtype, zero, low, high):
    def f(m):
        x = m.tensor(VALUES, dtype=getattr(m, dtype))
        scale, at = m.tensor([0.1]), m.tensor([zero])
        by_tensors = m.fake_quantize_per_tensor_affine(x, scale, at, low, high)
        out, mask = m.ops.aten.fake_quantize_per_tensor_affine_cachemask(x, 0.1, zero, low, high)
        return out, mask, by_tensors, m.fake_quantize_per_tensor_affine(x, 0.1, zero, low, high)

    assert_same(f)


def test_what_is_no_number():
    def f(m):
        x = m.tensor([math.nan, math.inf, -math.inf])
        return m.ops.aten.fake_quantize_per_tensor_affine_cachemask(x, 0.1, 0, -4, 8)

    assert_same(f)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("zero", ["int32", "float32", "float16"])
@pytest.mark.parametrize("axis", [0, 1])
def test_a_scale_for_each_channel(dtype, zero, axis):
    def f(m):
        held = VALUES[:-2]  # by an integer, on every processor
        x = m.tensor([held, held[1:] + held[:1], held[2:] + held[:2]], dtype=getattr(m, dtype))
        x = x if axis == 0 else x.t()
        at = m.tensor([0.0, 1.0, 2.0] if zero == "int32" else [0.0, 1.4, 2.5]).to(getattr(m, zero))
        return m.ops.aten.fake_quantize_per_channel_affine_cachemask(x, m.tensor([0.1, 0.2, 0.3]), at, axis, -4, 8)

    assert_same(f)


def test_layouts_are_kept():
    for m in BOTH:
        x = m.ones(2, 3).t()
        assert m.fake_quantize_per_tensor_affine(x, 0.1, 0, 0, 1).stride() == x.stride()
        assert m.fake_quantize_per_channel_affine(x, m.ones(2), whole(m, [0, 0]), 1, 0, 1).stride() == x.stride()


def test_the_gradient_is_what_arrives_where_nothing_was_cut_off():
    def f(m):
        x = m.tensor(VALUES, dtype=m.float64, requires_grad=True)
        arrived = m.arange(1.0, 1.0 + len(VALUES), dtype=m.float64, requires_grad=True)
        y = m.fake_quantize_per_tensor_affine(x, 0.1, 0, -4, 8)
        (g,) = m.autograd.grad(y, x, arrived, create_graph=True)
        assert y.grad_fn.name() == "FakeQuantizePerTensorAffineCachemaskBackward0"
        return g, *m.autograd.grad(g.sum(), arrived)

    assert_same(f)


def test_without_a_graph_of_what_arrives_the_gradient_hangs_on_nothing():
    for m in BOTH:
        x = m.tensor(VALUES, requires_grad=True)
        y = m.fake_quantize_per_channel_affine(x[None], m.tensor([0.1]), whole(m, [0]), 0, -4, 8)
        (g,) = m.autograd.grad(y.sum(), x, create_graph=True)
        assert not g.requires_grad


@pytest.mark.parametrize("zero", [0.0, 0.3, 0.5, 1.5, 1.6, -9.0, 20.0])
def test_scales_that_are_learned(zero):
    def f(m):
        x = m.tensor(VALUES[:-3], requires_grad=True)
        scale, at = (m.tensor([v], requires_grad=True) for v in (0.1, zero))
        y = m._fake_quantize_learnable_per_tensor_affine(x, scale, at, -4, 8, 0.5)
        weights = m.arange(1.0, 1.0 + len(x), dtype=x.dtype)
        return y, *m.autograd.grad(y, [x, scale, at], weights)

    theirs, ours = both(f)
    for a, b in zip(theirs, ours, strict=True):
        np.testing.assert_allclose(b, a, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("zero", [[0.0, 1.0], [0.5, 1.5], [0.6, -9.0], [20.0, 2.5]])
@pytest.mark.parametrize("axis", [0, 1])
def test_scales_of_channels_that_are_learned(zero, axis):
    def f(m):
        x = m.tensor([VALUES[:-3], VALUES[1:-2]])
        x = (x if axis == 0 else x.t()).clone().requires_grad_()
        scale, at = m.tensor([0.1, 0.2], requires_grad=True), m.tensor(zero, requires_grad=True)
        y = m._fake_quantize_learnable_per_channel_affine(x, scale, at, axis, -4, 8, 0.5)
        return y, *m.autograd.grad(y.square().sum(), [x, scale, at])

    theirs, ours = both(f)
    for a, b in zip(theirs, ours, strict=True):
        np.testing.assert_allclose(b, a, rtol=2e-6, atol=1e-5)


def test_learned_scales_have_no_second_derivative():
    def f(m):
        x, scale, at = (m.tensor(v, requires_grad=True) for v in ([0.2, 0.5], [0.1], [0.0]))
        y = m._fake_quantize_learnable_per_tensor_affine(x, scale, at, -4, 8)
        (g,) = m.autograd.grad(y.sum(), scale, create_graph=True)
        assert g.requires_grad
        g.sum().backward()

    assert_refused_alike(f)


def channels(m, x=None, scale=None, zero=None, axis=0, low=0, high=255):
    x = m.ones(2, 3) if x is None else x
    scale = m.tensor([0.1, 0.2]) if scale is None else scale
    return m.fake_quantize_per_channel_affine(x, scale, whole(m, [0, 1]) if zero is None else zero, axis, low, high)


REFUSED = {
    "ends": lambda m: m.fake_quantize_per_tensor_affine(m.ones(2), 0.1, 0, 5, 3),
    "zero point": lambda m: m.fake_quantize_per_tensor_affine(m.ones(2), 0.1, 300, 0, 255),
    "integers": lambda m: m.fake_quantize_per_tensor_affine(m.ones(2, dtype=m.int64), 0.1, 0, 0, 255),
    "complex": lambda m: m.fake_quantize_per_tensor_affine(m.ones(2, dtype=m.complex64), 0.1, 0, 0, 255),
    "two scales": lambda m: m.fake_quantize_per_tensor_affine(m.ones(2), m.ones(2), whole(m, [0]), 0, 255),
    "scale wants a gradient": lambda m: m.fake_quantize_per_tensor_affine(
        m.ones(2), m.ones(1).requires_grad_(), whole(m, [0]), 0, 255
    ),
    "channels: axis": lambda m: channels(m, axis=2),
    "channels: negative axis": lambda m: channels(m, axis=-2),
    "channels: other axis": lambda m: channels(m, axis=1),
    "channels: dtype of scale": lambda m: channels(m, scale=m.ones(2, dtype=m.float64)),
    "channels: dtype of zero point": lambda m: channels(m, zero=m.zeros(2, dtype=m.int64)),
    "channels: shape of scale": lambda m: channels(m, scale=m.ones(1, 2)),
    "channels: shape of zero point": lambda m: channels(m, zero=whole(m, [[0, 1]])),
    "channels: number of scales": lambda m: channels(m, scale=m.ones(1)),
    "channels: zero point": lambda m: channels(m, zero=whole(m, [0, 300])),
    "channels: ends": lambda m: channels(m, low=9, high=3),
    "channels: integers": lambda m: channels(m, x=m.ones(2, 3, dtype=m.int64)),
    "channels: scale wants a gradient": lambda m: channels(m, scale=m.ones(2).requires_grad_()),
    "learned: a scale without dims": lambda m: m._fake_quantize_learnable_per_tensor_affine(
        m.ones(2), m.tensor(0.1), m.zeros(1), 0, 255
    ),
    "learned: ends": lambda m: m._fake_quantize_learnable_per_tensor_affine(m.ones(2), m.ones(1), m.zeros(1), 5, 3),
    "mask": lambda m: m.ops.aten.fake_quantize_per_tensor_affine_cachemask_backward(m.ones(3), m.ones(2) > 0),
}


@pytest.mark.parametrize("f", REFUSED.values(), ids=REFUSED)
def test_bad_calls(f):
    assert_refused_alike(f)
