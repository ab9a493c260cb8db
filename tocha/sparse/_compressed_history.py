"""Gradients of compressed sparse tensors: bridges between the history of a tensor and that of its values.

As in `_history.py` an operation reads values with `held`, computes on them as on any tensor, and puts the result together
with `rebuild`. A gradient that arrives may have any layout.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from tocha.autograd.function import Function
from tocha.sparse._compressed import is_compressed, make_compressed, same_indices, spread, take_at
from tocha.sparse._history import is_recorded
from tocha.sparse._tensor import CompressedTensor, Tensor, is_sparse


def held(t: CompressedTensor) -> Tensor:
    """The values, with the history of t."""
    return _Held.apply(t) if is_recorded(t) else t._held


def rebuild(
    name: str, values: Tensor, layout: Any, groups: Tensor, within: Tensor, size: Sequence[int], checked: bool = True
) -> CompressedTensor:
    """A compressed tensor with the history of its values; `name` is that of the operation in the graph."""
    if is_recorded(values):
        return _rebuilder(name).apply(values, layout, groups, within, tuple(size), checked)
    return make_compressed(layout, groups, within, values, size, checked)


def with_held(t: CompressedTensor, name: str, values: Tensor) -> CompressedTensor:
    """A tensor with t's indices and other values."""
    return rebuild(name, values, t._kind, t._groups, t._within, t.shape, t._checked)


def values_at(grad: Tensor, t: CompressedTensor) -> Tensor:
    """The elements of a tensor of any layout where t holds values."""
    if is_compressed(grad):
        if grad._kind == t._kind and grad._held.shape == t._held.shape and same_indices(grad, t):
            return held(grad)
        return take_at(spread(grad, held(grad)), t)
    return take_at(grad.to_dense() if is_sparse(grad) else grad, t)


class _Rebuild(Function):
    """Values to a compressed tensor. The gradient of a value is that of the element where it lies."""

    @staticmethod
    def forward(
        ctx: Any, values: Tensor, layout: Any, groups: Tensor, within: Tensor, size: tuple, checked: bool
    ) -> Any:
        ctx.pattern = make_compressed(layout, groups, within, values.new_zeros(()).expand(values.shape), size, checked)
        return make_compressed(layout, groups, within, values, size, checked)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple:
        return values_at(grad, ctx.pattern), None, None, None, None, None


class _Held(Function):
    """A compressed tensor to its values. The gradient has the layout and the indices of the tensor."""

    @staticmethod
    def forward(ctx: Any, t: CompressedTensor) -> Tensor:
        ctx.t = make_compressed(t._kind, t._groups, t._within, t._held, t.shape, t._checked)
        return t._held.detach()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return with_held(ctx.t, "Values", grad)


@functools.cache
def _rebuilder(name: str) -> Any:
    """The bridge whose nodes go by an operation's name."""
    made: Any = type(name, (_Rebuild,), {})
    made._backward_cls.__name__ = f"{name}Backward{'' if name[-1].isdigit() else '0'}"
    return made


def whole(t: Tensor) -> Tensor:
    """A sparse tensor of any layout as a dense one whose gradient comes back whole: zeros have one too."""
    if is_recorded(t):
        return _Whole.apply(t)
    return t.detach().to_dense()


class _Whole(Function):
    """A sparse tensor in dense form; the gradient is the dense one."""

    @staticmethod
    def forward(ctx: Any, t: Tensor) -> Tensor:
        return t.detach().to_dense()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad


def spread_sum(t: CompressedTensor) -> Tensor:
    """A compressed tensor as a term of a sum with a dense one."""
    return whole(t)
