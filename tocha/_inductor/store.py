"""The cache on disk: files named by what they are made of, whole or not there, under a folder that only the user may enter.

A file's name has two digests: of what it was made for (a source, a graph), and of all the parts that decide it. So a miss can look at the
entries that were made for the same thing and say which part is another one. Contents carry their own digest; a file that does not agree
with it is dropped. Nothing that is read is executed before that, and nothing is unpickled. Any number of processes may share the folder;
one that cannot be written (a full disk, no rights) is done without.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import json
import logging
import os
import shutil
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tocha._inductor import config
from tocha._logging import events

log = logging.getLogger("tocha._inductor.cache")
SEAL = b"\ntocha-sha256:"
SEAL_LENGTH = len(SEAL) + 64
GRACE = 64  # writes between looks at the size of the folder

Parts = dict[str, str]  # what decides an entry, by name; the first is what it was made for


@dataclass
class Counts:
    """What happened, for tests and reports."""

    hits: int = 0
    misses: int = 0
    dropped: int = 0
    evicted: int = 0
    unwritable: int = 0
    writes: int = 0


counts = Counts()
used: set[Path] = set()  # entries that this process found or made


def root() -> Path:
    """The folder of all caches, the user's own; one for this process alone where there can be none."""
    named = os.environ.get("TORCHINDUCTOR_CACHE_DIR") or os.environ.get("TOCHA_CACHE_DIR")
    wanted = Path(named) if named else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tocha"
    return wanted if usable(wanted) else private_folder()


def usable(folder: Path) -> bool:
    """Whether it is there, or could be made, and is the user's own: what somebody else put there would be run."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        owner = folder.stat().st_uid
    except OSError as reason:
        say_once(folder, f"cannot be made, nothing is kept: {reason}")
        return False
    if hasattr(os, "getuid") and owner != os.getuid():
        say_once(folder, "belongs to somebody else and is not used")
        return False
    return True


@cache
def say_once(folder: Path, what: str) -> None:
    log.warning("[cache] %s %s", folder, what)


def private_folder() -> Path:
    return folder_of(os.getpid())  # a fork has its own: that of its parent goes when the parent ends


@cache
def folder_of(process: int) -> Path:
    made = Path(tempfile.mkdtemp(prefix="tocha-"))
    atexit.register(remove_folder_of, process, made)
    return made


def remove_folder_of(process: int, made: Path) -> None:
    if process == os.getpid():  # forks run their parent's functions, too
        shutil.rmtree(made, ignore_errors=True)


def digest_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:40]


def digest(parts: Parts) -> str:
    return digest_of("\0".join(f"{k}={v}" for k, v in parts.items()))


def sealed(content: bytes) -> bytes:
    return content + SEAL + hashlib.sha256(content).hexdigest().encode()


def unsealed(content: bytes) -> bytes | None:
    """What was sealed, if it is still that."""
    body, seal = content[:-SEAL_LENGTH], content[-SEAL_LENGTH:]
    return body if seal == SEAL + hashlib.sha256(body).hexdigest().encode() else None


class Folder:
    """Entries of one kind."""

    def __init__(self, kind: str, suffix: str):
        self.kind, self.suffix = kind, suffix

    def path(self, parts: Parts) -> Path:
        subject = digest_of(next(iter(parts.values())))[:16]
        return self.directory() / f"{subject}-{digest(parts)}{self.suffix}"

    def directory(self) -> Path:
        made = (private_folder() if config.force_disable_caches else root()) / self.kind
        if not usable(made):
            made = private_folder() / self.kind
            made.mkdir(mode=0o700, exist_ok=True)
        return made

    def find(self, parts: Parts) -> Path | None:
        """The file of an entry, looked through; None if there is none, and the log says which part is another one."""
        if config.force_disable_caches:
            return None
        path = self.path(parts)
        try:
            content = path.read_bytes()
        except OSError:
            counts.misses += 1
            events.tell(events.CacheAsked(self.kind, False, lambda: self.what_changed(parts)))
            if log.isEnabledFor(logging.INFO):
                log.info("[cache] no %s: %s", self.kind, self.what_changed(parts))
            return None
        if unsealed(content) is None:
            counts.dropped += 1
            log.warning("[cache] %s is damaged and dropped", path.name)
            with contextlib.suppress(OSError):
                path.unlink()
            return None
        counts.hits += 1
        events.tell(events.CacheAsked(self.kind, True, lambda: ""))
        used.add(path)
        with contextlib.suppress(OSError):
            os.utime(path)  # used last now
        return path

    def read(self, parts: Parts) -> bytes | None:
        path = self.find(parts)
        try:
            return unsealed(path.read_bytes()) if path is not None else None
        except OSError:  # somebody took it away just now
            return None

    def write(self, parts: Parts, content: bytes) -> Path | None:
        """None where the disk takes nothing."""
        path = self.path(parts)
        if not put(path, sealed(content)):
            return None
        if config.force_disable_caches:  # a file of this process, and no entry
            return path
        put(path.with_suffix(".parts"), json.dumps({k: digest_of(v) for k, v in parts.items()}).encode())
        counts.writes += 1
        used.add(path)
        if counts.writes % GRACE == 1:
            shrink(root(), config.cache_size_limit)
        return path

    def what_changed(self, parts: Parts) -> str:
        """Of the entries for the same thing, by how many parts the nearest differs."""
        (subject, *_), mine = parts, {k: digest_of(v) for k, v in parts.items()}
        nearest: list[str] | None = None
        for other in self.directory().glob(f"{self.path(parts).name[:16]}-*.parts"):
            try:
                theirs = json.loads(other.read_text())
            except (OSError, ValueError):
                continue
            differ = [k for k in {**mine, **theirs} if mine.get(k) != theirs.get(k)]
            if nearest is None or len(differ) < len(nearest):
                nearest = differ
        return f"the {subject} is new" if not nearest else f"changed: {', '.join(nearest)}"


def put(path: Path, content: bytes) -> bool:
    """A file that is there whole or not at all; False where the disk takes nothing."""
    name = None
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".new-")
        with os.fdopen(handle, "wb") as f:
            f.write(content)
        os.replace(name, path)
        return True
    except OSError as reason:
        counts.unwritable += 1
        log.warning("[cache] %s is not kept: %s", path.name, reason)
        if name is not None:
            with contextlib.suppress(OSError):
                os.unlink(name)
        return False


def shrink(folder: Path, limit: int) -> None:
    """Takes away what was not used for the longest time, until the rest is within `limit` bytes. Files of one name go together."""
    groups: dict[Path, list[tuple[float, int, Path]]] = {}
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):
            if path.is_file():
                state = path.stat()
                groups.setdefault(path.with_suffix(""), []).append((state.st_mtime, state.st_size, path))
    left = sum(size for group in groups.values() for _, size, _ in group)
    used_at = {name: max(time for time, _, path in group if path.suffix != ".parts" or len(group) == 1) for name, group in groups.items()}  # fmt: skip
    for name in sorted(groups, key=lambda n: (used_at[n], n)):
        if left <= limit:
            return
        for _, size, path in groups[name]:
            with contextlib.suppress(OSError):
                path.unlink()
            left -= size
        counts.evicted += 1
