"""Running compiled graphs: one autograd node for the whole graph, writes to inputs after it, views of inputs made outside of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tocha import _C, autograd
from tocha._functorch.functionalize import root_of
from tocha._functorch.joint import CONSTANT, INPUT, PART, RAW, VIEW_OF_INPUT, Mutation, Output, Traced
from tocha._functorch.wrappers import as_traced, at_path, built_all, count, flat_all
from tocha._subclasses.fake import FakeTensor, version_of
from tocha.fx import GraphModule, Node

Tensor = _C.Tensor


def call(compiled: Callable, args: Sequence[Any]) -> list[Any]:
    """What a compiler returned takes a list (boxed) or arguments."""
    out = compiled(list(args)) if getattr(compiled, "_boxed_call", False) else compiled(*args)
    return list(out) if isinstance(out, list | tuple) else [out]


class Backward:
    """The backward graph, compiled when it is first needed."""

    def __init__(self, module: GraphModule, compiler: Callable):
        self.module, self.compiler = module, compiler
        self.compiled: Callable | None = None
        self.examples = [n.meta.get("val") for n in module.graph.find_nodes(op="placeholder")]

    def compile(self, args: Sequence[Any]) -> Callable:
        if self.compiled is None:
            self.compiled = self.compiler(self.module, list(args))
        return self.compiled

    def __call__(self, args: Sequence[Any]) -> list[Any]:
        if any(isinstance(a, FakeTensor) for a in args):  # whoever traces sees the graph itself
            return call(self.module, args)
        return call(self.compile(args), args)

    def callable(self) -> Callable:
        """What takes its arguments one by one."""
        compiled = self.compile(self.examples)
        return (lambda *args: compiled(list(args))) if getattr(compiled, "_boxed_call", False) else compiled


def laid_out(grad: Tensor, like: Any) -> Tensor:
    """A gradient in the layout that backward was traced with."""
    if like._symbolic or grad.stride() == like.stride() or grad.layout is not _C.strided:
        return grad if not like._symbolic else grad.contiguous()
    made = _C.empty_strided(like.shape, like.stride(), dtype=grad.dtype, device=grad.device)
    return made.copy_(grad)


def overwritten_later(traced: Traced, forward: GraphModule) -> set[int]:
    """Which saved values lie on inputs that are written to after the graph has run, while backward needs them as they are now."""
    mutated = {m.input for m in traced.mutations}
    mutated = mutated if traced.wrappers is None else traced.wrappers.places(mutated)
    places = {n: i for i, n in enumerate(forward.graph.find_nodes(op="placeholder"))}
    saved = forward.graph.output_node().args[0][traced.num_raw :]  # type: ignore[index]
    return {i for i, n in enumerate(saved) if isinstance(n, Node) and places.get(root_of(n)) in mutated}  # type: ignore[arg-type]


def tangents_of(traced: Traced, grads: Sequence[Any]) -> list[Any]:
    """The gradients of results as backward takes them: of the classes and layouts that it was traced with."""
    given = [grads[i] for i in traced.differentiable]
    wrappers = traced.wrappers
    if wrappers is None:
        for k, g in enumerate(given):
            if type(g) is not Tensor:
                given[k] = as_traced(g, None, traced.differentiable[k])
    else:
        left = iter(traced.tangents)
        for k, (g, layout) in enumerate(zip(given, wrappers.tangents, strict=True)):
            likes = [next(left) for _ in range(count(layout))]
            if g is None:
                zeros = [_C.zeros(t.shape, dtype=t.dtype, device=t.device) for t in likes]
                given[k] = built_all([layout], zeros)[0]
            else:
                given[k] = as_traced(g, layout, traced.differentiable[k])
        given = flat_all(given)
    return [laid_out(g, like) for g, like in zip(given, traced.tangents, strict=True)]


def node_for(traced: Traced, forward: Callable, backward: Backward, copied: set[int]) -> tuple[type[autograd.Function], Callable]:  # fmt: skip
    """The autograd function whose forward and backward are the compiled graphs, and a backward that refuses to be differentiated."""
    wrappers = traced.wrappers

    def gradients(args: Sequence[Any]) -> tuple:
        found = backward(args)
        return tuple(found if wrappers is None else built_all(wrappers.grads, found))

    class CompiledFunctionBackward(autograd.Function):
        @staticmethod
        def forward(ctx: Any, args: Sequence[Any], *recorded: Any) -> Any:
            return gradients(args)

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            raise RuntimeError("tocha.compile with aot_autograd does not currently support double backward")

    class CompiledFunction(autograd.Function):
        is_compiled_graph = True  # what its backward calls is a graph, and may become part of another

        @staticmethod
        def forward(ctx: Any, *args: Any) -> Any:
            found = call(forward, args if wrappers is None else wrappers.taken_apart(args))
            raw, saved = found[: traced.num_raw], found[traced.num_raw :]
            for i in copied:
                saved[i] = saved[i].clone()
            ctx.save_for_backward(*(s for s in saved if isinstance(s, Tensor)))
            ctx.numbers = [s for s in saved if not isinstance(s, Tensor)]
            if wrappers is not None:
                raw = built_all(wrappers.raws, raw)
                ctx.set_materialize_grads(False)  # zeros of which class, nobody but the trace knows
            ctx.mark_non_differentiable(
                *(r for i, r in enumerate(raw) if isinstance(r, Tensor) and i not in traced.differentiable)
            )
            return tuple(raw)

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            args = [*ctx.numbers, *ctx.saved_tensors, *tangents_of(traced, grads)]
            if _C.is_grad_enabled():
                recorded = [a for a in (*ctx.saved_tensors, *grads) if isinstance(a, Tensor) and a.requires_grad]
                if recorded:
                    return CompiledFunctionBackward.apply(args, *recorded)
            return gradients(args)

    def refuse(*args: Any) -> tuple:
        return CompiledFunctionBackward.apply(args, *(a for a in args if isinstance(a, Tensor) and a.requires_grad))

    return CompiledFunction, refuse


def make_room(target: Tensor, geometry: tuple) -> None:
    """Memory for a tensor that is about to grow."""
    sizes, strides, offset = geometry
    if 0 in sizes:
        return
    last = offset + sum((n - 1) * step for n, step in zip(sizes, strides, strict=True))
    needed = (last + 1) * target.element_size()
    if needed > target.untyped_storage().nbytes():
        target.untyped_storage().resize_(needed)


NATIVE_KINDS = {RAW: 0, INPUT: 1, CONSTANT: 2}


class Compiled:
    """A function of flat arguments: the graph, and what is done around it. `run` takes arguments and returns the graph's results;
    where all that is done around the graph is native, it returns the function's."""

    def __init__(self, traced: Traced, run: Callable[..., Sequence[Any]]):
        self.traced, self.run = traced, run
        self.is_whole = is_native_around(traced)

    def __call__(self, args: Sequence[Any]) -> list[Any]:
        if self.is_whole:
            return list(self.run(*args))
        on_bases = self.traced.on_bases
        given = args if on_bases is None else on_bases.inner(args)
        raw = self.run(*given)
        if on_bases is not None:
            given = [*given, *args]
        for m in self.traced.mutations:
            self.write(m, given[m.input], raw)
        return [self.result(o, given, raw) for o in self.traced.outputs]

    def write(self, m: Mutation, target: Tensor, raw: Sequence[Any]) -> None:
        """A new value for an input, and as many versions more as the program gave it."""
        left, before = m.writes, version_of(target)
        with autograd.no_grad():
            if m.memory and m.raw is not None:
                target.set_(raw[m.raw])
            elif m.geometry is not None:
                make_room(target, m.geometry)
                target.as_strided_(*m.geometry)
        left -= version_of(target) - before
        if m.raw is not None and not m.memory:
            if left <= 0 and not target.is_inference():  # written through .data, which has a version of its own
                target = target.data
            with autograd.set_grad_enabled(m.recorded and _C.is_grad_enabled()):
                target.copy_(raw[m.raw])
            left -= 1
        for _ in range(left):
            target._bump_version()

    def result(self, o: Output, args: Sequence[Any], raw: Sequence[Any]) -> Any:
        if o.kind == CONSTANT:
            return o.value
        if o.kind == RAW:
            return raw[o.index]
        if o.kind == INPUT:
            return args[o.index]
        if o.kind == PART:
            return at_path(args[o.index], o.path)
        base = args[o.index] if o.kind == VIEW_OF_INPUT else raw[o.index]
        with autograd.set_grad_enabled(_C.is_grad_enabled() and o.recorded):
            for step in o.chain:
                base = step.apply(base)
        return base


