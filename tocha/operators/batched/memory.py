"""Copies, conversions, and tensors made like others."""

from __future__ import annotations

from tocha.operators.batched.kinds import register, wrapped_dim
from tocha.operators.checks import _check_info, _check_range
from tocha.operators.complex import _conj, _neg_view, conj, imag, real, view_as_complex, view_as_real
from tocha.operators.copies import (
    _is_laid_out,
    _to_copy,
    _to_cpu,
    clone,
    copy_,
    fill_,
    to_device,
    to_dtype,
    zero_,
)
from tocha.operators.factories import (
    empty_like,
    full_like,
    new_empty,
    new_empty_strided,
    new_full,
    new_ones,
    new_zeros,
    ones_like,
    zeros_like,
)
from tocha.operators.joins import cat
from tocha.operators.masks import masked_fill_
from tocha.operators.record import batching
from tocha.operators.solvers import _column_major_copy
from tocha.operators.view_copies import _dense_copy, detach_copy
from tocha.operators.views import _unsafe_view, detach


def of_value(b, self, *rest):
    """Operators that look at no dims."""
    return b.run(b.first(self), *rest)


register(
    of_value,
    conj,
    _conj,
    _neg_view,
    real,
    imag,
    view_as_real,
    view_as_complex,
    detach,
    _check_info,
    _check_range,
)
register(of_value, _column_major_copy, _dense_copy, detach_copy)


@batching(clone, to_dtype, to_device, _to_copy, _to_cpu, zeros_like, ones_like, full_like, empty_like)
def in_format(b, self, *rest):
    """A memory format is that of a sample: those with channels last are of one rank."""
    value = b.first(self)
    if not any("channels_last" in str(v) for v in rest if v is not None):
        return b.run(value, *rest)
    return b.run(value.flatten(0, 1), *rest).unflatten(0, [b.size, -1])


@batching(_is_laid_out)
def laid_out(b, self, memory_format):
    return self.is_contiguous() if memory_format is None else self.is_contiguous(memory_format=memory_format)


@batching(_unsafe_view)
def unsafe_view(b, self, size):
    value = b.first(self)
    return value.reshape([b.size, *size])


@batching(new_empty, new_zeros, new_ones)
def new_of_size(b, self, size, *rest):
    return b.run(b.first(self), [b.size, *size], *rest)


@batching(new_full)
def new_filled(b, self, size, fill_value, *rest):
    return b.run(b.first(self), [b.size, *size], fill_value, *rest)


@batching(new_empty_strided)
def new_strided(b, self, size, stride, *rest):
    span = 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True)) if all(size) else 0
    return b.run(b.first(self), [b.size, *size], [span, *stride], *rest)


def written(rule):
    """The rule writes to self's value; its result is that."""
    rule.writes = True
    return rule


@batching(copy_)
@written
def copied(b, self, src, non_blocking=False):
    own = b.first(self)
    own.copy_(b.aligned(src, self.ndim) if b.is_tensor(src) else src)
    return own


@batching(fill_)
@written
def filled(b, self, value):
    own = b.first(self)
    if b.has(value):
        own.copy_(b.aligned(value, self.ndim))
    else:
        own.fill_(value)
    return own


@batching(zero_)
@written
def zeroed(b, self):
    return b.first(self).zero_()


@batching(masked_fill_)
@written
def masked(b, self, mask, value):
    own = b.first(self)
    where = b.aligned(mask, self.ndim)
    if b.has(value):
        own.copy_(own.where(where.logical_not(), b.aligned(value, self.ndim).to(own.dtype)))
    else:
        own.masked_fill_(where, value)
    return own


@batching(cat)
def joined(b, tensors, dim):
    rank = max(t.ndim for t in tensors)
    kept = [t for t in tensors if not (t.ndim == 1 and rank != 1 and t.shape[0] == 0)]
    return b.run([b.all(t) for t in kept], wrapped_dim(b, dim, rank))
