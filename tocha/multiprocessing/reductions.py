"""How tensors and storages are pickled for another process: as a handle on shared memory, never as bytes.

Two strategies. `file_descriptor` passes descriptors of nameless memory: nothing can stay behind, but each storage
holds a descriptor open. `file_system` passes names of files: no descriptors, and a small helper process takes the names
away should all processes that could do it be killed.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import uuid
import weakref
from multiprocessing import context, reduction
from multiprocessing.reduction import ForkingPickler
from typing import Any

from tocha import _C
from tocha.storage import TypedStorage, typed_storage

__all__ = [
    "StorageWeakRef",
    "get_all_sharing_strategies",
    "get_sharing_strategy",
    "init_reductions",
    "set_sharing_strategy",
]

_STRATEGIES = {"file_descriptor", "file_system"}
_strategy = "file_descriptor"


def check_sendable(tensor: Any) -> None:
    """Refuses a tensor whose history cannot go with it."""
    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError(
            "Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd does not support "
            "crossing process boundaries.  If you just want to transfer the data, call detach() on the tensor before "
            "serializing (e.g., putting it on the queue)."
        )


def get_all_sharing_strategies() -> set[str]:
    """The names that set_sharing_strategy takes.

    >>> sorted(tocha.multiprocessing.get_all_sharing_strategies())
    ['file_descriptor', 'file_system']
    """
    return set(_STRATEGIES)


def get_sharing_strategy() -> str:
    """How this process shares the storages of CPU tensors.

    >>> tocha.multiprocessing.get_sharing_strategy()
    'file_descriptor'
    """
    return _strategy


def set_sharing_strategy(new_strategy: str) -> None:
    """Chooses how this process shares storages from now on: "file_descriptor" or "file_system".

    >>> tocha.multiprocessing.set_sharing_strategy("file_system")
    >>> tocha.multiprocessing.get_sharing_strategy()
    'file_system'
    >>> tocha.multiprocessing.set_sharing_strategy("file_descriptor")
    """
    global _strategy
    if new_strategy not in _STRATEGIES:
        raise AssertionError(f"invalid sharing strategy '{new_strategy}', expected one of {_STRATEGIES}")
    _strategy = new_strategy


# ---- Storages, without keeping them.


class _Life:
    """What ends when a storage does; its wrappers in Python come and go."""


class StorageWeakRef:
    """A weak reference to a storage: the same for every tensor on it, expired when the last one is gone.

    >>> x = tocha.ones(3)
    >>> seen = tocha.multiprocessing.reductions.StorageWeakRef(x.untyped_storage())
    >>> seen == tocha.multiprocessing.reductions.StorageWeakRef(x[1:].untyped_storage()), seen.expired()
    (True, False)
    >>> del x
    >>> seen.expired()
    True
    """

    __slots__ = ("_life", "cdata")

    def __init__(self, storage: Any) -> None:
        life = storage.untyped()._companion(_Life())
        self._life, self.cdata = weakref.ref(life), id(life)

    def expired(self) -> bool:
        """Whether the storage is gone."""
        return self._life() is None

    def __hash__(self) -> int:
        return self.cdata

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StorageWeakRef) and self._life is other._life  # one reference for each life


# ---- Names in the file system.


class _Names:
    """Fresh paths for shared files. Their common prefix is swept when the last process that knows it has ended."""

    FOLDER = "/dev/shm"
    # Reads until every writer is gone, then takes away what is left.
    SWEEPER = """
