"""The transformer: encoder and decoder layers, their stacks, and both together (Vaswani et al., 2017)."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

from tocha import _C
from tocha.nn import functional as F
from tocha.nn import init
from tocha.nn.modules.activation import GELU, MultiheadAttention, ReLU
from tocha.nn.modules.container import ModuleList
from tocha.nn.modules.dropout import Dropout
from tocha.nn.modules.linear import Linear
from tocha.nn.modules.module import Module
from tocha.nn.modules.normalization import LayerNorm

Tensor = _C.Tensor
_Activation = str | Callable[[Tensor], Tensor]

__all__ = [
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
]


def _generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
    return _C.full((sz, sz), float("-inf"), dtype=dtype, device=device).triu(1)


def _get_seq_len(src: Tensor, batch_first: bool) -> int | None:
    """The length of the sequence; None where src is neither 2-D nor 3-D."""
    if src.is_nested:
        return None
    if src.dim() not in (2, 3):
        return None
    return src.size(1 if batch_first and src.dim() == 3 else 0)


def _detect_is_causal_mask(mask: Tensor | None, is_causal: bool | None = None, size: int | None = None) -> bool:
    """is_causal where it is given, else whether the mask is the causal one."""
    if is_causal is not None or mask is None:
        return is_causal is True
    causal = _generate_square_subsequent_mask(mask.size(-2) if size is None else size, mask.device, mask.dtype)
    return mask.size() == causal.size() and bool((mask == causal).all())


def _float_mask(mask: Tensor | None, name: str, dtype: _C.dtype) -> Tensor | None:
    """The mask as numbers to add to the scores: -inf where a mask of booleans forbids."""
    if mask is None or mask.is_floating_point():
        return mask
    if mask.dtype != _C.bool:
        raise AssertionError(f"only bool and floating types of {name} are supported")
    return _C.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill_(mask, float("-inf"))


def _float_masks(padding: Tensor | None, mask: Tensor | None, mask_name: str, dtype: _C.dtype) -> list[Tensor | None]:
    """src_key_padding_mask and the attention mask, both as numbers."""
    name = "src_key_padding_mask"
    if padding is not None and mask is not None and padding.dtype != mask.dtype:
        warnings.warn(
            f"Support for mismatched {name} and {mask_name} is deprecated. Use same type for both instead.",
            stacklevel=3,
        )
    return [_float_mask(padding, name, dtype), _float_mask(mask, mask_name, dtype)]


def _get_activation_fn(activation: str) -> Callable[[Tensor], Tensor]:
    functions = {"relu": F.relu, "gelu": F.gelu}
    if activation not in functions:
        raise RuntimeError(f"activation should be relu/gelu, not {activation}")
    return functions[activation]


def _get_clones(module: Module, n: int) -> ModuleList:
    copies: list[Any] = [None] * n  # more layers than memory has room for are refused here
    for i in range(n):
        copies[i] = copy.deepcopy(module)
    return ModuleList(copies)


class Transformer(Module):
    """An encoder of the source and a decoder of the target that attends to it.

    >>> import tocha
    >>> model = Transformer(d_model=8, nhead=2, num_encoder_layers=1, num_decoder_layers=1, batch_first=True)
    >>> model(tocha.ones(2, 5, 8), tocha.ones(2, 3, 8)).shape
    tocha.Size([2, 3, 8])
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: _Activation = F.relu,
        custom_encoder: Any = None,
        custom_decoder: Any = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        layer = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias)
        place = {"device": device, "dtype": dtype}
        if custom_encoder is None:
            encoder_layer = TransformerEncoderLayer(*layer, **place)
            norm = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **place)
            custom_encoder = TransformerEncoder(encoder_layer, num_encoder_layers, norm)
        self.encoder = custom_encoder
        if custom_decoder is None:
            decoder_layer = TransformerDecoderLayer(*layer, **place)
            norm = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **place)
            custom_decoder = TransformerDecoder(decoder_layer, num_decoder_layers, norm)
        self.decoder = custom_decoder
        self._reset_parameters()
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """The decoded target, (T, N, E), or (N, T, E) with batch_first, or (T, E)."""
        if src.dim() == 3:
            batch = 0 if self.batch_first else 1
            if src.size(batch) != tgt.size(batch):
                raise RuntimeError("the batch number of src and tgt must be equal")
        if src.size(-1) != self.d_model or tgt.size(-1) != self.d_model:
            raise RuntimeError("the feature number of src and tgt must be equal to d_model")
        memory = self.encoder(src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal)
        return self.decoder(
            tgt, memory, tgt_mask=tgt_mask, memory_mask=memory_mask, tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask, tgt_is_causal=tgt_is_causal, memory_is_causal=memory_is_causal,
        )  # fmt: skip

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
        """The causal mask: -inf above the diagonal.

        >>> Transformer.generate_square_subsequent_mask(2)
        tensor([[0., -inf],
                [0., 0.]])
        """
        return _generate_square_subsequent_mask(sz, device, dtype)

    def _reset_parameters(self) -> None:
        for parameter in self.parameters():
            if parameter.dim() > 1:
                init.xavier_uniform_(parameter)


