"""Kernels along dims: scans, sorts, softmax, transforms, gathering and scattering by an index of one rank with self."""

from __future__ import annotations

from tocha.operators.batched.kinds import along_dims, mapped, register
from tocha.operators.distances import linalg_cross
from tocha.operators.fft import _fft_c2c, _fft_c2r, _fft_r2c
from tocha.operators.indexing import _take_along
from tocha.operators.norms import linalg_vector_norm
from tocha.operators.rearrange import _roll_dims, flip
from tocha.operators.record import batching
from tocha.operators.scans import _recurrence, cummax, cummin, cumprod, cumsum, logcumsumexp
from tocha.operators.scatter import (
    gather,
    scatter_add,
    scatter_reduce,
    scatter_src,
    scatter_src_reduce,
    scatter_value,
    scatter_value_reduce,
)
from tocha.operators.softmax import (
    _log_softmax,
    _log_softmax_backward_data,
    _softmax,
    _softmax_backward_data,
    log_softmax,
    softmax,
)
from tocha.operators.sorting import kthvalue, sort, topk
from tocha.operators.statistics import median, median_dim, mode, nanmedian, nanmedian_dim

register(along_dims, softmax, log_softmax, _softmax, _log_softmax, _softmax_backward_data, _log_softmax_backward_data)
register(along_dims, _recurrence, cumsum, cumprod, cummax, cummin, logcumsumexp)
register(along_dims, linalg_vector_norm)
register(along_dims, sort, topk, kthvalue, median_dim, nanmedian_dim, mode)
register(along_dims, _fft_c2c, _fft_r2c, _fft_c2r, flip, _roll_dims)
register(
    along_dims,
    gather,
    scatter_src,
    scatter_value,
    scatter_add,
    scatter_src_reduce,
    scatter_value_reduce,
    scatter_reduce,
)


@batching(linalg_cross, _take_along)
def broadcast_along(b, *values):
    """The same where operands are broadcast: ones go between the batch dim and the others."""
    rank = max(v.ndim for v in values if b.is_tensor(v))
    at = next(i for i, a in enumerate(b.record.schema.arguments) if a.name == "dim")
    found = [b.aligned(b.repeated(v), rank) if b.is_tensor(v) else v for v in values]
    found[at] = values[at] % rank + 1
    return b.run(*found)


@batching(median)
def median_of_all(b, self):
    return mapped(lambda r: r, b.call(median_dim, b.first(self).reshape([b.size, -1]), 1, False)[0])


@batching(nanmedian)
def nanmedian_of_all(b, self):
    return b.call(nanmedian_dim, b.first(self).reshape([b.size, -1]), 1, False)[0]
