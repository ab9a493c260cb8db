"""Files that are replaced whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import IO

PATTERN = ".{}.part"  # what an unfinished file is called


def replace(path: str | os.PathLike, write: Callable[[IO[bytes]], None]) -> None:
    """write(file) fills a new file beside the old one, which takes its place once it is whole and on the disk.

    An exception or a crash midway leaves the old file as it was. Links are followed; the old file's mode is kept.
    """
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise RuntimeError(f"Parent directory {target.parent} does not exist.")
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a directory")
    if target.exists() and not target.is_file():  # a device or a pipe cannot be replaced
        with open(target, "wb") as file:
            write(file)
        return
    temporary = target.with_name(PATTERN.format(os.urandom(8).hex()))
    try:
        with open(temporary, "x+b") as file:
            if target.exists():
                os.fchmod(file.fileno(), target.stat().st_mode & 0o7777)
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
