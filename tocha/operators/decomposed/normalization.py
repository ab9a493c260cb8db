"""softmax and the norms, forward and backward: passes of statistics, then formulas."""

from __future__ import annotations

from tocha.ir import dtypes as dt
from tocha.operators.batch_norm import (
    _batch_norm_backward,
    _native_batch_norm_legit_functional,
    native_batch_norm,
)
from tocha.operators.decomposed.parts import along, empty, raised, summed
from tocha.operators.normalization import (
    _fused_rms_norm,
    _group_norm_backward,
    _layer_norm_backward,
    _rms_norm_backward,
    native_group_norm,
    native_layer_norm,
    statistics_dtype,
)
from tocha.operators.record import decomposition, op
from tocha.operators.softmax import _log_softmax_backward_data, _softmax_backward_data, log_softmax, softmax


def less_maximum(x, dim):
    """x - max(x) along dim: its exponentials do not overflow."""
    return x if x.numel() == 0 else x - op.amax(x, [dim], True)


@decomposition(softmax)
def softmax_in_parts(self, dim, dtype):
    powers = op.exp(less_maximum(raised(self.to(dtype or self.dtype)), dim))
    return (powers * op.reciprocal(op.sum(powers, [dim], True))).to(dtype or self.dtype)


@decomposition(log_softmax)
def log_softmax_in_parts(self, dim, dtype):
    if self.numel() == 0:  # of any dtype
        return op.zeros(self.shape, dtype=dtype or self.dtype, device=self.device)
    x = less_maximum(raised(self.to(dtype or self.dtype)), dim)
    return (x - op.log(op.sum(op.exp(x), [dim], True))).to(dtype or self.dtype)


@decomposition(_softmax_backward_data)
def softmax_backward_in_parts(grad_output, output, dim, input_dtype):
    product = raised(grad_output) * raised(output)
    return (product - raised(output) * op.sum(product, [dim], True)).to(input_dtype)


@decomposition(_log_softmax_backward_data)
def log_softmax_backward_in_parts(grad_output, output, dim, input_dtype):
    grad = raised(grad_output)
    return (grad - op.exp(raised(output)) * op.sum(grad, [dim], True)).to(input_dtype)


# -- rows --------------------------------------------------------------------------------------------


def standardized(x, dims, eps):
    """(x - mean) / sqrt(variance + eps), the mean, and the reciprocal standard deviation."""
    mean = op.mean(x, dims, True)
    centered = x - mean
    scale = op.rsqrt(op.mean(centered * centered, dims, True) + eps)
    return centered * scale, mean, scale


def scaled(x, weight, bias):
    if weight is not None:
        x = x * weight
    return x if bias is None else x + bias


def projected(q, standard, dims, centered=True):
    """q without its part along the standardized values and, where these are centered, without its mean."""
    rest = q - standard * op.mean(q * standard, dims, True)
    return rest - op.mean(q, dims, True) if centered else rest


@decomposition(native_layer_norm)
def layer_norm_in_parts(self, normalized_shape, weight, bias, eps):
    dims = list(range(self.ndim - len(normalized_shape), self.ndim))
    kept = statistics_dtype(self, weight, bias, "layer_norm")
    standard, mean, scale = standardized(raised(self), dims, eps)
    return scaled(standard, weight, bias).to(self.dtype), mean.to(kept), scale.to(kept)


@decomposition(_layer_norm_backward)
def layer_norm_backward_in_parts(
    grad_output, self, normalized_shape, mean, rstd, weight, eps, for_input, for_parameters
):
    first = self.ndim - len(normalized_shape)
    dims, rows = list(range(first, self.ndim)), list(range(first))
    grad, scale = raised(grad_output), raised(rstd)
    standard = (raised(self) - raised(mean)) * scale
    to_self = to_weight = to_bias = None
    if for_input:
        to_self = (scale * projected(scaled(grad, weight, None), standard, dims)).to(self.dtype)
    if for_parameters:
        to_weight, to_bias = summed(grad * standard, rows).to(rstd.dtype), summed(grad, rows).to(rstd.dtype)
    none = empty(rstd)
    return (
        empty(self) if to_self is None else to_self,
        none if to_weight is None else to_weight,
        none if to_bias is None else to_bias,
    )


@decomposition(_fused_rms_norm)
def rms_norm_in_parts(self, normalized_shape, weight, eps):
    dims = list(range(self.ndim - len(normalized_shape), self.ndim))
    small = 2.0**-52 if self.dtype is dt.float64 else 2.0**-23
    x = raised(self)
    scale = op.rsqrt(op.mean(x * x, dims, True) + (small if eps is None else eps))
    return scaled(x * scale, weight, None).to(self.dtype), scale


@decomposition(_rms_norm_backward)
def rms_norm_backward_in_parts(grad_output, self, normalized_shape, rstd, weight, eps, for_input, for_weight):
    first = self.ndim - len(normalized_shape)
    grad, standard = raised(grad_output), raised(self) * rstd
    to_self, to_weight = empty(self), empty(rstd)
    if for_input:
        q = scaled(grad, weight, None)
        to_self = (rstd * projected(q, standard, list(range(first, self.ndim)), False)).to(self.dtype)
    if for_weight:
        to_weight = summed(grad * standard, list(range(first))).to(rstd.dtype)
    return to_self, to_weight


# -- groups of channels ------------------------------------------------------------------------------


