"""torch.profiler's names: contexts and schedules that programs are written with. Marked ranges are timed; operators are not recorded.

`profile` measures what `record_function` marks, on the CPU. Traces of operators, stacks and memory are refused.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Callable, Iterable
from typing import Any

from tocha.profiler._ranges import Recorder, record_function

__all__ = [
    "ProfilerAction", "ProfilerActivity", "kineto_available", "profile", "record_function", "schedule", "supported_activities",
    "tensorboard_trace_handler",
]  # fmt: skip


class ProfilerActivity(enum.Enum):
    """What is looked at."""

    CPU = 0
    XPU = 1
    MTIA = 2
    CUDA = 3
    HPU = 4
    PrivateUse1 = 5


class ProfilerAction(enum.Enum):
    """What a step is for."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


def supported_activities() -> set[ProfilerActivity]:
    """The CPU."""
    return {ProfilerActivity.CPU}


def kineto_available() -> bool:
    """Whether operators are recorded: they are not."""
    return False


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0
) -> Callable[[int], ProfilerAction]:
    """Cycles of waiting, warming up and recording.

    >>> plan = schedule(wait=1, warmup=1, active=2, repeat=1)
    >>> [plan(step).name for step in range(5)]
    ['NONE', 'WARMUP', 'RECORD', 'RECORD_AND_SAVE', 'NONE']
    """

    def action(step: int) -> ProfilerAction:
        step -= skip_first
        length = wait + warmup + active
        if step < 0:
            return ProfilerAction.NONE
        if skip_first_wait:
            step += wait
        if repeat and step // length >= repeat:
            return ProfilerAction.NONE
        place = step % length
        if place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if place < length - 1 else ProfilerAction.RECORD_AND_SAVE

    return action


class profile:
    """Times the ranges that record_function marks while it is on."""

    def __init__(
        self, *, activities: Iterable[Any] | None = None, schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[[profile], Any] | None = None, **options: Any,
    ):  # fmt: skip
        self._schedule, self._on_trace_ready = schedule, on_trace_ready
        self.step_num = 0
        self._recorder = Recorder()

    def start(self) -> None:
        """Begins to record, if the schedule says so."""
        self._recorder.is_on = self._schedule is None or self._action().value >= ProfilerAction.RECORD.value
        self._recorder.install()

    def _action(self) -> ProfilerAction:
        return ProfilerAction.RECORD if self._schedule is None else self._schedule(self.step_num)

    def step(self) -> None:
        """Ends a step of the schedule."""
        ended = self._action()
        self.step_num += 1
        if ended is ProfilerAction.RECORD_AND_SAVE and self._on_trace_ready is not None:
            self._on_trace_ready(self)
        self._recorder.is_on = self._action().value >= ProfilerAction.RECORD.value

    def stop(self) -> None:
        """Ends recording."""
        self._recorder.remove()
        if self._schedule is None and self._on_trace_ready is not None:
            self._on_trace_ready(self)

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def key_averages(self, *args: Any, **kwargs: Any) -> Any:
        """The ranges by name; .table() prints them."""
        return self._recorder.averages()

    def events(self) -> list:
        """The ranges, in order."""
        return self._recorder.events

    def export_chrome_trace(self, path: str) -> None:
        """Writes the ranges for a browser's trace viewer."""
        with open(path, "w") as file:
            json.dump({"traceEvents": [e.as_trace() for e in self._recorder.events]}, file)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Refused: stacks are not recorded."""
        raise NotImplementedError("[profile.export_stacks] stacks are not recorded in tocha")

    def export_memory_timeline(self, path: str, device: str | None = None) -> None:
        """Refused: memory is not recorded."""
        raise NotImplementedError("[profile.export_memory_timeline] memory is not recorded in tocha")


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False
) -> Callable[[profile], None]:
    """Writes a trace into a folder each time one is ready."""
    import os
    import time

    def handle(made: profile) -> None:
        os.makedirs(dir_name, exist_ok=True)
        made.export_chrome_trace(os.path.join(dir_name, f"{worker_name or 'tocha'}.{time.time_ns()}.pt.trace.json"))

    return handle
