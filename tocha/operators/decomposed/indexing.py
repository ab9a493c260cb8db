"""Reading and writing along dims by index: everything is `index` and `index_put` with the other dims' own numbers."""

from __future__ import annotations

import math

from tocha.ir import dtypes as dt
from tocha.operators.decomposed.parts import along, counted, nothing, raised, wrapped
from tocha.operators.indexing import (
    _take_along,
    _unravel_index,
    _unsafe_index,
    _unsafe_masked_index,
    _unsafe_masked_index_put_accumulate,
    _wrapped_indices,
    embedding,
    embedding_renorm_,
    index_add,
    index_copy,
    index_fill,
    index_reduce,
    index_select,
    isin,
    nn_one_hot,
    put,
    spread_index,
    take,
    with_a_dim,
)
from tocha.operators.interpreter import DataDependent
from tocha.operators.masks import masked_fill_, masked_scatter, masked_scatter_
from tocha.operators.record import decomposition, op
from tocha.operators.scatter import (
    gather,
    scatter_add,
    scatter_src,
    scatter_src_reduce,
    scatter_value,
    scatter_value_reduce,
    segment_of_each,
    segment_reduce,
    used_part,
)


def at_dim(dim, index):
    """Indices that take slices along dim."""
    return [*[None] * dim, index]


def coordinates(index, dim):
    """Indices by dim for `out[i][j] = self[index[i][j]][j]`: the numbers of the other dims, and index itself at dim."""
    return [index if d == dim else along(counted(n, index), d, index.ndim) for d, n in enumerate(index.sizes)]


@decomposition(_unsafe_index)
def unsafe_index_in_parts(self, indices):
    return op.index(self, indices)


@decomposition(gather)
def gather_in_parts(self, dim, index, sparse_grad):
    if index.numel() == 0:
        return op.zeros(index.shape, dtype=self.dtype, device=self.device)
    x, i = with_a_dim(self), with_a_dim(index)
    return op.index(x, coordinates(i, wrapped(dim, x.ndim))).reshape(index.shape)


def scattered(self, dim, index, values, accumulate=False):
    """self with values, which broadcast to the index, at its places."""
    if index.numel() == 0:
        return self.clone()
    x, i = with_a_dim(self), with_a_dim(index)
    return x.index_put(coordinates(i, wrapped(dim, x.ndim)), values, accumulate).reshape(self.shape)


@decomposition(scatter_src)
def scatter_src_in_parts(self, dim, index, src):
    return scattered(self, dim, index, used_part(with_a_dim(src), with_a_dim(index)))


@decomposition(scatter_value)
def scatter_value_in_parts(self, dim, index, value):
    return scattered(self, dim, index, op.full([], value, dtype=self.dtype, device=self.device))


@decomposition(scatter_add)
def scatter_add_in_parts(self, dim, index, src):
    return scattered(self, dim, index, used_part(with_a_dim(src), with_a_dim(index)), True)


@decomposition(scatter_src_reduce)
def scatter_src_reduce_in_parts(self, dim, index, src, reduce):
    if reduce == "add":
        return self.scatter_add(dim, index, src)
    return self.scatter_reduce(dim, index, src, "prod")


@decomposition(scatter_value_reduce)
def scatter_value_reduce_in_parts(self, dim, index, value, reduce):
    source = op.full(index.shape, value, dtype=self.dtype, device=self.device)
    return self.scatter_add(dim, index, source) if reduce == "add" else self.scatter_reduce(dim, index, source, "prod")


EMPTY_SEGMENTS = {"sum": 0.0, "mean": float("nan"), "prod": 1.0, "max": float("-inf"), "min": float("inf")}
SCATTERED = {"sum": "sum", "mean": "sum", "prod": "prod", "max": "amax", "min": "amin"}


@decomposition(segment_reduce)
def segment_reduce_in_parts(data, reduce, lengths, indices, offsets, axis, unsafe, initial):
    d = wrapped(axis, data.ndim)
    bounds = lengths if lengths is not None else offsets
    segments = bounds.size(d) if lengths is not None else bounds.size(d) - 1
    sizes = [*bounds.sizes[:d], segments, *data.sizes[d + 1 :]]
    which = segment_of_each(data, lengths, offsets, d)
    which = which.reshape([*which.shape, *([1] * (data.ndim - d - 1))]).expand(data.shape)
    # What is in no segment goes to one of its own behind them.
    which = op.where((which < 0) | (which > segments), segments, which)
    rows = [n + 1 if i == d else n for i, n in enumerate(sizes)]
    start = {"mean": 0.0}.get(reduce, EMPTY_SEGMENTS[reduce]) if initial is None else initial
    whole = op.full(rows, start, dtype=data.dtype, device=data.device)
    out = whole.scatter_reduce(d, which, data, SCATTERED[reduce]).narrow(d, 0, segments)
    if reduce != "mean":
        return out
    members = op.zeros(rows, dtype=dt.int64, device=data.device).scatter_add(d, which, op.ones_like(which))
    members = members.narrow(d, 0, segments)
    empty = EMPTY_SEGMENTS["mean"] if initial is None else initial
    return op.where(members == 0, op.full([], empty, dtype=data.dtype, device=data.device), out / members)


# -- slices ------------------------------------------------------------------------------------------


@decomposition(index_select)
def index_select_in_parts(self, dim, index):
    d = wrapped(dim, self.ndim)
    return op.index(with_a_dim(self), at_dim(d, with_a_dim(index))).reshape(
        [index.numel() if i == d else n for i, n in enumerate(self.sizes)]
    )


