"""Tools that passes share: matching, fusing, comparing."""

from __future__ import annotations

from tocha.fx.passes.utils.common import HolderModule, compare_graphs, lift_subgraph_as_module

__all__ = ["HolderModule", "compare_graphs", "lift_subgraph_as_module"]
