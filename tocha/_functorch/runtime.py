"""Running compiled graphs: one autograd node for the whole graph, writes to inputs after it, views of inputs made outside of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tocha import _C, autograd
from tocha._functorch.functionalize import Step, has_symbols, numbers_at, overlaps, root_of, without_repeats
from tocha._functorch.joint import (
    CONSTANT,
    INPUT,
    PART,
    RAW,
    VIEW_OF_INPUT,
    VIEW_OF_RAW,
    Mutation,
    Output,
    Refusal,
    Traced,
    symbol_places,
)
from tocha._functorch.synthetic_bases import OnBases
from tocha._functorch.wrappers import as_traced, at_path, built_all, count, flat_all
from tocha._logging import events
from tocha._subclasses.fake import FakeTensor, version_of
from tocha.fx import GraphModule, Node
from tocha.ir.layout import dense_order, strides_in_order
from tocha.ir.symbolic import Atom

Tensor = _C.Tensor


def call(compiled: Callable, args: Sequence[Any]) -> list[Any]:
    """What a compiler returned takes a list (boxed) or arguments."""
    out = compiled(list(args)) if getattr(compiled, "_boxed_call", False) else compiled(*args)
    return list(out) if isinstance(out, list | tuple) else [out]


# Backward may run inside of a function that is being captured: neither compiling it nor its code is for capture.
_call_uncaptured = _C._capture.Wrapper(call, None)


class Backward:
    """The backward graph, compiled when it is first needed."""

    def __init__(self, module: GraphModule, compiler: Callable):
        self.module, self.compiler = module, compiler
        self.compiled: Callable | None = None
        self.examples = [n.meta.get("val") for n in module.graph.find_nodes(op="placeholder")]

    def compile(self, args: Sequence[Any]) -> Callable:
        if self.compiled is None:
            self.compiled = _C._capture.Wrapper(self.compiler, None)(self.module, list(args))
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


# Sizes and strides; where those are symbols the order of dims from the innermost on, and nothing.
Layout = tuple[tuple[int, ...], tuple[int, ...]]
NATIVE_KINDS = {RAW: 0, INPUT: 1, CONSTANT: 2}
VIEW = 3
ORIGINS = {VIEW_OF_RAW: NATIVE_KINDS[RAW], VIEW_OF_INPUT: NATIVE_KINDS[INPUT]}


@dataclass
class Wrapping:
    """What is done around a compiled graph. It holds nothing of the graph, and can be written down."""

    num_raw: int
    outputs: list[Output]
    mutations: list[Mutation]
    differentiable: list[int] = field(default_factory=list)
    layouts: list[Layout] = field(default_factory=list)  # that backward was traced with
    copied: list[int] = field(default_factory=list)  # saved values that are written to after the graph has run
    sources: list[list[int]] = field(default_factory=list)  # per input: the tangents that reach it
    refusals: list[Refusal] = field(default_factory=list)
    on_bases: OnBases | None = None
    wrappers: Any = None
    tangents: list[Any] = field(default_factory=list)  # fakes, for those that wrappers are made of
    # Where symbols that views are made with are read: off an input (or a raw result), a number's place or a tensor's and its dim.
    symbols: dict[Atom, tuple[bool, int, int | None]] = field(default_factory=dict)

    @property
    def with_history(self) -> set[int]:
        """Raw results that are recorded, whether or not their gradients can be had."""
        return {*self.differentiable, *(r.raw for r in self.refusals)}

    @property
    def is_native(self) -> bool:
        """Whether nothing but the native function is needed."""
        plain = all(map(is_plain_result, self.outputs)) and all(map(is_plain_write, self.mutations))
        return plain and self.on_bases is None and self.wrappers is None


def is_plain_result(o: Output) -> bool:
    """Whether a result is a value that is there, or a view of one by numbers that do not change."""
    return o.kind in NATIVE_KINDS or (o.kind in ORIGINS and not any(step.is_symbolic for step in o.chain))


def is_plain_write(m: Mutation) -> bool:
    """Whether a write only puts values in: no other geometry or memory."""
    return m.raw is not None and m.geometry is None and not m.memory


def wrapping_of(traced: Traced) -> Wrapping:
    layouts = [layout_of_tangent(t) for t in traced.tangents]
    made = Wrapping(
        traced.num_raw, traced.outputs, traced.mutations, traced.differentiable, layouts, [], traced.sources,
        traced.refusals, traced.on_bases, traced.wrappers, traced.tangents if traced.wrappers is not None else [],
    )  # fmt: skip
    symbolic = any(step.is_symbolic for o in traced.outputs for step in o.chain)
    symbolic |= any(has_symbols(m.geometry) for m in traced.mutations)
    if symbolic and traced.wrappers is None:
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


def laid_out(grad: Tensor, like: Layout) -> Tensor:
    """A gradient in the layout that backward was traced with."""
    if grad.layout is not _C.strided:
        return grad
    order, strides = like
    return with_strides(grad, strides if len(strides) == grad.ndim else tuple(strides_in_order(grad.shape, order)))


def with_strides(t: Tensor, strides: tuple[int, ...]) -> Tensor:
    return t if t.stride() == strides else _C.empty_strided(t.shape, strides, dtype=t.dtype, device=t.device).copy_(t)


def overwritten_later(traced: Traced, forward: GraphModule) -> set[int]:
    """Which saved values lie on inputs that are written to after the graph has run, while backward needs them as they are now."""
    mutated = {m.input for m in traced.mutations}
    mutated = mutated if traced.wrappers is None else traced.wrappers.places(mutated)
    places = {n: i for i, n in enumerate(forward.graph.find_nodes(op="placeholder"))}
    saved = forward.graph.output_node().args[0][traced.num_raw :]  # type: ignore[index]
    return {i for i, n in enumerate(saved) if isinstance(n, Node) and places.get(root_of(n)) in mutated}  # type: ignore[arg-type]


def tangents_of(w: Wrapping, grads: Sequence[Any], kinds: Sequence[tuple]) -> list[Any]:
    """The gradients of results as backward takes them: of the classes and layouts that it was traced with.

    `kinds`: sizes, dtype and device of each, for those that did not come.
    """
    given = [grads[i] for i in w.differentiable]
    wrappers = w.wrappers
    if wrappers is None:
        for k, g in enumerate(given):
            if g is None:
                sizes, dtype, device = kinds[k]
                given[k] = _C.zeros(sizes, dtype=dtype, device=device)
            elif type(g) is not Tensor:
                given[k] = as_traced(g, None, w.differentiable[k])
    else:
        left = iter(w.tangents)
        for k, (g, layout) in enumerate(zip(given, wrappers.tangents, strict=True)):
            likes = [next(left) for _ in range(count(layout))]
            if g is None:
                zeros = [_C.zeros(t.shape, dtype=t.dtype, device=t.device) for t in likes]
                given[k] = built_all([layout], zeros)[0]
            else:
                given[k] = as_traced(g, layout, w.differentiable[k])
        given = flat_all(given)
    return [laid_out(g, like) for g, like in zip(given, w.layouts, strict=True)]


def copied(t: Tensor) -> Tensor:
    """A copy with the gaps and repetitions that a tensor has: backward was compiled for its strides."""
    made = _C.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=t.device)
    without_repeats(made).copy_(without_repeats(t))
    return made


def refuse_missing(w: Wrapping, needed: Sequence[bool], grads: Sequence[Any]) -> None:
    """Raises where a gradient came that cannot be taken on to an input that needs it."""
    for r in w.refusals:
        if grads[r.raw] is not None and any(needed[i] for i in r.inputs):
            raise r.error()


def node_for(w: Wrapping, forward: Callable, backward: Callable) -> tuple[type[autograd.Function], Callable]:  # fmt: skip
    """The autograd function whose forward and backward are the compiled graphs, and a backward that refuses to be differentiated."""
    wrappers = w.wrappers

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
            raw, saved = found[: w.num_raw], found[w.num_raw :]
            for i in w.copied:
                saved[i] = copied(saved[i])
            ctx.save_for_backward(*(s for s in saved if isinstance(s, Tensor)))
            ctx.numbers = [s for s in saved if not isinstance(s, Tensor)]
            if wrappers is not None:
                raw = built_all(wrappers.raws, raw)
            # Zeros of which class, nobody but the trace knows; and a refusal is for gradients that came.
            ctx.set_materialize_grads(wrappers is None and not w.refusals)
            ctx.kinds = [(raw[i].shape, raw[i].dtype, raw[i].device) for i in w.differentiable]
            ctx.mark_non_differentiable(
                *(r for i, r in enumerate(raw) if isinstance(r, Tensor) and i not in w.with_history)
            )
            return tuple(raw)

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            refuse_missing(w, ctx.needs_input_grad, grads)
            args = [*ctx.numbers, *ctx.saved_tensors, *tangents_of(w, grads, ctx.kinds)]
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


class Compiled:
    """A function of flat arguments: the graph, and what is done around it. `run` takes arguments and returns the graph's results;
    where all that is done around the graph is native, it returns the function's."""

    def __init__(self, wrapping: Wrapping, run: Callable[..., Sequence[Any]], is_whole: bool = False):
        self.wrapping, self.run, self.is_whole = wrapping, run, is_whole
        self.shared = list(map(shared_call, wrapping.outputs))
        self.backward: Any = None  # what compiles the backward graph

    def __call__(self, args: Sequence[Any]) -> list[Any]:
        if self.is_whole:
            return list(self.run(*args))
        on_bases = self.wrapping.on_bases
        given = args if on_bases is None else on_bases.inner(args)
        raw = self.run(*given)
        if on_bases is not None:
            given = [*given, *args]
        values = self.symbol_values(given, raw) if self.wrapping.symbols else {}  # of inputs as they came
        moved = {id(given[m.input]) for m in self.wrapping.mutations if m.memory}
        if moved:  # a program may return an input for a view of all of it: what lies on its memory now stays there
            raw = [r.detach() if id(r) in moved else r for r in raw]
        for m in self.wrapping.mutations:
            self.write(m, given[m.input], raw, values)
        parts: dict[tuple, list] = {}
        return [self.result(i, given, raw, values, parts) for i in range(len(self.wrapping.outputs))]

    def write(self, m: Mutation, target: Tensor, raw: Sequence[Any], values: Mapping[Atom, int]) -> None:
        """A new value for an input, and as many versions more as the program gave it."""
        left, before = m.writes, version_of(target)
        recorded = m.recorded and _C.is_grad_enabled()
        if m.memory and m.raw is not None:
            with autograd.no_grad():
                target.set_(raw[m.raw])
        elif m.geometry is not None:
            sizes, strides, offset = numbers_at(m.geometry, values) if values else m.geometry
            geometry = (sizes, strides, target.storage_offset() + offset)
            make_room(target, geometry)
            with autograd.set_grad_enabled(recorded):
                target.as_strided_(*geometry)
        left -= version_of(target) - before
        if m.raw is not None and not m.memory:
            if left <= 0 and not target.is_inference():  # written through .data, which has a version of its own
                target = target.data
            with autograd.set_grad_enabled(recorded):
                without_repeats(target).copy_(without_repeats(raw[m.raw], target))
            left -= 1
        for _ in range(left):
            target._bump_version()

    def result(
        self, place: int, args: Sequence[Any], raw: Sequence[Any], values: Mapping[Atom, int], parts: dict[tuple, list]
    ) -> Any:
        o = self.wrapping.outputs[place]
        if o.kind == CONSTANT:
            return o.value
        if o.kind == RAW:
            return raw[o.index]
        if o.kind == INPUT:
            return args[o.index]
        if o.kind == PART:
            return at_path(args[o.index], o.path)
        base = args[o.index] if o.kind == VIEW_OF_INPUT else raw[o.index]
        if o.recorded:
            return self.viewed(place, base, values, parts)
        with autograd.no_grad():
            return self.viewed(place, base, values, parts)

    def viewed(self, place: int, base: Tensor, values: Mapping[Atom, int], parts: dict[tuple, list]) -> Tensor:
        """A view, made again. Those that one call gave together come from one call here too: their gradients are then put side by side
        at once, and not each into zeros of the whole. `parts`: by call, views that are not handed out yet."""
        chain, shared = self.wrapping.outputs[place].chain, self.shared[place]
        steps = [step.at(values) for step in chain] if values else chain
        if shared is None:
            return apply_all(steps, base)
        last, key = shared
        index: Any = steps[last].index
        left = parts.get(key)
        if left is None or left[index] is None:  # what is given twice is two tensors
            left = parts[key] = list(steps[last].run(apply_all(steps[:last], base)))
        found, left[index] = left[index], None
        return apply_all(steps[last + 1 :], found)

    def symbol_values(self, args: Sequence[Any], raw: Sequence[Any]) -> dict[Atom, int]:
        found = {}
        for atom, (is_raw, i, d) in self.wrapping.symbols.items():
            value = raw[i] if is_raw else args[i]
            found[atom] = value if d is None else value.shape[d]
        return found


