"""The backend `inductor`: a captured graph and its inputs to a callable, from the cache or through differentiation and `compile_graph`."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from tocha import _C, fx
from tocha._functorch.aot_autograd import aot_module_simplified, state_of
from tocha._functorch.partitioners import min_cut_rematerialization_partition
from tocha._functorch.runtime import Compiled
from tocha._guards import detect_fake_mode
from tocha._inductor import codecache, config, custom_graph_pass, decomposition, freezing
from tocha._inductor.graph_cache import GraphEntry, key_of
from tocha._inductor.layouts import with_best_layout
from tocha._inductor.programs import CompiledGraph, compile_graph
from tocha._inductor.verify import Finite, Verified
from tocha._logging import events
from tocha.autograd import no_grad, set_grad_enabled
from tocha.ir.loops import NotLowered
from tocha.ir.sym_types import SymInt
from tocha.nn import Module
from tocha.utils import _pytree as pytree

__all__ = ["CompiledGraph", "compile_fx", "compile_fx_inner", "compile_graph", "compile_inner", "shape_env_from_inputs"]

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

    def __init__(self, module: fx.GraphModule, inputs: list[Any], options: dict[str, Any] | None):
        self.module, self.inputs = module, inputs
        passes = {n: getattr(config, n) for n in custom_graph_pass.SETTINGS}  # also when backward is compiled, later
        self.options = passes | {k.replace("-", "_"): v for k, v in (options or {}).items()}
        self.entry: GraphEntry | None = None
        self.programs: list[CompiledGraph | None] = []
        self.recorded = _C.is_grad_enabled()
        self.compile_id = events.compile_id()
        self.constants: dict[int, Any] = {}  # values of inputs that are frozen

    def run(self) -> Callable[..., Any]:
        with config.patch(self.options):
            if isinstance(self.module, fx.GraphModule):
                custom_graph_pass.run([custom_graph_pass.BEFORE_DIFFERENTIATION], self.module)
            if freezing.is_on():
                return self.frozen()
            if any(True for _ in self.module.parameters()) or any(True for _ in self.module.buffers()):
                return self.traced()
            parts = key_of(self.module, self.inputs) if isinstance(self.module, fx.GraphModule) else None
            if parts is None:
                return direct(self.traced())
            self.entry = GraphEntry(parts, self.module)
            found = self.entry.load(self.traced_again)
            if found is not None:
                return found.run
            forward = self.traced()
            if is_direct(forward) and self.programs[0] is not None:
                self.entry.save(forward.compiled, self.programs[0])
            return direct(forward)

    def frozen(self) -> Callable[..., Any]:
        """Parameters are constants of the program, which is therefore never looked for in the cache of graphs."""
        _, state = state_of(self.module)
        places = freezing.frozen_places(self.module, state, self.inputs)

        def make(args: Sequence[Any]) -> Callable[..., Any]:
            given = [*state, *args]
            again = Compilation(self.module, list(args), self.options)
            again.constants = {i: given[i] for i in places}
            with config.patch(self.options), events.within(self.compile_id):
                return direct(again.traced())

        made = freezing.Frozen([i - len(state) for i in places if i >= len(state)], make)
        made.add(self.inputs)
        return made

    def traced(self) -> Any:
        codecache.start_prelude()
        return aot_module_simplified(
            self.module, self.inputs, fw_compiler=self.compile, bw_compiler=self.compile_backward,
            partition_fn=self.partition, inference_compiler=self.compile_alone, decompositions=decomposition.own() or None,
        )  # fmt: skip

    def partition(self, joint: fx.GraphModule, inputs: Sequence[Any], **how: Any) -> Any:
        with config.patch(self.options):
            custom_graph_pass.run(custom_graph_pass.BOTH_WAYS, joint)
        return min_cut_rematerialization_partition(joint, inputs, **how)

    def compile_alone(self, graph: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        with config.patch(self.options):
            custom_graph_pass.run(custom_graph_pass.BOTH_WAYS, graph)
        return self.compile(graph, inputs)

    def compile(self, graph: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        with config.patch(self.options):  # also where it is compiled again for arguments that lie elsewhere
            custom_graph_pass.run(custom_graph_pass.ONE_WAY, graph)
            if self.constants and "mutated_inputs" in graph.meta:
                graph = freezing.freeze(graph, self.constants)
            if not self.recorded and config.max_autotune and config.layout_optimization:
                graph = with_best_layout(graph)
            self.programs.append(compiled_or_none(graph))
            return runnable(graph, self.programs[-1])

    def compile_backward(self, graph: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        with config.patch(self.options), events.within(self.compile_id), events.stage("backward"):
            run = self.compile(graph, inputs)
            if self.entry is not None and self.programs[-1] is not None:
                self.entry.save_backward(self.programs[-1])
            return run

    def traced_again(self) -> Compiled:
        """For the backward graph of a function whose forward came from the cache."""
        with config.patch(self.options), set_grad_enabled(self.recorded):  # a walk is under way, which records nothing
            return self.traced().compiled


def direct(forward: Any) -> Callable[..., Any]:
    return forward.compiled.run if is_direct(forward) else forward


def is_direct(forward: Any) -> bool:
    """Whether the native function of the graph returns what the captured function does."""
    spec = forward.out_spec
    flat = spec.type is tuple and all(child.is_leaf() for child in spec.children())
    return flat and isinstance(forward.compiled, Compiled) and forward.compiled.is_whole


def compile_fx(
    module: fx.GraphModule,
    example_inputs: Sequence[Any],
    options: dict[str, Any] | None = None,
    config_patches: dict[str, Any] | None = None,
) -> Callable[..., Any]:
    """The backend: differentiates, partitions and compiles, or finds what was made of the same graph before. Options are settings, too."""
    return Compilation(module, list(example_inputs), {**(config_patches or {}), **(options or {})}).run()


def compile_fx_inner(
    gm: fx.GraphModule, example_inputs: Sequence[Any], **settings: Any
) -> Callable[[list[Any]], Sequence[Any]]:
    """A graph of operators, as make_fx gives it, without gradients: a callable that takes its arguments as a list, which it empties.
    PyTorch's other settings say how it was called, and change nothing here."""
    with no_grad():
        compiled = compile_fx(gm, example_inputs)

    def boxed(args: list[Any]) -> Sequence[Any]:
        given = list(args)
        if isinstance(args, list):
            args.clear()
        with no_grad():
            return compiled(*given)

    boxed._boxed_call = True  # type: ignore[attr-defined]
    return boxed


