"""explain(f)(*args): what compiling a function does, as data and as text."""

from __future__ import annotations

import contextlib
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tocha._dynamo import eval_frame, utils
from tocha._inductor import config as inductor_config
from tocha._logging import events, recording
from tocha._logging.collect import Break, Collector, Compilation, Guard, shown_bytes
from tocha.nn import _Module as Module

GRAPH = "## Call CompiledFxGraph ##"


@dataclass
class ExplainOutput:
    """PyTorch's fields, and under `compilations` everything else."""

    graphs: list[Any] = field(default_factory=list)
    break_reasons: list[Break] = field(default_factory=list)
    op_count: int = 0
    ops_per_graph: list[list[Any]] = field(default_factory=list)
    out_guards: list[Guard] = field(default_factory=list)
    compile_times: str = ""
    compilations: list[Compilation] = field(default_factory=list)
    uncaptured: Counter[str] = field(default_factory=Counter)  # operators that ran outside of graphs
    graph_count: int = 0
    so_far: bool = False  # of calls that were made before somebody asked

    @property
    def graph_break_count(self) -> int:
        """As PyTorch counts for one call: one less than graphs; of several captures, the breaks themselves."""
        return len(self.break_reasons) if self.so_far else max(0, self.graph_count - 1)

    @property
    def recompilations(self) -> list[Compilation]:
        return [c for c in self.compilations if c.recompiled]

    @property
    def kernels(self) -> list[dict[str, Any]]:
        return [k for c in self.compilations for k in c.kernels]

    def __str__(self) -> str:
        return "\n".join(
            [
                f"Graph Count: {self.graph_count}",
                f"Graph Break Count: {self.graph_break_count}",
                f"Op Count: {self.op_count}",
                *breaks_text(self.break_reasons),
                *ops_text(self.ops_per_graph),
                *self.more_text(),
            ]
        )

    def more_text(self) -> Iterator[str]:
        if self.uncaptured:
            ran = ", ".join(f"{name} x{n}" for name, n in self.uncaptured.most_common(8))
            yield f"Operators outside of graphs: {self.uncaptured.total()} ({ran})"
        if self.recompilations:
            yield "Recompilations:"
            yield from (f"  [{c.id}] {c.function}: {c.recompiled}" for c in self.recompilations)
        if self.so_far:
            yield f"Guards: {sum(c.guard_count for c in self.compilations)} (explain(*args) has their texts, and kernels)"
        else:
            yield f"Guards: {len(self.out_guards)}"
        yield from (f"  {g.text}" for g in self.out_guards[:20])
        symbols = [s for c in self.compilations for s in c.symbols]
        if symbols:
            yield "Symbols:"
            yield from (f"  {s.name} = {s.value} from {', '.join(s.sources)}{', fixed: ' + s.fixed_by if s.fixed_by else ''}" for s in symbols)  # fmt: skip
        yield from kernels_text([s for c in self.compilations for p in c.programs for s in p["steps"]])
        uncompiled = [r for c in self.compilations for r in c.uncompiled]
        if uncompiled:
            yield "Graphs that run operator by operator:"
            yield from (f"  {reason}" for reason in uncompiled)
        asked = [a for c in self.compilations for a in c.cache]
        if asked:
            yield f"Caches: {sum(a.hit for a in asked)} hits, {sum(not a.hit for a in asked)} misses"
            yield from (f"  no {a.kind}: {a.what_changed}" for a in asked if not a.hit and a.what_changed)
        if self.compile_times:
            yield self.compile_times


def breaks_text(breaks: Sequence[Break]) -> Iterator[str]:
    yield "Break Reasons:"
    for n, b in enumerate(breaks, 1):
        yield f"  Break Reason {n}:"
        yield f"    Reason: {b.reason}"
        yield f"    Explanation: {b.explanation}"
        yield f"    Hint: {b.hint}"
        yield f"    Cost: {b.cost()}"
        yield "    User Stack:"
        yield from (f"    {p}" for p in b.stack)


def ops_text(ops: Sequence[Sequence[Any]]) -> Iterator[str]:
    yield "Ops per Graph:"
    for n, targets in enumerate(ops, 1):
        yield f"  Ops {n}: {', '.join(getattr(t, '__name__', str(t)) for t in targets)}"


def kernels_text(steps: Sequence[dict[str, Any]]) -> Iterator[str]:
    if not steps:
        return
    yield f"Kernels: {sum(s['kind'] != 'call' for s in steps)}, native calls: {sum(s['kind'] == 'call' for s in steps)}"
    for s in steps:
        flops = "?" if s["flops"] is None else f"{s['flops']:,}"
        took = f", {s['us']:.1f} us" if s.get("us") else ""
        yield f"  {s['name']} ({s['kind']}): {', '.join(s['operators'])}: {shown_bytes(s['bytes'])}, {flops} FLOPs{took}"


def times_text(compilations: Sequence[Compilation]) -> str:
    """Seconds of each stage, over all compilations."""
    totals: dict[str, list[float]] = {}
    for c in compilations:
        for s in c.stages:
            totals.setdefault(s.name, []).append(s.seconds)
    width = max([len("Stage"), *map(len, totals)])
    rows = [f"  {name:<{width}}  {sum(t):>8.4f} s  x{len(t)}" for name, t in sorted(totals.items(), key=lambda i: -sum(i[1]))]  # fmt: skip
    return "\n".join(["Compile Times:", *rows]) if rows else ""


