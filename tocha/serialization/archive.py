"""The container of a checkpoint: a zip file of uncompressed records under one folder, each on a 64-byte boundary, so that
storages can be mapped into memory where they lie.

The reader trusts nothing: sizes are held against the file before memory is taken, checksums against what was read.
"""

from __future__ import annotations

import hashlib
import os
import struct
import zipfile
import zlib
from typing import IO, Any

from tocha import _C
from tocha.serialization.errors import ArchiveError, brief

ALIGNMENT = 64
_LOCAL = struct.Struct("<4s5H3I2H")
_CENTRAL = struct.Struct("<4s6H3I5H2I")
_END = struct.Struct("<4s4H2IH")
_END_64 = struct.Struct("<4sQ2H2I4Q")
_LOCATOR_64 = struct.Struct("<4sIQI")
_UTF8 = 0x800
_DATE = 0x21  # the first of January 1980: the same object gives the same file
_CRC_IN_LOCAL, _CRC_IN_CENTRAL = 14, 16  # where in those headers the checksum stands
_FULL_16, _FULL_32 = 0xFFFF, 0xFFFFFFFF  # say that the number stands in the 64-bit form


class Writer:
    """Writes records one after another, forwards only; `close` adds what PyTorch expects and the directory."""

    def __init__(self, file: IO[bytes], folder: str, checksums: bool = True):
        self._file = file
        self._checksums = checksums
        self._folder = folder
        self._at = 0
        self._directory: list[bytes] = []
        self._digest = hashlib.sha1()

    def write(self, name: str, data: Any) -> None:
        """One record; data is anything with a buffer."""
        view = memoryview(data).cast("B")
        crc = zlib.crc32(view) if self._checksums else 0
        self._digest.update(f"{name}:{crc or view.nbytes}".encode())
        full = f"{self._folder}/{name}".encode()
        self._directory.append(self._central(full, crc, view.nbytes))
        self._put(self._local(full, crc, view.nbytes))
        self._put(view)

    def _local(self, name: bytes, crc: int, size: int) -> bytes:
        large = size >= _FULL_32
        wide = struct.pack("<2H2Q", 1, 16, size, size) if large else b""
        begin = self._at + _LOCAL.size + len(name) + len(wide) + 4
        padding = -begin % ALIGNMENT
        extra = wide + struct.pack("<2sH", b"FB", padding) + b"Z" * padding
        shown = _FULL_32 if large else size
        version = 45 if large else 20
        head = _LOCAL.pack(b"PK\3\4", version, _UTF8, 0, 0, _DATE, crc, shown, shown, len(name), len(extra))
        return head + name + extra

    def _central(self, name: bytes, crc: int, size: int) -> bytes:
        large = size >= _FULL_32 or self._at >= _FULL_32
        extra = struct.pack("<2H3Q", 1, 24, size, size, self._at) if large else b""
        shown, at, version = (_FULL_32, _FULL_32, 45) if large else (size, self._at, 20)
        lengths = (len(name), len(extra), 0)
        head = (b"PK\1\2", version, version, _UTF8, 0, 0, _DATE, crc, shown, shown)
        return _CENTRAL.pack(*head, *lengths, 0, 0, 0, at) + name + extra

    def close(self) -> None:
        self.write("version", b"3\n")
        number = int.from_bytes(self._digest.digest(), "big") % 10**40
        self.write(".data/serialization_id", f"{number:040d}".encode())
        begin, count = self._at, len(self._directory)
        self._put(b"".join(self._directory))
        end, size = self._at, self._at - begin
        if count >= _FULL_16 or end >= _FULL_32:
            self._put(_END_64.pack(b"PK\6\6", _END_64.size - 12, 45, 45, 0, 0, count, count, size, begin))
            self._put(_LOCATOR_64.pack(b"PK\6\7", 0, end, 1))
        counts = [min(count, _FULL_16)] * 2
        self._put(_END.pack(b"PK\5\6", 0, 0, *counts, min(size, _FULL_32), min(begin, _FULL_32), 0))

    def _put(self, data: bytes | memoryview) -> None:
        """Files without a buffer may take less than they are given."""
        self._at += len(data)
        view = memoryview(data)
        while view:
            written = self._file.write(view)
            view = view[len(view) if written is None else written :]


