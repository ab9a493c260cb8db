"""Normalisation by the statistics of rows: layer, root-mean-square and group norm."""

from __future__ import annotations

from tocha.ir import dtypes as dt
from tocha.operators.record import composite, gradient, native, op, rule
from tocha.operators.rules import Out, cat_strides, product, refuse_dtype


@rule
def check_normalized(
    self: "Tensor", normalized_shape: "int[]", weight: "Tensor?", bias: "Tensor?", name: "str"
) -> "none":
    """The last dims must have the normalized shape, and so must weight and bias."""
    n = len(normalized_shape)
    if n < 1:
        raise RuntimeError(
            f"[{name}] Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but got normalized_shape = {normalized_shape}"
        )
    if weight is not None and weight.shape != normalized_shape:
        raise RuntimeError(
            f"[{name}] Expected weight to be of same shape as normalized_shape, but got weight of shape {weight.shape} and normalized_shape = {normalized_shape}"
        )
    if bias is not None and bias.shape != normalized_shape:
        raise RuntimeError(
            f"[{name}] Expected bias to be of same shape as normalized_shape, but got bias of shape {bias.shape} and normalized_shape = {normalized_shape}"
        )
    if self.ndim < n or self.shape[self.ndim - n :] != normalized_shape:
        wanted = "*"
        for s in normalized_shape:
            wanted = f"{wanted}, {s}"
        raise RuntimeError(
            f"[{name}] Given normalized_shape={normalized_shape}, expected input with shape [{wanted}], but got input of size{self.shape}"
        )


@rule
def statistics_dtype(self: "Tensor", weight: "Tensor?", bias: "Tensor?", name: "str") -> "dtype":
    """The dtype of means and scales. Half inputs may come with float32 parameters; they keep statistics in float32."""
    if not self.is_floating_point():
        if weight is not None and weight.dtype != self.dtype:
            raise RuntimeError(
                f"[{name}] mixed dtype (CPU): all inputs must share same datatype. Got {self.dtype} and {weight.dtype}"
            )
        refuse_dtype(name, self.dtype)
    other = self.dtype
    if weight is not None:
        other = weight.dtype
    elif bias is not None:
        other = bias.dtype
    if bias is not None and bias.dtype != other:
        raise RuntimeError(
            f"[{name}] mixed dtype (CPU): expect parameter to have scalar type of Float: expected scalar type {other} but found {bias.dtype}"
        )
    half = self.dtype == dt.float16 or self.dtype == dt.bfloat16
    if other != self.dtype and not (half and other == dt.float32):
        raise RuntimeError(
            f"[{name}] mixed dtype (CPU): expect parameter to have scalar type of Float, but input is {self.dtype} and parameters are {other}"
        )
    return other


@native(
    "native_layer_norm(Tensor self, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps) -> (Tensor, Tensor, Tensor)",
    variants="function",
    differentiable=(0,),
    samples=lambda t: [((t(2, 3, 4), [3, 4], t(3, 4), t(3, 4), 1e-5), {}), ((t(3, 4), [4], None, None, 1e-5), {})],
    aten=(
        "native_layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps) -> (Tensor, Tensor, Tensor)",
    ),
    core=True,
)
def native_layer_norm(self, normalized_shape, weight, bias, eps):
    """layer_norm with the mean and the reciprocal standard deviation of every row."""
    check_normalized(self, normalized_shape, weight, bias, "layer_norm")
    rows = self.ndim - len(normalized_shape)
    kept = [*self.shape[:rows], *([1] * len(normalized_shape))]
    d = statistics_dtype(self, weight, bias, "layer_norm")
    return Out(self.shape, self.dtype), Out(kept, d), Out(kept, d)


@gradient(native_layer_norm, "self", "weight", "bias")
def layer_norm_gradient(grad, self, normalized_shape, weight, eps, result1, result2, wanted):
    to_self, to_weight, to_bias = op._layer_norm_backward(
        grad, self, normalized_shape, result1, result2, weight, eps, wanted[0], wanted[1] or wanted[2]
    )
    return to_self, to_weight, to_bias


@native(
    "_layer_norm_backward(Tensor grad_output, Tensor self, int[] normalized_shape, Tensor mean, Tensor rstd, Tensor? weight, float eps, bool for_input, bool for_parameters) -> (Tensor, Tensor, Tensor)",
    kernel="layer_norm_backward",
    variants="",
)
def _layer_norm_backward(grad_output, self, normalized_shape, mean, rstd, weight, eps, for_input, for_parameters):
    """The gradients of layer_norm's input, weight and bias; empty where not asked for."""
    empty = [0]
    parameters = normalized_shape if for_parameters else empty
    return Out(self.shape if for_input else empty, self.dtype), Out(parameters, rstd.dtype), Out(parameters, rstd.dtype)


