"""Small changes of graphs, and the bytes of their values."""

from __future__ import annotations

from typing import Any, NamedTuple

import tocha
from tocha.fx.graph import Graph
from tocha.fx.graph_module import GraphModule
from tocha.fx.node import Node, Target, map_arg
from tocha.fx.passes.shape_prop import ShapeProp, TensorMetadata

__all__ = ["get_size_of_all_nodes", "get_size_of_node", "get_tensor_meta", "replace_target_nodes_with", "size_bytes"]


class size_bytes(NamedTuple):
    """Bytes of a node's result, and of that with the parameters of the module it calls."""

    output_size: int
    total_size: int


def replace_target_nodes_with(
    fx_module: GraphModule, old_op: str, old_target: Target, new_op: str, new_target: Target
) -> None:
    """Nodes of one kind and target get another kind and target; the module gets a new graph."""
    graph = Graph()
    val_map: dict[Node, Node] = {}
    for node in fx_module.graph.nodes:
        if node.op == old_op and node.target == old_target:
            args, kwargs = (map_arg(a, lambda n: val_map[n]) for a in (node.args, node.kwargs))
            val_map[node] = graph.create_node(new_op, new_target, args, kwargs, node.name)
        else:
            val_map[node] = graph.node_copy(node, lambda n: val_map[n])
    fx_module.graph = graph


def get_size_of_all_nodes(fx_module: GraphModule, args: list[Any] | None = None) -> None:
    """Notes the bytes of every node in node.size_bytes; args are example inputs where shapes are not known yet."""
    if args is not None:
        ShapeProp(fx_module).propagate(*args)
    for node in fx_module.graph.nodes:
        if node.op == "output":
            break
        vars(node)["size_bytes"] = get_size_of_node(fx_module, node)


def get_tensor_meta(node: Node) -> Any:
    meta = node.meta.get("tensor_meta")
    if not meta:
        raise RuntimeError(
            f"Node {node} has no tensor metadata associated with it! Check that shape propagation has run."
        )
    return meta


def _bytes(meta: Any) -> int:
    if isinstance(meta, TensorMetadata):
        return tocha.empty((), dtype=meta.dtype).element_size() * meta.shape.numel()
    return sum(_bytes(m) for m in meta) if isinstance(meta, tuple | list) else 0


def get_size_of_node(fx_module: GraphModule, node: Node) -> size_bytes:
    parameters = 0
    if node.op == "call_module":
        module = fx_module.get_submodule(node.target)
        parameters = sum(p.numel() * p.element_size() for p in module.parameters())
    output = _bytes(get_tensor_meta(node))
    return size_bytes(output, output + parameters)
