"""Counts of what capture has done, for tests and for people."""

from __future__ import annotations

import collections
from typing import Any

from tocha import _C
from tocha._core import switches
from tocha._logging import events
from tocha._logging.collect import HISTORY

counters: collections.defaultdict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)


def _count(event: events.Event) -> None:
    match event:
        case events.CaptureBegan():
            counters["frames"]["total"] += 1
        case events.CaptureEnded(error=None):
            counters["frames"]["ok"] += 1
        case events.GraphCaptured(module=module):
            counters["stats"]["unique_graphs"] += 1
            counters["stats"]["calls_captured"] += sum(n.op.startswith("call_") for n in module.graph.nodes)
        case events.GraphBroke(refused=refused):
            counters["graph_break"][refused.detail] += 1
        case events.Recompiled(code=code):
            counters["recompiles"][code.co_qualname] += 1
        case events.CacheAsked(kind="graphs", hit=hit):
            counters["inductor"]["fxgraph_cache_hit" if hit else "fxgraph_cache_miss"] += 1
        case events.ProgramMade(compiled=compiled):
            counters["inductor"]["kernels"] += len(compiled.kernels)


def is_compile_supported(device_type: Any) -> bool:
    """Whether functions on a type of device can be compiled.

    >>> is_compile_supported("cpu")
    True
    """
    return _C.device(device_type).type == "cpu"


def compile_times(repr: str = "str", aggregate: bool = False) -> Any:
    """How long each stage of compiling took: as a table, or ("csv") as its head and its rows."""
    times = {name: [sum(seconds)] if aggregate else seconds for name, seconds in events.TIMES.items()}
    rows = [(name, ", ".join(f"{s:.4f}" for s in seconds)) for name, seconds in times.items()]
    if repr == "csv":
        return [name for name, _ in rows], [text for _, text in rows]
    assert repr == "str", f"compile_times: 'str' or 'csv', got {repr!r}"
    width = max([len("Function"), *(len(name) for name, _ in rows)])
    lines = [f"{name:<{width}}  {text}" for name, text in [("Function", "Runtimes (s)"), *rows]]
    return "\n".join(["TorchDynamo compilation metrics:", *lines])


def warn_once(msg: str, stacklevel: int = 1) -> None:
    """A warning that comes once in a program."""
    switches.warn_once(msg, stacklevel=stacklevel + 1)


events.add(_count)
events.add(HISTORY)