@rule
def projected(x: "Tensor", standard: "Tensor", dims: "int[]", centered: "bool") -> "Tensor":
    """x without its part along the standardized rows and, where these are centered, without its mean."""
    rest = x - standard * (x * standard).mean(dims, True)
    return rest - x.mean(dims, True) if centered else rest


@rule
def norm_backward_gradient(
    u: "Tensor?",
    v: "Tensor?",
    r: "Tensor?",
    grad_output: "Tensor",
    x: "Tensor",
    weight: "Tensor?",
    dims: "int[]",
    eps: "float",
    centered: "bool",
) -> "(Tensor|Tensor|Tensor)":
    """What u, v and r, the gradients of a norm's gradients of x, weight and bias, mean for grad_output, x and weight.

    With y = s * d, d = x - mean and s = 1 / sqrt(mean(d * d) + eps), the gradient of x is s * projected(q),
    where q is weight * grad_output and the projection is symmetric; that of weight is grad_output * y.
    """
    d = x - x.mean(dims, True) if centered else x
    s = ((d * d).mean(dims, True) + eps).rsqrt()
    y = d * s
    q = grad_output if weight is None else grad_output * weight
    to_grad = op.zeros_like(y)
    to_weight = to_grad
    to_y = to_grad
    to_s = op.zeros_like(s)
    if u is not None:
        along = projected(u, y, dims, centered) * s
        to_grad = along if weight is None else along * weight
        to_weight = grad_output * along
        to_y = -s * (u * (q * y).mean(dims, True) + q * (u * y).mean(dims, True))
        to_s = (u * projected(q, y, dims, centered)).mean(dims, True)
    if v is not None:
        to_grad = to_grad + v * y
        to_y = to_y + v * grad_output
    if r is not None:
        to_grad = to_grad + r
    return to_grad, s * projected(to_y, y, dims, centered) - s * s * y * to_s, to_weight


@gradient(_layer_norm_backward, "grad_output", "self", "weight")
def layer_norm_backward_gradient(
    grad0, grad1, grad2, grad_output, self, normalized_shape, weight, eps, for_input, for_parameters
):
    dims = [d for d in range(self.ndim - len(normalized_shape), self.ndim)]
    to_grad, to_self, to_weight = norm_backward_gradient(
        grad0 if for_input else None,
        grad1 if for_parameters else None,
        grad2 if for_parameters else None,
        grad_output,
        self,
        weight,
        dims,
        eps,
        True,
    )
    return to_grad, to_self, to_weight


@composite(
    "layer_norm(Tensor self, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float eps=1e-05, bool cudnn_enable=True) -> Tensor",
    variants="function",
    samples=lambda t: [((t(2, 3, 4), [4], t(4), t(4)), {})],
    aten=(
        "layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float eps=1e-05, bool cudnn_enable=True) -> Tensor",
    ),
    word="LayerNormKernelImpl",
)
def layer_norm(self, normalized_shape, weight, bias, eps, cudnn_enable):
    """(x - mean) / sqrt(var + eps) over the last dims, times weight plus bias."""
    return op.native_layer_norm(self, normalized_shape, weight, bias, eps)[0]


@composite(
    "nn_layer_norm(Tensor self, int[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float eps=1e-05) -> Tensor",
    variants="function",
    samples=lambda t: [((t(2, 3, 4), [4], t(4), t(4)), {})],
    aten=(),
)
def nn_layer_norm(self, normalized_shape, weight, bias, eps):
    """(x - mean) / sqrt(var + eps) over the last dims, times weight plus bias."""
    return op.layer_norm(self, normalized_shape, weight, bias, eps)


@native(
    "_fused_rms_norm(Tensor self, int[] normalized_shape, Tensor? weight, float? eps) -> (Tensor, Tensor)",
    variants="function",
    differentiable=(0,),
    samples=lambda t: [((t(2, 3, 4), [4], t(4), None), {})],
    aten=("_fused_rms_norm(Tensor input, int[] normalized_shape, Tensor? weight, float? eps) -> (Tensor, Tensor)",),
)
def _fused_rms_norm(self, normalized_shape, weight, eps):
    """rms_norm with the reciprocal root mean square of every row."""
    check_normalized(self, normalized_shape, weight, None, "rms_norm")
    if not self.is_floating_point():
        refuse_dtype("rms_norm", self.dtype)
    rows = self.ndim - len(normalized_shape)
    kept = [*self.shape[:rows], *([1] * len(normalized_shape))]
    scales = Out(kept, dt.float64 if self.dtype == dt.float64 else dt.float32)
    return Out(self.shape, self.dtype, strides=cat_strides(self.shape, [self])), scales


