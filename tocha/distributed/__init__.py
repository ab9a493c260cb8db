"""torch.distributed with one process: a group of one rank really works; more ranks are refused.

Programs ask whether they are distributed, make a group when a launcher says so, and call collectives. With one rank a
collective leaves its tensor, or copies it to the output.
"""

from __future__ import annotations

import importlib
import os
from typing import Any, NoReturn

from tocha.distributed._errors import DistBackendError, DistError, DistNetworkError, DistStoreError, QueueEmptyError
from tocha.distributed._stores import FileStore, HashStore, PrefixStore, Store, TCPStore
from tocha.distributed._types import (
    Backend,
    GroupMember,
    ProcessGroup,
    ReduceOp,
    Work,
    group,
    reduce_op,
)  # fmt: skip
from tocha.distributed.collectives import *  # noqa: F403
from tocha.distributed.collectives import _check_member, _groups

__all__ = [
    "Backend", "DistBackendError", "DistError", "DistNetworkError", "DistStoreError", "FileStore", "GroupMember", "HashStore", "P2POp", "PrefixStore", "ProcessGroup", "QueueEmptyError", "ReduceOp",
    "Store", "TCPStore", "Work", "destroy_process_group", "get_backend", "get_global_rank", "get_group_rank", "get_node_local_rank", "get_process_group_ranks",
    "get_rank", "get_world_size", "group", "init_process_group", "irecv", "is_available", "is_backend_available", "is_gloo_available",
    "is_initialized", "is_mpi_available", "is_nccl_available", "is_torchelastic_launched", "is_ucc_available", "is_xccl_available",
    "isend", "new_group", "new_subgroups", "recv", "reduce_op", "send",
]  # fmt: skip

