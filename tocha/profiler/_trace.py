"""Traces that Perfetto and chrome://tracing open, with the fields that PyTorch's have; stacks for flame graphs."""

from __future__ import annotations

import json
import os
import platform
import sys
import time
import uuid
from typing import Any

KINDS = {"op": "cpu_op", "node": "cpu_op", "kernel": "cpu_op", "mark": "user_annotation", "python": "python_function"}
METRICS = ["self_cpu_time_total", "self_cuda_time_total", "self_xpu_time_total", "self_privateuse1_time_total"]


def write(events: Any, path: str, metadata: dict[str, Any]) -> None:
    first = min([e.time_range.start for e in events] + [m.time for m in events.memory], default=0.0)
    # What the monotonic clock's times are in the world's.
    base = time.time_ns() - (time.monotonic_ns() - int(first * 1e3))
    made = {
        "schemaVersion": 1, "deviceProperties": [], "trace_id": uuid.uuid4().hex.upper(), "host_name": platform.node(),
        "displayTimeUnit": "ms", "baseTimeNanoseconds": base, **metadata, "traceEvents": rows(events, first), "traceName": path,
    }  # fmt: skip
    with open(path, "w") as file:
        json.dump(made, file)


def rows(events: Any, first: float) -> list[dict[str, Any]]:
    pid = os.getpid()
    spans = [e for e in events if e.kind != "memory"]
    threads = sorted({e.thread for e in events} | {m.thread for m in events.memory})
    made = about(pid, threads)
    made += [span(e, i, pid, first) for i, e in enumerate(spans)]
    made += flows(spans, pid, first)
    made += [
        {
            "ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": pid, "tid": m.thread, "ts": m.time - first,
            "args": {"Total Reserved": 0, "Total Allocated": m.in_use, "Bytes": m.bytes, "Device Id": -1, "Device Type": 0, "Addr": m.place, "Ev Idx": len(spans) + i},
        }
        for i, m in enumerate(events.memory)
    ]  # fmt: skip
    end = max([e.time_range.end for e in events] + [m.time for m in events.memory], default=first) - first
    made.append({"ph": "X", "cat": "Trace", "name": "tocha profiler (0)", "pid": "Spans", "tid": "tocha profiler", "ts": 0, "dur": end, "args": {"Op count": 0}})  # fmt: skip
    made.append({"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": end})
    return made


def about(pid: int, threads: list[int]) -> list[dict[str, Any]]:
    """Names of the process and its threads."""
    program = os.path.basename(sys.executable or "python")

    def row(title: str, tid: int, **args: Any) -> dict[str, Any]:
        return {"ph": "M", "name": title, "ts": 0, "pid": pid, "tid": tid, "args": args}

    made = [row("process_name", 0, name=program), row("process_labels", 0, labels="CPU"), row("process_sort_index", 0, sort_index=pid)]  # fmt: skip
    for t in threads:
        made += [row("thread_name", t, name=f"thread {t} ({program})"), row("thread_sort_index", t, sort_index=t)]
    return made


def span(e: Any, i: int, pid: int, first: float) -> dict[str, Any]:
    args: dict[str, Any] = {"External id": e.id + 1, "Record function id": 0, "Ev Idx": i}
    if e.kind == "python":
        above = next((a.id for a in e.above() if a.kind == "python"), None)
        args = {"Python id": e.id, "Python parent id": above, "Ev Idx": i}
    if e.sequence_nr >= 0:
        args |= {"Sequence number": e.sequence_nr, "Fwd thread id": int(e.kind == "node")}
    if e.inputs:
        args |= {
            "Concrete Inputs": [x.text for x in e.inputs], "Input type": [x.type for x in e.inputs],
            "Input Strides": [x.steps for x in e.inputs], "Input Dims": [x.dims for x in e.inputs],
        }  # fmt: skip
    if e.stack:
        args["Call stack"] = ";".join(e.stack)
    return {"ph": "X", "cat": KINDS[e.kind], "name": e.name, "pid": pid, "tid": e.thread, "ts": e.time_range.start - first, "dur": e.cpu_time_total, "args": args}  # fmt: skip


def flows(spans: list[Any], pid: int, first: float) -> list[dict[str, Any]]:
    """Arrows from an operator to the node that takes its gradient."""
    made: list[dict[str, Any]] = []
    forward: dict[int, Any] = {}
    for e in spans:
        if e.kind == "op" and e.sequence_nr >= 0:
            forward[e.sequence_nr] = e
        elif e.kind == "node" and (began := forward.pop(e.sequence_nr, None)) is not None:
            arrow = {"id": len(made) // 2 + 1, "pid": pid, "cat": "fwdbwd", "name": "fwdbwd"}
            made.append({"ph": "s", **arrow, "tid": began.thread, "ts": began.time_range.start - first})
            made.append({"ph": "f", **arrow, "tid": e.thread, "ts": e.time_range.start - first, "bp": "e"})
    return made


def write_stacks(events: Any, path: str, metric: str) -> None:
    if metric not in METRICS:
        raise ValueError(f"metric should be one of: {METRICS}")
    with open(path, "w") as file:
        for e in events:
            value = int(getattr(e, metric, 0))
            if e.stack and value > 0:
                frames = ";".join(line.translate(str.maketrans(" ;\t\n", "____")) for line in reversed(e.stack))
                file.write(f"{frames} {value}\n")
