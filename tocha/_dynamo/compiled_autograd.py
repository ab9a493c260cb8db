"""Compiled autograd: the walk back through the graph of operations becomes a graph itself, which a compiler gets.

While `_enable(compiler)` is active in a thread, backward() plans its walk here: which nodes run, in what order, with which
hooks. What the plan looks like is the key under which it was compiled; what nodes keep, leaves and hooks are the compiled
program's inputs. Hooks and accumulation are calls in it, so that capture goes through them.
"""

from __future__ import annotations

import contextlib
import heapq
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import tocha
from tocha import _C, fx
from tocha._dynamo import eval_frame
from tocha._logging import events
from tocha._subclasses.fake import FakeTensor
from tocha._subclasses.fake_tensor import FakeTensorMode
from tocha.fx.experimental.proxy_tensor import (
    ProxyTensor,
    ProxyTorchDispatchMode,
    PythonKeyTracer,
    disable_proxy_modes_tracing,
    track_tensor_tree,
)

LOG = logging.getLogger("tocha._dynamo.compiled_autograd")
Edge = tuple[Any, int]

compiled_autograd_enabled = False
in_compiled_autograd_region = False
_CACHE: dict[tuple, Callable[..., Any]] = {}


class Untraceable(Exception):
    """The walk cannot be a graph: the engine does it."""


# ---- what compiled walks call; captured code goes through these


def call_hook(hook: Any, grad: Any) -> Any:
    """A hook on a gradient: what it returns takes the gradient's place."""
    result = hook(grad)
    if result is None:
        return grad
    if not isinstance(result, tocha.Tensor):
        raise TypeError(f"expected a Tensor from a backward hook, but got {type(result).__name__}")
    if result.shape != grad.shape or result.dtype != grad.dtype or result.device != grad.device:
        raise RuntimeError(f"backward hook has changed the gradient: got {result.dtype} of {list(result.shape)}, expected {grad.dtype} of {list(grad.shape)}")  # fmt: skip
    return result


def call_pre_hook(hook: Any, grads: tuple) -> tuple:
    """A hook before a node: on all of its gradients."""
    result = hook(grads)
    if result is None:
        return grads
    return result if isinstance(result, tuple) else (result,)


def call_post_hook(hook: Any, results: tuple, grads: tuple) -> tuple:
    """A hook after a node: on what leaves it and what came."""
    result = hook(results, grads)
    if result is None:
        return results
    return result if isinstance(result, tuple) else (result,)


def accumulate_grad(variable: Any, grad: Any) -> None:
    """Adds a gradient to a leaf's, in the leaf's layout."""
    if variable.grad is None:
        kept = tocha.empty_like(variable, requires_grad=False)
        kept.copy_(grad)
        variable.grad = kept
    else:
        variable.grad.add_(grad)


def call_accumulated_hook(hook: Any, variable: Any) -> None:
    result = hook(variable)
    if result is not None and not isinstance(result, tocha.Tensor):
        raise TypeError(f"expected Variable, but hook returned '{type(result).__name__}'")


@eval_frame.disable
def call_node(node: Any, grads: tuple, shapes: tuple) -> tuple:
    """A node that is not part of the graph: it runs by itself. Gradients that do not come are zeros."""
    found = _C._apply_node(node, grads)
    return tuple(
        tocha.zeros(s[0], dtype=s[1], device=s[2]) if g is None and s is not None else g for g, s in zip(found, shapes)
    )


# ---- the plan of a walk


@dataclass
class Step:
    """One node of a walk: its place among the steps is when it runs."""

    node: Any
    next: tuple[Edge, ...]
    needed: bool = True
    captured: bool = False
    kind: str = ""
    kept: list[Any] = field(default_factory=list)
    hooks: tuple = ()


