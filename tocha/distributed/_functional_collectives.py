"""Collectives that return their result, as operators that graphs can hold and gradients go through. Over one rank a result is a copy.

PyTorch's results are AsyncCollectiveTensor until they are waited for; one rank has nothing to wait for, and results are plain tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tocha import _C, _ops
from tocha._library.library import Library
from tocha._tensor import Tensor
from tocha.distributed import collectives
from tocha.distributed._types import ProcessGroup, ReduceOp
from tocha.distributed.collectives import _resolve_process_group
from tocha.distributed.device_mesh import DeviceMesh
from tocha.library import register_autograd, register_fake

RANK_TYPES = Any  # a group, its name, its ranks, a mesh of one dimension, or a mesh and a dimension
REDUCE_OP_TO_STR = {op: op.name.lower() for op in ReduceOp.RedOpType if op.name != "PREMUL_SUM"}


class AsyncCollectiveTensor(Tensor):
    """A result that is under way: there are none over one rank, and the class has no instances."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("[AsyncCollectiveTensor] a group of one process has nothing under way")


# -- groups ------------------------------------------------------------------------------------------------


def _resolve_group_name(group: RANK_TYPES, tag: str = "") -> str:
    """The name of the group that an argument means."""
    if isinstance(group, ProcessGroup):
        return group.group_name
    if isinstance(group, str):
        return group
    if isinstance(group, DeviceMesh):
        if group.ndim != 1:
            raise AssertionError("Only 1D mesh is supported, pass in (DeviceMesh, int) together if mesh > 1D")
        return group.get_group().group_name
    if isinstance(group, tuple) and len(group) == 2 and isinstance(group[0], DeviceMesh):
        return group[0].get_group(group[1]).group_name
    if isinstance(group, list) and group in ([0], [[0]]):
        return collectives._check_member(None).group_name
    raise ValueError(f"Unsupported group type: {type(group)}, {group}")


def _expand_group(group: RANK_TYPES, tag: str = "") -> tuple[str, list[int], int]:
    """The tag, the ranks and the size of a group."""
    _resolve_process_group(_resolve_group_name(group, tag))
    return tag, [0], 1


# -- operators ---------------------------------------------------------------------------------------------

_library = Library("_c10d_functional", "FRAGMENT")
_operators = _ops.ops._c10d_functional
_KINDS = frozenset(REDUCE_OP_TO_STR.values())


def _check_kind(reduce_op: str) -> None:
    if reduce_op.lower() not in _KINDS:
        raise RuntimeError(f"Unrecognized reduce_op: {reduce_op}")


def _copied(value: Any) -> Any:
    return [t.clone(memory_format=_C.contiguous_format) for t in value] if isinstance(value, list) else value.clone(memory_format=_C.contiguous_format)  # fmt: skip


def _define(schema: str, group_at: int, op_at: int | None = None, root_at: int | None = None) -> None:
    """An operator that copies its first argument, with PyTorch's name and schema."""
    name = _library.define(schema)

    def over_one_rank(*args: Any) -> Any:
        _resolve_process_group(args[group_at])
        if op_at is not None:
            _check_kind(args[op_at])
        if root_at is not None and args[root_at] != 0:
            raise RuntimeError(f"[{name}] invalid root rank: {args[root_at]}")
        return _copied(args[0])

    def keep(ctx: Any, inputs: tuple, output: Any) -> None:
        ctx.reduce_op, ctx.count = "sum" if op_at is None else inputs[op_at], len(inputs)

    def back(ctx: Any, grad: Any) -> tuple:
        if ctx.reduce_op != "sum":
            raise RuntimeError(f"{name} backward only supports 'sum' reduction, got '{ctx.reduce_op}'")
        return (grad, *[None] * (ctx.count - 1))

    _library.impl(name, over_one_rank, "CompositeExplicitAutograd")
    full = f"_c10d_functional::{name}"
    register_fake(full, lambda *args: _copied(args[0]), lib=_library)
    register_autograd(full, back, setup_context=keep, lib=_library)


