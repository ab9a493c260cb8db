"""Normalisation by the statistics of channels over a batch: batch_norm in its forms, and instance_norm."""

from __future__ import annotations

from tocha.ir import dtypes as dt
from tocha.operators.normalization import norm_backward_gradient
from tocha.operators.record import composite, gradient, native, op, rule
from tocha.operators.rules import Out, cat_strides, product, refuse_dtype


@rule
def check_channel_count(t: "Tensor?", channels: "int", what: "str") -> "none":
    if t is not None and t.numel() != channels:
        raise RuntimeError(f"[batch_norm] {what} should contain {channels} elements not {t.numel()}")


@rule
def check_batch_statistics(
    self: "Tensor", weight: "Tensor?", bias: "Tensor?", mean: "Tensor?", var: "Tensor?", training: "bool"
) -> "none":
    """Enough dims, parameters of the channels' number, and running statistics where they are used."""
    if self.ndim < 2:
        raise IndexError(f"[batch_norm] Expected an input of at least 2 dims (N, C, ...), but got {self.shape}")
    channels = self.shape[1]
    if mean is None and not training:
        raise RuntimeError("[batch_norm] running_mean must be defined in evaluation mode")
    if var is None and not training:
        raise RuntimeError("[batch_norm] running_var must be defined in evaluation mode")
    check_channel_count(mean, channels, "running_mean")
    check_channel_count(var, channels, "running_var")
    check_channel_count(weight, channels, "weight")
    check_channel_count(bias, channels, "bias")


@rule
def batch_statistics_dtype(
    self: "Tensor", weight: "Tensor?", bias: "Tensor?", mean: "Tensor?", var: "Tensor?"
) -> "dtype":
    """The dtype of means and scales: the parameters', which may be float32 for half inputs, else the input's."""
    if not self.is_floating_point():
        refuse_dtype("batch_norm", self.dtype)
    kind = self.dtype
    half = kind == dt.float16 or kind == dt.bfloat16
    given: "Tensor[]" = []
    if weight is not None:
        given.append(weight)
    if bias is not None:
        given.append(bias)
    if mean is not None:
        given.append(mean)
    if var is not None:
        given.append(var)
    if len(given) > 0:
        kind = given[0].dtype
    for t in given:
        if t.dtype != kind or (kind != self.dtype and not (half and kind == dt.float32)):
            raise RuntimeError(
                f"[batch_norm] mixed dtype (CPU): expect parameter to have scalar type of Float, or that of input: expected scalar type {self.dtype} but found {t.dtype}"
            )
    return kind


@native(
    "native_batch_norm(Tensor self, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)",
    constants=("running_mean", "running_var"),
    variants="function",
    differentiable=(0,),
    samples=lambda t: [
        ((t(3, 4, 5), t(4), t(4), None, None, True, 0.1, 1e-5), {}),
        ((t(2, 3, 4, 5), None, None, t(3), t(3, low=0.5, high=2), False, 0.1, 1e-5), {}),
    ],
    aten=(
        "native_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)",
    ),
)
def native_batch_norm(self, weight, bias, running_mean, running_var, training, momentum, eps):
    """batch_norm with the mean and the reciprocal standard deviation of every channel (empty in evaluation).

    In training the running statistics, where given, move towards the batch's by momentum.
    """
    check_batch_statistics(self, weight, bias, running_mean, running_var, training)
    if training and self.numel() == 0:
        raise RuntimeError(f"[batch_norm] input tensor must have at least one element, but got {self.shape}")
    d = batch_statistics_dtype(self, weight, bias, running_mean, running_var)
    kept = [self.shape[1] if training else 0]
    return Out(self.shape, self.dtype, strides=cat_strides(self.shape, [self])), Out(kept, d), Out(kept, d)


@gradient(native_batch_norm, "self", "weight", "bias")
def batch_norm_gradient(grad, self, weight, running_mean, running_var, training, eps, result1, result2, wanted):
    to_self, to_weight, to_bias = op._batch_norm_backward(
        grad,
        self,
        weight,
        result1 if training else running_mean,
        result2 if training else running_var,
        training,
        eps,
        wanted[0],
        wanted[1] or wanted[2],
    )
    return to_self, to_weight, to_bias


