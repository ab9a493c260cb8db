"""How flex_attention computes: rows of queries in turn, each with only the keys that its mask leaves in.

So what a call needs grows with the length of the keys, not with queries times keys. Rows without score_mod go to the
kernel of scaled_dot_product_attention, which holds no scores at all.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator
from typing import NamedTuple

from tocha import _C
from tocha.nn.attention._block_mask import BlockMask
from tocha.nn.attention._mods import Kind, Mod, Positions, ScoreMod

Tensor = _C.Tensor
_nn = _C._nn

SCORES_AT_ONCE = 1 << 22  # rows are taken together up to so many scores: 16 MB of float32


def working_dtype(query: Tensor) -> _C.dtype:
    """The precision of scores."""
    return _C.float64 if query.dtype == _C.float64 else _C.float32


def in_layout_of(query: Tensor, out: Tensor) -> Tensor:
    """The output with its dims in memory in the order of the query's."""
    order = sorted(range(4), key=lambda d: -query.stride(d))
    if order == [0, 1, 2, 3] or out.numel() == 0:
        return out
    back = sorted(range(4), key=order.__getitem__)
    return out.permute(order).contiguous().permute(back)


def check_heads(heads: int, groups: int, enable_gqa: bool) -> None:
    """Raises unless query's heads go with those of key and value."""
    if not enable_gqa and heads != groups:
        raise ValueError(
            f"Expect query and key/value to have the same number of heads but got Hq={heads} and Hkv={groups}. "
            "Try setting enable_gqa=True for GQA."
        )
    if enable_gqa and heads % groups != 0:
        raise ValueError(
            f"Expect number of query heads to be a multiple of kv heads for GQA but got Hq={heads} and Hkv={groups}."
        )


