"""save and load: checkpoints in PyTorch's zip format, readable by both libraries.

Loading is safe by default: only tensors and plain containers are built; anything else a file names is refused. Saving
to a path is atomic: a crash midway leaves the old file.
"""

from __future__ import annotations

import io
import mmap as _mmap
import os
import pickle
import sys
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from tocha import _C
from tocha.serialization import legacy, machine, names
from tocha.serialization.archive import ArchiveError, Reader, Writer, is_archive
from tocha.serialization.pickler import Pickler, Storages, location_of
from tocha.serialization.safe import add_safe_globals, clear_safe_globals, get_safe_globals, safe_globals
from tocha.storage import TypedStorage, UntypedStorage

DEFAULT_PROTOCOL = 2
MapLocation = Callable[[UntypedStorage, str], UntypedStorage | None] | _C.device | str | dict[str, str] | None
FileLike = str | os.PathLike | IO[bytes]


# -- saving ------------------------------------------------------------------------------------------


def save(
    obj: object,
    f: FileLike,
    pickle_module: Any = None,
    pickle_protocol: int = DEFAULT_PROTOCOL,
    _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
) -> None:
    """Writes an object to a file: tensors with their storages (shared ones once), containers, and what pickles.

    >>> import io, tocha
    >>> buffer = io.BytesIO()
    >>> tocha.save({"weight": tocha.ones(2)}, buffer)
    >>> _ = buffer.seek(0)
    >>> tocha.load(buffer)
    {'weight': tensor([1., 1.])}
    """
    if pickle_module is not None and pickle_module is not pickle:
        raise ValueError("[save] pickle_module can only be Python's pickle: names in the file are written by tocha")
    path = _path_of(f)
    folder = path.stem or "archive" if path is not None else "archive"
    write = _write_archive if _use_new_zipfile_serialization else legacy.write

    def write_to(file: IO[bytes]) -> None:
        write(obj, file, folder, pickle_protocol, not _disable_byteorder_record)

    if path is None:
        write_to(f)  # type: ignore[arg-type]
    else:
        _replace(path, write_to)


def _write_archive(obj: object, file: IO[bytes], folder: str, protocol: int, byteorder: bool) -> None:
    storages = Storages()
    text = io.BytesIO()
    Pickler(text, protocol, storages).dump(obj)
    archive = Writer(file, folder)
    archive.write("data.pkl", text.getbuffer())
    archive.write(".format_version", b"1")
    archive.write(".storage_alignment", b"64")
    if byteorder:
        archive.write("byteorder", sys.byteorder.encode())
    for key, storage in storages.by_key.items():
        archive.write(f"data/{key}", bytes_of(storage))
    archive.close()


def bytes_of(storage: UntypedStorage) -> memoryview:
    """A storage's memory, copied to the CPU if it lies elsewhere."""
    return memoryview(storage.cpu()._as_tensor(_C.uint8).numpy())


def _path_of(f: FileLike) -> Path | None:
    if isinstance(f, str | os.PathLike):
        return Path(f)
    if not hasattr(f, "write") and not hasattr(f, "read"):
        raise AttributeError(f"expected a path or a file, got {type(f).__name__}")
    return None


def _replace(path: Path, write: Callable[[IO[bytes]], None]) -> None:
    """Writes beside the file and moves the result over it when it is whole."""
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise RuntimeError(f"Parent directory {target.parent} does not exist.")
    if target.exists() and not target.is_file():  # a device or a pipe cannot be replaced
        with open(target, "wb") as file:
            write(file)
        return
    temporary = target.with_name(f".{target.name}.{os.getpid()}.{os.urandom(4).hex()}.part")
    mode = target.stat().st_mode & 0o777 if target.exists() else 0o666
    try:
        with open(os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode), "w+b") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


# -- loading -----------------------------------------------------------------------------------------


