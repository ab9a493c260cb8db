"""Where a program spends its time: operators, backward nodes, kernels of compiled graphs, marked ranges, memory, stacks.

>>> import tocha
>>> with profile() as p:
...     with record_function("work"):
...         _ = tocha.ones(2) + 1
>>> [e.key for e in p.key_averages() if e.key != "aten::ones"]
['work', 'aten::add']
"""

from __future__ import annotations

import enum
import gzip
import json
import shutil
from collections.abc import Callable, Iterable
from typing import Any

from tocha._logging import recording
from tocha.profiler._ranges import EventList, events_of, record_function

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
    """Whether traces are made by Kineto: they are not, but by tocha itself."""
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
    """Records while it is on, or at the steps that a schedule names."""

    def __init__(
        self, *, activities: Iterable[Any] | None = None, schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[[profile], Any] | None = None, record_shapes: bool = False, profile_memory: bool = False,
        with_stack: bool = False, with_flops: bool = False, with_modules: bool = False, experimental_config: Any = None,
        execution_trace_observer: Any = None, acc_events: bool = False, use_cuda: bool | None = None, **_: Any,
    ):  # fmt: skip
        self._schedule, self._on_trace_ready = schedule, on_trace_ready
        self._memory, self._stack, self._flops, self._accumulates = profile_memory, with_stack, with_flops, acc_events
        self._shapes = record_shapes or with_flops
        self.step_num = 0
        self._events = EventList(profile_memory=profile_memory, with_flops=with_flops)
        self._metadata: dict[str, Any] = {}
        self._on = False
        self._step_range: record_function | None = None

    def _action(self) -> ProfilerAction:
        return ProfilerAction.RECORD if self._schedule is None else self._schedule(self.step_num)

    def _begin(self) -> None:
        if not self._on:
            self._on = recording.take(
                self, operators=True, memory=self._memory, sizes=self._shapes, stacks=self._stack, by_force=True
            )
        if self._schedule is not None:
            self._step_range = record_function(f"ProfilerStep#{self.step_num}").__enter__()

    def _collect(self) -> None:
        """What was recorded since it began; of several cycles the last."""
        self._leave_step()
        if not self._on:
            return
        self._on = False
        kept = self._events if self._accumulates else []
        found, memory = events_of(recording.give(self), len(kept))
        before = self._events.memory if self._accumulates else []
        self._events = EventList([*kept, *found], profile_memory=self._memory, with_flops=self._flops)
        self._events.memory = before + memory

    def _leave_step(self) -> None:
        if self._step_range is not None:
            self._step_range.__exit__()
            self._step_range = None

    def start(self) -> None:
        """Begins to record, if the schedule says so."""
        if self._action().value >= ProfilerAction.RECORD.value:
            self._begin()

    def step(self) -> None:
        """Ends a step of the schedule."""
        ended = self._action()
        self._leave_step()
        if ended is ProfilerAction.RECORD_AND_SAVE:
            self._collect()
            if self._on_trace_ready is not None:
                self._on_trace_ready(self)
        self.step_num += 1
        if self._action().value >= ProfilerAction.RECORD.value:
            self._begin()

    def stop(self) -> None:
        """Ends recording."""
        was_on = self._on
        self._collect()
        if was_on and self._on_trace_ready is not None:
            self._on_trace_ready(self)

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0, **_: Any) -> EventList:
        """The events by name, and by shapes or lines if wanted; .table() prints them."""
        return self._events.key_averages(group_by_input_shape, group_by_stack_n)

    def events(self) -> EventList:
        """All events, in order."""
        return self._events

    def add_metadata(self, key: str, value: str) -> None:
        """A text that goes into the trace."""
        self._metadata[key] = value

    def add_metadata_json(self, key: str, value: str) -> None:
        self._metadata[key] = json.loads(value)

    def export_chrome_trace(self, path: str) -> None:
        """Writes a trace for Perfetto or chrome://tracing; packed, where the name ends in .gz."""
        plain = path.removesuffix(".gz")
        self._events.export_chrome_trace(plain)
        if self._metadata:
            with open(plain) as file:
                whole = {**json.load(file), **self._metadata}
            with open(plain, "w") as file:
                json.dump(whole, file)
        if plain != path:
            with open(plain, "rb") as source, gzip.open(path, "wb") as packed:
                shutil.copyfileobj(source, packed)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Writes stacks with their times, for a flame graph; `with_stack=True` records them."""
        if not self._stack:
            raise RuntimeError("[profile.export_stacks] stacks are not recorded: profile(with_stack=True) does")
        self._events.export_stacks(path, metric)

    def export_memory_timeline(self, path: str, device: str | None = None) -> None:
        """Writes when memory was taken and given back, as JSON: time in microseconds, bytes, bytes in use, event."""
        if not self._memory:
            raise RuntimeError(
                "[profile.export_memory_timeline] memory is not recorded: profile(profile_memory=True) does"
            )
        rows = [[m.time, m.bytes, m.in_use, m.event] for m in self._events.memory]
        with open(path, "w") as file:
            json.dump({"columns": ["us", "bytes", "in_use", "event"], "rows": rows}, file)


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False
) -> Callable[[profile], None]:
    """Writes a trace into a folder each time one is ready."""
    import os
    import time

    def handle(made: profile) -> None:
        os.makedirs(dir_name, exist_ok=True)
        name = f"{worker_name or 'tocha'}.{time.time_ns()}.pt.trace.json{'.gz' if use_gzip else ''}"
        made.export_chrome_trace(os.path.join(dir_name, name))

    return handle
