"""Fake quantization: values as they come back from a quantized tensor, with the gradient of the identity where nothing was cut off.

A level is a whole number between quant_min and quant_max; `zero_point` is that of zero, and `scale` the distance of two.
"""

from __future__ import annotations

from functools import partial

from tocha.ir import dtypes as dt
from tocha.ir import scalar as s
from tocha.operators.record import FLOATS, composite, gradient, op, pointwise, rule
from tocha.operators.rules import asked, computes, ints_of

_STRAIGHT = frozenset({"straight_through"})
kernel = partial(pointwise, dtypes=FLOATS, variants="", expensive=True, tags=frozenset({"no_gradient"}))
layer = partial(composite, variants="function", tags=_STRAIGHT)
cached = partial(composite, variants="", differentiable=(0,), tags=_STRAIGHT)


# -- element by element ------------------------------------------------------------------------------


def between(level, quant_min, quant_max):
    return (level >= quant_min) & (level <= quant_max)


def level_of(x, scale, zero_point):
    """The level that x is nearest to, if there were no end of them. The scale is inverted first, as PyTorch does."""
    return zero_point + s.round(x * s.cast(1 / scale, x.dtype))


def level_after_sum(x, scale, zero_point):
    """The same where the zero point is added before rounding, to a product that is not rounded; it is a float32 that is rounded."""
    sum_ = s.cast(x, dt.float64) * s.cast(1 / scale, dt.float64) + s.cast(zero_point, dt.float64)
    return s.cast(s.round(s.cast(sum_, dt.float32)), x.dtype)


def quantized(x, scale, zero_point, quant_min, quant_max):
    zero, low, high = (s.cast(v, x.dtype) for v in (zero_point, quant_min, quant_max))
    level = level_of(x, scale, zero)
    steps = s.fmin(s.fmax(level, low), high) - zero
    # A product of float32, whatever x is.
    return s.cast(s.cast(steps, dt.float32) * scale, x.dtype), between(level, low, high)


@kernel(
    "_fake_quantized(Tensor self, float scale, int zero_point, int quant_min, int quant_max) -> (Tensor, Tensor)",
    types={"out": ("T", dt.bool_), "params": (dt.float32, dt.int64, dt.int64, dt.int64), "like_self": FLOATS},
)
def _fake_quantized(x, scale, zero_point, quant_min, quant_max):
    """self at the levels, and where it lay between the ends."""
    return quantized(x, scale, zero_point, quant_min, quant_max)


@kernel(
    "_fake_quantized_by(Tensor self, Tensor scale, Tensor zero_point, Tensor enabled, int quant_min, int quant_max) -> (Tensor, Tensor)",
    types={
        "out": ("T", dt.bool_),
        "in": ("T", dt.float32, dt.int64, dt.bool_),
        "params": (dt.int64, dt.int64),
        "like_self": FLOATS,
    },
)
def _fake_quantized_by(x, scale, zero_point, enabled, quant_min, quant_max):
    """_fake_quantized by numbers that tensors hold; self as it is where it is not enabled."""
    out, mask = quantized(x, scale, zero_point, quant_min, quant_max)
    return s.where(enabled, out, x), mask | ~enabled


@kernel(
    "_fake_quantized_channels(Tensor self, Tensor scale, Tensor zero_point, int quant_min, int quant_max, bool whole) -> (Tensor, Tensor)",
    types={
        "out": ("T", dt.bool_),
        "in": ("T", dt.float32, dt.float32),
        "params": (dt.int64, dt.int64, dt.bool_),
        "like_self": FLOATS,
    },
)
def _fake_quantized_channels(x, scale, zero_point, quant_min, quant_max, whole):
    """_fake_quantized by numbers for each channel. Zero points that are no whole numbers are added before rounding."""
    zero = s.cast(zero_point, x.dtype)
    level = s.cast(s.where(whole, level_of(x, scale, zero), level_after_sum(x, scale, zero)), dt.int64)
    kept = s.minimum(s.maximum(level, quant_min), quant_max)
    out = (s.cast(kept, dt.float64) - s.cast(zero_point, dt.float64)) * s.cast(scale, dt.float64)
    return s.cast(out, x.dtype), between(level, quant_min, quant_max)


