"""What a view's base is after a write to the view: how graphs without writes say it (tocha/_functorch/functionalize.py).

A view without a rule here is written back by its geometry (`as_strided_scatter`).
"""

from __future__ import annotations

from tocha.operators.complex import _conj, _neg_view, conj, imag, real, view_as_complex, view_as_real
from tocha.operators.record import inverse, op
from tocha.operators.rules import wrap_dim
from tocha.operators.splits import split, split_sizes, split_with_sizes, unbind
from tocha.operators.tracing import lift_fresh
from tocha.operators.views import (
    alias,
    as_strided,
    detach,
    diagonal,
    narrow,
    permute,
    select,
    slice_,
    squeeze,
    squeeze_dim,
    squeeze_dims,
    swapaxes,
    t,
    transpose,
    unsqueeze,
    view_,
    view_dtype,
)

# -- all elements, in other places


@inverse(alias, detach, lift_fresh)
def alias_inverse(self, written):
    return written


@inverse(view_)
def view_inverse(self, written, size):
    return written.reshape(self.shape)


@inverse(view_dtype)
def view_dtype_inverse(self, written, dtype):
    return op.view(written, self.dtype)


@inverse(squeeze)
def squeeze_inverse(self, written):
    return written.reshape(self.shape)


@inverse(squeeze_dim)
def squeeze_dim_inverse(self, written, dim):
    return written if written.ndim == self.ndim else written.unsqueeze(dim)


@inverse(squeeze_dims)
def squeeze_dims_inverse(self, written, dim):
    return written.reshape(self.shape)


@inverse(unsqueeze)
def unsqueeze_inverse(self, written, dim):
    return written.squeeze(wrap_dim(dim, self.ndim + 1))


@inverse(permute)
def permute_inverse(self, written, dims):
    places = [0] * self.ndim
    for i, d in enumerate(dims):
        places[wrap_dim(d, self.ndim)] = i
    return written.permute(places)


@inverse(transpose, swapaxes)
def transpose_inverse(self, written, dim0, dim1):
    return written.transpose(dim0, dim1)


@inverse(t)
def t_inverse(self, written):
    return written.t()


@inverse(conj, _conj)
def conj_inverse(self, written):
    return op.conj(written)


@inverse(_neg_view)
def neg_view_inverse(self, written):
    return -written


@inverse(view_as_real)
def view_as_real_inverse(self, written):
    return op.view_as_complex(written.contiguous())


@inverse(view_as_complex)
def view_as_complex_inverse(self, written):
    return op.view_as_real(op.resolve_conj(written))


@inverse(real)
def real_inverse(self, written):
    return op.complex(written, op.imag(self)) if self.is_complex() else written


@inverse(imag)
def imag_inverse(self, written):
    return op.complex(op.real(self), written)


# -- some of the elements


@inverse(select)
def select_inverse(self, written, dim, index):
    return op.select_scatter(self, written, dim, index)


@inverse(slice_)
def slice_inverse(self, written, dim, start, end, step):
    return op.slice_scatter(self, written, dim, start, end, step)


@inverse(narrow)
def narrow_inverse(self, written, dim, start, length):
    return op.slice_scatter(self, written, dim, start, start + length, 1)


@inverse(diagonal)
def diagonal_inverse(self, written, offset, dim1, dim2):
    return op.diagonal_scatter(self, written, offset, dim1, dim2)


@inverse(as_strided)
def as_strided_inverse(self, written, size, stride, storage_offset):
    return op.as_strided_scatter(self, written, size, stride, storage_offset)


@inverse(unbind)
def unbind_inverse(self, written, dim, index):
    return op.select_scatter(self, written, dim, index)


@inverse(split)
def split_inverse(self, written, split_size, dim, index):
    start = index * split_size
    return op.slice_scatter(self, written, dim, start, start + written.size(dim), 1)


@inverse(split_sizes, split_with_sizes)
def split_with_sizes_inverse(self, written, split_sizes, dim, index):
    start = 0
    for n in split_sizes[:index]:
        start = start + n
    return op.slice_scatter(self, written, dim, start, start + written.size(dim), 1)
