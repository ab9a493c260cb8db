"""Common subexpressions: a value that was computed already is used again."""

from __future__ import annotations

from typing import Any

from tocha.fx.graph import Graph
from tocha.fx.graph_module import GraphModule
from tocha.fx.node import Node, map_arg
from tocha.fx.passes.infra.pass_base import PassBase, PassResult

__all__ = ["CSEPass", "get_CSE_banned_ops"]


def get_CSE_banned_ops() -> set[Any]:
    """Targets that are never merged beyond those that say themselves that they draw random numbers or write."""
    return set()


def _frozen(a: Any) -> Any:
    """Something hashable that is equal for equal arguments: 1, 1.0 and True are three."""
    if isinstance(a, Node):
        return a
    if isinstance(a, list | tuple):
        return (type(a).__name__, tuple(_frozen(x) for x in a))
    if isinstance(a, dict):
        return ("dict", tuple((k, _frozen(v)) for k, v in a.items()))
    if isinstance(a, slice):
        return ("slice", _frozen((a.start, a.stop, a.step)))
    return (type(a).__name__, repr(a) if isinstance(a, float) else a)


def _writes_in_place(node: Node) -> bool:
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    is_operator = getattr(node.target, "__module__", None) == "_operator"
    in_place = name.endswith("_") and not name.endswith("__") and not is_operator
    return in_place or (is_operator and name in _IN_PLACE_OPERATORS) or node.kwargs.get("out") is not None


_IN_PLACE_OPERATORS = {
    "iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow", "imatmul", "iand", "ior", "ixor", "ilshift",
    "irshift", "setitem", "delitem",
}  # fmt: skip


class CSEPass(PassBase):
    """Merges calls with the same target and arguments. Calls of modules, random numbers and writes stay as they are; a
    write ends what is known of all values before it.

    >>> import tocha
    >>> module = tocha.fx.symbolic_trace(lambda x: tocha.relu(x + 1) * tocha.relu(x + 1))
    >>> print(CSEPass()(module).graph_module.code.strip())
    def forward(self, x):
        add = x + 1;  x = None
        relu = tocha.relu(add);  add = None
        mul = relu * relu;  relu = None
        return mul
    """

    def __init__(self, banned_ops: set[Any] | None = None) -> None:
        self.banned_ops = banned_ops if banned_ops is not None else set()

    def _key(self, node: Node) -> Any:
        if node.op not in ("call_function", "call_method") or node.target in self.banned_ops:
            return None
        if getattr(node.target, "overloadpacket", None) in self.banned_ops or node.is_impure():
            return None
        key = (node.op, node.target, _frozen(node.args), _frozen(node.kwargs))
        try:
            hash(key)
        except TypeError:
            return None
        return key

    def call(self, graph_module: GraphModule) -> PassResult:
        new = Graph()
        new._codegen = graph_module.graph._codegen
        new._tracer_cls = graph_module.graph._tracer_cls
        env: dict[Node, Node] = {}
        known: dict[Any, Node] = {}
        modified = False
        for node in graph_module.graph.nodes:
            if _writes_in_place(node):
                known.clear()
                env[node] = new.node_copy(node, lambda n: env[n])
                continue
            args, kwargs = (map_arg(a, lambda n: env[n]) for a in (node.args, node.kwargs))
            key = self._renamed_key(node, args, kwargs)
            if key is not None and key in known:
                modified = True
                env[node] = known[key]
                continue
            env[node] = new.node_copy(node, lambda n: env[n])
            if key is not None:
                known[key] = env[node]
        return PassResult(GraphModule(graph_module, new, graph_module._get_name()), modified)

    def _renamed_key(self, node: Node, args: Any, kwargs: Any) -> Any:
        key = self._key(node)
        return None if key is None else (node.op, node.target, _frozen(args), _frozen(kwargs))