def shared_call(o: Output) -> tuple[int, tuple] | None:
    """The last step of a result's chain that gives several views (`split`), and a name for that call on what it is called on."""
    places = [k for k, step in enumerate(o.chain) if step.index is not None]
    if not places:
        return None
    last = places[-1]
    return last, (o.kind, o.index, o.recorded, *map(id, o.chain[:last]), id(o.chain[last].call))


def apply_all(steps: Sequence[Step], base: Tensor) -> Tensor:
    for step in steps:
        base = step.apply(base)
    return base


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


def wrapped(w: Wrapping, forward: Callable, backward: Any = None) -> Compiled:
    """A compiled graph with its node and its writes, natively. For tensors that others take over, functions of Python do the same.

    `backward`: runs the backward graph on a list of arguments; its `callable()` is what takes them one by one.
    """

    def infer(*args: Any) -> Sequence[Any]:
        with autograd.no_grad():
            if w.wrappers is None:
                return call(forward, args)
            return built_all(w.wrappers.raws, call(forward, w.wrappers.taken_apart(args)))

    slow: Callable = infer
    refuse = None
    if backward is not None:
        node, refuse = node_for(w, forward, backward)
        slow = node.apply
    made = Compiled(w, slow if w.wrappers is not None else native(w, forward, slow, backward, refuse), w.is_native)
    made.backward = backward
    return made


