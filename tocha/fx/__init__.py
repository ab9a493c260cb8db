"""tocha.fx: programs as graphs that one can read, change, print as Python and run.

`symbolic_trace` makes a GraphModule of a module or function; its `graph` is a list of nodes; `Interpreter`,
`Transformer` and `replace_pattern` work on it; `tocha.fx.passes` has more.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tocha._core.on_demand import parts_of
from tocha.fx import config, immutable_collections, traceback
from tocha.fx._symbolic_trace import PH, ProxyableClassMeta, Tracer, symbolic_trace, wrap
from tocha.fx.graph import CodeGen, Graph
from tocha.fx.graph_module import GraphModule
from tocha.fx.interpreter import Interpreter, Transformer
from tocha.fx.node import Node, has_side_effect, map_arg
from tocha.fx.proxy import Proxy

if TYPE_CHECKING:
    from tocha.fx.subgraph_rewriter import replace_pattern

__all__ = [
    "Graph", "GraphModule", "Interpreter", "Node", "Proxy", "Tracer", "Transformer", "has_side_effect", "map_arg",
    "replace_pattern", "symbolic_trace", "wrap",
]  # fmt: skip
_part = parts_of("tocha.fx", "_compatibility _lazy_graph_module experimental passes subgraph_rewriter")


def __getattr__(name: str) -> Any:
    """Matching and replacing, and the passes it needs, when somebody asks: capture does not."""
    if name == "replace_pattern":
        globals()[name] = found = importlib.import_module("tocha.fx.subgraph_rewriter").replace_pattern
        return found
    return _part(name)


_ALSO = (PH, CodeGen, ProxyableClassMeta, config, immutable_collections, traceback)
