"""Programs from the cache, and those just compiled: their libraries, loaded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tocha import _C
from tocha._inductor import codecache, config
from tocha._inductor.entries import decode_call, decode_constant
from tocha._logging import events


def load_kept(entry: dict[str, Any]) -> Callable[..., tuple]:
    """The program of an entry."""
    constants = tuple(map(decode_constant, entry["constants"]))
    calls = tuple(map(decode_call, entry["calls"]))
    names = tuple(map(str, entry["kernels"]))
    events.tell(events.ProgramLoaded(entry["counts"]))
    return loaded(entry["source"], constants, calls, entry["inputs"], entry["outputs"], names)


def loaded(
    source: str, constants: tuple, calls: tuple, inputs: int, outputs: int, names: tuple[str, ...] = ()
) -> Callable[..., tuple]:
    with events.stage("library"):
        path = codecache.library_of(source)
    keeps_arena = getattr(config, "triton.cudagraphs")
    if not path.exists():  # another process made room just now
        path = codecache.compile_source(source, codecache.key_parts(source))
    return _C._load_program(str(path), constants, calls, inputs, outputs, keeps_arena, names)
