"""softmax, its logarithm, and the names they go by."""

from __future__ import annotations

from tocha.operators.record import composite, gradient, native, op, rule
from tocha.operators.rules import Out, refuse_dtype, wrap_dim


@rule
def softmax_dtype(self: "Tensor", dim: "int", dtype: "dtype?", name: "str") -> "dtype":
    """The result's dtype; refuses elements that are not floating."""
    wrap_dim(dim, self.ndim)
    result = self.dtype
    if dtype is not None:
        result = dtype
    if not result.is_floating_point and self.numel() > 0:
        kernel = "lastdim_kernel_impl" if dim == -1 or dim == self.ndim - 1 else "kernel_impl"
        raise NotImplementedError(f"[{name}] \"{name}_{kernel}\" not implemented for '{result}'")
    return result


@native(
    "softmax(Tensor self, int dim, dtype? dtype=None) -> Tensor",
    variants="function, method, out",
    aten=("softmax.int",),
)
def softmax(self, dim, dtype):
    """exp(self) / sum(exp(self)) along dim."""
    return Out(self.shape, softmax_dtype(self, dim, dtype, "softmax"))


@gradient(softmax, "self")
def softmax_gradient(grad, self, dim, result):
    return op._softmax_backward_data(grad, result, dim, self.dtype)


@native(
    "log_softmax(Tensor self, int dim, dtype? dtype=None) -> Tensor",
    variants="function, method, out",
    aten=("log_softmax.int",),
)
def log_softmax(self, dim, dtype):
    """log(softmax(self)) along dim, accurate where softmax underflows."""
    return Out(self.shape, softmax_dtype(self, dim, dtype, "log_softmax"))


@gradient(log_softmax, "self")
def log_softmax_gradient(grad, self, dim, result):
    return op._log_softmax_backward_data(grad, result, dim, self.dtype)


@rule
def legacy_softmax_dim(ndim: "int") -> "int":
    """The dim that softmax in nn takes when none is given."""
    return 0 if ndim in (0, 1, 3) else 1


@composite("special_softmax(Tensor self, int dim, dtype? dtype=None) -> Tensor", variants="function")
def special_softmax(self, dim, dtype):
    """exp(self) / sum(exp(self)) along dim."""
    return op.softmax(self, dim, dtype)


@composite("special_log_softmax(Tensor self, int dim, *, dtype? dtype=None) -> Tensor", variants="function")
def special_log_softmax(self, dim, dtype):
    """log(softmax(self)) along dim."""
    return op.log_softmax(self, dim, dtype)


@composite(
    "nn_softmax(Tensor self, int? dim=None, int _stacklevel=3, dtype? dtype=None) -> Tensor",
    variants="function",
    aten=(),
)
def nn_softmax(self, dim, _stacklevel, dtype):
    """exp(input) / sum(exp(input)) along dim."""
    return op.softmax(self, legacy_softmax_dim(self.ndim) if dim is None else dim, dtype)


@composite(
    "nn_log_softmax(Tensor self, int? dim=None, int _stacklevel=3, dtype? dtype=None) -> Tensor",
    variants="function",
    aten=(),
)
def nn_log_softmax(self, dim, _stacklevel, dtype):
    """log(softmax(input)) along dim."""
    return op.log_softmax(self, legacy_softmax_dim(self.ndim) if dim is None else dim, dtype)


@composite(
    "nn_softmin(Tensor self, int? dim=None, int _stacklevel=3, dtype? dtype=None) -> Tensor", variants="function"
)
def nn_softmin(self, dim, _stacklevel, dtype):
    """softmax of -input along dim."""
    return op.softmax(-self, legacy_softmax_dim(self.ndim) if dim is None else dim, dtype)


@composite("_softmax(Tensor self, int dim, bool half_to_float) -> Tensor", variants="function", core=True)
def _softmax(self, dim, half_to_float):
    """softmax without a dtype of its own."""
    return op.softmax(self, dim, None)


@gradient(_softmax, "self")
def whole_softmax_gradient(grad, self, dim, result):
    return op._softmax_backward_data(grad, result, dim, self.dtype)


@composite("_log_softmax(Tensor self, int dim, bool half_to_float) -> Tensor", variants="function", core=True)
def _log_softmax(self, dim, half_to_float):
    """log_softmax without a dtype of its own."""
    return op.log_softmax(self, dim, None)


@gradient(_log_softmax, "self")
def whole_log_softmax_gradient(grad, self, dim, result):
    return op._log_softmax_backward_data(grad, result, dim, self.dtype)


@rule
def check_softmax_backward(grad_output: "Tensor", output: "Tensor", dim: "int", name: "str") -> "none":
    wrap_dim(dim, output.ndim)
    if not output.is_floating_point():
        refuse_dtype(name, output.dtype)
    if grad_output.shape != output.shape:
        raise RuntimeError(f"[{name}] grad_output has shape {grad_output.shape}, output {output.shape}")


@native(
    "_softmax_backward_data(Tensor grad_output, Tensor output, int dim, dtype input_dtype) -> Tensor",
    variants="function",
    samples=lambda t: [((t(3, 4), t(3, 4), 1, t(1).dtype), {})],
    word="softmax_backward_lastdim_kernel_impl",
)
def _softmax_backward_data(grad_output, output, dim, input_dtype):
    """The gradient of softmax's input, from its result and the gradient of that."""
    check_softmax_backward(grad_output, output, dim, "_softmax_backward_data")
    return Out(output.shape, input_dtype)


@gradient(_softmax_backward_data, "grad_output")
def softmax_backward_grad_gradient(grad, output, dim):
    return op._softmax_backward_data(grad.to(output.dtype), output, dim, output.dtype)


@gradient(_softmax_backward_data, "output")
def softmax_backward_output_gradient(grad, grad_output, output, dim):
    centered = grad_output - (grad_output * output).sum([dim], True)
    return grad * centered - grad_output * (grad * output).sum([dim], True)


@native(
    "_log_softmax_backward_data(Tensor grad_output, Tensor output, int dim, dtype input_dtype) -> Tensor",
    variants="function",
    samples=lambda t: [((t(3, 4), t(3, 4), 1, t(1).dtype), {})],
    word="log_softmax_backward_lastdim_kernel_impl",
)
def _log_softmax_backward_data(grad_output, output, dim, input_dtype):
    """The gradient of log_softmax's input, from its result and the gradient of that."""
    check_softmax_backward(grad_output, output, dim, "_log_softmax_backward_data")
    return Out(output.shape, input_dtype)


@gradient(_log_softmax_backward_data, "grad_output")
def log_softmax_backward_grad_gradient(grad, output, dim):
    return grad - (grad * output.exp()).sum([dim], True)


@gradient(_log_softmax_backward_data, "output")
def log_softmax_backward_output_gradient(grad, grad_output, output, dim):
    return -(grad * output.exp() * grad_output.sum([dim], True))
