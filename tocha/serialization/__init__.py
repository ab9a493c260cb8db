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
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import IO, Any

from tocha import _C
from tocha._utils import ForeignBytes
from tocha.serialization import atomic, legacy, machine, names, options
from tocha.serialization.archive import Reader, Writer, is_archive
from tocha.serialization.errors import ArchiveError, Refused, brief
from tocha.serialization.locations import (
    MapLocation,
    Placement,
    default_restore_location,
    location_tag,
    register_package,
)
from tocha.serialization.locations import MapLocation as MAP_LOCATION  # noqa: F401
from tocha.serialization.older_names import (
    StorageType,
    check_module_version_greater_or_equal,
    normalize_storage_type,
    storage_to_tensor_type,
    validate_cuda_device,
    validate_hpu_device,
)
from tocha.serialization.options import (
    MAP_PRIVATE,
    MAP_SHARED,
    LoadEndianness,
    SourceChangeWarning,
    get_crc32_options,
    get_default_load_endianness,
    get_default_mmap_options,
    set_crc32_options,
    set_default_load_endianness,
    set_default_mmap_options,
)
from tocha.serialization.pickler import Pickler, Storages, check_reference, typed
from tocha.serialization.safe import add_safe_globals, clear_safe_globals, get_safe_globals, safe_globals
from tocha.storage import TypedStorage, UntypedStorage

DEFAULT_PROTOCOL = 2
FileLike = str | os.PathLike | IO[bytes]
_LARGEST_ITEM = 16  # bytes of an element, and what a record's place in a file must be a multiple of to be mapped


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

    A path is replaced when the new file is whole; until then, and if anything fails, the old file stays.

    >>> import io, tocha
    >>> buffer = io.BytesIO()
    >>> tocha.save({"weight": tocha.ones(2)}, buffer)
    >>> _ = buffer.seek(0)
    >>> tocha.load(buffer)
    {'weight': tensor([1., 1.])}
    """
    if pickle_module is not None and pickle_module is not pickle:
        raise ValueError("[save] pickle_module can only be Python's pickle: names in the file are written by tocha")
    protocol = pickle.HIGHEST_PROTOCOL if pickle_protocol < 0 else pickle_protocol
    if not 2 <= protocol <= pickle.HIGHEST_PROTOCOL:
        raise ValueError(f"[save] pickle_protocol must be from 2 to {pickle.HIGHEST_PROTOCOL}, got {pickle_protocol}")

    def write(file: IO[bytes]) -> None:
        if _use_new_zipfile_serialization:
            _write_archive(obj, file, _folder_of(path), protocol, not _disable_byteorder_record)
        else:
            legacy.write(obj, file, protocol)

    path = _path_of(f, "write")
    if path is None:
        write(f)  # type: ignore[arg-type]
    else:
        atomic.replace(path, write)


def _write_archive(obj: object, file: IO[bytes], folder: str, protocol: int, byteorder: bool) -> None:
    storages = Storages()
    text = io.BytesIO()
    Pickler(text, protocol, storages).dump(obj)
    archive = Writer(file, folder, checksums=bool(options.get_crc32_options()))
    archive.write("data.pkl", text.getbuffer())
    archive.write(".format_version", b"1")
    archive.write(".storage_alignment", b"64")
    if byteorder:
        archive.write("byteorder", sys.byteorder.encode())
    for key, storage in storages.by_key.items():
        archive.write(f"data/{key}", bytes(storage.nbytes()) if _skipping else storages.bytes_of(key))
    archive.close()


def _folder_of(path: Path | None) -> str:
    """The folder inside the archive: named after the file, where that is text."""
    stem = path.stem if path is not None else ""
    return stem if stem and stem.isprintable() else "archive"


def _path_of(f: FileLike, *needed: str) -> Path | None:
    """The path, or None for a file, which must be able to do what is needed."""
    if isinstance(f, str | os.PathLike):
        return Path(f)
    missing = [name for name in needed if not hasattr(f, name)]
    if missing:
        if "write" in missing:
            raise AttributeError(
                f"expected 'f' to be string, path, or a file-like object with a 'write' attribute, got {type(f).__name__}"
            )
        raise AttributeError(
            f"'{type(f).__name__}' object has no attribute '{'seek' if 'seek' in missing else missing[0]}'. You can only torch.load from a file that is seekable. "
            "Please pre-load the data into a buffer like io.BytesIO and try to load from it instead."
        )
    return None


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

    >>> import io
    >>> f = io.BytesIO()
    >>> tocha.save({"w": tocha.ones(2)}, f)
    >>> _ = f.seek(0)
    >>> tocha.load(f)
    {'w': tensor([1., 1.])}
    """
    weights_only = True if weights_only is None else weights_only
    if weights_only and pickle_module is not None:
        raise RuntimeError("Can not safely load weights when explicit pickle_module is specified")
    place = Placement(map_location)
    unpickle = _safe_unpickler(pickle_load_args) if weights_only else _any_unpickler(pickle_module, pickle_load_args)
    path = _path_of(f, "read", "seek", "tell")
    if mmap and path is None:
        raise ValueError("f must be a file path in order to use the mmap argument")
    shared = bool(mmap) and options.get_default_mmap_options() == options.MAP_SHARED
    with _opened(f, path, "r+b" if shared else "rb") as file, _naming(path or getattr(f, "name", "the file")):
        if is_archive(file):
            return _load_archive(file, place, unpickle, bool(mmap))
        if mmap:
            raise RuntimeError("mmap can only be used with files saved with `_use_new_zipfile_serialization=True`")
        return legacy.read(file, place, unpickle)


