"""What a profiler has recorded: events that know what they lie in, by name, and as a list."""

from __future__ import annotations

import bisect
import os
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tocha.autograd import _record_function
from tocha.profiler import _table, _trace
from tocha.utils.flop_counter import flops_of

SCOPES = {"node": 1, "mark": 7}  # PyTorch's numbers of record scopes; others are 0
_MODULE = re.compile(r"nn\.Module: (\S+) (\d+)$")


@dataclass
class Interval:
    """Begin and end in microseconds."""

    start: float
    end: float

    def elapsed_us(self) -> float:
        return self.end - self.start


@dataclass
class Input:
    """An argument of an operator; `shapes` and `strides` of each tensor in it."""

    type: str
    is_list: bool
    shapes: list[list[int]]
    strides: list[list[int]]
    text: str

    @property
    def dims(self) -> list:
        return self.shapes if self.is_list else self.shapes[0] if self.shapes else []

    @property
    def steps(self) -> list:
        return self.strides if self.is_list else self.strides[0] if self.strides else []


class Times:
    """What events and averages of them have in common: their times as text, and nothing on other devices."""

    cpu_time: Any
    cpu_time_total: Any
    self_cpu_time_total: Any
    use_device: str | None = None
    device_time = device_time_total = self_device_time_total = 0.0
    cuda_time = cuda_time_total = self_cuda_time_total = 0.0
    device_memory_usage = self_device_memory_usage = cuda_memory_usage = self_cuda_memory_usage = 0
    device_index = fwd_thread = 0
    node_id, overload_name = -1, ""
    is_async = is_remote = is_legacy = False

    @property
    def cpu_time_str(self) -> str:
        return _table.shown_time(self.cpu_time)

    @property
    def cpu_time_total_str(self) -> str:
        return _table.shown_time(self.cpu_time_total)

    @property
    def self_cpu_time_total_str(self) -> str:
        return _table.shown_time(self.self_cpu_time_total)

    device_time_str = device_time_total_str = self_device_time_total_str = "0.000us"


@dataclass(eq=False, repr=False)
class FunctionEvent(Times):
    """An operator, a backward node, a kernel of a compiled graph, a range that the program marked, or a Python function."""

    id: int
    name: str
    kind: str  # op, node, kernel, mark, python, memory
    time_range: Interval
    thread: int
    sequence_nr: int = -1
    inputs: list[Input] = field(default_factory=list)
    stack: list[str] = field(default_factory=list)
    cpu_parent: FunctionEvent | None = None
    cpu_children: list[FunctionEvent] = field(default_factory=list)
    self_cpu_memory_usage: int = 0
    count: int = 1

    @property
    def key(self) -> str:
        return self.name

    trace_name = key

    @property
    def scope(self) -> int:
        return SCOPES.get(self.kind, 0)

    @property
    def is_user_annotation(self) -> bool:
        return self.kind == "mark"

    @property
    def is_python_function(self) -> bool:
        return self.kind == "python"

    @property
    def input_shapes(self) -> list[list[int]]:
        """One list for each argument, empty where it is no tensor."""
        return [[] if i.is_list else i.dims for i in self.inputs]

    @property
    def structured_input_shapes(self) -> list[list]:
        """Likewise, with lists of tensors as lists."""
        return [i.dims for i in self.inputs]

    @property
    def structured_input_strides(self) -> list[list]:
        return [i.steps for i in self.inputs]

    @property
    def input_dtypes(self) -> list[str]:
        return [i.type for i in self.inputs]

    @property
    def concrete_inputs(self) -> list[Any]:
        return [i.text if i.type.startswith("Scalar") else None for i in self.inputs]

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
        """Of the operator itself; 0 where the operators in it are counted."""
        if not self.inputs or any(c.flops for c in self.cpu_children):
            return 0
        return flops_of(self.name, [s for i in self.inputs for s in i.shapes], [i.text for i in self.inputs])

    @property
    def kernels(self) -> list[Any]:
        """On other devices: none."""
        return []

    def above(self) -> Iterable[FunctionEvent]:
        """What it lies in, innermost first."""
        e = self.cpu_parent
        while e is not None:
            yield e
            e = e.cpu_parent

    def __repr__(self) -> str:
        return (
            f"<FunctionEvent id={self.id} name={self.name} overload_name= device_type=DeviceType.CPU node_id=-1 cpu_time={self.cpu_time_str} "
            f"start_us={self.time_range.start} end_us={self.time_range.end} cpu_children={[c.id for c in self.cpu_children]} "
            f"thread={self.thread} input_shapes={self.input_shapes} cpu_memory_usage={self.cpu_memory_usage} is_async=False is_remote=False "
            f"seq_nr={self.sequence_nr} is_legacy=False>"
        )