import glob, os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
sys.stdin.buffer.read()
for path in glob.glob(sys.argv[1] + "*"):
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
"""

    def __init__(self) -> None:
        self.prefix = ""
        self.count = itertools.count()
        self.sweeper: Any = None

    def new(self) -> str:
        """A path that no other process makes."""
        if self.sweeper is None:
            self._start_sweeper()
        return f"{self.prefix}{os.getpid()}_{next(self.count)}"

    def _start_sweeper(self) -> None:
        # Children that are forked from now on inherit the prefix and the pipe's end, so the sweeper waits for them as
        # well; one that was forked before makes a prefix and a sweeper of its own.
        self.prefix = os.path.join(self.FOLDER, f"tocha_{uuid.uuid4().hex[:12]}_")
        self.sweeper = subprocess.Popen(
            [sys.executable, "-S", "-c", self.SWEEPER, self.prefix],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
        # It outlives this process on purpose: that is no reason for a warning.
        self.sweeper.returncode = 0


_names = _Names()


def _open_file(path: str, nbytes: int) -> Any:
    """Opens a file that was linked for this message; under a name of our own it lives as long as the storage."""
    ours = _names.new()
    os.rename(path, ours)
    return _C.UntypedStorage._open_shared_file(ours, nbytes)  # type: ignore[attr-defined]


def _open_descriptor(handle: Any, nbytes: int) -> Any:
    fd = handle.detach()
    try:
        return _C.UntypedStorage._new_shared_fd(fd, nbytes)  # type: ignore[attr-defined]
    finally:
        os.close(fd)


def _keep_until_started(storage: Any) -> None:
    """A process being spawned inherits descriptors by number: the storage must live until it has started."""
    popen = context.get_spawning_popen()
    if popen is not None:
        popen.__dict__.setdefault("_storages", []).append(storage)


def reduce_storage(storage: Any) -> tuple:
    """A storage as a handle that another process can open."""
    if storage.device.type != "cpu":
        return storage.__reduce__()
    nbytes = storage.nbytes()
    if _strategy == "file_system":
        path = storage._share_file(_names.new())
        if path:  # a storage that has a descriptor only, from before, goes by that
            message = _names.new()
            os.link(path, message)
            return _open_file, (message, nbytes)
    fd, _ = storage._share_fd()
    _keep_until_started(storage)
    return _open_descriptor, (reduction.DupFd(fd), nbytes)


def _rebuild_tensor(storage: Any, dtype: Any, offset: int, size: tuple, stride: tuple, requires_grad: bool) -> Any:
    tensor = _C.empty(0, dtype=dtype)
    tensor.set_(storage, offset, size, stride)
    return tensor.requires_grad_() if requires_grad else tensor


def _rebuild_parameter(data: Any, cls: type, requires_grad: bool) -> Any:
    return cls(data, requires_grad)  # type: ignore[call-arg]


def reduce_tensor(tensor: Any) -> tuple:
    """A tensor as its storage's handle and its geometry."""
    check_sendable(tensor)
    if tensor.device.type != "cpu" or tensor.is_conj() or tensor.is_neg():
        return tensor.__reduce_ex__(2)
    geometry = (tensor.storage_offset(), tuple(tensor.size()), tensor.stride())
    return _rebuild_tensor, (tensor.untyped_storage(), tensor.dtype, *geometry, tensor.requires_grad)


def reduce_parameter(parameter: Any) -> tuple:
    """A parameter as its tensor."""
    return _rebuild_parameter, (parameter.detach().as_subclass(_C.Tensor), type(parameter), parameter.requires_grad)


def _rebuild_typed(storage: Any, dtype: Any) -> Any:
    return typed_storage(storage, dtype)


def reduce_typed_storage(storage: Any) -> tuple:
    """A typed storage as its untyped one."""
    return _rebuild_typed, (storage._untyped_storage, storage.dtype)


def init_reductions() -> None:
    """Registers the reductions with multiprocessing's pickler.

    >>> tocha.multiprocessing.init_reductions() is None
    True
    """
    from tocha.nn.parameter import Parameter

    ForkingPickler.register(_C.Tensor, reduce_tensor)
    ForkingPickler.register(Parameter, reduce_parameter)
    ForkingPickler.register(_C.UntypedStorage, reduce_storage)
    ForkingPickler.register(TypedStorage, reduce_typed_storage)
