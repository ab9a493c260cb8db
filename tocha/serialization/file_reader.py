"""`torch._C.PyTorchFileReader`: the records of a checkpoint by name, for programs that read parts of one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO, Any

from tocha import _C
from tocha.serialization.archive import Reader


class PyTorchFileReader:
    """Reads records of an archive that `save` wrote."""

    def __init__(self, name_or_buffer: str | os.PathLike | IO[bytes]):
        is_path = isinstance(name_or_buffer, str | os.PathLike)
        self._reader = Reader(Path(name_or_buffer).open("rb") if is_path else name_or_buffer)  # type: ignore[arg-type] # noqa: SIM115

    def get_all_records(self) -> list[str]:
        """The names of all records."""
        return self._reader.names()

    def has_record(self, name: str) -> bool:
        """Whether there is such a record."""
        return name in self._reader

    def get_record(self, name: str) -> bytes:
        """The bytes of a record."""
        return self._reader.read(name)

    def get_record_offset(self, name: str) -> int:
        """Where in the file the bytes of a record begin."""
        return self._reader.span(name)[0]

    def get_record_size(self, name: str) -> int:
        """How many bytes a record has."""
        return self._reader.span(name)[1]

    def get_storage_from_record(self, name: str, numel: int, dtype: Any) -> Any:
        """A record as a tensor of one dimension."""
        storage = self._reader.read_storage(name)
        return _C.empty(0, dtype=dtype).set_(storage, 0, (numel,), (1,))

    def serialization_id(self) -> str:
        """The number that tells archives apart."""
        return self._reader.read(".data/serialization_id").decode()
