"""The format before the zip files: pickles one after another, then the storages' bytes."""

from __future__ import annotations

import pickle
import struct
import sys
from collections.abc import Callable
from typing import IO, Any

from tocha import _C
from tocha.serialization.errors import Refused, brief
from tocha.serialization.pickler import Pickler, Storages, check_reference, typed
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


def write(obj: object, file: IO[bytes], protocol: int) -> None:
    for head in (MAGIC, PROTOCOL, SYSTEM):
        pickle.dump(head, file, protocol)
    storages = _Storages()
    Pickler(file, protocol, storages).dump(obj)
    keys = sorted(storages.by_key)
    pickle.dump(keys, file, protocol)
    for key in keys:
        data = storages.bytes_of(key)
        file.write(struct.pack("<q", data.nbytes // storages.item_sizes[key]))
        file.write(data)


def read(file: IO[bytes], place: Callable, unpickle: Callable) -> Any:
    """The object at the file's position. unpickle(data, at, find) gives the object of a pickle and where it ends."""
    start = file.tell()
    data = file.read()
    if not data:
        raise EOFError("Ran out of input: the file is empty, or was not rewound with seek(0)")
    if not data.startswith(pickle.PROTO):
        raise Refused("the file is no checkpoint: neither a zip archive nor the format before it")
    pickles = _Pickles(data, unpickle)
    if pickles.next() != MAGIC:
        raise Refused("Invalid magic number; corrupt file?")
    if pickles.next() != PROTOCOL:
        raise Refused("Invalid protocol version of the older format")
    pickles.next()  # what machine wrote it: the bytes are little-endian whatever it was
    waiting = _Waiting(place, len(data))
    result = pickles.next(waiting.find)
    keys = pickles.next()
    file.seek(start + waiting.fill_all(keys, data, pickles.at))
    return result


class _Pickles:
    """Pickles one after another."""

    def __init__(self, data: bytes, unpickle: Callable):
        self._data = data
        self._unpickle = unpickle
        self.at = 0

    def next(self, find: Callable | None = None) -> Any:
        if self.at >= len(self._data):
            raise EOFError("Ran out of input: the file ends too early")
        found, self.at = self._unpickle(self._data, self.at, find or self._nothing)
        return found

    @staticmethod
    def _nothing(reference: Any) -> Any:
        raise Refused("the head of the file refers to a storage")


class _Waiting:
    """Storages that tensors already stand on, and whose bytes come later in the file."""

    def __init__(self, place: Callable, limit: int):
        self._place = place
        self._left = limit  # bytes: all storages together are no larger than the file
        self._made: dict[str, tuple[UntypedStorage, UntypedStorage, int]] = {}

    def find(self, reference: Any) -> TypedStorage | UntypedStorage:
        key, dtype, location, nbytes = check_reference(reference)
        if len(reference) > 5 and reference[5] is not None:
            raise Refused(f"storage {brief(key)!r} is a part of another; such files are too old to be read")
        if key not in self._made:
            self._left -= nbytes
            if self._left < 0:
                raise Refused(f"storage {brief(key)!r} of {nbytes} bytes is larger than the file")
            read = UntypedStorage(nbytes)
            self._made[key] = read, self._place(read, location), 1 if dtype is None else dtype.itemsize
        read, placed, _ = self._made[key]
        if read.nbytes() != nbytes:
            raise Refused(f"storage {brief(key)!r} is referred to in two ways")
        return typed(placed, dtype)

    def fill_all(self, keys: Any, data: bytes, at: int) -> int:
        """Gives every storage its bytes; where the last one ends."""
        if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
            raise Refused("the list of storages is none")
        if len(set(keys)) != len(keys) or set(keys) != self._made.keys():
            raise Refused("the storages that the file holds are not those that its tensors use")
        for key in keys:
            at = self._fill(key, memoryview(data)[at:], at)
        return at

    def _fill(self, key: str, rest: memoryview, at: int) -> int:
        read, placed, item = self._made[key]
        nbytes = read.nbytes()
        if len(rest) < 8 + nbytes or struct.unpack_from("<q", rest)[0] * item != nbytes:
            raise Refused(f"storage {brief(key)!r} is cut off or has another size than its tensors say")
        if placed.device.type != "meta" and nbytes:
            placed._as_tensor(_C.uint8).copy_(_C.frombuffer(bytearray(rest[8 : 8 + nbytes]), dtype=_C.uint8))
        return at + 8 + nbytes