@decomposition(native_group_norm)
def group_norm_in_parts(self, weight, bias, N, C, HxW, group, eps):
    kept = statistics_dtype(self, weight, bias, "group_norm")
    standard, mean, scale = standardized(raised(self).reshape([N, group, (C // group) * HxW]), [2], eps)
    by_channel = scaled(
        standard.reshape([N, C, HxW]),
        None if weight is None else weight.reshape([C, 1]),
        None if bias is None else bias.reshape([C, 1]),
    )
    out = by_channel.reshape(self.shape).to(self.dtype)
    return out, mean.reshape([N, group]).to(kept), scale.reshape([N, group]).to(kept)


@decomposition(_group_norm_backward)
def group_norm_backward_in_parts(
    grad_output, self, mean, rstd, weight, N, C, HxW, group, eps, for_input, for_parameters
):
    whole, channels = [N, group, C // group, HxW], [group, C // group]
    grad, scale = raised(grad_output).reshape(whole), raised(rstd).reshape([N, group, 1, 1])
    standard = (raised(self).reshape(whole) - raised(mean).reshape([N, group, 1, 1])) * scale
    to_self, to_weight, to_bias = empty(self), empty(rstd), empty(rstd)
    # The sums of every channel give the gradients of the parameters and, weighted, what that of the input needs: one pass for both.
    along_grad, of_grad = op.sum(grad * standard, [3]), op.sum(grad, [3])
    if for_input:
        n = (C // group) * HxW
        factor = None if weight is None else raised(weight).reshape(channels)
        along, mean_of = (
            op.sum(scaled(sums, factor, None), [2], True).unsqueeze(-1) / n for sums in (along_grad, of_grad)
        )
        q = scaled(grad, None if factor is None else factor.unsqueeze(-1), None)
        to_self = (scale * (q - standard * along - mean_of)).reshape(self.shape).to(self.dtype)
    if for_parameters:
        to_weight = op.sum(along_grad, [0]).reshape([C]).to(rstd.dtype)
        to_bias = op.sum(of_grad, [0]).reshape([C]).to(rstd.dtype)
    return to_self, to_weight, to_bias


# -- channels over a batch ---------------------------------------------------------------------------


def moved(running, batch, momentum):
    """Running statistics after a step."""
    return (running * (1 - momentum) + batch * momentum).to(running.dtype)


def normalized_channels(self, weight, bias, running_mean, running_var, training, eps):
    """The three results of a batch norm, and mean and variance of the batch (in training)."""
    given = next((t for t in (weight, bias, running_mean, running_var) if t is not None), self)
    others = [d for d in range(self.ndim) if d != 1]
    x = raised(self)
    statistics = None, None
    if training:
        n = self.numel() // self.size(1)
        mean = op.mean(x, others, True)
        centered = x - mean
        squares = op.sum(centered * centered, others, True)
        scale = op.rsqrt(squares / n + eps)
        statistics = mean.reshape([-1]), squares.reshape([-1]) / (n - 1)
        kept = mean.reshape([-1]).to(given.dtype), scale.reshape([-1]).to(given.dtype)
    else:
        centered = x - along(raised(running_mean), 1, self.ndim)
        scale = along(op.rsqrt(raised(running_var) + eps), 1, self.ndim)
        kept = empty(given), empty(given)
    w = None if weight is None else along(weight, 1, self.ndim)
    b = None if bias is None else along(bias, 1, self.ndim)
    return scaled(centered * scale, w, b).to(self.dtype), *kept, *statistics


@decomposition(native_batch_norm)
def batch_norm_in_parts(self, weight, bias, running_mean, running_var, training, momentum, eps):
    *results, mean, var = normalized_channels(self, weight, bias, running_mean, running_var, training, eps)
    for running, batch in ((running_mean, mean), (running_var, var)):
        if training and running is not None:
            running.copy_(moved(running, batch, momentum))
    return tuple(results)


@decomposition(_native_batch_norm_legit_functional)
def functional_batch_norm_in_parts(self, weight, bias, running_mean, running_var, training, momentum, eps):
    *results, mean, var = normalized_channels(self, weight, bias, running_mean, running_var, training, eps)
    if training:
        return *results, moved(running_mean, mean, momentum), moved(running_var, var, momentum)
    return *results, running_mean.clone(), running_var.clone()


@decomposition(_batch_norm_backward)
def batch_norm_backward_in_parts(grad_output, self, weight, mean, spread, training, eps, for_input, for_parameters):
    others = [d for d in range(self.ndim) if d != 1]
    scale = along(raised(spread) if training else op.rsqrt(raised(spread) + eps), 1, self.ndim)
    grad = raised(grad_output)
    standard = (raised(self) - along(raised(mean), 1, self.ndim)) * scale
    kept = mean.dtype if weight is None else weight.dtype
    to_self, to_weight, to_bias = empty(self), empty(self, kept), empty(self, kept)
    along_grad, of_grad = op.sum(grad * standard, others), op.sum(grad, others)
    if for_input:
        factor = scaled(scale, None if weight is None else along(weight, 1, self.ndim), None)
        if training:
            n = self.numel() // self.size(1)
            grad = grad - standard * along(along_grad / n, 1, self.ndim) - along(of_grad / n, 1, self.ndim)
        to_self = (grad * factor).to(self.dtype)
    if for_parameters:
        to_weight, to_bias = along_grad.to(kept), of_grad.to(kept)
    return to_self, to_weight, to_bias
