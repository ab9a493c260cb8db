"""The entries of the caches that a process used, as one portable file. Reading it puts files into the cache and executes nothing."""

from __future__ import annotations

import json
import re
import warnings
from dataclasses import dataclass, field
from typing import Any

from tocha._inductor import codecache, graph_cache, store

MAGIC = b"tocha cache artifacts 1\n"
KINDS = ("programs", "graphs", "tuning")
NAME = re.compile(r"[0-9a-f]{16}-[0-9a-f]{40}\.(so|json)")


@dataclass
class CacheInfo:
    """Names of the entries in an artifact, by kind."""

    artifacts: dict[str, list[str]] = field(default_factory=dict)

    @property
    def inductor_artifacts(self) -> list[str]:
        return self.artifacts.get("programs", [])

    @property
    def aot_autograd_artifacts(self) -> list[str]:
        return self.artifacts.get("graphs", [])

    def add(self, kind: str, name: str) -> None:
        self.artifacts.setdefault(kind, []).append(name)

    def empty(self) -> bool:
        return not any(self.artifacts.values())


def made_for() -> dict[str, str]:
    """What both sides must have in common."""
    return {"processor": codecache.processor(), "version": graph_cache.own_digest()}


def save() -> tuple[bytes, CacheInfo] | None:
    """Everything that this process found in the caches or put there; None if there is nothing."""
    info, entries, content = CacheInfo(), [], b""
    for path in sorted(store.used):
        kind = path.parent.name
        if kind not in KINDS or not path.exists():
            continue
        body = path.read_bytes()
        entries.append({"kind": kind, "name": path.name, "size": len(body)})
        info.add(kind, path.name)
        content += body
    if info.empty():
        return None
    head = json.dumps({"made for": made_for(), "entries": entries}).encode()
    return MAGIC + store.sealed(len(head).to_bytes(8, "little") + head + content), info


def load(artifact: bytes) -> CacheInfo | None:
    """Puts the entries into the cache; None, with a warning, where they are damaged or not for this machine."""
    body = store.unsealed(artifact[len(MAGIC) :]) if artifact.startswith(MAGIC) else None
    if body is None:
        refused("is damaged")
        return None
    length = int.from_bytes(body[:8], "little")
    head: dict[str, Any] = json.loads(body[8 : 8 + length])
    for name, mine in made_for().items():
        if head["made for"].get(name) != mine:
            refused(f"was made for another {name}")
            return None
    info, at = CacheInfo(), 8 + length
    for entry in head["entries"]:
        content, at = body[at : at + entry["size"]], at + entry["size"]
        if entry["kind"] not in KINDS or not NAME.fullmatch(entry["name"]) or store.unsealed(content) is None:
            refused("is damaged")
            return None
        path = store.Folder(entry["kind"], "").directory() / entry["name"]
        if store.put(path, content):
            info.add(entry["kind"], entry["name"])
    return info


def refused(why: str) -> None:
    warnings.warn(f"[load_cache_artifacts] the artifact {why}: nothing was loaded", stacklevel=4)
