"""What memory was for, over the time that a profiler recorded: parameters, gradients, the optimizer's state, activations."""

from __future__ import annotations

import enum
import gc
import gzip
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tocha import _C, nn
from tocha.optim import optimizer as optim
from tocha.profiler._events import EventList, FunctionEvent


class Category(enum.Enum):
    INPUT = enum.auto()
    TEMPORARY = enum.auto()
    ACTIVATION = enum.auto()
    GRADIENT = enum.auto()
    AUTOGRAD_DETAIL = enum.auto()
    PARAMETER = enum.auto()
    OPTIMIZER_STATE = enum.auto()


class Action(enum.Enum):
    PREEXISTING = enum.auto()
    CREATE = enum.auto()
    INCREMENT_VERSION = enum.auto()
    DESTROY = enum.auto()


# PyTorch's order of columns.
COLUMNS = [
    Category.PARAMETER, Category.OPTIMIZER_STATE, Category.INPUT, Category.TEMPORARY, Category.ACTIVATION, Category.GRADIENT,
    Category.AUTOGRAD_DETAIL, None,
]  # fmt: skip


@dataclass
class Known:
    """A block of memory that something was seen to hold: what it is for, and its name."""

    bytes: int
    category: Category
    name: str


def place_of(t: Any) -> tuple[int, int]:
    """Where a tensor's storage lies and how long it is; (0, 0) where it has none, as parameters of lazy modules."""
    try:
        storage = t.untyped_storage()
        return storage.data_ptr(), storage.nbytes()
    except (RuntimeError, NotImplementedError, ValueError):
        return 0, 0


def modules_by_path(objects: list[Any] | None = None) -> Iterator[tuple[str, nn.Module]]:
    """All modules that are alive, from those that no other module holds: "Net", "Net.layer", ..."""
    found = (o for o in objects or gc.get_objects() if issubclass(type(o), nn.Module))
    modules = [
        m for m in found if "_orig_mod" not in m.__dict__.get("_modules", ("_orig_mod",))
    ]  # not what compile() wraps around
    inside = {id(child) for m in modules for child in m._modules.values()}
    for root in sorted(modules, key=lambda m: id(m) in inside):
        yield from root.named_modules(prefix=type(root).__name__)


class Holders:
    """Blocks by the place where they lie."""

    def __init__(self) -> None:
        self.found: dict[int, Known] = {}
        self.names: dict[int, str] = {}  # of parameters

    def note(self, t: Any, category: Category, name: str) -> None:
        if isinstance(t, _C.Tensor) and t.device.type == "cpu":
            place, nbytes = place_of(t)
            if place and nbytes:
                self.found.setdefault(place, Known(nbytes, category, name))

    def note_module(self, path: str, module: nn.Module) -> None:
        for name, p in module._parameters.items():
            if p is not None:
                shown = self.names.setdefault(id(p), f"{path}.{name}")
                self.note(p, Category.PARAMETER, shown)
                self.note(p.grad, Category.GRADIENT, f"{shown}.grad")
        for name, b in module._buffers.items():
            self.note(b, Category.PARAMETER, f"{path}.{name}")

    def note_optimizer(self, o: optim.Optimizer) -> None:
        for p in (p for group in o.param_groups for p in group["params"]):
            shown = self.names.get(id(p), "parameter")
            self.note(p, Category.PARAMETER, shown)
            self.note(p.grad, Category.GRADIENT, f"{shown}.grad")
        for p, state in o.state.items():
            for key, value in state.items() if isinstance(state, dict) else ():
                self.note(value, Category.OPTIMIZER_STATE, f"{type(o).__name__}.{key} of {self.names.get(id(p), 'parameter')}")  # fmt: skip


def all_holders(inputs: bool = False) -> Holders:
    """The memory of all modules' parameters, their gradients and buffers, and of optimizers' state, with names; with `inputs`, that
    of all other tensors too."""
    made, objects = Holders(), gc.get_objects()
    for path, module in modules_by_path(objects):
        made.note_module(path, module)
    for o in objects:
        if issubclass(type(o), optim.Optimizer):
            made.note_optimizer(o)
    for o in objects if inputs else ():
        if issubclass(type(o), _C.Tensor):
            made.note(o, Category.INPUT, "")
    return made


def holders() -> dict[int, Known]:
    return all_holders().found


class Watch:
    """While a profiler records memory: who holds what before, at every step of an optimizer, and after."""

    def __init__(self) -> None:
        self.names: dict[int, str] = {}
        self.before: dict[int, Known] = {}
        self.seen: list[tuple[float, dict[int, Known]]] = []
        self.hooks: list[Any] = []

    def add(self, found: Holders) -> None:
        self.names.update(found.names)
        self.seen.append((time.monotonic_ns() / 1e3, found.found))

    def look(self, optimizer: optim.Optimizer, *_: Any) -> None:
        """Gradients are there before a step and often not afterwards; state is there after the first."""
        found = Holders()
        found.names = self.names
        found.note_optimizer(optimizer)
        self.add(found)

    def start(self) -> None:
        self.add(all_holders(inputs=True))
        self.before = self.seen[-1][1]
        self.hooks = [
            optim.register_optimizer_step_pre_hook(self.look),
            optim.register_optimizer_step_post_hook(self.look),
        ]

    def stop(self) -> None:
        for hook in self.hooks:
            hook.remove()
        self.hooks = []
        self.add(all_holders())


