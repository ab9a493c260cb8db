"""The parts of a compressed sparse tensor: how they are made, counted, checked, and brought to a dense tensor and back.

docs/inside/sparse.md says what the parts mean; everything on such tensors works with the functions here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeGuard

from tocha import _C
from tocha.overrides import DisableTorchFunctionSubclass
from tocha.sparse._tensor import CompressedTensor, Tensor, add_rows

BY_ROWS = (_C.sparse_csr, _C.sparse_bsr)
BLOCKED = (_C.sparse_bsr, _C.sparse_bsc)
LAYOUTS = (_C.sparse_csr, _C.sparse_csc, _C.sparse_bsr, _C.sparse_bsc)


def make_compressed(
    layout: Any,
    groups: Tensor,
    within: Tensor,
    values: Tensor,
    size: Sequence[int],
    checked: bool = True,
    requires_grad: bool = False,
) -> CompressedTensor:
    """A tensor of these parts, which fit together; it has no history."""
    with DisableTorchFunctionSubclass():
        shape = _C.zeros((), dtype=values.dtype, device=values.device).expand(tuple(size))
        made: CompressedTensor = Tensor._make_subclass(CompressedTensor, shape, requires_grad)
    made._kind, made._size = layout, tuple(size)
    made._groups, made._within, made._held = groups.detach(), within.detach(), values.detach()
    made._checked = checked
    return made._mark_sparse()


def is_compressed(t: Any) -> TypeGuard[CompressedTensor]:
    """Whether t is a tensor of one of the compressed layouts."""
    return isinstance(t, CompressedTensor)


def sizes(t: Tensor) -> tuple[int, ...]:
    """The shape of any tensor. A compressed one's own attributes are quicker than its overrides."""
    return t._size if is_compressed(t) else t.shape


def dtype_of(t: Tensor) -> Any:
    """The dtype of any tensor."""
    return t._held.dtype if is_compressed(t) else t.dtype


class Form(NamedTuple):
    """The sizes that a compressed tensor has: of batches, of its matrix counted in blocks, of a block and of a value."""

    batch: tuple[int, ...]
    rows: int
    columns: int
    block: tuple[int, ...]  # empty where values are not blocks
    dense: tuple[int, ...]

    @property
    def matrices(self) -> int:
        """How many matrices there are."""
        return math.prod(self.batch)


def form_of_parts(layout: Any, groups: Tensor, values: Tensor, size: Sequence[int]) -> Form:
    """The sizes that follow from the parts."""
    count = groups.dim() - 1
    blocked = 2 if layout in BLOCKED else 0
    block = tuple(values.shape[count + 1 : count + 1 + blocked])
    rows, columns = size[count], size[count + 1]
    if block:
        rows, columns = rows // max(block[0], 1), columns // max(block[1], 1)
    return Form(tuple(size[:count]), rows, columns, block, tuple(size[count + 2 :]))


def form(t: CompressedTensor) -> Form:
    """The sizes of a tensor."""
    return form_of_parts(t._kind, t._groups, t._held, t._size)


def major(t: CompressedTensor) -> int:
    """How many groups there are: rows, or columns."""
    found = form(t)
    return found.rows if t._kind in BY_ROWS else found.columns


def minor(t: CompressedTensor) -> int:
    """How many places a group has."""
    found = form(t)
    return found.columns if t._kind in BY_ROWS else found.rows


def check_indices(t: CompressedTensor) -> None:
    """Refuses indices that point outside, which tensors made without checks may have."""
    if t._checked or t._groups.is_meta:
        return
    groups, within = t._groups, t._within
    steps = groups[..., 1:] - groups[..., :-1]
    fits = (groups[..., 0] == 0).all() & (groups[..., -1] == within.size(-1)).all() & (steps >= 0).all()
    if not bool(fits) or not bool(((within >= 0) & (within < minor(t))).all()):
        raise IndexError("[sparse] index out of range in self: the indices of a compressed tensor do not fit its size")
    t._checked = True


class Flat(NamedTuple):
    """All matrices of a batch as one: the groups of one after those of the other, with places of their own."""

    groups: Tensor
    within: Tensor
    values: Tensor


def flat_values(t: CompressedTensor, values: Tensor) -> Tensor:
    """The values of all matrices one after the other."""
    count = t._groups.dim() - 1
    return values if count == 0 else values.reshape(-1, *values.shape[count + 1 :])


