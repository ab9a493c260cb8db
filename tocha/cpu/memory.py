"""Who holds the CPU's memory: a history of what was asked for and given back, and a snapshot of what is in use, in the form of
PyTorch's `torch.cuda.memory`.

>>> import tocha
>>> _record_memory_history()
>>> x = tocha.ones(1000)
>>> (block,) = [b for s in _snapshot()["segments"] for b in s["blocks"] if b["address"] == x.data_ptr()]
>>> block["requested_size"], block["operator"]
(4000, 'aten::ones')
>>> _record_memory_history(enabled=None)
"""

from __future__ import annotations

import os
import pickle
import re
import sys
import time
from typing import Any

from tocha import _C, nn
from tocha.compiler._report import memory as page
from tocha.profiler import _memory_profiler

_LINE = re.compile(r"(.*)\((\d+)\): (.*)$", re.DOTALL)
_OPERATORS = ("aten::", "##")


def _record_memory_history(
    enabled: str | None = "all", context: str | None = "all", stacks: str = "all", max_entries: int = sys.maxsize, device: Any = None,
    clear_history: bool = False, compile_context: bool = False, global_record_annotations: bool = False, skip_actions: list[str] | None = None,
) -> None:  # fmt: skip
    """Begins to keep who asks for memory: the lines of the program, the operator, the module. `enabled`: None ends it, "state" keeps
    only what is in use, "all" also what came and went, `max_entries` of it at most. `context=None`: without the program's lines."""
    for name, given, known in (("enabled", enabled, (None, "state", "all")), ("context", context, (None, "state", "alloc", "all")), ("stacks", stacks, ("python", "all"))):  # fmt: skip
        if given not in known:
            raise RuntimeError(f"[_record_memory_history] expected {name} to be one of {known}: got {given!r}")
    if enabled is None:
        _C._memory_history_stop()
        return
    if clear_history:
        _C._memory_history_clear()
    most = 1 if enabled == "state" else max_entries
    _C._memory_history_start(most, context is not None, nn.Module.__call__.__code__)


def _frames(lines: list[str]) -> list[dict[str, Any]]:
    found = [_LINE.match(line) for line in lines]
    return [{"filename": m[1], "line": int(m[2]), "name": m[3]} for m in found if m]


def _module_names() -> dict[str, str]:
    """By what the history calls a module ("Linear 281473"): its path from the outermost module."""
    found: dict[str, str] = {}
    for path, module in _memory_profiler.modules_by_path():
        found.setdefault(f"{type(module).__name__} {id(module)}", path)
    return found


class _Names:
    """Names of modules, and what holds a place in memory now."""

    def __init__(self) -> None:
        self.modules, self.holders = _module_names(), _memory_profiler.holders()

    def of_modules(self, modules: list[str]) -> list[str]:
        return [self.modules.get(m, m.rsplit(" ", 1)[0]) for m in modules]

    def facts(self, place: int, ranges: list[str], modules: list[str], held: bool) -> dict[str, Any]:
        """What PyTorch's snapshots have no field for."""
        known = self.holders.get(place) if held else None
        category = known.category.name if known else purpose(ranges, modules)
        return {
            "operator": next((r for r in ranges if r.startswith(_OPERATORS) or "Backward" in r), ""), "ranges": ranges,
            "modules": self.of_modules(modules), "holder": known.name if known else "", "category": category,
        }  # fmt: skip


def purpose(ranges: list[str], modules: list[str]) -> str:
    """What a block was for, by where it was asked for; in the words of tocha.profiler's timelines."""
    if any(r.startswith("autograd::engine::evaluate_function") for r in ranges):
        return "AUTOGRAD_DETAIL"
    if any(r.startswith("Optimizer.") for r in ranges):
        return "TEMPORARY"
    return "ACTIVATION" if modules else ""


def _snapshot(device: Any = None, augment_with_fx_traces: bool = False) -> dict[str, Any]:
    """What is in use and what happened, as PyTorch's tools read it: `segments` with `blocks` (each block is a segment of its own),
    `device_traces` in order. Blocks also say which operator and modules asked for them, and what holds them now."""
    names = _Names()
    segments, seen = [], set()
    for place, size, _, _, lines, ranges, modules in sorted(_C._memory_history_blocks()):
        seen.add(place)
        segments.append(_segment(place, size, _frames(lines), names.facts(place, ranges, modules, held=True)))
    for place, known in names.holders.items():  # from before the history began
        if place not in seen:
            segments.append(_segment(place, known.bytes, [], names.facts(place, [], [], held=True)))
    epoch = time.time_ns() - time.monotonic_ns()
    trace = []
    for place, size, in_use, at, lines, ranges, modules in _C._memory_history_changes():
        actions = ["alloc"] if size > 0 else ["free_requested", "free_completed"]
        for action in actions:
            trace.append(
                {
                    "action": action, "addr": place, "size": abs(size), "stream": 0, "time_us": (epoch + at) // 1000, "in_use": in_use,
                    "frames": _frames(lines), **names.facts(place, ranges, modules, held=False),
                }
            )  # fmt: skip
    return {"segments": segments, "device_traces": [trace], "allocator_settings": {}, "external_annotations": []}


def _segment(place: int, size: int, frames: list[dict[str, Any]], facts: dict[str, Any]) -> dict[str, Any]:
    block = {
        "address": place,
        "size": size,
        "requested_size": size,
        "state": "active_allocated",
        "frames": frames,
        **facts,
    }
    return {
        "device": 0, "address": place, "total_size": size, "allocated_size": size, "active_size": size, "requested_size": size, "stream": 0,
        "segment_type": "large" if size >= 1 << 20 else "small", "segment_pool_id": (0, 0), "is_expandable": False, "frames": frames,
        "blocks": [block],
    }  # fmt: skip


def _as_page() -> dict[str, Any]:
    names = _Names()
    rows: list[dict[str, Any]] = []
    open_: dict[int, dict[str, Any]] = {}
    changes = _C._memory_history_changes()
    first = min((c[3] for c in changes), default=0)

    def add(
        place: int, size: int, begin: float | None, lines: list[str], ranges: list[str], modules: list[str]
    ) -> None:
        facts = names.facts(place, ranges, modules, held=False)
        open_[place] = {"begin": begin, "end": None, "bytes": size, "lines": lines, "name": "", **facts}
        rows.append(open_[place])

    for place, size, _, at, lines, ranges, modules in changes:
        if size > 0:
            add(place, size, (at - first) / 1e3, lines, ranges, modules)
        else:
            if place not in open_:
                add(place, -size, None, lines, ranges, modules)
            open_.pop(place)["end"] = (at - first) / 1e3
    for place, size, _, _, lines, ranges, modules in _C._memory_history_blocks():
        if place not in open_:  # its beginning is no longer kept
            add(place, size, None, lines, ranges, modules)
    for place, known in names.holders.items():
        if place not in open_:
            add(place, known.bytes, None, [], [], [])
        open_[place] |= {"name": known.name, "category": known.category.name}
    return {"title": "Memory of the CPU", "blocks": rows}


def _dump_snapshot(
    filename: str | os.PathLike[str] = "dump_snapshot.pickle", augment_with_fx_traces: bool = False
) -> None:
    """Writes a snapshot: a page to look at, where the name ends in .html, else a pickle that PyTorch's memory_viz reads."""
    if os.fspath(filename).endswith(".html"):
        page.write(_as_page(), filename)
        return
    with open(filename, "wb") as file:
        pickle.dump(_snapshot(), file)


def memory_snapshot() -> list[dict[str, Any]]:
    """The segments in use."""
    return _snapshot()["segments"]
