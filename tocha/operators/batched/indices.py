"""Reading and writing at places that elements name: the number of the sample is one more index."""

from __future__ import annotations

from tocha.ir import dtypes as dt
from tocha.operators.indexing import _unsafe_index, embedding, index, index_put
from tocha.operators.record import batching

DYNAMIC = (
    "vmap: We do not support batching operators that can support dynamic shape. Attempting to batch over indexing with a "
    "boolean mask."
)


def is_mask(t):
    return str(t.dtype).split(".")[-1] in (dt.bool_.name, dt.uint8.name)


def as_places(b, indices):
    """Masks as the numbers of their elements; they are the same for all samples."""
    found = []
    for i in indices:
        if i is None or not is_mask(i):
            found.append(i)
            continue
        if b.has(i):
            raise RuntimeError(DYNAMIC)
        found += list(i.nonzero().unbind(1)) if i.ndim else [i.nonzero().new_zeros([1 if bool(i) else 0])]
    return found


def spread(indices):
    """(where the first index stands, how many there are, whether they stand together)"""
    at = [d for d, i in enumerate(indices) if i is not None]
    return at[0], len(at), at[-1] - at[0] + 1 == len(at)


def numbers(b, model, rank):
    """0, 1, ... one for each sample, to be broadcast with indices of `rank` dims."""
    return b.counted(model).reshape([b.size, *[1] * rank])


def logical_shape(b, self, indices):
    first, count, together = spread(indices)
    places = broadcast([list(i.shape) for i in indices if i is not None])
    shape = list(self.shape)
    if together:
        return [*shape[:first], *places, *shape[first + count :]], places
    return [*places, *(n for d, n in enumerate(shape) if d >= len(indices) or indices[d] is None)], places


def broadcast(shapes):
    rank = max(map(len, shapes))
    out = [1] * rank
    for s in shapes:
        for i, n in enumerate(s):
            at = rank - len(s) + i
            out[at] = n if out[at] == 1 else out[at]
    return out


@batching(index, _unsafe_index)
def read(b, self, indices):
    indices = as_places(b, indices)
    first, _, together = spread(indices)
    rank = max(i.ndim for i in indices if i is not None)
    moved = [None if i is None else b.aligned(i, rank) for i in indices]
    if not b.has(self):
        out = b.run(self, moved)
        return out.movedim(first, 0) if together and first else out
    if not any(b.has(i) for i in indices if i is not None):
        out = b.run(b.first(self), [None, *moved])
        return out if together else out.movedim(rank, 0)
    value = b.first(self)
    out = b.run(value, [numbers(b, value, rank), *moved])
    if together and first:
        out = out.movedim(list(range(1, rank + 1)), list(range(1 + first, 1 + first + rank)))
    return out


@batching(index_put)
def write(b, self, indices, values, accumulate):
    if len(indices) == 1 and is_mask(indices[0]) and b.has(indices[0]) and values.numel() == 1 and not accumulate:
        mask = b.aligned(indices[0], indices[0].ndim)
        mask = mask.reshape([*mask.shape, *[1] * (self.ndim - indices[0].ndim)])
        filled = b.aligned(values.reshape([]) if not b.has(values) else values, self.ndim)
        return b.all(self).where(mask.logical_not(), filled.to(self.dtype))
    indices = as_places(b, indices)
    shape, places = logical_shape(b, self, indices)
    first, _, together = spread(indices)
    rank = len(places)
    given = b.aligned(values, len(shape)) if b.has(values) else values
    given = given.expand([b.size, *shape])
    if together and first:
        given = given.movedim(list(range(1 + first, 1 + first + rank)), list(range(1, rank + 1)))
    value = b.all(self)
    moved = [None if i is None else b.aligned(i, rank) for i in indices]
    return b.run(value.contiguous(), [numbers(b, value, rank), *moved], given, accumulate)


@batching(embedding)
def rows(b, weight, indices, padding_idx, scale_grad_by_freq, sparse):
    if not b.has(weight):
        return b.run(weight, b.first(indices), padding_idx, scale_grad_by_freq, sparse)
    if padding_idx >= 0 or scale_grad_by_freq:
        return b.decomposed(weight, indices, padding_idx, scale_grad_by_freq, sparse)
    table, places = b.first(weight), b.all(indices)
    moved = places + numbers(b, table, places.ndim - 1).to(places.dtype) * weight.shape[0]
    return b.run(table.flatten(0, 1), moved, -1, False, False)