@native(
    "_native_batch_norm_legit_functional(Tensor self, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor running_mean_out, Tensor running_var_out)",
    constants=("running_mean", "running_var"),
    variants="function",
    differentiable=(0,),
    samples=lambda t: [
        ((t(3, 4, 5), t(4), t(4), t(4), t(4, low=0.5, high=2), True, 0.1, 1e-5), {}),
        ((t(2, 3, 4, 5), None, None, t(3), t(3, low=0.5, high=2), False, 0.1, 1e-5), {}),
    ],
    aten=(
        "_native_batch_norm_legit_functional(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor running_mean_out, Tensor running_var_out)",
    ),
)
def _native_batch_norm_legit_functional(self, weight, bias, running_mean, running_var, training, momentum, eps):
    """native_batch_norm that leaves the running statistics alone and gives what they become."""
    check_batch_statistics(self, weight, bias, running_mean, running_var, training)
    if training and self.numel() == 0:
        raise RuntimeError(f"[batch_norm] input tensor must have at least one element, but got {self.shape}")
    d = batch_statistics_dtype(self, weight, bias, running_mean, running_var)
    kept = [self.shape[1] if training else 0]
    return (
        Out(self.shape, self.dtype, strides=cat_strides(self.shape, [self])),
        Out(kept, d),
        Out(kept, d),
        Out(running_mean.shape, running_mean.dtype),
        Out(running_var.shape, running_var.dtype),
    )


gradient(_native_batch_norm_legit_functional, "self", "weight", "bias")(batch_norm_gradient)


@native(
    "_batch_norm_backward(Tensor grad_output, Tensor self, Tensor? weight, Tensor mean, Tensor spread, bool training, float eps, bool for_input, bool for_parameters) -> (Tensor, Tensor, Tensor)",
    kernel="batch_norm_backward",
    variants="",
)
def _batch_norm_backward(grad_output, self, weight, mean, spread, training, eps, for_input, for_parameters):
    """The gradients of batch_norm's input, weight and bias; empty where not asked for.

    spread is the reciprocal standard deviation in training, the running variance in evaluation.
    """
    empty = [0]
    parameters = [self.shape[1]] if for_parameters else empty
    shape = self.shape if for_input else empty
    d = mean.dtype if weight is None else weight.dtype
    strides = cat_strides(shape, [self]) if for_input else [1]
    return Out(shape, self.dtype, strides=strides), Out(parameters, d), Out(parameters, d)


@rule
def evaluated_backward_gradient(
    u: "Tensor?",
    v: "Tensor?",
    r: "Tensor?",
    grad_output: "Tensor",
    x: "Tensor",
    weight: "Tensor?",
    mean: "Tensor",
    variance: "Tensor",
    eps: "float",
) -> "(Tensor|Tensor|Tensor)":
    """What u, v and r, the gradients of the gradients of x, weight and bias, mean for grad_output, x and weight where
    the statistics are given: there x has the gradient grad_output * weight * s and weight that of grad_output * y.
    """
    s = (variance + eps).rsqrt()
    to_grad = op.zeros_like(x)
    to_x = to_grad
    to_weight = to_grad
    if u is not None:
        along = u * s
        to_grad = along if weight is None else along * weight
        to_weight = along * grad_output
    if v is not None:
        to_grad = to_grad + v * ((x - mean) * s)
        to_x = v * s * grad_output
    if r is not None:
        to_grad = to_grad + r
    return to_grad, to_x, to_weight


@rule
def by_channel(t: "Tensor?", sizes: "int[]") -> "Tensor?":
    return t if t is None else t.reshape(sizes)


@gradient(_batch_norm_backward, "grad_output", "self", "weight")
def batch_norm_backward_gradient(
    grad0, grad1, grad2, grad_output, self, weight, mean, spread, training, eps, for_input, for_parameters
):
    others = [d for d in range(self.ndim) if d != 1]
    channels = [self.shape[1] if d == 1 else 1 for d in range(self.ndim)]
    u = grad0 if for_input else None
    v = by_channel(grad1, channels) if for_parameters else None
    r = by_channel(grad2, channels) if for_parameters else None
    w = by_channel(weight, channels)
    if training:
        to_grad, to_self, to_weight = norm_backward_gradient(u, v, r, grad_output, self, w, others, eps, True)
        return to_grad, to_self, to_weight.sum(others)
    to_grad, to_self, to_weight = evaluated_backward_gradient(
        u, v, r, grad_output, self, w, mean.reshape(channels), spread.reshape(channels), eps
    )
    return to_grad, to_self, to_weight.sum(others)