@contextlib.contextmanager
def profiled(rows: list[tuple]) -> Iterator[None]:
    """What runs, natively; nothing where somebody profiles already."""
    owner = object()
    recording.take(owner, operators=True)
    try:
        yield
    finally:
        rows += recording.give(owner)


def inside(rows: Sequence[tuple], row: tuple, name: str) -> bool:
    parent = row[5]
    while parent >= 0:
        if rows[parent][0] == name:
            return True
        parent = rows[parent][5]
    return False


def uncaptured_operators(rows: Sequence[tuple], compilations: Sequence[Compilation]) -> Counter[str]:
    """Operators that ran neither in a graph nor while something was compiled."""
    spans = [(s.began, s.ended) for c in compilations for s in c.stages if s.depth == 0]
    found: Counter[str] = Counter()
    for row in rows:
        compiled = inside(rows, row, GRAPH) or any(low <= row[2] <= high for low, high in spans)
        nested = row[5] >= 0 and rows[row[5]][1] == "op"
        if row[1] == "op" and not nested and not compiled:
            found[row[0]] += 1
    return found


def add_times(rows: Sequence[tuple], compilations: Sequence[Compilation]) -> None:
    """How long each kernel ran, in microseconds."""
    took: Counter[str] = Counter()
    for name, kind, begin, end, *_ in rows:
        if kind == "kernel":
            took[name] += end - begin
    for c in compilations:
        for k in c.kernels:
            k["us"] = took[f"{k['name']}({', '.join(k['operators'])})"] / 1e3


def finished(found: ExplainOutput, collector: Collector, rows: Sequence[tuple] = ()) -> ExplainOutput:
    found.compilations = collector.compilations
    found.graphs = collector.modules
    found.graph_count = len(found.graphs)
    found.ops_per_graph = [[n.target for n in m.graph.nodes if n.op == "call_function"] for m in found.graphs]
    found.op_count = sum(map(len, found.ops_per_graph))
    found.break_reasons = [b for c in found.compilations for b in c.breaks]
    found.out_guards = [g for c in found.compilations for g in c.guards]
    found.compile_times = times_text(found.compilations)
    found.uncaptured = uncaptured_operators(rows, found.compilations)
    add_times(rows, found.compilations)
    return found


def explain(f: Callable[..., Any], *extra: Any, **more: Any) -> Any:
    """explain(f)(*args): graphs, breaks, guards, kernels and times of calling f with these arguments, once, compiled.

    >>> import tocha
    >>> print(explain(lambda x: x.sin() + 1)(tocha.ones(2)).graph_count)
    1
    """

    def inner(*args: Any, **kwargs: Any) -> ExplainOutput:
        collector, rows = Collector(), []  # type: ignore[var-annotated]
        collector.keeps_modules = True
        eval_frame.reset()
        made = compiled_again(f)
        with inductor_config.patch(fallback_to_eager=True), events.listening(collector), profiled(rows):
            made(*args, **kwargs)
        eval_frame.reset()
        return finished(ExplainOutput(), collector, rows)

    if not extra and not more:
        return inner
    warnings.warn(
        "explain(f, *args, **kwargs) is deprecated, use explain(f)(*args, **kwargs)", FutureWarning, stacklevel=2
    )
    return inner(*extra, **more)


def compiled_again(f: Any) -> Any:
    """The function or module compiled as it was, or by default."""
    how = f.dynamo_ctx if isinstance(f, eval_frame.OptimizedModule) else getattr(f, "_torchdynamo_callback", None)
    plain = f._orig_mod if isinstance(f, eval_frame.OptimizedModule) else eval_frame.innermost(f)
    if how is None:
        return eval_frame.compile(plain)
    return eval_frame.compile(plain, backend=how.backend, fullgraph=how.fullgraph, dynamic=how.dynamic)


def explain_so_far(f: Any) -> ExplainOutput:
    """What compiling a function has done in this process: without graphs, which nobody kept."""
    collector = Collector(detail=False)
    codes = codes_of(f)
    collector.compilations = [c for c in utils.HISTORY.compilations if (c.file, c.line) in codes]
    found = finished(ExplainOutput(so_far=True), collector)
    found.graph_count = sum(len(c.captured) for c in found.compilations)
    found.ops_per_graph = [list(ops) for c in found.compilations for ops in c.operators]
    found.op_count = sum(map(len, found.ops_per_graph))
    return found


def codes_of(f: Any) -> set[tuple[str, int]]:
    """Where the code of a function, or of a module's methods, begins: what resumes after a break begins there too."""
    plain = f._orig_mod if isinstance(f, eval_frame.OptimizedModule) else eval_frame.innermost(f)
    found = [plain, getattr(plain, "__wrapped__", None), getattr(plain, "__func__", None)]
    if isinstance(plain, Module):
        found += [type(m).forward for m in plain.modules()]
    codes = [getattr(x, "__code__", None) for x in found]
    return {(c.co_filename, c.co_firstlineno) for c in codes if c is not None}


def explain_compiled(f: Any, *args: Any, **kwargs: Any) -> ExplainOutput:
    """compiled.explain(*args): what a call does; compiled.explain(): what calls have done so far."""
    return explain(f)(*args, **kwargs) if args or kwargs else explain_so_far(f)
