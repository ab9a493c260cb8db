"""Attention with several heads, as torch.nn.functional has it: projections, heads, masks, and the weights if asked for.

The kernel is scaled_dot_product_attention (tocha/operators/attention.py); nn.MultiheadAttention calls this.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence

from tocha import _C

Tensor = _C.Tensor
_nn = _C._nn

__all__ = ["multi_head_attention_forward"]


def _check_shapes(
    query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor | None, attn_mask: Tensor | None, num_heads: int
) -> bool:
    """Whether there is a batch dim; refuses ranks that do not go together."""
    if query.dim() not in (2, 3):
        raise AssertionError(
            f"query should be unbatched 2D or batched 3D tensor but received {query.dim()}-D query tensor"
        )
    batched = query.dim() == 3
    kind = "batched (3-D)" if batched else "unbatched (2-D)"
    if key.dim() != query.dim() or value.dim() != query.dim():
        raise AssertionError(
            f"For {kind} `query`, expected `key` and `value` to be {query.dim()}-D but found {key.dim()}-D and {value.dim()}-D tensors respectively"
        )
    if key_padding_mask is not None and key_padding_mask.dim() != query.dim() - 1:
        raise AssertionError(
            f"For {kind} `query`, expected `key_padding_mask` to be `None` or {query.dim() - 1}-D but found {key_padding_mask.dim()}-D tensor instead"
        )
    if attn_mask is not None:
        if attn_mask.dim() not in (2, 3):
            raise AssertionError(
                f"For {kind} `query`, expected `attn_mask` to be `None`, 2-D or 3-D but found {attn_mask.dim()}-D tensor instead"
            )
        expected = (num_heads, query.shape[0], key.shape[0])
        if not batched and attn_mask.dim() == 3 and tuple(attn_mask.shape) != expected:
            raise AssertionError(f"Expected `attn_mask` shape to be {expected} but got {tuple(attn_mask.shape)}")
    return batched


def _as_bias(mask: Tensor | None, name: str, dtype: _C.dtype) -> Tensor | None:
    """A mask as what is added to scores: minus infinity where a bool mask is True."""
    if mask is None:
        return None
    if mask.dtype == _C.bool:
        return _C.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill_(mask, -math.inf)
    if not mask.is_floating_point():
        raise AssertionError(f"only bool and floating types of {name} are supported, but got {mask.dtype}")
    return mask


Triple = tuple[Tensor, Tensor, Tensor]
_NO_BIASES: tuple[None, None, None] = (None, None, None)


def _projected(inputs: Triple, weight: Tensor | None, bias: Tensor | None) -> Triple:
    """Query, key and value through one packed weight: as few products as the inputs are different tensors."""
    query, key, value = inputs
    if key.shape != value.shape:
        raise AssertionError(f"key shape {key.shape} does not match value shape {value.shape}")
    if weight is None:
        raise AssertionError("use_separate_proj_weight is False but in_proj_weight is None")
    width = query.shape[-1]
    if key is value and query is key:
        q, k, v = _nn.linear(query, weight, bias).split(width, -1)
        return q, k, v
    if key is value:
        own, shared = weight.split([width, 2 * width])
        own_bias, shared_bias = (None, None) if bias is None else bias.split([width, 2 * width])
        k, v = _nn.linear(key, shared, shared_bias).split(width, -1)
        return _nn.linear(query, own, own_bias), k, v
    return _linear_each(inputs, weight.chunk(3), bias)


def _projected_apart(inputs: Triple, weights: tuple[Tensor | None, ...], bias: Tensor | None) -> Triple:
    """Query, key and value through weights of their own."""
    query, key, value = inputs
    if key.shape[:2] != value.shape[:2]:
        raise AssertionError(f"key's sequence and batch dims {key.shape[:2]} do not match value's {value.shape[:2]}")
    for name, weight, x in zip("qkv", weights, inputs, strict=True):
        expected = (query.shape[-1], x.shape[-1])
        if weight is None:
            raise AssertionError(f"use_separate_proj_weight is True but {name}_proj_weight is None")
        if tuple(weight.shape) != expected:
            raise AssertionError(f"expecting {name}_proj_weight of shape {expected}, but got {tuple(weight.shape)}")
    return _linear_each(inputs, tuple(w for w in weights if w is not None), bias)


def _linear_each(inputs: Triple, weights: Sequence[Tensor], bias: Tensor | None) -> Triple:
    biases: Sequence[Tensor | None] = _NO_BIASES if bias is None else bias.chunk(3)
    q, k, v = (_nn.linear(x, w, b) for x, w, b in zip(inputs, weights, biases, strict=True))
    return q, k, v


def _heads(x: Tensor, num_heads: int) -> Tensor:
    """[tokens, batch, width] as [batch, heads, tokens, width / heads], without a copy."""
    length, batch, width = x.shape
    return x.view(length, batch, num_heads, width // num_heads).permute(1, 2, 0, 3)


def _static(x: Tensor, name: str, q: Tensor) -> Tensor:
    """A key or value that is given ready, as heads like q's."""
    batch, num_heads, _, head_dim = q.shape
    if x.shape[0] != batch * num_heads or x.shape[2] != head_dim:
        raise AssertionError(
            f"expecting {name} of sizes {(batch * num_heads, '*', head_dim)}, but got {tuple(x.shape)}"
        )
    return x.view(batch, num_heads, x.shape[1], head_dim)