class OfLeaves(Module):
    """A module that takes the leaves of its arguments."""

    def __init__(self, of: Callable[..., Any], spec: pytree.TreeSpec):
        super().__init__()
        self.of, self.spec = of, spec

    def forward(self, *leaves: Any) -> Any:
        return self.of(*pytree.tree_unflatten(leaves, self.spec))


def compile_nested(
    module: Any, example_inputs: Sequence[Any], options: dict[str, Any] | None = None
) -> Callable[..., Any]:
    """The same for arguments that hold tensors in lists and dicts."""
    leaves, spec = pytree.tree_flatten(tuple(example_inputs))
    compiled = compile_fx(OfLeaves(module, spec), leaves, options)  # type: ignore[arg-type]

    def call(*args: Any) -> Any:
        given, found = pytree.tree_flatten(args)
        if found != spec:
            raise ValueError(f"[compile] arguments are nested as {found}, and were {spec} when the graph was compiled")
        return compiled(*given)

    return call


def shape_env_from_inputs(inputs: Sequence[Any]) -> Any:
    """Where the symbols of these inputs live: fake tensors, or symbols themselves; None of others."""
    mode = detect_fake_mode(inputs)
    if mode is not None:
        return mode.shape_env
    return next((x.node.shape_env for x in inputs if isinstance(x, SymInt)), None)
