"""split_by_tags: a module cut into one submodule per tag of its nodes."""

from __future__ import annotations

import functools
import operator
from dataclasses import dataclass, field
from typing import Any

from tocha.fx.graph import Graph
from tocha.fx.graph_module import GraphModule
from tocha.fx.node import Node, map_arg
from tocha.fx.passes.utils.common import HolderModule, lift_subgraph_as_module

__all__ = ["Component", "getattr_recursive", "setattr_recursive", "split_by_tags"]


def getattr_recursive(obj: Any, name: str) -> Any:
    """What stands at a dotted path, or None."""
    for part in name.split("."):
        if not hasattr(obj, part):
            return None
        obj = getattr(obj, part)
    return obj


def setattr_recursive(obj: Any, attr: str, value: Any) -> None:
    """Puts a value at a dotted path."""
    first, _, rest = attr.partition(".")
    if rest:
        setattr_recursive(getattr(obj, first), rest, value)
    else:
        setattr(obj, first, value)


@dataclass
class Component:
    """One of the submodules while it is being made."""

    graph: Graph
    order: int
    name: str
    input_placeholders: list[Node] = field(default_factory=list)
    orig_inputs: list[Node] = field(default_factory=list)
    orig_outputs: list[Node] = field(default_factory=list)
    getattr_maps: dict[Node, Node] = field(default_factory=dict)
    constructor_args: list[str] = field(default_factory=list)
    gm: GraphModule | None = None


class _TagSplitter:
    def __init__(self, gm: GraphModule, tags: list[str]) -> None:
        self.gm = gm
        self.components = [Component(Graph(), i, tag) for i, tag in enumerate(tags)]
        self.by_tag = {c.name: c for c in self.components}
        self.where: dict[Node, Component] = {}
        self.copies: dict[Node, Node] = {}

    def place(self) -> None:
        for node in self.gm.graph.nodes:
            if node.op in ("placeholder", "get_attr", "output"):
                continue
            if not hasattr(node, "tag"):
                raise AssertionError(f"Node {node} has no tag")
            component = self.by_tag[node.tag]
            for used in node.all_input_nodes:
                earlier = self.where.get(used)
                if earlier is not None and earlier.order > component.order:
                    raise AssertionError(f"order of {component.name} and {earlier.name} is not that of their values")
            self.where[node] = component
            self.copies[node] = component.graph.node_copy(node, functools.partial(self.inside, component))

    def inside(self, component: Component, node: Node) -> Node:
        """What stands for a value within a component: a copy, an attribute, or a new input."""
        if node.op == "get_attr":
            if node not in component.getattr_maps:
                component.getattr_maps[node] = component.graph.get_attr(node.target, type_expr=node.type)
            return component.getattr_maps[node]
        if self.where.get(node) is component:
            return self.copies[node]
        if node not in component.orig_inputs:
            component.orig_inputs.append(node)
            with component.graph.inserting_before():
                placeholder = component.graph.placeholder(node.name, type_expr=node.type)
            if component.input_placeholders:
                component.input_placeholders[-1].append(placeholder)
            placeholder.meta = node.meta.copy()
            component.input_placeholders.append(placeholder)
        return component.input_placeholders[component.orig_inputs.index(node)]

    def finish(self, return_tuple: bool, cls: type[GraphModule]) -> tuple[GraphModule, dict[str, str]]:
        names: dict[str, str] = {}
        main = Graph()
        env: dict[Node, Any] = {}
        root: dict[str, Any] = {}
        for node in self.gm.graph.nodes:
            if node.op == "placeholder" or (node.op == "get_attr" and self._is_returned(node)):
                env[node] = main.node_copy(node)
        for component in self.components:
            outputs = component.orig_outputs = self._outputs_of(component)
            copies = tuple(self.copies[n] for n in outputs)
            component.graph.output(copies[0] if len(copies) == 1 and not return_tuple else copies)
            component.gm, moved = lift_subgraph_as_module(self.gm, component.graph, component.name, component.name)
            names.update(moved)
            root[component.name] = component.gm
            call = main.call_module(component.name, tuple(env[n] for n in component.orig_inputs))
            if len(outputs) == 1 and not return_tuple:
                env[outputs[0]] = call
            else:
                env.update({n: main.call_function(operator.getitem, (call, i)) for i, n in enumerate(outputs)})
        output = self.gm.graph.output_node()
        main.output(map_arg(output.args[0], lambda n: env[n])).meta = output.meta.copy()
        holder = HolderModule(root)
        for node in self.gm.graph.nodes:
            if node.op == "get_attr" and self._is_returned(node):
                setattr(holder, node.target, getattr_recursive(self.gm, node.target))
        main._codegen = self.gm.graph._codegen
        return cls(holder, main), names

    def _outputs_of(self, component: Component) -> list[Node]:
        """Values used outside, in the order of their first use there."""
        outside = (n for n in self.gm.graph.nodes if self.where.get(n) is not component)
        used = (u for n in outside for u in n.all_input_nodes if self.where.get(u) is component)
        return list(dict.fromkeys(used))

    def _is_returned(self, node: Node) -> bool:
        return any(u.op == "output" for u in node.users)


def split_by_tags(
    gm: GraphModule,
    tags: list[str],
    return_fqn_mapping: bool = False,
    return_tuple: bool = False,
    GraphModuleCls: type[GraphModule] = GraphModule,
) -> GraphModule | tuple[GraphModule, dict[str, str]]:
    """A module with one submodule per tag, called in the order of `tags`; every call node has node.tag.

    With return_fqn_mapping also where each attribute stood: "a.linear" -> "linear".
    """
    splitter = _TagSplitter(gm, tags)
    splitter.place()
    module, names = splitter.finish(return_tuple, GraphModuleCls)
    return (module, names) if return_fqn_mapping else module