@pointwise(
    "_fake_quantize_slopes(Tensor grad_output, Tensor self, Tensor scale, Tensor zero_point, int quant_min, int quant_max, float grad_factor) -> (Tensor, Tensor, Tensor)",
    dtypes=FLOATS,
    types={"in": ("T", "T", dt.float32, dt.float32), "params": (dt.int64, dt.int64, dt.float32)},
    variants="",
    expensive=True,
    tags=frozenset({"no_derivative"}),
    underived="aten::_fake_quantize_learnable_per_tensor_affine_backward",
)
def _fake_quantize_slopes(grad, x, scale, zero_point, quant_min, quant_max, grad_factor):
    """For each element what it adds to the gradients of self, of the scale and of the zero point."""
    zero, low, high = (s.cast(v, x.dtype) for v in (zero_point, quant_min, quant_max))
    distance, factor = s.cast(scale, x.dtype), s.cast(grad_factor, x.dtype)
    level = level_after_sum(x, scale, zero)
    inside = between(level, low, high)
    cut_off = s.where(level < low, low, high) - zero
    off_level = ((level - zero) * distance - x) / distance
    none = s.zero_like(grad)
    return (
        s.where(inside, grad, none),
        grad * s.where(inside, off_level, cut_off) * factor,
        s.where(inside, none, grad * -distance * factor),
    )


# -- checks ------------------------------------------------------------------------------------------


@rule
def check_levels(name: "str", quant_min: "int", quant_max: "int") -> "none":
    if quant_min > quant_max:
        raise RuntimeError(
            f"[{name}] `quant_min` should be less than or         equal to `quant_max`. Got {quant_min} and {quant_max}"
        )


@rule
def check_floats(name: "str", called: "str", self: "Tensor") -> "none":
    if not self.is_floating_point() or self.dtype.itemsize == 1:
        raise NotImplementedError(f"[{name}] \"{called}_type_handling\" not implemented for '{self.dtype}'")


@rule
def check_zero_points(name: "str", zero_point: "Tensor", quant_min: "int", quant_max: "int") -> "none":
    """Whole ones must be levels. They are looked at where somebody may look at elements."""
    if zero_point.dtype != dt.int32 or not computes(zero_point) or asked(zero_point):
        return
    for zero in ints_of(zero_point.to(dt.int64)):
        if zero < quant_min or zero > quant_max:
            raise RuntimeError(
                f"[{name}] `zero_point` must be between `quant_min` and `quant_max`. Got {zero}, {quant_min} and {quant_max}"
            )


@rule
def check_channel_levels(
    name: "str", self: "Tensor", scale: "Tensor", zero_point: "Tensor", axis: "int", quant_min: "int", quant_max: "int"
) -> "none":
    if scale.dtype != dt.float32 and scale.dtype != dt.bfloat16:
        raise RuntimeError(f"[{name}] Scale must be Float or BFloat16, found {scale.dtype}")
    if zero_point.dtype != dt.int32 and zero_point.dtype != dt.float32 and zero_point.dtype != dt.float16:
        raise RuntimeError(f"[{name}] Zero-point must be Int32, Float or Half, found {zero_point.dtype}")
    if scale.dim() != 1:
        raise RuntimeError(f"[{name}] scale should be a 1-D tensor, got {scale.shape}")
    if zero_point.dim() != 1:
        raise RuntimeError(f"[{name}] zero point should be a 1-D tensor, got {zero_point.shape}")
    if scale.shape != zero_point.shape:
        raise RuntimeError(
            f"[{name}] scale and zero-point need to have the same dimensions, got {scale.shape} and {zero_point.shape}"
        )
    if scale.numel() != self.size(axis):
        raise RuntimeError(
            f"[{name}] dimensions of scale and zero-point are not consistent with input tensor: {scale.shape} along {axis} of {self.shape}"
        )
    check_levels(name, quant_min, quant_max)
    check_zero_points(name, zero_point, quant_min, quant_max)
    if axis < 0:
        raise RuntimeError(f"[{name}] `axis` must be between 0 and number of dimensions of input, got {axis}")
    check_floats(name, "fake_quantize_channel_cachemask_cpu", self)


