"""Normalization and losses of rows: what is shared by all samples goes to the kernel, what is not is applied around it."""

from __future__ import annotations

from tocha.operators.batch_norm import (
    _batch_norm_backward,
    _native_batch_norm_legit_functional,
    native_batch_norm,
)
from tocha.operators.losses import _cross_entropy, _cross_entropy_backward, _nll, _nll_backward
from tocha.operators.normalization import (
    _fused_rms_norm,
    _layer_norm_backward,
    _rms_norm_backward,
    native_group_norm,
    native_layer_norm,
)
from tocha.operators.record import batching

UNBATCHED_STATISTICS = (
    "Batch norm got a batched tensor as input while the running_mean or running_var, which will be updated in place, were not "
    "batched.\nIf you are using a module and do not need eval mode, please set `track_running_stats` to be False.If you are using "
    "a prebuilt module and do not need eval mode, please see the functorch website for resources on how to patch your module to "
    "work with vmap"
)


@batching(native_layer_norm)
def layer_norm(b, self, normalized_shape, weight, bias, eps):
    shared = not b.has(weight) and not b.has(bias)
    out, mean, rstd = b.run(b.all(self), normalized_shape, weight if shared else None, bias if shared else None, eps)
    if not shared:
        out = out if weight is None else out * b.aligned(weight, self.ndim)
        out = out if bias is None else out + b.aligned(bias, self.ndim)
    return out, mean, rstd


@batching(_fused_rms_norm)
def rms_norm(b, self, normalized_shape, weight, eps):
    shared = not b.has(weight)
    out, rstd = b.run(b.all(self), normalized_shape, weight if shared else None, eps)
    return out if shared else out * b.aligned(weight, self.ndim), rstd


def rows_of(self, normalized_shape):
    """The dims of a batch of samples that are summed for the parameters' gradients."""
    return list(range(1, 1 + self.ndim - len(normalized_shape)))


@batching(_layer_norm_backward)
def layer_norm_backward(b, grad_output, self, normalized_shape, mean, rstd, weight, eps, for_input, for_parameters):
    grads, value, centre, scale = b.all(grad_output), b.all(self), b.all(mean), b.all(rstd)
    weighted = grads * b.aligned(weight, self.ndim) if b.has(weight) else grads
    shared = None if b.has(weight) else weight
    to_input, to_weight, to_bias = b.run(
        weighted, value, normalized_shape, centre, scale, shared, eps, for_input, False
    )
    if for_parameters:
        dims = rows_of(self, normalized_shape)
        normalized = grads * ((value - centre) * scale)
        to_weight, to_bias = (normalized.sum(dims), grads.sum(dims)) if dims else (normalized, grads)
        to_weight, to_bias = to_weight.to(grads.dtype), to_bias.to(grads.dtype)
    return tuple(whole(b, r) for r in (to_input, to_weight, to_bias))


@batching(_rms_norm_backward)
def rms_norm_backward(b, grad_output, self, normalized_shape, rstd, weight, eps, for_input, for_weight):
    grads, value, scale = b.all(grad_output), b.all(self), b.all(rstd)
    weighted = grads * b.aligned(weight, self.ndim) if b.has(weight) else grads
    shared = None if b.has(weight) else weight
    to_input, to_weight = b.run(weighted, value, normalized_shape, scale, shared, eps, for_input, False)
    if for_weight:
        dims = rows_of(self, normalized_shape)
        normalized = grads * (value * scale)
        to_weight = (normalized.sum(dims) if dims else normalized).to(grads.dtype)
    return whole(b, to_input), whole(b, to_weight)


def whole(b, r):
    """What was not asked for is empty."""
    return r if r.ndim and r.shape[0] == b.size and r.numel() else r.expand([b.size, *r.shape])


@batching(native_group_norm)
def group_norm(b, self, weight, bias, N, C, HxW, group, eps):
    shared = not b.has(weight) and not b.has(bias)
    parameters = (weight, bias) if shared else (None, None)
    value = b.all(self)
    found = b.run(value.flatten(0, 1), *parameters, b.size * N, C, HxW, group, eps)
    out, mean, rstd = (r.unflatten(0, [b.size, -1]) for r in found)
    if not shared:
        ones = [1] * (self.ndim - 2)
        out = out if weight is None else out * b.all(weight).reshape([b.size, 1, C, *ones])
        out = out if bias is None else out + b.all(bias).reshape([b.size, 1, C, *ones])
    return out, mean, rstd


