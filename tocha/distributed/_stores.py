"""Keys and values that the processes of a group share. There is one process: they are in its memory."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any, ClassVar

from tocha.distributed._errors import DistStoreError, QueueEmptyError

_LONGEST_WAIT = timedelta(seconds=300)


class Store:
    """Keys and values that the processes of a group share: one process has them in a dict.

    >>> store = tocha.distributed.HashStore()
    >>> isinstance(store, tocha.distributed.Store)
    True
    >>> store.add("count", 2), store.add("count", 3)
    (2, 5)
    """

    def __init__(self) -> None:
        self._values: dict[str, bytes] = {}
        self._queues: dict[str, list[bytes]] = {}
        self._timeout = _LONGEST_WAIT

    def _at(self, key: str) -> str:
        """The key under which a value is kept."""
        return key

    @property
    def timeout(self) -> timedelta:
        """How long a missing key is waited for where there are other processes."""
        return self._timeout

    def set_timeout(self, timeout: timedelta) -> None:
        """Sets how long a missing key is waited for."""
        self._timeout = timeout

    def set(self, key: str, value: Any) -> None:
        """Sets a value."""
        self._values[self._at(key)] = _encoded("set", value)

    def get(self, key: str) -> bytes:
        """A value; no other process will set one that is not there."""
        if self._at(key) not in self._values:
            raise DistStoreError(f"[Store.get] Wait timeout: no process has set {key!r}, and this one is the only one")
        return self._values[self._at(key)]

    def add(self, key: str, amount: int) -> int:
        """Adds to a number."""
        total = int(self._values.get(self._at(key), b"0")) + amount
        self._values[self._at(key)] = str(total).encode()
        return total

    def append(self, key: str, value: Any) -> None:
        """Puts a value behind the one that is there."""
        self._values[self._at(key)] = self._values.get(self._at(key), b"") + _encoded("append", value)

    def compare_set(self, key: str, expected_value: Any, desired_value: Any) -> bytes:
        """Sets a value where the old one is as expected ("" of a key that has none); returns what the key then has."""
        expected, desired = _encoded("compare_set", expected_value), _encoded("compare_set", desired_value)
        old = self._values.get(self._at(key))
        if old == expected or (old is None and not expected):
            self._values[self._at(key)] = old = desired
        return expected if old is None else old

    def multi_get(self, keys: list[str]) -> list[bytes]:
        """Several values."""
        return [self.get(key) for key in keys]

    def multi_set(self, keys: list[str], values: list[Any]) -> None:
        """Sets several values."""
        if len(keys) != len(values):
            raise DistStoreError("multiSet keys and values vectors must be of same size")
        for key, value in zip(keys, values, strict=True):
            self.set(key, value)

    def check(self, keys: list[str]) -> bool:
        """Whether all keys have values."""
        return all(self._at(k) in self._values for k in keys)

    def delete_key(self, key: str) -> bool:
        """Removes a key; whether it was there."""
        return self._values.pop(self._at(key), None) is not None

    def num_keys(self) -> int:
        """How many keys there are."""
        return len(self._values)

    def list_keys(self) -> list[str]:
        """The keys."""
        return list(self._values)

    def wait(self, keys: list[str], timeout: Any = None) -> None:
        """Checks that the keys are there."""
        for key in keys:
            self.get(key)

    def barrier(self, key: str, world_size: int, timeout: timedelta | None = None) -> None:
        """Waits until so many processes are here: there is no other than this one."""
        self._arrive(f"{key}/num_members", world_size)
        self.set(f"{key}/last_member", "1")

    def _arrive(self, key: str, world_size: int) -> None:
        if self.add(key, 1) < world_size:
            raise DistStoreError(
                f"[Store.barrier] Wait timeout: {world_size} processes are waited for, and this one is the only one"
            )

    def queue_push(self, key: str, value: Any) -> None:
        """Puts a value at the end of a queue."""
        self._queues.setdefault(self._at(key), []).append(_encoded("queue_push", value))

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        """Takes the first value from a queue; no other process will put one there."""
        queue = self._queues.get(self._at(key))
        if not queue:
            raise (
                DistStoreError(f"[Store.queue_pop] Wait timeout: {key!r}")
                if block
                else QueueEmptyError("queue is empty")
            )
        return queue.pop(0)

    def queue_len(self, key: str) -> int:
        """How many values wait in a queue."""
        return len(self._queues.get(self._at(key), ()))

    def has_extended_api(self) -> bool:
        """Whether there are append, multi_get and multi_set."""
        return True

    def _share(self, other: Store) -> None:
        self._values, self._queues = other._values, other._queues


def _encoded(method: str, value: Any) -> bytes:
    if not isinstance(value, str | bytes):
        raise TypeError(
            f"{method}(): incompatible function arguments: a value is str or bytes, not {type(value).__name__}"
        )
    return value if isinstance(value, bytes) else value.encode()


class HashStore(Store):
    """A store within a process.

    >>> store = tocha.distributed.HashStore()
    >>> store.set("key", "value")
    >>> store.compare_set("key", "value", "other")
    b'other'
    """


class TCPStore(Store):
    """A store that PyTorch reaches over the network; of one process here.

    >>> store = tocha.distributed.TCPStore("localhost", 0, 1, is_master=True, wait_for_workers=False)
    >>> store.set("key", "value")
    >>> store.get("key")
    b'value'
    """

    def __init__(
        self,
        host_name: str,
        port: int,
        world_size: int | None = None,
        is_master: bool = False,
        timeout: timedelta = _LONGEST_WAIT,
        wait_for_workers: bool = True,
        multi_tenant: bool = False,
        master_listen_fd: int | None = None,
        use_libuv: bool = True,
    ) -> None:
        super().__init__()
        self.host, self.port, self._timeout = host_name, port, timeout
        self._values["init/"] = b"1"  # how many have come

    def barrier(self, key: str, world_size: int, timeout: timedelta | None = None) -> None:
        """Waits until so many processes are here: there is no other than this one."""
        self._arrive(key, world_size)


class FileStore(Store):
    """A store that PyTorch keeps in a file; here those of one process that name the same file are one.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "store")
    >>> tocha.distributed.FileStore(path, 1).set("key", "value")
    >>> tocha.distributed.FileStore(path, 1).get("key")
    b'value'
    """

    _by_path: ClassVar[dict[str, Store]] = {}

    def __init__(self, file_name: str, world_size: int = -1) -> None:
        super().__init__()
        self.path = file_name
        self._share(FileStore._by_path.setdefault(os.path.abspath(file_name), self))


class PrefixStore(Store):
    """Another store, with a prefix to its keys.

    >>> store = tocha.distributed.HashStore()
    >>> part = tocha.distributed.PrefixStore("part", store)
    >>> part.set("key", "value")
    >>> part.get("key"), store.get("part/key")
    (b'value', b'value')
    """

    def __init__(self, prefix: str, store: Store) -> None:
        super().__init__()
        self._prefix, self.underlying_store = prefix, store
        self._share(store)
        self._timeout = store.timeout

    def _at(self, key: str) -> str:
        return self.underlying_store._at(f"{self._prefix}/{key}")