_define("all_reduce(Tensor input, str reduce_op, str group_name) -> Tensor", 2, op_at=1)
_define("all_reduce_coalesced(Tensor[] inputs, str reduce_op, str group_name) -> Tensor[]", 2, op_at=1)
_define("all_gather_into_tensor(Tensor input, int group_size, str group_name) -> Tensor", 2)
_define("all_gather_into_tensor_coalesced(Tensor[] inputs, int group_size, str group_name) -> Tensor[]", 2)
_define("reduce_scatter_tensor(Tensor input, str reduce_op, int group_size, str group_name) -> Tensor", 3, op_at=1)
_define("reduce_scatter_tensor_coalesced(Tensor[] inputs, str reduce_op, int group_size, str group_name) -> Tensor[]", 3, op_at=1)  # fmt: skip
_define("all_to_all_single(Tensor input, SymInt[] output_split_sizes, SymInt[] input_split_sizes, str group_name) -> Tensor", 3)  # fmt: skip
_define("broadcast(Tensor input, int src, str group_name) -> Tensor", 2, root_at=1)
_library.define("wait_tensor(Tensor tensor) -> Tensor")
_library.impl("wait_tensor", lambda tensor: tensor, "CompositeImplicitAutograd")


# -- functions ---------------------------------------------------------------------------------------------


def wait_tensor(tensor: Any) -> Any:
    """The tensor: nothing is under way."""
    return tensor


def broadcast(self: Any, src: int, group: RANK_TYPES, tag: str = "") -> Any:
    """Rank src's tensor."""
    return _operators.broadcast(self, src, _resolve_group_name(group, tag))


def all_reduce(self: Any, reduceOp: str, group: RANK_TYPES, tag: str = "") -> Any:
    """The sum (mean, product, ...) of the ranks' tensors.

    >>> import tocha, tocha.distributed as dist
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> all_reduce(tocha.ones(2), "sum", dist.group.WORLD)
    tensor([1., 1.])
    >>> dist.destroy_process_group()
    """
    return _operators.all_reduce(self, reduceOp.lower(), _resolve_group_name(group, tag))


def all_reduce_coalesced(self: list[Any], reduceOp: str, group: RANK_TYPES, tag: str = "") -> list[Any]:
    """As all_reduce, of several tensors."""
    return _operators.all_reduce_coalesced(self, reduceOp.lower(), _resolve_group_name(group, tag))


def all_gather_single(self: Any, gather_dim: int, group: RANK_TYPES, tag: str = "") -> Any:
    """The ranks' tensors one after the other, along gather_dim."""
    _check_dim(self, gather_dim)
    return _operators.all_gather_into_tensor(self, 1, _resolve_group_name(group, tag))


def all_gather_single_coalesced(self: list[Any], group: RANK_TYPES, tag: str = "") -> list[Any]:
    """As all_gather_single, of several tensors, along dimension 0."""
    return _operators.all_gather_into_tensor_coalesced(self, 1, _resolve_group_name(group, tag))


def reduce_scatter_single(self: Any, reduceOp: str, scatter_dim: int, group: RANK_TYPES, tag: str = "") -> Any:
    """This rank's part, along scatter_dim, of the sum of the ranks' tensors."""
    _check_dim(self, scatter_dim)
    return _operators.reduce_scatter_tensor(self, reduceOp.lower(), 1, _resolve_group_name(group, tag))


def reduce_scatter_single_coalesced(
    inputs: list[Any], reduceOp: str, scatter_dim: list[int], group: RANK_TYPES, tag: str = ""
) -> list[Any]:
    """As reduce_scatter_single, of several tensors."""
    if len(scatter_dim) != len(inputs):
        raise AssertionError(f"Length of scatter_dim ({len(scatter_dim)}) must equal length of inputs ({len(inputs)})")
    name = _resolve_group_name(group, tag)
    return _operators.reduce_scatter_tensor_coalesced(inputs, reduceOp.lower(), 1, name)


