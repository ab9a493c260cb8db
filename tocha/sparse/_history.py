"""Gradients of sparse tensors: two bridges between the history of a sparse tensor and that of its values.

An operation reads values with `values_of`, computes on them as on any tensor, and puts the result together with `build`;
derivatives of any order follow.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from tocha import _C
from tocha.autograd.function import Function
from tocha.sparse._tensor import (
    SparseTensor,
    add_rows,
    coordinates,
    is_sparse,
    make,
    positions,
    sparse_dims,
    sparse_sizes,
)

Tensor = _C.Tensor


_requires_grad: Any = Tensor.requires_grad.__get__  # type: ignore[attr-defined]


def is_recorded(t: Tensor) -> bool:
    """Whether what is computed from t has a history."""
    return _C.is_grad_enabled() and _C._disabled_torch_function_impl(_requires_grad, (), (t,))


def values_of(t: SparseTensor) -> Tensor:
    """The values, with the history of t.

    Values of equal coordinates must be used alike: the gradient of one of them stands for all.
    """
    return _Values.apply(t) if is_recorded(t) else t._coo_values


def build(
    name: str, values: Tensor, indices: Tensor, size: Sequence[int], coalesced: bool = False, checked: bool = True
) -> SparseTensor:
    """A sparse tensor with the history of its values; `name` is that of the operation in the graph."""
    if is_recorded(values):
        return _builder(name).apply(values, indices, tuple(size), coalesced, checked)
    return make(indices, values, size, coalesced, checked)


def take_at(t: Tensor, pattern: SparseTensor) -> Tensor:
    """The elements of t, dense or sparse, where pattern has values."""
    if is_sparse(t):
        return _found(t, pattern)
    count = pattern._coo_indices.size(1)
    if sparse_dims(pattern) == 0:
        return t.unsqueeze(0).expand(count, *t.shape)
    if sparse_dims(pattern) == 1:
        return t.index_select(0, positions(pattern))
    return t[tuple(pattern._coo_indices)]


def _found(t: SparseTensor, pattern: SparseTensor) -> Tensor:
    """Elements of a sparse tensor: zero where it has none."""
    t = coalesced(t)
    have, wanted, values = positions(t), positions(pattern), values_of(t)
    if have.size(0) == 0:
        return values.new_zeros((wanted.size(0), *values.shape[1:]))
    places = _C.searchsorted(have, wanted).clamp(max=have.size(0) - 1)
    hit = have[places] == wanted
    return values.index_select(0, places) * hit.reshape(-1, *[1] * (values.dim() - 1)).to(values.dtype)


def coalesced(t: SparseTensor) -> SparseTensor:
    """t with every coordinate once, in order; values of equal coordinates are added."""
    if t._coo_coalesced:
        return t
    distinct, inverse = _C._unique2(positions(t), True, True)[:2]
    values = add_rows(values_of(t), inverse, distinct.size(0))
    return build("Coalesce", values, coordinates(distinct, sparse_sizes(t)), t.shape, True)


class _Build(Function):
    """Values to a sparse tensor. The gradient of a value is that of the element where it lies."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, indices: Tensor, size: tuple, coalesced: bool, checked: bool) -> SparseTensor:
        made = make(indices, values, size, coalesced, checked)
        ctx.pattern = make(indices, values.new_zeros(()).expand(values.shape), size, coalesced, checked)
        return made

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple:
        return take_at(grad, ctx.pattern), None, None, None, None


class _Values(Function):
    """A sparse tensor to its values. The gradient is sparse, with every coordinate once."""

    @staticmethod
    def forward(ctx: Any, t: SparseTensor) -> Tensor:
        ctx.t = make(t._coo_indices, t._coo_values, t.shape, t._coo_coalesced, t._coo_checked)
        return t._coo_values.detach()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        t: SparseTensor = ctx.t
        if t._coo_coalesced:
            return build("Values", grad, t._coo_indices, t.shape, True)
        distinct, inverse = _C._unique2(positions(t), True, True)[:2]
        count = inverse.size(0)
        order = _C.arange(count - 1, -1, -1)
        first = _C.zeros(distinct.size(0), dtype=_C.int64).scatter(0, inverse.flip(0), order)
        rows = grad.index_select(0, first)
        return build("Values", rows, coordinates(distinct, sparse_sizes(t)), t.shape, True)


def product(sparse: Tensor, dense: Tensor, flipped: bool, times: Callable) -> Tensor:
    """A sparse matrix of any layout, or its transpose where flipped, times a dense one, as times(sparse, dense, flipped) computes it."""
    return _Product.apply(sparse, dense, flipped, times) if is_recorded(sparse) else times(sparse, dense, flipped)


class _Product(Function):
    """sparse @ dense. The gradient of the sparse factor is dense: elements that are not held have one too."""

    @staticmethod
    def forward(ctx: Any, sparse: Tensor, dense: Tensor, flipped: bool, times: Callable) -> Tensor:
        ctx.sparse, ctx.flipped, ctx.times = sparse, flipped, times
        ctx.save_for_backward(dense)
        return times(sparse.detach(), dense, flipped)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple:
        (dense,) = ctx.saved_tensors
        for_sparse = for_dense = None
        if ctx.needs_input_grad[0]:
            for_sparse = grad @ dense.conj().transpose(-2, -1)
            for_sparse = for_sparse.transpose(-2, -1) if ctx.flipped else for_sparse
        if ctx.needs_input_grad[1]:
            sparse = ctx.sparse if _C.is_grad_enabled() else ctx.sparse.detach()
            for_dense = product(sparse, grad.conj(), not ctx.flipped, ctx.times).conj()
        return for_sparse, for_dense, None, None


_Product._backward_cls.__name__ = "MmBackward0"  # type: ignore[attr-defined]


@functools.cache
def _builder(name: str) -> Any:
    """The bridge whose nodes go by an operation's name."""
    made: Any = type(name, (_Build,), {})
    made._backward_cls.__name__ = f"{name}Backward0"
    return made
