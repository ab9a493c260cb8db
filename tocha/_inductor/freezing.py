"""`config.freezing`: in graphs without gradients parameters and buffers are constants, and what depends on them alone is computed once.

The program is called as before: constants keep their places among its inputs, and are told by being the same objects. A call with others
(another model of the class, a parameter that was replaced) makes another program. Writes to a frozen parameter are not seen, as in PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from operator import is_
from typing import Any

from tocha import _C, fx
from tocha._inductor import config
from tocha._logging import events
from tocha._ops import ops
from tocha._subclasses.fake import FakeTensor
from tocha.fx.passes.functional import simplify
from tocha.fx.passes.functional.constants import constant_folding
from tocha.fx.passes.functional.nodes import call
from tocha.fx.passes.functional.patterns import BATCH_NORM, apply_table
from tocha.fx.passes.functional.simplify import common_subexpressions, dead_code
from tocha.nn import Buffer, Parameter

Tensor = _C.Tensor
MOST_VERSIONS = 8  # programs for other parameters that are kept

PASSES = (
    # What is read through views of constants (weight.t()) is a constant for the patterns.
    ("constant_folding", constant_folding),
    ("batch_norm", partial(apply_table, table=BATCH_NORM)),
    ("constant_folding", constant_folding),
    ("common_subexpressions", common_subexpressions),
    ("dead_code", dead_code),
)


def is_on() -> bool:
    """Whether graphs that are compiled now are frozen: never where gradients are recorded."""
    return bool(config.freezing) and not _C.is_grad_enabled()


def frozen_places(module: fx.GraphModule, state: Sequence[Tensor], inputs: Sequence[Any]) -> list[int]:
    """Which of a graph's inputs, the module's own state before the others, are parameters and buffers."""
    nodes = module.graph.find_nodes(op="placeholder")
    if len(nodes) != len(inputs):
        return []
    given = [len(state) + i for i, (n, v) in enumerate(zip(nodes, inputs, strict=True)) if is_state(n, v)]
    return [*range(len(state)), *given]


def is_state(node: fx.Node, value: Any) -> bool:
    if not isinstance(value, Tensor) or isinstance(value, FakeTensor) or value.layout is not _C.strided:
        return False
    return isinstance(value, Parameter | Buffer) or bool(node.meta.get("is_state"))


def freeze(graph: fx.GraphModule, values: dict[int, Tensor]) -> fx.GraphModule:
    """The graph with some inputs' values put in. Inputs that the function writes to stay inputs."""
    written = graph.meta.get("mutated_inputs", ())
    placeholders = graph.graph.find_nodes(op="placeholder")
    for i, value in values.items():
        node = placeholders[i]
        if i in written or not node.users:
            continue
        name = f"_frozen_{i}"
        graph.register_buffer(name, value.detach(), persistent=False)
        with graph.graph.inserting_after(placeholders[-1]):
            constant = graph.graph.get_attr(name)
        constant.meta["val"] = node.meta["val"]
        node.replace_all_uses_with(constant, delete_user_cb=lambda user: user.op != "output")
    graph.meta["frozen"] = True
    simplify(graph, PASSES)
    own_results(graph)
    graph.recompile()
    events.tell(events.GraphMade("frozen", graph))
    return graph


def own_results(graph: fx.GraphModule) -> None:
    """A result that became a constant is copied: the caller may write to it."""
    output = graph.graph.output_node()

    def copied(n: fx.Node) -> fx.Node:
        return call(graph.graph, output, ops.aten.clone.default, n) if n.op == "get_attr" else n

    output.args = fx.map_arg(output.args, copied)


class Frozen:
    """A compiled function with its parameters inside: programs by the parameters that they were made for."""

    def __init__(self, places: Iterable[int], make: Callable[[Sequence[Any]], Callable[..., Any]]):
        self.places = tuple(places)
        # What compiles runs inside of a captured function's call, and is not for capture itself.
        self.make = _C._capture.Wrapper(make, None)
        self.versions: list[tuple[tuple[Any, ...], Callable[..., Any]]] = []

    def __call__(self, *args: Any) -> Any:
        given = tuple([args[i] for i in self.places])
        for kept, run in self.versions:
            if all(map(is_, kept, given)):
                return run(*args)
        return self.add(args)(*args)

    def add(self, args: Sequence[Any]) -> Callable[..., Any]:
        """The program for these arguments, made now; the oldest one goes where there are many."""
        run = self.make(args)
        del self.versions[: len(self.versions) + 1 - MOST_VERSIONS]
        self.versions.append((tuple([args[i] for i in self.places]), run))
        return run
