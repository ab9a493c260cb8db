"""Events as plain data: a Compilation for each capture. What explain prints, the report shows and the trace counts comes from here."""

from __future__ import annotations

import os
import re
import time
from dataclasses import asdict, dataclass, field
from typing import Any

from tocha._core.on_demand import Later
from tocha._logging import events

json = Later("json")

LIBRARY = os.path.dirname(os.path.dirname(__file__)) + os.sep
_PLACE = re.compile(r'File "(.*)", line (\d+), in (.*)')


@dataclass(eq=False)
class Place:
    """A line of a program."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f'  File "{self.file}", line {self.line}, in {self.function}'


@dataclass(eq=False)
class Break:
    """A graph break: why, where, what helps, and what it costs."""

    reason: str
    number: int
    name: str
    explanation: str
    hint: str
    stack: list[Place]
    calls: int = 0  # operators that run uncaptured for it, where the whole function does
    bytes: int = 0  # values that go through memory at it
    skipped: bool = False  # the function runs uncaptured
    graph_break: bool = True

    @property
    def user_stack(self) -> list[Place]:
        return self.stack

    def cost(self) -> str:
        if self.skipped:
            return f"the function runs uncaptured: {self.calls} operators that were in the graph by then"
        return f"one more graph; {shown_bytes(self.bytes)} of values go through memory"


@dataclass(eq=False, repr=False)
class Guard:
    """What must hold, and why somebody asked."""

    text: str
    kind: str
    why: str


@dataclass(eq=False, repr=False)
class Symbol:
    """A size or number that is not a constant, or was one before something fixed it."""

    name: str
    value: Any
    sources: list[str]
    range: str
    fixed_by: str = ""


@dataclass(eq=False, repr=False)
class GraphNode:
    """A node and its value, as text."""

    name: str
    op: str
    target: str
    inputs: list[str]
    value: str
    bytes: int
    place: Place | None = None


@dataclass(eq=False, repr=False)
class Graph:
    """A graph at one of its stages."""

    stage: str
    code: str
    nodes: list[GraphNode]

    @property
    def calls(self) -> list[GraphNode]:
        return [n for n in self.nodes if n.op.startswith("call_")]


@dataclass(eq=False, repr=False)
class Stage:
    """How long a named piece of work took."""

    name: str
    began: int  # nanoseconds
    ended: int
    depth: int
    thread: int

    @property
    def seconds(self) -> float:
        return (self.ended - self.began) / 1e9


@dataclass(eq=False, repr=False)
class Asked:
    """A question to a cache."""

    kind: str
    hit: bool
    what_changed: str


@dataclass(eq=False, repr=False)
class Compilation:
    """One capture of one function, with everything that became of it."""

    id: str
    function: str
    file: str
    line: int
    began: int
    outcome: str = "under way"
    reason: str = ""
    recompiled: str = ""  # the guard that failed
    breaks: list[Break] = field(default_factory=list)
    guards: list[Guard] = field(default_factory=list)
    symbols: list[Symbol] = field(default_factory=list)
    shape_guards: list[str] = field(default_factory=list)
    graphs: list[Graph] = field(default_factory=list)
    programs: list[dict[str, Any]] = field(default_factory=list)  # tocha._inductor.describe.described
    uncompiled: list[str] = field(default_factory=list)
    stages: list[Stage] = field(default_factory=list)
    cache: list[Asked] = field(default_factory=list)
    operators: list[list[str]] = field(default_factory=list)  # of each captured graph
    guard_count: int = 0

    @property
    def captured(self) -> list[Graph]:
        return [g for g in self.graphs if g.stage == "captured"]

    @property
    def kernels(self) -> list[dict[str, Any]]:
        return [step for p in self.programs for step in p["steps"] if step["kind"] != "call"]

    def seconds(self, stage: str) -> float:
        return sum(s.seconds for s in self.stages if s.name == stage)


WHY = {
    "tensor": "an input of the graph: it was compiled for this dtype, device, layout and these sizes",
    "type": "what is done depends on the type",
    "same": "the object itself was used, not only its value",
    "constant": "its value is in the compiled code",
    "length": "it was gone through",
    "keys": "its keys were gone through, or looked up",
    "contains": "it was asked for this key",
    "without": "it was asked for this name, which it did not have",
    "empty_cell": "a variable that was not there yet",
    "number": "a number that changes from call to call",
    "holds": "something was asked of it",
    "alias": "two ways lead to one object",
    "global_state": "graphs are compiled for grad mode, autocast and the like as they were",
    "relation": "the program asked this of sizes or numbers",
}


def shown_bytes(n: int | None) -> str:
    if n is None:
        return "a number of bytes that sizes decide"
    for unit in ("B", "KiB", "MiB"):
        if abs(n) < 1024:
            return f"{n:.0f} {unit}" if unit == "B" else f"{n:.1f} {unit}"
        n /= 1024  # type: ignore[assignment]
    return f"{n:.1f} GiB"


def places(text: str | None) -> list[Place]:
    return [Place(m[1], int(m[2]), m[3]) for m in map(_PLACE.search, (text or "").splitlines()) if m]


def shown_value(value: Any) -> str:
    """float32[2, 3] for a tensor; the text of anything else."""
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"{str(value.dtype).rpartition('.')[2]}[{', '.join(map(str, value.shape))}]"
    if isinstance(value, tuple | list):
        return f"({', '.join(map(shown_value, value))})"
    return "" if value is None else str(value)


def bytes_of(value: Any) -> int:
    """Of a tensor with sizes that are known or have a hint."""
    if isinstance(value, tuple | list):
        return sum(map(bytes_of, value))
    if not hasattr(value, "shape") or not hasattr(value, "element_size"):
        return 0
    count = value.element_size()
    for n in value.shape:
        hint = n if isinstance(n, int) else n.node.hint
        count *= int(hint) if hint is not None else 1
    return count


def value_of(node: Any) -> Any:
    return node.meta.get("example_value", node.meta.get("val"))


def target_text(target: Any) -> str:
    name = getattr(target, "__qualname__", None) or getattr(target, "__name__", None)
    if isinstance(target, str) or name is None or "OpOverload" in type(target).__name__:
        return str(target)
    home = getattr(target, "__module__", None) or ""
    return f"{home}.{name}".removeprefix("builtins.")


def graph_of(stage: str, module: Any) -> Graph:
    nodes = []
    for n in module.graph.nodes:
        value, lines = value_of(n), places(n.meta.get("stack_trace"))
        inputs = [i.name for i in n.all_input_nodes]
        own = [p for p in lines if not p.file.startswith(LIBRARY)] or lines
        nodes.append(GraphNode(n.name, n.op, target_text(n.target), inputs, shown_value(value), bytes_of(value), own[-1] if own else None))  # fmt: skip
    return Graph(stage, module.code.strip(), nodes)


def symbols_of(output: Any) -> list[Symbol]:
    env, numbers = output.env, output.guards.numbers
    found = []
    fixed = {str(a): e for a, e in env.replacements.items()}
    for atom, value in env.var_to_val.items():
        name = str(atom)
        asked = [g for g in env.guards if re.search(rf"\b{re.escape(name)}\b", str(g))]
        by = ""
        if name in fixed:
            where = next((f" at {g.place}" for g in asked if g.place is not None), "")
            by = f"{name} == {fixed[name]}{where}"
        low_high = env.var_to_range.get(atom)
        sources = [numbers.sources[numbers.places[atom]].name] if atom in numbers.places else []
        found.append(Symbol(name, str(value), sources, str(low_high or ""), by))
    return found


class Collector:
    """Listens, and keeps what it heard as compilations. `detail`: graphs, kernels' sources and guards too."""

    def __init__(self, detail: bool = True) -> None:
        self.detail = detail
        self.compilations: list[Compilation] = []
        self.modules: list[Any] = []  # graphs as they were captured, where somebody asked for them
        self.keeps_modules = False
        self.started = time.perf_counter_ns()
        self._depth: dict[int, int] = {}
        self._other = Compilation("", "(outside of captures)", "", 0, 0)

    def of(self, event: events.Event) -> Compilation:
        for c in reversed(self.compilations):
            if c.id == event.compile_id:
                return c
        return self._other

    def __call__(self, event: events.Event) -> None:
        known = self.of(event)
        match event:
            case events.CaptureBegan(code=code):
                self.begin(event, code)
            case events.CaptureEnded(error=error):
                self.end(known, error)
            case events.Recompiled(code=code, reason=reason):
                self.begin(event, code).recompiled = reason or "(unknown)"
            case events.GraphBroke(refused=refused, calls=calls):
                r = refused.refusal
                stack = [Place(p.file, p.line, p.function) for p in refused.stack]
                known.breaks.append(Break(refused.detail, r.number, r.name, r.explanation, r.hint, stack, calls))
            case events.GraphCaptured(module=module):
                self.captured(known, module)
            case events.FrameMade(output=output):
                self.made(known, output)
            case events.GraphMade(stage=stage, module=module) if self.detail:
                known.graphs.append(graph_of(stage, module))
            case events.ProgramMade(module=module, compiled=compiled) if self.detail:
                known.programs.append(compiled.described(module))
            case events.RanUncompiled(reason=reason):
                known.uncompiled.append(reason)
            case events.CacheAsked(kind=kind, hit=hit, what_changed=what_changed) if (
                known is not self._other or self.detail
            ):
                known.cache.append(Asked(kind, hit, what_changed() if self.detail and not hit else ""))
            case events.StageBegan():
                self._depth[event.thread] = self._depth.get(event.thread, 0) + 1
            case events.StageEnded(name=name, began=began):
                depth = max(0, self._depth.pop(event.thread, 1) - 1)
                if depth:
                    self._depth[event.thread] = depth
                if known is not self._other or self.detail:
                    known.stages.append(Stage(name, began, event.time, depth, event.thread))

    def begin(self, event: events.Event, code: Any) -> Compilation:
        """A recompilation is told of before its capture begins: both are one."""
        last = self.compilations[-1] if self.compilations else None
        if last is not None and last.id == event.compile_id and last.outcome == "under way":
            return last
        made = Compilation(event.compile_id, code.co_qualname, code.co_filename, code.co_firstlineno, event.time)
        self.compilations.append(made)
        return made

    def end(self, known: Compilation, error: BaseException | None) -> None:
        known.outcome = "captured" if error is None else "skipped" if type(error).__name__ in ("SkipFrame", "Escapes") else "failed"  # fmt: skip
        known.reason = "" if error is None else str(error)
        if error is not None:
            for b in known.breaks:
                b.skipped = True
        else:
            for b in known.breaks:
                b.calls = 0

    def captured(self, known: Compilation, module: Any) -> None:
        if self.keeps_modules:
            self.modules.append(module)
        known.graphs.append(graph_of("captured", module) if self.detail else Graph("captured", "", []))
        known.operators.append([target_text(n.target) for n in module.graph.nodes if n.op.startswith("call_")])
        outputs = next(n for n in reversed(module.graph.nodes) if n.op == "output").all_input_nodes
        for b in known.breaks[-1:]:
            b.bytes = sum(bytes_of(value_of(n)) for n in outputs)

    def made(self, known: Compilation, output: Any) -> None:
        known.guard_count = len(output.guards.found) + len(output.env.guards)
        if self.detail:
            known.guards = [Guard(g.text, g.test, WHY.get(g.test, "")) for g in output.guards.found.values()]
            known.guards += [Guard(r[1], "relation", WHY["relation"]) for r in output.guards.numbers.relations()]
            known.symbols = symbols_of(output)
            known.shape_guards = [f"{g}{f'  # {g.place}' if g.place else ''}" for g in output.env.guards]

    def to_json(self) -> list[dict[str, Any]]:
        """Everything as lists, dicts, texts and numbers."""
        return [asdict(c) for c in self.compilations]


