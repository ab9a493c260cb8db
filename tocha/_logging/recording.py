"""Who has the native recorder of operators and kernels: there is one, and it belongs to one at a time."""

from __future__ import annotations

import threading
from typing import Any

from tocha import _C

_LOCK = threading.RLock()
_owner: Any = None


def take(owner: Any, *, operators: bool, memory: bool = False, sizes: bool = False, stacks: bool = False, by_force: bool = False) -> bool:  # fmt: skip
    """Starts recording for somebody; False where somebody else records. `by_force`: what others recorded is lost."""
    global _owner
    with _LOCK:
        if _owner is not None and not by_force:
            return False
        _owner = owner
        _C._profiler_start(operators, memory, sizes, stacks)
        return True


def give(owner: Any) -> list[tuple]:
    """Ends somebody's recording: (name, kind, begin, end, thread, parent, sequence, bytes, in use,
    place, inputs, stack) of each event."""
    global _owner
    with _LOCK:
        if _owner is not owner:
            return []
        _owner = None
        return _C._profiler_stop()


def so_far(owner: Any) -> list[tuple]:
    with _LOCK:
        return _C._profiler_so_far() if _owner is owner else []


def is_recording() -> bool:
    return _owner is not None
