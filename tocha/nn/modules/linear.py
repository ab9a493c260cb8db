"""Linear and bilinear layers, and the layer that does nothing."""

from __future__ import annotations

import math
from typing import Any

from tocha import _C
from tocha.autograd.grad_mode import no_grad
from tocha.nn import functional as F
from tocha.nn import init
from tocha.nn.modules.lazy import LazyModuleMixin
from tocha.nn.modules.module import Module
from tocha.nn.modules.utils import _fan_in_uniform_
from tocha.nn.parameter import Parameter, UninitializedParameter

Tensor = _C.Tensor

__all__ = ["Bilinear", "Identity", "LazyLinear", "Linear"]


class Identity(Module):
    """Returns its input; takes any arguments and ignores them.

    >>> Identity(54, unused=0.1)(3)
    3
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        """input as it is."""
        return input


class Linear(Module):
    """input @ weight.T + bias over the last dim.

    >>> Linear(3, 2)
    Linear(in_features=3, out_features=2, bias=True)
    """

    in_features: int
    out_features: int
    weight: Tensor
    bias: Tensor | None

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = Parameter(_C.empty((out_features, in_features), device=device, dtype=dtype))
        self.register_parameter("bias", Parameter(_C.empty(out_features, device=device, dtype=dtype)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws weight and bias anew."""
        _fan_in_uniform_(self.weight, self.bias)

    def forward(self, input: Tensor) -> Tensor:
        """(*, in_features) to (*, out_features)."""
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class NonDynamicallyQuantizableLinear(Linear):
    """The output projection of attention: a Linear under a name of its own."""


class Bilinear(Module):
    """input1 @ weight[o] @ input2 + bias for every output o.

    >>> tocha.nn.Bilinear(2, 3, 4)(tocha.ones(5, 2), tocha.ones(5, 3)).shape
    tocha.Size([5, 4])
    """

    in1_features: int
    in2_features: int
    out_features: int
    weight: Tensor
    bias: Tensor | None

    def __init__(
        self, in1_features: int, in2_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:  # fmt: skip
        super().__init__()
        if in1_features <= 0:
            raise ValueError(f"in1_features must be > 0, but got (in1_features={in1_features})")
        self.in1_features = in1_features
        self.in2_features = in2_features
        self.out_features = out_features
        self.weight = Parameter(_C.empty((out_features, in1_features, in2_features), device=device, dtype=dtype))
        self.register_parameter("bias", Parameter(_C.empty(out_features, device=device, dtype=dtype)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws weight and bias anew."""
        bound = 1 / math.sqrt(self.weight.size(1))
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        """(*, in1_features) and (*, in2_features) to (*, out_features)."""
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )


class LazyLinear(LazyModuleMixin, Linear):
    """A Linear that takes in_features from its first input.

    >>> linear = tocha.nn.LazyLinear(4)
    >>> linear(tocha.ones(2, 3)).shape
    tocha.Size([2, 4])
    >>> linear
    Linear(in_features=3, out_features=4, bias=True)
    """

    cls_to_become = Linear  # type: ignore[assignment]

    def __init__(self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None) -> None:
        super().__init__(0, 0, False)
        self.out_features = out_features
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draws weight and bias anew, once their sizes are known."""
        if not self.has_uninitialized_params() and self.in_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:  # type: ignore[override]
        """Gives the parameters the sizes that fit the input, and their first values."""
        if not self.has_uninitialized_params():
            return
        with no_grad():
            self.in_features = input.shape[-1]
            self.weight.materialize((self.out_features, self.in_features))
            if self.bias is not None:
                self.bias.materialize((self.out_features,))
            self.reset_parameters()
