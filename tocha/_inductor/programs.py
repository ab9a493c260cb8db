"""One functional graph as a native program: the steps from lowering to loading, and the form in which a program is kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tocha import fx
from tocha._inductor import config
from tocha._inductor.backends import backend_for
from tocha._inductor.describe import bytes_of, described, kernel_names
from tocha._inductor.entries import NotKept, encode_call, encode_constant
from tocha._inductor.graph import lower_graph
from tocha._inductor.kept import loaded
from tocha._inductor.scripts import script_of, script_without
from tocha._logging import events
from tocha.fx._scripts import examples_of, input_text
from tocha.ir.kernels import Item, Kernel
from tocha.ir.loops import Call, Program
from tocha.ir.memory import MemoryPlan


@dataclass
class CompiledGraph:
    """A graph as a native program: called with tensors in the order of its inputs, it returns a tuple."""

    program: Program
    items: list[Item]
    memory: MemoryPlan
    source: str
    run: Callable[..., tuple]
    called: list[Call]  # in the order in which the source numbers them
    given: list[tuple[str, str]] = field(
        default_factory=list
    )  # names of inputs, and expressions that make some like them

    def __call__(self, *args: Any) -> tuple:
        return self.run(*args)

    @property
    def kernels(self) -> list[Kernel]:
        return [i for i in self.items if isinstance(i, Kernel)]

    @property
    def calls(self) -> list[Call]:
        return [i for i in self.items if isinstance(i, Call)]

    @property
    def counts(self) -> list[int]:
        """Kernels; loops, products and calls before they were fused; bytes that are read and written, where sizes are known."""
        return [len(self.kernels), len(self.program.steps), sum(map(bytes_of, self.items))]

    def described(self, module: fx.GraphModule) -> dict[str, Any]:
        """Kernels, calls and memory as plain data; `module` is the graph that it was made of."""
        return described(self.items, self.memory, self.source, module)

    def kept(self) -> dict[str, Any]:
        """What a process needs to load it; raises NotKept where there is no such form."""
        return {
            "source": self.source,
            "constants": [encode_constant(value) for _, value in self.program.constants],
            "calls": [encode_call(c) for c in self.called],
            "inputs": len(self.program.inputs),
            "outputs": len(self.program.outputs),
            "kernels": list(kernel_names(self.items)),
            "counts": self.counts,
            "given": self.given,
        }

    @property
    def script(self) -> str:
        """A Python file that runs the program by itself, and measures it."""
        try:
            return script_of(self.kept())
        except NotKept as reason:
            return script_without(self.source, str(reason))


def compile_graph(module: fx.GraphModule) -> CompiledGraph:
    """From a functional graph to a native program."""
    backend = backend_for(module)
    events.tell(events.GraphMade("post_grad", module))
    with events.stage("lowering"):
        program = lower_graph(module, lambda piece: compile_graph(piece).run)
    events.tell(events.LoopsMade("pre_fusion", program))
    with events.stage("scheduling"):
        items = backend.schedule(program, module)
    events.tell(events.LoopsMade("post_fusion", items))
    with events.stage("tuning"):
        backend.tune(program, items, module)
    with events.stage("memory"):
        memory = backend.plan(program, items, module)
    with events.stage("code"):
        source, called = backend.write(program, items, memory)
    calls = tuple((c.function, c.arguments, c.holes, c.keywords or None, c.sizes is not None) for c in called)
    constants = tuple(value for _, value in program.constants)
    names = kernel_names(items)
    run = loaded(source, constants, calls, len(program.inputs), len(program.outputs), names)
    given = [(n.name, input_text(v)) for n, v in zip(module.graph.find_nodes(op="placeholder"), examples_of(module))]
    made = CompiledGraph(program, items, memory, source, run, called, given)
    events.tell(events.ProgramMade(module, made, getattr(config, "triton.cudagraphs")))
    return made
