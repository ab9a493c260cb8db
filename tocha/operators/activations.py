"""Activations of neural networks. nn/functional.py gives those that PyTorch offers with `inplace=` that argument."""

from __future__ import annotations

import math
from functools import partial

from tocha.ir import dtypes as dt
from tocha.ir import scalar as s
from tocha.operators.blend import largest
from tocha.operators.record import BOOL, COMPLEX, FLOATS, NUMERIC, composite, gradient, op, pointwise
from tocha.operators.rules import c_name, refuse_dtype, wrap_dim

FUNCTION = "function, inplace, out"
SELU_ALPHA, SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946
activation = partial(pointwise, dtypes=FLOATS, variants=FUNCTION, expensive=True)
cheap = partial(pointwise, dtypes=FLOATS, variants=FUNCTION)

# Piecewise linear


@cheap(
    "relu(Tensor self) -> Tensor",
    dtypes=NUMERIC,
    types={
        "refused": {
            BOOL: RuntimeError("Boolean inputs not supported for relu"),
            COMPLEX: NotImplementedError("clamp is not supported for complex types"),
        }
    },
    variants="function, method, inplace",
    tags=frozenset({"direct_half"}),
    core=True,
    word="clamp_min_scalar_cpu",
)
def relu(x):
    """self where it is positive, else 0."""
    return s.relu(x)


@pointwise(
    "threshold_backward(Tensor grad_output, Tensor self, Scalar threshold) -> Tensor", dtypes=NUMERIC, variants=""
)
def threshold_backward(grad, x, threshold):
    """The gradient of threshold, and of relu: grad where self is above the threshold, else 0."""
    return s.where(x <= threshold, 0, grad)


@cheap("nn_leaky_relu(Tensor self, Scalar negative_slope=0.01) -> Tensor", core=True)
def leaky_relu(x, negative_slope):
    """self where it is positive, else negative_slope * self."""
    return s.where(x > 0, x, x * negative_slope)


@composite(
    "leaky_relu_backward(Tensor grad_output, Tensor self, Scalar negative_slope, bool self_is_result) -> Tensor",
    variants="",
    whole=True,
)
def leaky_relu_backward(grad_output, self, negative_slope, self_is_result):
    """The gradient of leaky_relu; `self_is_result`: from its result, whose sign is the same."""
    return op.where(self > 0, grad_output, grad_output * negative_slope)


def check_hardtanh(self, min_val, max_val):
    if min_val > max_val:
        raise ValueError(f"[hardtanh] min_val cannot be greater than max_val: got {min_val} and {max_val}")
    if self.dtype == dt.bool_:
        raise RuntimeError("[hardtanh] Bool inputs not supported for hardtanh")
    if self.dtype == dt.uint8 and (min_val < 0 or max_val < 0):
        raise RuntimeError(
            f"[hardtanh] cannot do hardtanh on an unsigned type with negative limits: {min_val} and {max_val}"
        )


_CLAMPED = {COMPLEX: NotImplementedError("clamp is not supported for complex types")}


@cheap(
    "nn_hardtanh(Tensor self, Scalar min_val=-1, Scalar max_val=1) -> Tensor",
    dtypes=NUMERIC,
    types={"check": check_hardtanh, "like_self": NUMERIC, "refused": _CLAMPED},
    core=True,
    word="clamp_scalar_cpu",
)
def hardtanh(x, min_val, max_val):
    """self kept within [min_val, max_val]."""
    return s.clamp(x, min_val, max_val)


# Where a bound is met the gradient is 0, unlike clamp's.


@gradient(hardtanh, "self")
def hardtanh_gradient(grad, self, min_val, max_val):
    return s.where((self <= min_val) | (self >= max_val), s.zero_like(grad), grad)


@cheap(
    "nn_relu6(Tensor self) -> Tensor",
    node="HardtanhBackward0",
    dtypes=NUMERIC,
    types={"like_self": NUMERIC, "refused": {**_CLAMPED, BOOL: RuntimeError("Bool inputs not supported for hardtanh")}},
    variants="function, inplace",
    word="clamp_scalar_cpu",
)
def relu6(x):
    """self kept within [0, 6]."""
    return s.clamp(x, 0, 6)


@gradient(relu6, "self")
def relu6_gradient(grad, self):
    return s.where((self <= 0) | (self >= 6), s.zero_like(grad), grad)