def in_channels(b, x):
    """(B, N, C, ...) as (N, B C, ...): samples have channels of their own."""
    return b.all(x).movedim(0, 1).flatten(1, 2)


def parameters(b, *values):
    return [None if v is None else b.all(v).reshape([-1]) for v in values]


@batching(native_batch_norm)
def batch_norm(b, self, weight, bias, running_mean, running_var, training, momentum, eps):
    statistics = (running_mean, running_var)
    if training and any(s is not None and not b.has(s) for s in statistics):
        raise RuntimeError(UNBATCHED_STATISTICS)
    scale, shift = parameters(b, weight, bias)
    kept = [None if s is None else b.all(s).reshape([-1]).clone() for s in statistics]
    out, mean, spread = b.run(in_channels(b, self), scale, shift, *kept, training, momentum, eps)
    if training:
        for s, k in zip(statistics, kept, strict=True):
            if s is not None:
                b.first(s).copy_(k.unflatten(0, [b.size, -1]))
    return out.unflatten(1, [b.size, -1]).movedim(1, 0), of_channels(b, mean), of_channels(b, spread)


@batching(_native_batch_norm_legit_functional)
def functional_batch_norm(b, self, weight, bias, running_mean, running_var, training, momentum, eps):
    given = parameters(b, weight, bias, running_mean, running_var)
    out, *others = b.run(in_channels(b, self), *given, training, momentum, eps)
    return out.unflatten(1, [b.size, -1]).movedim(1, 0), *(of_channels(b, x) for x in others)


def of_channels(b, x):
    return x.unflatten(0, [b.size, -1]) if x.numel() else x.expand([b.size, *x.shape])


@batching(_batch_norm_backward)
def batch_norm_backward(b, grad_output, self, weight, mean, spread, training, eps, for_input, for_parameters):
    scale, centre, width = parameters(b, weight, mean, spread)
    to_input, to_weight, to_bias = b.run(
        in_channels(b, grad_output),
        in_channels(b, self),
        scale,
        centre,
        width,
        training,
        eps,
        for_input,
        for_parameters,
    )
    to_input = (
        to_input.unflatten(1, [b.size, -1]).movedim(1, 0) if for_input else to_input.expand([b.size, *to_input.shape])
    )
    return to_input, of_channels(b, to_weight), of_channels(b, to_bias)


# ---- losses of rows --------------------------------------------------------------------------------


@batching(_nll, _cross_entropy)
def of_rows(b, self, target, weight, ignore_index):
    if b.has(weight):
        return b.decomposed(self, target, weight, ignore_index)
    scores, classes = b.all(self), b.all(target)
    if self.ndim == 1:
        return b.run(scores, classes, weight, ignore_index)
    found = b.run(scores.flatten(0, 1), classes.flatten(0, 1), weight, ignore_index)
    return tuple(r.unflatten(0, [b.size, -1]) for r in found)


@batching(_nll_backward)
def of_rows_backward(b, grad_output, target, weight, ignore_index, sizes):
    if b.has(weight):
        return b.decomposed(grad_output, target, weight, ignore_index, sizes)
    grads, classes = b.all(grad_output), b.all(target)
    if len(sizes) == 1:
        return b.run(grads, classes, weight, ignore_index, [b.size, *sizes])
    found = b.run(grads.flatten(0, 1), classes.flatten(0, 1), weight, ignore_index, [b.size * sizes[0], *sizes[1:]])
    return found.unflatten(0, [b.size, -1])


@batching(_cross_entropy_backward)
def scores_backward(b, grad_output, self, target, weight, lse, ignore_index):
    if b.has(weight):
        return b.decomposed(grad_output, self, target, weight, lse, ignore_index)
    flat = [b.all(v).flatten(0, 1) for v in (grad_output, self, target)]
    return b.run(*flat, weight, b.all(lse).flatten(0, 1), ignore_index).unflatten(0, [b.size, -1])