def is_plain_write(m: Mutation) -> bool:
    """Whether a write only puts values in: no other geometry or memory, and not through .data."""
    return m.raw is not None and m.geometry is None and not m.memory and m.writes > 0


def is_native_around(traced: Traced) -> bool:
    plain = all(o.kind in NATIVE_KINDS for o in traced.outputs) and all(map(is_plain_write, traced.mutations))
    return plain and traced.on_bases is None and traced.wrappers is None


def written_inputs(traced: Traced) -> dict[int, int]:
    """Results of the graph that are new values of inputs and nothing else, where the graph may write to the input itself."""
    if not is_native_around(traced):
        return {}
    handed_out = {o.index for o in traced.outputs if o.kind == RAW}
    places: dict[int, int] = {}
    for m in traced.mutations:
        given_twice = sum(f is traced.fakes[m.input] for f in traced.fakes) > 1
        seen = m.raw in traced.differentiable or (m.recorded and traced.fakes[m.input].requires_grad)
        if m.raw is not None and m.raw not in handed_out and not seen and not given_twice:
            places[m.raw] = m.input
    return places


def native(traced: Traced, forward: Callable, slow: Callable, copied: set[int] | None = None, backward: Backward | None = None, refuse: Any = None) -> Callable:  # fmt: skip
    """The graph with its node and its writes, as one native function. `slow`: the same for tensors that others take over."""
    outputs = writes = None
    if is_native_around(traced):
        outputs = tuple((NATIVE_KINDS[o.kind], max(o.index, 0), o.value) for o in traced.outputs)
        writes = tuple((m.input, m.raw, m.recorded, m.writes) for m in traced.mutations)

        def otherwise(*args: Any) -> tuple:
            return tuple(around(args))

        around = Compiled(traced, slow)
        around.is_whole = False
    else:
        otherwise = slow

    def backward_otherwise(*args: Any) -> tuple:
        assert backward is not None
        first = len(args) - len(traced.differentiable)
        tangents = [as_traced(g, None, i) for g, i in zip(args[first:], traced.differentiable, strict=True)]
        laid = [laid_out(g, like) for g, like in zip(tangents, traced.tangents, strict=True)]
        return tuple(backward([*args[:first], *laid]))

    layouts = tuple(None if t._symbolic else (tuple(t.shape), tuple(t.stride())) for t in traced.tangents)
    boxed = getattr(forward, "_boxed_call", False)
    return _C._CompiledFunction(
        forward, boxed, traced.num_raw, tuple(traced.differentiable), layouts, tuple(sorted(copied or ())),
        backward.callable if backward else None, refuse, otherwise, backward_otherwise, outputs, writes or (),
    )  # fmt: skip


