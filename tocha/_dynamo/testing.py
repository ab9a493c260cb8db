"""Backends that count, for tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tocha._dynamo.backends import lookup_backend


class CompileCounter:
    """Counts graphs (`frame_count`) and their operators (`op_count`)."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.frame_count = self.op_count = 0
        self.graphs: list[Any] = []

    def __call__(self, module: Any, examples: list[Any]) -> Callable[..., Any]:
        self.frame_count += 1
        self.op_count += sum(n.op.startswith("call_") for n in module.graph.nodes)
        return self.inner(module, examples)

    def inner(self, module: Any, examples: list[Any]) -> Callable[..., Any]:
        return module.forward


class CompileCounterWithBackend(CompileCounter):
    """The same, and hands the graphs on."""

    def __init__(self, backend: Any) -> None:
        super().__init__()
        self.backend = backend

    def inner(self, module: Any, examples: list[Any]) -> Callable[..., Any]:
        self.graphs.append(module)
        return lookup_backend(self.backend)(module, examples)


class EagerAndRecordGraphs(CompileCounter):
    """Keeps the graphs."""

    def inner(self, module: Any, examples: list[Any]) -> Callable[..., Any]:
        self.graphs.append(module)
        return module.forward
