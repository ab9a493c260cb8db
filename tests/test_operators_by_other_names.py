"""Operators by PyTorch's own names: cases of others, and gradients that programs call themselves."""

import math
import subprocess
import sys

import pytest

import tocha
from tocha._library import composites
from tocha.nn import functional as F

pytestmark = pytest.mark.usefixtures("kernel_cache")
aten, prims = tocha.ops.aten, tocha.ops.prims


def numbers(*sizes, seed=0):
    return tocha.randn(sizes, generator=tocha.Generator().manual_seed(seed))


X = numbers(2, 3, 5, 6)
ROWS = numbers(6, 4, seed=1)
TARGET = tocha.tensor([0, 3, -100, 1, 2, 3])
CLASS_WEIGHT = tocha.tensor([1.0, 2.0, 0.5, 3.0])
NORMED, SCALE = numbers(4, 6, 5, seed=2), numbers(6, seed=3)


def nll_by_parts(grad, x):
    total = aten.nll_loss_forward(x, TARGET, CLASS_WEIGHT, 1, -100)[1]
    return aten.nll_loss_backward(grad, x, TARGET, CLASS_WEIGHT, 1, -100, total)


def layer_norm_by_parts(grad, x):
    _, mean, rstd = aten.native_layer_norm(x, [5], None, None, 1e-5)
    return aten.native_layer_norm_backward(grad, x, [5], mean, rstd, None, None, [True, False, False])[0]


def group_norm_by_parts(grad, x):
    _, mean, rstd = aten.native_group_norm(x, SCALE, None, 4, 6, 5, 3, 1e-5)
    return aten.native_group_norm_backward(grad, x, mean, rstd, SCALE, 4, 6, 5, 3, [True, True, True])[0]


def batch_norm_by_parts(grad, x):
    _, mean, rstd = aten.native_batch_norm(x, SCALE, None, None, None, True, 0.1, 1e-5)
    return aten.native_batch_norm_backward(grad, x, SCALE, None, None, mean, rstd, True, 1e-5, [True] * 3)[0]


# The gradient by its own name, the function whose gradient it is, and where.
GRADIENTS = {
    "reflection": (lambda g, x: aten.reflection_pad2d_backward(g, x, [1, 2, 0, 1]), lambda x: F.pad(x, (1, 2, 0, 1), "reflect"), X),
    "replication": (lambda g, x: aten.replication_pad2d_backward(g, x, [1, 2, 0, 1]), lambda x: F.pad(x, (1, 2, 0, 1), "replicate"), X),
    "nearest": (lambda g, x: aten.upsample_nearest2d_backward(g, [7, 9], x.shape), lambda x: F.interpolate(x, (7, 9)), X),
    "bilinear": (
        lambda g, x: aten.upsample_bilinear2d_backward(g, [7, 9], x.shape, True),
        lambda x: F.interpolate(x, (7, 9), mode="bilinear", align_corners=True),
        X,
    ),
    "average": (
        lambda g, x: aten.avg_pool2d_backward(g, x, [2, 2], [1, 1], [0, 0], False, True, None),
        lambda x: F.avg_pool2d(x, 2, 1),
        X,
    ),
    "adaptive": (aten._adaptive_avg_pool2d_backward, lambda x: F.adaptive_avg_pool2d(x, (2, 4)), X),
    "maxima": (
        lambda g, x: aten.adaptive_max_pool2d_backward(g, x, F.adaptive_max_pool2d(x, 3, True)[1]),
        lambda x: F.adaptive_max_pool2d(x, 3),
        X,
    ),
    "elu": (lambda g, x: aten.elu_backward(g, 2.0, 1.5, 0.5, False, x), lambda x: aten.elu(x, 2.0, 1.5, 0.5), X),
    "elu of its result": (lambda g, x: aten.elu_backward(g, 2.0, 1, 1, True, F.elu(x, 2.0)), lambda x: F.elu(x, 2.0), X),
    "softplus": (lambda g, x: aten.softplus_backward(g, x, 2, 1), lambda x: F.softplus(x, 2, 1), X),
    "hardswish": (lambda g, x: aten.hardswish_backward(g, x * 1), F.hardswish, X),
    "glu": (lambda g, x: aten.glu_backward(g, x, -1), F.glu, X),
    "loss": (nll_by_parts, lambda x: F.nll_loss(x, TARGET, CLASS_WEIGHT), ROWS),
    "layer norm": (layer_norm_by_parts, lambda x: F.layer_norm(x, (5,)), NORMED),
    "group norm": (group_norm_by_parts, lambda x: F.group_norm(x, 3, SCALE), NORMED),
    "batch norm": (batch_norm_by_parts, lambda x: F.batch_norm(x, None, None, SCALE, training=True), NORMED),
}  # fmt: skip


