"""What compiling took, as bytes: for other processes and machines of the same kind, which then need not compile again."""

from __future__ import annotations

import io
import re
import zipfile
from dataclasses import dataclass, field

from tocha._inductor import codecache

_NAME = re.compile(r"[0-9a-f]{40}\.(so|cpp)")


@dataclass
class CacheInfo:
    """What was saved or loaded, by kind."""

    artifacts: dict[str, list[str]] = field(default_factory=dict)

    @property
    def inductor_artifacts(self) -> list[str]:
        return self.artifacts.get("inductor", [])

    def empty(self) -> bool:
        return not any(self.artifacts.values())


def save_cache_artifacts() -> tuple[bytes, CacheInfo] | None:
    """The programs that this process has compiled or loaded; None where there are none."""
    found = sorted(p for p in codecache.USED if p.exists())
    if not found:
        return None
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in found:
            for part in (path, path.with_suffix(".cpp")):
                if part.exists():
                    archive.write(part, part.name)
    return target.getvalue(), CacheInfo({"inductor": [p.stem for p in found]})


def load_cache_artifacts(serialized_artifacts: bytes) -> CacheInfo | None:
    """Puts programs into this machine's cache: they are found by what they were compiled from, and for which processor."""
    root = codecache.cache_directory() / "programs"
    root.mkdir(mode=0o700, exist_ok=True)
    loaded: list[str] = []
    try:
        with zipfile.ZipFile(io.BytesIO(serialized_artifacts)) as archive:
            for name in archive.namelist():
                if not _NAME.fullmatch(name):
                    raise ValueError(f"[load_cache_artifacts] no program of this cache: {name!r}")
                if not (root / name).exists():
                    (root / name).write_bytes(archive.read(name))
                if name.endswith(".so"):
                    loaded.append(name[:-3])
    except zipfile.BadZipFile:
        return None
    return CacheInfo({"inductor": loaded})
