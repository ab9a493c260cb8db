"""What logs can say: each artifact is a row with its name, its meaning, and the text that it makes of events."""

from __future__ import annotations

import dis
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tocha._logging import events
from tocha._logging.collect import WHY, bytes_of, shown_bytes, shown_value, symbols_of, value_of

Text = Callable[[events.Event], Iterator[str]]


@dataclass(eq=False, repr=False)
class Artifact:
    """A row."""

    name: str
    component: str  # dynamo, aot, inductor, symbolic_shapes
    meaning: str
    text: Text
    quiet: bool = True  # not said when its whole component is at DEBUG
    early: bool = False  # known without compiling a graph that is in the cache


ARTIFACTS: dict[str, Artifact] = {}
VERBOSE: list[Callable[[], bool]] = []  # asked whether messages are long: _dynamo.config.verbose


def artifact(
    name: str, component: str, meaning: str, quiet: bool = True, early: bool = False
) -> Callable[[Text], Text]:
    def add(text: Text) -> Text:
        ARTIFACTS[name] = Artifact(name, component, meaning, text, quiet, early)
        return text

    return add


def is_verbose() -> bool:
    return any(ask() for ask in VERBOSE)


def where(code: Any) -> str:
    return f"{code.co_qualname} in {code.co_filename}:{code.co_firstlineno}"


# ---- capture


@artifact("graph_breaks", "dynamo", "graph breaks: where, why, and what helps", quiet=False)
def graph_breaks(e: events.Event) -> Iterator[str]:
    if isinstance(e, events.GraphBroke):
        r, stack = e.refused.refusal, e.refused.stack
        at = f"{stack[-1].file}:{stack[-1].line}" if stack else where(e.code)
        lines = [f"Graph break in user code at {at}", f"Graph Break Reason: {e.refused.detail}"]
        lines += [f"  Explanation: {r.explanation}", f"  Hint: {r.hint}", f"  Number {r.number} ({r.name}): docs/guide/graph_breaks.md"]  # fmt: skip
        lines += ["User code traceback:", *map(str, stack if is_verbose() else stack[-2:])]
        yield "\n".join(lines)


@artifact("recompiles", "dynamo", "functions that are captured again, and the guard that failed", quiet=False)
def recompiles(e: events.Event) -> Iterator[str]:
    if isinstance(e, events.Recompiled):
        yield f"Recompiling function {where(e.code)}\n    triggered by the following guard failure(s):\n    - {e.reason}"


@artifact("recompiles_verbose", "dynamo", "the same, with what fails of every earlier capture")
def recompiles_verbose(e: events.Event) -> Iterator[str]:
    if isinstance(e, events.Recompiled):
        failed = "\n".join(f"    {i}: {reason}" for i, reason in enumerate(e.every_reason()))
        yield f"Recompiling function {where(e.code)}\n    guard failures of each earlier capture:\n{failed}"


def guard_lines(e: events.FrameMade) -> Iterator[tuple[str, str]]:
    for g in e.output.guards.found.values():
        yield g.text, WHY.get(g.test, "")
    for r in e.output.guards.numbers.relations():
        yield r[1], WHY["relation"]


@artifact("guards", "dynamo", "the guards of every captured function", quiet=False)
def guards(e: events.Event) -> Iterator[str]:
    if isinstance(e, events.FrameMade):
        yield "\n".join([f"GUARDS of {where(e.code)}:", *(f"  {text}" for text, _ in guard_lines(e))])


@artifact("verbose_guards", "dynamo", "the same, with what each is for")
def verbose_guards(e: events.Event) -> Iterator[str]:
    if isinstance(e, events.FrameMade):
        yield "\n".join([f"GUARDS of {where(e.code)}:", *(f"  {text}  # {why}" for text, why in guard_lines(e))])


def disassembled(code: Any) -> str:
    out = io.StringIO()
    dis.dis(code, file=out, depth=0)
    return out.getvalue().rstrip()


@artifact("bytecode", "dynamo", "the bytecode of a function before and after capture", quiet=False)
def bytecode(e: events.Event) -> Iterator[str]:
    if isinstance(e, events.FrameMade):
        yield f"ORIGINAL BYTECODE {where(e.code)}\n{disassembled(e.code)}"
        yield f"MODIFIED BYTECODE {where(e.code)}\n{disassembled(e.made)}"


@artifact("graph", "dynamo", "captured graphs as a table of nodes")
def graph(e: events.Event) -> Iterator[str]:
    if isinstance(e, events.GraphCaptured):
        rows = [(n.op, n.name, str(n.target), str(n.args), str(n.kwargs)) for n in e.module.graph.nodes]
        rows.insert(0, ("opcode", "name", "target", "args", "kwargs"))
        widths = [max(len(r[i]) for r in rows) for i in range(5)]
        yield "TRACED GRAPH\n" + "\n".join("  ".join(c.ljust(w) for c, w in zip(r, widths)).rstrip() for r in rows)


