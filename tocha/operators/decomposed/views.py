"""Views that are other views: graphs of core operators know `permute`, `select`, `split_with_sizes` and `squeeze` of given dims."""

from __future__ import annotations

from tocha.operators.decomposed.parts import wrapped
from tocha.operators.record import decomposition, op
from tocha.operators.rules import wrap_dim
from tocha.operators.splits import equal_sizes, split, split_sizes, unbind
from tocha.operators.views import linalg_diagonal, squeeze, t, transpose


@decomposition(transpose)
def transpose_in_parts(self, dim0, dim1):
    a, b = wrap_dim(dim0, self.ndim), wrap_dim(dim1, self.ndim)
    order = list(range(self.ndim))
    if order:
        order[a], order[b] = order[b], order[a]
    return op.permute(self, order)


@decomposition(t)
def t_in_parts(self):
    return op.permute(self, [*reversed(range(self.ndim))])


@decomposition(squeeze)
def squeeze_in_parts(self):
    return op.squeeze(self, [i for i, n in enumerate(self.sizes) if n == 1])


@decomposition(unbind)
def unbind_in_parts(self, dim):
    at = wrapped(dim, self.ndim)
    return [op.select(self, at, i) for i in range(int(self.sizes[at]))]


@decomposition(split)
def split_in_parts(self, split_size, dim):
    return op.split_with_sizes(self, equal_sizes(self.sizes[wrapped(dim, self.ndim)], split_size, "split"), dim)


@decomposition(split_sizes)
def split_sizes_in_parts(self, split_size, dim):
    return op.split_with_sizes(self, split_size, dim)


@decomposition(linalg_diagonal)
def linalg_diagonal_in_parts(A, offset, dim1, dim2):
    return op.diagonal(A, offset, dim1, dim2)
