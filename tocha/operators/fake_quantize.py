"""Fake quantization: values rounded to the grid of a quantized dtype, with the gradient of the identity inside its range."""

from __future__ import annotations

from tocha.ir import dtypes as dt
from tocha.ir import scalar as s
from tocha.operators.record import FLOATS, composite, gradient, op, pointwise, rule
from tocha.operators.rules import wrap_dim


def on_grid(x, scale, zero_point):
    """The number of the step that x is nearest to."""
    return s.round(x * (1 / s.cast(scale, x.dtype))) + s.cast(zero_point, x.dtype)


@pointwise(
    "_fake_quantize(Tensor self, Tensor scale, Tensor zero_point, float quant_min, float quant_max) -> Tensor",
    dtypes=FLOATS,
    types={"in": ("T", dt.float32, dt.float32)},
    variants="",
    constants=("scale", "zero_point"),
    samples=lambda t: [((t(2, 3), t(3, dtype="float32"), t(3, dtype="float32"), -4.0, 4.0), {})],
)
def _fake_quantize(x, scale, zero_point, quant_min, quant_max):
    """(the nearest of quant_min..quant_max steps, less zero_point) * scale."""
    step = s.fmin(s.fmax(on_grid(x, scale, zero_point), quant_min), quant_max)
    return (step - s.cast(zero_point, x.dtype)) * s.cast(scale, x.dtype)


@gradient(_fake_quantize, "self")
def fake_quantize_gradient(grad, self, scale, zero_point, quant_min, quant_max):
    step = on_grid(self, scale, zero_point)
    return s.where((step >= quant_min) & (step <= quant_max), grad, s.zero_like(grad))


@rule
def check_range_of_steps(name: "str", quant_min: "int", quant_max: "int") -> "none":
    if quant_min > quant_max:
        raise RuntimeError(
            f"[{name}] `quant_min` should be less than or         equal to `quant_max`.: got {quant_min} and {quant_max}"
        )


@composite(
    "fake_quantize_per_tensor_affine(Tensor self, float scale, int zero_point, int quant_min, int quant_max) -> Tensor",
    variants="function",
    node="FakeQuantizePerTensorAffineCachemaskBackward0",
    samples=lambda t: [((t(2, 3), 0.1, 1, -4, 4), {})],
)
def fake_quantize_per_tensor_affine(self, scale, zero_point, quant_min, quant_max):
    """self rounded to the multiples of scale that quant_min..quant_max stand for."""
    check_range_of_steps("fake_quantize_per_tensor_affine", quant_min, quant_max)
    if zero_point < quant_min or zero_point > quant_max:
        raise RuntimeError(
            f"[fake_quantize_per_tensor_affine] `zero_point` must be between `quant_min` and `quant_max`.: got {zero_point}"
        )
    step = op.full([], scale, dtype=dt.float32, device=self.device)
    zero = op.full([], zero_point, dtype=dt.float32, device=self.device)
    return op._fake_quantize(self, step, zero, float(quant_min), float(quant_max))


@composite(
    "fake_quantize_per_tensor_affine.tensor_qparams(Tensor self, Tensor scale, Tensor zero_point, int quant_min, int quant_max) -> Tensor",
    variants="function",
    node="FakeQuantizePerTensorAffineCachemaskTensorQparamsBackward0",
    samples=lambda t: [((t(2, 3), t(1, dtype="float32"), t.of([1]), -4, 4), {})],
)
def fake_quantize_per_tensor_affine_tensor_qparams(self, scale, zero_point, quant_min, quant_max):
    """The same with tensors of one element."""
    check_range_of_steps("fake_quantize_per_tensor_affine", quant_min, quant_max)
    if scale.numel() != 1 or zero_point.numel() != 1:
        count = max(scale.numel(), zero_point.numel())
        raise RuntimeError(
            f"[fake_quantize_per_tensor_affine] a Tensor with {count} elements cannot be converted to Scalar"
        )
    step = scale.reshape([]).to(dt.float32)
    zero = zero_point.reshape([]).to(dt.float32)
    return op._fake_quantize(self, step, zero, float(quant_min), float(quant_max))


@composite(
    "fake_quantize_per_channel_affine(Tensor self, Tensor scale, Tensor zero_point, int axis, int quant_min, int quant_max) -> Tensor",
    variants="function",
    node="FakeQuantizePerChannelAffineCachemaskBackward0",
    samples=lambda t: [((t(2, 3), t(3, dtype="float32"), t(3, dtype="float32"), 1, -4, 4), {})],
)
def fake_quantize_per_channel_affine(self, scale, zero_point, axis, quant_min, quant_max):
    """The same with a scale and a zero point for each index of dim axis."""
    name = "fake_quantize_per_channel_affine"
    if scale.dtype != dt.float32 and scale.dtype != dt.bfloat16:
        raise RuntimeError(f"[{name}] Scale must be Float or BFloat16, found {scale.dtype}")
    if zero_point.dtype != dt.int32 and zero_point.dtype != dt.float32 and zero_point.dtype != dt.float16:
        raise RuntimeError(f"[{name}] Zero-point must be Int32, Float or Half, found {zero_point.dtype}")
    if scale.dim() != 1:
        raise RuntimeError(f"[{name}] scale should be a 1-D tensor: got {scale.shape}")
    if zero_point.dim() != 1:
        raise RuntimeError(f"[{name}] zero point should be a 1-D tensor: got {zero_point.shape}")
    if scale.numel() != zero_point.numel():
        raise RuntimeError(f"[{name}] scale and zero-point need to have the same dimensions")
    if axis < 0 or axis > self.ndim:
        raise RuntimeError(f"[{name}] `axis` must be between 0 and number of dimensions of input: got {axis}")
    d = wrap_dim(axis, self.ndim)
    if scale.numel() != self.size(d):
        raise RuntimeError(f"[{name}] dimensions of scale and zero-point are not consistent with input tensor")
    check_range_of_steps(name, quant_min, quant_max)
    shape = [1] * self.ndim
    shape[d] = scale.numel()
    zero = zero_point.to(dt.float32).reshape(shape)
    step = scale.to(dt.float32).reshape(shape)
    return op._fake_quantize(self, step, zero, float(quant_min), float(quant_max))
