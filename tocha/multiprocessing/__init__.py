"""Python's multiprocessing, in which tensors go from process to process by shared memory.

Everything of Python's module is here under its name. Tensors that are put on a queue or sent through a pipe move to
shared memory, and the receiver gets the same memory: neither side copies, and both see what the other writes.
"""

from __future__ import annotations

import multiprocessing
from multiprocessing import *  # noqa: F403

from tocha.multiprocessing.reductions import (
    get_all_sharing_strategies,
    get_sharing_strategy,
    init_reductions,
    set_sharing_strategy,
)
from tocha.multiprocessing.spawn import (
    ProcessContext,
    ProcessExitedException,
    ProcessRaisedException,
    SpawnContext,
    spawn,
    start_processes,
)

__all__ = [
    "ProcessContext",
    "ProcessExitedException",
    "ProcessRaisedException",
    "SpawnContext",
    "get_all_sharing_strategies",
    "get_sharing_strategy",
    "init_reductions",
    "set_sharing_strategy",
    "spawn",
    "start_processes",
    *multiprocessing.__all__,  # type: ignore[attr-defined]
]

init_reductions()