@rule
def batch_norm_of(
    self: "Tensor",
    weight: "Tensor?",
    bias: "Tensor?",
    mean: "Tensor?",
    var: "Tensor?",
    training: "bool",
    momentum: "float",
    eps: "float",
) -> "Tensor":
    """native_batch_norm's first result; an input without elements is its own, and weight and bias have gradients of 0."""
    if self.numel() == 0:
        out = self.clone()
        if weight is not None:
            out = out * weight.select(0, 0)
        if bias is not None:
            out = out + bias.select(0, 0)
        return out
    return op.native_batch_norm(self, weight, bias, mean, var, training, momentum, eps)[0]


# -- its names ---------------------------------------------------------------------------------------


@composite(
    "batch_norm(Tensor self, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool training, float momentum, float eps, bool cudnn_enabled) -> Tensor",
    variants="function",
    samples=lambda t: [((t(3, 4, 5), t(4), t(4), None, None, True, 0.1, 1e-5, True), {})],
    aten=(
        "batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool training, float momentum, float eps, bool cudnn_enabled) -> Tensor",
    ),
    tags=frozenset({"maybe_aliasing_or_mutating"}),
    word="batch_norm",
)
def batch_norm(self, weight, bias, running_mean, running_var, training, momentum, eps, cudnn_enabled):
    """(x - mean) / sqrt(var + eps) per channel, times weight plus bias; the batch's statistics in training."""
    return batch_norm_of(self, weight, bias, running_mean, running_var, training, momentum, eps)


@composite(
    "nn_batch_norm(Tensor self, Tensor? running_mean, Tensor? running_var, Tensor? weight=None, Tensor? bias=None, bool training=False, float momentum=0.1, float eps=1e-05) -> Tensor",
    variants="function",
    samples=lambda t: [((t(3, 4, 5), None, None, t(4), t(4), True), {})],
    aten=(),
)
def nn_batch_norm(self, running_mean, running_var, weight, bias, training, momentum, eps):
    """(x - mean) / sqrt(var + eps) per channel, times weight plus bias; the batch's statistics in training."""
    if training and self.ndim >= 2 and self.numel() == self.shape[1]:
        raise ValueError(
            f"[batch_norm] Expected more than 1 value per channel when training, got input size torch.Size({self.shape})"
        )
    return op.batch_norm(self, weight, bias, running_mean, running_var, training, momentum, eps, True)


@composite(
    "_native_batch_norm_legit(Tensor self, Tensor? weight, Tensor? bias, Tensor(a!) running_mean, Tensor(b!) running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)",
    constants=("running_mean", "running_var"),
    variants="function",
    samples=lambda t: [((t(3, 4, 5), t(4), t(4), t(4), t(4, low=0.5, high=2), False, 0.1, 1e-5), {})],
    aten=(
        "_native_batch_norm_legit(Tensor input, Tensor? weight, Tensor? bias, Tensor(a!) running_mean, Tensor(b!) running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)",
    ),
    core=True,
    whole=True,
)
def _native_batch_norm_legit(self, weight, bias, running_mean, running_var, training, momentum, eps):
    """native_batch_norm with running statistics."""
    return op.native_batch_norm(self, weight, bias, running_mean, running_var, training, momentum, eps)


@composite(
    "_native_batch_norm_legit.no_stats(Tensor self, Tensor? weight, Tensor? bias, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)",
    variants="function",
    samples=lambda t: [((t(3, 4, 5), t(4), t(4), True, 0.1, 1e-5), {})],
    aten=(
        "_native_batch_norm_legit.no_stats(Tensor input, Tensor? weight, Tensor? bias, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)",
    ),
    core=True,
    whole=True,
)
def _native_batch_norm_legit_no_stats(self, weight, bias, training, momentum, eps):
    """native_batch_norm without running statistics."""
    return op.native_batch_norm(self, weight, bias, None, None, training, momentum, eps)


@composite(
    "_native_batch_norm_legit_no_training(Tensor self, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor)",
    constants=("running_mean", "running_var"),
    variants="function",
    samples=lambda t: [((t(3, 4, 5), t(4), t(4), t(4), t(4, low=0.5, high=2), 0.1, 1e-5), {})],
    aten=(
        "_native_batch_norm_legit_no_training(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor)",
    ),
    core=True,
    whole=True,
)
def _native_batch_norm_legit_no_training(self, weight, bias, running_mean, running_var, momentum, eps):
    """native_batch_norm in evaluation."""
    return op.native_batch_norm(self, weight, bias, running_mean, running_var, False, momentum, eps)


