"""Attention of sequences of different lengths that lie one after another in one tensor."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tocha import _C
from tocha.autograd.grad_mode import no_grad
from tocha.nn.attention._flex_kernel import attend, check_heads, scaled_scores, working_dtype

Tensor = _C.Tensor
_nn = _C._nn

__all__ = ["AuxRequest", "varlen_attn", "varlen_attn_out"]

_Window = tuple[int, int]


class AuxRequest(NamedTuple):
    """Which results besides the output varlen_attn is to give: lse, each row's logarithm of its sum of exponentials."""

    lse: bool = False


def _check_inputs(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cu_seq_k: Tensor | None,
    seqused_k: Tensor | None,
    block_table: Tensor | None,
) -> None:
    dims = 3 if block_table is None else 4
    if query.dim() != 3 or key.dim() != dims or value.dim() != dims:
        raise ValueError(
            f"[varlen_attn] expected query with 3 dims, and key and value with {dims}, but got shapes "
            f"{tuple(query.shape)}, {tuple(key.shape)} and {tuple(value.shape)}"
        )
    if block_table is not None and seqused_k is None:
        raise ValueError("[varlen_attn] block_table says where pages lie; seqused_k must say how many tokens they hold")
    if block_table is None and cu_seq_k is None:
        raise ValueError("[varlen_attn] cu_seq_k may be None only where block_table says where the keys are")
    if seqused_k is not None and any(x.requires_grad for x in (query, key, value)) and _C.is_grad_enabled():
        raise RuntimeError("seqused_k is an inference-only parameter.")


def _spans(ends: Tensor) -> list[tuple[int, int]]:
    return list(itertools.pairwise(int(n) for n in ends.tolist()))