@rule
def along(self: "Tensor", values: "Tensor", axis: "int") -> "Tensor":
    """One number per channel, as float32, to be broadcast against self."""
    sizes = [1] * self.dim()
    sizes[axis] = values.numel()
    return values.to(dt.float32).reshape(sizes)


@rule
def single(values: "Tensor") -> "Tensor":
    """The number that a tensor holds."""
    if values.numel() != 1:
        raise RuntimeError(
            f"[fake_quantize_per_tensor_affine] a Tensor with {values.numel()} elements cannot be converted to Scalar"
        )
    return values.reshape([])


# -- one scale for all -------------------------------------------------------------------------------


@cached(
    "fake_quantize_per_tensor_affine_cachemask(Tensor self, float scale, int zero_point, int quant_min, int quant_max) -> (Tensor output, Tensor mask)",
    samples=lambda t: [((t(3, 4), 0.1, 2, -4, 8), {})],
)
def fake_quantize_per_tensor_affine_cachemask(self, scale, zero_point, quant_min, quant_max):
    """fake_quantize_per_tensor_affine, and where self lay between the ends."""
    check_levels("fake_quantize_per_tensor_affine", quant_min, quant_max)
    if zero_point < quant_min or zero_point > quant_max:
        raise RuntimeError(
            f"[fake_quantize_per_tensor_affine] `zero_point` must be between `quant_min` and `quant_max`. Got {zero_point}, {quant_min} and {quant_max}"
        )
    check_floats("fake_quantize_per_tensor_affine", "fake_quantize_tensor_cachemask_kernel", self)
    return op._fake_quantized(self, scale, zero_point, quant_min, quant_max)


@cached(
    "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams(Tensor self, Tensor scale, Tensor zero_point, Tensor fake_quant_enabled, int quant_min, int quant_max) -> (Tensor output, Tensor mask)",
    variants="function",
    constants=("scale", "zero_point"),
    samples=lambda t: [((t(3, 4), t(1).abs() + 0.1, t.of([2]), t.of([1]), -4, 8), {})],
)
def _fake_quantize_per_tensor_affine_cachemask_tensor_qparams(
    self, scale, zero_point, fake_quant_enabled, quant_min, quant_max
):
    """fake_quantize_per_tensor_affine by numbers that tensors hold, and where self lay between the ends; nothing is done where it is not enabled."""
    check_levels("fake_quantize_per_tensor_affine", quant_min, quant_max)
    check_floats("fake_quantize_per_tensor_affine", "fake_quantize_tensor_cachemask_kernel", self)
    by, zero, enabled = single(scale).to(dt.float32), single(zero_point).to(dt.int64), single(fake_quant_enabled)
    return op._fake_quantized_by(self, by, zero, enabled != 0, quant_min, quant_max)


@layer(
    "fake_quantize_per_tensor_affine.tensor_qparams(Tensor self, Tensor scale, Tensor zero_point, int quant_min, int quant_max) -> Tensor",
    samples=lambda t: [((t(3, 4), t(1).abs() + 0.1, t.of([2]), -4, 8), {})],
)
def fake_quantize_per_tensor_affine_tensor_qparams(self, scale, zero_point, quant_min, quant_max):
    """self rounded to the levels of one quantized tensor, which tensors of one element say."""
    enabled = op.ones([1], dtype=dt.bool_, device=self.device)
    return op._fake_quantize_per_tensor_affine_cachemask_tensor_qparams(
        self, scale, zero_point, enabled, quant_min, quant_max
    )[0]


@layer(
    "fake_quantize_per_tensor_affine(Tensor self, float scale, int zero_point, int quant_min, int quant_max) -> Tensor",
    autocast="float32",
    samples=lambda t: [((t(3, 4), 0.1, 2, -4, 8), {})],
)
def fake_quantize_per_tensor_affine(self, scale, zero_point, quant_min, quant_max):
    """self rounded to the levels of one quantized tensor: scale * (clamp(round(self / scale) + zero_point, quant_min, quant_max) - zero_point)."""
    return op.fake_quantize_per_tensor_affine_cachemask(self, scale, zero_point, quant_min, quant_max)[0]


# -- a scale for each channel ------------------------------------------------------------------------


