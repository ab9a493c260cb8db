"""A matcher whose pattern also returns a dict of its nodes by name."""

from __future__ import annotations

from tocha.fx.graph import Graph
from tocha.fx.graph_module import GraphModule
from tocha.fx.node import Node
from tocha.fx.passes.utils.matcher_utils import InternalMatch, SubgraphMatcher

__all__ = ["SubgraphMatcherWithNameNodeMap"]


def _split_to_graph_and_name_node_map(gm: GraphModule) -> tuple[GraphModule, dict[str, Node]]:
    """The pattern without the dict it returns last, and that dict."""
    output = gm.graph.output_node()
    *results, names = output.args[0]
    if not isinstance(names, dict):
        raise AssertionError("Expecting the input graph to have a dict output as the last element")
    output.args = (tuple(results) if len(results) > 1 else results[0],)
    gm.recompile()
    return gm, dict(names)


class SubgraphMatcherWithNameNodeMap(SubgraphMatcher):
    """Matches know the nodes that the pattern named: match.name_node_map["relu"]."""

    def __init__(
        self,
        pattern_gm: GraphModule,
        match_output: bool = False,
        match_placeholder: bool = False,
        remove_overlapping_matches: bool = True,
        ignore_literals: bool = False,
    ) -> None:
        pattern_gm, self.name_node_map = _split_to_graph_and_name_node_map(pattern_gm)
        super().__init__(pattern_gm.graph, match_output, match_placeholder, remove_overlapping_matches, ignore_literals)

    def match(self, graph: Graph, node_name_match: str = "") -> list[InternalMatch]:
        found = super().match(graph, node_name_match)
        for match in found:
            match.name_node_map = {name: match.nodes_map[node] for name, node in self.name_node_map.items()}
        return found