ROW, PICTURE = numbers(3, 8), numbers(2, 4, 6, 8)
CLASSES = tocha.tensor([2, -100, 0])
# The function, where its gradient is asked for, and the gradient by name.
FURTHER = {
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 3, 2, 1), PICTURE, lambda g, x: aten.avg_pool2d_backward(g, x, [3, 3], [2, 2], [1, 1], False, True, None)),
    "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, (3, 5)), PICTURE, lambda g, x: aten._adaptive_avg_pool2d_backward(g, x)),
    "adaptive_max_pool2d": (lambda x: F.adaptive_max_pool2d(x, 3), PICTURE, lambda g, x: aten.adaptive_max_pool2d_backward(g, x, aten.adaptive_max_pool2d(x, [3, 3])[1])),
    "upsample_bilinear2d": (lambda x: F.interpolate(x, (9, 11), mode="bilinear", align_corners=True), PICTURE, lambda g, x: aten.upsample_bilinear2d_backward(g, [9, 11], [2, 4, 6, 8], True)),
    "upsample_nearest2d": (lambda x: F.interpolate(x, (9, 11)), PICTURE, lambda g, x: aten.upsample_nearest2d_backward(g, [9, 11], [2, 4, 6, 8])),
    "reflection_pad2d": (lambda x: aten.reflection_pad2d(x, [1, 2, 0, 3]), PICTURE, lambda g, x: aten.reflection_pad2d_backward(g, x, [1, 2, 0, 3])),
    "replication_pad1d": (lambda x: F.pad(x, (2, 1), mode="replicate"), ROW, lambda g, x: aten.replication_pad1d_backward(g, x, [2, 1])),
    "nll_loss": (lambda x: F.nll_loss(x, CLASSES, ignore_index=-100), ROW, lambda g, x: aten.nll_loss_backward(g, x, CLASSES, None, 1, -100, tocha.tensor(2.0))),
    "huber_loss": (lambda x: F.huber_loss(x, ROW * 0.1, delta=0.5), ROW, lambda g, x: aten.huber_loss_backward(g, x, ROW * 0.1, 1, 0.5)),
    "elu": (lambda x: F.elu(x, 1.5), ROW, lambda g, x: aten.elu_backward(g, 1.5, 1, 1, False, x)),
    "elu of its result": (lambda x: F.elu(x, 1.5), ROW, lambda g, x: aten.elu_backward(g, 1.5, 1, 1, True, F.elu(x, 1.5))),
    "glu": (lambda x: F.glu(x, 1), ROW, lambda g, x: aten.glu_backward(g, x, 1)),
    "logsigmoid": (F.logsigmoid, ROW, lambda g, x: aten.log_sigmoid_backward(g, x, aten.log_sigmoid_forward(x)[1])),
    "layer_norm": (lambda x: F.layer_norm(x, (8,), ROW[0], ROW[1]), ROW, lambda g, x: aten.native_layer_norm_backward(g, x, [8], *aten.native_layer_norm(x, [8], ROW[0], ROW[1], 1e-5)[1:], ROW[0], ROW[1], [True, True, True])[0]),
    "group_norm": (lambda x: F.group_norm(x, 2), PICTURE, lambda g, x: aten.native_group_norm_backward(g, x, *aten.native_group_norm(x, None, None, 2, 4, 48, 2, 1e-5)[1:], None, 2, 4, 48, 2, [True, False, False])[0]),
    "unfold": (lambda x: x.unfold(1, 3, 2), ROW, lambda g, x: aten.unfold_backward(g, [3, 8], 1, 3, 2)),
    "diagonal": (lambda x: x.diagonal(1), ROW, lambda g, x: aten.diagonal_backward(g, [3, 8], 1, 0, 1)),
}  # fmt: skip
GRADIENTS |= {f"{name}, too": (by_name, function, at) for name, (function, at, by_name) in FURTHER.items()}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_by_their_own_names(name):
    backward, forward, x = GRADIENTS[name]
    x = x.clone().requires_grad_()
    result = forward(x)
    grad = numbers(*result.shape, seed=7)
    (expected,) = tocha.autograd.grad(result, x, grad)
    tocha.testing.assert_close(backward(grad, x.detach()), expected)
    compiled = tocha.compile(backward, fullgraph=True)(grad, x.detach())
    tocha.testing.assert_close(compiled, expected)


