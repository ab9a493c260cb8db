"""Scaled dot-product attention: one kernel that never holds all scores, and the same from products and a softmax
where a derivative of the derivative, or dropout, needs them.
"""

from __future__ import annotations

import math

from tocha.ir import dtypes as dt
from tocha.operators.record import composite, gradient, native, op, rule
from tocha.operators.rules import Out, broadcast_shapes, c_name, recording


@rule
def dense_in_order(sizes: "int[]", strides: "int[]") -> "int[]":
    """Strides of a dense tensor whose dims lie in memory in the order that `strides` has them."""
    out = [0] * len(sizes)
    step = 1
    placed = 0
    while placed < len(sizes):
        inner = -1
        for d in reversed(range(len(sizes))):
            if out[d] == 0 and (inner < 0 or strides[d] < strides[inner]):
                inner = d
        out[inner] = step
        step *= max(sizes[inner], 1)
        placed += 1
    return out


@rule
def statistics(d: "dtype") -> "dtype":
    return dt.float64 if d == dt.float64 else dt.float32


@rule
def like_input(t: "Tensor", sizes: "int[]") -> "Out":
    """A result of t's dtype, laid out as t is: heads that were views into one projection stay so."""
    return Out(sizes, t.dtype, strides=dense_in_order(sizes, t.strides))


@native(
    "_attention(Tensor query, Tensor key, Tensor value, Tensor? mask, bool causal, float scale) -> (Tensor, Tensor)",
    variants="",
    differentiable=(0,),
    node="ScaledDotProductFlashAttentionForCpuBackward0",
)
def _attention(query, key, value, mask, causal, scale):
    """softmax(query @ key^T * scale + mask) @ value for matrices of one batch shape, and the logarithm of each row's
    sum of exponentials. A mask has the shape of the scores; where it is bool, False means minus infinity.
    """
    sizes = [*query.shape[:-1], value.shape[-1]]
    return like_input(query, sizes), Out(query.shape[:-1], statistics(query.dtype))


@native(
    "_attention_backward(Tensor grad, Tensor query, Tensor key, Tensor value, Tensor? mask, Tensor out, Tensor lse, bool causal, float scale, bool[] wanted) -> (Tensor, Tensor, Tensor, Tensor)",
    variants="",
    tags=frozenset({"no_gradient"}),  # where one is wanted, attention_slopes is called instead
)
def _attention_backward(grad, query, key, value, mask, out, lse, causal, scale, wanted):
    """The gradients of query, key, value and mask; empty where not wanted."""
    empty = [0]
    scores = [*query.shape[:-1], key.shape[-2]]
    return (
        like_input(query, query.shape) if wanted[0] else Out(empty, query.dtype),
        like_input(key, key.shape) if wanted[1] else Out(empty, query.dtype),
        like_input(value, value.shape) if wanted[2] else Out(empty, query.dtype),
        Out(scores if wanted[3] else empty, query.dtype if mask is None else mask.dtype),
    )


@rule
def attention_weights(
    query: "Tensor", key: "Tensor", mask: "Tensor?", causal: "bool", scale: "float", dtype: "dtype"
) -> "Tensor":
    """softmax of the masked scores; 0 in rows where everything is masked."""
    scores = query @ key.transpose(-2, -1) * scale
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf) if mask.dtype == dt.bool_ else scores + mask
    if causal:
        later = op.ones(scores.shape[-2:], dtype=dt.bool_, device=scores.device).triu(1)
        scores = scores.masked_fill(later, -math.inf)
    if mask is None:
        return op.softmax(scores, -1).to(dtype)
    masked = (scores == -math.inf).all(-1, True)
    return op.softmax(scores.masked_fill(masked, 0), -1).masked_fill(masked, 0).to(dtype)


@rule
def attention_slopes(
    grad: "Tensor",
    query: "Tensor",
    key: "Tensor",
    value: "Tensor",
    mask: "Tensor?",
    causal: "bool",
    scale: "float",
) -> "(Tensor|Tensor|Tensor|Tensor)":
    """What _attention_backward computes, from operators that have gradients themselves."""
    weights = attention_weights(query, key, mask, causal, scale, query.dtype)
    to_weights = grad @ value.transpose(-2, -1)
    to_scores = weights * (to_weights - (to_weights * weights).sum([-1], True))
    to_query = to_scores @ key * scale
    to_key = to_scores.transpose(-2, -1) @ query * scale
    return to_query, to_key, weights.transpose(-2, -1) @ grad, to_scores


@gradient(_attention, "query", "key", "value", "mask")
def attention_gradient(grad, query, key, value, mask, causal, scale, result0, result1, wanted):
    if recording():
        to_query, to_key, to_value, to_mask = attention_slopes(grad, query, key, value, mask, causal, scale)
    else:
        to_query, to_key, to_value, to_mask = op._attention_backward(
            grad, query, key, value, mask, result0, result1, causal, scale, wanted
        )
    return to_query, to_key, to_value, to_mask


