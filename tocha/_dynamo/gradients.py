"""Differentiation inside captured code: a backward is a node that gives gradients, and writes to `grad` of the leaves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import tocha
from tocha import _C
from tocha._dynamo import config, facts
from tocha._dynamo.native_calls import known
from tocha._dynamo.refusals import Unsupported
from tocha._dynamo.values.base import Value
from tocha._dynamo.values.constant import Constant
from tocha._dynamo.values.containers import TupleValue
from tocha._dynamo.values.tensor import TensorValue

if TYPE_CHECKING:
    from tocha._dynamo.frame import Frame

_FROM_OUTSIDE = "backward() through a tensor that was computed outside"


@known(_C._backward)
def backward(f: Frame, roots: Value, starts: Value, keep: Value, create: Value, wanted: Value, unused: Value, accumulate: Value) -> Value:  # fmt: skip
    """What is saved is kept: whoever differentiates the graph walks the same history again."""
    if not accumulate.truth(f):
        return f.out.call(f, "call_function", _C._backward, [roots, starts, Constant(True), create, wanted, unused, accumulate], {})  # fmt: skip
    if not config.trace_autograd_ops:
        raise Unsupported("autograd", "backward()")
    targets = wanted.unpack(f) or list(_leaves(f, roots.unpack(f)))
    for t in targets:
        _check_leaf(t.realize())
    found = f.out.call(f, "call_function", _C._backward, [roots, starts, Constant(True), create, TupleValue(targets), Constant(True), Constant(False)], {})  # fmt: skip
    taken = {id(s.realize().example()) for s in starts.unpack(f)}
    for leaf, gradient in zip(targets, found.unpack(f), strict=True):
        gradient = gradient.realize()
        if isinstance(gradient, TensorValue):
            _add(f, leaf.realize(), gradient, create.truth(f), id(gradient.fact) in taken)
            taken.add(id(gradient.fact))
    return Constant(None)


def _leaves(f: Frame, roots: list[Value]) -> Iterator[Value]:
    """The leaves that gradients reach, found in the history of the facts."""
    todo = [r.realize().example().grad_fn for r in roots]
    seen: set[Any] = set()
    while todo:
        node = todo.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        todo.extend(n for n, _ in node.next_functions)
        leaf = getattr(node, "variable", None)
        if leaf is not None and id(leaf) not in f.out.by_fact:
            raise Unsupported("autograd", _FROM_OUTSIDE)
        if leaf is not None:
            yield f.out.by_fact[id(leaf)]


def _check_leaf(leaf: Any) -> None:
    real = leaf.real
    if real is None:
        return
    if not real.is_leaf:
        raise Unsupported("autograd", _FROM_OUTSIDE)
    if real._backward_hooks or real._post_accumulate_grad_hooks:
        raise Unsupported("autograd", "backward() to a tensor with hooks")


def _add(f: Frame, leaf: Any, gradient: Any, create: bool, shared: bool) -> None:
    """As the engine does: the first gradient is taken as it is if nobody else has it and it lies as the leaf does."""
    old = leaf.get_attribute(f, "grad").realize()
    before = _C.is_grad_enabled()
    f.out.switch(_C._set_grad_enabled, [create])
    if isinstance(old, TensorValue):
        if create:
            leaf.set_attribute(f, "grad", f.out.call(f, "call_method", "add", [old, gradient], {}))
        else:
            f.out.call(f, "call_method", "add_", [old, gradient], {})
    else:
        if shared or not facts.decided(lambda: gradient.fact.stride() == leaf.fact.stride()):
            like = f.out.call(f, "call_function", tocha.empty_like, [leaf], {})
            gradient = f.out.call(f, "call_method", "copy_", [like, gradient], {})
        leaf.set_attribute(f, "grad", gradient)
    f.out.switch(_C._set_grad_enabled, [before])
