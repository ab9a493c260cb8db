"""A captured graph that is not in the cache: differentiated, partitioned, and compiled by `compile_graph`."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from tocha import fx
from tocha._functorch.aot_autograd import aot_module_simplified, state_of
from tocha._functorch.partitioners import min_cut_rematerialization_partition
from tocha._functorch.runtime import Compiled
from tocha._inductor import codecache, config, custom_graph_pass, decomposition, freezing
from tocha._inductor.asked import Asked
from tocha._inductor.graph_cache import GraphEntry
from tocha._inductor.layouts import with_best_layout
from tocha._inductor.programs import CompiledGraph, compile_graph
from tocha._inductor.verify import Finite, Verified
from tocha._logging import events
from tocha.autograd import set_grad_enabled
from tocha.ir.loops import NotLowered

log = logging.getLogger("tocha._inductor")


def compile_inner(module: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """What differentiation ahead of time calls for each graph. A graph that has no native form runs as it is."""
    return runnable(module, compiled_or_none(module))


def runnable(module: fx.GraphModule, found: CompiledGraph | None) -> Callable[..., Any]:
    run = plainly_runnable(module, found)
    return Finite(run) if config.nan_asserts else run


def plainly_runnable(module: fx.GraphModule, found: CompiledGraph | None) -> Callable[..., Any]:
    if found is None:
        return module.forward
    return Verified(module, found.run, lambda piece: compile_graph(piece).run) if config.verify else found.run


def compiled_or_none(module: fx.GraphModule) -> CompiledGraph | None:
    if config.verify:
        module.meta["written_inputs"] = {}  # eager reads the inputs too
    try:
        return compile_graph(module)
    except NotLowered as reason:
        events.tell(events.RanUncompiled(str(reason)))
        log.warning("[inductor] a graph runs operator by operator: %s", reason)
    except codecache.CompilerError as reason:
        if not config.fallback_to_eager:
            raise
        events.tell(events.RanUncompiled(str(reason)))
        warnings.warn(f"[inductor] a graph runs operator by operator: {reason}", stacklevel=2)
    return None


class Compilation:
    """One captured graph: compiled forward now and backward when it is first needed, under the same options, and kept."""

    def __init__(self, asked: Asked):
        self.asked, self.module, self.inputs, self.options = asked, asked.module, asked.inputs, asked.options
        self.entry: GraphEntry | None = asked.entry
        self.programs: list[CompiledGraph | None] = []
        self.constants: dict[int, Any] = {}  # values of inputs that are frozen

    def run(self) -> Callable[..., Any]:
        if freezing.is_on():
            return self.frozen()
        if self.asked.has_state:
            return self.traced()
        forward = self.traced()
        if self.entry is not None and is_direct(forward) and self.programs[0] is not None:
            self.entry.save(forward.compiled, self.programs[0])
        return direct(forward)

    def frozen(self) -> Callable[..., Any]:
        """Parameters are constants of the program, which is therefore never looked for in the cache of graphs."""
        _, state = state_of(self.module)
        places = freezing.frozen_places(self.module, state, self.inputs)

        def make(args: Sequence[Any]) -> Callable[..., Any]:
            given = [*state, *args]
            again = Compilation(replace(self.asked, inputs=list(args)))
            again.constants = {i: given[i] for i in places}
            with config.patch(self.options), events.within(self.asked.compile_id):
                return direct(again.traced())

        made = freezing.Frozen([i - len(state) for i in places if i >= len(state)], make)
        made.add(self.inputs)
        return made

    def traced(self) -> Any:
        codecache.start_prelude()
        return aot_module_simplified(
            self.module, self.inputs, fw_compiler=self.compile, bw_compiler=self.compile_backward,
            partition_fn=self.partition, inference_compiler=self.compile_alone, decompositions=self.decompositions() or None,
        )  # fmt: skip

    def decompositions(self) -> dict[Any, Callable[..., Any]]:
        return {**decomposition.own(), **(self.asked.decompositions or {})}

    def partition(self, joint: fx.GraphModule, inputs: Sequence[Any], **how: Any) -> Any:
        with config.patch(self.options):
            custom_graph_pass.run(custom_graph_pass.BOTH_WAYS, joint)
            cut = getattr(config, custom_graph_pass.PARTITIONER) or min_cut_rematerialization_partition
            return cut(joint, inputs, **how)

    def compile_alone(self, graph: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        with config.patch(self.options):
            custom_graph_pass.run(custom_graph_pass.BOTH_WAYS, graph)
        return self.compile(graph, inputs, is_inference=True)

    def compile(self, graph: fx.GraphModule, inputs: Sequence[Any], **how: Any) -> Callable[..., Any]:
        if self.asked.inner is not None:
            with config.patch(self.options):
                return self.asked.inner(graph, inputs, **how)
        with config.patch(self.options):  # also where it is compiled again for arguments that lie elsewhere
            custom_graph_pass.run(custom_graph_pass.ONE_WAY, graph)
            if self.constants and "mutated_inputs" in graph.meta:
                graph = freezing.freeze(graph, self.constants)
            if not self.asked.recorded and config.max_autotune and config.layout_optimization:
                graph = with_best_layout(graph)
            self.programs.append(compiled_or_none(graph))
            return runnable(graph, self.programs[-1])

    def compile_backward(self, graph: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        with config.patch(self.options), events.within(self.asked.compile_id), events.stage("backward"):
            run = self.compile(graph, inputs, is_backward=True)
            if self.entry is not None and self.programs[-1] is not None:
                self.entry.save_backward(self.programs[-1])
            return run

    def traced_again(self) -> Compiled:
        """For the backward graph of a function whose forward came from the cache."""
        with (
            config.patch(self.options),
            set_grad_enabled(self.asked.recorded),
        ):  # a walk is under way, which records nothing
            return self.traced().compiled


def direct(forward: Any) -> Callable[..., Any]:
    if forward.compiled is None and config.nan_asserts:
        return Finite(forward)
    return forward.compiled.run if is_direct(forward) else forward


def is_direct(forward: Any) -> bool:
    """Whether the native function of the graph returns what the captured function does."""
    whole = isinstance(forward.compiled, Compiled) and forward.compiled.is_whole
    return whole and forward.out_spec.type is tuple and is_flat(forward.out_spec)


def is_flat(spec: Any) -> bool:
    return spec.type in (tuple, list) and all(child.is_leaf() for child in spec.children())
