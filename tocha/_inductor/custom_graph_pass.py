"""Changes that programs make to graphs on their way through the compiler: `config.post_grad_custom_post_pass = MyPass()` and its kin.

A function of the graph will do. A class says with `uuid` when its compiled graphs may be kept on disk: as long as it returns the same.
"""

from __future__ import annotations

import abc
import hashlib
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

from tocha import fx
from tocha._inductor import config

__all__ = [
    "CustomGraphModulePass", "CustomGraphPass", "CustomGraphPassType", "CustomPassBase", "get_custom_graph_passes", "get_hash_for_files",
]  # fmt: skip

CAPTURED, LOWERED = ("pre_grad_custom_pass",), ("post_grad_custom_pre_pass", "post_grad_custom_post_pass")
SETTINGS = (*CAPTURED, *LOWERED)


class CustomPassBase(abc.ABC):
    @abc.abstractmethod
    def uuid(self) -> Any | None:
        """What its compiled graphs are kept under, `get_hash_for_files((__file__,))` for one; None: they are not kept."""


class CustomGraphPass(CustomPassBase):
    """A change to a graph."""

    @abc.abstractmethod
    def __call__(self, graph: fx.Graph) -> None:
        """Changes the graph in place."""


class CustomGraphModulePass(CustomPassBase):
    """A change to a graph with what it belongs to."""

    @abc.abstractmethod
    def __call__(self, gm: fx.GraphModule) -> None:
        """Changes the module in place."""


CustomGraphPassType: TypeAlias = CustomGraphPass | Callable[[fx.Graph], None] | Sequence[Any] | None


def get_custom_graph_passes(custom_pass: Any) -> tuple[Any, ...]:
    """None, one pass or several, as several."""
    if custom_pass is None:
        return ()
    return tuple(custom_pass) if isinstance(custom_pass, (list, tuple)) else (custom_pass,)


@lru_cache(1)
def get_hash_for_files(paths: tuple[str, ...], extra: str = "") -> bytes:
    """A hash of what is in these files."""
    found = hashlib.sha256(extra.encode())
    for path in paths:
        with open(path, "rb") as file:
            found.update(path.encode() + file.read())
    return found.digest()


def run(settings: Sequence[str], module: fx.GraphModule) -> None:
    """The passes of these settings, on a graph that is being compiled."""
    passes = [one for name in settings for one in get_custom_graph_passes(getattr(config, name))]
    for one in passes:
        one(module if isinstance(one, CustomGraphModulePass) else module.graph)
        if settings is LOWERED:
            _describe(module)
    if passes:
        module.graph.lint()
        module.recompile()


def _describe(module: fx.GraphModule) -> None:
    """What new nodes return, on the fake tensors of what they are called with."""
    for node in module.graph.nodes:
        if node.op == "call_function" and "val" not in node.meta:
            args, kwargs = fx.node.map_arg((node.args, node.kwargs), lambda n: n.meta["val"])
            node.meta["val"] = node.target(*args, **kwargs)


def kept_under() -> str | None:
    """For the key of a compiled graph: the ids of all passes; None where one has none."""
    found = []
    for setting in SETTINGS:
        for one in get_custom_graph_passes(getattr(config, setting)):
            uuid = one.uuid() if isinstance(one, CustomPassBase) else None
            if uuid is None:
                return None
            found.append(f"{setting}: {uuid!r}")
    return "\n".join(found)