@composite(
    "_batch_norm_with_update(Tensor self, Tensor? weight, Tensor? bias, Tensor(a!) running_mean, Tensor(b!) running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor)",
    constants=("running_mean", "running_var"),
    variants="function",
    samples=lambda t: [((t(3, 4, 5), t(4), t(4), t(4), t(4, low=0.5, high=2), 0.0, 1e-5), {})],
    aten=(
        "_batch_norm_with_update(Tensor input, Tensor? weight, Tensor? bias, Tensor(a!) running_mean, Tensor(b!) running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor)",
    ),
    whole=True,
)
def _batch_norm_with_update(self, weight, bias, running_mean, running_var, momentum, eps):
    """native_batch_norm in training, with an empty reserve."""
    out, mean, scale = op.native_batch_norm(self, weight, bias, running_mean, running_var, True, momentum, eps)
    return out, mean, scale, op.empty([0], dtype=dt.uint8, device=self.device)


@composite(
    "_batch_norm_impl_index(Tensor self, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool training, float momentum, float eps, bool cudnn_enabled) -> (Tensor, Tensor, Tensor, Tensor, int)",
    variants="function",
    samples=lambda t: [((t(3, 4, 5), t(4), t(4), None, None, True, 0.1, 1e-5, True), {})],
    aten=(
        "_batch_norm_impl_index(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool training, float momentum, float eps, bool cudnn_enabled) -> (Tensor, Tensor, Tensor, Tensor, int)",
    ),
    tags=frozenset({"maybe_aliasing_or_mutating"}),
)
def _batch_norm_impl_index(self, weight, bias, running_mean, running_var, training, momentum, eps, cudnn_enabled):
    """native_batch_norm with an empty reserve and the number of the implementation, 0."""
    out, mean, scale = op.native_batch_norm(self, weight, bias, running_mean, running_var, training, momentum, eps)
    return out, mean, scale, op.empty([0], dtype=dt.uint8, device=self.device), 0


# -- instances ---------------------------------------------------------------------------------------


@rule
def repeated(t: "Tensor?", times: "int") -> "Tensor?":
    return t if t is None else t.repeat([times])


@rule
def average_of_samples(running: "Tensor?", repeated: "Tensor?", samples: "int") -> "none":
    """Running statistics of all samples' channels become those of the channels."""
    if running is not None:
        running.copy_(repeated.reshape([samples, running.shape[0]]).mean([0]))


@composite(
    "instance_norm(Tensor self, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool use_input_stats, float momentum, float eps, bool cudnn_enabled) -> Tensor",
    variants="function",
    samples=lambda t: [((t(2, 4, 5), t(4), t(4), None, None, True, 0.1, 1e-5, True), {})],
    aten=(
        "instance_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool use_input_stats, float momentum, float eps, bool cudnn_enabled) -> Tensor",
    ),
)
def instance_norm(self, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, cudnn_enabled):
    """batch_norm of every sample by itself."""
    if not use_input_stats and (running_mean is None or running_var is None):
        raise RuntimeError(
            "[instance_norm] Expected running_mean and running_var to be defined when use_input_stats is false"
        )
    if self.ndim < 2:
        raise IndexError(f"[instance_norm] Expected an input of at least 2 dims (N, C, ...), but got {self.shape}")
    n, c = self.shape[0], self.shape[1]
    mean = repeated(running_mean, n)
    var = repeated(running_var, n)
    flat = self.contiguous().view([1, n * c, *self.shape[2:]])
    out = batch_norm_of(flat, repeated(weight, n), repeated(bias, n), mean, var, use_input_stats, momentum, eps)
    if use_input_stats:
        average_of_samples(running_mean, mean, n)
        average_of_samples(running_var, var, n)
    return out.view(self.shape)


@composite(
    "nn_instance_norm(Tensor self, Tensor? running_mean=None, Tensor? running_var=None, Tensor? weight=None, Tensor? bias=None, bool use_input_stats=True, float momentum=0.1, float eps=1e-05) -> Tensor",
    variants="function",
    samples=lambda t: [((t(2, 4, 5), None, None, t(4), t(4)), {})],
    aten=(),
)
def nn_instance_norm(self, running_mean, running_var, weight, bias, use_input_stats, momentum, eps):
    """batch_norm of every sample by itself."""
    if use_input_stats and self.ndim >= 2 and product(self.shape[2:]) == 1:
        raise ValueError(
            f"[instance_norm] Expected more than 1 spatial element when training, got input size torch.Size({self.shape})"
        )
    return op.instance_norm(self, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, True)
