"""Ranges that programs mark, and the events that a profiler has recorded: as a list, by name, as a table, as a trace."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tocha import _C
from tocha.utils.flop_counter import flops_of


class record_function:
    """Marks a range of a program by a name; a context, or a decorator."""

    def __init__(self, name: str, args: str | None = None):
        self.name, self.args = name, args
        self._open = False

    def __enter__(self) -> record_function:
        self._open = _C._profiler_is_recording()
        if self._open:
            _C._profiler_push(self.name)
        return self

    def __exit__(self, *exception: object) -> None:
        if self._open:
            _C._profiler_pop()
            self._open = False

    def __call__(self, function: Callable) -> Callable:
        @functools.wraps(function)
        def marked(*args: Any, **kwargs: Any) -> Any:
            with record_function(self.name, self.args):
                return function(*args, **kwargs)

        return marked


@dataclass
class Interval:
    """Begin and end in microseconds."""

    start: float
    end: float

    def elapsed_us(self) -> float:
        return self.end - self.start


@dataclass(eq=False)
class FunctionEvent:
    """An operator, a backward node, a kernel of a compiled graph, or a range that the program marked."""

    id: int
    name: str
    kind: str  # op, node, kernel, mark
    time_range: Interval
    thread: int
    input_shapes: list[list[int]] = field(default_factory=list)
    stack: list[str] = field(default_factory=list)
    cpu_parent: FunctionEvent | None = None
    cpu_children: list[FunctionEvent] = field(default_factory=list)
    self_cpu_memory_usage: int = 0
    count: int = 1
    is_async: bool = False

    @property
    def key(self) -> str:
        return self.name

    @property
    def cpu_time_total(self) -> float:
        """Microseconds."""
        return self.time_range.elapsed_us()

    cpu_time = cpu_time_total

    @property
    def self_cpu_time_total(self) -> float:
        return self.cpu_time_total - sum(c.cpu_time_total for c in self.cpu_children)

    @property
    def cpu_memory_usage(self) -> int:
        return self.self_cpu_memory_usage + sum(c.cpu_memory_usage for c in self.cpu_children)

    @property
    def flops(self) -> int:
        return flops_of(self.name, self.input_shapes) if self.input_shapes else 0

    def as_trace(self, offset: float) -> dict[str, Any]:
        kinds = {"op": "cpu_op", "node": "cpu_op", "kernel": "kernel", "mark": "user_annotation"}
        shown: dict[str, Any] = {"Input Dims": self.input_shapes} if self.input_shapes else {}
        if self.stack:
            shown["Call stack"] = ";".join(self.stack)
        return {
            "ph": "X", "cat": kinds[self.kind], "name": self.name, "pid": 0, "tid": self.thread & 0xFFFFFFFF,
            "ts": self.time_range.start - offset, "dur": self.cpu_time_total, "args": {"External id": self.id, **shown},
        }  # fmt: skip


@dataclass
class MemoryEvent:
    """Bytes that were taken (or given back), and how many were in use then."""

    time: float
    bytes: int
    in_use: int
    event: int  # in which it happened, or -1


@dataclass
class FunctionEventAvg:
    """The events of one key."""

    key: str
    count: int = 0
    cpu_time_total: float = 0.0
    self_cpu_time_total: float = 0.0
    cpu_memory_usage: int = 0
    self_cpu_memory_usage: int = 0
    input_shapes: list[list[int]] = field(default_factory=list)
    stack: list[str] = field(default_factory=list)
    flops: int = 0

    @property
    def cpu_time(self) -> float:
        return self.cpu_time_total / max(1, self.count)

    def add(self, e: FunctionEvent, nested: bool) -> None:
        """`nested`: inside another event of the same name, which has counted its time."""
        self.count += 1
        self.self_cpu_time_total += e.self_cpu_time_total
        self.self_cpu_memory_usage += e.self_cpu_memory_usage
        self.flops += e.flops
        if not nested:
            self.cpu_time_total += e.cpu_time_total
            self.cpu_memory_usage += e.cpu_memory_usage


def shown_time(us: float) -> str:
    return f"{us / 1e6:.3f}s" if us >= 1e6 else f"{us / 1e3:.3f}ms" if us >= 1e3 else f"{us:.3f}us"


def shown_memory(n: int) -> str:
    for unit, size in (("Gb", 1 << 30), ("Mb", 1 << 20), ("Kb", 1 << 10)):
        if abs(n) >= size:
            return f"{n / size:.2f} {unit}"
    return f"{n} b"


class EventList(list):
    """Events, or averages of them."""

    memory: list[MemoryEvent]

    def __init__(self, events: Iterable[Any] = (), *, profile_memory: bool = False, with_flops: bool = False) -> None:
        super().__init__(events)
        self.profile_memory, self.with_flops = profile_memory, with_flops
        self.memory = []

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0) -> EventList:
        found: dict[tuple, FunctionEventAvg] = {}
        for e in self:
            shapes = e.input_shapes if group_by_input_shape else []
            stack = e.stack[:group_by_stack_n]
            key = (e.name, str(shapes), tuple(stack))
            average = found.setdefault(key, FunctionEventAvg(e.name, input_shapes=shapes, stack=stack))
            average.add(e, has_above(e, e.name))
        return EventList(found.values(), profile_memory=self.profile_memory, with_flops=self.with_flops)

    def total_average(self) -> FunctionEventAvg:
        total = FunctionEventAvg("Total")
        for e in self:
            total.count += e.count
            total.self_cpu_time_total += e.self_cpu_time_total
            total.cpu_time_total += e.self_cpu_time_total
            total.self_cpu_memory_usage += e.self_cpu_memory_usage
        return total

    @property
    def self_cpu_time_total(self) -> float:
        return sum(e.self_cpu_time_total for e in self)

    def table(
        self, sort_by: str | None = None, row_limit: int = 100, max_src_column_width: int = 75, max_name_column_width: int = 55,
        max_shapes_column_width: int = 80, header: str | None = None, top_level_events_only: bool = False, **_: Any,
    ) -> str:  # fmt: skip
        """As text, in PyTorch's columns."""
        rows = list(self)
        if sort_by is not None:
            by = sort_by.removeprefix("device_") if not rows or not hasattr(rows[0], sort_by) else sort_by
            rows.sort(key=lambda e: -getattr(e, by, 0))
        if top_level_events_only:
            rows = [e for e in rows if getattr(e, "cpu_parent", None) is None]
        rows = rows[:row_limit] if row_limit >= 0 else rows
        total = max(self.self_cpu_time_total, 1e-9)
        columns: list[tuple[str, Callable[[Any], str]]] = [
            (
                "Name",
                lambda e: e.key if len(e.key) <= max_name_column_width else e.key[: max_name_column_width - 3] + "...",
            ),
            ("Self CPU %", lambda e: f"{100 * e.self_cpu_time_total / total:.2f}%"),
            ("Self CPU", lambda e: shown_time(e.self_cpu_time_total)),
            ("CPU total %", lambda e: f"{100 * e.cpu_time_total / total:.2f}%"),
            ("CPU total", lambda e: shown_time(e.cpu_time_total)),
            ("CPU time avg", lambda e: shown_time(e.cpu_time_total / max(1, e.count))),
        ]
        if self.profile_memory:
            columns += [("CPU Mem", lambda e: shown_memory(e.cpu_memory_usage)), ("Self CPU Mem", lambda e: shown_memory(e.self_cpu_memory_usage))]  # fmt: skip
        columns.append(("# of Calls", lambda e: str(e.count)))
        if any(e.input_shapes for e in rows):
            columns.append(("Input Shapes", lambda e: str(e.input_shapes)[:max_shapes_column_width]))
        if any(e.stack for e in rows):
            columns.append(("Source Location", lambda e: (e.stack[0] if e.stack else "")[:max_src_column_width]))
        if self.with_flops:
            columns.append(("Total FLOPs", lambda e: str(e.flops) if e.flops else "--"))
        text = [[title for title, _ in columns], *([show(e) for _, show in columns] for e in rows)]
        widths = [max(len(r[i]) for r in text) + 2 for i in range(len(columns))]
        line = "  ".join("-" * w for w in widths)
        shown = ["  ".join(c.rjust(w) for c, w in zip(r, widths)) for r in text]
        head = [header, line] if header else [line]
        return "\n".join([*head, shown[0], line, *shown[1:], line, f"Self CPU time total: {shown_time(total)}", ""])

    def export_chrome_trace(self, path: str) -> None:
        """For chrome://tracing and Perfetto: times in microseconds from the first event."""
        first = min((e.time_range.start for e in self), default=0.0)
        rows = [e.as_trace(first) for e in self]
        rows += [{"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]", "pid": 0, "tid": 0, "ts": m.time - first, "args": {"Bytes": m.bytes, "Total Allocated": m.in_use}} for m in self.memory]  # fmt: skip
        names = [{"ph": "M", "name": "process_name", "pid": 0, "tid": 0, "args": {"name": "tocha"}}]
        with open(path, "w") as file:
            json.dump({"schemaVersion": 1, "displayTimeUnit": "ms", "traceEvents": names + rows}, file)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Lines of `outer;inner number`: what makes a flame graph."""
        with open(path, "w") as file:
            for e in self:
                value = int(getattr(e, metric))
                if e.stack and value > 0:
                    frames = ";".join(line.translate(str.maketrans(" ;\t\n", "____")) for line in reversed(e.stack))
                    file.write(f"{frames} {value}\n")


def has_above(e: FunctionEvent, name: str) -> bool:
    above = e.cpu_parent
    while above is not None:
        if above.name == name:
            return True
        above = above.cpu_parent
    return False


def events_of(rows: Sequence[tuple], first_id: int = 0) -> tuple[list[FunctionEvent], list[MemoryEvent]]:
    """What the native recorder gave, as events that know what they lie in."""
    by_row: dict[int, FunctionEvent] = {}
    memory: list[MemoryEvent] = []
    last = max((max(r[2], r[3]) for r in rows), default=0)
    for i, (name, kind, begin, end, thread, parent, nbytes, in_use, sizes, stack) in enumerate(rows):
        above = by_row.get(parent)
        if kind == "memory":
            memory.append(MemoryEvent(begin / 1e3, nbytes, in_use, above.id if above else -1))
            if above is not None:
                above.self_cpu_memory_usage += nbytes
            continue
        made = FunctionEvent(first_id + i, name, kind, Interval(begin / 1e3, (end or last) / 1e3), thread, sizes, stack, above)  # fmt: skip
        if above is not None:
            above.cpu_children.append(made)
        by_row[i] = made
    return list(by_row.values()), memory
