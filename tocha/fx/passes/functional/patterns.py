"""Tables of patterns: (the operator at the end of a pattern, a function that says what takes which node's place). One engine tries them."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from tocha import _ops
from tocha.fx.graph_module import GraphModule
from tocha.fx.node import Node
from tocha.fx.passes.functional.nodes import call, is_operator, is_view, replace, same_form, same_numbers, value_of

Rule = Callable[[Node], Node | dict[Node, Node] | None]
Table = tuple[tuple[str, Rule], ...]


def apply_table(module: GraphModule, table: Table) -> int:
    """Tries each rule at each node that calls its operator; what a rule gives takes the node's place, or those of several."""
    count = 0
    for name, rule in table:
        for n in list(module.graph.nodes):
            if not is_operator(n) or n.target._opname != name or not n.users:  # type: ignore[union-attr]
                continue
            found = rule(n)
            for old, new in ({n: found} if isinstance(found, Node) else found or {}).items():
                replace(old, new)
                count += 1
    if count:
        module.graph.eliminate_dead_code()
    return count


def calls(n: Any, *names: str) -> bool:
    return isinstance(n, Node) and is_operator(n) and n.target._opname in names  # type: ignore[union-attr]


def read_once(n: Node) -> bool:
    return len(n.users) == 1


# ---- attention -------------------------------------------------------------------------------------


def through_views(n: Any) -> Any:
    """What a chain of views that only one reader has is of; the chain must not reorder anything, so sizes of 4 dims are kept."""
    while (
        isinstance(n, Node)
        and (calls(n, "view", "_unsafe_view", "expand") or (calls(n, "clone") and n.kwargs))
        and read_once(n)
    ):
        n = n.args[0]
    return n


def product_of(n: Any) -> tuple[Node, Node] | None:
    """The operands, of four dims, of a batched product that was flattened to three."""
    n = through_views(n)
    if not calls(n, "bmm"):
        return None
    a, b = (unflattened(v) for v in n.args)
    return None if a is None or b is None else (a, b)


def unflattened(n: Any) -> Node | None:
    """The tensor of four dims that a batch of matrices is a view of."""
    while isinstance(n, Node) and calls(n, "view", "expand", "clone", "_unsafe_view"):
        n = n.args[0]
    return n if isinstance(n, Node) and value_of(n).dim() == 4 else None


def attention(n: Node) -> Node | None:
    """softmax(q @ k.T * scale [+ mask]) @ v is scaled_dot_product_attention, if nobody else reads what lies between."""
    weights = through_views(n.args[0])
    if not calls(weights, "_softmax") or not read_once(weights):
        return None
    ndim = value_of(weights).dim()
    if ndim != 4 or weights.args[1] % ndim != 3:
        return None
    scores, mask, scale = weights.args[0], None, 1.0
    if calls(scores, "add") and read_once(scores) and len(scores.args) == 2 and not scores.kwargs:
        scores, mask = scores.args
        if not isinstance(mask, Node) or value_of(mask).dtype != value_of(weights).dtype:
            return None
    if calls(scores, "mul", "div") and isinstance(scores.args[1], int | float) and read_once(scores):
        scale = float(scores.args[1]) if calls(scores, "mul") else 1.0 / scores.args[1]
        scores = scores.args[0]
    found = product_of(scores)
    value = unflattened(n.args[1])
    if found is None or value is None or not read_once(through_views(scores)):
        return None
    query, key = found[0], transposed(found[1])
    if key is None or not fit_together(query, key, value):
        return None
    made = call(n.graph, n, _ops.ops.aten.scaled_dot_product_attention.default, query, key, value, mask, scale=scale)
    flat = call(n.graph, n, _ops.ops.aten.reshape.default, made, list(value_of(n).shape))
    if same_form(value_of(flat), value_of(n)):
        return flat
    return call(n.graph, n, _ops.ops.aten.clone.default, flat)


def transposed(n: Node) -> Node | None:
    """The keys whose last two dims a node exchanges."""
    if not (calls(n, "transpose", "permute") and isinstance(n.args[0], Node)):
        return None
    if calls(n, "permute"):
        return n.args[0] if [d % 4 for d in n.args[1]] == [0, 1, 3, 2] else None
    return n.args[0] if {n.args[1] % 4, n.args[2] % 4} == {2, 3} else None  # type: ignore[operator]