def slices(self, dim, index, values, accumulate=False):
    """self with values in the slices that index names."""
    x = with_a_dim(self)
    d = wrapped(dim, x.ndim)
    return x.index_put(at_dim(d, with_a_dim(index)), values, accumulate).reshape(self.shape)


@decomposition(index_add)
def index_add_in_parts(self, dim, index, source, alpha):
    parts = with_a_dim(source)
    if alpha != 1:  # among integers a float is one of them: 2.5 is 2
        whole = not self.dtype.is_differentiable
        parts = op.mul(parts, op.full([], alpha, dtype=self.dtype, device=self.device) if whole else alpha)
    return slices(self, dim, index, parts, True)


@decomposition(index_copy)
def index_copy_in_parts(self, dim, index, source):
    d = wrapped(dim, self.ndim)
    sizes = [index.numel() if i == d else n for i, n in enumerate(with_a_dim(self).sizes)]
    return slices(self, dim, index, source.expand(sizes) if source.ndim == 0 else source)


@decomposition(index_fill)
def index_fill_in_parts(self, dim, index, value):
    return slices(self, dim, index, value.to(self.dtype))


@decomposition(index_reduce)
def index_reduce_in_parts(self, dim, index, source, reduce, include_self):
    parts = with_a_dim(source)
    places = spread_index(index, parts, dim).to(dt.int64)
    return (
        with_a_dim(self)
        .scatter_reduce(wrapped(dim, self.ndim), places, parts, reduce, include_self=include_self)
        .reshape(self.shape)
    )


# -- flat positions ----------------------------------------------------------------------------------


@decomposition(take)
def take_in_parts(self, index):
    return op.index(self.reshape([-1]), [index])


@decomposition(put)
def put_in_parts(self, index, source, accumulate):
    flat = self.reshape([self.numel()])
    return flat.index_put([index.reshape([-1])], source.reshape([-1]), accumulate).reshape(self.shape)


@decomposition(_unravel_index)
def unravel_index_in_parts(indices, shape):
    rest, out = indices.to(dt.int64), []
    for n in reversed(shape):
        out.append(op.remainder(rest, n))
        rest = op.div(rest, n, rounding_mode="floor")
    return out[::-1]


# -- masks -------------------------------------------------------------------------------------------


def clamped(self, indices):
    """Indices that are out of range as the nearest one; those from the end are in range."""
    return [None if i is None else i.clamp(-n, n - 1) for i, n in zip(indices, self.sizes, strict=False)]


@decomposition(_unsafe_masked_index)
def unsafe_masked_index_in_parts(self, mask, indices, fill):
    return op.where(
        mask, op.index(self, clamped(self, indices)), op.full([], fill, dtype=self.dtype, device=self.device)
    )


@decomposition(_unsafe_masked_index_put_accumulate)
def unsafe_masked_index_put_in_parts(self, mask, indices, values):
    return self.index_put(clamped(self, indices), op.where(mask, values, nothing(values)), True)


@decomposition(masked_fill_)
def masked_fill_in_parts(self, mask, value):
    return self.copy_(op.where(mask, value.to(self.dtype), self))


@decomposition(masked_scatter)
def masked_scatter_in_parts(self, mask, source):
    sizes = op.broadcast_tensors([self, mask])[0].shape
    held = mask.expand(sizes).to(dt.bool_)
    order = op.cumsum(held.reshape([-1]).to(dt.int64), 0) - 1
    values = op.index(source.reshape([-1]), [order.clamp(0, source.numel() - 1)])
    return op.where(held, values.reshape(sizes), self)


@decomposition(masked_scatter_)
def masked_scatter_inplace_in_parts(self, mask, source):
    return self.copy_(op.masked_scatter(self, mask, source))


# -- rows and classes --------------------------------------------------------------------------------


@decomposition(embedding)
def embedding_in_parts(weight, indices, padding_idx, scale_grad_by_freq, sparse):
    return op.index(weight, [indices])


@decomposition(embedding_renorm_)
def embedding_renorm_in_parts(self, indices, max_norm, norm_type):
    rows = op.index(self, [indices.reshape([-1])])
    norms = op.linalg_vector_norm(raised(rows), norm_type, [1], True)
    scale = op.where(norms > max_norm, max_norm / (norms + 1e-7), 1.0)
    return self.index_put_([indices.reshape([-1])], (rows * scale).to(self.dtype))


@decomposition(nn_one_hot)
def one_hot_in_parts(tensor, num_classes):
    if num_classes < 0:
        raise DataDependent("one_hot", "the largest class is not known")
    op._check_range(tensor, 0, math.inf, "[one_hot] Class values must be non-negative.")
    op._check_range(tensor, 0, num_classes - 1, "[one_hot] Class values must be smaller than num_classes.")
    return (tensor.unsqueeze(-1) == counted(num_classes, tensor)).to(dt.int64)


@decomposition(isin)
def isin_in_parts(elements, test_elements, assume_unique, invert):
    found = op.any(elements.unsqueeze(-1) == test_elements.reshape([-1]), [-1])
    return ~found if invert else found


@decomposition(_wrapped_indices)
def wrapped_indices_in_parts(indices, size):
    return op.remainder(indices, size)


@decomposition(_take_along)
def take_along_in_parts(self, indices, dim):
    sizes = [
        op.broadcast_tensors([self.narrow(dim, 0, 0), indices.narrow(dim, 0, 0)])[0].sizes[d] if d != dim else n
        for d, n in enumerate(self.sizes)
    ]
    places = op.remainder(indices, self.size(dim))
    return self.expand(sizes).gather(
        dim, places.expand([indices.size(d) if d == dim else n for d, n in enumerate(sizes)])
    )
