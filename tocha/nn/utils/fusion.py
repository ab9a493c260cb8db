"""A batch normalization taken into the layer before it, for use after training."""

from __future__ import annotations

import copy
from typing import Any

from tocha import _C
from tocha.nn.parameter import Parameter

__all__ = ["fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"]

Tensor = _C.Tensor


def _check_eval(layer: Any, bn: Any) -> None:
    if layer.training or bn.training:
        raise AssertionError("Fusion only for eval!")


def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """One convolution that does what conv and bn do one after the other, both in eval mode.

    >>> conv, norm = tocha.nn.Conv2d(3, 4, 3).eval(), tocha.nn.BatchNorm2d(4).eval()
    >>> fused = tocha.nn.utils.fuse_conv_bn_eval(conv, norm)
    >>> x = tocha.randn(1, 3, 5, 5)
    >>> tocha.allclose(fused(x), norm(conv(x)), atol=1e-5)
    True
    """
    _check_eval(conv, bn)
    fused = copy.deepcopy(conv)
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("BN running mean and variance must not be None for fusion")
    fused.weight, fused.bias = fuse_conv_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias, transpose
    )
    return fused


def _fused(
    weight: Tensor,
    bias: Tensor | None,
    mean: Tensor,
    var: Tensor,
    eps: float,
    scale: Tensor,
    shift: Tensor,
    shape: list[int],
) -> tuple[Parameter, Parameter]:
    bias_dtype = weight.dtype if bias is None else bias.dtype
    given = _C.zeros_like(mean) if bias is None else bias
    factor = scale * _C.rsqrt(var + eps)
    new_weight = (weight * factor.reshape(shape)).to(weight.dtype)
    new_bias = ((given - mean) * factor + shift).to(bias_dtype)
    return (
        Parameter(new_weight.detach(), weight.requires_grad),
        Parameter(new_bias.detach(), given.requires_grad),
    )


def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """Weight and bias of a convolution with a batch normalization's statistics and scale taken in.

    >>> w, b = tocha.nn.utils.fuse_conv_bn_weights(tocha.ones(1, 1, 1), tocha.zeros(1), tocha.tensor([2.0]), tocha.tensor([4.0]), 0.0, tocha.tensor([3.0]), tocha.tensor([1.0]))
    >>> w.flatten(), b
    (tensor([1.5000]), Parameter containing:
    tensor([-2.]))
    """
    shape = [1, -1] if transpose else [-1, 1]
    shape += [1] * (conv_w.dim() - 2)
    scale = _C.ones_like(bn_rm) if bn_w is None else bn_w
    shift = _C.zeros_like(bn_rm) if bn_b is None else bn_b
    return _fused(conv_w, conv_b, bn_rm, bn_rv, bn_eps, scale, shift, shape)


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """One linear layer that does what linear and bn do one after the other, both in eval mode.

    >>> linear, norm = tocha.nn.Linear(3, 4).eval(), tocha.nn.BatchNorm1d(4).eval()
    >>> fused = tocha.nn.utils.fuse_linear_bn_eval(linear, norm)
    >>> x = tocha.randn(2, 3)
    >>> tocha.allclose(fused(x), norm(linear(x)), atol=1e-5)
    True
    """
    _check_eval(linear, bn)
    fused = copy.deepcopy(linear)
    if not (linear.out_features == bn.num_features or bn.num_features == 1):
        raise AssertionError("To fuse, linear.out_features == bn.num_features or bn.num_features == 1")
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("BN running mean and variance must not be None for fusion")
    fused.weight, fused.bias = fuse_linear_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    )
    return fused


def fuse_linear_bn_weights(
    linear_w: Tensor,
    linear_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor,
    bn_b: Tensor,
) -> tuple[Parameter, Parameter]:
    """Weight and bias of a linear layer with a batch normalization's statistics and scale taken in.

    >>> w, b = tocha.nn.utils.fuse_linear_bn_weights(tocha.ones(1, 2), tocha.zeros(1), tocha.tensor([2.0]), tocha.tensor([4.0]), 0.0, tocha.tensor([3.0]), tocha.tensor([1.0]))
    >>> w, b
    (Parameter containing:
    tensor([[1.5000, 1.5000]]), Parameter containing:
    tensor([-2.]))
    """
    return _fused(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, [-1, 1])
