"""Watching a pass: which nodes it made, erased and replaced, and, where a folder is given, drawings of before and after."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from tocha.fx.graph_module import GraphModule
from tocha.fx.node import Node
from tocha.fx.passes.graph_drawer import FxGraphDrawer
from tocha.fx.traceback import NodeSource, NodeSourceAction

__all__ = ["GraphTransformObserver"]

T = TypeVar("T")


class GraphTransformObserver:
    """A context around a pass. Nodes made in it know where they come from (`meta["from_node"]`).

    >>> import operator
    >>> from tocha import fx
    >>> module = fx.symbolic_trace(lambda x: x + 1)
    >>> with GraphTransformObserver(module, "double") as seen:
    ...     (add,) = module.graph.find_nodes(op="call_function", target=operator.add)
    ...     with module.graph.inserting_after(add):
    ...         twice = module.graph.call_function(operator.mul, (add, 2))
    >>> sorted(seen.created_nodes)
    ['mul']
    """

    _pass_count = 0

    def __init__(self, gm: GraphModule, passname: str, subsystem: str | None = None, log_url: str | None = None):
        self.gm, self.passname, self.subsystem, self.log_url = gm, passname, subsystem, log_url
        self.erased_nodes: set[str] = set()
        self.created_nodes: set[str] = set()
        self.name_to_node: dict[str, Node] = {}
        self.copies: list[GraphModule] = []
        GraphTransformObserver._pass_count += 1
        self.count = GraphTransformObserver._pass_count

    @classmethod
    def get_current_pass_count(cls) -> int:
        return cls._pass_count

    def apply_gm_pass(self, pass_fn: Callable[[GraphModule], T]) -> T | None:
        """A pass over the module, watched."""
        with self:
            return pass_fn(self.gm)

    def apply_graph_pass(self, pass_fn: Callable[[Any], T]) -> T | None:
        """A pass over the graph, watched."""
        with self:
            return pass_fn(self.gm.graph)

    def on_node_creation(self, node: Node) -> None:
        self.created_nodes.add(node.name)
        self.name_to_node[node.name] = node
        node.meta.setdefault("from_node", []).append(NodeSource(None, self.passname, NodeSourceAction.CREATE))

    def on_node_erase(self, node: Node) -> None:
        self.erased_nodes.add(node.name)
        self.name_to_node.pop(node.name, None)

    def on_node_replace(self, old: Node, new: str, user: Node) -> None:
        made = self.name_to_node.get(new)
        if made is not None:
            made.meta.setdefault("from_node", []).append(NodeSource(old, self.passname, NodeSourceAction.REPLACE))

    def on_deepcopy(self, gm: GraphModule) -> None:
        """A copy that a pass makes of the module is watched, too."""
        self.copies.append(gm)
        self.watch(gm)

    def get_node_creation_hook(self) -> Callable:
        return self.on_node_creation

    def get_node_erase_hook(self) -> Callable:
        return self.on_node_erase

    def get_node_replace_hook(self) -> Callable:
        return self.on_node_replace

    def get_deepcopy_hook(self) -> Callable:
        return self.on_deepcopy

    def watch(self, gm: GraphModule) -> None:
        gm._register_create_node_hook(self.on_node_creation)
        gm._register_erase_node_hook(self.on_node_erase)
        gm._register_replace_node_hook(self.on_node_replace)
        if self.on_deepcopy not in gm._deepcopy_hooks:  # a copy has those of its original
            gm._register_deepcopy_hook(self.on_deepcopy)

    def __enter__(self) -> GraphTransformObserver:
        self.draw("before")
        self.watch(self.gm)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for gm in (self.gm, *self.copies):
            gm._unregister_create_node_hook(self.on_node_creation)
            gm._unregister_erase_node_hook(self.on_node_erase)
            gm._unregister_replace_node_hook(self.on_node_replace)
            gm._unregister_deepcopy_hook(self.on_deepcopy)
        if self.created_nodes or self.erased_nodes:
            self.draw("after")

    def draw(self, when: str) -> None:
        if self.log_url is not None:
            path = Path(self.log_url) / f"pass_{self.count}_{self.passname}_{when}.svg"
            FxGraphDrawer(self.gm, self.passname).get_dot_graph().write_svg(path)
