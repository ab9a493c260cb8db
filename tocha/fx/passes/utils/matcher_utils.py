"""SubgraphMatcher: finds where a small graph, the pattern, occurs in a larger one."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

import tocha
from tocha.fx.graph import Graph
from tocha.fx.node import Node

__all__ = ["InternalMatch", "SubgraphMatcher"]


@dataclass
class InternalMatch:
    """One occurrence: which node of the graph stands for which node of the pattern."""

    anchors: list[Node]
    nodes_map: dict[Node, Any] = field(default_factory=dict)
    placeholder_nodes: list[Any] = field(default_factory=list)
    returning_nodes: list[Node] = field(default_factory=list)
    name_node_map: dict[str, Node] = field(default_factory=dict)

    def __copy__(self) -> InternalMatch:
        return InternalMatch(
            self.anchors, dict(self.nodes_map), list(self.placeholder_nodes), list(self.returning_nodes)
        )


class SubgraphMatcher:
    """Placeholders of the pattern match anything; other nodes match nodes with the same target and arguments.

    A node inside an occurrence must not be used outside of it, unless the pattern returns it. With ignore_literals numbers
    and strings in the pattern match any others.

    >>> import tocha
    >>> pattern = tocha.fx.symbolic_trace(lambda a: tocha.relu(a) + 1)
    >>> graph = tocha.fx.symbolic_trace(lambda x: (tocha.relu(x) + 1) * (tocha.relu(-x) + 1)).graph
    >>> [match.nodes_map for match in SubgraphMatcher(pattern.graph).match(graph)]
    [{add: add, relu: relu, a: x}, {add: add_1, relu: relu_1, a: neg}]
    """

    def __init__(
        self,
        pattern: Graph,
        match_output: bool = False,
        match_placeholder: bool = False,
        remove_overlapping_matches: bool = True,
        ignore_literals: bool = False,
    ) -> None:
        self.pattern = pattern
        self.match_output = match_output
        self.match_placeholder = match_placeholder
        self.remove_overlapping_matches = remove_overlapping_matches
        self.ignore_literals = ignore_literals
        if len(pattern.nodes) == 0:
            raise ValueError("SubgraphMatcher cannot be initialized with an empty pattern")
        for node in pattern.nodes:
            if node.op not in ("output", "placeholder") and not node.users:
                raise AssertionError("SubgraphMatcher cannot be initialized with an pattern with dead code")
        self.pattern_placeholder_nodes = [n for n in pattern.nodes if n.op == "placeholder"]
        output = pattern.output_node()
        self.pattern_returning_nodes = output.all_input_nodes
        if match_output:
            self.pattern_anchors = [output]
        else:
            self.pattern_anchors = [n for n in output.all_input_nodes if len(n.users) == 1]

    # ---- nodes ----

    def _match_attributes(self, pn: Node, gn: Node) -> bool:
        """Constants match if they are of one kind: tensors, or equal values."""
        values = []
        for node in (pn, gn):
            found: Any = node.graph.owning_module
            try:
                for part in node.target.split("."):
                    found = getattr(found, part)
            except AttributeError:
                return pn.target == gn.target
            values.append(found)
        if isinstance(values[0], tocha.Tensor) or isinstance(values[1], tocha.Tensor):
            return isinstance(values[0], tocha.Tensor) and isinstance(values[1], tocha.Tensor)
        return type(values[0]) is type(values[1])

    def _nodes_are_equal(self, pn: Node, gn: Node, node_name_match: str = "") -> bool:
        if not self.match_placeholder and pn.op == "placeholder":
            return True
        if node_name_match and node_name_match in gn.name:
            return True
        if pn.op != gn.op:
            return False
        if pn.op in ("placeholder", "output"):
            return True
        return self._match_attributes(pn, gn) if pn.op == "get_attr" else pn.target == gn.target

    def _is_contained(self, nodes_map: dict[Node, Any]) -> bool:
        """Whether nothing outside needs what is inside."""
        inside = {n for n in nodes_map.values() if isinstance(n, Node)}
        for pn, gn in nodes_map.items():
            if pn.op == "placeholder" or not isinstance(gn, Node) or pn in self.pattern_returning_nodes:
                continue
            if any(user not in inside for user in gn.users):
                return False
        return True

    def _match_literals(self, pn: Any, gn: Any, match: InternalMatch) -> bool:
        if isinstance(pn, Node) and isinstance(gn, Node):
            raise AssertionError("pn and gn cannot both be Node")
        if isinstance(pn, Node):
            if pn.op != "placeholder":
                return False
            if pn in match.nodes_map:
                return bool(match.nodes_map[pn] == gn)
            match.nodes_map[pn] = gn
            return True
        if isinstance(gn, Node):
            return False
        return self.ignore_literals or (type(pn) is type(gn) and pn == gn)

    def _match_args(self, pattern: Any, found: Any, match: InternalMatch) -> bool:
        if isinstance(pattern, Node) and isinstance(found, Node):
            return self._match_nodes(pattern, found, match)
        if isinstance(pattern, list | tuple) and isinstance(found, list | tuple):
            same = len(pattern) == len(found)
            return same and all(self._match_args(p, f, match) for p, f in zip(pattern, found))
        if isinstance(pattern, dict) and isinstance(found, dict):
            return set(pattern) == set(found) and all(self._match_args(pattern[k], found[k], match) for k in pattern)
        if isinstance(pattern, slice) and isinstance(found, slice):
            parts = ((pattern.start, found.start), (pattern.stop, found.stop), (pattern.step, found.step))
            return all(self._match_args(p, f, match) for p, f in parts)
        return self._match_literals(pattern, found, match)

    def _match_nodes(self, pn: Node, gn: Node, match: InternalMatch, node_name_match: str = "") -> bool:
        """Whether gn can stand for pn; what it stands for is added to the match."""
        if pn in match.nodes_map:
            return match.nodes_map[pn] is gn
        if any(gn is v for p, v in match.nodes_map.items() if p.op != "placeholder") and pn.op != "placeholder":
            return False  # one node cannot stand for two
        if not self._nodes_are_equal(pn, gn, node_name_match):
            return False
        saved = dict(match.nodes_map)
        match.nodes_map[pn] = gn
        if pn.op == "placeholder":
            return True
        if self._match_calls(pn, gn, match):
            return True
        match.nodes_map.clear()
        match.nodes_map.update(saved)
        return False

    def _match_calls(self, pn: Node, gn: Node, match: InternalMatch) -> bool:
        before = dict(match.nodes_map)
        if len(pn.args) == len(gn.args) and set(pn.kwargs) == set(gn.kwargs):
            pattern, found = (pn.args, pn.kwargs), (gn.args, gn.kwargs)
            if self._match_args(pattern[0], found[0], match) and self._match_args(pattern[1], found[1], match):
                return True
            match.nodes_map.clear()
            match.nodes_map.update(before)
            return False
        # The same call may be written with other arguments by name.
        modules = (pn.graph.owning_module, gn.graph.owning_module)
        pairs = [n.normalized_arguments(m, normalize_to_only_use_kwargs=True) for n, m in zip((pn, gn), modules)]
        if pairs[0] is None or pairs[1] is None:
            return False
        return self._match_args(pairs[0].kwargs, pairs[1].kwargs, match)

    # ---- graphs ----

    def match(self, graph: Graph, node_name_match: str = "") -> list[InternalMatch]:
        """All occurrences of the pattern; of those that share nodes, the first."""
        candidates = [
            [g for g in graph.nodes if self._nodes_are_equal(anchor, g, node_name_match)]
            for anchor in self.pattern_anchors
        ]
        matches: list[InternalMatch] = []
        self._search(0, InternalMatch(anchors=self.pattern_anchors), candidates, matches, node_name_match)
        kept = [m for m in matches if self._is_contained(m.nodes_map) and self._is_whole(m)]
        return self._remove_overlapping_matches(kept) if self.remove_overlapping_matches else kept

    def _search(
        self,
        index: int,
        partial: InternalMatch,
        candidates: list[list[Node]],
        matches: list[InternalMatch],
        node_name_match: str,
    ) -> None:
        if index == len(candidates):
            partial.placeholder_nodes = [
                partial.nodes_map[p] for p in self.pattern_placeholder_nodes if p in partial.nodes_map
            ]
            partial.returning_nodes = [partial.nodes_map[p] for p in self.pattern_returning_nodes]
            matches.append(partial)
            return
        for candidate in candidates[index]:
            attempt = copy.copy(partial)
            if self._match_nodes(self.pattern_anchors[index], candidate, attempt, node_name_match):
                self._search(index + 1, attempt, candidates, matches, node_name_match)

    def _is_whole(self, match: InternalMatch) -> bool:
        """No placeholder of the pattern may stand for a node that the match replaces."""
        inner = {id(g) for p, g in match.nodes_map.items() if p.op != "placeholder"}
        return not any(id(g) in inner for p, g in match.nodes_map.items() if p.op == "placeholder")

    def _remove_overlapping_matches(self, matches: list[InternalMatch]) -> list[InternalMatch]:
        kept: list[InternalMatch] = []
        taken: dict[Node, None] = {}
        for match in matches:
            nodes = [g for p, g in match.nodes_map.items() if p.op not in ("placeholder", "output")]
            if not any(isinstance(g, Node) and g in taken for g in nodes):
                kept.append(match)
                taken.update(dict.fromkeys(g for g in nodes if isinstance(g, Node)))
        return kept