def fit_together(query: Node, key: Node, value: Node) -> bool:
    q, k, v = (value_of(n).shape for n in (query, key, value))
    return same_numbers(q[:2], k[:2]) and same_numbers(k[:3], v[:3]) and same_numbers(q[3:], k[3:])


# ---- linear ----------------------------------------------------------------------------------------


def linear(n: Node) -> Node | None:
    """mm(x, w) + bias is addmm(bias, x, w), one kernel, which takes an activation into its last loop."""
    if len(n.args) != 2 or n.kwargs:
        return None
    for product, bias in (n.args, n.args[::-1]):
        if calls(product, "mm") and read_once(product) and isinstance(bias, Node) and fits_bias(bias, n):  # type: ignore[arg-type]
            return call(n.graph, n, _ops.ops.aten.addmm.default, bias, *product.args)  # type: ignore[union-attr]
    return None


def fits_bias(bias: Node, n: Node) -> bool:
    a, b = value_of(bias), value_of(n)
    return a.dtype == b.dtype and a.dim() == 1 and same_numbers(a.shape, b.shape[-1:])


# ---- batch norm ------------------------------------------------------------------------------------


def folded_batch_norm(n: Node) -> dict[Node, Node] | None:
    """A batch norm with constant statistics after a convolution or product with constant weights is one with other weights."""
    source = n.args[0]
    if (
        not calls(source, "convolution", "addmm", "mm")
        or not read_once(source)  # type: ignore[arg-type]
        or any(u.target is not operator.getitem or u.args[1] for u in n.users)
    ):
        return None
    is_training = calls(n, "native_batch_norm") and n.args[5]
    bias, weight, transposed = weights_of(source)  # type: ignore[arg-type]
    constants = [v for v in (weight, bias, *n.args[1:5]) if v is not None]
    if is_training or transposed or not all(map(is_constant, constants)):
        return None
    aten, graph = _ops.ops.aten, n.graph
    scale, shift, mean, var = n.args[1:5]
    factor = call(graph, n, aten.rsqrt.default, call(graph, n, aten.add.Tensor, var, n.args[-1]))
    if scale is not None:
        factor = call(graph, n, aten.mul.Tensor, factor, scale)
    convolves = calls(source, "convolution")
    sizes = [-1] + [1] * (value_of(weight).dim() - 1) if convolves else [1, -1]
    new_weight = call(graph, n, aten.mul.Tensor, weight, call(graph, n, aten.view.default, factor, sizes))
    new_bias = call(graph, n, aten.neg.default, mean) if bias is None else call(graph, n, aten.sub.Tensor, bias, mean)
    new_bias = call(graph, n, aten.mul.Tensor, new_bias, factor)
    if shift is not None:
        new_bias = call(graph, n, aten.add.Tensor, new_bias, shift)
    if convolves:
        rest = source.args[3:]  # type: ignore[union-attr]
        made = call(graph, n, aten.convolution.default, source.args[0], new_weight, new_bias, *rest)  # type: ignore[union-attr]
    else:
        made = call(graph, n, aten.addmm.default, new_bias, source.args[-2], new_weight)  # type: ignore[union-attr]
    return dict.fromkeys(n.users, made)


def weights_of(source: Node) -> tuple[Any, Any, bool]:
    """Bias and weight of a convolution or product, and whether it is one that no batch norm is folded into."""
    if calls(source, "convolution"):
        return source.args[2], source.args[1], bool(source.args[6])
    bias = source.args[0] if calls(source, "addmm") else None
    is_row = bias is None or value_of(bias).dim() == 1
    return bias, source.args[-1], bool(source.kwargs) or not is_row


def is_constant(n: Any) -> bool:
    """A constant of the graph, or a view of one."""
    while isinstance(n, Node) and n.op == "call_function" and is_view(n) and len(n.all_input_nodes) == 1:
        n = n.all_input_nodes[0]
    return isinstance(n, Node) and n.op == "get_attr"


ATTENTION: Table = (("bmm", attention),)
LINEAR: Table = (("add", linear),)
BATCH_NORM: Table = (
    ("_native_batch_norm_legit_no_training", folded_batch_norm),
    ("native_batch_norm", folded_batch_norm),
)
