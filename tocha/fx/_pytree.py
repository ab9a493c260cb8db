"""Flattening by a spec that is already known: what the generated functions of traces with tree arguments call."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from typing import Any

from tocha.utils._pytree import TreeSpec
from tocha.utils._pytree_nodes import node_of_type

FlattenFuncSpec = Callable[[Any, TreeSpec], list]
FlattenFuncExactMatchSpec = Callable[[Any, TreeSpec], bool]
SUPPORTED_NODES: dict[Any, FlattenFuncSpec] = {}
SUPPORTED_NODES_EXACT_MATCH: dict[Any, FlattenFuncExactMatchSpec | None] = {}


def register_pytree_flatten_spec(
    cls: type,
    flatten_fn_spec: FlattenFuncSpec,
    flatten_fn_exact_match_spec: FlattenFuncExactMatchSpec | None = None,
) -> None:
    """Says how values of a type fall into the children that a spec names."""
    SUPPORTED_NODES[cls] = flatten_fn_spec
    SUPPORTED_NODES_EXACT_MATCH[cls] = flatten_fn_exact_match_spec


def _deregister_pytree_flatten_spec(cls: type) -> None:
    del SUPPORTED_NODES[cls]
    del SUPPORTED_NODES_EXACT_MATCH[cls]


def tree_flatten_spec(pytree: Any, spec: TreeSpec) -> list[Any]:
    """The leaves of a tree in the order of the spec; sequences may be longer and dicts have more keys than it says."""
    if spec.is_leaf():
        return [pytree]
    flatten = SUPPORTED_NODES.get(spec.type)
    if flatten is not None:
        children = flatten(pytree, spec)
    else:
        node = node_of_type[type(pytree)]
        if node is None:
            raise RuntimeError(
                f"{type(pytree)} does not have a flatten_fn_spec associated with it. Please register one with "
                "tocha.fx._pytree.register_pytree_flatten_spec."
            )
        children = list(node.flatten_fn(pytree)[0])
    leaves: list[Any] = []
    for child, child_spec in zip(children, spec.children()):
        leaves += tree_flatten_spec(child, child_spec)
    return leaves


def _items(d: Any, spec: TreeSpec) -> list[Any]:
    return [d[k] for k in spec.context]


def _same_keys(d: Any, spec: TreeSpec) -> bool:
    return list(d) == spec.context


def _elements(d: Any, spec: TreeSpec) -> list[Any]:
    return [d[i] for i in range(spec.num_children)]


def _same_length(d: Any, spec: TreeSpec) -> bool:
    return len(d) == spec.num_children


register_pytree_flatten_spec(dict, _items, _same_keys)
register_pytree_flatten_spec(list, _elements, _same_length)
register_pytree_flatten_spec(tuple, _elements, _same_length)
register_pytree_flatten_spec(namedtuple, _elements, _same_length)  # type: ignore[arg-type]
