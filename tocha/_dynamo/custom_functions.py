"""Calls of autograd.Function in captured code.

A call is one node of the graph, which runs the class's forward and backward when it is differentiated or compiled, on fakes.
What they read is guarded all the same, and what they do besides computing may not happen once instead of at every call: both
are gone through as the program's other functions are, and what that adds to the graph is taken out of it again.
Where an argument is an object that no graph can hold, what was added is kept: forward and backward are two graphs, of tensors alone.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import tocha
from tocha import _C, fx
from tocha._dynamo import facts, subgraphs
from tocha._dynamo.native_calls import known
from tocha._dynamo.refusals import Unsupported
from tocha._dynamo.subgraphs import Body
from tocha._dynamo.values.base import NotConstant, Observed, Value
from tocha._dynamo.values.constant import Constant
from tocha._dynamo.values.containers import TupleValue
from tocha._dynamo.values.objects import ClassValue, FunctionApply
from tocha._dynamo.values.tensor import TensorValue
from tocha.autograd._held import Held
from tocha.autograd.function import Function, FunctionCtx

if TYPE_CHECKING:
    from tocha._dynamo.frame import Frame
    from tocha._dynamo.output import Output


class Context(FunctionCtx):
    """What stands for `ctx` while forward and backward are gone through."""

    @property
    def saved_tensors(self) -> tuple:
        return self.to_save

    saved_variables = saved_tensors
    to_save: tuple = ()
    needs_input_grad: tuple[bool, ...] = ()
    dirty_tensors: tuple = ()
    non_differentiable: tuple = ()
    _materialize_non_diff_grads = True


@known(Function.apply.__func__)  # type: ignore[attr-defined]
def _apply(f: Frame, cls: Value, /, *args: Value, **kwargs: Value) -> Value:
    """`apply` that was kept somewhere, or is called by an `apply` of the class's own."""
    assert isinstance(cls, ClassValue)
    return FunctionApply(cls).call(f, list(args), kwargs)


def look_into(f: Frame, owner: ClassValue, args: list[Value], kwargs: dict[str, Value]) -> None:
    """Goes through a call's forward, and through backward where it is recorded; refuses what a node of the graph would lose."""
    args = [a.realize() for a in args]
    kwargs = {k: v.realize() for k, v in kwargs.items()}
    with _Aside(f.out, [*args, *kwargs.values()]):
        ctx = f.call_class(ClassValue(Context), [], {})
        needs = [isinstance(a, TensorValue) and bool(a.fact.requires_grad) for a in args]
        ctx.set_attribute(f, "needs_input_grad", TupleValue([Constant(n) for n in needs]))
        try:
            result = _without_grad(_forward, f, owner, ctx, args, kwargs)
        except Observed:
            return  # the node itself says it
        if any(needs) and _C.is_grad_enabled():
            result = result.realize()
            results = result.items if isinstance(result, TupleValue) else [result]
            _without_grad(lambda f: _backward(f, owner, ctx, [_gradient(f, r.realize()) for r in results]), f)


def _without_grad(step: Any, f: Frame, *args: Any) -> Any:
    before = _C.is_grad_enabled()
    _C._set_grad_enabled(False)
    try:
        return step(f, *args)
    finally:
        _C._set_grad_enabled(before)


