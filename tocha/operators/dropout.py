"""Dropout and rrelu: random masks applied to activations. tocha.nn.functional wraps them with its defaults."""

from __future__ import annotations

import math

from tocha.ir import dtypes as dt
from tocha.operators.record import composite, gradient, native, op, rule
from tocha.operators.rules import Out

_RANDOM = frozenset({"random"})
_ALPHA = 1.7580993408473766  # -scale * alpha of SELU: what a dropped unit of a self-normalizing network becomes


@rule
def check_dropout(p: "float") -> "none":
    if not (p >= 0 and p <= 1):
        raise RuntimeError(f"[dropout] dropout probability has to be between 0 and 1, but got {p}")


@rule
def drops(input: "Tensor", p: "float", train: "bool") -> "bool":
    """Whether a mask must be drawn."""
    return train and p > 0 and p < 1 and input.numel() > 0


@rule
def feature_mask(input: "Tensor", p: "float") -> "Tensor":
    """1 for the channels that stay, 0 for the others."""
    if input.dim() < 2:
        raise RuntimeError(
            f"[feature_dropout] Feature dropout requires at least 2 dimensions in the input, got {input.shape}"
        )
    sizes = [input.shape[0], input.shape[1]] + [1] * (input.dim() - 2)
    return op.empty(sizes, dtype=input.dtype, device=input.device).bernoulli_(1 - p)


@rule
def self_normalizing(input: "Tensor", mask: "Tensor", p: "float") -> "Tensor":
    """Dropped elements become -alpha, and an affine map restores mean and variance."""
    a = 1 / math.sqrt((_ALPHA * _ALPHA * p + 1) * (1 - p))
    shift = mask.sub(1).mul_(_ALPHA * a).add_(_ALPHA * a * p)
    return input * mask.mul_(a) + shift


@composite(
    "dropout(Tensor input, float p, bool train) -> Tensor",
    variants="function",
    tags=_RANDOM | {"maybe_aliasing_or_mutating"},
)
def dropout(input, p, train):
    """When training, zeroes elements with probability p and scales the others by 1 / (1 - p)."""
    check_dropout(p)
    if train and p == 1:
        return input * False
    if not drops(input, p, train):
        return input
    return input * op.empty_like(input).bernoulli_(1 - p).div_(1 - p)


@composite("dropout_(Tensor self, float p, bool train) -> Tensor", variants="function", tags=_RANDOM)
def dropout_(self, p, train):
    """dropout in place."""
    check_dropout(p)
    if train and p == 1:
        return self.mul_(False)
    if not drops(self, p, train):
        return self
    return self.mul_(op.empty_like(self).bernoulli_(1 - p).div_(1 - p))


@composite(
    "feature_dropout(Tensor input, float p, bool train) -> Tensor",
    variants="function",
    tags=_RANDOM | {"maybe_aliasing_or_mutating"},
)
def feature_dropout(input, p, train):
    """dropout of whole channels: one decision for each place in the first two dims."""
    check_dropout(p)
    if train and p == 1:
        return input * False
    if not drops(input, p, train):
        return input
    return input * feature_mask(input, p).div_(1 - p)


@composite("feature_dropout_(Tensor self, float p, bool train) -> Tensor", variants="function", tags=_RANDOM)
def feature_dropout_(self, p, train):
    """feature_dropout in place."""
    check_dropout(p)
    if train and p == 1:
        return self.mul_(False)
    if not drops(self, p, train):
        return self
    return self.mul_(feature_mask(self, p).div_(1 - p))


@composite(
    "alpha_dropout(Tensor input, float p, bool train) -> Tensor",
    variants="function",
    tags=_RANDOM | {"maybe_aliasing_or_mutating"},
)
def alpha_dropout(input, p, train):
    """dropout for self-normalizing networks: mean and variance stay what they were."""
    check_dropout(p)
    if train and p == 1:
        return input * False
    if not drops(input, p, train):
        return input
    return self_normalizing(input, op.empty_like(input).bernoulli_(1 - p), p)


@composite("alpha_dropout_(Tensor self, float p, bool train) -> Tensor", variants="function", tags=_RANDOM)
def alpha_dropout_(self, p, train):
    """alpha_dropout in place."""
    return self.copy_(op.alpha_dropout(self, p, train))


