"""TORCH_TRACE=folder: every event as a line of JSON, in one file per process."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from tocha._logging import events
from tocha._logging.collect import graph_of, shown_value, symbols_of


class Trace:
    """A listener that writes. Each line has `time` (nanoseconds of the clock), `event`, `compile_id`, `thread`, and what happened."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        made = Path(folder)
        made.mkdir(parents=True, exist_ok=True)
        self.path = made / f"tocha_trace_{os.getpid()}_{time.time_ns()}.jsonl"
        self.offset = time.time_ns() - time.perf_counter_ns()

    def __call__(self, event: events.Event) -> None:
        row = {
            "time": event.time + self.offset,
            "event": type(event).__name__,
            "compile_id": event.compile_id,
            "thread": event.thread,
            **details(event),
        }
        with open(self.path, "a") as f:  # by whole lines: other threads and forks write here too
            f.write(json.dumps(row) + "\n")


def details(event: events.Event) -> dict[str, Any]:
    """What happened, as JSON has it."""
    match event:
        case events.CaptureBegan(code=code):
            return {"function": code.co_qualname, "file": code.co_filename, "line": code.co_firstlineno}
        case events.CaptureEnded(code=code, error=error):
            return {
                "function": code.co_qualname,
                "error": None if error is None else f"{type(error).__name__}: {error}",
            }
        case events.Recompiled(code=code, reason=reason):
            return {"function": code.co_qualname, "reason": reason, "every_reason": event.every_reason()}
        case events.GraphBroke(refused=refused, calls=calls):
            stack = [{"file": p.file, "line": p.line, "function": p.function} for p in refused.stack]
            return {"reason": refused.detail, "number": refused.refusal.number, "name": refused.refusal.name, "calls": calls, "stack": stack}  # fmt: skip
        case events.GraphCaptured(module=module, examples=examples):
            return {"code": graph_of("captured", module).code, "inputs": [shown_value(x) for x in examples]}
        case events.FrameMade(code=code, output=output):
            symbols = [{"name": s.name, "value": s.value, "sources": s.sources, "fixed_by": s.fixed_by} for s in symbols_of(output)]  # fmt: skip
            return {"function": code.co_qualname, "guards": output.guards.texts(), "symbols": symbols}
        case events.GraphMade(stage=stage, module=module):
            return {"stage": stage, "code": module.code.strip()}
        case events.LoopsMade(stage=stage, loops=loops):
            return {"stage": stage, "loops": repr(loops)}
        case events.ProgramMade(module=module, compiled=compiled):
            return compiled.described(module)
        case events.RanUncompiled(reason=reason):
            return {"reason": reason}
        case events.CacheAsked(kind=kind, hit=hit):
            return {"kind": kind, "hit": hit, "what_changed": "" if hit else event.what_changed()}
        case events.StageBegan(name=name):
            return {"name": name}
        case events.StageEnded(name=name, began=began):
            return {"name": name, "seconds": (event.time - began) / 1e9}
    return {}