class Plan:
    """Which nodes a walk runs and in what order, and everything from outside that it works on."""

    def __init__(self, roots: tuple[Edge, ...], grads: tuple, wanted: tuple[Edge, ...], accumulate: bool) -> None:
        self.roots, self.grads, self.wanted, self.accumulate = roots, grads, wanted, accumulate
        self.steps: list[Step] = []
        self.place: dict[int, int] = {}  # a node's id -> its step
        self.tensors: list[Any] = []
        self.tensor_place: dict[int, int] = {}
        self.callables: list[Any] = []  # hooks
        self.nodes: list[Any] = []  # those that run by themselves
        self.order()
        if wanted:
            self.mark_needed()
        self.key = self.describe()

    def order(self) -> None:
        """As the engine does: a node runs when all gradients that will reach it have, later operations first."""
        found: dict[int, Step] = {}
        waiting: dict[int, int] = {}
        stack = [n for n, _ in self.roots]
        while stack:
            node = stack.pop()
            if id(node) in found:
                continue
            found[id(node)] = step = Step(node, node.next_functions)
            for below, _ in step.next:
                if below is not None:
                    waiting[id(below)] = waiting.get(id(below), 0) + 1
                    stack.append(below)
        ready = [(-s.node._sequence_nr(), k, s) for k, s in enumerate(found.values()) if not waiting.get(id(s.node))]
        heapq.heapify(ready)
        count = len(ready)
        while ready:
            step = heapq.heappop(ready)[2]
            self.place[id(step.node)] = len(self.steps)
            self.steps.append(step)
            for below, _ in step.next:
                if below is None:
                    continue
                waiting[id(below)] -= 1
                if not waiting[id(below)]:
                    count += 1
                    heapq.heappush(ready, (-below._sequence_nr(), count, found[id(below)]))

    def mark_needed(self) -> None:
        """Only nodes from which a wanted input can be reached are run."""
        for step in self.steps:
            step.needed = False
        for node, _ in self.wanted:
            if node is not None and id(node) in self.place:
                step = self.steps[self.place[id(node)]]
                step.captured, step.needed = True, self.accumulate
        for step in reversed(self.steps):
            below = [self.steps[self.place[id(n)]] for n, _ in step.next if n is not None]
            step.needed = step.needed or any(b.needed or b.captured for b in below)

    def tensor(self, t: Any) -> int:
        """The number of a tensor among the inputs: one that is met twice is one input."""
        if id(t) not in self.tensor_place:
            self.tensor_place[id(t)] = len(self.tensors)
            self.tensors.append(t)
        return self.tensor_place[id(t)]

    def shown(self, value: Any) -> Any:
        if isinstance(value, tocha.Tensor):
            return ("tensor", self.tensor(value))
        return (type(value), value)

    def describe(self) -> tuple:
        grads = tuple(self.shown(g) for g in self.grads)
        steps = tuple(self.describe_step(s) for s in self.steps)
        places = tuple(
            tuple((self.place.get(id(n)), i) if n is not None else None for n, i in e)
            for e in (self.roots, self.wanted)
        )
        facts = tuple((tuple(t.shape), t.stride(), t.dtype, t.device, t.layout) for t in self.tensors)
        return (grads, steps, places, facts, self.accumulate)

    def describe_step(self, step: Step) -> tuple:
        node = step.node
        step.kind, name, step.kept = _C._node_state(node)
        step.hooks = _C._node_hooks(node)
        if step.kind == "leaf":
            self.tensor(node.variable)
            step.kept = [node.variable]
        own: Any = None
        if step.kind == "function":
            own, step.kind = traced_function(node)
        edges = tuple((self.place[id(n)], i) if n is not None else None for n, i in step.next)
        kept = () if step.kind == "closed" else tuple(self.shown(v) for v in step.kept)
        of_results, retained, before, after = step.hooks
        hooks = (tuple((i, len(h)) for i, h in of_results), tuple(i for i, _ in retained), len(before), len(after))
        needed = (step.needed, step.captured)
        return (step.kind, name, type(node), own, kept, edges, hooks, needed, len(getattr(node, "_input_metadata", ())))

    def release(self) -> None:
        for step in self.steps:
            if step.needed and step.kind != "leaf":
                _C._release_node(step.node)


def traced_function(node: Any) -> tuple[Any, str]:
    """A compiled graph's own backward is a graph: it is looked into. Functions of the program run by themselves."""
    if not getattr(node, "is_compiled_graph", False):
        return None, "closed"
    return tuple(node.numbers), "plain"


# ---- from a plan to a graph


