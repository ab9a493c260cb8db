"""Nodes grouped by the module or function of the program that they come from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tocha.fx.graph import Graph
from tocha.fx.node import Node

__all__ = ["SourcePartition", "check_subgraphs_connected", "get_source_partitions"]


@dataclass
class SourcePartition:
    """The nodes of one source, what they take and what they give."""

    nodes: list[Node]
    source: Any
    input_nodes: list[Node] = field(default_factory=list)
    output_nodes: list[Node] = field(default_factory=list)
    params: list[Node] = field(default_factory=list)


def _sources(node: Node) -> tuple[str, Any] | None:
    stack = node.meta.get("source_fn_stack")
    if stack:
        return stack[-1]
    modules = node.meta.get("nn_module_stack")
    if modules:
        path, kind = next(reversed(modules.values()))
        return path, kind
    return (node.name, node.target) if node.op == "call_function" else None


def _partition(nodes: list[Node], source: Any) -> SourcePartition:
    inside = set(nodes)
    inputs: dict[Node, None] = {}
    params: dict[Node, None] = {}
    outputs: dict[Node, None] = {}
    for node in nodes:
        for used in node.all_input_nodes:
            if used not in inside:
                (params if used.op == "get_attr" else inputs).setdefault(used)
        if node.op == "get_attr":
            params.setdefault(node)
        if any(u not in inside for u in node.users):
            outputs.setdefault(node)
    return SourcePartition(nodes, source, list(inputs), list(outputs), list(params))


def get_source_partitions(
    graph: Graph, wanted_sources: list[Any], filter_fn: Callable[[Node], bool] | None = None
) -> dict[Any, list[SourcePartition]]:
    """For each wanted class or function, the groups of nodes that came from one use of it."""
    groups: dict[Any, dict[str, list[Node]]] = {}
    for node in graph.nodes:
        found = _sources(node)
        if found is None or found[1] not in wanted_sources or (filter_fn and not filter_fn(node)):
            continue
        groups.setdefault(found[1], {}).setdefault(found[0], []).append(node)
    return {source: [_partition(nodes, source) for nodes in by_name.values()] for source, by_name in groups.items()}


def check_subgraphs_connected(subgraph1: SourcePartition, subgraph2: SourcePartition) -> bool:
    """Whether the second takes something from the first."""
    return any(n in subgraph1.nodes for node in subgraph2.nodes for n in node.all_input_nodes)