def all_to_all_single(
    self: Any,
    output_split_sizes: Sequence[int] | None,
    input_split_sizes: Sequence[int] | None,
    group: RANK_TYPES,
    tag: str = "",
) -> Any:
    """Parts of the tensor to the ranks, and theirs in return."""
    if (output_split_sizes is None) != (input_split_sizes is None):
        raise AssertionError(
            "output_split_sizes and input_split_sizes must either be specified together or both set to None"
        )
    sizes = [[self.shape[0]] if s is None else list(s) for s in (output_split_sizes, input_split_sizes)]
    if any(sum(s) != self.shape[0] for s in sizes):
        raise RuntimeError(
            f"[all_to_all_single] Split sizes doesn't match total dim 0 size: got {sizes} for {tuple(self.shape)}"
        )
    return _operators.all_to_all_single(self, *sizes, _resolve_group_name(group, tag))


def permute_tensor(self: Any, src_dst: list[int], group: RANK_TYPES, tag: str = "") -> Any:
    """The tensor of the rank that src_dst sends here."""
    if src_dst != [0]:
        raise ValueError(f"[permute_tensor] one rank can only be sent to itself: got {src_dst}")
    return all_to_all_single(self, None, None, group, tag)


def _check_dim(t: Any, dim: int) -> None:
    if not -t.ndim <= dim < t.ndim:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-t.ndim}, {t.ndim - 1}], but got {dim})"
        )


all_gather_tensor = all_gather_tensor_autograd = all_gather_single_autograd = all_gather_single
reduce_scatter_tensor = reduce_scatter_tensor_autograd = reduce_scatter_single_autograd = reduce_scatter_single
all_gather_into_tensor_coalesced = all_gather_single_coalesced
reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
all_to_all_single_autograd = all_to_all_single


# -- forms that write their arguments ----------------------------------------------------------------------


def _check_at_once(async_op: bool) -> None:
    if async_op:
        raise AssertionError("Can't remap async version of inplace op to functional collective")


def all_gather_tensor_inplace(
    output_tensor: Any, input_tensor: Any, group: Any = None, async_op: bool = False, tag: str = "", gather_dim: int = 0
) -> Any:
    """Writes the ranks' tensors to output_tensor."""
    _check_at_once(async_op)
    return output_tensor.copy_(all_gather_tensor(input_tensor, gather_dim, collectives._check_member(group), tag))


def reduce_scatter_tensor_inplace(
    output: Any,
    input: Any,
    op: str = "sum",
    group: Any = None,
    async_op: bool = False,
    scatter_dim: int = 0,
    tag: str = "",
) -> Any:
    """Writes this rank's part of the sum to output."""
    _check_at_once(async_op)
    return output.copy_(reduce_scatter_tensor(input, op, scatter_dim, collectives._check_member(group), tag))


def all_reduce_inplace(tensor: Any, op: str = "sum", group: Any = None, async_op: bool = False, tag: str = "") -> Any:
    """Writes the sum to the tensor."""
    _check_at_once(async_op)
    return tensor.copy_(all_reduce(tensor, op, collectives._check_member(group), tag))


def all_to_all_inplace(
    output: Any,
    input: Any,
    output_split_sizes: Any = None,
    input_split_sizes: Any = None,
    group: Any = None,
    async_op: bool = False,
    tag: str = "",
) -> Any:
    """Writes what the ranks sent to output."""
    _check_at_once(async_op)
    given = collectives._check_member(group)
    return output.copy_(all_to_all_single(input, output_split_sizes, input_split_sizes, given, tag))


def all_gather_inplace(
    tensor_list: list[Any], tensor: Any, group: Any = None, async_op: bool = False, tag: str = ""
) -> list[Any]:
    """Writes the ranks' tensors to the list's."""
    _check_at_once(async_op)
    collectives.all_gather(tensor_list, tensor, collectives._check_member(group))
    return tensor_list
