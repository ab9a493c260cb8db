"""Passes over graphs: shapes, splitting, drawing, partitions, common subexpressions. Each is a module of its own."""

from __future__ import annotations

from tocha.fx.passes import (
    graph_drawer,
    graph_manipulation,
    operator_support,
    param_fetch,
    shape_prop,
    split_module,
    split_utils,
    tools_common,
)

__all__ = [
    "graph_drawer", "graph_manipulation", "operator_support", "param_fetch", "shape_prop", "split_module", "split_utils",
    "tools_common",
]  # fmt: skip
