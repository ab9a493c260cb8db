"""Running compiled graphs: one autograd node for the whole graph, writes to inputs after it, views of inputs made outside of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tocha import _C, autograd
from tocha._functorch.views import Step, numbers_at, without_repeats
from tocha._functorch.wrappers import as_traced, at_path, built_all, count, flat_all, is_wrapper
from tocha._functorch.wrapping import (
    CONSTANT,
    INPUT,
    NATIVE_KINDS,
    ORIGINS,
    PART,
    RAW,
    VIEW,
    VIEW_OF_INPUT,
    Layout,
    Mutation,
    Output,
    Wrapping,
)
from tocha._subclasses.fake import version_of
from tocha.ir.layout import strides_in_order
from tocha.ir.symbolic import Atom

Tensor = _C.Tensor


def call(compiled: Callable, args: Sequence[Any]) -> list[Any]:
    """What a compiler returned takes a list (boxed) or arguments."""
    out = compiled(list(args)) if getattr(compiled, "_boxed_call", False) else compiled(*args)
    return list(out) if isinstance(out, list | tuple) else [out]


def laid_out(grad: Tensor, like: Layout) -> Tensor:
    """A gradient in the layout that backward was traced with."""
    if grad.layout is not _C.strided:
        return grad
    order, strides = like
    return with_strides(grad, strides if len(strides) == grad.ndim else tuple(strides_in_order(grad.shape, order)))


def with_strides(t: Tensor, strides: tuple[int, ...]) -> Tensor:
    return t if t.stride() == strides else _C.empty_strided(t.shape, strides, dtype=t.dtype, device=t.device).copy_(t)


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
                target = target.detach() if is_wrapper(target) else target.data
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
