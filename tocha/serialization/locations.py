"""Where storages lay and where they go: the tags in files, map_location, and kinds of place that users register."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable

from tocha import _C
from tocha.serialization.errors import brief
from tocha.storage import TypedStorage, UntypedStorage, untyped_of

Tagger = Callable[[UntypedStorage], str | None]
Restorer = Callable[[UntypedStorage, str], UntypedStorage | None]
MapLocation = Callable[[UntypedStorage, str], UntypedStorage | None] | _C.device | str | dict[str, str] | None

_packages: list[tuple[int, Tagger, Restorer]] = []


def register_package(priority: int, tagger: Tagger, deserializer: Restorer) -> None:
    """Adds a kind of place: tagger(storage) names it when saving, deserializer(storage, location) moves a storage there
    when loading; both return None for what is not theirs. Lower priorities are asked first (cpu is 10, cuda 20, meta 22).

    >>> tocha.serialization.register_package(50, lambda storage: None, lambda storage, location: None) is None
    True
    """
    insort(_packages, (priority, tagger, deserializer), key=lambda package: package[0])


def location_tag(storage: UntypedStorage | TypedStorage) -> str:
    """What a file says of where a storage lay.

    >>> location_tag(tocha.ones(2).untyped_storage())
    'cpu'
    """
    untyped = untyped_of(storage)
    for _, tagger, _ in _packages:
        tag = tagger(untyped)
        if tag is not None:
            return tag
    raise RuntimeError(f"don't know how to determine data location of a storage on {untyped.device}")


def default_restore_location(storage: UntypedStorage, location: str) -> UntypedStorage:
    """The storage where a location names.

    >>> tocha.serialization.default_restore_location(tocha.ones(2).untyped_storage(), "cpu").device
    device(type='cpu')
    """
    for _, _, deserializer in _packages:
        moved = deserializer(storage, location)
        if moved is not None:
            return moved
    raise RuntimeError(f"don't know how to restore data location of UntypedStorage (tagged with {brief(location)})")


def _tag_of(kind: str) -> Tagger:
    def tag(storage: UntypedStorage) -> str | None:
        device = storage.device
        if device.type != kind:
            return None
        return kind if device.index is None or kind == "cpu" else f"{kind}:{device.index}"

    return tag


def _to_cpu(storage: UntypedStorage, location: str) -> UntypedStorage | None:
    return storage if location == "cpu" else None


def _to_cuda(storage: UntypedStorage, location: str) -> UntypedStorage | None:
    if location.partition(":")[0] != "cuda":
        return None
    raise RuntimeError(
        "Attempting to deserialize object on a CUDA device but there is none here. If you are running on a CPU-only "
        "machine, please use load with map_location=tocha.device('cpu') to map your storages to the CPU."
    )


def _to_meta(storage: UntypedStorage, location: str) -> UntypedStorage | None:
    return UntypedStorage(storage.nbytes(), device="meta") if location == "meta" else None


for _priority, _kind, _restorer in ((10, "cpu", _to_cpu), (20, "cuda", _to_cuda), (22, "meta", _to_meta)):
    register_package(_priority, _tag_of(_kind), _restorer)


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
            return default_restore_location(storage, str(where.get(location, location)))
        moved = where(storage, location) if where is not None else None  # type: ignore[operator]
        return default_restore_location(storage, location) if moved is None else _bytes_of(moved, storage.nbytes())


def _bytes_of(moved: object, nbytes: int) -> UntypedStorage:
    """What a function given as map_location returned, held against what tensors will expect."""
    if not isinstance(moved, TypedStorage | UntypedStorage):
        raise TypeError(f"map_location must return a storage or None, got {type(moved).__name__}")
    untyped = untyped_of(moved)
    if untyped.nbytes() != nbytes:
        raise RuntimeError(f"map_location returned a storage of {untyped.nbytes()} bytes for one of {nbytes}")
    return untyped
