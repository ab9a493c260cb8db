"""Subgraphs as modules, and graphs compared."""

from __future__ import annotations

from typing import Any

from tocha.fx.graph import Graph
from tocha.fx.graph_module import GraphModule
from tocha.fx.passes.utils.matcher_utils import SubgraphMatcher
from tocha.nn import Module

__all__ = ["HolderModule", "compare_graphs", "lift_subgraph_as_module"]


class HolderModule(Module):
    """Holds modules by name; a graph's root while it is being cut up."""

    def __init__(self, d: dict[str, Any]) -> None:
        super().__init__()
        for name, module in d.items():
            self.add_module(name, module)


def lift_subgraph_as_module(
    gm: GraphModule, subgraph: Graph, comp_name: str = "", class_name: str = "GraphModule"
) -> tuple[GraphModule, dict[str, str]]:
    """A module that runs a subgraph of gm, with gm's attributes it refers to; and where these stood in gm."""
    root = HolderModule({})
    old_names: dict[str, str] = {}
    for node in subgraph.nodes:
        if node.op not in ("call_module", "get_attr"):
            continue
        target = node.target
        *path, name = target.split(".")
        source: Any = gm
        place: Module = root
        for part in path:
            source = getattr(source, part)
            if not hasattr(place, part):
                place.add_module(part, HolderModule({}))
            place = getattr(place, part)
        value = getattr(source, name)
        if not hasattr(place, name) or getattr(place, name) is not value:
            setattr(place, name, value)
        old_names[f"{comp_name}.{target}" if comp_name else target] = target
    return GraphModule(root, subgraph, class_name), old_names


def compare_graphs(left: Graph, right: Graph) -> bool:
    """Whether two graphs do the same things in the same way.

    >>> import tocha
    >>> one, other = (tocha.fx.symbolic_trace(lambda x: x.relu() + 1).graph for _ in range(2))
    >>> compare_graphs(one, other)
    True
    """
    matcher = SubgraphMatcher(left, match_output=True, match_placeholder=True)
    return len(matcher.match(right)) > 0
