"""Activations as layers, and multi-head attention. Each calls the function of its name in tocha.nn.functional."""

from __future__ import annotations

import warnings
from typing import Any

from tocha import _C
from tocha.backends.mha import get_fastpath_enabled
from tocha.nn import functional as F
from tocha.nn import init
from tocha.nn.modules.linear import NonDynamicallyQuantizableLinear
from tocha.nn.modules.module import Module
from tocha.nn.modules.utils import _arguments, _with_inplace
from tocha.nn.parameter import Parameter

Tensor = _C.Tensor

__all__ = [
    "CELU", "ELU", "GELU", "GLU", "SELU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh", "LeakyReLU", "LogSigmoid",
    "LogSoftmax", "Mish", "MultiheadAttention", "PReLU", "RReLU", "ReLU", "ReLU6", "SiLU", "Sigmoid", "Softmax", "Softmax2d",
    "Softmin", "Softplus", "Softshrink", "Softsign", "Tanh", "Tanhshrink", "Threshold",
]  # fmt: skip


class _InplaceOnly(Module):
    """An activation whose one argument says whether it may overwrite its input."""

    inplace: bool

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def extra_repr(self) -> str:
        return _with_inplace("", self.inplace)


class Sigmoid(Module):
    """1 / (1 + exp(-x)).

    >>> import tocha
    >>> Sigmoid()(tocha.zeros(1))
    tensor([0.5000])
    """

    def forward(self, input: Tensor) -> Tensor:
        """The activation of every element."""
        return _C.sigmoid(input)


class Tanh(Module):
    """The hyperbolic tangent.

    >>> tocha.nn.Tanh()(tocha.tensor([0.0, 1.0]))
    tensor([0.0000, 0.7616])
    """

    def forward(self, input: Tensor) -> Tensor:
        """The activation of every element."""
        return _C.tanh(input)


class LogSigmoid(Module):
    """log(sigmoid(x)), without overflow.

    >>> tocha.nn.LogSigmoid()(tocha.tensor([-1.0, 0.0, 1.0]))
    tensor([-1.3133, -0.6931, -0.3133])
    """

    def forward(self, input: Tensor) -> Tensor:
        """The activation of every element."""
        return F.logsigmoid(input)


class Softsign(Module):
    """x / (1 + |x|).

    >>> tocha.nn.Softsign()(tocha.tensor([-1.0, 0.0, 3.0]))
    tensor([-0.5000,  0.0000,  0.7500])
    """

    def forward(self, input: Tensor) -> Tensor:
        """The activation of every element."""
        return F.softsign(input)


class Tanhshrink(Module):
    """x - tanh(x).

    >>> tocha.nn.Tanhshrink()(tocha.tensor([-1.0, 0.0, 1.0]))
    tensor([-0.2384,  0.0000,  0.2384])
    """

    def forward(self, input: Tensor) -> Tensor:
        """The activation of every element."""
        return F.tanhshrink(input)


class ReLU(_InplaceOnly):
    """x where it is positive, else 0.

    >>> import tocha
    >>> ReLU()(tocha.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """

    def forward(self, input: Tensor) -> Tensor:
        """The activation of every element."""
        return F.relu(input, inplace=self.inplace)


class SELU(_InplaceOnly):
    """elu scaled so that layers keep mean 0 and variance 1.

    >>> tocha.nn.SELU()(tocha.tensor([-1.0, 2.0]))
    tensor([-1.1113,  2.1014])
    """

    def forward(self, input: Tensor) -> Tensor:
        """The activation of every element."""
        return F.selu(input, self.inplace)


class SiLU(_InplaceOnly):
    """x * sigmoid(x).

    >>> tocha.nn.SiLU()(tocha.tensor([-1.0, 0.0, 1.0]))
    tensor([-0.2689,  0.0000,  0.7311])
    """

    def forward(self, input: Tensor) -> Tensor:
        """The activation of every element."""
        return F.silu(input, inplace=self.inplace)


