"""TORCH_COMPILE_DEBUG=1: a folder for each compilation, with graphs that run, loops, code, guards and times."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tocha._logging import events
from tocha._logging.artifacts import ARTIFACTS, disassembled
from tocha._logging.collect import Collector, graph_of
from tocha._logging.layout import svg

README = """# What the compiler did with `{function}` ({file}:{line}), compilation {id}

{outcome}

| file | what it is |
|---|---|
{rows}
"""
WHAT = {
    "captured_graph": "the graph as it was captured from Python: calls of the library. `python` runs it on random inputs",
    "joint_graph": "forward and gradients as one graph of operators",
    "forward_graph": "the forward half, with what it saves for backward",
    "backward_graph": "the backward half",
    "inference_graph": "the graph of operators, without gradients",
    "post_grad_graph": "the graph that was lowered to loops",
    "loops_before_fusion": "each operator as loops over index expressions",
    "loops_after_fusion": "the kernels: which loops run together, and the calls of native operators between them",
    "output_code": "the generated C++",
    "output_code_script": "the same as a program: `python` calls it on random inputs, and says how long a call takes",
    "guards": "what must hold for the compiled code to be used again, and why it was asked",
    "symbols": "sizes that are symbols, and what fixed them",
    "bytecode": "the function's bytecode, and what runs in its place",
    "graph_breaks": "where capture stopped, why, and what helps",
    "recompiles": "the guard that failed, for which this compilation was made",
    "timings": "seconds of each stage",
    "kernels": "kernels with operators, bytes and FLOPs",
}
Script = Callable[[Any, str, str], tuple[str, dict[str, Any]]]


class DebugFolder:
    """The listener. `script` makes a file of a graph, `save` writes tensors: both live in rooms above this one."""

    draws = False  # graphs as drawings too

    def __init__(self, root: str | os.PathLike[str], script: Script, save: Callable[[Any, Any], None]) -> None:
        stamp = time.strftime("%Y_%m_%d_%H_%M_%S")
        self.root = Path(root) / "torch_compile_debug" / f"run_{stamp}_{time.time_ns() % 10**6:06d}-pid_{os.getpid()}"
        self.script, self.save = script, save
        self.collector = Collector(detail=True)
        self.written: dict[str, dict[str, int]] = {}  # by compile id: how often each kind of file

    def __call__(self, event: events.Event) -> None:
        self.collector(event)
        if not event.compile_id:
            return
        match event:
            case events.GraphCaptured(module=module):
                self.graph(event, "captured_graph", module)
            case events.GraphMade(stage=stage, module=module) if stage != "compiled_autograd":
                self.graph(event, f"{stage}_graph", module)
            case events.LoopsMade(stage=stage, loops=loops):
                text = repr(loops) if stage == "pre_fusion" else "\n\n".join(map(repr, loops))
                self.put(event, "loops_before_fusion" if stage == "pre_fusion" else "loops_after_fusion", ".txt", text)
            case events.ProgramMade(compiled=compiled):
                self.put(event, "output_code", ".cpp", compiled.source)
                self.put(event, "output_code_script", ".py", compiled.script.rstrip())
                self.put(event, "kernels", ".txt", "\n".join(ARTIFACTS["node_runtime_estimation"].text(event)))
            case events.FrameMade(code=code, made=made):
                self.put(event, "guards", ".txt", "\n".join(ARTIFACTS["verbose_guards"].text(event)))
                self.put(event, "symbols", ".txt", "\n".join(ARTIFACTS["sym_node"].text(event)))
                self.put(event, "bytecode", ".txt", f"{disassembled(code)}\n\nin its place:\n\n{disassembled(made)}")
            case events.GraphBroke():
                self.put(event, "graph_breaks", ".txt", "\n".join(ARTIFACTS["graph_breaks"].text(event)))
            case events.Recompiled():
                self.put(event, "recompiles", ".txt", "\n".join(ARTIFACTS["recompiles_verbose"].text(event)))
            case events.CaptureEnded() | events.StageEnded(name="backward"):
                self.finish(event)

    def folder(self, event: events.Event) -> Path:
        known = self.collector.of(event)
        name = re.sub(r"\W+", "_", known.function).strip("_")
        made = self.root / f"{event.compile_id.replace('/', '_')}_{name}"
        made.mkdir(parents=True, exist_ok=True)
        return made

    def put(self, event: events.Event, kind: str, suffix: str, text: str) -> Path | None:
        """A second file of a kind, such as the code of backward, gets a number."""
        if not text:
            return None
        counts = self.written.setdefault(event.compile_id, {})
        counts[kind] = counts.get(kind, 0) + 1
        number = f"_{counts[kind]}" if counts[kind] > 1 else ""
        path = self.folder(event) / f"{kind}{number}{suffix}"
        path.write_text(text + "\n")
        return path

    def graph(self, event: events.Event, kind: str, module: Any) -> None:
        count = self.written.get(event.compile_id, {}).get(kind, 0)
        constants = f"{kind}{f'_{count + 1}' if count else ''}_constants.pt"
        text, held = self.script(module, WHAT[kind], constants)
        path = self.put(event, kind, ".py", text.rstrip())
        if held and path is not None:
            self.save(held, path.parent / constants)
        if self.draws and path is not None:
            drawn = graph_of(kind, module).nodes
            texts = {n.name: f"{n.name} = {n.target}({', '.join(n.inputs)}): {n.value}" for n in drawn}
            path.with_suffix(".svg").write_text(svg({n.name: n.inputs for n in drawn}, texts))

    def finish(self, event: events.Event) -> None:
        known = self.collector.of(event)
        folder = self.folder(event)
        rows = [f"{s.seconds:10.4f} s  {'  ' * s.depth}{s.name}" for s in sorted(known.stages, key=lambda s: s.began)]
        (folder / "timings.txt").write_text("\n".join(rows) + "\n")
        kinds = [(p.name, kind_of(p)) for p in sorted(folder.iterdir()) if p.suffix != ".pt" and kind_of(p) in WHAT]
        table = "\n".join(f"| `{name}` | {WHAT[kind]} |" for name, kind in kinds)
        outcome = f"It was {known.outcome}. {known.reason}".strip()
        if known.recompiled:
            outcome += f"\n\nIt was captured again because this guard failed: `{known.recompiled}`"
        text = README.format(function=known.function, file=known.file, line=known.line, id=known.id, outcome=outcome, rows=table)  # fmt: skip
        (folder / "README.md").write_text(text)


def kind_of(path: Path) -> str:
    return re.sub(r"_\d+$", "", path.stem)
