"""Fusing: some nodes of a graph move into a submodule that is called in their place."""

from __future__ import annotations

import heapq
import operator
from collections.abc import Iterable

from tocha.fx.graph import Graph
from tocha.fx.graph_module import GraphModule
from tocha.fx.node import Node
from tocha.fx.passes.tools_common import legalize_graph
from tocha.fx.passes.utils.common import lift_subgraph_as_module

__all__ = [
    "erase_nodes",
    "fuse_as_graphmodule",
    "fuse_by_partitions",
    "insert_subgm",
    "topo_sort",
    "validate_partition",
]


def topo_sort(nodes: list[Node]) -> list[Node]:
    """These nodes, each after those among them that it uses."""
    inside = set(nodes)
    waiting = {n: sum(i in inside for i in n.all_input_nodes) for n in nodes}
    ready = [n for n in nodes if waiting[n] == 0]
    heapq.heapify(ready)  # nodes compare by their place in the graph, which is kept where it can be
    ordered: list[Node] = []
    while ready:
        node = heapq.heappop(ready)
        ordered.append(node)
        for user in node.users:
            if user in inside:
                waiting[user] -= 1
                if waiting[user] == 0:
                    heapq.heappush(ready, user)
    if len(ordered) != len(nodes):
        raise AssertionError("topological sorted nodes doesn't have same length as input nodes")
    return ordered


def validate_partition(partition: list[Node]) -> bool:
    """Whether no value leaves the partition and comes back through a node outside."""
    inside = set(partition)
    pending = [u for n in partition for u in n.users if u not in inside]
    seen = set(pending)
    while pending:
        node = pending.pop()
        if node in inside:
            return False
        new = [u for u in node.users if u not in seen]
        seen.update(new)
        pending += new
    return True


def _inputs(nodes: Iterable[Node], inside: set[Node]) -> list[Node]:
    found: dict[Node, None] = {}
    for node in nodes:
        for used in node.all_input_nodes:
            if used not in inside and used.op != "get_attr":
                found.setdefault(used)
    return list(found)


def fuse_as_graphmodule(
    gm: GraphModule,
    nodes: list[Node],
    module_name: str,
    partition_lookup_table: dict[Node, int | None] | None = None,
    *,
    always_return_tuple: bool = False,
) -> tuple[GraphModule, tuple[Node, ...], tuple[Node, ...]]:
    """A module that runs these nodes; the nodes of gm it takes its inputs from, and those its outputs stand for."""
    for node in nodes:
        if node.graph.owning_module is not gm:
            raise AssertionError(f"{node} doesn't belong to passed in graph module {gm._get_name()}")
        if node._erased:
            raise AssertionError(f"{node} has been removed from owning graph")
    if not validate_partition(nodes):
        raise AssertionError("Invalid partition, found dependency cycles")
    inside = set(nodes)
    graph = Graph()
    env: dict[Node, Node] = {}
    inputs = _inputs(nodes, inside)
    for node in inputs:
        placeholder = graph.placeholder(node.name, type_expr=node.type)
        placeholder.meta = node.meta.copy()
        env[node] = placeholder

    def inner(n: Node) -> Node:
        if n not in env:  # an attribute is read again inside
            env[n] = graph.node_copy(n)
        return env[n]

    for node in nodes:
        env[node] = graph.node_copy(node, inner)
    outputs = [n for n in nodes if any(u not in inside for u in n.users)]
    copies = tuple(env[n] for n in outputs)
    graph.output(copies[0] if len(copies) == 1 and not always_return_tuple else copies)
    graph.lint()
    fused, _ = lift_subgraph_as_module(gm, graph, comp_name="", class_name=module_name)
    return fused, tuple(inputs), tuple(outputs)


def insert_subgm(
    gm: GraphModule,
    sub_gm: GraphModule,
    orig_inputs: tuple[Node, ...],
    orig_outputs: tuple[Node, ...],
    insertion_point: Node | None = None,
) -> GraphModule:
    """Calls a submodule in gm; what used the original outputs uses its results."""
    name = sub_gm._get_name()
    gm.add_submodule(name, sub_gm)
    with gm.graph.inserting_before(insertion_point or max(orig_outputs).next):
        call = gm.graph.call_module(name, args=orig_inputs)
        whole = not isinstance(sub_gm.graph.output_node().args[0], tuple)
        results = (
            [call] if whole else [gm.graph.call_function(operator.getitem, (call, i)) for i in range(len(orig_outputs))]
        )
    for old, new in zip(orig_outputs, results):
        old.replace_all_uses_with(new, propagate_meta=not new.meta)
    return gm


def erase_nodes(gm: GraphModule, nodes: list[Node]) -> None:
    for node in reversed(nodes):
        gm.graph.erase_node(node)


def fuse_by_partitions(
    gm: GraphModule,
    partitions: list[dict[Node, int | None]],
    prefix: str = "fused_",
    always_return_tuple: bool = False,
) -> GraphModule:
    """Every partition becomes a submodule: fused_0, fused_1, ..."""
    for i, partition in enumerate(partitions):
        nodes = topo_sort(sorted(partition))
        fused, inputs, outputs = fuse_as_graphmodule(
            gm, nodes, f"{prefix}{i}", partition, always_return_tuple=always_return_tuple
        )
        insert_subgm(gm, fused, inputs, outputs)
        erase_nodes(gm, nodes)
    legalize_graph(gm)
    gm.graph.lint()
    gm.recompile()
    return gm