@gradient(_fused_rms_norm, "self", "weight")
def rms_norm_gradient(grad, self, normalized_shape, weight, eps, result1, wanted):
    small = 2.0**-52 if self.dtype == dt.float64 else 2.0**-23
    to_self, to_weight = op._rms_norm_backward(
        grad,
        self,
        normalized_shape,
        result1,
        weight if wanted[0] else None,
        small if eps is None else eps,
        wanted[0],
        wanted[1],
    )
    return to_self, to_weight


@native(
    "_rms_norm_backward(Tensor grad_output, Tensor self, int[] normalized_shape, Tensor rstd, Tensor? weight, float eps, bool for_input, bool for_weight) -> (Tensor, Tensor)",
    kernel="rms_norm_backward",
    variants="",
)
def _rms_norm_backward(grad_output, self, normalized_shape, rstd, weight, eps, for_input, for_weight):
    """The gradients of rms_norm's input and weight; empty where not asked for."""
    empty = [0]
    return Out(self.shape if for_input else empty, self.dtype), Out(
        normalized_shape if for_weight else empty, rstd.dtype
    )


@gradient(_rms_norm_backward, "grad_output", "self", "weight")
def rms_norm_backward_gradient(grad0, grad1, grad_output, self, normalized_shape, weight, eps, for_input, for_weight):
    dims = [d for d in range(self.ndim - len(normalized_shape), self.ndim)]
    to_grad, to_self, to_weight = norm_backward_gradient(
        grad0 if for_input else None, grad1 if for_weight else None, None, grad_output, self, weight, dims, eps, False
    )
    return to_grad, to_self, to_weight


@composite(
    "rms_norm(Tensor self, SymInt[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor",
    variants="function",
    samples=lambda t: [((t(2, 3, 4), [3, 4], t(3, 4)), {})],
    aten=("rms_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor",),
    word="rms_norm",
)
def rms_norm(self, normalized_shape, weight, eps):
    """x / sqrt(mean(x^2) + eps) over the last dims, times weight."""
    if self.is_complex():
        check_normalized(self, normalized_shape, weight, None, "rms_norm")
        small = 2.0**-52 if self.dtype == dt.complex128 else 2.0**-23
        dims = [d for d in range(self.ndim - len(normalized_shape), self.ndim)]
        dense = self.contiguous()
        scaled = dense * ((dense * dense).mean(dims, True) + (small if eps is None else eps)).rsqrt()
        return scaled if weight is None else scaled * weight
    return op._fused_rms_norm(self, normalized_shape, weight, eps)[0]


@composite(
    "nn_rms_norm(Tensor self, int[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor",
    variants="function",
    samples=lambda t: [((t(2, 3, 4), [4], t(4)), {})],
    aten=(),
)
def nn_rms_norm(self, normalized_shape, weight, eps):
    """x / sqrt(mean(x^2) + eps) over the last dims, times weight."""
    return op.rms_norm(self, normalized_shape, weight, eps)


@rule
def check_channels(what: "str", parameter: "Tensor?", channels: "int", input: "int[]") -> "none":
    if parameter is not None and (parameter.ndim != 1 or parameter.numel() != channels):
        raise RuntimeError(
            f"[group_norm] Expected {what} to be a vector of size equal to the number of channels in input, but got {what} of shape {parameter.shape} and input of shape {input}"
        )


@native(
    "native_group_norm(Tensor self, Tensor? weight, Tensor? bias, SymInt N, SymInt C, SymInt HxW, int group, float eps) -> (Tensor, Tensor, Tensor)",
    variants="function",
    samples=lambda t: [((t(2, 6, 5), t(6), t(6), 2, 6, 5, 3, 1e-5), {})],
    aten=(
        "native_group_norm(Tensor input, Tensor? weight, Tensor? bias, SymInt N, SymInt C, SymInt HxW, int group, float eps) -> (Tensor, Tensor, Tensor)",
    ),
    core=True,
)
def native_group_norm(self, weight, bias, N, C, HxW, group, eps):
    """group_norm with the mean and the reciprocal standard deviation of every group."""
    if group <= 0:
        raise RuntimeError(f"[group_norm] Expected num groups to be greater than 0, got {group}")
    if C % group != 0:
        raise RuntimeError(
            f"[group_norm] Expected number of channels in input to be divisible by num_groups, but got input of shape {self.shape} and num_groups={group}"
        )
    if self.numel() != N * C * HxW:
        raise RuntimeError(f"[group_norm] Expected {N} x {C} x {HxW} elements, but got input of shape {self.shape}")
    check_channels("weight", weight, C, self.shape)
    check_channels("bias", bias, C, self.shape)
    d = statistics_dtype(self, weight, bias, "group_norm")
    return Out(self.shape, self.dtype, strides=cat_strides(self.shape, [self])), Out([N, group], d), Out([N, group], d)


