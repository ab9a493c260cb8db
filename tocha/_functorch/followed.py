"""Captured graphs, run for tracing: what is made of a node says which lines of the program the node came from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tocha._subclasses import origins
from tocha.fx import GraphModule, Interpreter, Node


class Followed(Interpreter):
    """Calls what the module's forward would call, node by node."""

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module)
        self.extra_traceback = False  # errors are the program's

    def run_node(self, n: Node) -> Any:
        with origins.at(n.stack_trace, n.meta.get("custom")):
            return super().run_node(n)


def followed(module: GraphModule) -> Callable[..., Any]:
    """The module's forward; of a captured one, in a form that is followed."""
    known = any(n.stack_trace for n in module.graph.nodes)
    return Followed(module).run if known and "forward" not in vars(module) else module.forward