def _paged(pool: Tensor, table: Tensor, count: int) -> Tensor:
    """The first `count` tokens of the pages that a table lists."""
    pages = -(-count // pool.size(1))
    return pool[table[:pages]].flatten(0, 1)[:count]


def _keys_and_values(
    key: Tensor, value: Tensor, ends: Tensor | None, used: Tensor | None, pages: Tensor | None
) -> Iterator[tuple[Tensor, Tensor]]:
    """Keys and values of each sequence: [tokens, heads, width]."""
    counts = None if used is None else [int(n) for n in used.tolist()]
    if pages is not None and counts is not None:
        for table, count in zip(pages, counts, strict=True):
            yield _paged(key, table, count), _paged(value, table, count)
    elif ends is not None:
        for i, (start, stop) in enumerate(_spans(ends)):
            end = stop if counts is None else min(stop, start + counts[i])
            yield key[start:end], value[start:end]


def _visible(queries: int, keys: int, window: _Window, device: _C.device) -> Tensor | None:
    """Which keys each query sees: those so many to the left and right of its own place, counted from the end.

    None stands for all.
    """
    left, right = window
    if left < 0 and right < 0:
        return None
    place = _C.arange(queries, device=device).view(-1, 1) + (keys - queries)
    key = _C.arange(keys, device=device)
    seen = _C.ones((queries, keys), dtype=_C.bool, device=device)
    if left >= 0:
        seen = seen & (key >= place - left)
    if right >= 0:
        seen = seen & (key <= place + right)
    return seen


def _unseeing(query: Tensor, value: Tensor, lse: bool) -> tuple[Tensor, ...]:
    """What queries get that look at nothing."""
    out = query.new_zeros((*query.shape[:2], value.size(-1)))
    rows = query.new_full((query.size(1), query.size(0)), -math.inf, dtype=working_dtype(query))
    return (out, rows) if lse else (out,)


def _attend_once(
    query: Tensor, key: Tensor, value: Tensor, window: _Window, scale: float, lse: bool
) -> tuple[Tensor, ...]:
    """Attention of one sequence: the output, and with lse the rows' logarithms, [heads, tokens]."""
    q, k, v = (x.transpose(0, 1).unsqueeze(0) for x in (query, key, value))
    queries, keys = query.size(0), key.size(0)
    if keys == 0:
        return _unseeing(query, value, lse)
    if not lse:
        causal = window == (-1, 0) and queries == keys
        mask = None if causal else _visible(queries, keys, window, query.device)
        out = _nn.scaled_dot_product_attention(q, k, v, mask, is_causal=causal, scale=scale, enable_gqa=True)
        return (out.squeeze(0).transpose(0, 1),)
    scores = scaled_scores(q, k, scale)
    mask = _visible(queries, keys, window, query.device)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    out, rows = attend(scores, v, query.dtype, lse=True, max_scores=False)
    return out.squeeze(0).transpose(0, 1), rows.squeeze(0)


def varlen_attn(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cu_seq_q: Tensor,
    cu_seq_k: Tensor | None,
    max_q: int,
    max_k: int,
    *,
    return_aux: AuxRequest | None = None,
    scale: float | None = None,
    window_size: Sequence[int] = (-1, -1),
    enable_gqa: bool = False,
    seqused_k: Tensor | None = None,
    block_table: Tensor | None = None,
    num_splits: int | None = None,
) -> Tensor | tuple[Tensor, Tensor]:
    """Attention within each of several sequences packed as [tokens, heads, width].

    cu_seq_q and cu_seq_k are where sequences begin and, last, where the last one ends; max_q and max_k are the longest.
    window_size is how many keys to the left and right a query sees, -1 for all: (-1, 0) is causal, with the last
    query at the last key. seqused_k is how many keys of each sequence count. With block_table, key and value are pools
    of pages [pages, tokens, heads, width], and it lists the pages of each sequence. return_aux may ask for lse, which
    is [heads, tokens]. Tokens after the last sequence give 0. num_splits is for GPU kernels and has no effect here.

    >>> import tocha
    >>> x = tocha.tensor([1.0, 2.0, 3.0, 5.0]).view(4, 1, 1)
    >>> ends = tocha.tensor([0, 2, 4], dtype=tocha.int32)
    >>> varlen_attn(tocha.zeros(4, 1, 1), x, x, ends, ends, 2, 2).flatten()
    tensor([1.5000, 1.5000, 4.0000, 4.0000])
    """
    window = tuple(window_size)
    if len(window) != 2:
        raise ValueError(f"window_size must have length 2, got {len(window)}")
    check_heads(query.size(1), key.size(-2), enable_gqa)
    _check_inputs(query, key, value, cu_seq_k, seqused_k, block_table)
    lse = return_aux is not None and return_aux.lse
    factor = 1.0 / math.sqrt(query.size(-1)) if scale is None else scale
    found = []
    if query.device.type != "meta":
        sequences = zip(_spans(cu_seq_q), _keys_and_values(key, value, cu_seq_k, seqused_k, block_table), strict=True)
        found = [_attend_once(query[a:b], k, v, window, factor, lse) for (a, b), (k, v) in sequences]
    packed = sum(f[0].size(0) for f in found)
    if packed < query.size(0) or not found:
        found.append(_unseeing(query[packed:], value, lse))
    out = _C.cat([f[0] for f in found])
    return (out, _C.cat([f[1] for f in found], 1)) if lse else out


def varlen_attn_out(
    out: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cu_seq_q: Tensor,
    cu_seq_k: Tensor | None,
    max_q: int,
    max_k: int,
    *,
    return_aux: AuxRequest | None = None,
    scale: float | None = None,
    window_size: Sequence[int] = (-1, -1),
    enable_gqa: bool = False,
    seqused_k: Tensor | None = None,
    block_table: Tensor | None = None,
    num_splits: int | None = None,
) -> Tensor | tuple[Tensor, Tensor]:
    """varlen_attn into a tensor that is there, which it returns; nothing is recorded for gradients."""
    with no_grad():
        found = varlen_attn(
            query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, return_aux=return_aux, scale=scale,
            window_size=window_size, enable_gqa=enable_gqa, seqused_k=seqused_k, block_table=block_table,
            num_splits=num_splits,
        )  # fmt: skip
        result, *more = found if isinstance(found, tuple) else (found,)
        out.copy_(result)
    return (out, more[0]) if more else out