@rule
def check_attention(query: "Tensor", key: "Tensor", value: "Tensor", attn_mask: "Tensor?") -> "none":
    for t in [query, key, value]:
        if t.dtype != query.dtype:
            raise RuntimeError(
                f"[scaled_dot_product_attention] Expected query, key, and value to have the same dtype, but got query.dtype: {c_name(query.dtype)} key.dtype: {c_name(key.dtype)} and value.dtype: {c_name(value.dtype)} instead."
            )
        if t.dim() < 2:
            raise RuntimeError(
                f"[scaled_dot_product_attention] Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: {query.dim()} key.dim: {key.dim()} and value.dim: {value.dim()} instead."
            )
    if query.is_complex():
        raise NotImplementedError(
            f"[scaled_dot_product_attention] \"softmax_lastdim_kernel_impl\" not implemented for '{query.dtype}'"
        )
    if not query.is_floating_point():
        raise RuntimeError(f"[scaled_dot_product_attention] expected scalar type Float but found {query.dtype}")
    if query.size(-1) != key.size(-1) or key.size(-2) != value.size(-2):
        raise RuntimeError(
            f"[scaled_dot_product_attention] query {query.shape}, key {key.shape} and value {value.shape} do not fit: key has query's last size and value's number of rows"
        )
    if attn_mask is not None and attn_mask.dtype not in (dt.bool_, dt.float32, query.dtype):
        raise RuntimeError(
            f"[scaled_dot_product_attention] Expected attn_mask dtype to be bool or float or to match query dtype, but got attn_mask.dtype: {c_name(attn_mask.dtype)} and  query.dtype: {c_name(query.dtype)} instead."
        )


@rule
def grouped(t: "Tensor", groups: "int", members: "int") -> "Tensor":
    """Heads (dim -3) as [groups, members]."""
    return t.view([*t.shape[:-3], groups, members, t.size(-2), t.size(-1)])


@rule
def attention_with_dropout(
    query: "Tensor",
    key: "Tensor",
    value: "Tensor",
    mask: "Tensor?",
    dropout_p: "float",
    causal: "bool",
    scale: "float",
) -> "Tensor":
    """The weights are drawn in one piece, so that a seed means the same as in PyTorch."""
    wide = statistics(query.dtype)
    weights = attention_weights(query.to(wide), key.to(wide), mask, causal, scale, wide)
    return (op.dropout(weights, dropout_p, True) @ value.to(wide)).to(query.dtype)


@rule
def batch_attention(
    query: "Tensor",
    key: "Tensor",
    value: "Tensor",
    mask: "Tensor?",
    dropout_p: "float",
    causal: "bool",
    scale: "float",
) -> "Tensor":
    """Attention of matrices whose leading dims broadcast."""
    if dropout_p != 0:
        return attention_with_dropout(query, key, value, mask, dropout_p, causal, scale)
    name = "scaled_dot_product_attention"
    batch = broadcast_shapes(broadcast_shapes(query.shape[:-2], key.shape[:-2], name), value.shape[:-2], name)
    shown = query.expand([*batch, *query.shape[-2:]])
    if mask is not None:
        mask = mask.expand([*batch, query.size(-2), key.size(-2)])
    return op._attention(
        shown, key.expand([*batch, *key.shape[-2:]]), value.expand([*batch, *value.shape[-2:]]), mask, causal, scale
    )[0]


@composite(
    "nn_scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0.0, bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor",
    variants="function",
    autocast="lower",
    samples=lambda t: [
        ((t(2, 3, 4, 5), t(2, 3, 6, 5), t(2, 3, 6, 7)), {}),
        ((t(3, 4, 5), t(3, 6, 5), t(3, 6, 5), t.mask(4, 6)), {}),
        ((t(2, 4, 3, 5), t(2, 2, 3, 5), t(2, 2, 3, 5)), {"is_causal": True, "enable_gqa": True, "scale": 0.5}),
    ],
    tags=frozenset({"nondeterministic_seeded"}),
)
def nn_scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa):
    """softmax(query @ key^T * scale + attn_mask) @ value: each query's mean of the values, weighted by how much its
    key agrees with it. A bool mask is True where a query may look; is_causal lets query i see keys up to i.
    scale is 1 / sqrt(query.size(-1)) if not given. With enable_gqa each head of key and value serves several of query.
    """
    check_attention(query, key, value, attn_mask)
    if is_causal and attn_mask is not None:
        raise RuntimeError(
            "[scaled_dot_product_attention] _scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True"
        )
    factor = 1.0 / math.sqrt(max(query.size(-1), 1))
    if scale is not None:
        factor = scale
    if not enable_gqa or query.dim() < 3 or (query.size(-3) == key.size(-3) and query.size(-3) == value.size(-3)):
        return batch_attention(query, key, value, attn_mask, dropout_p, is_causal, factor)
    heads, groups = query.size(-3), min(key.size(-3), value.size(-3))
    if groups == 0 or heads % key.size(-3) != 0 or heads % value.size(-3) != 0:
        raise RuntimeError(
            f"[scaled_dot_product_attention] with enable_gqa the heads of query must be a multiple of those of key and value, but got {heads}, {key.size(-3)} and {value.size(-3)}"
        )
    if key.size(-3) != value.size(-3):
        common = max(key.size(-3), value.size(-3))
        key = key.repeat_interleave(common // key.size(-3), -3)
        value = value.repeat_interleave(common // value.size(-3), -3)
        groups = common
    members = heads // groups
    mask: "Tensor?" = attn_mask
    if attn_mask is not None:
        mask = grouped(attn_mask.expand([*query.shape[:-1], key.size(-2)]), groups, members)
    out = batch_attention(
        grouped(query, groups, members),
        key.unsqueeze(-3),
        value.unsqueeze(-3),
        mask,
        dropout_p,
        is_causal,
        factor,
    )
    return out.flatten(-4, -3)