def from_data(d: dict[str, Any]) -> Compilation:
    """A compilation without detail, from its asdict."""
    made = Compilation(**{**d, "breaks": [], "stages": [], "cache": [], "graphs": []})
    made.breaks = [Break(**{**b, "stack": [Place(**p) for p in b["stack"]]}) for b in d["breaks"]]
    made.stages = [Stage(**s) for s in d["stages"]]
    made.cache = [Asked(**a) for a in d["cache"]]
    made.graphs = [Graph(g["stage"], "", []) for g in d["graphs"]]
    return made


class History:
    """Texts and figures of the last compilations, for compiled.explain(). All but the newest are one text each: a program that compiles
    for days keeps no more than that."""

    OPEN, MOST = 8, 512

    def __init__(self) -> None:
        self.collector = Collector(detail=False)
        self.done: list[str] = []

    def __call__(self, event: events.Event) -> None:
        self.collector(event)
        newest = self.collector.compilations
        while len(newest) > self.OPEN:
            self.done.append(json.dumps(asdict(newest.pop(0))))
            del self.done[: -self.MOST]

    @property
    def compilations(self) -> list[Compilation]:
        return [*(from_data(json.loads(text)) for text in self.done), *self.collector.compilations]

    def clear(self) -> None:
        self.done.clear()
        self.collector = Collector(detail=False)


HISTORY = History()
