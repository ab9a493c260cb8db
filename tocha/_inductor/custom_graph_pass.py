"""Passes of the program's own over graphs: settings of `tocha._inductor.config` name them, the back end calls them.

A pass is called with the graph and changes it. One that tells who it is (`uuid`) lets the graphs that it made be kept on disk.
"""

from __future__ import annotations

import abc
import hashlib
from collections.abc import Callable, Sequence
from typing import Any

from tocha import fx
from tocha._inductor import config
from tocha._subclasses.fake import FakeTensor
from tocha.autograd import set_grad_enabled
from tocha.utils import _pytree as pytree

__all__ = [
    "CustomGraphModulePass", "CustomGraphPass", "CustomGraphPassType", "CustomPartitionerFn", "CustomPassBase", "get_custom_graph_passes", "get_hash_for_files",
]  # fmt: skip

BEFORE_DIFFERENTIATION = "pre_grad_custom_pass"
BOTH_WAYS = ("joint_custom_pre_pass", "joint_custom_post_pass")
ONE_WAY = ("post_grad_custom_pre_pass", "post_grad_custom_post_pass")
PARTITIONER = "custom_partitioner_fn"
SETTINGS = (BEFORE_DIFFERENTIATION, *BOTH_WAYS, PARTITIONER, *ONE_WAY)


class CustomPassBase(abc.ABC):
    """A pass that tells who it is."""

    @abc.abstractmethod
    def uuid(self) -> Any:
        """What is another whenever the pass does something else; None where that is not known."""


class CustomGraphPass(CustomPassBase):
    @abc.abstractmethod
    def __call__(self, graph: fx.Graph) -> None:
        """Changes the graph."""


class CustomGraphModulePass(CustomPassBase):
    """The same for one that is called with the module of the graph."""

    @abc.abstractmethod
    def __call__(self, gm: fx.GraphModule) -> None:
        """Changes the module's graph."""


class CustomPartitionerFn(CustomPassBase):
    """Cuts a graph that holds forward and backward in two."""

    @abc.abstractmethod
    def __call__(self, gm: fx.GraphModule, joint_inputs: Sequence[Any], **kwargs: Any) -> tuple[fx.GraphModule, fx.GraphModule]:  # fmt: skip
        """Forward and backward; `num_fwd_outputs` says how many results are the function's own."""


CustomGraphPassType = CustomGraphPass | Callable[[fx.Graph], None] | Sequence[Any] | None


def get_custom_graph_passes(custom_pass: Any) -> tuple[Any, ...]:
    """None, one pass or several, as several."""
    if custom_pass is None:
        return ()
    return tuple(custom_pass) if isinstance(custom_pass, (list, tuple)) else (custom_pass,)


def get_hash_for_files(paths: Sequence[str], extra: str = "") -> bytes:
    """A uuid for passes that are written in these files."""
    found = hashlib.sha256(extra.encode())
    for path in paths:
        with open(path, "rb") as f:
            found.update(f.read())
    return found.digest()


def key() -> str | None:
    """The passes that are set, for the cache of graphs; None where one of them does not tell who it is."""
    told = [
        (n, getattr(p, "uuid", lambda: None)()) for n in SETTINGS for p in get_custom_graph_passes(getattr(config, n))
    ]
    return None if any(uuid is None for _, uuid in told) else repr(told)


def run(names: Sequence[str], module: fx.GraphModule) -> None:
    """Calls the passes of some settings, and finds out anew what the changed nodes give."""
    passes = [p for n in names for p in get_custom_graph_passes(getattr(config, n))]
    if not passes:
        return
    before = {n: written(n) for n in module.graph.nodes}
    for p in passes:
        p(module if isinstance(p, CustomGraphModulePass) else module.graph)
    module.graph.lint()
    refresh(module, {n for n in module.graph.nodes if before.get(n) != written(n)})
    module.recompile()


def written(n: fx.Node) -> tuple[Any, ...]:
    return n.op, n.target, n.args, n.kwargs


def refresh(module: fx.GraphModule, changed: set[fx.Node]) -> None:
    """Values of nodes that were changed, and of those that read them. A graph before differentiation has none: it is run on fakes yet."""
    values = [v for n in module.graph.nodes for v in pytree.tree_leaves(n.meta.get("val"))]
    mode = next((v.fake_mode for v in values if isinstance(v, FakeTensor)), None)
    if mode is None:
        return
    with mode, set_grad_enabled(False):
        for n in module.graph.nodes:
            if n.op == "call_function" and (n in changed or not changed.isdisjoint(n.all_input_nodes)):
                args, kwargs = fx.map_arg((n.args, n.kwargs), lambda a: a.meta.get("val"))
                n.meta["val"] = n.target(*args, **kwargs)
                changed.add(n)
