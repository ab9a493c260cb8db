"""Gradients of formulas that are operators of their own, because PyTorch's second derivatives are not what the formulas give.

Each is the gradient's formula as a record, with its derivative by self beside it: one product, whose factors may be infinite or NaN;
or zeros, of functions that are piecewise linear: PyTorch's gradient hangs on self all the same, and can be differentiated.
Recording finds the record by its formula (`gradient_as_operator` in derived.py).
"""

from __future__ import annotations

import math
from functools import partial

from tocha.ir import scalar as s
from tocha.operators.activations import (
    celu_gradient,
    elu_gradient,
    gelu_gradient,
    gelu_tanh_gradient,
    hardshrink_gradient,
    hardsigmoid_gradient,
    hardtanh_gradient,
    logsigmoid_gradient,
    relu6_gradient,
    selu_gradient,
    softplus_gradient,
    threshold_backward,
)
from tocha.operators.losses import huber_error_gradient, smooth_error_gradient
from tocha.operators.record import FLOATS, gradient, pointwise

slope = partial(pointwise, dtypes=FLOATS, variants="", expensive=True, aten=())


def indicator(condition, like):
    """1 where the condition holds, else 0: a factor, unlike a choice, keeps what is not a number."""
    return s.where(condition, s.constant(1, like.dtype), s.zero_like(like))


@slope("_elu_slope(Tensor grad_output, Tensor self, Scalar alpha, Scalar scale, Scalar input_scale) -> Tensor")
def elu_slope(grad, x, alpha, scale, input_scale):
    """The gradient of elu."""
    return elu_gradient(grad, x, alpha, scale, input_scale)


@gradient(elu_slope, "self")
def elu_slope_gradient(grad, grad_output, self, alpha, scale, input_scale):
    below = elu_gradient(grad_output, self, alpha, scale, input_scale) * input_scale
    return grad * below * indicator(self < 0, self)


@slope("_selu_slope(Tensor grad_output, Tensor self) -> Tensor")
def selu_slope(grad, x):
    """The gradient of selu."""
    return selu_gradient(grad, x)


@gradient(selu_slope, "self")
def selu_slope_gradient(grad, grad_output, self):
    return grad * selu_gradient(grad_output, self) * indicator(self < 0, self)


@slope("_celu_slope(Tensor grad_output, Tensor self, Scalar alpha) -> Tensor")
def celu_slope(grad, x, alpha):
    """The gradient of celu."""
    return celu_gradient(grad, x, alpha)


@gradient(celu_slope, "self")
def celu_slope_gradient(grad, grad_output, self, alpha):
    return grad * celu_gradient(grad_output, self, alpha) / alpha * indicator(self < 0, self)


@slope("_gelu_slope(Tensor grad_output, Tensor self) -> Tensor")
def gelu_slope(grad, x):
    """The gradient of gelu."""
    return gelu_gradient(grad, x)


@gradient(gelu_slope, "self")
def gelu_slope_gradient(grad, grad_output, self):
    density = s.exp(self * self * -0.5) * (1 / math.sqrt(2 * math.pi))
    return grad * grad_output * (density * (2 - self * self))


@slope("_gelu_tanh_slope(Tensor grad_output, Tensor self) -> Tensor")
def gelu_tanh_slope(grad, x):
    """The gradient of gelu's approximation by tanh."""
    return gelu_tanh_gradient(grad, x)


@gradient(gelu_tanh_slope, "self")
def gelu_tanh_slope_gradient(grad, grad_output, self):
    scale = math.sqrt(2 / math.pi)
    t = s.tanh(scale * (self + 0.044715 * (self * self * self)))
    inner = scale * (1 + 3 * 0.044715 * (self * self))
    bend = inner * (1 - self * t * inner) + scale * (3 * 0.044715) * (self * self)
    return grad * grad_output * ((1 - t * t) * bend)


@slope("_softplus_slope(Tensor grad_output, Tensor self, Scalar beta, Scalar threshold) -> Tensor")
def softplus_slope(grad, x, beta, threshold):
    """The gradient of softplus."""
    return softplus_gradient(grad, x, beta, threshold)


@gradient(softplus_slope, "self")
def softplus_slope_gradient(grad, grad_output, self, beta, threshold):
    y = s.sigmoid(self * beta)
    # At the threshold the slope is that of the curve, but it changes no more.
    return grad * grad_output * ((1 - y) * y) * indicator(self * beta < threshold, self) * beta