@cheap(
    "threshold(Tensor self, Scalar threshold, Scalar value) -> Tensor",
    dtypes=NUMERIC,
    types={"params": ("rounded", "rounded")},
)
def threshold(x, threshold, value):
    """self where it is above the threshold, else value."""
    return s.where(x <= threshold, value, x)


@cheap("nn_hardsigmoid(Tensor self) -> Tensor")
def hardsigmoid(x):
    """sigmoid as three lines: (self + 3) / 6 kept within [0, 1]."""
    return s.clamp(x + 3, 0, 6) / 6


@gradient(hardsigmoid, "self")
def hardsigmoid_gradient(grad, self):
    sixth = 0.1666666716337204  # a float32's, in PyTorch for every dtype
    return s.where((self > -3) & (self < 3), grad * sixth, s.zero_like(grad))


@cheap("nn_hardswish(Tensor self) -> Tensor")
def hardswish(x):
    """self * hardsigmoid(self)."""
    return x * s.clamp(x + 3, 0, 6) / 6


@gradient(hardswish, "self")
def hardswish_gradient(grad, self):
    inside = s.where(
        (self > -3) & (self < 3), grad, s.zero_like(grad)
    )  # an infinite one must not meet the 0 of the ends
    return s.where(self <= -3, s.zero_like(grad), s.where(self < 3, inside * (self / 3 + 0.5), grad))


@cheap(
    "hardshrink(Tensor self, Scalar lambd=0.5) -> Tensor",
    types={"out_words": "Found dtype {out} but expected {result}", "params": ("rounded",)},
    variants="function, method, out",
)
def hardshrink(x, lambd):
    """0 within [-lambd, lambd], else self."""
    return s.where((x >= -lambd) & (x <= lambd), s.zero_like(x), x)


@gradient(hardshrink, "self")
def hardshrink_gradient(grad, self, lambd):
    return s.where((self >= -lambd) & (self <= lambd), s.zero_like(grad), grad)  # a NaN lets grad pass


def check_softshrink(self, lambd):
    if not lambd >= 0:
        raise RuntimeError(
            f"[softshrink] lambda must be in range [0, {largest(self.dtype)}] for input dtype {self.dtype}, but found {lambd}"
        )


@cheap(
    "nn_softshrink(Tensor self, Scalar lambd=0.5) -> Tensor",
    types={"check": check_softshrink, "out_words": "Found dtype {out} but expected {result}"},
    variants="function, out",
    word="softshrink_check",
)
def softshrink(x, lambd):
    """self moved toward 0 by lambd, and 0 within [-lambd, lambd]."""
    # The product keeps a NaN.
    return s.where(x > lambd, x - lambd, s.where(x < -lambd, x + lambd, x * 0))


@gradient(softshrink, "self")
def softshrink_gradient(grad, self, lambd):
    return hardshrink_gradient(grad, self, lambd)


@pointwise(
    "_prelu(Tensor self, Tensor weight) -> Tensor", node="PreluKernelBackward0", dtypes=FLOATS, variants="function"
)
def prelu_with(x, weight):
    """self where it is positive, else weight * self."""
    return s.where(x > 0, x, weight * x)


@composite(
    "prelu(Tensor self, Tensor weight) -> Tensor",
    autocast="lower",
    samples=lambda t: [((t(3, 4, low=-1), t(1)), {}), ((t(2, 3, 4, low=-1), t(3)), {})],
)
def prelu(self, weight):
    """leaky_relu with a slope for all or one slope per channel, dim 1."""
    if self.dtype != weight.dtype:
        raise RuntimeError(
            f"[prelu] prelu: Type promoting not supported. Got {c_name(self.dtype)} and {c_name(weight.dtype)}"
        )
    if weight.ndim > 1:
        raise RuntimeError(
            f"[prelu] prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {weight.ndim}"
        )
    if weight.numel() == 1:
        return op._prelu(self, weight.reshape([1] * self.ndim))
    if self.ndim == 0:
        raise RuntimeError("[prelu] Not allow zero-dim input tensor.")
    channels = self.shape[1] if self.ndim > 1 else 1
    if weight.numel() != channels:
        raise RuntimeError(
            f"[prelu] Mismatch of parameter numbers and input channel size. Found parameter numbers = {weight.numel()} and channel size = {channels}."
        )
    return op._prelu(self, weight.reshape([1, channels, *([1] * (self.ndim - 2))]))