def load(
    f: FileLike,
    map_location: MapLocation = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """Reads what save or torch.save wrote.

    weights_only (the default) builds tensors and plain containers and refuses everything else by name; with False the
    file may run any code. mmap=True leaves storages in the file until they are touched (changes stay private).
    map_location says where storages go: a device, a dict of locations, or a function of (storage, location).
    """
    weights_only = True if weights_only is None else weights_only
    if weights_only and pickle_module is not None:
        raise RuntimeError("Can not safely load weights when explicit pickle_module is specified")
    encoding = pickle_load_args.get("encoding", "utf-8")
    path = _path_of(f)
    if mmap and path is None:
        raise ValueError("f must be a file path in order to use the mmap argument")
    if path is not None:
        with open(path, "rb") as file:
            return _load_named(str(path), file, map_location, weights_only, bool(mmap), encoding)
    if not hasattr(f, "seek") or not hasattr(f, "read"):
        raise AttributeError("a file to load from must be able to read and seek; wrap its bytes in io.BytesIO")
    return _load_named(getattr(f, "name", "the file"), f, map_location, weights_only, False, encoding)  # type: ignore[arg-type]


def _load_named(
    name: str, file: IO[bytes], map_location: MapLocation, weights_only: bool, mapped: bool, encoding: str
) -> Any:
    place = Placement(map_location)
    try:
        if is_archive(file):
            return _load_archive(file, place, weights_only, mapped, encoding)
        if mapped:
            raise RuntimeError("mmap can only be used with files saved with `_use_new_zipfile_serialization=True`")
        return legacy.read(file, place, lambda data, find: _unpickle(data, find, weights_only, encoding))
    except (ArchiveError, pickle.UnpicklingError) as error:
        raise type(error)(f"[load] {name}: {error}") from error


def _load_archive(file: IO[bytes], place: Placement, weights_only: bool, mapped: bool, encoding: str) -> Any:
    archive = Reader(file)
    if "data.pkl" not in archive:
        raise ArchiveError("the zip file is no checkpoint: it has no data.pkl")
    if "constants.pkl" in archive:
        raise ArchiveError("this is a TorchScript archive, which has code in it; only checkpoints can be loaded")
    order = archive.read("byteorder") if "byteorder" in archive else b"little"
    if order not in (b"little", b"big"):
        raise ArchiveError(f"unknown byte order {order!r}")
    records = _Records(archive, place, mapped, swap=order != sys.byteorder.encode())
    return _unpickle(archive.read("data.pkl"), records.find, weights_only, encoding)[0]


class _Records:
    """Storages by key, each read once, when the pickle asks for it."""

    def __init__(self, archive: Reader, place: Placement, mapped: bool, swap: bool):
        self._archive = archive
        self._place = place
        self._map = _mmap.mmap(archive.file.fileno(), 0, access=_mmap.ACCESS_COPY) if mapped else None
        self._swap = swap
        self._made: dict[str, tuple[UntypedStorage, Any]] = {}

    def find(self, reference: Any) -> TypedStorage | UntypedStorage:
        key, dtype, location, nbytes = check_reference(reference)
        if key not in self._made:
            self._made[key] = self._place(self._read(key, dtype, nbytes), location), dtype
        storage, made_as = self._made[key]
        if made_as != dtype or storage.nbytes() != nbytes:
            raise machine.Refused(f"storage {key!r} is referred to in two ways")
        return typed(storage, dtype)

    def _read(self, key: str, dtype: Any, nbytes: int) -> UntypedStorage:
        name = f"data/{key}"
        begin, size = self._archive.span(name)
        if size != nbytes:
            raise ArchiveError(f"record {name!r} has {size} bytes where the tensors on it say {nbytes}")
        if self._place.is_meta or _skipping:
            return UntypedStorage(nbytes, device="meta" if self._place.is_meta else "cpu")
        if self._map is not None and nbytes and not self._swap:
            return _C.frombuffer(self._map, dtype=_C.uint8, count=nbytes, offset=begin).untyped_storage()
        storage = self._archive.read_storage(name)
        if self._swap and dtype is not None and dtype.itemsize > 1:
            storage.byteswap(dtype)
        return storage


def check_reference(reference: Any) -> tuple[str, Any, str, int]:
    """key, dtype (None for bytes), location and number of bytes of ('storage', class, key, location, count, ...)."""
    if not isinstance(reference, tuple) or len(reference) < 5 or reference[0] != "storage":
        raise machine.Refused("the pickle refers to something outside that is no storage")
    _, kind, key, location, count = reference[:5]
    if not isinstance(key, str) or not isinstance(location, str) or type(count) is not int or count < 0:
        raise machine.Refused("the pickle refers to a storage in a way that makes no sense")
    if kind is UntypedStorage:
        return key, None, location, count
    dtype = getattr(kind, "dtype", None)
    if not isinstance(dtype, _C.dtype):
        raise machine.Refused(f"{kind!r} is no storage class")
    return key, dtype, location, count * dtype.itemsize


def typed(storage: UntypedStorage, dtype: Any) -> TypedStorage | UntypedStorage:
    return storage if dtype is None else TypedStorage(wrap_storage=storage, dtype=dtype)


class _TrustingUnpickler(pickle.Unpickler):
    """Python's unpickler, for files that are trusted, with PyTorch's names read as ours."""

    def __init__(self, file: IO[bytes], persistent: Callable[[Any], Any], encoding: str):
        super().__init__(file, encoding=encoding)
        self._persistent = persistent

    def find_class(self, module: str, name: str) -> Any:
        return super().find_class(*names.ours(module, name))

    def persistent_load(self, reference: Any) -> Any:
        return self._persistent(reference)


def _unpickle(data: bytes, find: Callable[[Any], Any], weights_only: bool, encoding: str) -> tuple[Any, int]:
    """The object in a pickle, and where the pickle ends."""
    if weights_only:
        return machine.load(data, find, encoding)
    file = io.BytesIO(data)
    return _TrustingUnpickler(file, find, encoding).load(), file.tell()


# -- where storages go -------------------------------------------------------------------------------


class Placement:
    """map_location as a function of a storage on the CPU and the location it was saved from."""

    def __init__(self, where: MapLocation):
        if isinstance(where, str | _C.device):
            where = _C.device(where)
        elif where is not None and not isinstance(where, dict) and not callable(where):
            raise TypeError(f"map_location should be a device, str, dict or callable, got {type(where).__name__}")
        self._where = where
        self.is_meta = isinstance(where, _C.device) and where.type == "meta"

    def __call__(self, storage: UntypedStorage, location: str) -> UntypedStorage:
        where = self._where
        if isinstance(where, _C.device):
            return default_restore_location(storage, str(where))
        if isinstance(where, dict):
            return default_restore_location(storage, where.get(location, location))
        if where is not None:
            moved = where(storage, location)  # type: ignore[operator]
            if moved is not None:
                return moved.untyped() if isinstance(moved, TypedStorage) else moved
        return default_restore_location(storage, location)


_packages: list[tuple[int, Callable, Callable]] = []


def register_package(priority: int, tagger: Callable, deserializer: Callable) -> None:
    """Adds a kind of location: tagger(storage) names it when saving, deserializer(storage, location) moves a storage
    there when loading; both return None for what is not theirs. Lower priorities are asked first.
    """
    _packages.append((priority, tagger, deserializer))
    _packages.sort(key=lambda p: p[0])


def location_tag(storage: UntypedStorage) -> str:
    """What a file says of where a storage lay."""
    for _, tagger, _ in _packages:
        tag = tagger(storage)
        if tag:
            return tag
    return location_of(storage)


def default_restore_location(storage: UntypedStorage, location: str) -> UntypedStorage:
    """The storage where a location names."""
    for _, _, deserializer in _packages:
        moved = deserializer(storage, location)
        if moved is not None:
            return moved
    if location == "cpu":
        return storage
    kind = location.partition(":")[0]
    if kind == "meta":
        return UntypedStorage(storage.nbytes(), device="meta")
    if kind == "cuda":
        raise RuntimeError(
            "Attempting to deserialize object on a CUDA device but there is none here. "
            "If you are running on a CPU-only machine, please use load with map_location=tocha.device('cpu') to map your storages to the CPU."
        )
    raise RuntimeError(f"don't know how to restore data location of UntypedStorage (tagged with {location})")


# -- looking without loading ---------------------------------------------------------------------------


def get_unsafe_globals_in_checkpoint(f: FileLike) -> list[str]:
    """The names in a checkpoint that weights_only=True would refuse; nothing is built or run."""
    path = _path_of(f)
    with open(path, "rb") if path is not None else _kept_open(f) as file:  # type: ignore[attr-defined]
        if not is_archive(file):
            raise ValueError("only checkpoints in the zip format can be looked through")
        return machine.unsafe_globals(Reader(file).read("data.pkl"))


@contextmanager
def _kept_open(f: Any) -> Any:
    yield f


_skipping = False


@contextmanager
def skip_data() -> Any:
    """A context in which load makes storages of the right sizes and leaves their bytes unread."""
    global _skipping
    before, _skipping = _skipping, True
    try:
        yield
    finally:
        _skipping = before


__all__ = [
    "add_safe_globals",
    "clear_safe_globals",
    "default_restore_location",
    "get_safe_globals",
    "get_unsafe_globals_in_checkpoint",
    "load",
    "location_tag",
    "register_package",
    "safe_globals",
    "save",
    "skip_data",
]
