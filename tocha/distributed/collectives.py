"""Collectives over a group of one rank: the rank's own tensor is the result."""

from __future__ import annotations

from typing import Any

from tocha import _C
from tocha.autograd.grad_mode import no_grad
from tocha.distributed._types import GroupMember, ProcessGroup, ReduceOp, Work, _DefaultGroup

__all__ = [
    "all_gather", "all_gather_into_tensor", "all_gather_object", "all_reduce", "all_reduce_coalesced", "all_to_all", "all_to_all_single", "barrier", "broadcast",
    "broadcast_object_list", "gather", "gather_object", "monitored_barrier", "reduce", "reduce_scatter", "reduce_scatter_tensor", "scatter",
    "scatter_object_list",
]  # fmt: skip


class _Groups:
    """The groups of this process by name, the default one first."""

    def __init__(self) -> None:
        self.by_name: dict[str, ProcessGroup] = {}

    @property
    def default(self) -> ProcessGroup | None:
        return _DefaultGroup.default

    def make(self, backend: str, default: bool = False) -> ProcessGroup:
        """A new group; its name is its number."""
        name = str(len(self.by_name))
        made = self.by_name[name] = ProcessGroup(backend, name, "default_pg" if default else "undefined")
        if default:
            _DefaultGroup.default = made
        return made

    def forget(self, group: ProcessGroup) -> None:
        """Forgets a group; with the default one, all."""
        if group is not self.default:
            self.by_name.pop(group.group_name, None)
            return
        self.by_name.clear()
        _DefaultGroup.default = None


_groups = _Groups()


def _check_member(group: Any) -> ProcessGroup:
    if group is not None and isinstance(group, ProcessGroup):
        return group
    if _groups.default is None:
        raise ValueError("Default process group has not been initialized, please make sure to call init_process_group.")
    return _groups.default


def _resolve_process_group(group_name: Any) -> ProcessGroup:
    """The group of a name."""
    if group_name not in _groups.by_name:
        raise RuntimeError(f"Could not resolve the process group registered under the name {group_name}")
    return _groups.by_name[group_name]


def _check_rank(name: str, rank: int | None) -> None:
    if rank not in (None, 0):
        raise ValueError(f"[{name}] Global rank {rank} is not part of group: there is rank 0 only")


def _check_tensor(name: str, tensor: Any) -> None:
    if not isinstance(tensor, _C.Tensor):
        raise TypeError(
            f"[{name}] Invalid function argument. Expected parameter of type torch.Tensor, got {type(tensor)}"
        )


def _is_outside(group: Any) -> bool:
    if group is GroupMember.NON_GROUP_MEMBER:
        return True
    _check_member(group)
    return False


def _done(async_op: bool, result: Any) -> Work | None:
    return Work(result) if async_op else None


def _copy(name: str, target: Any, source: Any) -> None:
    _check_tensor(name, source)
    _check_tensor(name, target)
    with no_grad():
        target.copy_(source.reshape(target.shape))


def _only(name: str, tensors: Any) -> Any:
    if tensors is None or len(tensors) != 1:
        raise ValueError(f"[{name}] expected a list of one tensor, one for each rank: got {tensors and len(tensors)}")
    return tensors[0]


def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None) -> Work | None:
    """Waits for the other ranks: there are none."""
    return None if _is_outside(group) else _done(async_op, None)


def monitored_barrier(group: Any = None, timeout: Any = None, wait_all_ranks: bool = False) -> None:
    """Waits for the other ranks: there are none."""
    _is_outside(group)


def all_reduce(tensor: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False) -> Work | None:
    """The tensor is the sum (mean, product, ...) over one rank already."""
    _check_tensor("all_reduce", tensor)
    return None if _is_outside(group) else _done(async_op, [tensor])