def _one_more(mask: Tensor | None) -> Tensor | None:
    """A mask for one more key, which everyone may look at."""
    if mask is None:
        return None
    return _C.cat([mask, _C.zeros((*mask.shape[:-1], 1), dtype=mask.dtype, device=mask.device)], -1)


def _joined_masks(attn_mask: Tensor | None, key_padding_mask: Tensor | None, q: Tensor, k: Tensor) -> Tensor | None:
    """One bias that broadcasts to [batch, heads, tokens, keys]."""
    batch, num_heads, tokens, _ = q.shape
    keys = k.shape[2]
    if attn_mask is not None and attn_mask.dim() == 3:
        attn_mask = attn_mask.view(batch, num_heads, tokens, keys)
    if key_padding_mask is None:
        return attn_mask
    if tuple(key_padding_mask.shape) != (batch, keys):
        raise AssertionError(
            f"expecting key_padding_mask shape of {(batch, keys)}, but got {tuple(key_padding_mask.shape)}"
        )
    padding = key_padding_mask.view(batch, 1, 1, keys)
    return padding if attn_mask is None else attn_mask + padding


def _with_batch(query: Tensor, key: Tensor, value: Tensor) -> Triple:
    """A batch of one; inputs that are one tensor stay one."""
    q = query.unsqueeze(1)
    k = q if key is query else key.unsqueeze(1)
    return q, k, k if value is key else value.unsqueeze(1)


def _check_width(width: int, expected: int, num_heads: int) -> None:
    if width != expected:
        raise AssertionError(f"was expecting embedding dimension of {expected}, but got {width}")
    if width % num_heads != 0:
        raise AssertionError(f"embed_dim {width} not divisible by num_heads {num_heads}")


def _biases(
    key_padding_mask: Tensor | None, attn_mask: Tensor | None, dtype: _C.dtype
) -> tuple[Tensor | None, Tensor | None]:
    """Both masks as what is added to scores."""
    if key_padding_mask is not None and attn_mask is not None and key_padding_mask.dtype != attn_mask.dtype:
        warnings.warn(
            "Support for mismatched key_padding_mask and attn_mask is deprecated. Use same type for both instead.",
            stacklevel=3,
        )
    return _as_bias(key_padding_mask, "key_padding_mask", dtype), _as_bias(attn_mask, "attn_mask", dtype)


def _scores(q: Tensor, k: Tensor, mask: Tensor | None) -> Tensor:
    """q @ k^T + mask, rounded once."""
    across = k.transpose(-2, -1)
    if mask is None:
        return q @ across
    shape = (*q.shape[:-1], k.shape[2])
    if mask.dim() > 2:
        mask = mask.expand(shape).flatten(0, 1)
    return _C.baddbmm(mask, q.flatten(0, 1), across.flatten(0, 1)).view(shape)


def _with_weights(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, dropout: float) -> tuple[Tensor, Tensor]:
    """The heads' results and the weights that they are means with."""
    weights = _C.softmax(_scores(q * math.sqrt(1.0 / q.shape[-1]), k, mask), -1)
    if dropout > 0.0:
        weights = _C.dropout(weights, dropout, True)
    return weights @ v, weights


