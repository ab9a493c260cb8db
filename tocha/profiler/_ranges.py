"""Ranges of a program marked by record_function, and who times them."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass
class Range:
    """One marked range: its name, and begin and end in nanoseconds."""

    name: str
    begin: int
    end: int

    @property
    def key(self) -> str:
        return self.name

    @property
    def cpu_time_total(self) -> float:
        """Microseconds."""
        return (self.end - self.begin) / 1e3

    def as_trace(self) -> dict[str, Any]:
        return {"name": self.name, "ph": "X", "ts": self.begin / 1e3, "dur": self.cpu_time_total, "pid": 0, "tid": 0}


@dataclass
class Average:
    """The ranges of one name."""

    key: str
    count: int
    cpu_time_total: float

    @property
    def cpu_time(self) -> float:
        return self.cpu_time_total / self.count


class Averages(list):
    """What key_averages returns."""

    def table(self, sort_by: str | None = None, row_limit: int = 100, **options: Any) -> str:
        """The averages as text."""
        rows = sorted(self, key=lambda a: -a.cpu_time_total) if sort_by else list(self)
        lines = [
            f"{a.key:<40} {a.cpu_time_total:>14.1f} {a.count:>8}" for a in rows[: row_limit if row_limit >= 0 else None]
        ]
        return "\n".join([f"{'Name':<40} {'CPU total us':>14} {'Calls':>8}", *lines])

    def total_average(self) -> Average:
        return Average("Total", max(1, sum(a.count for a in self)), sum(a.cpu_time_total for a in self))


_recorders: list[Recorder] = []


class Recorder:
    """Keeps the ranges that end while it is on."""

    def __init__(self) -> None:
        self.events: list[Range] = []
        self.is_on = False

    def install(self) -> None:
        _recorders.append(self)

    def remove(self) -> None:
        if self in _recorders:
            _recorders.remove(self)

    def averages(self) -> Averages:
        found: dict[str, Average] = {}
        for event in self.events:
            average = found.setdefault(event.name, Average(event.name, 0, 0.0))
            average.count += 1
            average.cpu_time_total += event.cpu_time_total
        return Averages(found.values())


class record_function:
    """Marks a range of a program by a name; a context, or a decorator."""

    def __init__(self, name: str, args: str | None = None):
        self.name, self.args = name, args

    def __enter__(self) -> record_function:
        self._begin = time.perf_counter_ns() if _recorders else 0
        return self

    def __exit__(self, *exception: object) -> None:
        if _recorders and self._begin:
            done = Range(self.name, self._begin, time.perf_counter_ns())
            for recorder in _recorders:
                if recorder.is_on:
                    recorder.events.append(done)

    def __call__(self, function: Callable) -> Callable:
        @functools.wraps(function)
        def marked(*args: Any, **kwargs: Any) -> Any:
            with record_function(self.name, self.args):
                return function(*args, **kwargs)

        return marked
