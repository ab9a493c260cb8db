"""PyTorch's operators that are functions of others: gradients by name are those of the operators that they are gradients of."""

from __future__ import annotations

import math

import pytest

import tocha
from tocha import ops
from tocha._library import composites
from tocha.nn import functional as F
from tocha.testing import assert_close

aten, prims = ops.aten, ops.prims


def randn(*shape: int, seed: int = 0, **kwargs) -> tocha.Tensor:
    return tocha.randn(shape, generator=tocha.Generator().manual_seed(seed), **kwargs)


X, PICTURE = randn(3, 8), randn(2, 4, 6, 8)
CLASSES = tocha.tensor([2, -100, 0])
# The operator, where its gradient is asked for, and the gradient by name from the one that arrives and that place.
GRADIENTS = {
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 3, 2, 1), PICTURE, lambda g, x: aten.avg_pool2d_backward(g, x, [3, 3], [2, 2], [1, 1], False, True, None)),
    "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, (3, 5)), PICTURE, lambda g, x: aten._adaptive_avg_pool2d_backward(g, x)),
    "adaptive_max_pool2d": (lambda x: F.adaptive_max_pool2d(x, 3), PICTURE, lambda g, x: aten.adaptive_max_pool2d_backward(g, x, aten.adaptive_max_pool2d(x, [3, 3])[1])),
    "upsample_bilinear2d": (lambda x: F.interpolate(x, (9, 11), mode="bilinear", align_corners=True), PICTURE, lambda g, x: aten.upsample_bilinear2d_backward(g, [9, 11], [2, 4, 6, 8], True)),
    "upsample_nearest2d": (lambda x: F.interpolate(x, (9, 11)), PICTURE, lambda g, x: aten.upsample_nearest2d_backward(g, [9, 11], [2, 4, 6, 8])),
    "reflection_pad2d": (lambda x: aten.reflection_pad2d(x, [1, 2, 0, 3]), PICTURE, lambda g, x: aten.reflection_pad2d_backward(g, x, [1, 2, 0, 3])),
    "replication_pad1d": (lambda x: F.pad(x, (2, 1), mode="replicate"), X, lambda g, x: aten.replication_pad1d_backward(g, x, [2, 1])),
    "nll_loss": (lambda x: F.nll_loss(x, CLASSES, ignore_index=-100), X, lambda g, x: aten.nll_loss_backward(g, x, CLASSES, None, 1, -100, tocha.tensor(2.0))),
    "huber_loss": (lambda x: F.huber_loss(x, X * 0.1, delta=0.5), X, lambda g, x: aten.huber_loss_backward(g, x, X * 0.1, 1, 0.5)),
    "elu": (lambda x: F.elu(x, 1.5), X, lambda g, x: aten.elu_backward(g, 1.5, 1, 1, False, x)),
    "elu of its result": (lambda x: F.elu(x, 1.5), X, lambda g, x: aten.elu_backward(g, 1.5, 1, 1, True, F.elu(x, 1.5))),
    "glu": (lambda x: F.glu(x, 1), X, lambda g, x: aten.glu_backward(g, x, 1)),
    "logsigmoid": (F.logsigmoid, X, lambda g, x: aten.log_sigmoid_backward(g, x, aten.log_sigmoid_forward(x)[1])),
    "layer_norm": (lambda x: F.layer_norm(x, (8,), X[0], X[1]), X, lambda g, x: aten.native_layer_norm_backward(g, x, [8], *aten.native_layer_norm(x, [8], X[0], X[1], 1e-5)[1:], X[0], X[1], [True, True, True])[0]),
    "group_norm": (lambda x: F.group_norm(x, 2), PICTURE, lambda g, x: aten.native_group_norm_backward(g, x, *aten.native_group_norm(x, None, None, 2, 4, 48, 2, 1e-5)[1:], None, 2, 4, 48, 2, [True, False, False])[0]),
    "unfold": (lambda x: x.unfold(1, 3, 2), X, lambda g, x: aten.unfold_backward(g, [3, 8], 1, 3, 2)),
    "diagonal": (lambda x: x.diagonal(1), X, lambda g, x: aten.diagonal_backward(g, [3, 8], 1, 0, 1)),
}  # fmt: skip


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_by_name(name):
    function, at, by_name = GRADIENTS[name]
    x = at.clone().requires_grad_()
    out = function(x)
    grad = randn(*out.shape, seed=1)
    (expected,) = tocha.autograd.grad(out, x, grad)
    assert_close(by_name(grad, at), expected)


def test_results_that_are_not_asked_for_are_none():
    stats = aten.native_layer_norm(X, [8], None, None, 1e-5)[1:]
    by_input, by_weight, by_bias = aten.native_layer_norm_backward(X, X, [8], *stats, None, None, [False, False, True])
    assert by_input is None
    assert by_weight is None
    assert_close(by_bias, X.sum(0))


def test_graphs_consist_of_the_parts():
    def f(x, n):
        places = prims.iota(n.shape[0], start=0, step=2, dtype=tocha.int64, device=x.device, requires_grad=False)
        pooled = aten.avg_pool2d_backward(
            x, aten.reflection_pad2d(x, [0, 1, 0, 1]), [2, 2], [1, 1], [0, 0], False, True, None
        )
        return pooled * 2, prims.convert_element_type(places, tocha.float32) + n

    compiled = tocha.compile(f, fullgraph=True)
    for n in (3, 4, 5):
        assert_close(compiled(PICTURE, tocha.ones(n)), f(PICTURE, tocha.ones(n)))
    x = PICTURE.clone().requires_grad_()
    compiled(x, tocha.ones(3))[0].sum().backward()
    assert x.grad is not None


def test_prims_are_found_by_name():
    assert tocha._prims.iota is prims.iota
    assert prims.div(tocha.tensor([7, -7]), tocha.tensor([2, 2])).tolist() == [3, -3]
    assert_close(prims.sum(X, [0, 1]), X.sum())
    assert prims.broadcast_in_dim(X, [3, 2, 8], [0, 2]).stride() == (8, 0, 1)
    assert math.isclose(prims.bessel_i0(tocha.zeros(())).item(), 1.0)
    with pytest.raises(AttributeError):
        prims.no_such_operator  # noqa: B018


@pytest.mark.parametrize("space", ["aten", "prims"])
def test_every_name_is_defined(space):
    for name in composites.names(space):
        assert getattr(getattr(ops, space), name).overloads()


def test_a_convolution_gives_what_is_asked_for():
    grad, w = randn(1, 2, 4, 6), randn(2, 4, 3, 3)

    def f(mask):
        x = PICTURE[:1]
        return aten.convolution_backward(grad, x, w, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1, mask)

    every = f([True, True, True])
    for mask in ([False, True, False], [True, False, True]):
        for found in (f(mask), tocha.compile(f, fullgraph=True)(mask)):
            assert [r is not None for r in found] == mask
            for one, expected in zip(found, every, strict=True):
                if one is not None:
                    assert_close(one, expected)