def _opened(f: Any, path: Path | None, mode: str = "rb") -> Any:
    if path is not None:
        return open(path, mode)
    if isinstance(f.read(0), str):
        raise TypeError("the file to load from is open as text; open it with mode 'rb'")
    return nullcontext(f)


@contextmanager
def _naming(name: object) -> Iterator[None]:
    """Errors about a file say which one."""
    try:
        yield
    except (ArchiveError, Refused) as error:
        raise type(error)(f"[load] {name}: {error}") from error
    except EOFError as error:
        raise EOFError(f"[load] {name}: {error}") from error


def _load_archive(file: IO[bytes], place: Placement, unpickle: Callable, mapped: bool) -> Any:
    archive = Reader(file)
    if "data.pkl" not in archive:
        raise ArchiveError("the zip file is no checkpoint: it has no data.pkl")
    if "constants.pkl" in archive:
        raise ArchiveError("this is a TorchScript archive, which has code in it; only checkpoints can be loaded")
    order = archive.read("byteorder") if "byteorder" in archive else options.assumed_byteorder()
    if order not in (b"little", b"big"):
        raise ArchiveError(f"unknown byte order {brief(order)}")
    records = _Records(archive, place, mapped, swap=order != sys.byteorder.encode())
    return unpickle(archive.read("data.pkl"), 0, records.find)[0]


class _Records:
    """Storages by key, each read once, when the pickle asks for it."""

    def __init__(self, archive: Reader, place: Placement, mapped: bool, swap: bool):
        self._archive = archive
        self._place = place
        self._map = _mmap.mmap(archive.file.fileno(), 0, options.get_default_mmap_options()) if mapped else None
        self._swap = swap
        self._made: dict[str, tuple[UntypedStorage, _C.dtype, int]] = {}

    def find(self, reference: Any) -> TypedStorage | UntypedStorage:
        key, dtype, location, nbytes = check_reference(reference)
        kind = _C.uint8 if dtype is None else dtype
        if key not in self._made:
            self._made[key] = self._place(self._read(key, dtype, nbytes), location), kind, nbytes
        storage, *made_as = self._made[key]
        if made_as != [kind, nbytes]:
            raise Refused(f"storage {brief(key)!r} is referred to in two ways")
        return typed(storage, dtype)

    def _read(self, key: str, dtype: _C.dtype | None, nbytes: int) -> UntypedStorage:
        name = f"data/{key}"
        begin, size = self._archive.span(name)
        if size != nbytes:
            raise ArchiveError(f"record {brief(name)!r} has {size} bytes where the tensors on it say {nbytes}")
        if self._place.is_meta or _skipping:
            return UntypedStorage(nbytes, device="meta" if self._place.is_meta else "cpu")
        if self._map is not None and nbytes and not self._swap and begin % _LARGEST_ITEM == 0:
            if options.get_default_mmap_options() == MAP_SHARED:
                self._archive.forget_checksum(name)
            return _C.frombuffer(self._map, dtype=_C.uint8, count=nbytes, offset=begin).untyped_storage()
        storage = self._archive.read_storage(name, ForeignBytes if self._swap and dtype is None else UntypedStorage)
        if self._swap and dtype is not None and dtype.itemsize > 1:
            storage.byteswap(dtype)
        return storage


