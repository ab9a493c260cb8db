"""Sums and maxima of rows that indices name."""

from __future__ import annotations

from tocha.ir import dtypes as dt
from tocha.operators.decomposed.parts import counted, raised
from tocha.operators.embedding import _add_rows, _bag_max, _bag_of_each, _sum_bags
from tocha.operators.record import decomposition, op


@decomposition(_add_rows)
def add_rows_in_parts(source, origin, to, factors, rows):
    taken = raised(source if origin is None else source.index_select(0, origin))
    if factors is not None:
        taken = taken * raised(factors).unsqueeze(1)
    if to is not None:
        whole = op.zeros([rows, source.size(1)], dtype=taken.dtype, device=source.device)
        taken = whole.index_add(0, to, taken)
    return taken.to(source.dtype)


@decomposition(_bag_of_each)
def bag_of_each_in_parts(offsets, count, include_last_offset):
    starts = offsets.narrow(0, 0, offsets.size(0) - 1) if include_last_offset else offsets
    return op.searchsorted(starts, counted(count, offsets), right=True) - 1


@decomposition(_sum_bags)
def sum_bags_in_parts(weight, indices, bags, factors, count, by_frequency, sparse, padding_idx):
    return op._add_rows(weight, indices, bags, factors, count)


@decomposition(_bag_max)
def bag_max_in_parts(weight, indices, bags, count, padding_idx):
    n, sizes = indices.size(0), [count, weight.size(1)]
    rows = weight.index_select(0, indices)
    places = bags.unsqueeze(1).expand(rows.shape)
    kept = (indices != padding_idx).unsqueeze(1)
    low = op.full(sizes, float("-inf"), dtype=weight.dtype, device=weight.device)
    greatest = low.scatter_reduce(0, places, op.where(kept, rows, float("-inf")), "amax")
    # The first of the rows that reach it.
    hit = kept & ((rows == greatest.gather(0, places)) | (rows != rows))
    order = op.where(hit, counted(n, indices).unsqueeze(1), n)
    first = op.full(sizes, n, dtype=dt.int64, device=weight.device).scatter_reduce(0, places, order, "amin")
    none = first == n
    which = op.index(indices, [first.clamp_max(n - 1)])
    return op.where(none, 0, greatest), op.where(none, -1, which)