class Mish(_InplaceOnly):
    """x * tanh(softplus(x)).

    >>> tocha.nn.Mish()(tocha.tensor([-1.0, 0.0, 1.0]))
    tensor([-0.3034,  0.0000,  0.8651])
    """

    def forward(self, input: Tensor) -> Tensor:
        """The activation of every element."""
        return F.mish(input, inplace=self.inplace)


class Hardsigmoid(_InplaceOnly):
    """(x + 3) / 6 kept within [0, 1].

    >>> tocha.nn.Hardsigmoid()(tocha.tensor([-4.0, 0.0, 1.5, 4.0]))
    tensor([0.0000, 0.5000, 0.7500, 1.0000])
    """

    def forward(self, input: Tensor) -> Tensor:
        """The activation of every element."""
        return F.hardsigmoid(input, self.inplace)

    def extra_repr(self) -> str:
        return ""


class Hardswish(_InplaceOnly):
    """x * hardsigmoid(x).

    >>> tocha.nn.Hardswish()(tocha.tensor([-1.0, 0.0, 1.5, 4.0]))
    tensor([-0.3333,  0.0000,  1.1250,  4.0000])
    """

    def forward(self, input: Tensor) -> Tensor:
        """The activation of every element."""
        return F.hardswish(input, self.inplace)

    def extra_repr(self) -> str:
        return ""


class Threshold(Module):
    """x where it is above the threshold, else value.

    >>> tocha.nn.Threshold(1.0, -3.0)(tocha.tensor([0.5, 1.0, 2.0]))
    tensor([-3., -3.,  2.])
    """

    threshold: float
    value: float
    inplace: bool

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold = threshold
        self.value = value
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """The activation of every element."""
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        return _with_inplace(_arguments(self, "threshold", "value"), self.inplace)


class RReLU(Module):
    """x where positive, else x times a slope: random within [lower, upper) when training, else the middle.

    >>> tocha.nn.RReLU(0.1, 0.3).eval()(tocha.tensor([-1.0, 2.0]))
    tensor([-0.2000,  2.0000])
    """

    lower: float
    upper: float
    inplace: bool

    def __init__(self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False) -> None:
        super().__init__()
        self.lower = lower
        self.upper = upper
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """The activation of every element."""
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        return _with_inplace(_arguments(self, "lower", "upper"), self.inplace)


def _renamed(old: str, new: str, given: float | None, value: float) -> float:
    """The value of an argument that may still come under its old name."""
    if given is None:
        return value
    warnings.warn(
        f"keyword argument `{old}` is deprecated and renamed to `{new}`", category=FutureWarning, stacklevel=3
    )
    return given