def readable(module: Any) -> str:
    return module.print_readable(print_output=False, include_stride=True, include_device=True)


@artifact("graph_code", "dynamo", "captured graphs as Python", quiet=False)
def graph_code(e: events.Event) -> Iterator[str]:
    if isinstance(e, events.GraphCaptured):
        yield f"TRACED GRAPH\n{readable(e.module)}"


@artifact("graph_code_verbose", "dynamo", "captured graphs as Python, with the lines that they come from")
def graph_code_verbose(e: events.Event) -> Iterator[str]:
    if isinstance(e, events.GraphCaptured):
        stacks = [f"# {n.name}:\n{n.meta['stack_trace']}" for n in e.module.graph.nodes if n.meta.get("stack_trace")]
        yield "\n".join(["TRACED GRAPH", readable(e.module), *stacks])


@artifact("graph_sizes", "dynamo", "the sizes of every value of captured graphs")
def graph_sizes(e: events.Event) -> Iterator[str]:
    if isinstance(e, events.GraphCaptured):
        sized = [(n.name, value_of(n)) for n in e.module.graph.nodes if n.op != "output"]
        yield "\n".join(["TRACED GRAPH TENSOR SIZES", *(f"  {name}: {shown_value(v)}" for name, v in sized)])


@artifact("trace_source", "dynamo", "every line of the program as it is gone through")
def trace_source(e: events.Event) -> Iterator[str]:
    if isinstance(e, events.Stepped) and e.new_line:
        yield f"TRACE starts_line {e.file}:{e.line} in {e.function}"


@artifact("trace_call", "dynamo", "every function that is gone into")
def trace_call(e: events.Event) -> Iterator[str]:
    if isinstance(e, events.Stepped) and e.depth and e.first:
        yield f"TRACE inlined call {e.function} from {e.file}:{e.line}"


@artifact("trace_bytecode", "dynamo", "every instruction as it is gone through")
def trace_bytecode(e: events.Event) -> Iterator[str]:
    if isinstance(e, events.Stepped):
        yield f"TRACE {e.instruction} {e.argument if e.argument is not None else ''} [{e.stack} on the stack]"


@artifact("side_effects", "dynamo", "objects of the program that compiled code changes")
def side_effects(e: events.Event) -> Iterator[str]:
    if isinstance(e, events.FrameMade):
        changed = [f"  {v.describe()}{f' ({v.source.name})' if v.source else ''}" for v in e.output.effects.order]
        if changed:
            yield "\n".join([f"SIDE EFFECTS of {where(e.code)}:", *changed])


# ---- sizes


def symbol_lines(e: events.FrameMade) -> list[str]:
    env = e.output.env
    made = [f"create_symbol {s.name} = {s.value} for {', '.join(s.sources)} {s.range}" for s in symbols_of(e.output)]
    made += [f"eval {g} [guard added]{f' at {g.place}' if g.place else ''}" for g in env.guards]
    return made + [f"{s.name} is fixed: {s.fixed_by}" for s in symbols_of(e.output) if s.fixed_by]


def symbols_text(e: events.Event) -> Iterator[str]:
    if isinstance(e, events.FrameMade):
        yield from symbol_lines(e)


artifact("trace_shape_events", "symbolic_shapes", "symbols, what is asked of them and what fixes them")(symbols_text)
artifact("sym_node", "symbolic_shapes", "the same")(symbols_text)


# ---- graphs after differentiation

TITLES = {
    "joint": "Joint graph",
    "forward": "Forward graph",
    "backward": "Backward graph",
    "inference": "Forward graph",
}


def aot_text(e: events.Event, stages: tuple[str, ...]) -> Iterator[str]:
    if isinstance(e, events.GraphMade) and e.stage in stages:
        yield f"{TITLES[e.stage]} {e.compile_id}\n{readable(e.module)}"


@artifact("aot_graphs", "aot", "forward and backward graphs, after partitioning", quiet=False)
def aot_graphs(e: events.Event) -> Iterator[str]:
    yield from aot_text(e, ("forward", "backward", "inference"))


@artifact("aot_graphs_effects", "aot", "the same, for those who look for effects")
def aot_graphs_effects(e: events.Event) -> Iterator[str]:
    yield from aot_text(e, ("forward", "backward", "inference"))


@artifact("aot_joint_graph", "aot", "the graph with gradients, before partitioning", quiet=False)
def aot_joint_graph(e: events.Event) -> Iterator[str]:
    yield from aot_text(e, ("joint",))