def _obstacle_to_nested(layer: Module) -> str:
    """Why padding cannot be left out of an encoder's computation; empty where it can."""
    if not isinstance(layer, TransformerEncoderLayer):
        return "encoder_layer was not TransformerEncoderLayer"
    attention = layer.self_attn
    obstacles = (
        (layer.norm_first, "encoder_layer.norm_first was True"),
        (not attention.batch_first, "encoder_layer.self_attn.batch_first was not True(use batch_first for better inference performance)"),
        (not attention._qkv_same_embed_dim, "encoder_layer.self_attn._qkv_same_embed_dim was not True"),
        (attention.in_proj_bias is None, "encoder_layer.self_attn was passed bias=False"),
        (not layer.activation_relu_or_gelu, "encoder_layer.activation_relu_or_gelu was not True"),
        (layer.norm1.eps != layer.norm2.eps, "encoder_layer.norm1.eps was not equal to encoder_layer.norm2.eps"),
        (attention.num_heads % 2 == 1, "encoder_layer.self_attn.num_heads is odd"),
    )  # fmt: skip
    return next((reason for present, reason in obstacles if present), "")


class TransformerEncoder(Module):
    """num_layers copies of an encoder layer, one after the other, and a norm at the end.

    With enable_nested_tensor, inference on sequences padded at their ends gives 0 at the padding, before the norm.

    >>> layer = tocha.nn.TransformerEncoderLayer(8, 2, dim_feedforward=16, batch_first=True)
    >>> encoder = tocha.nn.TransformerEncoder(layer, num_layers=2)
    >>> encoder(tocha.ones(1, 5, 8)).shape
    tocha.Size([1, 5, 8])
    """

    def __init__(
        self,
        encoder_layer: TransformerEncoderLayer,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers = _get_clones(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm
        self.enable_nested_tensor = enable_nested_tensor
        self.use_nested_tensor = enable_nested_tensor
        self.mask_check = mask_check
        obstacle = _obstacle_to_nested(encoder_layer)
        if enable_nested_tensor and obstacle:
            warnings.warn(
                f"enable_nested_tensor is True, but self.use_nested_tensor is False because {obstacle}", stacklevel=2
            )
            self.use_nested_tensor = False

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        """The encoded source; is_causal None finds out whether the mask is causal."""
        padding, mask = _float_masks(src_key_padding_mask, mask, "mask", src.dtype)
        padded = self._padding_to_clear(src, mask, padding)
        is_causal = _detect_is_causal_mask(mask, is_causal, self._sequence_length(src))
        output = src
        for layer in self.layers:
            output = layer(output, src_mask=mask, is_causal=is_causal, src_key_padding_mask=padding)
        if padded is not None:
            output = output.masked_fill(padded.unsqueeze(-1), 0.0)
        return output if self.norm is None else self.norm(output)

    def _sequence_length(self, src: Tensor) -> int | None:
        attention = getattr(self.layers[0], "self_attn", None) if len(self.layers) else None
        return _get_seq_len(src, getattr(attention, "batch_first", False))

    def _padding_to_clear(self, src: Tensor, mask: Tensor | None, padding: Tensor | None) -> Tensor | None:
        """Where inference must give 0: the padding, if it stands at the ends of the sequences. Nobody waits for the answer."""
        if padding is None or mask is not None or src.dim() != 3 or self.training or not self.use_nested_tensor:
            return None
        trains = src.requires_grad or any(p.requires_grad for p in self.parameters())
        if _C.is_grad_enabled() and trains:
            return None
        padded = padding != 0
        return padded & ~(padded[:, :-1] & ~padded[:, 1:]).any()


class TransformerDecoder(Module):
    """num_layers copies of a decoder layer, one after the other, and a norm at the end.

    >>> layer = tocha.nn.TransformerDecoderLayer(8, 2, dim_feedforward=16, batch_first=True)
    >>> decoder = tocha.nn.TransformerDecoder(layer, num_layers=2)
    >>> decoder(tocha.ones(1, 5, 8), tocha.ones(1, 7, 8)).shape
    tocha.Size([1, 5, 8])
    """

    def __init__(self, decoder_layer: TransformerDecoderLayer, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = _get_clones(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """The decoded target; tgt_is_causal None finds out whether tgt_mask is causal."""
        length = _get_seq_len(tgt, self.layers[0].self_attn.batch_first)
        tgt_is_causal = _detect_is_causal_mask(tgt_mask, tgt_is_causal, length)
        output = tgt
        for layer in self.layers:
            output = layer(
                output, memory, tgt_mask=tgt_mask, memory_mask=memory_mask, tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask, tgt_is_causal=tgt_is_causal,
                memory_is_causal=memory_is_causal,
            )  # fmt: skip
        return output if self.norm is None else self.norm(output)


class _TransformerLayer(Module):
    """What encoder and decoder layers share: attention to oneself and the network that follows."""

    activation: Callable[[Tensor], Tensor]

    def _sa_block(
        self, x: Tensor, attn_mask: Tensor | None, key_padding_mask: Tensor | None, is_causal: bool = False
    ) -> Tensor:
        """Attention of the sequence to itself."""
        x = self.self_attn(
            x, x, x, attn_mask=attn_mask, key_padding_mask=key_padding_mask, is_causal=is_causal, need_weights=False
        )[0]
        return self.dropout1(x)

    def _feed_forward(self, x: Tensor) -> Tensor:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))


class TransformerEncoderLayer(_TransformerLayer):
    """Self-attention and a network of two linear layers, each with a residual connection and a norm.

    norm_first normalizes before each part instead of after it. activation is "relu", "gelu" or a function.

    >>> layer = tocha.nn.TransformerEncoderLayer(8, 2, dim_feedforward=16, batch_first=True)
    >>> layer(tocha.ones(1, 5, 8)).shape
    tocha.Size([1, 5, 8])
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: _Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        place = {"device": device, "dtype": dtype}
        super().__init__()
        self.self_attn = MultiheadAttention(
            d_model, nhead, dropout=dropout, bias=bias, batch_first=batch_first, **place
        )
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, **place)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, **place)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **place)
        self.norm2 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **place)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        function = _get_activation_fn(activation) if isinstance(activation, str) else activation
        self.activation_relu_or_gelu = _known_activation(function)
        self.activation = function

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if not hasattr(self, "activation"):
            self.activation = F.relu

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """The encoded source; is_causal says that src_mask is the causal mask."""
        padding, mask = _float_masks(src_key_padding_mask, src_mask, "src_mask", src.dtype)
        x = src
        if self.norm_first:
            x = x + self._sa_block(self.norm1(x), mask, padding, is_causal=is_causal)
            return x + self._ff_block(self.norm2(x))
        x = self.norm1(x + self._sa_block(x, mask, padding, is_causal=is_causal))
        return self.norm2(x + self._ff_block(x))

    def _ff_block(self, x: Tensor) -> Tensor:
        return self.dropout2(self._feed_forward(x))


def _known_activation(function: object) -> int:
    if function is F.relu or isinstance(function, ReLU):
        return 1
    return 2 if function is F.gelu or isinstance(function, GELU) else 0


class TransformerDecoderLayer(_TransformerLayer):
    """Self-attention, attention to the memory and a network of two linear layers, each with residual and norm.

    >>> layer = tocha.nn.TransformerDecoderLayer(8, 2, dim_feedforward=16, batch_first=True)
    >>> layer(tocha.ones(1, 5, 8), tocha.ones(1, 7, 8)).shape
    tocha.Size([1, 5, 8])
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: _Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        place = {"device": device, "dtype": dtype}
        super().__init__()
        self.self_attn = MultiheadAttention(
            d_model, nhead, dropout=dropout, bias=bias, batch_first=batch_first, **place
        )
        self.multihead_attn = MultiheadAttention(
            d_model, nhead, dropout=dropout, bias=bias, batch_first=batch_first, **place
        )
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, **place)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, **place)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **place)
        self.norm2 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **place)
        self.norm3 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **place)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.dropout3 = Dropout(dropout)
        self.activation = _get_activation_fn(activation) if isinstance(activation, str) else activation

    def __setstate__(self, state: dict[str, Any]) -> None:
        state.setdefault("activation", F.relu)
        super().__setstate__(state)

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """The decoded target; the is_causal arguments say that a mask is the causal one."""
        own = (tgt_mask, tgt_key_padding_mask, tgt_is_causal)
        other = (memory_mask, memory_key_padding_mask, memory_is_causal)
        x = tgt
        if self.norm_first:
            x = x + self._sa_block(self.norm1(x), *own)
            x = x + self._mha_block(self.norm2(x), memory, *other)
            return x + self._ff_block(self.norm3(x))
        x = self.norm1(x + self._sa_block(x, *own))
        x = self.norm2(x + self._mha_block(x, memory, *other))
        return self.norm3(x + self._ff_block(x))

    def _mha_block(
        self,
        x: Tensor,
        mem: Tensor,
        attn_mask: Tensor | None,
        key_padding_mask: Tensor | None,
        is_causal: bool = False,
    ) -> Tensor:
        """Attention of the target to the memory."""
        x = self.multihead_attn(
            x, mem, mem, attn_mask=attn_mask, key_padding_mask=key_padding_mask, is_causal=is_causal, need_weights=False
        )[0]
        return self.dropout2(x)

    def _ff_block(self, x: Tensor) -> Tensor:
        return self.dropout3(self._feed_forward(x))
