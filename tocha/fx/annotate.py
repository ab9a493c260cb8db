"""annotate: a type for a traced value."""

from __future__ import annotations

from typing import Any

from tocha.fx.proxy import Proxy

__all__ = ["annotate"]


def annotate(val: Any, type: Any) -> Any:
    """Notes the type of a value in its node, if it is being traced; gives the value.

    >>> import tocha
    >>> print(tocha.fx.symbolic_trace(lambda x: annotate(x.size(0), int)).code.strip())
    def forward(self, x):
        size : int = x.size(0);  x = None
        return size
    """
    if not isinstance(val, Proxy):
        return val
    if val.node.type:
        raise RuntimeError(f"Tried to annotate a value that already had a type on it! Existing type is {val.node.type}")
    val.node.type = type
    return val
