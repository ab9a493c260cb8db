"""A pass: a function from graph module to graph module, with what it requires and ensures."""

from __future__ import annotations

import abc
from typing import NamedTuple

from tocha.fx.graph_module import GraphModule

__all__ = ["PassBase", "PassResult"]


class PassResult(NamedTuple):
    """What a pass gives: the module, and whether it changed."""

    graph_module: GraphModule
    modified: bool


class PassBase(abc.ABC):
    """Subclasses write `call`; `requires` and `ensures` raise where a module is not as it must be."""

    def __call__(self, graph_module: GraphModule) -> PassResult | None:
        self.requires(graph_module)
        result = self.call(graph_module)
        self.ensures(graph_module)
        return result

    @abc.abstractmethod
    def call(self, graph_module: GraphModule) -> PassResult | None:
        """The pass itself."""

    def requires(self, graph_module: GraphModule) -> None:  # noqa: B027
        """Checked before."""

    def ensures(self, graph_module: GraphModule) -> None:  # noqa: B027
        """Checked after."""