def flat(t: CompressedTensor, values: Tensor) -> Flat:
    """The batch as one block-diagonal matrix, with these values for the tensor's own."""
    check_indices(t)
    if t._groups.dim() == 1:
        return Flat(t._groups, t._within, values)
    n, count = form(t).matrices, t._within.size(-1)
    number = _C.arange(n).reshape(-1, 1)
    ends = (t._groups.reshape(n, -1)[:, 1:] + number * count).reshape(-1)
    groups = _C.cat([ends.new_zeros((1,)), ends])
    within = (t._within.reshape(n, -1) + number * minor(t)).reshape(-1)
    return Flat(groups, within, flat_values(t, values))


def group_of_each(groups: Tensor) -> Tensor:
    """The group that each value is in, of one matrix."""
    steps = (groups[1:] - groups[:-1]).to(_C.int64)
    return _C.repeat_interleave(_C.arange(steps.size(0)), steps)


class Places(NamedTuple):
    """Where each value (or block) lies: its matrix in the batch, its row and its column, in blocks."""

    matrix: Tensor
    row: Tensor
    column: Tensor


def places(t: CompressedTensor) -> Places:
    """Where the values lie, in the order in which they are held."""
    check_indices(t)
    n, count = form(t).matrices, t._within.size(-1)
    steps = (t._groups[..., 1:] - t._groups[..., :-1]).reshape(-1).to(_C.int64)
    group = _C.repeat_interleave(_C.arange(major(t)).repeat(n), steps)
    matrix = _C.arange(n).repeat_interleave(count)
    within = t._within.reshape(-1).to(_C.int64)
    return Places(matrix, group, within) if t._kind in BY_ROWS else Places(matrix, within, group)


def keys(t: CompressedTensor) -> Tensor:
    """One number for each value that says where it lies; they rise where indices are in order."""
    at, by_rows = places(t), t._kind in BY_ROWS
    group, within = (at.row, at.column) if by_rows else (at.column, at.row)
    return (at.matrix * major(t) + group) * minor(t) + within


def to_blocks(dense: Tensor, found: Form) -> Tensor:
    """A dense tensor as [matrix, row, column, block..., dense...]."""
    if not found.block:
        return dense.reshape(found.matrices, found.rows, found.columns, *found.dense)
    p, q = found.block
    split = dense.reshape(found.matrices, found.rows, p, found.columns, q, *found.dense)
    return split.permute(0, 1, 3, 2, 4, *range(5, split.dim()))


def from_blocks(blocks: Tensor, found: Form, size: Sequence[int]) -> Tensor:
    """The other way round."""
    if found.block:
        blocks = blocks.permute(0, 1, 3, 2, 4, *range(5, blocks.dim()))
    return blocks.reshape(tuple(size))


def take_at(dense: Tensor, t: CompressedTensor) -> Tensor:
    """The elements of a dense tensor where t holds values, in the shape of its values."""
    return to_blocks(dense, form(t))[tuple(places(t))].reshape(t._held.shape)


def spread(t: CompressedTensor, values: Tensor) -> Tensor:
    """A dense tensor with these values where t has its own, and zeros elsewhere."""
    found, at = form(t), places(t)
    count = found.matrices * found.rows * found.columns
    to = (at.matrix * found.rows + at.row) * found.columns + at.column
    held = flat_values(t, values)
    if held.dim() == 1 and held.dtype != _C.bool:
        rows = _C.zeros(count, dtype=held.dtype, device=held.device).scatter_add(0, to, held)
    else:
        rows = add_rows(held, to, count)
    sizes = (found.matrices, found.rows, found.columns, *found.block, *found.dense)
    return from_blocks(rows.reshape(sizes), found, t.shape)


def compress(at: Tensor, groups: int, matrices: int) -> Tensor:
    """Where groups begin, [matrix, group + 1], of the group numbers (counted through all matrices) of the values."""
    counts = _C.bincount(at, minlength=groups * matrices).reshape(matrices, groups)
    return _C.cat([counts.new_zeros((matrices, 1)), counts.cumsum(1)], 1)


def same_indices(a: CompressedTensor, b: CompressedTensor) -> bool:
    """Whether two tensors of one layout hold values at the same places."""
    if a._groups is b._groups and a._within is b._within:
        return True
    return (
        a._groups.shape == b._groups.shape
        and a._within.shape == b._within.shape
        and bool((a._groups == b._groups).all())
        and bool((a._within == b._within).all())
    )
