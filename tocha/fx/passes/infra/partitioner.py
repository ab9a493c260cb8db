"""CapabilityBasedPartitioner: groups the nodes that a backend supports into as few pieces as their order allows."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence

from tocha.fx._names import qualified_name
from tocha.fx.graph_module import GraphModule
from tocha.fx.node import Node
from tocha.fx.passes.operator_support import OperatorSupportBase
from tocha.fx.passes.utils.fuser_utils import fuse_by_partitions

__all__ = ["CapabilityBasedPartitioner", "Partition"]


class Partition:
    """Nodes that run together, with their place in the order."""

    def __init__(
        self,
        id: int | None = None,
        nodes: Iterable[Node] | None = None,
        node_orders: Iterable[int] | None = None,
    ) -> None:
        self.id = id
        given = list(nodes or ())
        orders: list[int | None] = list(node_orders) if node_orders is not None else [None] * len(given)
        self.nodes: dict[Node, int | None] = dict(zip(given, orders))

    def __repr__(self) -> str:
        return str(self.nodes)

    def add_node(self, node: Node, node_order: int | None = None) -> None:
        self.nodes[node] = node_order

    def remove_node(self, node: Node) -> None:
        del self.nodes[node]

    def size(self) -> int:
        return len(self.nodes)


class CapabilityBasedPartitioner:
    """Proposes partitions of supported nodes, and fuses each into a submodule.

    Two pieces are joined when no value would leave the joined one and come back.

    >>> import tocha
    >>> from tocha.fx.passes.operator_support import create_op_support
    >>> module = tocha.fx.symbolic_trace(lambda x: tocha.exp(tocha.relu(x) + 1).sum())
    >>> supported = create_op_support(lambda modules, node: node.op == "call_function")
    >>> print(CapabilityBasedPartitioner(module, supported).partition_and_fuse().code.strip())
    def forward(self, x):
        fused_0 = self.fused_0(x);  x = None
        sum_1 = fused_0.sum();  fused_0 = None
        return sum_1
    """

    def __init__(
        self,
        graph_module: GraphModule,
        operator_support: OperatorSupportBase,
        allows_single_node_partition: bool = False,
        non_compute_ops: Sequence[str] | None = None,
        allowed_single_node_partition_ops: Sequence[str] | None = None,
        skip_horizontal_fusion: bool = False,
    ) -> None:
        self.graph_module = graph_module
        self.operator_support = operator_support
        self.allows_single_node_partition = allows_single_node_partition
        self.non_compute_ops = list(non_compute_ops or [])
        self.allowed_single_node_partition_ops = list(allowed_single_node_partition_ops or [])
        self.skip_horizontal_fusion = skip_horizontal_fusion

    def _is_node_supported(self, node: Node) -> bool:
        return self.operator_support.is_node_supported(dict(self.graph_module.named_modules()), node)

    def propose_partitions(self) -> list[Partition]:
        """The partitions, later ones first."""
        nodes = list(self.graph_module.graph.nodes)
        modules = dict(self.graph_module.named_modules())
        calls = ("call_function", "call_method", "call_module")
        supported = {n for n in nodes if n.op in calls and self.operator_support.is_node_supported(modules, n)}
        groups = _Groups()
        for node in reversed(nodes):
            if node in supported:
                groups.add(node, self.skip_horizontal_fusion)
        reach = {n: i for i, n in enumerate(reversed(nodes))}
        partitions: list[Partition] = []
        for members in groups.members():
            ordered = sorted(members)
            partitions.append(Partition(len(partitions), ordered, [reach[n] for n in ordered]))
        self._take_getitems(partitions)
        return [p for p in partitions if self._is_worth(p)]

    def _take_getitems(self, partitions: list[Partition]) -> None:
        """The parts of a tuple are taken where the tuple is made, if that partition makes it."""
        where = {n: p for p in partitions for n in p.nodes}
        for node in list(where):
            for user in node.users:
                if user.op == "call_function" and user.target is operator.getitem:
                    home = where.get(user)
                    if home is not None and home is not where[node]:
                        home.remove_node(user)
                        where[node].add_node(user)
                        where[user] = where[node]

    def _is_worth(self, partition: Partition) -> bool:
        if not partition.nodes:
            return False
        if self.allows_single_node_partition:
            return True
        quiet = {*self.non_compute_ops, "_operator.getitem"}
        names = [qualified_name(n.target) if callable(n.target) else str(n.target) for n in partition.nodes]
        if any(n in self.allowed_single_node_partition_ops for n in names):
            return True
        return sum(n not in quiet for n in names) > 1

    def fuse_partitions(self, partitions: list[Partition], prefix: str = "fused_") -> GraphModule:
        return fuse_by_partitions(self.graph_module, [p.nodes for p in partitions], prefix)

    def remove_bookend_non_compute_ops(self, partitions: list[Partition]) -> None:
        """Takes nodes that compute nothing away from the borders of the partitions."""
        quiet = set(self.non_compute_ops)

        def is_quiet(n: Node) -> bool:
            return n.op == "call_function" and qualified_name(n.target) in quiet

        for partition in partitions:
            for side in ("all_input_nodes", "users"):
                again = True
                while again:
                    edge = [
                        n
                        for n in partition.nodes
                        if is_quiet(n) and not any(m in partition.nodes for m in getattr(n, side))
                    ]
                    for n in edge:
                        partition.remove_node(n)
                    again = bool(edge)

    def partition_and_fuse(self, prefix: str = "fused_") -> GraphModule:
        return self.fuse_partitions(self.propose_partitions(), prefix)


class _Groups:
    """Groups of nodes that grow while nodes are added from the last to the first."""

    def __init__(self) -> None:
        self.group: dict[Node, int] = {}
        self.nodes_of: dict[int, dict[Node, None]] = {}

    def add(self, node: Node, connected_only: bool) -> None:
        number = len(self.group) + 1
        self.group[node] = number
        self.nodes_of[number] = {node: None}
        near = dict.fromkeys(self.group[u] for u in node.users if u in self.group)
        for other in [*near, *([] if connected_only else self.nodes_of)]:
            if other in self.nodes_of and other != number and self._can_join(number, other):
                number = self._join(number, other)

    def _join(self, a: int, b: int) -> int:
        """The older group takes the newer one's nodes."""
        keep, gone = min(a, b), max(a, b)
        for n in self.nodes_of.pop(gone):
            self.group[n] = keep
            self.nodes_of[keep][n] = None
        return keep

    def _can_join(self, a: int, b: int) -> bool:
        """Whether no path leaves the joined group and enters it again. Groups are taken as single nodes on the way."""
        inside = {*self.nodes_of[a], *self.nodes_of[b]}
        pending = [u for n in inside for u in n.users if u not in inside]
        seen: set[Node] = set()
        while pending:
            node = pending.pop()
            if node in inside:
                return False
            if node in seen:
                continue
            # Reaching a group reaches everything that any of its nodes leads to.
            together = self.nodes_of[self.group[node]] if node in self.group else (node,)
            seen.update(together)
            pending += [u for n in together for u in n.users if u not in seen]
        return True

    def members(self) -> list[list[Node]]:
        return [list(nodes) for nodes in self.nodes_of.values()]