@dataclass
class Held:
    """A block from when it was taken (None: before) until it was given back (None: it was not)."""

    place: int
    bytes: int
    begin: float | None
    end: float | None = None
    event: FunctionEvent | None = None
    ended_in: int = -1
    category: Category | None = None
    name: str = ""


class MemoryProfile:
    """The blocks of a recording, each with what it was for."""

    def __init__(self, events: EventList, watch: Watch) -> None:
        self.blocks: list[Held] = []
        by_id = {e.id: e for e in events}
        open_: dict[int, Held] = {}

        def add(block: Held) -> None:
            self.blocks.append(block)
            open_[block.place] = block

        for place, known in watch.before.items():
            add(Held(place, known.bytes, None, category=known.category, name=known.name))
        for m in events.memory:
            if m.bytes > 0:
                add(Held(m.place, m.bytes, m.time, event=by_id.get(m.event)))
            else:
                if m.place not in open_:  # held before, by nobody that we know
                    add(Held(m.place, -m.bytes, None, category=Category.INPUT))
                block = open_.pop(m.place)
                block.end, block.ended_in = m.time, m.event
        for block in self.blocks:
            if block.category is None:
                self._categorize(block, watch)

    @staticmethod
    def _categorize(block: Held, watch: Watch) -> None:
        assert block.begin is not None
        for at, seen in watch.seen:
            if block.begin <= at and (block.end is None or at < block.end) and (known := seen.get(block.place)):
                block.category, block.name = known.category, known.name
                return
        event = block.event
        if event is None:
            return
        inside = [event, *event.above()]
        if block.ended_in == event.id:
            block.category = Category.TEMPORARY
        elif any(e.kind == "node" for e in inside):
            block.category = Category.AUTOGRAD_DETAIL
        elif any(e.kind == "mark" and e.name.startswith("Optimizer.") for e in inside):
            block.category = Category.TEMPORARY
        else:
            block.category = Category.ACTIVATION

    @property
    def timeline(self) -> list[tuple[int, Action, tuple[Held, int], int]]:
        """(nanoseconds of the world's clock, action, (block, version), bytes), in order."""
        epoch = time.time_ns() - time.monotonic_ns()

        def steps() -> Iterator[tuple[int, Action, tuple[Held, int], int]]:
            for b in self.blocks:
                began = Action.PREEXISTING if b.begin is None else Action.CREATE
                yield -1 if b.begin is None else epoch + int(b.begin * 1e3), began, (b, 0), b.bytes
                if b.end is not None:
                    yield epoch + int(b.end * 1e3), Action.DESTROY, (b, 0), b.bytes

        return sorted(steps(), key=lambda s: (s[0], s[1].value))

    def sums(self) -> tuple[list[int], list[list[int]]]:
        """Microseconds, and bytes in use then: 0, then by category (COLUMNS)."""
        times: list[int] = []
        sizes: list[list[int]] = []
        now = [0] * (len(COLUMNS) + 1)
        steps = self.timeline
        first = min((t for t, *_ in steps if t >= 0), default=0)
        for t, action, (block, _), nbytes in steps:
            now[COLUMNS.index(block.category) + 1] += -nbytes if action is Action.DESTROY else nbytes
            at = (first if t < 0 else t) // 1000
            if times and action is Action.PREEXISTING:
                times.pop(), sizes.pop()
            times.append(at)
            sizes.append(list(now))
        return times, sizes

    def as_page(self) -> dict[str, Any]:
        """For the page of who holds what (tocha/compiler/_report/memory.py)."""
        first = min((b.begin for b in self.blocks if b.begin is not None), default=0.0)
        rows = []
        for b in self.blocks:
            ranges = [b.event, *b.event.above()] if b.event else []
            ops = [e for e in ranges if e.kind in ("op", "node", "kernel")]
            rows.append(
                {
                    "begin": None if b.begin is None else b.begin - first, "end": None if b.end is None else b.end - first, "bytes": b.bytes,
                    "operator": ops[0].name if ops else "", "ranges": [e.name for e in ranges if e.kind in ("mark", "node")], "modules": [],
                    "lines": next((e.stack for e in ranges if e.stack), []), "name": b.name, "category": b.category.name if b.category else "",
                }
            )  # fmt: skip
        return {"title": "Memory while it was profiled", "blocks": rows}


def export(profile: MemoryProfile, path: str, page: Any) -> None:
    """.html: the page. .json, .json.gz: [times, sizes by category]. .raw.json.gz: [nanoseconds, action, bytes, category] of each."""
    if path.endswith(".html"):
        page(profile.as_page(), path)
        return
    if path.endswith("raw.json.gz"):
        data: Any = [
            [t, action.value, -n if action is Action.DESTROY else n, COLUMNS.index(block.category)]
            for t, action, (block, _), n in profile.timeline
        ]
    else:
        data = list(profile.sums())
    if path.endswith(".gz"):
        with gzip.open(path, "wt") as packed:
            json.dump(data, packed)
    else:
        with open(path, "w") as file:
            json.dump(data, file)