def _per_channel(t):
    return [((t(2, 3, 4), t(3, dtype="float32").abs() + 0.1, t.of([0, 1, 2]).int(), 1, -4, 8), {})]


@cached(
    "fake_quantize_per_channel_affine_cachemask(Tensor self, Tensor scale, Tensor zero_point, int axis, int quant_min, int quant_max) -> (Tensor output, Tensor mask)",
    constants=("scale", "zero_point"),
)
def fake_quantize_per_channel_affine_cachemask(self, scale, zero_point, axis, quant_min, quant_max):
    """fake_quantize_per_channel_affine, and where self lay between the ends."""
    check_channel_levels("fake_quantize_per_channel_affine", self, scale, zero_point, axis, quant_min, quant_max)
    by, zero = along(self, scale, axis), along(self, zero_point, axis)
    return op._fake_quantized_channels(self, by, zero, quant_min, quant_max, zero_point.dtype == dt.int32)


@gradient(fake_quantize_per_tensor_affine_cachemask, "self")
@gradient(_fake_quantize_per_tensor_affine_cachemask_tensor_qparams, "self")
@gradient(fake_quantize_per_channel_affine_cachemask, "self")
def gradient_between_ends(grad, result1):
    return grad * result1


@layer(
    "fake_quantize_per_channel_affine(Tensor self, Tensor scale, Tensor zero_point, int axis, int quant_min, int quant_max) -> Tensor",
    samples=_per_channel,
)
def fake_quantize_per_channel_affine(self, scale, zero_point, axis, quant_min, quant_max):
    """self rounded to the levels of one quantized tensor for each channel along axis."""
    return op.fake_quantize_per_channel_affine_cachemask(self, scale, zero_point, axis, quant_min, quant_max)[0]


# -- the way back ------------------------------------------------------------------------------------


@rule
def through_mask(name: "str", grad: "Tensor", mask: "Tensor") -> "Tensor":
    if mask.dtype != dt.bool_:
        raise RuntimeError(f"[{name}] Expected mask.scalar_type() == ScalarType::Bool to be true, but got {mask.dtype}")
    if mask.numel() != grad.numel():
        raise RuntimeError(
            f"[{name}] `mask` and `dY` are not the same size: `mask` is size {mask.numel()} and `dY` is size {grad.numel()}"
        )
    return grad * mask


@composite("fake_quantize_per_tensor_affine_cachemask_backward(Tensor grad, Tensor mask) -> Tensor", variants="")
def fake_quantize_per_tensor_affine_cachemask_backward(grad, mask):
    """The gradient of self: what arrives where nothing was cut off."""
    return through_mask("fake_quantize_per_tensor_affine_cachemask_backward", grad, mask)


@composite("fake_quantize_per_channel_affine_cachemask_backward(Tensor grad, Tensor mask) -> Tensor", variants="")
def fake_quantize_per_channel_affine_cachemask_backward(grad, mask):
    """The gradient of self: what arrives where nothing was cut off."""
    return through_mask("fake_quantize_per_channel_affine_cachemask_backward", grad, mask)


# -- scales that are learned -------------------------------------------------------------------------


@rule
def whole_zero(zero_point: "Tensor", quant_min: "int", quant_max: "int") -> "Tensor":
    """The levels that zero points stand for."""
    return zero_point.to(dt.float32).round().clamp(quant_min, quant_max)


@layer(
    "_fake_quantize_learnable_per_tensor_affine(Tensor self, Tensor scale, Tensor zero_point, int quant_min, int quant_max, float grad_factor=1.0) -> Tensor",
    node="FakeQuantizeLearnablePerTensorAffineBackward0",
    samples=lambda t: [((t(3, 4), t(1).abs() + 0.1, t(1), -4, 8, 0.5), {})],
)
def _fake_quantize_learnable_per_tensor_affine(self, scale, zero_point, quant_min, quant_max, grad_factor):
    """fake_quantize_per_tensor_affine, with gradients of the scale and of the zero point that are grad_factor of the true ones."""
    check_levels("_fake_quantize_learnable_per_tensor_affine", quant_min, quant_max)
    check_floats("_fake_quantize_learnable_per_tensor_affine", "fake_quantize_tensor_cachemask_kernel", self)
    zero = whole_zero(zero_point.select(0, 0), quant_min, quant_max).to(dt.int64)
    enabled = op.ones([], dtype=dt.bool_, device=self.device)
    return op._fake_quantized_by(self, scale.select(0, 0).to(dt.float32), zero, enabled, quant_min, quant_max)[0]


