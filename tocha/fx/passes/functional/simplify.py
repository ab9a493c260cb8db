"""Passes that remove: dead code, common subexpressions, calls that change nothing, chains of views, casts that cancel."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from tocha import _C, _ops
from tocha._core.type_info import finfo, iinfo
from tocha.fx.graph_module import GraphModule
from tocha.fx.immutable_collections import immutable_dict, immutable_list
from tocha.fx.node import Node
from tocha.fx.passes.functional.nodes import (
    call,
    is_operator,
    is_pure,
    is_view,
    may_replace,
    replace,
    same_form,
    value_of,
)
from tocha.ir.sym_types import Symbolic

Tensor = _C.Tensor


def dead_code(module: GraphModule) -> int:
    """Takes out what no result needs."""
    before = len(module.graph.nodes)
    module.graph.eliminate_dead_code()
    return before - len(module.graph.nodes)


# ---- common subexpressions -------------------------------------------------------------------------


def key_of(value: Any) -> Hashable:
    """An argument as something to compare; numbers of different types differ (1 and 1.0 promote differently), and so do 0.0 and -0.0."""
    if isinstance(value, Node):
        return value
    if isinstance(value, list | tuple | immutable_list):
        return type(value).__name__, tuple(map(key_of, value))
    if isinstance(value, dict | immutable_dict):
        return tuple((k, key_of(v)) for k, v in value.items())
    if isinstance(value, slice):
        return slice, key_of(value.start), key_of(value.stop), key_of(value.step)
    if isinstance(value, Symbolic):
        return type(value), value.expr
    return type(value), repr(value) if isinstance(value, float | complex) else value


def common_subexpressions(module: GraphModule) -> int:
    """What is computed twice is computed once."""
    known: dict[Hashable, Node] = {}
    attributes: dict[Any, Node] = {}
    count = 0
    for n in list(module.graph.nodes):
        if n.op == "get_attr":
            first = attributes.setdefault(n.target, n)
        elif is_pure(n):
            first = known.setdefault((n.target, key_of(n.args), key_of(n.kwargs)), n)
        else:
            continue
        if first is not n and may_replace(n, first) and n.meta.get("ac_graph_id") == first.meta.get("ac_graph_id"):
            replace(n, first)
            count += 1
    return count


# ---- calls that change nothing ---------------------------------------------------------------------


def stands_for(n: Node) -> Node | None:
    """The argument that a call gives back as it is."""
    aten = _ops.ops.aten
    if n.target is aten.copy.default and isinstance(n.args[1], Node):
        return n.args[1]
    source = n.args[0] if n.args else None
    if not isinstance(source, Node):
        return None
    if is_view(n) or n.target in (aten.clone.default, aten._to_copy.default, aten.alias.default, aten.detach.default):
        return source
    if n.target in (aten.mul.Tensor, aten.div.Tensor, aten.mul.Scalar, aten.div.Scalar, aten.pow.Tensor_Scalar):
        # Not x + 0: -0.0 + 0 is 0.0.
        return source if type(n.args[1]) in (int, float) and n.args[1] == 1 else None
    return None


def no_ops(module: GraphModule) -> int:
    """Copies of what nobody writes to, views of the same geometry, products with 1."""
    count = 0
    for n in list(module.graph.nodes):
        if not is_operator(n):
            continue
        source = stands_for(n)
        if source is not None and same_form(value_of(n), value_of(source)) and may_replace(n, source):
            replace(n, source)
            count += 1
    return count


# ---- views -----------------------------------------------------------------------------------------


def view_chains(module: GraphModule) -> int:
    """A view of a view that undoes it is what both are of; two reshapes or permutations are one."""
    count = 0
    for n in list(module.graph.nodes):
        while is_one_view(n):
            inner: Any = n.args[0]
            if not is_one_view(inner):
                break
            source = inner.args[0]
            if same_form(value_of(n), value_of(source)):
                replace(n, source)
                count += 1
                break
            joined = one_view(n, inner, source)
            if joined is None:
                break
            replace(n, joined)
            n = joined
            count += 1
    module.graph.eliminate_dead_code()
    return count


def is_one_view(n: Node) -> bool:
    return is_operator(n) and is_view(n) and isinstance(n.args[0], Node) and isinstance(value_of(n), Tensor)


def one_view(n: Node, inner: Node, source: Node) -> Node | None:
    """The one view that two views are, where a rule is known."""
    aten = _ops.ops.aten
    if n.target is inner.target and n.target in (aten.view.default, aten.expand.default, aten._unsafe_view.default):
        try:
            made = call(n.graph, n, n.target, source, *n.args[1:], **n.kwargs)
        except RuntimeError:  # the strides of the source do not allow it
            return None
        if same_form(value_of(made), value_of(n)):
            return made
        n.graph.erase_node(made)
        return None
    order, first = permutation(n), permutation(inner)
    if order is None or first is None:
        return None
    return call(n.graph, n, aten.permute.default, source, [first[d] for d in order])


def permutation(n: Node) -> list[int] | None:
    """The order in which a view shows dims, if that is all it does."""
    aten, ndim = _ops.ops.aten, value_of(n).dim()
    order = list(range(ndim))
    if n.target is aten.permute.default:
        return [d % ndim for d in n.args[1]]  # type: ignore[union-attr,operator]
    if n.target is aten.t.default and ndim == 2:
        return [1, 0]
    if n.target is aten.transpose.int:
        a, b = n.args[1] % ndim, n.args[2] % ndim  # type: ignore[operator]
        order[a], order[b] = order[b], order[a]
        return order
    return None


# ---- casts -----------------------------------------------------------------------------------------


def is_plain_cast(n: Node) -> bool:
    """Whether a call changes the dtype and nothing else."""
    return n.target is _ops.ops.aten._to_copy.default and set(n.kwargs) == {"dtype"}


def holds(wide: Any, narrow: Any) -> bool:
    """Whether every element of one dtype is one of another."""
    if wide == narrow or narrow == _C.bool:
        return True
    if narrow.is_complex or wide.is_complex:
        return wide.is_complex and holds(wide.to_real(), narrow.to_real() if narrow.is_complex else narrow)
    if narrow.is_floating_point:
        if not wide.is_floating_point:
            return False
        f, g = finfo(wide), finfo(narrow)
        return f.max >= g.max and f.eps <= g.eps and f.tiny <= g.tiny
    if wide.is_floating_point:
        return iinfo(narrow).max <= 2 / finfo(wide).eps
    a, b = iinfo(wide), iinfo(narrow)
    return a.max >= b.max and a.min <= b.min


def cancelling_casts(module: GraphModule) -> int:
    """A cast to a wider dtype and on from there is one cast, or none."""
    count = 0
    for n in list(module.graph.nodes):
        if not is_plain_cast(n) or not isinstance(n.args[0], Node) or not is_plain_cast(n.args[0]):
            continue
        inner = n.args[0]
        source = inner.args[0]
        if not isinstance(source, Node) or not holds(inner.kwargs["dtype"], value_of(source).dtype):
            continue
        if same_form(value_of(n), value_of(source)) and may_replace(n, source):
            replace(n, source)
        else:
            n.args = (source,)
        count += 1
    module.graph.eliminate_dead_code()
    return count
