"""Layer, group and root-mean-square normalization, and response normalization across channels."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any

from tocha import _C
from tocha.nn import functional as F
from tocha.nn import init
from tocha.nn.modules.module import Module
from tocha.nn.modules.utils import _arguments
from tocha.nn.parameter import Parameter

Tensor = _C.Tensor

__all__ = ["CrossMapLRN2d", "GroupNorm", "LayerNorm", "LocalResponseNorm", "RMSNorm"]


class LocalResponseNorm(Module):
    """x / (k + alpha * mean of squares over `size` neighbouring channels) ** beta.

    >>> tocha.nn.LocalResponseNorm(2, alpha=1.0)(tocha.ones(1, 3, 1))
    tensor([[[0.7378],
             [0.5946],
             [0.5946]]])
    """

    size: int
    alpha: float
    beta: float
    k: float

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Tensor) -> Tensor:
        """The normalized (N, C, *) input."""
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, {_arguments(self, 'alpha', 'beta', 'k')}"


class CrossMapLRN2d(Module):
    """x / (k + alpha / size * sum of squares over neighbouring channels) ** beta, of (N, C, H, W).

    The window of a channel reaches (size - 1) // 2 channels back and forward and, as in PyTorch, also has channel 0.

    >>> tocha.nn.CrossMapLRN2d(2, alpha=1.0)(tocha.ones(1, 3, 1, 1)).flatten()
    tensor([0.7378, 0.5946, 0.5946])
    """

    size: int
    alpha: float
    beta: float
    k: float

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Tensor) -> Tensor:
        """The normalized input."""
        if input.dim() != 4:
            raise ValueError(f"CrossMapLRN2d: Expected input to be 4D, got {input.dim()}D instead.")
        reach = (self.size - 1) // 2
        squares = input.square()
        sums = F.pad(squares, (0, 0, 0, 0, reach, reach)).unfold(1, 2 * reach + 1, 1).sum(-1)
        beyond_first = _C.arange(input.size(1), device=input.device) > reach
        sums = sums + squares[:, :1] * beyond_first.view(1, -1, 1, 1)
        return input * (self.k + self.alpha / self.size * sums).pow(-self.beta)

    def extra_repr(self) -> str:
        return f"{self.size}, {_arguments(self, 'alpha', 'beta', 'k')}"


def _shape(normalized_shape: int | Sequence[int]) -> tuple[int, ...]:
    if isinstance(normalized_shape, numbers.Integral):
        return (int(normalized_shape),)
    return tuple(normalized_shape)  # type: ignore[arg-type]


class LayerNorm(Module):
    """(x - mean) / sqrt(var + eps) over the last dims, times weight plus bias.

    >>> LayerNorm(4)
    LayerNorm((4,), eps=1e-05, elementwise_affine=True, bias=True)
    """

    normalized_shape: tuple[int, ...]
    eps: float
    elementwise_affine: bool

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        for name, wanted in (("weight", elementwise_affine), ("bias", elementwise_affine and bias)):
            self.register_parameter(
                name, Parameter(_C.empty(self.normalized_shape, device=device, dtype=dtype)) if wanted else None
            )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Makes the affine part the identity."""
        if self.elementwise_affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        """The normalized input."""
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, {_arguments(self, 'eps', 'elementwise_affine')}, bias={self.bias is not None}"


class GroupNorm(Module):
    """(x - mean) / sqrt(var + eps) within groups of channels, times weight plus bias per channel.

    >>> tocha.nn.GroupNorm(2, 4)(tocha.tensor([[1.0, 3.0, 10.0, 20.0]])).detach()
    tensor([[-1.0000,  1.0000, -1.0000,  1.0000]])
    """

    num_groups: int
    num_channels: int
    eps: float
    affine: bool

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_channels % num_groups != 0:
            raise ValueError(f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})")
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        for name, wanted in (("weight", affine), ("bias", affine and bias)):
            self.register_parameter(
                name, Parameter(_C.empty(num_channels, device=device, dtype=dtype)) if wanted else None
            )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Makes the affine part the identity."""
        if self.affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        """The normalized (N, C, *) input."""
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.num_groups}, {self.num_channels}, {_arguments(self, 'eps', 'affine')}, bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """x / sqrt(mean(x^2) + eps) over the last dims, times weight; eps None is the dtype's own epsilon.

    >>> tocha.nn.RMSNorm(2)(tocha.tensor([[3.0, 4.0]])).detach()
    tensor([[0.8485, 1.1314]])
    """

    normalized_shape: tuple[int, ...]
    eps: float | None
    elementwise_affine: bool

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        weight = Parameter(_C.empty(self.normalized_shape, device=device, dtype=dtype)) if elementwise_affine else None
        self.register_parameter("weight", weight)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Sets the weight to 1."""
        if self.elementwise_affine:
            init.ones_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        """The normalized input."""
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, {_arguments(self, 'eps', 'elementwise_affine')}"