def test_cases_by_their_own_names():
    assert tocha.equal(aten.reflection_pad1d(X[0], [2, 1]), F.pad(X[0], (2, 1), "reflect"))
    assert tocha.equal(aten.nll_loss_nd(ROWS, TARGET), F.nll_loss(ROWS, TARGET))
    assert aten.nll_loss_forward(ROWS, TARGET, CLASS_WEIGHT, 2, -100)[1] == 1 + 3 + 2 + 0.5 + 3
    rows = tocha.tensor([[-float("inf"), -float("inf")], [0.0, 0.0]])
    assert aten._safe_softmax(rows, 1).tolist() == [[0, 0], [0.5, 0.5]]
    bags = aten._embedding_bag(ROWS, tocha.tensor([0, 2, 5]), tocha.tensor([0, 2]))
    tocha.testing.assert_close(bags[0], tocha.stack((ROWS[0] + ROWS[2], ROWS[5])))
    assert aten.native_layer_norm_backward.default._schema.arguments[2].name == "normalized_shape"


def test_gradients_flow_through_them():
    x = X.clone().requires_grad_()
    for function in (aten.reflection_pad2d, tocha.compile(lambda x, p: aten.reflection_pad2d(x, p), fullgraph=True)):
        (grad,) = tocha.autograd.grad(function(x, [1, 0, 0, 0]).sum(), x)
        assert grad[0, 0, 0].tolist() == [1, 2, 1, 1, 1, 1]


def test_other_overloads_can_be_named_under_the_alias():
    text = """
import torch
aten = torch.ops.aten
print(aten.reflection_pad2d_backward(torch.ones(1, 3, 4), torch.ones(1, 3, 3), [1, 0, 0, 0]).tolist()[0][0])
print(aten.reflection_pad2d_backward.grad_input._schema.arguments[-1].name)
"""
    ran = subprocess.run(
        [sys.executable, "-m", "tocha", "run", "/dev/stdin"], input=text, capture_output=True, text=True
    )
    assert ran.stdout.splitlines() == ["[1.0, 2.0, 1.0]", "grad_input"], ran.stderr


def test_results_that_are_not_asked_for_are_none():
    stats = aten.native_layer_norm(ROW, [8], None, None, 1e-5)[1:]
    by_input, by_weight, by_bias = aten.native_layer_norm_backward(
        ROW, ROW, [8], *stats, None, None, [False, False, True]
    )
    assert by_input is None
    assert by_weight is None
    tocha.testing.assert_close(by_bias, ROW.sum(0))


def test_graphs_consist_of_the_parts():
    def f(x, n):
        places = prims.iota(n.shape[0], start=0, step=2, dtype=tocha.int64, device=x.device, requires_grad=False)
        pooled = aten.avg_pool2d_backward(
            x, aten.reflection_pad2d(x, [0, 1, 0, 1]), [2, 2], [1, 1], [0, 0], False, True, None
        )
        return pooled * 2, prims.convert_element_type(places, tocha.float32) + n

    compiled = tocha.compile(f, fullgraph=True)
    for n in (3, 4, 5):
        tocha.testing.assert_close(compiled(PICTURE, tocha.ones(n)), f(PICTURE, tocha.ones(n)))
    x = PICTURE.clone().requires_grad_()
    compiled(x, tocha.ones(3))[0].sum().backward()
    assert x.grad is not None


def test_prims_are_found_by_name():
    assert tocha._prims.iota is prims.iota
    assert prims.div(tocha.tensor([7, -7]), tocha.tensor([2, 2])).tolist() == [3, -3]
    tocha.testing.assert_close(prims.sum(ROW, [0, 1]), ROW.sum())
    assert prims.broadcast_in_dim(ROW, [3, 2, 8], [0, 2]).stride() == (8, 0, 1)
    assert math.isclose(prims.bessel_i0(tocha.zeros(())).item(), 1.0)
    with pytest.raises(AttributeError):
        prims.no_such_operator  # noqa: B018


@pytest.mark.parametrize("space", ["aten", "prims"])
def test_every_name_is_defined(space):
    for name in composites.names(space):
        assert getattr(getattr(tocha.ops, space), name).overloads()


def test_a_convolution_gives_what_is_asked_for():
    grad, w = numbers(1, 2, 4, 6), numbers(2, 4, 3, 3)

    def f(mask):
        x = PICTURE[:1]
        return aten.convolution_backward(grad, x, w, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1, mask)

    every = f([True, True, True])
    for mask in ([False, True, False], [True, False, True]):
        for found in (f(mask), tocha.compile(f, fullgraph=True)(mask)):
            assert [r is not None for r in found] == mask
            for one, expected in zip(found, every, strict=True):
                if one is not None:
                    tocha.testing.assert_close(one, expected)