@composite(
    "_fake_quantize_learnable_per_tensor_affine_backward(Tensor grad, Tensor self, Tensor scale, Tensor zero_point, int quant_min, int quant_max, float grad_factor=1.0) -> (Tensor, Tensor, Tensor)",
    variants="",
)
def _fake_quantize_learnable_per_tensor_affine_backward(
    grad, self, scale, zero_point, quant_min, quant_max, grad_factor
):
    """The gradients of self, of the scale and of the zero point, whose halves are rounded up here."""
    zero = (zero_point.select(0, 0).to(dt.float32) + 0.5).floor().clamp(quant_min, quant_max)
    by = scale.select(0, 0).to(dt.float32)
    to_self, to_scale, to_zero = op._fake_quantize_slopes(grad, self, by, zero, quant_min, quant_max, grad_factor)
    return to_self, to_scale.sum().reshape([1]), to_zero.sum().reshape([1])


@gradient(_fake_quantize_learnable_per_tensor_affine, "self", "scale", "zero_point")
def learnable_per_tensor_gradient(grad, self, scale, zero_point, quant_min, quant_max, grad_factor):
    to_self, to_scale, to_zero = op._fake_quantize_learnable_per_tensor_affine_backward(
        grad, self, scale, zero_point, quant_min, quant_max, grad_factor
    )
    return to_self, to_scale, to_zero


@layer(
    "_fake_quantize_learnable_per_channel_affine(Tensor self, Tensor scale, Tensor zero_point, int axis, int quant_min, int quant_max, float grad_factor=1.0) -> Tensor",
    node="FakeQuantizeLearnablePerChannelAffineBackward0",
    samples=lambda t: [((t(2, 3), t(3, dtype="float32").abs() + 0.1, t(3, dtype="float32"), 1, -4, 8, 0.5), {})],
)
def _fake_quantize_learnable_per_channel_affine(self, scale, zero_point, axis, quant_min, quant_max, grad_factor):
    """fake_quantize_per_channel_affine, with gradients of the scales and of the zero points that are grad_factor of the true ones."""
    zero = whole_zero(zero_point, quant_min, quant_max)
    check_channel_levels(
        "_fake_quantize_learnable_per_channel_affine", self, scale, zero.to(dt.int32), axis, quant_min, quant_max
    )
    by = along(self, scale, axis)
    return op._fake_quantized_channels(self, by, along(self, zero, axis), quant_min, quant_max, True)[0]


@composite(
    "_fake_quantize_learnable_per_channel_affine_backward(Tensor grad, Tensor self, Tensor scale, Tensor zero_point, int axis, int quant_min, int quant_max, float grad_factor=1.0) -> (Tensor, Tensor, Tensor)",
    variants="",
)
def _fake_quantize_learnable_per_channel_affine_backward(
    grad, self, scale, zero_point, axis, quant_min, quant_max, grad_factor
):
    """The gradients of self, of the scales and of the zero points."""
    zero = along(self, whole_zero(zero_point, quant_min, quant_max), axis)
    by = along(self, scale, axis)
    to_self, to_scale, to_zero = op._fake_quantize_slopes(grad, self, by, zero, quant_min, quant_max, grad_factor)
    others = [d for d in range(self.dim()) if d != axis]
    if len(others) == 0:
        return to_self, to_scale, to_zero
    return to_self, to_scale.sum(others), to_zero.sum(others)


@gradient(_fake_quantize_learnable_per_channel_affine, "self", "scale", "zero_point")
def learnable_per_channel_gradient(grad, self, scale, zero_point, axis, quant_min, quant_max, grad_factor):
    to_self, to_scale, to_zero = op._fake_quantize_learnable_per_channel_affine_backward(
        grad, self, scale, zero_point, axis, quant_min, quant_max, grad_factor
    )
    return to_self, to_scale, to_zero