@dataclass
class MemoryEvent:
    """Bytes that were taken (or given back), and how many were in use then."""

    time: float
    bytes: int
    in_use: int
    event: int  # in which it happened, or -1
    place: int = 0
    thread: int = 0


@dataclass(repr=False)
class FunctionEventAvg(Times):
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
    is_user_annotation: bool = False
    scope: int = 0
    cpu_parent: FunctionEvent | None = None

    @property
    def cpu_time(self) -> float:
        return self.cpu_time_total / self.count if self.count else 0.0

    def add(self, e: FunctionEvent) -> None:
        self.count += 1
        self.self_cpu_time_total += e.self_cpu_time_total
        self.self_cpu_memory_usage += e.self_cpu_memory_usage
        self.flops += e.flops
        if not any(a.name == e.name for a in e.above()):  # what it lies in has counted its time
            self.cpu_time_total += e.cpu_time_total
            self.cpu_memory_usage += e.cpu_memory_usage

    def __repr__(self) -> str:
        return (
            f"<FunctionEventAvg key={self.key} self_cpu_time={self.self_cpu_time_total_str} cpu_time={self.cpu_time_str}  "
            f"self_cuda_time=0.000us cuda_time=0.000us input_shapes={self.input_shapes or ''} cpu_memory_usage={self.cpu_memory_usage} "
            "cuda_memory_usage=0>"
        )


class EventList(list):
    """Events, or averages of them."""

    memory: list[MemoryEvent]

    def __init__(self, events: Iterable[Any] = (), *, profile_memory: bool = False, with_flops: bool = False) -> None:
        super().__init__(events)
        self.profile_memory, self.with_flops = profile_memory, with_flops
        self.memory = []

    def __str__(self) -> str:
        return self.table()

    def key_averages(self, group_by_input_shapes: bool = False, group_by_stack_n: int = 0, group_by_overload_name: bool = False) -> EventList:  # fmt: skip
        found: dict[tuple, FunctionEventAvg] = {}
        for e in self:
            shapes = e.input_shapes if group_by_input_shapes else []
            stack = e.stack[:group_by_stack_n]
            key = (e.name, str(shapes), tuple(stack))
            if key not in found:
                found[key] = FunctionEventAvg(e.name, input_shapes=shapes, stack=stack, is_user_annotation=e.kind == "mark", scope=e.scope, cpu_parent=e.cpu_parent)  # fmt: skip
            found[key].add(e)
        return EventList(found.values(), profile_memory=self.profile_memory, with_flops=self.with_flops)

    def total_average(self) -> FunctionEventAvg:
        total = FunctionEventAvg("Total")
        for e in self:
            total.count += e.count
            total.self_cpu_time_total += e.self_cpu_time_total
            total.cpu_time_total += e.self_cpu_time_total
            total.self_cpu_memory_usage += e.self_cpu_memory_usage
            total.cpu_memory_usage += e.self_cpu_memory_usage
        return total

    @property
    def self_cpu_time_total(self) -> float:
        return sum(e.self_cpu_time_total for e in self)

    def table(
        self, sort_by: str | None = None, row_limit: int = 100, max_src_column_width: int = 75, max_name_column_width: int = 55,
        max_shapes_column_width: int = 80, header: str | None = None, top_level_events_only: bool = False, time_unit: str | None = None,
    ) -> str:  # fmt: skip
        """As text, in PyTorch's columns; `sort_by` is one of the figures, or "key"."""
        return _table.table(self, sort_by, row_limit, max_src_column_width, max_name_column_width, max_shapes_column_width, header, top_level_events_only, time_unit)  # fmt: skip

    def export_chrome_trace(self, path: str, metadata: dict[str, Any] | None = None) -> None:
        """For Perfetto and chrome://tracing."""
        _trace.write(self, path, metadata or {})

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Lines of `outer;inner number`: what makes a flame graph."""
        _trace.write_stacks(self, path, metric)


def short(file: str) -> str:
    """As an import would find it."""
    inside = [p for p in sys.path if p and file.startswith(p.rstrip("/") + "/")]
    return file[len(max(inside, key=len).rstrip("/")) + 1 :] if inside else file


class Names:
    """Python functions by short paths, modules numbered by class, as they came."""

    def __init__(self) -> None:
        self.known: dict[str, str] = {}
        self.count: dict[str, int] = {}

    def of(self, name: str) -> str:
        if name not in self.known:
            if found := _MODULE.match(name):
                kind = found[1]
                self.count[kind] = self.count.get(kind, -1) + 1
                self.known[name] = f"nn.Module: {kind}_{self.count[kind]}"
            else:
                self.known[name] = short(name)
        return self.known[name]


OWN = (str(Path(__file__).parent) + os.sep, str(Path(_record_function.__file__)))


def is_own(name: str) -> bool:
    """Whether a Python function is the profiler's: it shows the program, not itself."""
    return name.startswith(OWN)


