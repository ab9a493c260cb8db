"""What the backend is asked to compile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tocha import fx
from tocha._inductor.graph_cache import GraphEntry


@dataclass
class Asked:
    """A graph, and what it is compiled for, as that was when it was captured."""

    module: fx.GraphModule
    inputs: list[Any]
    options: dict[str, Any]
    recorded: bool  # whether gradients were
    compile_id: str
    entry: GraphEntry | None = None
    inner: Callable[..., Any] | None = None  # what compiles a graph of operators, in place of the back end
    decompositions: dict[Any, Callable[..., Any]] | None = None  # besides the operators' own

    @property
    def has_state(self) -> bool:
        """Whether the module has parameters of its own: these come before the graph's inputs."""
        return any(True for _ in self.module.parameters()) or any(True for _ in self.module.buffers())
