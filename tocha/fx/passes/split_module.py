"""split_module: a module cut into submodules, by a function that says where each node goes."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable
from typing import Any

from tocha.fx.graph import Graph
from tocha.fx.graph_module import GraphModule, _assign_attr, _get_attr
from tocha.fx.node import Node, map_arg
from tocha.nn import Module

__all__ = ["Partition", "split_module", "split_module_simple"]


class Partition:
    """The nodes that go into one submodule, with what they need from others and give to others."""

    def __init__(self, name: str, affix: str | None = None) -> None:
        self.name = name
        self.submod_name = f"submod_{affix}_{name}" if affix else f"submod_{name}"
        self.node_names: list[str] = []
        self.inputs: dict[str, None] = {}
        self.outputs: dict[str, None] = {}
        self.dependencies: dict[str, None] = {}
        self.dependents: dict[str, None] = {}
        self.graph = Graph()
        self.environment: dict[Node, Node] = {}
        self.targets: dict[str, Any] = {}

    def __repr__(self) -> str:
        return (
            f"name: {self.name},\n nodes: {self.node_names},\n inputs: {self.inputs},\n outputs: {self.outputs},\n "
            f"partitions depended on: {self.dependencies},\n partition dependents: {self.dependents}"
        )


class _Splitter:
    def __init__(self, m: GraphModule, root: Module, affix: str | None) -> None:
        self.m, self.root, self.affix = m, root, affix
        self.partitions: dict[str, Partition] = {}
        self.nodes = {n.name: n for n in m.graph.nodes}
        self.where: dict[Node, str] = {}

    def assign(self, callback: Callable[[Node], Any]) -> None:
        for node in self.m.graph.nodes:
            if node.op in ("placeholder", "get_attr", "output"):
                continue
            name = str(callback(node))
            partition = self.partitions.setdefault(name, Partition(name, self.affix))
            partition.node_names.append(node.name)
            self.where[node] = name

    def connect(self) -> None:
        """Values that cross the border of a partition are its inputs and outputs."""
        for node in self.m.graph.nodes:
            user = self.where.get(node)
            for used in node.all_input_nodes:
                maker = self.where.get(used)
                if maker == user:
                    continue
                if maker is not None:
                    self.partitions[maker].outputs.setdefault(used.name)
                if user is not None:
                    self.partitions[user].inputs.setdefault(used.name)
                    if maker is not None:
                        self.partitions[user].dependencies.setdefault(maker)
                        self.partitions[maker].dependents.setdefault(user)

    def order(self, keep_original: bool) -> list[str]:
        """Partitions such that each comes after those it depends on; by the place of their first node where both ways do."""
        position = {n: i for i, n in enumerate(self.m.graph.nodes)}
        first = {p: min(position[self.nodes[n]] for n in self.partitions[p].node_names) for p in self.partitions}
        waiting = {p: len(self.partitions[p].dependencies) for p in self.partitions}
        done: list[str] = []
        ready = [p for p in self.partitions if waiting[p] == 0]
        while ready:
            name = min(ready, key=first.__getitem__) if keep_original else ready[0]
            ready.remove(name)
            done.append(name)
            for dependent in self.partitions[name].dependents:
                waiting[dependent] -= 1
                if waiting[dependent] == 0:
                    ready.append(dependent)
        if len(done) != len(self.partitions):
            raise RuntimeError("cycle exists between partitions!")
        return done

    def fill(self, qualname_map: dict[str, str] | None, keep_names: bool, tuple_return: bool) -> None:
        """The graphs of the partitions."""
        for partition in self.partitions.values():
            for name in partition.inputs:
                node = self.nodes[name]
                default = node.args[0] if node.op == "placeholder" and node.args else inspect.Parameter.empty
                placeholder = partition.graph.placeholder(name, type_expr=node.type, default_value=default)
                placeholder.meta = node.meta.copy()
                partition.environment[node] = placeholder
        for node in self.m.graph.nodes:
            if node not in self.where:
                continue
            partition = self.partitions[self.where[node]]
            target = node.target
            if node.op == "call_module":
                target = node.target.replace(".", "_")
                partition.targets[target] = _get_attr(self.m, node.target)
                if qualname_map is not None:
                    qualname_map[f"{partition.submod_name}.{target}"] = node.target
            env = partition.environment
            args, kwargs = (map_arg(a, env.__getitem__) for a in (node.args, node.kwargs))
            kept = node.name if keep_names else None
            new = partition.graph.create_node(node.op, target, args, kwargs, kept, node.type)
            new.meta = node.meta.copy()
            env[node] = new
        for partition in self.partitions.values():
            outputs = [partition.environment[self.nodes[name]] for name in partition.outputs]
            one = len(outputs) == 1 and not tuple_return
            partition.graph.output(outputs[0] if one else tuple(outputs))

    def stitch(self, order: list[str], late_attributes: bool, tuple_return: bool) -> GraphModule:
        """The module that calls the partitions one after the other."""
        graph = Graph()
        attributes: dict[str, Any] = {}
        env: dict[Node, Node] = {}

        def value(n: Node) -> Node:
            if n not in env:  # an attribute; all others have been computed
                env[n] = graph.node_copy(n)
                attributes[n.target] = _get_attr(self.m, n.target)
            return env[n]

        for node in self.m.graph.nodes:
            if node.op == "placeholder":
                env[node] = graph.node_copy(node)
            elif node.op == "get_attr" and not late_attributes:
                value(node)
        for name in order:
            partition = self.partitions[name]
            attributes[partition.submod_name] = GraphModule(partition.targets, partition.graph)
            inputs = tuple(value(self.nodes[i]) for i in partition.inputs)
            call = graph.create_node("call_module", partition.submod_name, inputs)
            outputs = [self.nodes[o] for o in partition.outputs]
            if len(outputs) == 1 and not tuple_return:
                env[outputs[0]] = call
            else:
                for i, output in enumerate(outputs):
                    env[output] = graph.call_function(operator.getitem, (call, i))
            if len(outputs) == 1 and not tuple_return:
                call.meta.update({k: v for k, v in outputs[0].meta.items() if k in ("val", "tensor_meta")})
        for node in self.m.graph.nodes:
            if node.op == "output":
                graph.output(map_arg(node.args[0], value), node.type)
        graph._codegen = self.m.graph._codegen
        holder = Module()
        for target, value in attributes.items():
            _assign_attr(value, holder, target)
        return GraphModule(holder, graph)


def split_module(
    m: GraphModule,
    root_m: Module,
    split_callback: Callable[[Node], Any],
    qualname_map: dict[str, str] | None = None,
    keep_original_order: bool | None = False,
    keep_original_node_name: bool | None = False,
    keep_original_input_name: bool = True,
    *,
    partition_affix: str | None = None,
    tuple_return: bool = False,
) -> GraphModule:
    """A module whose parts are the partitions that split_callback names; parameters stay in the outer module.

    qualname_map is filled with where each submodule went: "submod_0.linear" -> "linear".

    >>> import tocha
    >>> module = tocha.fx.symbolic_trace(lambda x: tocha.relu(x + 1) * 2)
    >>> print(split_module(module, module, lambda node: int(node.name == "mul")).code.strip())
    def forward(self, x):
        submod_0 = self.submod_0(x);  x = None
        submod_1 = self.submod_1(submod_0);  submod_0 = None
        return submod_1
    """
    splitter = _Splitter(m, root_m, partition_affix)
    splitter.assign(split_callback)
    splitter.connect()
    order = splitter.order(bool(keep_original_order))
    splitter.fill(qualname_map, bool(keep_original_node_name), tuple_return)
    return splitter.stitch(order, bool(keep_original_order), tuple_return)


def split_module_simple(
    m: GraphModule, node_to_partition: dict[Node, int], *, partition_affix: str | None = None
) -> GraphModule:
    """The same with a table instead of a function."""
    return split_module(m, m, lambda n: node_to_partition[n], partition_affix=partition_affix)