def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Projects query, key and value into heads, attends in each, and projects what comes out.

    Inputs are [tokens, batch, width] or [tokens, width]. in_proj_weight holds the three projections one above the
    other; with use_separate_proj_weight they are given apart. bias_k and bias_v are one more key and value, as is what
    add_zero_attn adds; static_k and static_v stand in for the projected key and value. key_padding_mask
    ([batch, keys]) and attn_mask ([tokens, keys], or one for every head of the batch) are True, or minus infinity,
    where not to look; is_causal says that attn_mask is the causal one. Returns the result and, with need_weights, the
    attention weights: their mean over the heads, or those of every head without average_attn_weights.

    >>> import tocha
    >>> x, eye = tocha.ones(3, 1, 2), tocha.eye(2)
    >>> out, weights = multi_head_attention_forward(
    ...     x, x, x, 2, 1, tocha.cat([eye, eye, eye]), None, None, None, False, 0.0, eye, None
    ... )
    >>> tuple(out.shape), weights[0, 0]
    ((3, 1, 2), tensor([0.3333, 0.3333, 0.3333]))
    """
    batched = _check_shapes(query, key, value, key_padding_mask, attn_mask, num_heads)
    if not batched:
        query, key, value = _with_batch(query, key, value)
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    tokens, batch, width = query.shape
    _check_width(width, embed_dim_to_check, num_heads)
    if is_causal and attn_mask is None:
        raise RuntimeError("Need attn_mask if specifying the is_causal hint.")
    causal_kernel = is_causal and key_padding_mask is None and not need_weights
    key_padding_mask, attn_mask = _biases(key_padding_mask, None if causal_kernel else attn_mask, query.dtype)
    if use_separate_proj_weight:
        apart = (q_proj_weight, k_proj_weight, v_proj_weight)
        q, k, v = _projected_apart((query, key, value), apart, in_proj_bias)
    else:
        q, k, v = _projected((query, key, value), in_proj_weight, in_proj_bias)
    if attn_mask is not None:
        shape = (tokens, key.shape[0]) if attn_mask.dim() == 2 else (batch * num_heads, tokens, key.shape[0])
        if tuple(attn_mask.shape) != shape:
            raise RuntimeError(
                f"The shape of the {attn_mask.dim()}D attn_mask is {attn_mask.shape}, but should be {shape}."
            )
    if (bias_k is None) != (bias_v is None):
        raise AssertionError("bias_k and bias_v are given both or not at all")
    if bias_k is not None and bias_v is not None:
        if static_k is not None or static_v is not None:
            raise AssertionError("bias cannot be added to a static key or value.")
        k, v = _C.cat([k, bias_k.expand(1, batch, width)]), _C.cat([v, bias_v.expand(1, batch, width)])
        attn_mask, key_padding_mask = _one_more(attn_mask), _one_more(key_padding_mask)
    q = _heads(q, num_heads)
    k = _heads(k, num_heads) if static_k is None else _static(static_k, "static_k", q)
    v = _heads(v, num_heads) if static_v is None else _static(static_v, "static_v", q)
    if add_zero_attn:
        zero = _C.zeros((batch, num_heads, 1, width // num_heads), dtype=k.dtype, device=k.device)
        k, v = _C.cat([k, zero], 2), _C.cat([v, zero], 2)
        attn_mask, key_padding_mask = _one_more(attn_mask), _one_more(key_padding_mask)

    mask = _joined_masks(attn_mask, key_padding_mask, q, k)
    dropout = dropout_p if training else 0.0
    weights = None
    if need_weights:
        out, weights = _with_weights(q, k, v, mask, dropout)
    else:
        out = _nn.scaled_dot_product_attention(q, k, v, mask, dropout, causal_kernel)
    out = _nn.linear(out.permute(2, 0, 1, 3).reshape(tokens, batch, width), out_proj_weight, out_proj_bias)
    if weights is not None and average_attn_weights:
        weights = weights.mean(1)
    if not batched:
        out = out.squeeze(1)
        weights = None if weights is None else weights.squeeze(0)
    return out, weights
