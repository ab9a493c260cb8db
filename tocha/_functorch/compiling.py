"""From a traced function to its compiled form: partitioned, compiled forward, and backward when that is first needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tocha import _C
from tocha._functorch.functionalize import NotFunctional, root_of
from tocha._functorch.joint import Traced, symbol_places
from tocha._functorch.runtime import Compiled, call, wrapped
from tocha._functorch.views import has_symbols, overlaps
from tocha._functorch.wrapping import RAW, VIEW_OF_RAW, Layout, Wrapping
from tocha._logging import events
from tocha._subclasses.fake import FakeTensor
from tocha.fx import GraphModule, Node
from tocha.ir.layout import dense_order

# Backward may run inside of a function that is being captured: neither compiling it nor its code is for capture.
_call_uncaptured = _C._capture.Wrapper(call, None)


def with_its_own_casts(compiled: Callable) -> Callable:
    """A graph holds the casts of the regions it was traced in: one that runs operator by operator is not cast again by the
    region that it is called in. Native programs ask no region."""
    if type(compiled).__module__ == _C.__name__:
        return compiled

    def run(*args: Any) -> Any:
        casting = [d for d in ("cpu", "cuda") if _C.is_autocast_enabled(d)]
        for device in casting:
            _C.set_autocast_enabled(device, False)
        try:
            return compiled(*args)
        finally:
            for device in casting:
                _C.set_autocast_enabled(device, True)

    run._boxed_call = getattr(compiled, "_boxed_call", False)  # type: ignore[attr-defined]
    return run


class Backward:
    """The backward graph, compiled when it is first needed."""

    def __init__(self, module: GraphModule, compiler: Callable):
        self.module, self.compiler = module, compiler
        self.compiled: Callable | None = None
        self.examples = [n.meta.get("val") for n in module.graph.find_nodes(op="placeholder")]

    def compile(self, args: Sequence[Any]) -> Callable:
        if self.compiled is None:
            compiled = _C._capture.Wrapper(self.compiler, None)(self.module, list(args))
            self.compiled = with_its_own_casts(compiled)
        return self.compiled

    def __call__(self, args: Sequence[Any]) -> list[Any]:
        if any(isinstance(a, FakeTensor) for a in args):  # whoever traces sees the graph itself
            return call(self.module, args)
        return _call_uncaptured(self.compile(args), args)

    def callable(self) -> Callable:
        """What takes its arguments one by one."""
        compiled = self.compile(self.examples)
        if not getattr(compiled, "_boxed_call", False):
            native = type(compiled).__module__ == _C.__name__
            return compiled if native else _C._capture.Wrapper(compiled, None)
        return _C._capture.Wrapper(lambda *args: compiled(list(args)), None)


def wrapping_of(traced: Traced) -> Wrapping:
    layouts = [layout_of_tangent(t) for t in traced.tangents]
    made = Wrapping(
        traced.num_raw, traced.outputs, traced.mutations, traced.differentiable, layouts, [], traced.sources,
        traced.refusals, traced.on_bases, traced.wrappers, traced.tangents if traced.wrappers is not None else [],
    )  # fmt: skip
    symbolic = any(step.is_symbolic for o in traced.outputs for step in o.chain)
    symbolic |= any(has_symbols(m.geometry) for m in traced.mutations)
    if symbolic and traced.wrappers is not None:
        raise NotFunctional("[aot_autograd] views of sizes that change, beside tensor subclasses")
    if symbolic:
        results = traced.module.graph.output_node().args[0][: traced.num_raw]  # type: ignore[index]
        raws = [n.meta.get("val") if isinstance(n, Node) else n for n in results]
        for is_raw, values in ((True, raws), (False, traced.fakes)):
            made.symbols |= {atom: (is_raw, i, d) for atom, (i, d) in symbol_places(values).items()}
    return made


def layout_of_tangent(t: FakeTensor) -> Layout:
    if not t._symbolic:
        return tuple(t.shape), tuple(t.stride())
    order = dense_order(t._facts.sizes, t._facts.steps)
    return tuple(range(t.ndim - 1, -1, -1) if order is None else order), ()  # without an order it was made contiguous


def overwritten_later(traced: Traced, forward: GraphModule) -> set[int]:
    """Which saved values lie on inputs that are written to after the graph has run, while backward needs them as they are now."""
    mutated = {m.input for m in traced.mutations}
    mutated = mutated if traced.wrappers is None else traced.wrappers.places(mutated)
    places = {n: i for i, n in enumerate(forward.graph.find_nodes(op="placeholder"))}
    saved = forward.graph.output_node().args[0][traced.num_raw :]  # type: ignore[index]
    return {i for i, n in enumerate(saved) if isinstance(n, Node) and places.get(root_of(n)) in mutated}  # type: ignore[arg-type]


def written_inputs(traced: Traced, w: Wrapping) -> dict[int, int]:
    """Results of the graph that are new values of inputs and nothing else, where the graph may write to the input itself."""
    if not w.is_native or w.copied:
        return {}
    handed_out = {o.index for o in w.outputs if o.kind in (RAW, VIEW_OF_RAW)}
    places: dict[int, int] = {}
    for m in w.mutations:
        given_twice = sum(f is traced.fakes[m.input] for f in traced.fakes) > 1
        seen = m.raw in w.with_history
        seen |= m.recorded and traced.fakes[m.input].requires_grad
        if m.raw is None or overlaps(traced.fakes[m.input]):
            continue
        if m.raw not in handed_out and not seen and not given_twice:
            places[m.raw] = m.input
    return places


def compile_traced(
    traced: Traced, fw_compiler: Callable, bw_compiler: Callable, partition_fn: Callable, inference_compiler: Callable
) -> Compiled:
    """Partitions and compiles a traced function."""
    w = wrapping_of(traced)
    if not traced.is_joint:
        traced.module.meta["written_inputs"] = written_inputs(traced, w)
        if w.on_bases is None and w.wrappers is None:  # the graph's inputs are the function's
            traced.module.meta["mutated_inputs"] = {m.input for m in w.mutations}
        events.tell(events.GraphMade("inference", traced.module))
        return wrapped(w, with_its_own_casts(inference_compiler(traced.module, traced.fakes)))
    inputs = [*traced.fakes, *traced.tangents]
    events.tell(events.GraphMade("joint", traced.module))
    with events.stage("partition"):
        forward, backward = partition_fn(traced.module, inputs, num_fwd_outputs=traced.num_raw)
    events.tell(events.GraphMade("forward", forward))
    events.tell(events.GraphMade("backward", backward))
    backward.meta["given_away"] = True  # what is kept for it goes with the last use
    w.copied = sorted(overwritten_later(traced, forward))
    forward.meta["written_inputs"] = written_inputs(traced, w)
    compiled = with_its_own_casts(fw_compiler(forward, traced.fakes))
    return wrapped(w, compiled, Backward(backward, bw_compiler))