def lies_in(above: FunctionEvent | None, end: float) -> FunctionEvent | None:
    """A range may have begun in a function that ended before it: `__enter__` of whoever marks it."""
    while above is not None and above.kind == "python" and above.time_range.end < end:
        above = above.cpu_parent
    return above


def events_of(rows: Sequence[tuple], first_id: int = 0) -> tuple[list[FunctionEvent], list[MemoryEvent]]:
    """What the native recorder gave. Memory that was taken or given back outside of all events is an event of its own."""
    by_row: dict[int, FunctionEvent | None] = {}  # where a row is left out, what it lies in
    memory: list[MemoryEvent] = []
    last = max((max(r[2], r[3]) for r in rows), default=0)
    names = Names()
    made: list[FunctionEvent] = []
    for i, (name, kind, begin, end, thread, parent, sequence, nbytes, in_use, place, inputs, stack) in enumerate(rows):
        time = Interval(begin / 1e3, (end or last) / 1e3)
        above = lies_in(by_row.get(parent), time.end)
        if kind == "memory":
            memory.append(MemoryEvent(time.start, nbytes, in_use, above.id if above else -1, place, thread))
            if above is not None:
                above.self_cpu_memory_usage += nbytes
                continue
        if kind == "python" and (is_own(name) or (name.startswith("<string>") and is_own(rows[parent][0]))):
            by_row[i] = above
            continue
        e = FunctionEvent(
            first_id + i, names.of(name) if kind == "python" else name, kind, time, thread, sequence, [Input(*x) for x in inputs],
            [line for line in stack if not is_own(line)], above, self_cpu_memory_usage=nbytes,
        )  # fmt: skip
        if above is not None:
            above.cpu_children.append(e)
        by_row[i] = e
        made.append(e)
    join_nodes(made)
    return made, memory


def plain(name: str) -> str:
    """What the names of an operator and of its node have in common: aten::add_ and AddBackward0."""
    return re.sub(r"Backward\d*$", "", name.rpartition("::")[2].rpartition(" ")[2]).replace("_", "").lower()


def join_nodes(made: list[FunctionEvent]) -> None:
    """Gives operators the number of the node that they recorded. They come with the number of the next node when they began: some
    record it afterwards, some have done so just before."""
    operators = [e for e in made if e.kind == "op"]
    counts = [e.sequence_nr for e in operators]
    for e in operators:
        e.sequence_nr = -1
    if counts != sorted(counts):  # of several threads
        return
    for node in made:
        if node.kind == "node" and node.sequence_nr >= 0:
            at = bisect.bisect_right(counts, node.sequence_nr)
            near = [e for e in operators[max(0, at - 1) : at + 1] if e.time_range.start < node.time_range.start]
            found = next((e for e in near if plain(e.name) == plain(node.name)), near[0] if near else None)
            if found is not None and found.sequence_nr < 0:
                found.sequence_nr = node.sequence_nr
