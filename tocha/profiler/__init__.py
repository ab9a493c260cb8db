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
import os
import shutil
import socket
import time
import warnings
from collections.abc import Callable, Iterable
from typing import Any

from tocha import _C, nn
from tocha._logging import recording
from tocha.autograd._record_function import record_function
from tocha.compiler._report import memory as _memory_page
from tocha.profiler import _memory_profiler
from tocha.profiler._events import EventList, events_of

__all__ = [
    "ProfilerAction", "ProfilerActivity", "kineto_available", "profile", "record_function", "schedule", "supported_activities",
    "tensorboard_trace_handler",
]  # fmt: skip


class ProfilerActivity(enum.Enum):
    """What is looked at.

    >>> tocha.profiler.ProfilerActivity.CPU in tocha.profiler.supported_activities()
    True
    """

    CPU = 0
    XPU = 1
    CUDA = 2
    HPU = 3
    MTIA = 4
    PrivateUse1 = 5


class ProfilerAction(enum.Enum):
    """What a step is for.

    >>> [action.name for action in tocha.profiler.ProfilerAction]
    ['NONE', 'WARMUP', 'RECORD', 'RECORD_AND_SAVE', 'DEVICE_STOPPED']
    """

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3
    DEVICE_STOPPED = 4


def supported_activities() -> set[ProfilerActivity]:
    """The CPU.

    >>> tocha.profiler.ProfilerActivity.CPU in tocha.profiler.supported_activities()
    True
    """
    return {ProfilerActivity.CPU}


def kineto_available() -> bool:
    """Whether traces can be made, which older programs ask: not by Kineto, but by tocha itself.

    >>> tocha.profiler.kineto_available()
    True
    """
    return True


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0
) -> Callable[[int], ProfilerAction]:
    """Cycles of waiting, warming up and recording.

    >>> plan = schedule(wait=1, warmup=1, active=2, repeat=1)
    >>> [plan(step).name for step in range(5)]
    ['NONE', 'WARMUP', 'RECORD', 'RECORD_AND_SAVE', 'NONE']
    """

    least = {
        "wait": (wait, 0),
        "warmup": (warmup, 0),
        "active": (active, 1),
        "repeat": (repeat, 0),
        "skip_first": (skip_first, 0),
    }
    if any(given < low for given, low in least.values()):
        shown = ", ".join(f"{n}={v} (need {'> 0' if low else '>= 0'})" for n, (v, low) in least.items())
        raise AssertionError(f"Invalid profiler schedule arguments. Got {shown}.")
    if warmup == 0:
        warnings.warn("Profiler won't be using warmup, this can skew profiler results", stacklevel=2)

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


def _on_this_machine(activities: Iterable[Any] | None) -> set[Any]:
    """Those that are asked for; one that this machine has not is left out with a word."""
    if activities is None:
        return supported_activities()
    wanted = {a for given in activities for a in (given if isinstance(given, dict) else [given])}
    if not wanted:
        raise AssertionError("No valid profiler activities found")
    for missing in sorted(wanted - supported_activities(), key=lambda a: a.value):
        warnings.warn(f"{missing.name} is not available, disabling {missing.name} profiling", stacklevel=3)
    return wanted