class Reader:
    """Finds and reads records of an archive, from any file that can seek."""

    def __init__(self, file: IO[bytes]):
        self.file = file
        self.size = file.seek(0, os.SEEK_END)
        try:
            directory = zipfile.ZipFile(file)
            entries, self._directory = directory.infolist(), directory.start_dir
        except Exception as error:  # zipfile lets struct's and codecs' errors through
            raise ArchiveError(
                f"the archive's directory cannot be read, the file is cut off or damaged: {brief(error)}"
            ) from error
        self._records: dict[str, zipfile.ZipInfo] = {}
        self._ends: dict[str, int] = {}  # where the record after each one begins
        end = self.size
        for info in sorted(entries, key=lambda info: info.header_offset, reverse=True):
            self._add(info, end)
            end = info.header_offset

    def _add(self, info: zipfile.ZipInfo, end: int) -> None:
        """Records may not lie on one another: a small file could ask for any amount of memory that way."""
        _, _, name = info.filename.partition("/")
        if name in self._records:
            raise ArchiveError(f"the archive holds two records named {brief(name)!r}")
        if info.header_offset < 0 or info.header_offset + _LOCAL.size + info.compress_size > end:
            raise ArchiveError(
                f"record {brief(name)!r} of {info.compress_size} bytes at {info.header_offset} goes beyond {end}, "
                "the next record or the end of the file"
            )
        self._records[name] = info
        self._ends[name] = end

    def names(self) -> list[str]:
        """The records, in the order in which they lie in the file."""
        return list(reversed(self._records))

    def __contains__(self, name: str) -> bool:
        return name in self._records

    def span(self, name: str) -> tuple[int, int]:
        """Where a record's bytes begin, and how many there are."""
        info = self._records.get(name)
        shown = repr(brief(name))
        if info is None:
            raise ArchiveError(f"the archive has no record {shown}")
        if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1 or info.compress_size != info.file_size:
            raise ArchiveError(f"record {shown} is compressed or encrypted; checkpoints are neither")
        self.file.seek(info.header_offset)
        header = self.file.read(_LOCAL.size)
        if len(header) < _LOCAL.size or header[:4] != b"PK\x03\x04":
            raise ArchiveError(f"record {shown} has no header where the directory says")
        name_length, extra_length = struct.unpack("<HH", header[26:30])
        begin = info.header_offset + _LOCAL.size + name_length + extra_length
        if begin + info.file_size > self._ends[name]:
            raise ArchiveError(
                f"record {shown} of {info.file_size} bytes at {begin} goes beyond {self._ends[name]}, "
                "the next record or the end of the file"
            )
        return begin, info.file_size

    def read(self, name: str) -> bytes:
        begin, size = self.span(name)
        self.file.seek(begin)
        data = self.file.read(size)
        self._check(name, data)
        return data

    def read_storage(self, name: str, kind: type[_C.UntypedStorage] = _C.UntypedStorage) -> _C.UntypedStorage:
        """A record's bytes in a storage of their own."""
        begin, size = self.span(name)
        storage = kind(size)
        view = memoryview(storage._as_tensor(_C.uint8).numpy())
        self.file.seek(begin)
        if size:
            _read_into(self.file, view)
        self._check(name, view)
        return storage

    def forget_checksum(self, name: str) -> None:
        """For a record that will be written in place: its checksum becomes 0, in its header and in the directory."""
        info = self._records[name]
        self._put_zero(info.header_offset + _CRC_IN_LOCAL)
        at, wanted = self._directory, info.filename.encode()
        for _ in self._records:
            self.file.seek(at)
            head = self.file.read(_CENTRAL.size)
            lengths = struct.unpack("<3H", head[28:34])
            if self.file.read(lengths[0]) == wanted:
                self._put_zero(at + _CRC_IN_CENTRAL)
            at += _CENTRAL.size + sum(lengths)

    def _put_zero(self, at: int) -> None:
        self.file.seek(at)
        self.file.write(bytes(4))

    def _check(self, name: str, data: Any) -> None:
        """A checksum of 0 means that none was written: PyTorch can be told to leave them out."""
        info = self._records[name]
        if len(data) != info.file_size:
            raise ArchiveError(f"record {brief(name)!r} is cut off")
        if info.CRC and zlib.crc32(data) != info.CRC:
            raise ArchiveError(f"record {brief(name)!r} is damaged: its checksum does not match")


def _read_into(file: IO[bytes], view: memoryview) -> None:
    into = getattr(file, "readinto", None)
    done = 0
    while done < view.nbytes:
        if into is not None:
            n = into(view[done:])
        else:
            piece = file.read(min(view.nbytes - done, 1 << 24))
            n = len(piece)
            view[done : done + n] = piece
        if not n:
            raise ArchiveError(f"the file ends {view.nbytes - done} bytes too early")
        done += n


def is_archive(file: IO[bytes]) -> bool:
    """Whether the file begins as a zip file does; leaves the position where it was."""
    at = file.tell()
    head = file.read(4)
    file.seek(at)
    return head == b"PK\x03\x04"
