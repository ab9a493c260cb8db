"""How save and load go about it unless told otherwise: checksums, the byte order of files without a mark, how files are mapped."""

from __future__ import annotations

import sys
from enum import Enum
from mmap import MAP_PRIVATE, MAP_SHARED

__all__ = [
    "MAP_PRIVATE",
    "MAP_SHARED",
    "LoadEndianness",
    "SourceChangeWarning",
    "get_crc32_options",
    "get_default_load_endianness",
    "get_default_mmap_options",
    "set_crc32_options",
    "set_default_load_endianness",
    "set_default_mmap_options",
]


class SourceChangeWarning(Warning):
    """A class's source is not what it was when a file was written.

    >>> issubclass(tocha.serialization.SourceChangeWarning, Warning)
    True
    """


class LoadEndianness(Enum):
    """The byte order of a file that does not say which it has.

    >>> [order.name for order in tocha.serialization.LoadEndianness]
    ['NATIVE', 'LITTLE', 'BIG']
    """

    NATIVE = 1
    LITTLE = 2
    BIG = 3


_checksums = True
_endianness: LoadEndianness | None = None
_mapping = MAP_PRIVATE


def get_crc32_options() -> bool:
    """Whether save writes a checksum for every record.

    >>> tocha.serialization.get_crc32_options()
    True
    """
    return _checksums


def set_crc32_options(compute_crc32: bool) -> None:
    """Whether save writes checksums; without them it is faster, and unzip programs call the file damaged.

    >>> set_crc32_options(False)
    >>> get_crc32_options()
    False
    >>> set_crc32_options(True)
    """
    global _checksums
    _checksums = compute_crc32


def get_default_load_endianness() -> LoadEndianness | None:
    """What set_default_load_endianness last set.

    >>> tocha.serialization.get_default_load_endianness() is None
    True
    """
    return _endianness


def set_default_load_endianness(endianness: LoadEndianness | None) -> None:
    """The byte order to read files in that do not say which they have; None is little-endian.

    >>> set_default_load_endianness(LoadEndianness.BIG)
    >>> get_default_load_endianness()
    <LoadEndianness.BIG: 3>
    >>> set_default_load_endianness(None)
    """
    global _endianness
    if endianness is not None and not isinstance(endianness, LoadEndianness):
        raise TypeError("Invalid argument type in function set_default_load_endianness")
    _endianness = endianness


def assumed_byteorder() -> bytes:
    """The byte order of a file without a mark, in the words of the mark."""
    if _endianness is LoadEndianness.NATIVE:
        return sys.byteorder.encode()
    return b"big" if _endianness is LoadEndianness.BIG else b"little"


def get_default_mmap_options() -> int:
    """What set_default_mmap_options last set: mmap.MAP_PRIVATE at first.

    >>> tocha.serialization.get_default_mmap_options()
    2
    """
    return _mapping


class set_default_mmap_options:
    """How load(mmap=True) maps files: MAP_PRIVATE keeps changes to itself, MAP_SHARED writes them to the file.

    Holds from now on, or as a context until its end.

    >>> import mmap
    >>> with set_default_mmap_options(mmap.MAP_SHARED):
    ...     get_default_mmap_options() == mmap.MAP_SHARED
    True
    """

    def __init__(self, flags: int) -> None:
        global _mapping
        if flags not in (MAP_PRIVATE, MAP_SHARED):
            raise ValueError(
                "Invalid argument in function set_default_mmap_options, expected mmap.MAP_PRIVATE or mmap.MAP_SHARED, "
                f"but got {flags}"
            )
        self._before, _mapping = _mapping, flags

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exception: object) -> None:
        global _mapping
        _mapping = self._before
