"""The verifier of functional graphs: what must be true before and after every pass."""

from __future__ import annotations

from typing import Any

from tocha import _C, _ops
from tocha.fx.graph_module import GraphModule
from tocha.fx.node import Node, map_arg
from tocha.fx.passes.functional.nodes import is_pure, on_fakes, same_form, value_of

Tensor = _C.Tensor


class NotFunctional(RuntimeError):
    """A graph that passes over functional graphs cannot take, or a pass that made one."""


def verify(module: GraphModule, values: bool = False) -> None:
    """Raises where a graph is not well formed, writes to tensors, or has values that are not known.

    With `values` every pure operator is called on what is known of its arguments: its result must be what its node says.
    """
    module.graph.lint()
    for n in module.graph.nodes:
        if n.op in ("call_method", "call_module"):
            raise NotFunctional(f"[verify] {n.format_node()}: a functional graph calls functions only")
        if n.op != "call_function" or not isinstance(n.target, _ops.OpOverload):
            continue
        if any(a.is_write for a in n.target._schema._arguments):
            raise NotFunctional(f"[verify] {n.format_node()} writes to its arguments")
        if "val" not in n.meta:
            raise NotFunctional(f"[verify] {n.format_node()}: its value is not known")
        if values and is_pure(n):
            check_value(n)


def check_value(n: Node) -> None:
    args, kwargs = (map_arg(v, value_of) for v in (n.args, n.kwargs))
    found, said = on_fakes(n.target, args, kwargs, n), n.meta["val"]
    for a, b in zip(flat(found), flat(said), strict=True):
        if isinstance(a, Tensor) and not same_form(a, b):
            raise NotFunctional(f"[verify] {n.format_node()} gives {a}, and is said to give {b}")


def flat(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]
