"""Groups of one process, and the kinds of reductions."""

from __future__ import annotations

import enum
import importlib
from typing import Any, ClassVar


class Backend(str):
    """The name of a backend, in lower case.

    >>> tocha.distributed.Backend("GLOO")
    'gloo'
    """

    UNDEFINED: ClassVar[str] = "undefined"
    GLOO: ClassVar[str] = "gloo"
    NCCL: ClassVar[str] = "nccl"
    UCC: ClassVar[str] = "ucc"
    MPI: ClassVar[str] = "mpi"
    XCCL: ClassVar[str] = "xccl"
    FAKE: ClassVar[str] = "fake"
    backend_list: ClassVar[list[str]] = [UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI, FAKE]
    default_device_backend_map: ClassVar[dict[str, str]] = {"cpu": GLOO, "cuda": NCCL, "xpu": XCCL, "mps": GLOO}

    def __new__(cls, name: str) -> Backend:
        if not isinstance(name, str):
            raise ValueError(f"Backend constructor parameter must be string-ish: {name!r}")
        return super().__new__(cls, name.lower())


class _RedOpType(enum.Enum):
    """The ways by themselves."""

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7
    PREMUL_SUM = 8

    def __str__(self) -> str:
        return f"RedOpType.{self.name}"


class _ReduceOpMeta(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return super().__instancecheck__(instance) or isinstance(instance, _RedOpType)


class ReduceOp(metaclass=_ReduceOpMeta):
    """How the tensors of the ranks become one: a way, or a way with a factor (PREMUL_SUM).

    >>> import tocha.distributed as dist
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> x = tocha.tensor([1.0, 2.0])
    >>> dist.all_reduce(x, op=dist.ReduceOp.SUM)
    >>> x
    tensor([1., 2.])
    >>> dist.destroy_process_group()
    """

    RedOpType = _RedOpType
    SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, PREMUL_SUM = _RedOpType

    def __init__(self, op: _RedOpType):
        self.op = op

    def __eq__(self, other: object) -> bool:
        return self.op == (other.op if type(other) is ReduceOp else other)

    def __hash__(self) -> int:
        return hash(self.op)


reduce_op = ReduceOp


class Work:
    """A collective that is under way: with one rank it is done.

    >>> import tocha.distributed as dist
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> work = dist.all_reduce(tocha.ones(1), async_op=True)
    >>> _ = work.wait()
    >>> work.is_completed()
    True
    >>> dist.destroy_process_group()
    """

    def __init__(self, result: Any = None):
        self._result = result

    def wait(self, timeout: Any = None) -> bool:
        """Waits until it is done."""
        return True

    def is_completed(self) -> bool:
        """Whether it is done."""
        return True

    def is_success(self) -> bool:
        """Whether it did not fail."""
        return True

    def result(self) -> Any:
        """The tensors it wrote."""
        return self._result

    def get_future(self) -> Any:
        """A future with the tensors it wrote."""
        future = importlib.import_module("tocha.futures").Future()
        future.set_result(self._result)
        return future


class ProcessGroup:
    """A group of one rank. Groups have numbers for names: the first one's is 0.

    >>> import tocha.distributed as dist
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> group = dist.new_group([0])
    >>> isinstance(group, dist.ProcessGroup), group.size()
    (True, 1)
    >>> dist.destroy_process_group()
    """

    def __init__(self, backend: str, name: str, description: str = "undefined"):
        self._backend, self.group_name, self.group_desc = Backend(backend), name, description

    def rank(self) -> int:
        """This process's place: 0."""
        return 0

    def size(self) -> int:
        """The number of processes: 1."""
        return 1

    def name(self) -> str:
        """The backend's name."""
        return self._backend


class _DefaultGroup(type):
    """The class of the two that name the default group: which one that is changes with init_process_group."""

    default: ClassVar[ProcessGroup | None] = None

    @property
    def WORLD(cls) -> ProcessGroup | None:
        return _DefaultGroup.default


class GroupMember(metaclass=_DefaultGroup):
    """Whether a process is in a group.

    >>> tocha.distributed.GroupMember.NON_GROUP_MEMBER
    -100
    """

    NON_GROUP_MEMBER: ClassVar[int] = -100


class group(metaclass=_DefaultGroup):
    """The default group: `group.WORLD`, or None.

    >>> tocha.distributed.group.WORLD is None
    True
    """
