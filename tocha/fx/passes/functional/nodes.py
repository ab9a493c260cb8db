"""What passes over functional graphs ask of nodes."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Sequence
from typing import Any

from tocha import _C, _ops
from tocha._library.tags import Tag
from tocha._subclasses.fake import FakeTensor
from tocha.fx.graph import Graph
from tocha.fx.node import Node, map_arg
from tocha.ir.sym_types import Symbolic
from tocha.operators.record import Operator

Tensor = _C.Tensor


def record_of(node: Node) -> Operator | None:
    """The record that a node calls, if it calls one."""
    target = node.target
    if isinstance(target, _ops.OpOverload) and isinstance(target._target, _ops.RecordTarget):
        return target._target.overload.record
    return None


def value_of(node: Any) -> Any:
    return node.meta.get("val") if isinstance(node, Node) else node


def is_operator(node: Node) -> bool:
    return node.op == "call_function" and isinstance(node.target, _ops.OpOverload)


def is_pure(node: Node) -> bool:
    """Whether a call gives the same each time, and does nothing else."""
    if node.op != "call_function" or node.is_impure():
        return False
    if node.target is operator.getitem:
        return True
    if not isinstance(node.target, _ops.OpOverload):
        return getattr(node.target, "__module__", "") in ("_operator", "operator", "math", "tocha.ir.sym_types")
    tags = node.target.tags
    return Tag.nondeterministic_seeded not in tags and not any(a.is_write for a in node.target._schema._arguments)


def is_view(node: Node) -> bool:
    o = record_of(node)
    return o is not None and o.kind == "view"


def same_number(a: Any, b: Any) -> bool:
    """Whether sizes are known to be the same, without asking anything of symbols."""
    if isinstance(a, Symbolic) or isinstance(b, Symbolic):
        return isinstance(a, Symbolic) and isinstance(b, Symbolic) and a.expr == b.expr
    return a == b


def same_numbers(a: Sequence[Any], b: Sequence[Any]) -> bool:
    return len(a) == len(b) and all(map(same_number, a, b))


def same_form(a: Any, b: Any) -> bool:
    """Whether two values have the same dtype, device, sizes, strides and offset: one may stand for the other."""
    if not isinstance(a, FakeTensor) or not isinstance(b, FakeTensor):
        return False
    f, g = a._facts, b._facts
    return (
        f.dtype is g.dtype
        and f.device == g.device
        and (f.conjugated, f.negated) == (g.conjugated, g.negated)
        and same_numbers((*f.sizes, *f.steps, f.offset), (*g.sizes, *g.steps, g.offset))
    )


def call(graph: Graph, before: Node, target: Any, *args: Any, **kwargs: Any) -> Node:
    """A new call in front of a node; its value is found by calling on the values of its arguments."""
    with graph.inserting_before(before):
        node = graph.call_function(target, args, kwargs)
    values, named = (map_arg(v, value_of) for v in (args, kwargs))
    node.meta = {
        k: v for k, v in before.meta.items() if k in ("stack_trace", "nn_module_stack", "recompute", "ac_graph_id")
    }
    node.meta["val"] = on_fakes(target, values, named, before)
    return node


def on_fakes(target: Any, args: Any, kwargs: Any, like: Node) -> Any:
    """A call on values without elements; factories make such because a node's value is one."""
    known = like.meta.get("val")
    fakes = (v for v in (*args, *(known if isinstance(known, list | tuple) else (known,))) if isinstance(v, FakeTensor))
    mode = next((v.fake_mode for v in fakes), None)
    with mode if mode is not None else contextlib.nullcontext():
        return target(*args, **kwargs)


def replace(node: Node, by: Node) -> None:
    """by is used where node was; node goes."""
    node.replace_all_uses_with(by)
    node.graph.erase_node(node)


def is_returned(node: Node) -> bool:
    return any(u.op == "output" for u in node.users)


def memory_root(node: Node) -> Node:
    """The node on whose memory a value lies."""
    while is_operator(node) and isinstance(node.target, _ops.OpOverload) and node.target._schema._is_view_op():
        source = node.args[0]
        if not isinstance(source, Node):
            break
        node = source
    return node


def may_replace(node: Node, by: Node) -> bool:
    """Results of a graph keep memory of their own: a copy that is returned stays, unless what it copies is neither returned nor an input."""
    if not any(is_returned(n) for n in views_of(node)):
        return True
    root = memory_root(by)
    if memory_root(node) is root:
        return True  # it shared memory before
    return root.op == "call_function" and not any(is_returned(n) for n in views_of(root))


def views_of(node: Node) -> list[Node]:
    """A node and the views of it."""
    found, waiting = [], [node]
    while waiting:
        n = waiting.pop()
        found.append(n)
        waiting += [
            u for u in n.users if is_operator(u) and u.target._schema._is_view_op() and u.args and u.args[0] is n
        ]  # type: ignore[union-attr]
    return found
