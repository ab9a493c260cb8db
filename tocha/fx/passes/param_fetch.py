"""The attributes of modules that a backend needs to run them: weights, strides, paddings."""

from __future__ import annotations

from typing import Any

import tocha
from tocha.fx.graph_module import GraphModule
from tocha.nn import Module

__all__ = ["default_matching", "extract_attrs_for_lowering", "lift_lowering_attrs_to_nodes"]

_CONVOLUTION = ["weight", "bias", "kernel_size", "stride", "padding", "dilation", "groups", "padding_mode"]
_NORM = ["weight", "bias", "running_mean", "running_var", "eps"]
# Class -> the attributes its computation depends on.
module_fetch_book: dict[type, list[str]] = {
    tocha.nn.Linear: ["weight", "bias"],
    tocha.nn.Conv2d: _CONVOLUTION,
    tocha.nn.BatchNorm2d: _NORM,
    tocha.nn.AdaptiveAvgPool2d: [],
    tocha.nn.MaxPool2d: ["kernel_size", "stride", "padding", "dilation", "return_indices", "ceil_mode"],
    tocha.nn.ReLU: ["inplace"],
}


def default_matching(name: str, target_version: int) -> str:
    """An attribute's name in another version of its module: the same."""
    return name


def extract_attrs_for_lowering(mod: Module) -> dict[str, Any]:
    """
    >>> import tocha
    >>> sorted(extract_attrs_for_lowering(tocha.nn.Linear(2, 3)))
    ['bias', 'name', 'weight']
    """
    found: dict[str, Any] = {"name": f"tocha.nn.{type(mod).__module__.rpartition('nn.')[2]}.{type(mod).__name__}"}
    if type(mod) not in module_fetch_book:
        raise RuntimeError(f"{type(mod).__name__} is not in the module_fetch_book yet, please add it")
    for name in module_fetch_book[type(mod)]:
        found[name] = getattr(mod, name)
    return found


def lift_lowering_attrs_to_nodes(fx_module: GraphModule) -> None:
    """Notes them in node.attrs_for_lowering, in this module and in the graph modules within."""
    submodules = dict(fx_module.named_modules())
    for node in fx_module.graph.nodes:
        if node.op == "call_module":
            called = submodules[node.target]
            if isinstance(called, GraphModule):
                lift_lowering_attrs_to_nodes(called)
            else:
                vars(node)["attrs_for_lowering"] = extract_attrs_for_lowering(called)