def _grouped(x: Tensor, groups: int) -> Tensor:
    """Heads (dim 1) as [groups, members]."""
    return x.unflatten(1, (groups, x.size(1) // max(groups, 1)))


def scaled_scores(query: Tensor, key: Tensor, scale: float) -> Tensor:
    """query @ key^T * scale in the precision of scores; heads of key may be fewer than those of query."""
    working = working_dtype(query)
    grouped = _grouped(query.to(working) * scale, key.size(1))
    return (grouped @ key.to(working).unsqueeze(2).mT).flatten(1, 2)


def attend(scores: Tensor, value: Tensor, dtype: _C.dtype, lse: bool, max_scores: bool) -> tuple[Tensor, ...]:
    """softmax(scores) @ value; then each row's logarithm of the sum of exponentials and its largest score, if wanted.

    Heads of value may be fewer than those of scores. Rows of minus infinity give 0, as weights and as gradients.
    """
    largest = scores.detach().amax(-1, keepdim=True)
    blind = largest == -math.inf
    some_blind = bool(blind.any())
    seen = scores.masked_fill(blind, 0) if some_blind else scores
    weights = seen.softmax(-1)
    if some_blind:
        weights = weights.masked_fill(blind, 0)
    grouped = _grouped(weights.to(dtype), value.size(1))
    found = [(grouped @ value.to(dtype).unsqueeze(2)).flatten(1, 2)]
    if lse:
        sums = seen.logsumexp(-1)
        found.append(sums.masked_fill(blind.squeeze(-1), -math.inf) if some_blind else sums)
    if max_scores:
        found.append(largest.squeeze(-1))
    return tuple(found)


class _Keys(NamedTuple):
    """Keys that some queries look at: all of them, or those that the mask_mod says."""

    where: slice | Tensor
    masked: bool


Row = tuple[slice, list[_Keys]]


def _places(blocks: list[int], size: int, length: int, device: _C.device) -> slice | Tensor:
    """The keys in these blocks, in order: a slice where they follow each other, since that copies nothing."""
    if blocks[-1] - blocks[0] == len(blocks) - 1:
        return slice(blocks[0] * size, min((blocks[-1] + 1) * size, length))
    starts = _C.tensor(blocks, device=device).view(-1, 1) * size
    places = (starts + _C.arange(size, device=device)).flatten()
    return places[places < length]


def _with_batch_and_heads(x: Tensor, dims: int) -> Tensor:
    return x.view((1,) * (dims - x.dim()) + tuple(x.shape))


def _rows_of_mask(mask: BlockMask, spot: tuple[int, int], q_len: int, kv_len: int) -> Iterator[Row]:
    """For one batch and head of a mask: each row of blocks of queries, and its keys."""
    q_size, kv_size = mask.BLOCK_SIZE
    kinds = ((mask.full_kv_num_blocks, mask.full_kv_indices, False), (mask.kv_num_blocks, mask.kv_indices, True))
    lists = [
        (_with_batch_and_heads(counts, 3)[spot].tolist(), _with_batch_and_heads(indices, 4)[spot].tolist(), masked)
        for counts, indices, masked in kinds
        if counts is not None and indices is not None
    ]
    for row, start in enumerate(range(0, q_len, q_size)):
        chosen = [(sorted(indices[row][: int(counts[row])]), masked) for counts, indices, masked in lists]
        keys = [
            _Keys(_places(blocks, kv_size, kv_len, mask.kv_indices.device), masked)
            for blocks, masked in chosen
            if blocks
        ]
        yield slice(start, min(start + q_size, q_len)), keys


def _rows_without_mask(q_len: int, kv_len: int, step: int) -> Iterator[Row]:
    """`step` queries at once, and all keys."""
    for start in range(0, q_len, step):
        yield slice(start, min(start + step, q_len)), [_Keys(slice(0, kv_len), False)] if kv_len else []


def _side_by_side(spans: list[slice | Tensor]) -> slice | None:
    """One slice for slices of which each begins where the one before ends."""
    slices = [s for s in spans if isinstance(s, slice)]
    if len(slices) < len(spans) or any(a.stop != b.start for a, b in itertools.pairwise(slices)):
        return None
    return slice(slices[0].start, slices[-1].stop)


def _take(x: Tensor, keys: list[_Keys]) -> Tensor:
    """The rows of key or value that are looked at, in the order of keys; a view where they lie side by side."""
    spans = [k.where for k in keys]
    together = _side_by_side(spans)
    if together is not None:
        return x[:, :, together]
    return _C.cat([x[:, :, where] for where in spans], 2)


@dataclasses.dataclass
class Attention:
    """One call of flex_attention: its inputs, the functions of its user, and what is wanted besides the output."""

    query: Tensor
    key: Tensor
    value: Tensor
    at: Positions
    scale: float
    score_mod: Mod | None
    mask_mod: Mod | None
    lse: bool
    max_scores: bool

    @staticmethod
    def of(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        score_mod: ScoreMod | None,
        block_mask: BlockMask | None,
        scale: float | None,
        lse: bool,
        max_scores: bool,
    ) -> Attention:
        """Keys and values become views with query's batch; the functions are tried out."""
        batch, heads, q_len, width = query.shape
        at = Positions.of(batch, heads, q_len, key.size(2), query.device)
        return Attention(
            query,
            key.expand(batch, -1, -1, -1),
            value.expand(batch, key.size(1), key.size(2), -1),
            at,
            1.0 / math.sqrt(width) if scale is None else scale,
            None if score_mod is None else Mod(score_mod, Kind.SCORE, at, working_dtype(query)),
            None if block_mask is None else Mod(block_mask.mask_mod, Kind.MASK, at),
            lse,
            max_scores,
        )

    def run(self, block_mask: BlockMask | None) -> tuple[Tensor, ...]:
        """The output, and what is wanted besides it."""
        if block_mask is None:
            return self._run_rows(_rows_without_mask(len(self.at.query), len(self.at.key), self._rows_at_once))
        counts = _with_batch_and_heads(block_mask.kv_num_blocks, 3)
        batches = self._parts(counts.size(0), self.query.size(0))
        heads = self._parts(counts.size(1), self.query.size(1))
        by_batch = []
        for b, batch in batches:
            by_head = [self._part(batch, head)._run_mask(block_mask, (b, h)) for h, head in heads]
            by_batch.append(_joined(by_head, 1))
        return _joined(by_batch, 0)

    @staticmethod
    def _parts(masks: int, size: int) -> list[tuple[int, slice]]:
        """Along batch or heads: which mask is for which part. One mask may serve all; else they take turns."""
        if masks == 1 or size == 0:
            return [(0, slice(None))]
        return [(i % masks, slice(i, i + 1)) for i in range(size)]

    def _part(self, batch: slice, head: slice) -> Attention:
        """The same call for some batches, and one head or all."""
        groups = self.query.size(1) // max(self.key.size(1), 1)
        keys = head if head.start is None else slice(head.start // groups, head.start // groups + 1)
        return dataclasses.replace(
            self,
            query=self.query[batch, head],
            key=self.key[batch, keys],
            value=self.value[batch, keys],
            at=self.at._replace(batch=self.at.batch[batch], head=self.at.head[head]),
        )

    def _run_mask(self, mask: BlockMask, spot: tuple[int, int]) -> tuple[Tensor, ...]:
        return self._run_rows(_rows_of_mask(mask, spot, len(self.at.query), len(self.at.key)))

    def _run_rows(self, rows: Iterator[Row]) -> tuple[Tensor, ...]:
        found = [self._row(queries, keys) for queries, keys in rows]
        return _joined(found, 2) if found else self._unseeing(self.query)

    @property
    def _holds_no_scores(self) -> bool:
        """Whether the kernel of scaled_dot_product_attention can do it."""
        same = self.query.dtype == self.key.dtype == self.value.dtype
        plain = self.score_mod is None and not self.lse and not self.max_scores
        return plain and same and self.query.is_floating_point()

    @property
    def _rows_at_once(self) -> int:
        batch, heads, queries, keys = self.at.shape
        return max(1, queries if self._holds_no_scores else SCORES_AT_ONCE // max(batch * heads * keys, 1))

    def _row(self, queries: slice, keys: list[_Keys]) -> tuple[Tensor, ...]:
        """The output of some queries, and what is wanted besides it."""
        query = self.query[:, :, queries]
        if not keys:
            return self._unseeing(query)
        value = _take(self.value, keys)
        if self._holds_no_scores:
            mask = self._mask(queries, keys)
            key = _take(self.key, keys)
            return (_nn.scaled_dot_product_attention(query, key, value, mask, scale=self.scale, enable_gqa=True),)
        parts = [self._scores(query, queries, k) for k in keys]
        scores = parts[0] if len(parts) == 1 else _C.cat(parts, -1)
        return attend(scores, value, query.dtype, self.lse, self.max_scores)

    def _unseeing(self, query: Tensor) -> tuple[Tensor, ...]:
        """What queries get that look at nothing."""
        out = query.new_zeros((*query.shape[:-1], self.value.size(-1)))
        nothing = query.new_full(query.shape[:-1], -math.inf, dtype=working_dtype(query))
        return out, *[nothing] * (self.lse + self.max_scores)

    def _positions(self, queries: slice, keys: _Keys) -> Positions:
        return self.at._replace(query=self.at.query[queries], key=self.at.key[keys.where])

    def _allowed(self, queries: slice, keys: _Keys) -> Tensor | None:
        """Which of these keys the queries may see, or None for all."""
        if not keys.masked or self.mask_mod is None:
            return None
        allowed = self.mask_mod(self._positions(queries, keys))
        if allowed.dtype != _C.bool:
            raise RuntimeError(f"[flex_attention] mask_mod must give booleans, but gave {allowed.dtype}")
        return allowed

    def _mask(self, queries: slice, keys: list[_Keys]) -> Tensor | None:
        """_allowed of all these keys side by side."""
        masks = [self._allowed(queries, k) for k in keys]
        if all(m is None for m in masks):
            return None
        every = self.query.new_ones((), dtype=_C.bool)
        shapes = [self._positions(queries, k).shape for k in keys]
        return _C.cat([every.expand(s) if m is None else m for m, s in zip(masks, shapes, strict=True)], -1)

    def _scores(self, query: Tensor, queries: slice, keys: _Keys) -> Tensor:
        """The scores of some queries and keys, changed and masked."""
        scores = scaled_scores(query, self.key[:, :, keys.where], self.scale)
        if self.score_mod is not None:
            scores = self.score_mod(self._positions(queries, keys), scores)
            scores = scores if scores.is_floating_point() else scores.to(working_dtype(query))
        allowed = self._allowed(queries, keys)
        return scores if allowed is None else scores.masked_fill(~allowed, -math.inf)


def _joined(parts: list[tuple[Tensor, ...]], dim: int) -> tuple[Tensor, ...]:
    """Results of the same kinds, each kind end to end."""
    if len(parts) == 1:
        return parts[0]
    return tuple(_C.cat(list(kind), dim) for kind in zip(*parts, strict=True))