_LATER = {"DeviceMesh": "device_mesh", "init_device_mesh": "device_mesh"}
_MODULES = ("device_mesh", "distributed_c10d")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"tocha.distributed.{name}")
    if name in _LATER:
        return getattr(importlib.import_module(f"tocha.distributed.{_LATER[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


# -- questions ---------------------------------------------------------------------------------------------


def is_available() -> bool:
    """Whether groups of processes can be made: of one rank.

    >>> tocha.distributed.is_available()
    True
    """
    return True


def is_initialized() -> bool:
    """Whether there is a default group.

    >>> tocha.distributed.is_initialized()
    False
    """
    return _groups.default is not None


def is_gloo_available() -> bool:
    """Groups named gloo can be made, of one rank.

    >>> tocha.distributed.is_gloo_available()
    True
    """
    return True


def is_nccl_available() -> bool:
    """Whether NCCL is there: it is not.

    >>> isinstance(tocha.distributed.is_nccl_available(), bool)
    True
    """
    return False


is_mpi_available = is_ucc_available = is_xccl_available = is_nccl_available


def is_backend_available(backend: str) -> bool:
    """Whether a group can be made with this backend.

    >>> tocha.distributed.is_backend_available("gloo")
    True
    """
    return backend.lower() in ("gloo", "fake")


def is_torchelastic_launched() -> bool:
    """Whether PyTorch's launcher started this process.

    >>> tocha.distributed.is_torchelastic_launched()
    False
    """
    return os.environ.get("TORCHELASTIC_RUN_ID") is not None


# -- groups ------------------------------------------------------------------------------------------------


def init_process_group(
    backend: str | None = None, init_method: str | None = None, timeout: Any = None, world_size: int = -1, rank: int = -1,
    store: Any = None, group_name: str = "", pg_options: Any = None, device_id: Any = None,
) -> None:  # fmt: skip
    """Makes the default group. The number of ranks comes from the argument or the environment, and must be 1.

    >>> import tocha.distributed as dist
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> dist.get_rank(), dist.get_world_size()
    (0, 1)
    >>> dist.destroy_process_group()
    """
    if is_initialized():
        raise ValueError("trying to initialize the default process group twice!")
    name = (backend or "gloo").lower()
    if "nccl" in name.split(":")[-1:] or name == "nccl":
        raise RuntimeError("Distributed package doesn't have NCCL built in")
    asks_environment = store is None and (init_method is None or init_method.startswith("env://"))
    size = world_size if world_size != -1 else int(os.environ.get("WORLD_SIZE", "-1"))
    place = rank if rank != -1 else int(os.environ.get("RANK", "-1"))
    if asks_environment and (size == -1 or place == -1):
        missing = "RANK" if place == -1 else "WORLD_SIZE"
        raise ValueError(
            f"Error initializing torch.distributed using env:// rendezvous: environment variable {missing} expected, but not set"
        )
    if size != 1 or place != 0:
        raise NotImplementedError(
            f"[init_process_group] only groups of one process are built: got rank {place} of {size} processes"
        )
    _groups.make(name, default=True)


def destroy_process_group(group: Any = None) -> None:
    """Forgets a group; without one, all.

    >>> import tocha.distributed as dist
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> dist.is_initialized()
    True
    >>> dist.destroy_process_group()
    >>> dist.is_initialized()
    False
    """
    given = _groups.default if group is None else group
    if given is None:
        raise AssertionError("no default process group to destroy")
    _groups.forget(given)


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """This process's number on its machine, as the launcher says it ($LOCAL_RANK).

    >>> tocha.distributed.get_node_local_rank(fallback_rank=0)
    0
    """
    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if fallback_rank is None:
        raise RuntimeError(
            "LOCAL_RANK is not in the environment. Consider passing fallback_rank to allow `get_node_local_rank` to work"
        )
    return int(fallback_rank)


def new_subgroups(group_size: int | None = None, group: Any = None, *args: Any, **kwargs: Any) -> tuple[Any, list[Any]]:
    """The groups of so many ranks each that the world falls into, and this rank's: of one rank there is one.

    >>> import tocha.distributed as dist
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> mine, groups = dist.new_subgroups(1)
    >>> len(groups)
    1
    >>> dist.destroy_process_group()
    """
    size = 1 if group_size is None else group_size
    if size > get_world_size(group):
        raise ValueError(f"The arg 'group_size' ({size}) must not exceed the world size ({get_world_size(group)})")
    made = new_group([0])
    return made, [made]


def new_group(
    ranks: Any = None, timeout: Any = None, backend: str | None = None, pg_options: Any = None, **kwargs: Any
) -> Any:
    """A group of some of the ranks: of rank 0, or one that this process is not in.

    >>> import tocha.distributed as dist
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> dist.new_group([0]).size()
    1
    >>> dist.destroy_process_group()
    """
    default = _check_member(None)
    if ranks is not None and sorted(set(ranks)) not in ([], [0]):
        raise ValueError("the new group's rank should be within the world_size set by init_process_group")
    return GroupMember.NON_GROUP_MEMBER if ranks == [] else _groups.make(backend or default.name())


def get_rank(group: Any = None) -> int:
    """0, or -1 outside the group.

    >>> import tocha.distributed as dist
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> dist.get_rank()
    0
    >>> dist.destroy_process_group()
    """
    return -1 if group is GroupMember.NON_GROUP_MEMBER else _check_member(group).rank()


def get_world_size(group: Any = None) -> int:
    """1, or -1 outside the group.

    >>> import tocha.distributed as dist
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> dist.get_world_size()
    1
    >>> dist.destroy_process_group()
    """
    return -1 if group is GroupMember.NON_GROUP_MEMBER else _check_member(group).size()


def get_backend(group: Any = None) -> str:
    """The name of the group's backend.

    >>> import tocha.distributed as dist
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> dist.get_backend()
    'gloo'
    >>> dist.destroy_process_group()
    """
    return _check_member(group).name()


def get_process_group_ranks(group: Any = None) -> list[int]:
    """[0].

    >>> import tocha.distributed as dist
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> dist.get_process_group_ranks(dist.new_group([0]))
    [0]
    >>> dist.destroy_process_group()
    """
    _check_member(group)
    return [0]


def get_global_rank(group: Any, group_rank: int) -> int:
    """The rank in the default group.

    >>> import tocha.distributed as dist
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> dist.get_global_rank(dist.new_group([0]), 0)
    0
    >>> dist.destroy_process_group()
    """
    _check_member(group)
    if group_rank != 0:
        raise ValueError(f"Group rank {group_rank} is not part of group {group}")
    return 0


def get_group_rank(group: Any, global_rank: int) -> int:
    """The rank in a group.

    >>> import tocha.distributed as dist
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> dist.get_group_rank(dist.new_group([0]), 0)
    0
    >>> dist.destroy_process_group()
    """
    _check_member(group)
    if global_rank != 0:
        raise ValueError(f"Global rank {global_rank} is not part of group {group}")
    return 0


# -- to another rank ---------------------------------------------------------------------------------------


def _no_other(name: str) -> NoReturn:
    _check_member(None)
    raise ValueError(f"[{name}] Invalid destination or source rank: a group of one process has no other rank")


def send(tensor: Any, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: int | None = None) -> None:
    """Refused: there is no other rank."""
    _no_other("send")


def recv(tensor: Any, src: int | None = None, group: Any = None, tag: int = 0, group_src: int | None = None) -> int:
    """Refused: there is no other rank."""
    _no_other("recv")


def isend(tensor: Any, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: int | None = None) -> Any:
    """Refused: there is no other rank."""
    _no_other("isend")


def irecv(tensor: Any, src: int | None = None, group: Any = None, tag: int = 0, group_src: int | None = None) -> Any:
    """Refused: there is no other rank."""
    _no_other("irecv")


class P2POp:
    """A send or receive for batch_isend_irecv.

    >>> import tocha.distributed as dist
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> operation = dist.P2POp(dist.isend, tocha.ones(2), 0)
    >>> operation.peer
    0
    >>> dist.destroy_process_group()
    """

    def __init__(self, op: Any, tensor: Any, peer: int | None = None, group: Any = None, tag: int = 0):
        self.op, self.tensor, self.peer, self.group, self.tag = op, tensor, peer, group, tag
