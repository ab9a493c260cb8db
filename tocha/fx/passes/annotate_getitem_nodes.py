"""Types of elements of typed sequences."""

from __future__ import annotations

import operator
import typing
from typing import Any

from tocha.fx.graph import Graph


def annotate_getitem_nodes(graph: Graph) -> None:
    """Gives `sequence[i]` the type that the type of the sequence node says, for tuples, lists and named tuples.

    >>> graph = Graph()
    >>> pair = graph.placeholder("pair", type_expr=tuple[int, str])
    >>> second = graph.call_function(operator.getitem, (pair, 1))
    >>> annotate_getitem_nodes(graph)
    >>> second.type
    <class 'str'>
    """
    for node in graph.find_nodes(op="call_function", target=operator.getitem):
        sequence, index = node.args
        found = None if sequence.type is None else element_type(sequence.type, index)
        if found is not None:
            node.type = found


def element_type(kind: Any, index: Any) -> Any:
    """The type of one element, None where the type does not say."""
    origin, given = typing.get_origin(kind), typing.get_args(kind)
    if origin is tuple:
        if len(given) == 2 and given[1] is Ellipsis:
            return given[0]
        return given[index] if isinstance(index, int) and -len(given) <= index < len(given) else None
    if origin is list:
        return given[0]
    if isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields") and isinstance(index, int):
        hints = typing.get_type_hints(kind)
        return hints.get(kind._fields[index])
    return None
