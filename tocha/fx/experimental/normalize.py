"""NormalizeArgs: every call of a library function or module with its arguments by name, defaults filled in."""

from __future__ import annotations

from typing import Any

from tocha.fx.graph_module import GraphModule
from tocha.fx.interpreter import Transformer
from tocha.fx.node import Node, Target
from tocha.fx.operator_schemas import normalize_function, normalize_module
from tocha.fx.proxy import Proxy

__all__ = ["NormalizeArgs"]


class NormalizeArgs(Transformer):
    """
    >>> import tocha
    >>> module = tocha.fx.symbolic_trace(lambda x: tocha.relu(x))
    >>> list(NormalizeArgs(module).transform().graph.nodes)[1].kwargs
    {'input': x}
    """

    def __init__(self, module: GraphModule, normalize_to_only_use_kwargs: bool = True) -> None:
        super().__init__(module)
        self.normalize_to_only_use_kwargs = normalize_to_only_use_kwargs
        self.node_map: dict[Proxy, Node] = {}

    def run_node(self, n: Node) -> Any:
        out = super().run_node(n)
        if isinstance(out, Proxy):
            self.node_map[out] = n
            out.node.meta = n.meta
            out.node.type = n.type
        return out

    def call_function(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        found = normalize_function(
            target,  # type: ignore[arg-type]
            args,
            kwargs,
            normalize_to_only_use_kwargs=self.normalize_to_only_use_kwargs,
        )
        return super().call_function(target, *(found or (args, kwargs)))

    def call_module(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        found = normalize_module(self.module, target, args, kwargs, self.normalize_to_only_use_kwargs)  # type: ignore[arg-type]
        return super().call_module(target, *(found or (args, kwargs)))