class profile:
    """Records while it is on, or at the steps that a schedule names.

    >>> with tocha.profiler.profile() as prof:
    ...     _ = tocha.ones(4) + tocha.ones(4)
    >>> any(event.key == "aten::add" for event in prof.key_averages())
    True
    """

    def __init__(
        self, *, activities: Iterable[Any] | None = None, schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[[profile], Any] | None = None, record_shapes: bool = False, profile_memory: bool = False,
        with_stack: bool = False, with_flops: bool = False, with_modules: bool = False, experimental_config: Any = None,
        execution_trace_observer: Any = None, acc_events: bool = False, use_cuda: bool | None = None,
        custom_trace_id_callback: Callable[[], str] | None = None, post_processing_timeout_s: float | None = None,
    ):  # fmt: skip
        if use_cuda is not None:
            warnings.warn("`use_cuda` is deprecated, use `activities` argument instead", FutureWarning, stacklevel=2)
        self.activities = _on_this_machine(activities)
        self.schedule, self.on_trace_ready = schedule, on_trace_ready
        self.record_shapes, self.profile_memory, self.acc_events = (
            record_shapes or with_flops,
            profile_memory,
            acc_events,
        )
        self.with_stack, self.with_flops, self.with_modules = with_stack, with_flops, with_modules
        self.step_num = 0
        self._found: EventList | None = None
        self._watch: _memory_profiler.Watch | None = None
        self._metadata: dict[str, Any] = {}
        self._on = self._started = False
        self._step_range: record_function | None = None

    @property
    def current_action(self) -> ProfilerAction:
        return ProfilerAction.RECORD if self.schedule is None else self.schedule(self.step_num)

    def _begin(self) -> None:
        if not self._on:
            if self.profile_memory and self.record_shapes and self.with_stack:  # what a timeline of memory needs
                self._watch = _memory_profiler.Watch()
                self._watch.start()
            self._on = recording.take(
                self, operators=True, memory=self.profile_memory, sizes=self.record_shapes, stacks=self.with_stack, by_force=True
            )  # fmt: skip
            if self.with_stack or self.with_modules:
                _C._profiler_trace_calls(nn.Module.__call__.__code__)
        if self.schedule is not None:
            self._step_range = record_function(f"ProfilerStep#{self.step_num}").__enter__()

    def _collect(self) -> None:
        """What was recorded since it began; of several cycles the last."""
        self._leave_step()
        if not self._on:
            return
        self._on = False
        if self.with_stack or self.with_modules:
            _C._profiler_trace_calls(None)
        rows = recording.give(self)
        if self._watch is not None:
            self._watch.stop()
        kept = self._found if self.acc_events and self._found is not None else EventList()
        found, memory = events_of(rows, len(kept))
        self._found = EventList([*kept, *found], profile_memory=self.profile_memory, with_flops=self.with_flops)
        self._found.memory = kept.memory + memory

    def _leave_step(self) -> None:
        if self._step_range is not None:
            self._step_range.__exit__()
            self._step_range = None

    def start(self) -> None:
        """Begins to record, if the schedule says so."""
        self._started = True
        if self.current_action.value >= ProfilerAction.RECORD.value:
            self._begin()

    def step(self) -> None:
        """Ends a step of the schedule."""
        ended = self.current_action
        self._leave_step()
        if ended is ProfilerAction.RECORD_AND_SAVE:
            self._collect()
            if self.on_trace_ready is not None:
                self.on_trace_ready(self)
        self.step_num += 1
        if self._started and self.current_action.value >= ProfilerAction.RECORD.value:
            self._begin()

    def stop(self) -> None:
        """Ends recording."""
        if not self._started:
            raise AssertionError("Profiler must be initialized before stopping trace")
        was_on = self._on
        self._collect()
        if self._found is None:
            self._found = EventList(profile_memory=self.profile_memory, with_flops=self.with_flops)
        if was_on and self.on_trace_ready is not None:
            self.on_trace_ready(self)

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def _events(self, purpose: str) -> EventList:
        if self._found is None:
            raise AssertionError(f"Profiler must be initialized before {purpose}")
        return self._found

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0, group_by_overload_name: bool = False) -> EventList:  # fmt: skip
        """The events by name, and by shapes or lines if wanted; .table() prints them."""
        return self._events("getting key averages").key_averages(group_by_input_shape, group_by_stack_n)

    def events(self) -> EventList:
        """All events, in order."""
        return self._events("accessing events")

    def add_metadata(self, key: str, value: str) -> None:
        """A text that goes into the trace."""
        self._metadata[key] = value

    def add_metadata_json(self, key: str, value: str) -> None:
        self._metadata[key] = json.loads(value)

    preset_metadata_json = add_metadata_json

    def export_chrome_trace(self, path: str) -> None:
        """Writes a trace for Perfetto or chrome://tracing; packed, where the name ends in .gz."""
        options = {
            n: 1
            for n in ("profile_memory", "record_shapes", "with_stack", "with_modules", "with_flops")
            if getattr(self, n)
        }
        plain = path.removesuffix(".gz")
        self._events("exporting chrome trace").export_chrome_trace(plain, {**options, **self._metadata})
        if plain != path:
            with open(plain, "rb") as source, gzip.open(path, "wb") as packed:
                shutil.copyfileobj(source, packed)
            os.remove(plain)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Writes stacks with their times, for a flame graph; `with_stack=True` records them."""
        if not self.with_stack:
            raise AssertionError("export_stacks() requires with_stack=True")
        self._events("exporting stacks").export_stacks(path, metric)

    def _memory_profile(self) -> _memory_profiler.MemoryProfile:
        """What memory was for, block by block."""
        for name in ("record_shapes", "profile_memory", "with_stack"):
            if not getattr(self, name):
                raise ValueError(f"{name}=True required for memory profiling.")
        assert self._watch is not None
        return _memory_profiler.MemoryProfile(self._events("looking at memory"), self._watch)

    def export_memory_timeline(self, path: str, device: str | None = None) -> None:
        """Writes what memory was for over time: a page (.html), or data (.json, .json.gz, .raw.json.gz)."""
        if device is not None and not device.startswith("cpu"):
            raise RuntimeError(
                f"[profile.export_memory_timeline] only memory of the CPU is recorded: got device={device!r}"
            )
        _memory_profiler.export(self._memory_profile(), path, _memory_page.write)


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False
) -> Callable[[profile], None]:
    """Writes a trace into a folder each time one is ready.

    >>> import os, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> with tocha.profiler.profile(on_trace_ready=tocha.profiler.tensorboard_trace_handler(folder)):
    ...     _ = tocha.ones(2) + 1
    >>> len(os.listdir(folder))
    1
    """

    def handle(made: profile) -> None:
        os.makedirs(dir_name, exist_ok=True)
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        name = f"{worker}.{time.time_ns()}.pt.trace.json{'.gz' if use_gzip else ''}"
        made.export_chrome_trace(os.path.join(dir_name, name))

    return handle
