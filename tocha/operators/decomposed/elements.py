"""Kernels that move elements, as loops: what one element of the result is, read at index expressions.

`reader.read(t, index)` is t's element there, `reader.position(i)` an index as a number, `reader.loaded(node, size)` a
number that was read as an index in [0, size). With `guard`, nothing is read where it does not hold.
"""

from __future__ import annotations

from tocha.ir import dtypes as dt
from tocha.ir import layout, scalar
from tocha.ir import symbolic as s
from tocha.ir.sym_types import expression as plain
from tocha.operators.copies import _to_copy, clone, fill, to_dtype
from tocha.operators.distances import linalg_cross
from tocha.operators.factories import arange_step, full
from tocha.operators.facts import Facts
from tocha.operators.indexing import embedding, index, index_select
from tocha.operators.joins import cat, is_skipped
from tocha.operators.rearrange import _in_format_of, constant_pad_nd
from tocha.operators.record import elements
from tocha.operators.scatter import gather
from tocha.operators.splits import select_scatter, slice_scatter
from tocha.operators.view_copies import _dense_copy, detach_copy

MOST_PIECES = 9  # of which one loop is made: it is cut at their ends


@elements(clone, _dense_copy, detach_copy, _in_format_of)
def same_element(reader, at, self, *layout):
    return reader.read(self, at)


@elements(to_dtype)
def converted_element(reader, at, self, dtype, *others):
    return reader.converted(reader.read(self, at), dtype)


@elements(_to_copy)
def copied_element(reader, at, self, dtype, device, *others):
    if reader.result.device != self.device:
        raise reader.refusal("a copy to another device")
    return reader.converted(reader.read(self, at), reader.result.dtype)


@elements(full)
def filled_element(reader, at, size, fill_value, dtype, device):
    return reader.number(fill_value, reader.result.dtype)


@elements(fill)
def replaced_element(reader, at, self, value):
    t = reader.result.dtype
    return reader.converted(reader.read(value, []), t) if isinstance(value, Facts) else reader.number(value, t)


def check_dense(reader):
    """Copies of a storage have the gaps of the original."""
    t = reader.result
    if not layout.is_dense(t.sizes, t.steps):
        raise reader.refusal("a copy with gaps")


def from_the_front(reader, place, t, d):
    """A place along a dim that may be counted from its end."""
    place = plain(place)
    if reader.holds(s.ge(place, 0)):
        return place
    wrapped = s.add(place, reader.size(t, d))
    return wrapped if reader.holds(s.lt(place, 0)) else s.choose(s.lt(place, 0), wrapped, place)


@elements(select_scatter)
def element_beside_a_row(reader, at, self, src, dim, index):
    check_dense(reader)
    d = dim % self.ndim
    place = from_the_front(reader, index, self, d)
    here = reader.position(at[d]) == reader.position(place)
    new = reader.read(src, [*at[:d], *at[d + 1 :]], guard=s.eq(at[d], place))
    return scalar.where(here, reader.converted(new, self.dtype), reader.read(self, at))


@elements(slice_scatter)
def element_beside_a_slice(reader, at, self, src, dim, start, end, step):
    check_dense(reader)
    d = dim % self.ndim
    begin, step = from_the_front(reader, 0 if start is None else start, self, d), plain(step)
    if not reader.holds(s.ge(begin, 0)):
        raise reader.refusal("slice_scatter: whether it begins within the tensor is not known")
    here = s.add(at[d], s.scale(begin, -1))
    past = s.add(begin, s.mul(reader.size(src, d), step))
    guards = [s.ge(at[d], begin), s.lt(at[d], past)]
    inside = (reader.position(at[d]) >= reader.position(begin)) & (reader.position(at[d]) < reader.position(past))
    if step != 1:
        guards.append(s.eq(s.mod(here, step), 0))
        inside = inside & (reader.position(s.mod(here, step)) == 0)
    place = [*at[:d], s.floordiv(here, step), *at[d + 1 :]]
    new = reader.read(src, place, guard=s.combine("and", guards))
    return scalar.where(inside, reader.converted(new, self.dtype), reader.read(self, at))


@elements(arange_step)
def arange_element(reader, at, start, end, step, dtype, device):
    t = reader.result.dtype
    wide = dt.int64 if t.is_integer else dt.float64
    here = scalar.cast(reader.position(at[0]), wide)
    return scalar.cast(reader.number(start, wide) + here * reader.number(step, wide), t)