def _forward(f: Frame, owner: ClassValue, ctx: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
    cls: type[Function] = owner.value
    forward = owner.get_attribute(f, "forward")
    if cls.setup_context is Function.setup_context:
        return forward.call(f, [ctx, *args], kwargs)
    bound = inspect.signature(cls.forward).bind(*args, **kwargs)
    bound.apply_defaults()
    given = [a if isinstance(a, Value) else f.wrap_known(a) for a in bound.args]
    result = forward.call(f, given, {})
    owner.get_attribute(f, "setup_context").call(f, [ctx, TupleValue(given), result], {})
    return result


def _backward(f: Frame, owner: ClassValue, ctx: Value, grads: list[Value]) -> Value:
    cls: type[Function] = owner.value
    name = "backward" if cls.vjp is Function.vjp else "vjp"
    try:
        return owner.get_attribute(f, name).call(f, [ctx, *grads], {})
    except Observed as raised:
        raise Unsupported("autograd", f"{cls.__name__}.{name}, which raises an error") from raised


def look_through(f: Frame, hook: Value, tensor: TensorValue) -> None:
    """Goes through a hook of a tensor that the graph makes: whoever traces the graph calls it on gradients that are none."""
    with _Aside(f.out, [hook], "a hook"):
        try:
            _without_grad(lambda f: hook.call(f, [_gradient(f, tensor)], {}), f)
        except Observed:
            return  # it says so when it is called


def _gradient(f: Frame, result: Value) -> Value:
    if not isinstance(result, TensorValue):
        return Constant(None)
    fact = facts.run(f.out.fake_mode, "call_function", tocha.empty_like, (result.fact,), {})
    node = f.out.graph.call_function(_gradient, ())
    node.meta["example_value"] = fact
    return TensorValue(node, fact)


class _Aside:
    """While it is entered, what is captured leaves guards and inputs behind, and nothing else; other changes are refused."""

    def __init__(self, out: Output, given: list[Value], what: str = "forward or backward of an autograd.Function") -> None:  # fmt: skip
        self.out, self.given, self.what = out, given, what

    def __enter__(self) -> None:
        out = self.out
        self.nodes = set(out.graph.nodes)
        self.effects, out.effects = out.effects, type(out.effects)()
        self.before = (out.calls, *self._changes())

    def _changes(self) -> tuple:
        out = self.out
        return dict(out.global_writes), dict(out.class_writes), len(out.draws), len(out.generators)

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        out = self.out
        changed, out.effects = out.effects.order, self.effects
        if kind is not None:
            return  # capture starts again
        reached = _reachable(self.given)
        if self._changes() != self.before[1:] or any(v.source is not None or id(v) in reached for v in changed):
            raise Unsupported("mutation", f"a change of an object in {self.what}")
        out.calls = self.before[0]
        self._remove_nodes()

    def _remove_nodes(self) -> None:
        out = self.out
        gone = [n for n in out.graph.nodes if n not in self.nodes and n.op != "placeholder"]
        for n in reversed(gone):
            out.graph.erase_node(n)
        erased = set(gone)
        out.by_fact = {k: v for k, v in out.by_fact.items() if v.node not in erased}
        out.numbers = {k: v for k, v in out.numbers.items() if v not in erased}
        out.plains = {k: v for k, v in out.plains.items() if v[1].node not in erased}


def _reachable(values: list[Value]) -> set[int]:
    """Ids of values and of what they hold."""
    found: set[int] = set()
    todo = list(values)
    while todo:
        value = todo.pop()
        if id(value) not in found:
            found.add(id(value))
            todo += value.parts() if hasattr(value, "parts") else []
    return found


# ---- calls with objects among their arguments


def fits_in_graph(value: Value) -> bool:
    """Whether a node can have it among its arguments."""
    try:
        value.realize().graph_argument()
    except (NotConstant, Unsupported):
        return False
    return True


class _Steps(Value):
    """A function that is written here, to be captured as a graph."""

    def __init__(self, run: Callable[[list[Value]], Value]) -> None:
        self.run = run

    def call(self, f: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return _without_grad(lambda f: self.run(args), f)


class Halves(Function):
    """A call as captured code has it: `forward` and `backward` are graphs."""

    @staticmethod
    def forward(ctx: Any, call: Captured, *values: Any) -> tuple:
        results, kept = call.forward(values)
        ctx.call, ctx.held = call, Held([*values, *kept])
        ctx.save_for_backward(*ctx.held.tensors)
        ctx.held.tensors = []
        ctx.mark_non_differentiable(*(results[i] for i in call.fixed))
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple:
        return None, *ctx.call.backward(ctx.held.restored(ctx.saved_tensors), grads)


class Captured:
    """The graphs of one call: of its tensors, and of nodes around it."""

    def __init__(self, f: Frame, owner: ClassValue, args: list[Value], kwargs: dict[str, Value]) -> None:
        self.owner, self.args, self.kwargs = owner, args, kwargs
        self.at = [i for i, a in enumerate(args) if isinstance(a, TensorValue)]  # places of tensors among the arguments
        needs = [isinstance(a, TensorValue) and bool(a.fact.requires_grad) for a in args]
        self.differentiates = any(needs) and _C.is_grad_enabled()
        ctx = f.call_class(ClassValue(Context), [], {})
        ctx.set_attribute(f, "needs_input_grad", TupleValue([Constant(n) for n in needs]))
        first = Body(f, _Steps(lambda given: self._call_forward(f, ctx, given)), [args[i] for i in self.at], once=True)
        if ctx.get_attribute(f, "dirty_tensors").realize().truth(f):
            raise Unsupported("autograd", f"{owner.value.__name__}, which changes its arguments")
        self.results, self.count = first.structure, len(first.returned)
        constant = {id(v.realize()) for v in ctx.get_attribute(f, "non_differentiable").realize().unpack(f)}
        self.fixed = [i for i, r in enumerate(first.returned) if id(r) in constant]
        self.around = list(first.lifted)
        if self.differentiates:
            self.around += self._capture_backward(f, ctx, first)
        self.around = list(dict.fromkeys(self.around))
        self.forward_graph = first.module(first.lifted)
        self.of_forward = [self._place(n) for n in first.lifted]

    def _call_forward(self, f: Frame, ctx: Value, given: list[Value]) -> Value:
        args = list(self.args)
        for i, g in zip(self.at, given, strict=True):
            args[i] = g
        return _forward(f, self.owner, ctx, args, self.kwargs)

    def _capture_backward(self, f: Frame, ctx: Value, first: Body) -> list[fx.Node]:
        """Also has forward's graph give what this one needs of it. Returns the nodes around that this one reads."""
        returned = subgraphs.tracked(f, subgraphs.filled(first.structure, first.returned, made=False))
        results = returned.items if isinstance(returned, TupleValue) else [returned]
        run = _Steps(lambda given: _backward(f, self.owner, ctx, given))
        second = Body(f, run, [_gradient(f, r.realize()) for r in results], once=True)
        if not isinstance(second.structure, tuple):
            second.structure = (second.structure,)
        self.gradients = second.structure + (None,) * (len(self.args) - len(second.structure))
        mine = {*first.nodes, *first.arguments}
        self.kept = [n for n in second.lifted if n in mine]
        first.returned = [*first.returned, *map(subgraphs.given_by, self.kept)]
        self.backward_graph, self.of_backward = second.module(second.lifted), second.lifted
        return [n for n in second.lifted if n not in mine]

    def _place(self, node: fx.Node) -> int:
        return len(self.at) + self.around.index(node)

    def forward(self, values: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
        out = self.forward_graph(*values[: len(self.at)], *(values[i] for i in self.of_forward))
        return out[: self.count], out[self.count :]

    def backward(self, held: Sequence[Any], grads: Sequence[Any]) -> list[Any]:
        count = len(self.at) + len(self.around)
        kept = dict(zip(self.kept, held[count:], strict=True))
        rest = [kept[n] if n in kept else held[self._place(n)] for n in self.of_backward]
        found = subgraphs.filled(self.gradients, self.backward_graph(*grads, *rest))
        return [*(found[i] for i in self.at), *([None] * len(self.around))]

    def run(self, *values: Any) -> tuple:
        return Halves.apply(self, *values) if self.differentiates else tuple(self.forward(values)[0])


def captured(f: Frame, owner: ClassValue, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """A call whose arguments no node can have, as a node that has what it reads of them."""
    args = [a.realize() for a in args]
    kwargs = {k: v.realize() for k, v in kwargs.items()}
    with _Aside(f.out, [*args, *kwargs.values()]):
        call = Captured(f, owner, args, kwargs)
    nodes = (*(args[i].node for i in call.at), *call.around)  # type: ignore[attr-defined]
    made = subgraphs.node_of(f, call.run, nodes, tuple(n.meta["example_value"] for n in nodes))
    return subgraphs.tracked(f, subgraphs.filled(call.results, made, made=False))
