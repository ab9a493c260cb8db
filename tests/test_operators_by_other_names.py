"""Operators by PyTorch's own names: cases of others, and gradients that programs call themselves."""

import subprocess
import sys

import pytest

import tocha
from tocha.nn import functional as F

pytestmark = pytest.mark.usefixtures("kernel_cache")
aten = tocha.ops.aten


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
