"""What passes ask about nodes, and putting graphs into order."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from typing import Any

import tocha
from tocha._core.library_name import ours
from tocha.fx._names import qualified_name
from tocha.fx.graph_module import GraphModule
from tocha.fx.node import Node
from tocha.nn import Module

__all__ = [
    "get_acc_ops_name", "get_node_target", "is_node_output_tensor", "legalize_graph", "stable_topological_sort",
]  # fmt: skip

CALLABLE_NODE_OPS = {"call_module", "call_function", "call_method"}


def get_acc_ops_name(k: str | Any) -> str:
    """The full name of an operator or class."""
    if isinstance(k, str):
        return k
    module = ours(k.__module__).replace("tocha._ops", "tocha.ops")
    return f"acc_ops.{k.__name__}" if "acc_ops" in module else f"{module}.{k.__name__}"


def get_node_target(submodules: Mapping[str, Module], node: Node) -> str:
    """The function's name, the method's name, or the class of the module that a node calls."""
    if node.op not in CALLABLE_NODE_OPS:
        raise AssertionError(f"Expect op types of {', '.join(CALLABLE_NODE_OPS)}, but found {node.op}")
    if node.op == "call_module":
        module = submodules[node.target]
        module = getattr(module, "_base_class_origin", type(module))
        return get_acc_ops_name(module)
    return qualified_name(node.target) if node.op == "call_function" else node.target


def is_node_output_tensor(node: Node) -> bool:
    """Whether a node's value is known to be one tensor."""
    kind = node.meta.get("type")
    return kind is not None and issubclass(kind, tocha.Tensor)


def legalize_graph(gm: GraphModule) -> GraphModule:
    """Puts the nodes into an order where each comes after its inputs; nodes keep their places as far as that allows."""
    nodes = list(gm.graph.nodes)
    position = {n: i for i, n in enumerate(nodes)}
    waiting = {n: len(n._input_nodes) for n in nodes}
    ready = [position[n] for n in nodes if waiting[n] == 0]
    heapq.heapify(ready)
    ordered: list[Node] = []
    while ready:
        node = nodes[heapq.heappop(ready)]
        ordered.append(node)
        for user in node.users:
            waiting[user] -= 1
            if waiting[user] == 0:
                heapq.heappush(ready, position[user])
    if len(ordered) != len(nodes):
        raise RuntimeError(f"Input graph has cycles, unable to add {[n for n in waiting if waiting[n]]}")
    # Inputs first and the output last, whatever else could stand there.
    ordered.sort(key=lambda n: {"placeholder": 0, "output": 2}.get(n.op, 1))
    for node in ordered:
        gm.graph._root.prepend(node)
    return gm


def stable_topological_sort(gm: GraphModule) -> GraphModule:
    return legalize_graph(gm)