@elements(cat)
def joined_element(reader, at, tensors, dim):
    pieces = [t for t in tensors if not is_skipped(t)]
    if len(pieces) > MOST_PIECES:
        raise reader.refusal("cat: of many tensors")
    d = dim % pieces[0].ndim
    t = reader.result.dtype
    begin, found, ends = 0, [], []
    for x in pieces:
        end = s.add(begin, reader.size(x, d))
        inside = s.combine("and", [s.ge(at[d], begin), s.lt(at[d], end)])
        place = [s.add(i, s.scale(begin, -1)) if k == d else i for k, i in enumerate(at)]
        found.append(scalar.cast(reader.read(x, place, guard=inside), t))
        ends.append(end)
        begin = end
    value = found[-1]
    for element, end in zip(reversed(found[:-1]), reversed(ends[:-1]), strict=True):
        value = scalar.where(reader.position(at[d]) < reader.position(end), element, value)
    return value


@elements(constant_pad_nd)
def padded_element(reader, at, self, pad, value):
    place, guards, inside = list(at), [], scalar.constant(True, dt.bool_)
    for i in range(len(pad) // 2):
        d, before, after = self.ndim - 1 - i, plain(pad[2 * i]), plain(pad[2 * i + 1])
        size = reader.size(self, d)
        place[d] = s.add(at[d], s.scale(before, -1))
        past = s.add(before, size)
        if not (isinstance(before, int) and before <= 0):
            guards.append(s.ge(at[d], before))
            inside = scalar.logical_and(inside, reader.position(at[d]) >= reader.position(before))
        if not (isinstance(after, int) and after <= 0):
            guards.append(s.lt(at[d], past))
            inside = scalar.logical_and(inside, reader.position(at[d]) < reader.position(past))
    element = reader.read(self, place, guard=s.combine("and", guards) if guards else True)
    fill = reader.number(value, reader.result.dtype)
    return scalar.where(inside, element, fill)


@elements(index)
def indexed_element(reader, at, self, indices):
    given = [i for i in indices if i is not None]
    if not given or any(i.dtype in (dt.bool_, dt.uint8) for i in given):
        raise reader.refusal("index: masks choose as many elements as they have")
    width = max(i.ndim for i in given)
    places = [k for k, i in enumerate(indices) if i is not None]
    together = places == list(range(places[0], places[-1] + 1))
    first = places[0] if together else 0
    chosen = at[first : first + width]
    rest = [*at[:first], *at[first + width :]]
    where = []
    for k in range(self.ndim):
        i = indices[k] if k < len(indices) else None
        if i is None:
            where.append(rest.pop(0))
            continue
        lead = width - i.ndim
        own = [0 if reader.is_one(i, d) else chosen[lead + d] for d in range(i.ndim)]
        n = scalar.cast(reader.read(i, own), dt.int64)
        size = reader.size(self, k)
        where.append(reader.loaded(scalar.where(n < 0, n + reader.position(size), n), size))
    return reader.read(self, where)


def chosen_place(reader, index, at, self, dim):
    """A place along a dim that an index of its own says. Unlike `index`, what reads so refuses places counted from the end."""
    return reader.loaded(scalar.cast(reader.read(index, at), dt.int64), reader.size(self, dim))


@elements(embedding)
def embedding_element(reader, at, weight, indices, padding_idx, scale_grad_by_freq, sparse):
    rank = indices.ndim
    return reader.read(weight, [chosen_place(reader, indices, at[:rank], weight, 0), *at[rank:]])


@elements(index_select)
def selected_element(reader, at, self, dim, index):
    if self.ndim == 0:
        raise reader.refusal("index_select: a number has no dim")
    d = dim % self.ndim
    place = chosen_place(reader, index, at[d : d + 1] if index.ndim else [], self, d)
    return reader.read(self, [*at[:d], place, *at[d + 1 :]])


@elements(gather)
def gathered_element(reader, at, self, dim, index, sparse_grad):
    if self.ndim == 0 or index.ndim != self.ndim:
        raise reader.refusal("gather: numbers have no dims")
    d = dim % self.ndim
    return reader.read(self, [*at[:d], chosen_place(reader, index, at, self, d), *at[d + 1 :]])


@elements(linalg_cross)
def cross_element(reader, at, self, other, dim):
    """Rounded as the kernel rounds it: of two products that are equal, something may be left."""
    t, d = reader.result.dtype, dim % len(at)
    if not (t.is_integer or t.is_floating):
        raise reader.refusal("cross: complex numbers")

    def turned(x, by):
        place = [s.mod(s.add(i, by), 3) if k == d else i for k, i in enumerate(at)]
        return scalar.cast(reader.broadcast(x, place), t.compute)

    a, b, c, d = turned(self, 1), turned(other, 2), turned(self, 2), turned(other, 1)
    if t.compute is t:
        return scalar.madd(a, b, -(c * d)) if t.is_floating else a * b - c * d
    rounded = [scalar.cast(scalar.cast(x, t), t.compute) for x in (a * b, c * d)]
    return scalar.cast(rounded[0] - rounded[1], t)
