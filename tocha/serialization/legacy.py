"""The format before the zip files: pickles one after another, then the storages' bytes."""

from __future__ import annotations

import io
import pickle
import struct
import sys
from collections.abc import Callable
from typing import IO, Any

from tocha import _C
from tocha.serialization.machine import Refused
from tocha.serialization.pickler import Pickler, Storages
from tocha.storage import TypedStorage, UntypedStorage, legacy_class

MAGIC = 0x1950A86A20F9469CFC6C
PROTOCOL = 1001
SYSTEM = {
    "protocol_version": PROTOCOL,
    "little_endian": sys.byteorder == "little",
    "type_sizes": {"short": 2, "int": 4, "long": 4},
}


class _Storages(Storages):
    """Here a reference also says of which storage this one is a part: always none."""

    def __init__(self) -> None:
        super().__init__()
        self.item_sizes: dict[str, int] = {}

    def reference(self, obj: TypedStorage | UntypedStorage) -> tuple:
        kind, name, key, location, count = super().reference(obj)
        if isinstance(obj, TypedStorage):
            self.item_sizes[key] = obj.dtype.itemsize
            return kind, name, key, location, count, None
        self.item_sizes[key] = 1
        return kind, legacy_class(_C.uint8), key, location, count, None  # it knows no storages of bytes


def write(obj: object, file: IO[bytes], folder: str, protocol: int, byteorder: bool) -> None:
    for head in (MAGIC, PROTOCOL, SYSTEM):
        pickle.dump(head, file, protocol)
    storages = _Storages()
    Pickler(file, protocol, storages).dump(obj)
    keys = sorted(storages.by_key)
    pickle.dump(keys, file, protocol)
    for key in keys:
        data = storages.by_key[key]._as_tensor(_C.uint8).numpy()
        file.write(struct.pack("<q", data.nbytes // storages.item_sizes[key]))
        file.write(memoryview(data))


def read(file: IO[bytes], place: Callable, unpickle: Callable) -> Any:
    """unpickle(data, find) gives the object of a pickle and where it ends."""
    data = file.read()

    def nothing(reference: Any) -> Any:
        raise Refused("the head of the file refers to a storage")

    at = 0

    def next_object(find: Callable = nothing) -> Any:
        nonlocal at
        if at >= len(data):
            raise EOFError(
                "Ran out of input: the file ends too early" if data else "Ran out of input: the file is empty"
            )
        found, used = unpickle(data[at:], find)
        at += used
        return found

    if data and not data.startswith(pickle.PROTO):
        raise Refused("the file is no checkpoint: neither a zip archive nor the format before it")
    if next_object() != MAGIC:
        raise Refused("Invalid magic number; corrupt file?")
    if next_object() != PROTOCOL:
        raise Refused("Invalid protocol version of the older format")
    next_object()
    waiting = _Waiting(place, len(data))
    result = next_object(waiting.find)
    keys = next_object()
    if not isinstance(keys, list):
        raise Refused("the list of storages is none")
    stream = io.BytesIO(data)
    stream.seek(at)
    for key in keys:
        waiting.fill(key, stream)
    return result


class _Waiting:
    """Storages that tensors already stand on, and whose bytes come later in the file."""

    def __init__(self, place: Callable, limit: int):
        self._place = place
        self._limit = limit
        self._made: dict[str, tuple[UntypedStorage, int]] = {}

    def find(self, reference: Any) -> TypedStorage | UntypedStorage:
        from tocha.serialization import check_reference, typed

        key, dtype, location, nbytes = check_reference(reference)
        if nbytes > self._limit:
            raise Refused(f"storage {key!r} of {nbytes} bytes is larger than the file")
        if key not in self._made:
            storage = self._place(UntypedStorage(nbytes), location)
            self._made[key] = storage, 1 if dtype is None else dtype.itemsize
        return typed(self._made[key][0], dtype)

    def fill(self, key: Any, stream: IO[bytes]) -> None:
        if not isinstance(key, str) or key not in self._made:
            raise Refused(f"the file holds a storage {key!r} that nothing uses")
        storage, item = self._made[key]
        head = stream.read(8)
        data = stream.read(storage.nbytes())
        if len(head) < 8 or struct.unpack("<q", head)[0] * item != storage.nbytes() or len(data) < storage.nbytes():
            raise Refused(f"storage {key!r} is cut off or has another size than its tensors say")
        if storage.device.type != "meta" and data:
            storage._as_tensor(_C.uint8).copy_(_C.frombuffer(bytearray(data), dtype=_C.uint8))