# Smooth


@activation("nn_elu(Tensor self, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1) -> Tensor", core=True)
def elu(x, alpha, scale, input_scale):
    """self where it is positive, else alpha * (exp(self) - 1)."""
    return s.where(x > 0, x * scale, s.expm1(x * input_scale) * (alpha * scale))


def exp_below(x, scaled):
    """exp(scaled) where x is negative, and 1 elsewhere: it must not overflow where it is not asked for."""
    return s.exp(s.where(x >= 0, s.zero_like(x), scaled))


@gradient(elu, "self")
def elu_gradient(grad, self, alpha, scale, input_scale):
    below = grad * (input_scale * (alpha * scale)) * exp_below(self, self * input_scale)
    return s.where(self <= 0, below, grad * scale)  # so that a NaN lets grad pass, as in its kin


@activation("selu(Tensor self) -> Tensor", node="EluBackward0", variants="function, inplace", word="elu_cpu")
def selu(x):
    """elu scaled so that layers keep mean 0 and variance 1."""
    return s.where(x > 0, x * SELU_SCALE, s.expm1(x) * (SELU_ALPHA * SELU_SCALE))


@gradient(selu, "self")
def selu_gradient(grad, self):
    below = grad * (SELU_ALPHA * SELU_SCALE) * exp_below(self, self)
    return s.where(self <= 0, below, grad * SELU_SCALE)


def check_celu(alpha):
    if alpha == 0:
        raise RuntimeError("[celu] ZeroDivisionError: alpha cannot be 0 for CELU")


@activation(
    "celu(Tensor self, Scalar alpha=1.0) -> Tensor",
    types={"check": check_celu},
    variants="function, inplace",
    word="elu_cpu",
)
def celu(x, alpha):
    """self where it is positive, else alpha * (exp(self / alpha) - 1)."""
    return s.where(x > 0, x, alpha * s.expm1(x / alpha))


@gradient(celu, "self")
def celu_gradient(grad, self, alpha):
    return s.where(self <= 0, grad * exp_below(self, self / alpha), grad)


@activation("_gelu(Tensor self) -> Tensor", variants="function", word="GeluKernelImpl")
def gelu_exact(x):
    """self * ndtr(self)."""
    return s.gelu(x)


@gradient(gelu_exact, "self")
def gelu_gradient(grad, self):
    below = 0.5 * (1 + s.erf(self * math.sqrt(0.5)))
    return grad * (below + self * (s.exp(self * self * -0.5) * (1 / math.sqrt(2 * math.pi))))


@activation("_gelu_tanh(Tensor self) -> Tensor", node="GeluBackward0", variants="function")
def gelu_tanh(x):
    """gelu with the distribution function approximated by tanh."""
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * (x * x * x))
    return 0.5 * x * (1 + s.tanh(inner))


@gradient(gelu_tanh, "self")
def gelu_tanh_gradient(grad, self):
    t = s.tanh(math.sqrt(2 / math.pi) * (self + 0.044715 * (self * self * self)))
    slope = math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * (self * self))
    return grad * (0.5 * (1 + t) + 0.5 * self * (1 - t * t) * slope)


@composite(
    "nn_gelu(Tensor self, *, str approximate='none') -> Tensor",
    variants=FUNCTION,
    core=True,
    tags=frozenset({"pointwise"}),
    whole=True,
    types={"out_words": "Found dtype {out} but expected {result}"},
)
def gelu(self, approximate):
    """self times the probability that a normal variable is below it."""
    if approximate == "tanh":
        return op._gelu_tanh(self)
    if approximate != "none":
        raise RuntimeError(f"[gelu] approximate argument must be either none or tanh. Got '{approximate}'")
    return op._gelu(self)


