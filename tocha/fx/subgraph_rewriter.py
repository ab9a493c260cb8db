"""replace_pattern: every occurrence of one small graph in a module becomes another."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from tocha.fx._symbolic_trace import symbolic_trace
from tocha.fx.graph import Graph
from tocha.fx.graph_module import GraphModule
from tocha.fx.node import Node
from tocha.fx.passes.utils.matcher_utils import InternalMatch, SubgraphMatcher
from tocha.nn import Module

__all__ = ["Match", "ReplacedPatterns", "replace_pattern", "replace_pattern_with_filters"]

_Pattern = Callable[..., Any] | Graph | GraphModule
_Filter = Callable[[InternalMatch, Graph, Graph], bool]


class Match(NamedTuple):
    """An occurrence that was replaced: the pattern's last node, and what stood for each of its nodes."""

    anchor: Node
    nodes_map: dict[Node, Node]


@dataclass
class ReplacedPatterns:
    """The same with the nodes that took its place."""

    anchor: Node
    nodes_map: dict[Node, Node]
    replacements: list[Node]


def replace_pattern(gm: GraphModule, pattern: _Pattern, replacement: _Pattern) -> list[Match]:
    """Replaces every occurrence of a pattern (a function, module or graph) in a module.

    The parameters of the pattern stand for anything; the replacement gets what they stood for.

    >>> import tocha
    >>> module = tocha.fx.symbolic_trace(lambda x, y: tocha.relu(x + y).sum())
    >>> _ = replace_pattern(module, lambda a: tocha.relu(a), lambda a: tocha.clamp(a, 0))
    >>> print(module.code.strip())
    def forward(self, x, y):
        add = x + y;  x = y = None
        clamp = tocha.clamp(add, 0);  add = None
        sum_1 = clamp.sum();  clamp = None
        return sum_1
    """
    return [Match(m.anchor, m.nodes_map) for m in _replace_pattern(gm, pattern, replacement)]


def replace_pattern_with_filters(
    gm: GraphModule,
    pattern: _Pattern,
    replacement: _Pattern | None = None,
    match_filters: list[_Filter] | None = None,
    ignore_literals: bool = False,
    replacement_callback: Callable[[InternalMatch, Graph, Graph], Graph] | None = None,
    node_name_match: str = "",
) -> list[ReplacedPatterns]:
    """The same where every filter (match, graph, pattern graph) says yes; a callback may make each replacement.

    With ignore_literals, numbers and strings of the pattern match any others.
    """
    return _replace_pattern(
        gm, pattern, replacement, match_filters, ignore_literals, replacement_callback, node_name_match
    )


def _as_graph(pattern: _Pattern) -> Graph:
    if isinstance(pattern, GraphModule):
        return pattern.graph
    return pattern if isinstance(pattern, Graph) else symbolic_trace(pattern).graph


def _replace_pattern(
    gm: GraphModule,
    pattern: _Pattern,
    replacement: _Pattern | None = None,
    match_filters: list[_Filter] | None = None,
    ignore_literals: bool = False,
    replacement_callback: Callable[[InternalMatch, Graph, Graph], Graph] | None = None,
    node_name_match: str = "",
) -> list[ReplacedPatterns]:
    graph, pattern_graph = gm.graph, _as_graph(pattern)
    matcher = SubgraphMatcher(
        pattern_graph,
        match_output=False,
        match_placeholder=False,
        remove_overlapping_matches=True,
        ignore_literals=ignore_literals,
    )
    if any(n.op == "placeholder" for n in matcher.pattern_anchors):
        raise AssertionError("The insert point can't be None: the pattern returns one of its inputs")
    filters = match_filters or []
    matches = [m for m in matcher.match(graph, node_name_match) if all(f(m, graph, pattern_graph) for f in filters)]
    if replacement_callback is None and replacement is None:
        raise AssertionError("Must provide either replacement GraphModule or replacement callback")
    fixed = _as_graph(replacement) if replacement_callback is None and replacement is not None else None
    changed: dict[Node, Any] = {}
    done: list[ReplacedPatterns] = []
    for match in matches:
        new = fixed if fixed is not None else replacement_callback(match, graph, pattern_graph)  # type: ignore[misc]
        added = _replace_one(graph, new, match, pattern_graph, changed)
        done.append(ReplacedPatterns(match.anchors[0], match.nodes_map, added))
    gm.recompile()
    if isinstance(replacement, Module):
        _replace_attributes(gm, replacement)
    return done


def _replace_one(
    graph: Graph,
    replacement: Graph,
    match: InternalMatch,
    pattern: Graph,
    changed: dict[Node, Any],
) -> list[Node]:
    """Copies the replacement in front of the occurrence's first user and takes the occurrence away."""
    wanted = [n for n in replacement.nodes if n.op == "placeholder"]
    given = [n for n in pattern.nodes if n.op == "placeholder"]
    if len(wanted) != len(given):
        raise AssertionError(f"Placeholder count mismatch: {len(given)} vs {len(wanted)}")
    val_map: dict[Node, Any] = {}
    for place, pattern_node in zip(wanted, given):
        if pattern_node not in match.nodes_map:
            if place.users:
                raise AssertionError(f"the replacement uses {place}, which the pattern does not")
            val_map[place] = None
            continue
        value = match.nodes_map[pattern_node]
        while isinstance(value, Node) and value in changed:  # what an earlier replacement put there
            value = changed[value]
        val_map[place] = value
        match.nodes_map[pattern_node] = value
    inputs = set(map(id, val_map.values()))
    with graph.inserting_before(_first_user(match)):
        results = graph.graph_copy(replacement, val_map)
    results = results if isinstance(results, tuple | list) else (results,)
    if len(match.returning_nodes) != len(results):
        raise AssertionError(f"returning_nodes count mismatch: {len(match.returning_nodes)} vs {len(results)}")
    for old, new in zip(match.returning_nodes, results):
        old.replace_all_uses_with(new)
        changed[old] = new
    _erase(graph, match, pattern)
    return [v for v in val_map.values() if isinstance(v, Node) and id(v) not in inputs]


def _first_user(match: InternalMatch) -> Node:
    inside = {n for n in match.nodes_map.values() if isinstance(n, Node)}
    users = [u for n in match.returning_nodes for u in n.users if u not in inside]
    return min(users) if users else match.returning_nodes[-1].next


def _erase(graph: Graph, match: InternalMatch, pattern: Graph) -> None:
    for node in reversed(pattern.nodes):
        if node.op in ("placeholder", "output"):
            continue
        found = match.nodes_map[node]
        if not found._erased:
            graph.erase_node(found)


def _replace_attributes(gm: GraphModule, replacement: Module) -> None:
    """Gives the module what the new nodes refer to, and takes away what nothing refers to any more."""
    gm.delete_all_unused_submodules()
    if isinstance(replacement, GraphModule):
        replacement.graph.lint()
    for node in gm.graph.nodes:
        if node.op not in ("call_module", "get_attr"):
            continue
        own, theirs = _attribute(gm, node.target), _attribute(replacement, node.target)
        if own is not None:
            continue
        if theirs is None:
            raise RuntimeError(
                'Attempted to create a "', node.op, '" node during subgraph rewriting with target', node.target,
                "but the referenced attribute does not exist in the replacement GraphModule",
            )  # fmt: skip
        if isinstance(theirs, Module):
            gm.add_submodule(node.target, copy.deepcopy(theirs))
        else:
            setattr(gm, node.target, theirs)
    gm.graph.lint()


def _attribute(module: Module, target: str) -> Any:
    found: Any = module
    for part in target.split("."):
        found = getattr(found, part, None)
    return found
