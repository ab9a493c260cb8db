"""Modules made faster for inference: batch norms folded into the layers before them, dropout taken out."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

import tocha
from tocha.fx._symbolic_trace import Tracer, symbolic_trace
from tocha.fx.graph import Graph
from tocha.fx.graph_module import GraphModule
from tocha.fx.interpreter import Transformer
from tocha.fx.node import Node
from tocha.nn import Module
from tocha.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval

__all__ = [
    "extract_subgraph",
    "fuse",
    "matches_module_pattern",
    "optimize_for_inference",
    "remove_dropout",
    "replace_node_module",
]

_PATTERNS = [
    (tocha.nn.Conv1d, tocha.nn.BatchNorm1d, fuse_conv_bn_eval),
    (tocha.nn.Conv2d, tocha.nn.BatchNorm2d, fuse_conv_bn_eval),
    (tocha.nn.Conv3d, tocha.nn.BatchNorm3d, fuse_conv_bn_eval),
    (tocha.nn.Linear, tocha.nn.BatchNorm1d, fuse_linear_bn_eval),
]


def _parent_name(target: str) -> tuple[str, str]:
    """ "a.b.c" is "c" of "a.b"."""
    parent, _, name = target.rpartition(".")
    return parent, name


def matches_module_pattern(pattern: Iterable[type], node: Node, modules: dict[str, Any]) -> bool:
    """Whether a node calls a module of the last type on the result of one of the type before."""
    if not node.args:
        return False
    for kind, n in zip(pattern, (node.args[0], node)):
        called = isinstance(n, Node) and n.op == "call_module" and isinstance(n.target, str) and n.target in modules
        if not called or type(modules[n.target]) is not kind:
            return False
    return True


def replace_node_module(node: Node, modules: dict[str, Any], new_module: Module) -> None:
    """Puts another module where the one a node calls stands."""
    parent, name = _parent_name(node.target)
    modules[node.target] = new_module
    setattr(modules[parent], name, new_module)


def fuse(model: Module, inplace: bool = False, no_trace: bool = False) -> GraphModule:
    """Folds batch norms into the convolutions and linear layers that only they use. For models in eval mode.

    >>> import tocha
    >>> model = tocha.nn.Sequential(tocha.nn.Conv2d(1, 2, 3), tocha.nn.BatchNorm2d(2)).eval()
    >>> print(fuse(model).code.strip())
    def forward(self, input):
        input_1 = input
        _0 = getattr(self, "0")(input_1);  input_1 = None
        return _0
    """
    model = model if inplace else copy.deepcopy(model)
    traced = model if no_trace and isinstance(model, GraphModule) else symbolic_trace(model)
    modules = dict(traced.named_modules())
    graph = copy.deepcopy(traced.graph)
    for first, norm, fold in _PATTERNS:
        for node in graph.nodes:
            if not matches_module_pattern((first, norm), node, modules):
                continue
            layer, bn = modules[node.args[0].target], modules[node.target]
            if len(node.args[0].users) > 1 or not bn.track_running_stats:
                continue  # somebody else sees the result before the norm
            replace_node_module(node.args[0], modules, fold(layer, bn))  # type: ignore[operator]
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)
    return GraphModule(traced, graph, traced._get_name())


class _DropoutRemover(Transformer):
    def call_module(self, target: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        if isinstance(self.submodules[target], tocha.nn.Dropout):
            return args[0]
        return super().call_module(target, args, kwargs)


def remove_dropout(model: Module) -> GraphModule:
    """The model without its dropout modules."""
    return _DropoutRemover(symbolic_trace(model)).transform()


def extract_subgraph(orig_module: Module, nodes: list[Node], inputs: list[Node], outputs: list[Node]) -> GraphModule:
    """A module that computes outputs from inputs with these nodes of a module."""
    graph = Graph()
    env: dict[Node, Node] = {n: graph.placeholder(n.name) for n in inputs}
    for node in nodes:
        env[node] = graph.node_copy(node, lambda n: env[n])
    graph.output([env[n] for n in outputs])
    graph.lint()
    return GraphModule(orig_module, graph)


def optimize_for_inference(
    model: Module, pass_config: dict[str, Any] | None = None, tracer: type[Tracer] = Tracer
) -> Module:
    """fuse and remove_dropout, unless pass_config says no: {"conv_bn_fuse": False, "remove_dropout": False}."""
    config = {"conv_bn_fuse": True, "remove_dropout": True} | (pass_config or {})
    if config["conv_bn_fuse"]:
        model = fuse(model)
    return remove_dropout(model) if config["remove_dropout"] else model