class Builder:
    """Runs a plan on fakes; what its nodes call becomes a graph of (tensors, hooks, nodes)."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.tracer = PythonKeyTracer()
        self.fakes = FakeTensorMode(allow_non_fake_inputs=True)
        self.tracer.fake_mode = self.fakes
        self.arriving: dict[int, list[Any]] = {}  # a step -> its gradients
        self.results: list[Any] = [None] * len(plan.wanted)
        self.retained: list[Any] = []  # proxies

    def build(self) -> fx.GraphModule:
        def backward(tensors: Any, hooks: Any, nodes: Any) -> Any:
            return self.walk(tensors, hooks, nodes)

        with disable_proxy_modes_tracing():
            graph = self.tracer.trace(backward)
        if any(n.op == "get_attr" for n in graph.nodes):
            raise Untraceable("it works on tensors that no node shows")
        made = fx.GraphModule(self.tracer.root, graph, "CompiledAutograd")
        events.tell(events.GraphMade("compiled_autograd", made))
        return made

    def walk(self, tensors: Any, hooks: Any, nodes: Any) -> Any:
        self.hooks, self.nodes, plan = hooks, nodes, self.plan
        held = [self.fakes.from_tensor(t.detach(), static_shapes=True) for t in plan.tensors]
        self.proxies = [tensors[i] for i in range(len(held))]
        for real, fake, proxy in zip(plan.tensors, held, self.proxies):
            track_tensor_tree(fake, proxy, tracer=self.tracer)
            self.tracer.slots.set(real, ProxyTensor(proxy))
            self.fakes.fake_tensor_converter.remember(real, fake)  # what a node keeps meets operators as it is
        mode = ProxyTorchDispatchMode(self.tracer, "fake")
        with tocha.no_grad(), self.fakes, mode:
            for (node, i), g in zip(plan.roots, plan.grads):
                self.deliver(node, i, None if g is None else held[plan.tensor(g)])
            for number, step in enumerate(plan.steps):
                self.run(number, step)
        return tuple(self.tracer.unwrap_proxy(g) for g in self.results), tuple(self.retained)

    def deliver(self, node: Any, i: int, grad: Any) -> None:
        grads = self.arriving.setdefault(self.plan.place[id(node)], [])
        grads.extend([None] * (i + 1 - len(grads)))
        if grad is not None:
            grads[i] = grad if grads[i] is None else grads[i] + grad

    def call(self, function: Any, args: tuple) -> fx.Proxy:
        shown = fx.node.map_aggregate(args, lambda a: self.tracer.unwrap_proxy(a))
        return self.tracer.create_proxy("call_function", function, shown, {})

    def stand_in(self, proxy: Any, shape: Any, dtype: Any, device: Any, strides: Any = None) -> Any:
        """A fake for what a call that is not looked into gives."""
        with disable_proxy_modes_tracing(), self.fakes:
            made = tocha.empty(shape, dtype=dtype, device=device)
            if strides is not None:
                made = tocha.empty_strided(shape, strides, dtype=dtype, device=device)
        track_tensor_tree(made, proxy, tracer=self.tracer)
        return made

    def hooked(self, hook: Any, function: Any, grad: Any) -> Any:
        made = self.call(function, (self.hook(hook), grad))
        return self.stand_in(made, grad.shape, grad.dtype, grad.device, grad.stride())

    def hook(self, hook: Any) -> Any:
        self.plan.callables.append(hook)
        return self.hooks[len(self.plan.callables) - 1]

    def run(self, number: int, step: Step) -> None:
        count = len(getattr(step.node, "_input_metadata", ())) or 1
        grads = self.arriving.pop(number, [])
        grads.extend([None] * (count - len(grads)))
        of_results, retained, before, after = step.hooks
        for i, hooks in of_results:
            for h in hooks:
                if grads[i] is not None:
                    grads[i] = self.hooked(h, call_hook, grads[i])
        for i, _ in retained:
            self.retained.append(None if grads[i] is None else self.tracer.unwrap_proxy(grads[i]))
        if step.captured and not self.plan.accumulate:
            for k, (node, i) in enumerate(self.plan.wanted):
                if node is step.node:
                    self.results[k] = grads[i]
        found: Any = (None,) * len(step.next)
        if step.needed and step.kind == "leaf":
            self.accumulate(step, grads[0], after)
        elif step.needed:
            found = self.apply(step, tuple(grads), before, after)
        for (node, i), g in zip(step.next, found):
            if node is not None:
                self.deliver(node, i, g)

    def accumulate(self, step: Step, grad: Any, hooks: tuple) -> None:
        if grad is None:
            return
        variable = self.proxies[self.plan.tensor(step.node.variable)]
        self.call(accumulate_grad, (variable, grad))
        for h in hooks:
            self.call(call_accumulated_hook, (self.hook(h), variable))

    def apply(self, step: Step, grads: tuple, before: tuple, after: tuple) -> tuple:
        for h in before:
            grads = self.of_hook(self.call(call_pre_hook, (self.hook(h), grads)), grads)
        if step.kind == "closed":
            found = self.by_itself(step, grads)
        else:
            found = tuple(fitted(g, n, i) for g, (n, i) in zip(_C._apply_node(step.node, grads), step.next))
        for h in after:
            found = self.of_hook(self.call(call_post_hook, (self.hook(h), found, grads)), found)
        return found

    def of_hook(self, made: Any, grads: tuple) -> tuple:
        return tuple(
            None if g is None else self.stand_in(made[i], g.shape, g.dtype, g.device, g.stride())
            for i, g in enumerate(grads)
        )

    def by_itself(self, step: Step, grads: tuple) -> tuple:
        shapes = tuple(shape_at(n, i) for n, i in step.next)
        self.plan.nodes.append(step.node)
        made: Any = self.call(call_node, (self.nodes[len(self.plan.nodes) - 1], grads, shapes))
        return tuple(None if s is None else self.stand_in(made[i], *s) for i, s in enumerate(shapes))


def fitted(grad: Any, node: Any, i: int) -> Any:
    """A gradient in the shape and dtype that is expected where it goes."""
    expected = shape_at(node, i)
    if grad is None or expected is None:
        return grad
    shape, dtype, _ = expected
    if tuple(grad.shape) != shape:
        grad = grad.sum_to_size(shape)
    if grad.dtype != dtype:
        grad = (grad.real if grad.is_complex() and not dtype.is_complex else grad).to(dtype)
    return grad


def shape_at(node: Any, i: int) -> tuple | None:
    """What a gradient that goes there looks like."""
    if node is None:
        return None
    facts = getattr(node, "_input_metadata", ())
    if i >= len(facts):
        raise Untraceable(f"{node.name()} does not say what it expects")
    shape, dtype, device = facts[i]
    return tuple(shape), dtype, device


# ---- the walk


class Walker:
    """What the engine calls in place of a walk of its own."""

    def __init__(self, compiler: Callable[[Any], Any], dynamic: bool) -> None:
        self.compiler, self.dynamic = compiler, dynamic

    def __call__(self, roots: tuple, grads: tuple, wanted: tuple, keep: bool, create: bool, accumulate: bool) -> Any:
        if any(isinstance(g, FakeTensor) for g in grads):
            return NotImplemented  # somebody traces, and differentiates what he has traced
        if create:
            raise RuntimeError("compiled_autograd does not support create_graph")
        global in_compiled_autograd_region
        before, inside = _C._set_walker(None), in_compiled_autograd_region
        in_compiled_autograd_region = True
        try:
            return self.walk(Plan(roots, grads, wanted, accumulate), keep)
        except Untraceable as why:
            LOG.info("backward is not compiled: %s", why)
            return NotImplemented
        finally:
            _C._set_walker(before)
            in_compiled_autograd_region = inside

    def walk(self, plan: Plan, keep: bool) -> tuple:
        key = (id(self.compiler), plan.key)
        found = _CACHE.get(key)
        if found is None:
            module = _C._capture.Wrapper(Builder(plan).build, None)()  # what nodes call is not for capture
            LOG.info("backward is compiled: %d nodes\n%s", len(plan.steps), module.code)
            _CACHE[key] = found = self.compiler(module)
            _KEPT.append(self.compiler)
        else:
            collect(plan)
        with tocha.no_grad():
            results, retained = found(plan.tensors, plan.callables, plan.nodes)
        retain(plan, retained)
        if not keep:
            plan.release()
        return results


_KEPT: list[Any] = []  # compilers whose ids are in keys


def collect(plan: Plan) -> None:
    """The hooks and nodes of a plan, in the order in which a builder meets them."""
    for step in plan.steps:
        of_results, _, before, after = step.hooks
        plan.callables += [h for _, hooks in of_results for h in hooks]
        if not step.needed:
            continue
        plan.callables += before
        if step.kind == "closed":
            plan.nodes.append(step.node)
        plan.callables += after


def retain(plan: Plan, grads: tuple) -> None:
    """The gradients of tensors that retain theirs."""
    tensors = [t for step in plan.steps for _, t in step.hooks[1]]
    for t, g in zip(tensors, grads):
        if g is not None:
            t.grad = g if t.grad is None else t.grad + g


@contextlib.contextmanager
def _enable(
    compiler_fn: Callable[..., Any], dynamic: bool = True, ignore_active_disable_ctx: bool = True
) -> Iterator[None]:
    """Walks of backward() in this thread become graphs for a compiler: `compiler_fn(module)` returns what runs."""
    global compiled_autograd_enabled
    before, was = _C._set_walker(Walker(compiler_fn, dynamic)), compiled_autograd_enabled
    compiled_autograd_enabled = True
    try:
        yield
    finally:
        _C._set_walker(before)
        compiled_autograd_enabled = was


@contextlib.contextmanager
def _disable() -> Iterator[None]:
    """The engine walks by itself."""
    global compiled_autograd_enabled
    before, was = _C._set_walker(None), compiled_autograd_enabled
    compiled_autograd_enabled = False
    try:
        yield
    finally:
        _C._set_walker(before)
        compiled_autograd_enabled = was


def reset() -> None:
    """Forgets what was compiled, and switches compiled autograd off."""
    global compiled_autograd_enabled
    forget()
    _C._set_walker(None)
    compiled_autograd_enabled = False


def forget() -> None:
    _CACHE.clear()
    _KEPT.clear()


eval_frame.ON_RESET.append(forget)
