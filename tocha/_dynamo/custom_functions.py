"""Calls of autograd.Function in captured code.

A call is one node of the graph, which runs the class's forward and backward when it is differentiated or compiled, on fakes.
What they read is guarded all the same, and what they do besides computing may not happen once instead of at every call: both
are gone through as the program's other functions are, and what that adds to the graph is taken out of it again.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import tocha
from tocha import _C
from tocha._dynamo import facts
from tocha._dynamo.native_calls import known
from tocha._dynamo.refusals import Unsupported
from tocha._dynamo.values.base import Observed, Value
from tocha._dynamo.values.constant import Constant
from tocha._dynamo.values.containers import TupleValue
from tocha._dynamo.values.objects import ClassValue, FunctionApply
from tocha._dynamo.values.tensor import TensorValue
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
            _without_grad(_backward, f, owner, ctx, result.realize())


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


def _backward(f: Frame, owner: ClassValue, ctx: Value, result: Value) -> None:
    cls: type[Function] = owner.value
    results = result.items if isinstance(result, TupleValue) else [result]
    name = "backward" if cls.vjp is Function.vjp else "vjp"
    try:
        owner.get_attribute(f, name).call(f, [ctx, *(_gradient(f, r.realize()) for r in results)], {})
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