# -- pickles -----------------------------------------------------------------------------------------


def _safe_unpickler(arguments: dict[str, Any]) -> Callable:
    """unpickle(data, at, find): the object of the pickle that begins there, and where it ends; only data is built."""
    return lambda data, at, find: machine.load(data, find, arguments.get("encoding", "utf-8"), at)


def _any_unpickler(module: Any, arguments: dict[str, Any]) -> Callable:
    """The same for files that are trusted, with PyTorch's names read as ours."""

    class Unpickler((module or pickle).Unpickler):  # type: ignore[misc, no-any-return]
        find: Callable

        def persistent_load(self, reference: Any) -> Any:
            return self.find(reference)

        def find_class(self, module: str, name: str) -> Any:
            return super().find_class(*names.ours(module, name))

    def unpickle(data: bytes, at: int, find: Callable) -> tuple[Any, int]:
        file = io.BytesIO(data)
        file.seek(at)
        unpickler = Unpickler(file, **{"encoding": "utf-8", **arguments})
        unpickler.find = find
        return unpickler.load(), file.tell()

    return unpickle


# -- looking without loading ---------------------------------------------------------------------------


def get_unsafe_globals_in_checkpoint(f: FileLike) -> list[str]:
    """The names in a checkpoint that weights_only=True would refuse; nothing is built or run.

    >>> import io
    >>> from fractions import Fraction
    >>> f = io.BytesIO()
    >>> tocha.save({"half": Fraction(1, 2)}, f)
    >>> _ = f.seek(0)
    >>> tocha.serialization.get_unsafe_globals_in_checkpoint(f)
    ['fractions.Fraction']
    """
    path = _path_of(f, "read", "seek", "tell")
    with _opened(f, path) as file, _naming(path or getattr(f, "name", "the file")):
        if not is_archive(file):
            raise ValueError("only checkpoints in the zip format can be looked through")
        return machine.unsafe_globals(Reader(file).read("data.pkl"))


_skipping = False


@contextmanager
def skip_data(materialize_fake_tensors: bool = False) -> Iterator[None]:
    """A context in which save leaves room for storages' bytes without writing them, and load leaves them unread.

    >>> import io
    >>> f = io.BytesIO()
    >>> with tocha.serialization.skip_data():
    ...     tocha.save({"w": tocha.ones(1000)}, f)
    >>> _ = f.seek(0)
    >>> tocha.load(f)["w"].shape
    tocha.Size([1000])
    """
    global _skipping
    before, _skipping = _skipping, True
    try:
        yield
    finally:
        _skipping = before


__all__ = [
    "MAP_PRIVATE",
    "MAP_SHARED",
    "LoadEndianness",
    "SourceChangeWarning",
    "StorageType",
    "add_safe_globals",
    "check_module_version_greater_or_equal",
    "clear_safe_globals",
    "default_restore_location",
    "get_crc32_options",
    "get_default_load_endianness",
    "get_default_mmap_options",
    "get_safe_globals",
    "get_unsafe_globals_in_checkpoint",
    "load",
    "location_tag",
    "normalize_storage_type",
    "register_package",
    "safe_globals",
    "save",
    "set_crc32_options",
    "set_default_load_endianness",
    "set_default_mmap_options",
    "skip_data",
    "storage_to_tensor_type",
    "validate_cuda_device",
    "validate_hpu_device",
]
