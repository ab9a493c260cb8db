"""What a backend can run: a predicate on nodes, made of tables and functions and combined."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tocha.fx.node import Node
from tocha.fx.passes.shape_prop import TensorMetadata
from tocha.fx.passes.tools_common import CALLABLE_NODE_OPS, get_node_target
from tocha.nn import Module

__all__ = ["OpSupports", "OperatorSupport", "OperatorSupportBase", "any_chain", "chain", "create_op_support"]

SupportedArgumentDTypes = tuple[Sequence[Sequence[Any]], dict[str, Sequence[Any]]] | None
SupportDict = Mapping[str, SupportedArgumentDTypes]
IsNodeSupported = Callable[[Mapping[str, Module], Node], bool]


class OperatorSupportBase(abc.ABC):
    @abc.abstractmethod
    def is_node_supported(self, submodules: Mapping[str, Module], node: Node) -> bool:
        """Whether the backend can run this node."""


class OperatorSupport(OperatorSupportBase):
    """Takes the targets in a table, with the dtypes their arguments may have (None: any)."""

    _support_dict: SupportDict

    def __init__(self, support_dict: SupportDict | None = None) -> None:
        self._support_dict = support_dict or {}

    def is_node_supported(self, submodules: Mapping[str, Module], node: Node) -> bool:
        if node.op not in CALLABLE_NODE_OPS:
            return True
        target = get_node_target(submodules, node)
        if target not in self._support_dict:
            return False
        dtypes = self._support_dict[target]
        if dtypes is None:
            return True
        by_position, by_name = dtypes
        for i, allowed in enumerate(by_position):
            if i < len(node.args) and not _has_dtype(node.args[i], allowed):
                return False
        return all(_has_dtype(node.kwargs[k], v) for k, v in by_name.items() if k in node.kwargs)


def _has_dtype(arg: Any, allowed: Sequence[Any]) -> bool:
    return not isinstance(arg, Node) or _get_arg_dtype(arg) in allowed


def _get_arg_dtype(arg: Node) -> Any:
    if not isinstance(arg, Node):
        raise AssertionError(f"Expected Node, got {type(arg)}")
    meta = arg.meta.get("tensor_meta")
    return meta.dtype if isinstance(meta, TensorMetadata) else arg.meta.get("type")


class _FunctionSupport(OperatorSupportBase):
    def __init__(self, function: IsNodeSupported) -> None:
        self.function = function

    def is_node_supported(self, submodules: Mapping[str, Module], node: Node) -> bool:
        return self.function(submodules, node)


def create_op_support(is_node_supported: IsNodeSupported) -> OperatorSupportBase:
    """The predicate that a function is."""
    return _FunctionSupport(is_node_supported)


def chain(*op_support: OperatorSupportBase) -> OperatorSupportBase:
    """What all of them support."""
    return create_op_support(lambda modules, node: all(s.is_node_supported(modules, node) for s in op_support))


def any_chain(*op_support: OperatorSupportBase) -> OperatorSupportBase:
    """What one of them supports."""
    return create_op_support(lambda modules, node: any(s.is_node_supported(modules, node) for s in op_support))


class OpSupports:
    """Ready-made predicates."""

    @classmethod
    def decline_if_input_dtype(cls, dtype: Any) -> OperatorSupportBase:
        return create_op_support(lambda _, node: all(_get_arg_dtype(a) != dtype for a in node.all_input_nodes))

    @classmethod
    def decline_if_node_in_names(cls, disallow_set: set[str]) -> OperatorSupportBase:
        return create_op_support(lambda _, node: node.name not in disallow_set)
