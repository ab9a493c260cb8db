"""What is known about the code being traced: the notes that new nodes get."""

from __future__ import annotations

import contextlib
import copy
import enum
import functools
import traceback
from collections.abc import Callable, Iterator
from typing import Any

from tocha.fx.graph import Graph
from tocha.fx.node import Node

__all__ = [
    "NodeSource", "NodeSourceAction", "annotate", "annotate_fn", "format_stack", "get_current_meta",
    "get_current_replay_node", "get_graph_provenance_json", "has_preserved_node_meta", "preserve_node_meta",
    "reset_grad_fn_seq_nr", "set_current_meta", "set_current_replay_node", "set_grad_fn_seq_nr", "set_stack_trace",
]  # fmt: skip

current_meta: dict[str, Any] = {}
current_replay_node: Node | None = None
should_preserve_node_meta = False


class NodeSourceAction(enum.Enum):
    CREATE = "create"
    REPLACE = "replace"


class NodeSource:
    """Where a node comes from: the node of an earlier graph, and the pass that made this one of it."""

    def __init__(
        self, node: Node | None, pass_name: str = "", action: NodeSourceAction | list[NodeSourceAction] | None = None
    ) -> None:
        self.pass_name = pass_name
        self.action = [] if action is None else action if isinstance(action, list) else [action]
        self.name = node.name if node else ""
        self.target = node._pretty_print_target(node.target) if node else ""
        self.graph_id = id(node.graph) if node else -1
        self.from_node: list[NodeSource] = copy.deepcopy(node.meta.get("from_node", [])) if node else []

    def _get_action_string(self) -> str:
        return "+".join(a.name.lower() for a in self.action)

    def print_readable(self, indent: int = 0) -> str:
        if indent > 9:
            return ""
        text = (
            " " * 4 * indent
            + f"(name={self.name}, pass_name={self.pass_name}, action={self._get_action_string()}, graph_id={self.graph_id})\n"
        )
        return text + "".join(source.print_readable(indent + 1) for source in self.from_node)

    def __repr__(self) -> str:
        return self.print_readable()

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "target": self.target,
            "graph_id": self.graph_id,
            "pass_name": self.pass_name,
            "action": self._get_action_string(),
            "from_node": [n.to_dict() for n in self.from_node],
        }

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NodeSource) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash((self.name, self.target, self.graph_id, self.pass_name))


@contextlib.contextmanager
def preserve_node_meta(enable: bool = True) -> Iterator[None]:
    """Within the block new nodes take over the current notes (stack trace, module, annotations)."""
    global current_meta, should_preserve_node_meta
    before_flag, before_meta = should_preserve_node_meta, current_meta
    should_preserve_node_meta = enable
    current_meta = before_meta.copy()
    try:
        yield
    finally:
        should_preserve_node_meta, current_meta = before_flag, before_meta


def has_preserved_node_meta() -> bool:
    return should_preserve_node_meta


@contextlib.contextmanager
def annotate(annotation_dict: dict[str, Any]) -> Iterator[None]:
    """Nodes made within the block get these notes in meta["custom"]; inner blocks add to outer ones."""
    global current_meta
    had = "custom" in current_meta
    before = current_meta.get("custom", {})
    current_meta["custom"] = {**before, **annotation_dict}
    try:
        yield
    finally:
        if had:
            current_meta["custom"] = before
        else:
            current_meta.pop("custom", None)


def annotate_fn(annotation_dict: dict[str, Any]) -> Callable[[Callable], Callable]:
    """Decorator: nodes made by the function get these notes."""

    def decorate(func: Callable) -> Callable:
        @functools.wraps(func)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with annotate(annotation_dict):
                return func(*args, **kwargs)

        return wrapped

    return decorate


def set_stack_trace(stack: list[str]) -> None:
    if should_preserve_node_meta and stack:
        current_meta["stack_trace"] = "".join(stack)


def set_grad_fn_seq_nr(seq_nr: int) -> None:
    """Nodes made from here on belong to the gradient of the forward node with this number."""
    if should_preserve_node_meta:
        current_meta["grad_fn_seq_nr"] = [*current_meta.get("grad_fn_seq_nr", []), seq_nr]
        current_meta["in_grad_fn"] = current_meta.get("in_grad_fn", 0) + 1


def reset_grad_fn_seq_nr() -> None:
    if should_preserve_node_meta:
        level = current_meta.get("in_grad_fn", 0)
        if level <= 1:
            current_meta.pop("in_grad_fn", None)
            current_meta.pop("grad_fn_seq_nr", None)
        else:
            current_meta["in_grad_fn"] = level - 1
            current_meta["grad_fn_seq_nr"] = current_meta["grad_fn_seq_nr"][:-1]


def format_stack() -> list[str]:
    """The lines that lead here; of the node being run instead, while an interpreter replays a graph."""
    if should_preserve_node_meta:
        return [current_meta.get("stack_trace", "")]
    return traceback.format_list(traceback.extract_stack()[:-1])


@contextlib.contextmanager
def set_current_meta(node: Node, pass_name: str = "") -> Iterator[None]:
    """Within the block the notes of a node are the current ones: what is traced there comes from it."""
    global current_meta
    if not (should_preserve_node_meta and node.meta):
        yield
        return
    before = current_meta
    current_meta = node.meta.copy()
    if "from_node" not in current_meta or current_meta["from_node"][-1].name != node.name:
        current_meta["from_node"] = [NodeSource(node, pass_name, NodeSourceAction.CREATE)]
    try:
        yield
    finally:
        current_meta = before


def get_current_meta() -> dict[str, Any]:
    return current_meta


@contextlib.contextmanager
def set_current_replay_node(node: Node | None) -> Iterator[None]:
    """The node an interpreter is running."""
    global current_replay_node
    before = current_replay_node
    current_replay_node = node
    try:
        yield
    finally:
        current_replay_node = before


def get_current_replay_node() -> Node | None:
    return current_replay_node


def get_graph_provenance_json(graph: Graph) -> dict[str, Any]:
    """Where every node comes from, by name."""
    return {n.name: [s.to_dict() for s in n.meta["from_node"]] for n in graph.nodes if "from_node" in n.meta}