@composite(
    "feature_alpha_dropout(Tensor input, float p, bool train) -> Tensor",
    variants="function",
    tags=_RANDOM | {"maybe_aliasing_or_mutating"},
)
def feature_alpha_dropout(input, p, train):
    """alpha_dropout of whole channels."""
    check_dropout(p)
    if train and p == 1:
        return input * False
    if not drops(input, p, train):
        return input
    return self_normalizing(input, feature_mask(input, p), p)


@composite("feature_alpha_dropout_(Tensor self, float p, bool train) -> Tensor", variants="function", tags=_RANDOM)
def feature_alpha_dropout_(self, p, train):
    """feature_alpha_dropout in place."""
    return self.copy_(op.feature_alpha_dropout(self, p, train))


@composite(
    "native_dropout(Tensor input, float p, bool? train) -> (Tensor, Tensor)",
    variants="function",
    tags=_RANDOM,
    samples=lambda t: [((t(3, 4), 0.5, True), {}), ((t(3, 4), 0.5, False), {})],
    core=True,
    whole=True,
)
def native_dropout(input, p, train):
    """dropout together with its mask."""
    if train is not None and not train:
        return input.clone(), op.ones_like(input, dtype=dt.bool_)
    mask = op.empty_like(input, dtype=dt.bool_).bernoulli_(1 - p)
    scale = 0.0 if p == 1 else 1 / (1 - p)
    return input.mul(mask).mul_(scale), mask


@composite(
    "native_dropout_backward(Tensor grad_output, Tensor mask, float scale) -> Tensor", variants="function", whole=True
)
def native_dropout_backward(grad_output, mask, scale):
    """The gradient of native_dropout: what went through the mask, scaled."""
    return grad_output * (mask.to(grad_output.dtype) * scale)


@rule
def check_slopes(lower: "Scalar", upper: "Scalar") -> "none":
    if not lower <= upper:
        raise RuntimeError(
            f"[rrelu] Lower bound should be less than or equal to the upper bound, got {lower} and {upper}"
        )


@native(
    "_rrelu_noise(Tensor self, float lower, float upper, Generator? generator=None) -> Tensor",
    algorithm="random",
    variants="",
    tags=frozenset({"random", "no_gradient"}),
)
def _rrelu_noise(self, lower, upper, generator):
    """The slopes of rrelu in training: 1 where self > 0, elsewhere drawn from [lower, upper)."""
    return Out(self.shape, self.dtype)


@composite(
    "_with_slopes(Tensor self, Tensor slopes) -> Tensor",
    variants="inplace",
    aten=(),
    node="RreluWithNoiseBackward0",
    flat=("self",),
)
def _with_slopes(self, slopes):
    """self times the slopes that were drawn for it."""
    return self * slopes


@gradient(_with_slopes, "self")
def with_slopes_gradient(grad, slopes):
    return grad * slopes


@composite(
    "rrelu(Tensor self, Scalar lower=0.125, Scalar upper=0.3333333333333333, bool training=False, Generator? generator=None) -> Tensor",
    node="RreluWithNoiseBackward0",
    variants="function",
    tags=_RANDOM,
    word="rrelu_with_noise_out_cpu",
)
def rrelu(self, lower, upper, training, generator):
    """self where positive, else self times a slope: drawn from [lower, upper) when training, else the middle. Contiguous."""
    check_slopes(lower, upper)
    if not training:
        return op.nn_leaky_relu(self.contiguous(), (lower + upper) / 2)
    return op._with_slopes(self.contiguous(), op._rrelu_noise(self, lower.to_double(), upper.to_double(), generator))


@composite(
    "rrelu_(Tensor self, Scalar lower=0.125, Scalar upper=0.3333333333333333, bool training=False, Generator? generator=None) -> Tensor",
    node="RreluWithNoiseBackward0",
    variants="function",
    tags=_RANDOM,
)
def rrelu_(self, lower, upper, training, generator):
    """rrelu in place."""
    check_slopes(lower, upper)
    if not training:
        return op.nn_leaky_relu_(self, (lower + upper) / 2)
    return op._with_slopes_(self, op._rrelu_noise(self, lower.to_double(), upper.to_double(), generator))