def all_reduce_coalesced(
    tensors: list[Any], op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """As all_reduce, of several tensors."""
    for tensor in tensors:
        _check_tensor("all_reduce_coalesced", tensor)
    return None if _is_outside(group) else _done(async_op, list(tensors))


def reduce(
    tensor: Any,
    dst: int | None = None,
    op: Any = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """As all_reduce, for one rank."""
    _check_rank("reduce", dst)
    return all_reduce(tensor, op, group, async_op)


def broadcast(
    tensor: Any, src: int | None = None, group: Any = None, async_op: bool = False, group_src: int | None = None
) -> Work | None:
    """The tensor is rank 0's already."""
    _check_rank("broadcast", src)
    return all_reduce(tensor, ReduceOp.SUM, group, async_op)


def all_gather(tensor_list: Any, tensor: Any, group: Any = None, async_op: bool = False) -> Work | None:
    """Copies the tensor to the list's only one."""
    if _is_outside(group):
        return None
    _copy("all_gather", _only("all_gather", tensor_list), tensor)
    return _done(async_op, tensor_list)


def all_gather_into_tensor(
    output_tensor: Any, input_tensor: Any, group: Any = None, async_op: bool = False
) -> Work | None:
    """Copies the tensor to the output."""
    if _is_outside(group):
        return None
    _copy("all_gather_into_tensor", output_tensor, input_tensor)
    return _done(async_op, [output_tensor])


def gather(
    tensor: Any,
    gather_list: Any = None,
    dst: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Copies the tensor to the list's only one."""
    _check_rank("gather", dst)
    return all_gather(gather_list, tensor, group, async_op)


def scatter(
    tensor: Any,
    scatter_list: Any = None,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Copies the list's only tensor."""
    _check_rank("scatter", src)
    return all_gather_into_tensor(tensor, _only("scatter", scatter_list), group, async_op)


def reduce_scatter(
    output: Any, input_list: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Copies the list's only tensor."""
    return all_gather_into_tensor(output, _only("reduce_scatter", input_list), group, async_op)


def reduce_scatter_tensor(
    output: Any, input: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Copies the tensor to the output."""
    return all_gather_into_tensor(output, input, group, async_op)


def all_to_all(
    output_tensor_list: Any, input_tensor_list: Any, group: Any = None, async_op: bool = False
) -> Work | None:
    """Copies the only tensor."""
    return all_gather(output_tensor_list, _only("all_to_all", input_tensor_list), group, async_op)


def all_to_all_single(
    output: Any,
    input: Any,
    output_split_sizes: Any = None,
    input_split_sizes: Any = None,
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """Copies the tensor."""
    return all_gather_into_tensor(output, input, group, async_op)


# -- objects -----------------------------------------------------------------------------------------------


def all_gather_object(object_list: list, obj: Any, group: Any = None) -> None:
    """Puts the object into the list."""
    if not _is_outside(group):
        _only("all_gather_object", object_list)
        object_list[0] = obj


def gather_object(
    obj: Any,
    object_gather_list: list | None = None,
    dst: int | None = None,
    group: Any = None,
    group_dst: int | None = None,
) -> None:
    """Puts the object into the list."""
    _check_rank("gather_object", dst)
    all_gather_object(object_gather_list, obj, group)  # type: ignore[arg-type]


def broadcast_object_list(
    object_list: list,
    src: int | None = None,
    group: Any = None,
    device: Any = None,
    group_src: int | None = None,
    **kwargs: Any,
) -> None:
    """The list is rank 0's already."""
    _check_rank("broadcast_object_list", src)
    _is_outside(group)


def scatter_object_list(
    scatter_object_output_list: list,
    scatter_object_input_list: list | None = None,
    src: int | None = None,
    group: Any = None,
    group_src: int | None = None,
) -> None:
    """Puts the only object into the output list."""
    _check_rank("scatter_object_list", src)
    if not _is_outside(group):
        scatter_object_output_list[0] = _only("scatter_object_list", scatter_object_input_list)