@composite(
    "gelu_backward(Tensor grad_output, Tensor self, *, str approximate='none') -> Tensor",
    variants="",
    whole=True,
    tags=frozenset({"pointwise"}),
)
def gelu_backward(grad_output, self, approximate):
    """The gradient of gelu."""
    if approximate == "tanh":
        inner = (self + self * self * self * 0.044715) * math.sqrt(2 / math.pi)
        t = op.tanh(inner)
        slope = (self * self * (3 * 0.044715) + 1) * math.sqrt(2 / math.pi)
        return grad_output * ((t + 1) * 0.5 + self * (1 - t * t) * slope * 0.5)
    below = (op.erf(self * math.sqrt(0.5)) + 1) * 0.5
    density = op.exp(self * self * -0.5) * (1 / math.sqrt(2 * math.pi))
    return grad_output * (below + self * density)


@activation("nn_silu(Tensor self) -> Tensor", dtypes=(*FLOATS, *COMPLEX))
def silu(x):
    """self * sigmoid(self)."""
    return x * s.sigmoid(x)


@gradient(silu, "self")
def silu_gradient(grad, self):
    y = s.sigmoid(self)
    return grad * s.conjugate(y * (1 + self * (1 - y)))  # grad once: what is infinite would become NaN at 0


@pointwise(
    "silu_backward(Tensor grad_output, Tensor self) -> Tensor", dtypes=(*FLOATS, *COMPLEX), variants="", expensive=True
)
def silu_backward(grad, x):
    """The gradient of silu."""
    y = s.sigmoid(x)
    return grad * s.conjugate(y * (1 + x * (1 - y)))


@activation("nn_mish(Tensor self) -> Tensor")
def mish(x):
    """self * tanh(softplus(self))."""
    return x * s.tanh(soft_maximum(x))


@gradient(mish, "self")
def mish_gradient(grad, self):
    rise = s.tanh(soft_maximum(self))
    return grad * (rise + self * s.sigmoid(self) * (1 - rise * rise))


def soft_maximum(x):
    """log(1 + exp(x)) without overflow."""
    return s.maximum(x, s.zero_like(x)) + s.log1p(s.exp(-s.abs(x)))


@activation(
    "nn_softplus(Tensor self, Scalar beta=1, Scalar threshold=20) -> Tensor",
    variants="function, out",
    types={"out_words": "Found dtype {out} but expected {result}"},
)
def softplus(x, beta, threshold):
    """log(1 + exp(beta * self)) / beta; self itself where beta * self is above the threshold."""
    scaled = x * beta
    return s.where(scaled > threshold, x, s.log1p(s.exp(scaled)) / beta)


@gradient(softplus, "self")
def softplus_gradient(grad, self, beta, threshold):
    scaled = self * beta
    return s.where(scaled > threshold, grad, grad * s.sigmoid(scaled))


@activation(
    "_logsigmoid(Tensor self) -> Tensor", node="LogSigmoidBackward0", variants="function", word="log_sigmoid_cpu"
)
def logsigmoid_formula(x):
    """log(sigmoid(self))."""
    return -soft_maximum(-x)


@gradient(logsigmoid_formula, "self")
def logsigmoid_gradient(grad, self):
    return grad * s.sigmoid(-self)


@composite(
    "nn_logsigmoid(Tensor self) -> Tensor",
    variants="function, out",
    aliases=("log_sigmoid",),
    types={"out_words": "expected scalar type {result} but found {out}"},
)
def logsigmoid(self):
    """log(sigmoid(self)); contiguous."""
    return op._logsigmoid(self.contiguous())


@composite("nn_softsign(Tensor self) -> Tensor", variants="function")
def softsign(self):
    """self / (1 + abs(self))."""
    return self / (op.abs(self) + 1)


@composite("nn_tanhshrink(Tensor self) -> Tensor", variants="function")
def tanhshrink(self):
    """self - tanh(self)."""
    return self - op.tanh(self)


@composite("nn_glu(Tensor self, int dim=-1) -> Tensor", node="GluBackward0", variants="function, out", whole=True)
def glu(self, dim):
    """The first half of self along dim, times the sigmoid of the second."""
    if self.ndim == 0:
        raise RuntimeError("[glu] glu does not support 0-dimensional tensors")
    d = wrap_dim(dim, self.ndim)
    half = self.shape[d] // 2
    if self.shape[d] % 2 != 0:
        raise RuntimeError(f"[glu] Halving dimension must be even, but dimension {d} is size {self.shape[d]}")
    if not self.is_floating_point():
        refuse_dtype("glu", self.dtype)
    return self.narrow(d, 0, half) * op.sigmoid(self.narrow(d, half, half))