@artifact("compiled_autograd", "aot", "graphs of backward() in compiled functions")
def compiled_autograd(e: events.Event) -> Iterator[str]:
    if isinstance(e, events.GraphMade) and e.stage == "compiled_autograd":
        yield f"Compiled autograd graph\n{readable(e.module)}"


@artifact("compiled_autograd_verbose", "aot", "the same, with the node of each operator")
def compiled_autograd_verbose(e: events.Event) -> Iterator[str]:
    if isinstance(e, events.GraphMade) and e.stage == "compiled_autograd":
        yield "Compiled autograd graph\n" + "\n".join(f"  {n.format_node()}" for n in e.module.graph.nodes)


@artifact("pre_grad_graphs", "inductor", "graphs as the back end gets them", early=True)
def pre_grad_graphs(e: events.Event) -> Iterator[str]:
    if isinstance(e, events.GraphCaptured):
        yield f"BEFORE DIFFERENTIATION {e.compile_id}\n{readable(e.module)}"


@artifact("post_grad_graphs", "inductor", "graphs as they are lowered", quiet=False)
def post_grad_graphs(e: events.Event) -> Iterator[str]:
    if isinstance(e, events.GraphMade) and e.stage == "post_grad":
        yield f"AFTER POST GRAD {e.compile_id}\n{readable(e.module)}"


# ---- loops and kernels


@artifact("ir_pre_fusion", "inductor", "the loops of a graph before fusion")
def ir_pre_fusion(e: events.Event) -> Iterator[str]:
    if isinstance(e, events.LoopsMade) and e.stage == "pre_fusion":
        yield f"BEFORE FUSION\n{e.loops!r}"


@artifact("ir_post_fusion", "inductor", "kernels and calls, with the loops of each")
def ir_post_fusion(e: events.Event) -> Iterator[str]:
    if isinstance(e, events.LoopsMade) and e.stage == "post_fusion":
        yield "AFTER FUSION\n" + "\n".join(map(repr, e.loops))


@artifact(
    "autotuning",
    "inductor",
    "how matrix products are computed and pictures lie, and how long each way took (max_autotune)",
)
def autotuning(e: events.Event) -> Iterator[str]:
    if isinstance(e, events.ProductTuned):
        times = ", ".join(f"{way}: {1e6 * t:.1f} us" for way, t in sorted(e.seconds.items(), key=lambda x: x[1]))
        yield f"AUTOTUNE {e.product}\n  chosen: {e.chosen}\n  {times or 'known from before'}"
    if isinstance(e, events.LayoutChosen):
        times = f"as given: {1e6 * e.given:.1f} us, channels last: {1e6 * e.last:.1f} us with {e.copies} copies"
        yield f"AUTOTUNE layout of convolutions\n  chosen: {e.chosen}\n  {times}"


@artifact("schedule", "inductor", "kernels and calls in the order in which they run", quiet=False)
def schedule(e: events.Event) -> Iterator[str]:
    if isinstance(e, events.LoopsMade) and e.stage == "post_fusion":
        kinds = [f"  {i}: {item.name} ({getattr(item, 'kind', 'call')})" for i, item in enumerate(e.loops)]
        yield "\n".join(["SCHEDULE", *kinds])


def steps_of(e: events.Event) -> list[dict[str, Any]]:
    return e.compiled.described(e.module)["steps"] if isinstance(e, events.ProgramMade) else []


@artifact("fusion", "inductor", "which operators share a kernel, and the memory that saves", quiet=False)
def fusion(e: events.Event) -> Iterator[str]:
    for s in steps_of(e):
        if s["kind"] != "call":
            yield f"{s['name']} fuses {len(s['operators'])}: {', '.join(s['operators'])}; {shown_bytes(s['saved'])} stay out of memory"  # fmt: skip


@artifact("compute_dependencies", "inductor", "what every step reads and makes")
def compute_dependencies(e: events.Event) -> Iterator[str]:
    if isinstance(e, events.LoopsMade) and e.stage == "pre_fusion":
        for step in e.loops.steps:
            read = sorted({x.buffer.name for x in (step.loads() if hasattr(step, "loads") else step.tensors)})
            yield f"{step.name}: {', '.join(str(r) for r in step.results)} from {', '.join(read)}"


@artifact("loop_ordering", "inductor", "in which order each kernel goes through its dims")
def loop_ordering(e: events.Event) -> Iterator[str]:
    if isinstance(e, events.LoopsMade) and e.stage == "post_fusion":
        for k in e.loops:
            for m in getattr(k, "members", ()):
                yield f"{k.name}: {m.loop.name}: rows {m.rows}, columns {m.columns} of {list(m.loop.sizes)}"


artifact("loop_tiling", "inductor", "the same")(loop_ordering)


