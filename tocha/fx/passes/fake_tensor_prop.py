"""FakeTensorProp: runs a graph on fake tensors and keeps every value in its node."""

from __future__ import annotations

from typing import Any

import tocha
from tocha._subclasses.fake_tensor import FakeTensorMode
from tocha.fx.graph_module import GraphModule
from tocha.fx.interpreter import Interpreter
from tocha.fx.node import Node, map_aggregate

__all__ = ["FakeTensorProp"]


class FakeTensorProp(Interpreter):
    """Runs a module under a fake mode: `node.meta["val"]` is what the node gives.

    >>> import tocha
    >>> module = tocha.fx.symbolic_trace(lambda x: tocha.relu(x).t())
    >>> FakeTensorProp(module).propagate(tocha.ones(2, 3))
    FakeTensor(..., size=(3, 2))
    >>> [n.meta["val"] for n in module.graph.nodes][1]
    FakeTensor(..., size=(2, 3))
    """

    def __init__(self, module: GraphModule, mode: FakeTensorMode | None = None) -> None:
        super().__init__(module)
        self._mode = mode if mode is not None else FakeTensorMode()

    def run_node(self, n: Node) -> Any:
        result = super().run_node(n)
        seen = False

        def noted(value: Any) -> Any:
            nonlocal seen
            seen = seen or isinstance(value, tocha.Tensor | tocha.SymInt | tocha.SymFloat | tocha.SymBool | int | float)
            return value

        map_aggregate(result, noted)
        if seen:
            n.meta["val"] = result
        return result

    def propagate(self, *args: Any) -> Any:
        """Runs on fakes of the arguments."""
        fakes = [self._mode.from_tensor(a) if isinstance(a, tocha.Tensor) else a for a in args]
        return self.propagate_dont_convert_inputs(*fakes)

    def propagate_dont_convert_inputs(self, *args: Any) -> Any:
        """Runs on the arguments as they are."""
        with self._mode:
            return super().run(*args)
