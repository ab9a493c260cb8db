"""Attention with all scores in memory: products, a softmax, and a product."""

from __future__ import annotations

import math

from tocha.ir import dtypes as dt
from tocha.operators.attention import _attention, _attention_backward
from tocha.operators.decomposed.parts import counted, empty, raised
from tocha.operators.record import decomposition, op


def masked_scores(query, key, mask, causal, scale):
    """query @ key^T * scale, minus infinity where a query may not look."""
    scores = raised(query) @ raised(key).transpose(-2, -1) * scale
    if mask is not None:
        scores = op.where(mask, scores, -math.inf) if mask.dtype is dt.bool_ else scores + mask
    if causal:
        rows, columns = counted(scores.size(-2), scores), counted(scores.size(-1), scores)
        scores = op.where(columns <= rows.unsqueeze(1), scores, -math.inf)
    return scores


def shares(scores, lse):
    """exp(scores - lse); 0 in rows where everything is masked."""
    lines = lse.unsqueeze(-1)
    return op.exp(scores - op.where(lines == -math.inf, 0.0, lines))


@decomposition(_attention)
def attention_in_parts(query, key, value, mask, causal, scale):
    scores = masked_scores(query, key, mask, causal, scale)
    lse = op.logsumexp(scores, [-1])
    return (shares(scores, lse) @ raised(value)).to(query.dtype), lse


@decomposition(_attention_backward)
def attention_backward_in_parts(grad, query, key, value, mask, out, lse, causal, scale, wanted):
    weights = shares(masked_scores(query, key, mask, causal, scale), lse)
    g, q, k, v = raised(grad), raised(query), raised(key), raised(value)
    to_scores = weights * (g @ v.transpose(-2, -1) - op.sum(g * raised(out), [-1], True))
    return (
        (to_scores @ k * scale).to(query.dtype) if wanted[0] else empty(query),
        (to_scores.transpose(-2, -1) @ q * scale).to(key.dtype) if wanted[1] else empty(query),
        (weights.transpose(-2, -1) @ g).to(value.dtype) if wanted[2] else empty(query),
        to_scores.to(query.dtype if mask is None else mask.dtype) if wanted[3] else empty(mask or query),
    )
