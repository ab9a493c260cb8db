"""Gradients of convolutions as functions, under torch.nn.grad's names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tocha import _C
from tocha.nn import functional as F

Tensor = _C.Tensor

__all__ = ["conv1d_input", "conv1d_weight", "conv2d_input", "conv2d_weight", "conv3d_input", "conv3d_weight"]


def _pulled_back(function: Callable[[Tensor], Tensor], at: Tensor, grad_output: Tensor) -> Tensor:
    """The gradient of a linear function; differentiable where gradients are recorded."""
    from tocha import autograd

    record = _C.is_grad_enabled()
    with autograd.enable_grad():
        variable = at.requires_grad_()
        return autograd.grad(function(variable), variable, grad_output, create_graph=record)[0]


def _input_gradient(name: str, input_size: Sequence[int], weight: Tensor, grad_output: Tensor, *options: Any) -> Tensor:
    convolve = getattr(F, name)
    at = _C.zeros(input_size, dtype=grad_output.dtype, device=grad_output.device)
    return _pulled_back(lambda x: convolve(x, weight, None, *options), at, grad_output)


def _weight_gradient(
    name: str, input: Tensor, weight_size: Sequence[int], grad_output: Tensor, *options: Any
) -> Tensor:
    convolve = getattr(F, name)
    at = _C.zeros(weight_size, dtype=grad_output.dtype, device=grad_output.device)
    return _pulled_back(lambda w: convolve(input, w, None, *options), at, grad_output)


def _function(name: str, of: str) -> Callable[..., Tensor]:
    """convNd_input or convNd_weight."""
    if of == "input":

        def gradient(  # type: ignore[misc]
            input_size: Sequence[int], weight: Tensor, grad_output: Tensor,
            stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1,
        ) -> Tensor:  # fmt: skip
            return _input_gradient(name, input_size, weight, grad_output, stride, padding, dilation, groups)
    else:

        def gradient(  # type: ignore[misc]
            input: Tensor, weight_size: Sequence[int], grad_output: Tensor,
            stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1,
        ) -> Tensor:  # fmt: skip
            return _weight_gradient(name, input, weight_size, grad_output, stride, padding, dilation, groups)

    gradient.__name__ = gradient.__qualname__ = f"{name}_{of}"
    gradient.__doc__ = f"The gradient of {name} with respect to its {of}."
    return gradient


conv1d_input, conv1d_weight = _function("conv1d", "input"), _function("conv1d", "weight")
conv2d_input, conv2d_weight = _function("conv2d", "input"), _function("conv2d", "weight")
conv3d_input, conv3d_weight = _function("conv3d", "input"), _function("conv3d", "weight")