@gradient(native_group_norm, "self", "weight", "bias")
def group_norm_gradient(grad0, grad1, grad2, self, weight, N, C, HxW, group, eps, result1, result2, wanted):
    grad = grad0 if grad0 is not None else op.zeros_like(self)
    to_self, to_weight, to_bias = op._group_norm_backward(
        grad, self, result1, result2, weight, N, C, HxW, group, eps, wanted[0], wanted[1] or wanted[2]
    )
    if not wanted[0] or (grad1 is None and grad2 is None):
        return to_self, to_weight, to_bias
    # The statistics are results too.
    n = (C // group) * HxW
    rows = [N, group, n]
    through = op.zeros_like(self).reshape(rows)
    if grad1 is not None:
        through = through + grad1.unsqueeze(-1) / n
    if grad2 is not None:
        slope = grad2 * result2 * result2 * result2 / n
        through = through - slope.unsqueeze(-1) * (self.reshape(rows) - result1.unsqueeze(-1))
    return to_self + through.reshape(self.shape), to_weight, to_bias


@native(
    "_group_norm_backward(Tensor grad_output, Tensor self, Tensor mean, Tensor rstd, Tensor? weight, int N, int C, int HxW, int group, float eps, bool for_input, bool for_parameters) -> (Tensor, Tensor, Tensor)",
    kernel="group_norm_backward",
    variants="",
)
def _group_norm_backward(grad_output, self, mean, rstd, weight, N, C, HxW, group, eps, for_input, for_parameters):
    """The gradients of group_norm's input, weight and bias; empty where not asked for."""
    empty = [0]
    parameters = [C] if for_parameters else empty
    return Out(self.shape if for_input else empty, self.dtype), Out(parameters, rstd.dtype), Out(parameters, rstd.dtype)


@rule
def by_group(t: "Tensor?", sizes: "int[]") -> "Tensor?":
    return t if t is None else t.reshape(sizes)


@gradient(_group_norm_backward, "grad_output", "self", "weight")
def group_norm_backward_gradient(
    grad0, grad1, grad2, grad_output, self, weight, N, C, HxW, group, eps, for_input, for_parameters
):
    whole = [N, group, C // group, HxW]
    channels = [group, C // group, 1]
    to_grad, to_self, to_weight = norm_backward_gradient(
        by_group(grad0, whole) if for_input else None,
        by_group(grad1, channels) if for_parameters else None,
        by_group(grad2, channels) if for_parameters else None,
        grad_output.reshape(whole),
        self.reshape(whole),
        by_group(weight, channels),
        [2, 3],
        eps,
        True,
    )
    return to_grad.reshape(self.shape), to_self.reshape(self.shape), to_weight.sum([0, 3]).reshape([C])


@composite(
    "group_norm(Tensor self, int num_groups, Tensor? weight=None, Tensor? bias=None, float eps=1e-05, bool cudnn_enabled=True) -> Tensor",
    variants="function",
    samples=lambda t: [((t(2, 6, 5), 3, t(6), t(6)), {})],
    aten=(
        "group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float eps=1e-05, bool cudnn_enabled=True) -> Tensor",
    ),
    word="GroupNormKernelImpl",
)
def group_norm(self, num_groups, weight, bias, eps, cudnn_enabled):
    """(x - mean) / sqrt(var + eps) within groups of channels, times weight plus bias per channel."""
    if self.ndim < 2:
        raise RuntimeError(f"[group_norm] Expected at least 2 dimensions for input tensor but received {self.ndim}")
    return op.native_group_norm(
        self, weight, bias, self.size(0), self.size(1), product(self.shape[2:]), num_groups, eps
    )[0]


@composite(
    "nn_group_norm(Tensor self, int num_groups, Tensor? weight=None, Tensor? bias=None, float eps=1e-05) -> Tensor",
    variants="function",
    samples=lambda t: [((t(2, 6, 5), 2, t(6), t(6)), {})],
    aten=(),
)
def nn_group_norm(self, num_groups, weight, bias, eps):
    """(x - mean) / sqrt(var + eps) within groups of channels, times weight plus bias per channel."""
    if self.ndim >= 2 and num_groups > 0 and self.numel() == num_groups:
        raise ValueError(
            f"[group_norm] Expected more than 1 value per channel when training, got input size torch.Size({self.shape})"
        )
    return op.group_norm(self, num_groups, weight, bias, eps)