def compile_traced(
    traced: Traced, fw_compiler: Callable, bw_compiler: Callable, partition_fn: Callable, inference_compiler: Callable
) -> Compiled:
    """Partitions and compiles a traced function."""
    if not traced.is_joint:
        traced.module.meta["written_inputs"] = written_inputs(traced)
        compiled = inference_compiler(traced.module, traced.fakes)

        def infer(*args: Any) -> Sequence[Any]:
            with autograd.no_grad():
                wrappers = traced.wrappers
                if wrappers is None:
                    return call(compiled, args)
                return built_all(wrappers.raws, call(compiled, wrappers.taken_apart(args)))

        return Compiled(traced, native(traced, compiled, infer) if traced.wrappers is None else infer)
    inputs = [*traced.fakes, *traced.tangents]
    forward, backward = partition_fn(traced.module, inputs, num_fwd_outputs=traced.num_raw)
    copied = overwritten_later(traced, forward)
    forward.meta["written_inputs"] = {} if copied else written_inputs(traced)
    compiled_forward = fw_compiler(forward, traced.fakes)
    later = Backward(backward, bw_compiler)
    function, refuse = node_for(traced, compiled_forward, later, copied)
    if traced.wrappers is not None:
        return Compiled(traced, function.apply)
    return Compiled(traced, native(traced, compiled_forward, function.apply, copied, later, refuse))


def is_fake(t: object) -> bool:
    return isinstance(t, FakeTensor)
