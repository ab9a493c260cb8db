"""The backend `inductor`: a graph module and its inputs to a callable, by the steps that are listed in `compile_graph`."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tocha import _C, fx
from tocha._functorch.aot_autograd import aot_module_simplified
from tocha._functorch.partitioners import min_cut_rematerialization_partition
from tocha._functorch.runtime import Compiled
from tocha._inductor import codecache, config
from tocha._inductor.graph import lower_graph
from tocha._inductor.schedule import schedule
from tocha.codegen.cpp_program import ProgramWriter
from tocha.ir.kernels import Item, Kernel
from tocha.ir.loops import Call, NotLowered, Program
from tocha.ir.memory import MemoryPlan, plan_memory

log = logging.getLogger("tocha._inductor")


@dataclass
class CompiledGraph:
    """A graph as a native program: called with tensors in the order of its inputs, it returns a tuple."""

    program: Program
    items: list[Item]
    memory: MemoryPlan
    source: str
    run: Callable[..., tuple]

    def __call__(self, *args: Any) -> tuple:
        return self.run(*args)

    @property
    def kernels(self) -> list[Kernel]:
        return [i for i in self.items if isinstance(i, Kernel)]

    @property
    def calls(self) -> list[Call]:
        return [i for i in self.items if isinstance(i, Call)]


def compile_graph(module: fx.GraphModule) -> CompiledGraph:
    """From a functional graph to a native program."""
    program = lower_graph(module)
    items = schedule(program)
    memory = plan_memory(program, items, module.meta.get("written_inputs"))
    writer = ProgramWriter(program, items, memory)
    source = writer.write()
    library = codecache.library_of(source)
    calls = tuple((c.function, c.arguments, c.holes, c.keywords or None, c.sizes is not None) for c in writer.calls)
    constants = tuple(value for _, value in program.constants)
    run = _C._load_program(str(library), constants, calls, len(program.inputs), len(program.outputs))
    return CompiledGraph(program, items, memory, source, run)


def compile_inner(module: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """What differentiation ahead of time calls for each graph. A graph that has no native form runs as it is."""
    try:
        return compile_graph(module).run
    except NotLowered as reason:
        log.warning("[inductor] a graph runs operator by operator: %s", reason)
    except codecache.CompilerError as reason:
        if not config.fallback_to_eager:
            raise
        warnings.warn(f"[inductor] a graph runs operator by operator: {reason}", stacklevel=2)
    return module.forward


def compile_fx(
    module: fx.GraphModule, example_inputs: Sequence[Any], options: dict[str, Any] | None = None
) -> Callable[..., Any]:
    """The backend: differentiates, partitions and compiles, backward under the same options when it is first needed."""

    def compiler(graph: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        with config.patch(options):
            return compile_inner(graph, inputs)

    forward = aot_module_simplified(
        module, example_inputs, fw_compiler=compiler, bw_compiler=compiler,
        partition_fn=min_cut_rematerialization_partition,
    )  # fmt: skip
    has_state = next(module.parameters(), None) is not None or next(module.buffers(), None) is not None
    return forward.compiled.run if is_direct(forward) and not has_state else forward


def is_direct(forward: Any) -> bool:
    """Whether the native function of the graph returns what the captured function does."""
    spec = forward.out_spec
    flat = spec.type is tuple and all(child.is_leaf() for child in spec.children())
    return flat and isinstance(forward.compiled, Compiled) and forward.compiled.is_whole