def native_outputs(outputs: Sequence[Output]) -> tuple[tuple, tuple]:
    """Where results come from, and the views that are made for them, each once.

    A view: what it is made of (a kind and a place, of other views too), whether autograd sees it, and the operator with its arguments and
    the names of the last of them; without an operator it is one of many that another returned."""
    views: list[tuple] = []
    handed_out: set[int] = set()

    def place_of(view: tuple, new: bool) -> int:
        if new or view not in views:
            views.append(view)
            return len(views) - 1
        return views.index(view)

    def made_of(of: tuple[Any, int], o: Output, step: Step, new: bool = False) -> tuple[int, int]:
        made = getattr(step.handle, "_op", step.handle)
        place = place_of((*of, o.recorded, made, (*step.args, *step.kwargs.values()), tuple(step.kwargs)), new)
        if step.index is not None:
            place = place_of((VIEW, place, o.recorded, None, (step.index,), ()), new)
        return VIEW, place

    found = []
    for o in outputs:
        origin: tuple[Any, int] = ORIGINS.get(o.kind, NATIVE_KINDS.get(o.kind)), max(o.index, 0)
        for step in o.chain:
            before, origin = origin, made_of(origin, o, step)
        if o.chain:
            if origin[1] in handed_out:  # what is given twice is two tensors
                origin = made_of(before, o, o.chain[-1], new=True)
            handed_out.add(origin[1])
        found.append((*origin, o.value))
    return tuple(found), tuple(views)