@artifact(
    "output_code",
    "inductor",
    "the generated source of a graph, as a Python file that runs and measures it",
    quiet=False,
)
def output_code(e: events.Event) -> Iterator[str]:
    if isinstance(e, events.ProgramMade):
        yield f"Output code: \n{e.compiled.script}"


@artifact("kernel_code", "inductor", "the generated source of each kernel")
def kernel_code(e: events.Event) -> Iterator[str]:
    for s in steps_of(e):
        if s["source"]:
            yield f"{s['name']}: {', '.join(s['operators'])}\n{s['source']}"


@artifact("inductor_metrics", "inductor", "kernels, bytes and FLOPs of a graph")
def inductor_metrics(e: events.Event) -> Iterator[str]:
    steps = steps_of(e)
    if steps:
        moved = sum(s["bytes"] or 0 for s in steps)
        yield f"{sum(s['kind'] != 'call' for s in steps)} kernels, {sum(s['kind'] == 'call' for s in steps)} calls, {shown_bytes(moved)}, {sum(s['flops'] or 0 for s in steps):,} FLOPs"  # fmt: skip


@artifact("node_runtime_estimation", "inductor", "bytes and FLOPs of each step")
def node_runtime_estimation(e: events.Event) -> Iterator[str]:
    for s in steps_of(e):
        yield f"{s['name']}: {shown_bytes(s['bytes'])}, {s['flops']} FLOPs"


@artifact("cudagraphs", "inductor", "programs that keep the memory of temporaries between calls (reduce-overhead)")
def cudagraphs(e: events.Event) -> Iterator[str]:
    if isinstance(e, events.ProgramMade):
        arena = e.compiled.memory.arena
        kept = "is kept between calls" if e.keeps_memory else "is taken for each call: mode 'reduce-overhead' keeps it"
        yield (
            f"the memory of temporaries, {shown_bytes(arena)}, {kept}" if arena else "no temporaries to keep memory for"
        )


@artifact("cudagraph_static_inputs", "inductor", "inputs that are the same memory at every call", early=True)
def cudagraph_static_inputs(e: events.Event) -> Iterator[str]:
    if isinstance(e, events.GraphCaptured):
        nodes = [n for n in e.module.graph.nodes if n.op == "placeholder"]
        named = [n.name for n, x in zip(nodes, e.examples) if type(x).__name__ in ("Parameter", "Buffer")]
        yield f"static inputs: {', '.join(named) or 'none'} of {len(nodes)}"


@artifact(
    "caching",
    "inductor",
    "what was asked of the caches, and which part of a key is another one",
    quiet=False,
    early=True,
)
def caching(e: events.Event) -> Iterator[str]:
    if isinstance(e, events.CacheAsked):
        yield f"cache hit: {e.kind}" if e.hit else f"cache miss: {e.kind}: {e.what_changed()}"


LARGE = 1 << 20  # bytes of a temporary that a hint speaks of


@artifact("perf_hints", "inductor", "what makes compiled code slower than it could be", quiet=False, early=True)
def perf_hints(e: events.Event) -> Iterator[str]:
    if isinstance(e, events.RanUncompiled):
        yield f"a graph runs operator by operator: {e.reason}"
    elif isinstance(e, events.CaptureEnded) and e.error is not None and type(e.error).__name__ == "SkipFrame":
        yield f"{where(e.code)} runs uncaptured: {e.error}"
    elif isinstance(e, events.GraphBroke):
        yield f"a graph break costs fusion across it: {e.refused.detail}. {e.refused.refusal.hint}"
    elif isinstance(e, events.ProgramMade):
        for b in e.compiled.described(e.module)["memory"]["buffers"]:
            if b["place"] in ("arena", "tensor") and (b["bytes"] or 0) >= LARGE:
                yield f"{b['name']} ({shown_bytes(b['bytes'])}) goes through memory between steps {b['first']} and {b['last']}"
    elif isinstance(e, events.GraphCaptured):
        narrow = [n.name for n in e.module.graph.nodes if n.op == "placeholder" and is_strided(value_of(n))]
        if narrow:
            yield f"inputs that are not contiguous are read slower: {', '.join(narrow)}"


def is_strided(value: Any) -> bool:
    return hasattr(value, "is_contiguous") and bytes_of(value) >= LARGE and not value.is_contiguous()


# Names that PyTorch has and that stand for nothing that is done here.
WITHOUT_OUTPUT = (
    "annotation", "auto_chunker", "benchmarking", "custom_format_test_artifact", "ddp_graphs", "graph_region_expansion",
    "hierarchical_compile", "incremental", "not_implemented", "onnx_diagnostics", "overlap", "overlap_scheduling",
)  # fmt: skip