class Hardtanh(Module):
    """x kept within [min_val, max_val].

    >>> Hardtanh(-2, 2)
    Hardtanh(min_val=-2, max_val=2)
    """

    min_val: float
    max_val: float
    inplace: bool

    def __init__(
        self,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:
        super().__init__()
        self.min_val = _renamed("min_value", "min_val", min_value, min_val)
        self.max_val = _renamed("max_value", "max_val", max_value, max_val)
        self.inplace = inplace
        if self.max_val <= self.min_val:
            raise AssertionError(f"max_val ({self.max_val}) must be greater than min_val ({self.min_val})")

    def forward(self, input: Tensor) -> Tensor:
        """The activation of every element."""
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        return _with_inplace(_arguments(self, "min_val", "max_val"), self.inplace)


class ReLU6(Hardtanh):
    """x kept within [0, 6].

    >>> tocha.nn.ReLU6()(tocha.tensor([-1.0, 3.0, 9.0]))
    tensor([0., 3., 6.])
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self) -> str:
        return _with_inplace("", self.inplace)


class _Alpha(Module):
    """An exponential unit: alpha sets how far below 0 it saturates."""

    alpha: float
    inplace: bool

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def extra_repr(self) -> str:
        return _with_inplace(_arguments(self, "alpha"), self.inplace)


class ELU(_Alpha):
    """x where it is positive, else alpha * (exp(x) - 1).

    >>> tocha.nn.ELU()(tocha.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """

    def forward(self, input: Tensor) -> Tensor:
        """The activation of every element."""
        return F.elu(input, self.alpha, self.inplace)


class CELU(_Alpha):
    """x where it is positive, else alpha * (exp(x / alpha) - 1).

    >>> tocha.nn.CELU(alpha=0.5)(tocha.tensor([-1.0, 2.0]))
    tensor([-0.4323,  2.0000])
    """

    def forward(self, input: Tensor) -> Tensor:
        """The activation of every element."""
        return F.celu(input, self.alpha, self.inplace)


class LeakyReLU(Module):
    """x where it is positive, else negative_slope * x.

    >>> tocha.nn.LeakyReLU(0.1)(tocha.tensor([-1.0, 2.0]))
    tensor([-0.1000,  2.0000])
    """

    negative_slope: float
    inplace: bool

    def __init__(self, negative_slope: float = 1e-2, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope = negative_slope
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """The activation of every element."""
        return F.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        return _with_inplace(_arguments(self, "negative_slope"), self.inplace)


class GLU(Module):
    """The first half of the input along dim, times the sigmoid of the second.

    >>> tocha.nn.GLU()(tocha.tensor([[1.0, 2.0, 0.0, 10.0]]))
    tensor([[0.5000, 1.9999]])
    """

    dim: int

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """The gated half."""
        return F.glu(input, self.dim)

    def extra_repr(self) -> str:
        return _arguments(self, "dim")


class GELU(Module):
    """x times the probability that a normal variable is below it; approximate="tanh" is cheaper.

    >>> tocha.nn.GELU()(tocha.tensor([-1.0, 0.0, 1.0]))
    tensor([-0.1587,  0.0000,  0.8413])
    """

    approximate: str

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        """The activation of every element."""
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class _Shrink(Module):
    """An activation that zeroes what lies within lambd of 0."""

    lambd: float

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def extra_repr(self) -> str:
        return str(self.lambd)


class Hardshrink(_Shrink):
    """x beyond lambd of 0, else 0.

    >>> tocha.nn.Hardshrink(0.5)(tocha.tensor([-1.0, 0.3, 0.6]))
    tensor([-1.0000,  0.0000,  0.6000])
    """

    def forward(self, input: Tensor) -> Tensor:
        """The activation of every element."""
        return F.hardshrink(input, self.lambd)


class Softshrink(_Shrink):
    """x moved toward 0 by lambd, and 0 within it.

    >>> tocha.nn.Softshrink(0.5)(tocha.tensor([-1.0, 0.25, 0.75]))
    tensor([-0.5000,  0.0000,  0.2500])
    """

    def forward(self, input: Tensor) -> Tensor:
        """The activation of every element."""
        return F.softshrink(input, self.lambd)


class Softplus(Module):
    """log(1 + exp(beta * x)) / beta, a smooth relu; x itself where beta * x is above the threshold.

    >>> tocha.nn.Softplus()(tocha.tensor([-1.0, 0.0, 30.0]))
    tensor([ 0.3133,  0.6931, 30.0000])
    """

    beta: float
    threshold: float

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: Tensor) -> Tensor:
        """The activation of every element."""
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        return _arguments(self, "beta", "threshold")


class PReLU(Module):
    """x where it is positive, else x times a learned slope: one for all, or one per channel.

    >>> prelu = tocha.nn.PReLU()
    >>> prelu(tocha.tensor([-2.0, 3.0])).detach()
    tensor([-0.5000,  3.0000])
    """

    num_parameters: int

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(_C.empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Sets every slope to init."""
        init.constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        """The activation of every element."""
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return _arguments(self, "num_parameters")


# How far from a warning in a function of nn.functional the call of the module is that led there.
_AT_THE_CALL = 5


class _AlongDim(Module):
    """A normalization along one dim."""

    dim: int | None

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def extra_repr(self) -> str:
        return _arguments(self, "dim")


class Softmin(_AlongDim):
    """softmax of -x.

    >>> tocha.nn.Softmin(dim=-1)(tocha.tensor([1.0, 2.0, 3.0]))
    tensor([0.6652, 0.2447, 0.0900])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Positive numbers that sum to 1 along dim."""
        return F.softmin(input, self.dim, _stacklevel=_AT_THE_CALL)


class Softmax(_AlongDim):
    """exp(x) / sum(exp(x)) along dim.

    >>> tocha.nn.Softmax(dim=-1)(tocha.tensor([1.0, 2.0, 3.0]))
    tensor([0.0900, 0.2447, 0.6652])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Positive numbers that sum to 1 along dim."""
        return F.softmax(input, self.dim, _stacklevel=_AT_THE_CALL)


class LogSoftmax(_AlongDim):
    """log(softmax(x)), without overflow.

    >>> tocha.nn.LogSoftmax(dim=-1)(tocha.tensor([1.0, 2.0, 3.0]))
    tensor([-2.4076, -1.4076, -0.4076])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Log probabilities along dim."""
        return F.log_softmax(input, self.dim, _stacklevel=_AT_THE_CALL)


class Softmax2d(Module):
    """softmax over the channels of (N, C, H, W) or (C, H, W).

    >>> tocha.nn.Softmax2d()(tocha.zeros(1, 2, 1, 1)).flatten()
    tensor([0.5000, 0.5000])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Positive numbers that sum to 1 over the channels."""
        if input.dim() not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead")
        return F.softmax(input, -3)


class MultiheadAttention(Module):
    """Attention in several heads: each projects query, key and value to its own part of embed_dim.

    kdim and vdim are the widths of key and value where they differ from embed_dim; add_bias_kv appends a learned
    key and value to the sequence, add_zero_attn a zero one. Inputs are (L, N, E), or (N, L, E) with batch_first, or
    (L, E) without a batch.

    >>> import tocha
    >>> attention = MultiheadAttention(8, 2, batch_first=True)
    >>> x = tocha.ones(1, 3, 8)
    >>> output, weights = attention(x, x, x)
    >>> output.shape, weights.shape
    (tocha.Size([1, 3, 8]), tocha.Size([1, 3, 3]))
    """

    bias_k: Tensor | None
    bias_v: Tensor | None

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and num_heads={num_heads} instead"
            )
        super().__init__()
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise AssertionError("embed_dim must be divisible by num_heads")

        def parameter(*size: int) -> Parameter:
            return Parameter(_C.empty(size, device=device, dtype=dtype))

        widths = {"q_proj_weight": embed_dim, "k_proj_weight": self.kdim, "v_proj_weight": self.vdim}
        if self._qkv_same_embed_dim:
            self.in_proj_weight = parameter(3 * embed_dim, embed_dim)
            for name in widths:
                self.register_parameter(name, None)
        else:
            for name, width in widths.items():
                self.register_parameter(name, parameter(embed_dim, width))
            self.register_parameter("in_proj_weight", None)
        self.register_parameter("in_proj_bias", parameter(3 * embed_dim) if bias else None)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias=bias, device=device, dtype=dtype)
        self.bias_k = parameter(1, 1, embed_dim) if add_bias_kv else None
        self.bias_v = parameter(1, 1, embed_dim) if add_bias_kv else None
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        if self._qkv_same_embed_dim:
            init.xavier_uniform_(self.in_proj_weight)
        else:
            for weight in (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
                init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            init.constant_(self.in_proj_bias, 0.0)
            init.constant_(self.out_proj.bias, 0.0)
        for appended in (self.bias_k, self.bias_v):
            if appended is not None:
                init.xavier_normal_(appended)

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Modules pickled before key and value could have widths of their own lack the mark.
        state.setdefault("_qkv_same_embed_dim", True)
        super().__setstate__(state)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """The attended values and, with need_weights, the attention weights (averaged over heads, or of each).

        Masks are True (or -inf) where attention is forbidden; is_causal says that attn_mask is the causal mask.
        """
        if query.is_nested or key.is_nested or value.is_nested:
            return self._attend_within(query, key, value, attn_mask is None and key_padding_mask is None), None
        batch_first = self.batch_first and query.dim() == 3
        if batch_first:
            query, key, value = _sequence_first(query, key, value)
        output, weights = F.multi_head_attention_forward(
            query, key, value, self.embed_dim, self.num_heads, self.in_proj_weight, self.in_proj_bias,
            self.bias_k, self.bias_v, self.add_zero_attn, self.dropout, self.out_proj.weight, self.out_proj.bias,
            training=self.training, key_padding_mask=key_padding_mask, need_weights=need_weights, attn_mask=attn_mask,
            use_separate_proj_weight=not self._qkv_same_embed_dim, q_proj_weight=self.q_proj_weight,
            k_proj_weight=self.k_proj_weight, v_proj_weight=self.v_proj_weight,
            average_attn_weights=average_attn_weights, is_causal=is_causal,
        )  # fmt: skip
        if not batch_first:
            return output, weights
        output = output.transpose(0, 1)
        # What PyTorch's kernel for inference gives is contiguous.
        return (output.contiguous() if self._slow_because(query, key, value) is None else output), weights

    def _slow_because(self, query: Tensor, key: Tensor, value: Tensor) -> str | None:
        """Why PyTorch would not run its kernel for inference, or None."""
        trains = query.requires_grad or any(p.requires_grad for p in self.parameters())
        obstacles = {
            "training is enabled": self.training,
            "grad is enabled and at least one of query or the input/output projection weights or biases requires_grad": _C.is_grad_enabled()
            and trains,
            "non-self attention was used (query, key, and value are not the same Tensor)": not (query is key is value),
            "batch_first was not True": not self.batch_first,
            "key and value have sizes of their own": not self._qkv_same_embed_dim,
            "in_proj_bias was None": self.in_proj_bias is None,
            "self.bias_k was not None": self.bias_k is not None,
            "add_zero_attn was enabled": self.add_zero_attn,
            "self.num_heads is not even": self.num_heads % 2 != 0,
            "torch.backends.mha.get_fastpath_enabled() was not True": not get_fastpath_enabled(),
        }
        return next((text for text, found in obstacles.items() if found), None)

    def _attend_within(self, query: Tensor, key: Tensor, value: Tensor, unmasked: bool) -> Tensor:
        """The self-attention of a nested tensor, each component for itself; in inference only, as in PyTorch."""
        why = self._slow_because(query, key, value)
        if why is None and not unmasked:
            why = "masks were given beside a nested tensor"
        if why is not None:
            raise AssertionError(
                f"MultiheadAttention does not support NestedTensor outside of its fast path. The fast path was not hit because {why}"
            )

        def attend(part: Tensor) -> Tensor:
            return F.multi_head_attention_forward(
                part, part, part, self.embed_dim, self.num_heads, self.in_proj_weight, self.in_proj_bias, self.bias_k,
                self.bias_v, self.add_zero_attn, 0.0, self.out_proj.weight, self.out_proj.bias, training=False, need_weights=False,
            )[0]  # fmt: skip

        return query._map_components(attend)  # type: ignore[attr-defined]

    def merge_masks(
        self, attn_mask: Tensor | None, key_padding_mask: Tensor | None, query: Tensor
    ) -> tuple[Tensor | None, int | None]:
        """One mask from both, and its kind: 0 for attn_mask alone, 1 for key_padding_mask alone, 2 for (N, heads, L, S)."""
        if attn_mask is None:
            return key_padding_mask, None if key_padding_mask is None else 1
        batch, length = query.shape[:2]
        if attn_mask.dim() == 3:
            merged = attn_mask.view(batch, -1, length, length)
        else:
            merged = attn_mask.view(1, 1, length, length).expand(batch, self.num_heads, -1, -1)
        if key_padding_mask is not None:
            merged = merged + key_padding_mask.view(batch, 1, 1, length).expand(-1, self.num_heads, -1, -1)
        return merged, 2


def _sequence_first(*inputs: Tensor) -> list[Tensor]:
    """(N, L, E) to (L, N, E); an input given twice stays one tensor, so that it is projected once."""
    turned = {id(x): x.transpose(0, 1) for x in inputs}
    return [turned[id(x)] for x in inputs]