@slope("_logsigmoid_slope(Tensor grad_output, Tensor self) -> Tensor")
def logsigmoid_slope(grad, x):
    """The gradient of logsigmoid."""
    return logsigmoid_gradient(grad, x)


@gradient(logsigmoid_slope, "self")
def logsigmoid_slope_gradient(grad, grad_output, self):
    y = s.sigmoid(self)
    return -grad * grad_output * ((1 - y) * y)


def within(grad, grad_output, error, bound):
    """The derivative of what is linear within the bounds and constant beyond."""
    return grad * grad_output * indicator(s.abs(error) < bound, error)


@slope("_smooth_slope(Tensor grad_output, Tensor self, Tensor target, float beta) -> Tensor", expensive=False)
def smooth_slope(grad, x, y, beta):
    """The gradient of smooth_l1_loss, element by element."""
    return smooth_error_gradient(grad, x, y, beta)


@gradient(smooth_slope, "self")
def smooth_slope_gradient(grad, grad_output, self, target, beta):
    return within(grad, grad_output, self - target, beta) / beta


@gradient(smooth_slope, "target")
def smooth_slope_target_gradient(grad, grad_output, self, target, beta):
    return -within(grad, grad_output, self - target, beta) / beta


@slope("_huber_slope(Tensor grad_output, Tensor self, Tensor target, float delta) -> Tensor", expensive=False)
def huber_slope(grad, x, y, delta):
    """The gradient of huber_loss, element by element."""
    return huber_error_gradient(grad, x, y, delta)


@gradient(huber_slope, "self")
def huber_slope_gradient(grad, grad_output, self, target, delta):
    return within(grad, grad_output, self - target, delta)


@gradient(huber_slope, "target")
def huber_slope_target_gradient(grad, grad_output, self, target, delta):
    return -within(grad, grad_output, self - target, delta)


# Piecewise linear


flat = partial(slope, expensive=False)


@flat("_hardsigmoid_slope(Tensor grad_output, Tensor self) -> Tensor", node="HardsigmoidBackwardBackward0")
def hardsigmoid_slope(grad, x):
    """The gradient of hardsigmoid."""
    return hardsigmoid_gradient(grad, x)


@flat("_relu_slope(Tensor grad_output, Tensor output) -> Tensor", node="ThresholdBackwardBackward0")
def relu_slope(grad, y):
    """The gradient of relu."""
    return s.where(y <= 0, 0, grad)


@flat(
    "_leaky_relu_slope(Tensor grad_output, Tensor self, Scalar negative_slope) -> Tensor",
    node="LeakyReluBackwardBackward0",
)
def leaky_relu_slope(grad, x, negative_slope):
    """The gradient of leaky_relu."""
    return s.where(x > 0, grad, grad * negative_slope)


@flat(
    "_hardtanh_slope(Tensor grad_output, Tensor self, Scalar min_val, Scalar max_val) -> Tensor",
    node="HardtanhBackwardBackward0",
)
def hardtanh_slope(grad, x, min_val, max_val):
    """The gradient of hardtanh."""
    return hardtanh_gradient(grad, x, min_val, max_val)


@flat("_relu6_slope(Tensor grad_output, Tensor self) -> Tensor", node="HardtanhBackwardBackward0")
def relu6_slope(grad, x):
    """The gradient of relu6."""
    return relu6_gradient(grad, x)


@flat(
    "_shrink_slope(Tensor grad_output, Tensor self, Scalar lambd) -> Tensor",
    node="HardshrinkBackwardBackward0",
)
def shrink_slope(grad, x, lambd):
    """The gradient of hardshrink, and of softshrink."""
    return hardshrink_gradient(grad, x, lambd)


@flat("_prelu_slope(Tensor grad_output, Tensor self, Tensor weight) -> Tensor", node="PreluKernelBackwardBackward0")
def prelu_slope(grad, x, weight):
    """The gradient of prelu by self."""
    return s.where(x > 0, grad, grad * weight)


@gradient(threshold_backward, "self")
@gradient(hardsigmoid_slope, "self")
@gradient(relu_slope, "output")
@gradient(leaky_relu_slope, "self")
@gradient(hardtanh_slope, "self")
@gradient(relu6_slope, "self")
@gradient(shrink_slope, "self")
@gradient(prelu_slope, "self")
def flat_gradient(grad):
    return s.zero_like(grad)