def native(w: Wrapping, forward: Callable, slow: Callable, backward: Any, refuse: Callable | None) -> Callable:
    """The graph with its node and its writes, as one native function."""
    outputs: tuple | None = None
    writes: tuple = ()
    views: tuple = ()
    otherwise = slow
    if w.is_native:
        outputs, views = native_outputs(w.outputs)
        writes = tuple((m.input, m.raw, m.recorded, m.writes) for m in w.mutations)
        around = Compiled(w, slow)
        otherwise = lambda *args: tuple(around(args))  # noqa: E731

    def backward_otherwise(*args: Any) -> tuple:
        first = len(args) - len(w.differentiable)
        tangents = [as_traced(g, None, i) for g, i in zip(args[first:], w.differentiable, strict=True)]
        laid = [laid_out(g, like) for g, like in zip(tangents, w.layouts, strict=True)]
        return tuple(backward([*args[:first], *laid]))

    refusals = tuple((r.raw, tuple(r.inputs), r.not_implemented, r.reason) for r in w.refusals)
    return _C._CompiledFunction(
        forward, getattr(forward, "_boxed_call", False), w.num_raw, tuple(w.differentiable), tuple(w.layouts),
        tuple(w.copied), backward.callable if backward is not None else None, refuse, otherwise, backward_otherwise,
        outputs, writes, tuple(map(tuple, w.sources)), refusals, views,
    )  # fmt: skip


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
        return wrapped(w, inference_compiler(traced.module, traced.fakes))
    inputs = [*traced.fakes, *traced.tangents]
    events.tell(events.GraphMade("joint", traced.module))
    with events.stage("partition"):
        forward, backward = partition_fn(traced.module, inputs, num_fwd_outputs=traced.num_raw)
    events.tell(events.GraphMade("forward", forward))
    events.tell(events.GraphMade("backward", backward))
    backward.meta["given_away"] = True  # what is kept for it goes with the last use
    w.copied = sorted(overwritten_later(traced, forward))
    forward.meta["written_inputs"] = written_inputs(traced, w)
    return wrapped(w, fw_compiler(forward, traced.fakes), Backward(backward, bw_compiler))


def is_fake(t: object) -> bool:
    return isinstance(t, FakeTensor)
