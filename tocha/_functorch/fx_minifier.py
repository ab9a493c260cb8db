"""A graph that fails, made smaller for as long as it still fails.

>>> import tocha
>>> from tocha.fx.experimental.proxy_tensor import make_fx
>>> graph = make_fx(lambda x: (x.exp() + 1).sin() * 2, tracing_mode="fake")(tocha.ones(2))
>>> def has_sin(module, inputs):
...     return any("sin" in str(n.target) for n in module.graph.nodes)
>>> small, inputs = minify(graph, [tocha.ones(2)], has_sin)
>>> [str(n.target) for n in small.graph.nodes if n.op == "call_function"], [tuple(i.shape) for i in inputs]
(['aten.sin.default'], [(2,)])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tocha import _C
from tocha.fx import Graph, GraphModule, Interpreter, Node

__all__ = ["minifier", "minify"]

Tensor = _C.Tensor
Fails = Callable[[GraphModule, Sequence[Any]], bool]


def values_of(module: GraphModule, args: Sequence[Any]) -> dict[Node, Any]:
    """What eager computes at every node."""
    found: dict[Node, Any] = {}

    class Recording(Interpreter):
        def run_node(self, n: Node) -> Any:
            found[n] = super().run_node(n)
            return found[n]

    Recording(module, garbage_collect_values=False).run(*args)
    return found


def piece_of(
    module: GraphModule, nodes: Sequence[Node], values: dict[Node, Any], outputs: Sequence[Node] | None = None
) -> tuple[GraphModule, list[Any]]:
    """Some nodes as a graph of their own, with the values of what they read; its results are `outputs`, or the last node's."""
    graph, env, inputs = Graph(), {}, []
    wanted = set(nodes)
    for n in dict.fromkeys(x for m in nodes for x in m.all_input_nodes if x not in wanted):
        env[n] = graph.placeholder(n.name)
        env[n].meta = dict(n.meta)
        inputs.append(values[n])
    for n in nodes:
        env[n] = graph.node_copy(n, lambda x: env[x])
    graph.output([env[n] for n in (outputs if outputs is not None else nodes[-1:])])
    return GraphModule(module, graph), inputs


def stands_alone(nodes: Sequence[Node], outputs: Sequence[Node], values: dict[Node, Any]) -> bool:
    """Whether they make a graph that takes and gives tensors and numbers."""
    inside = set(nodes)
    read = [values[i] for n in nodes for i in n.all_input_nodes if i not in inside]
    return bool(nodes) and all(isinstance(values[n], Tensor) for n in outputs) and not any(isinstance(v, tuple | list) for v in read)  # fmt: skip


def minify(module: GraphModule, args: Sequence[Any], fails: Fails) -> tuple[GraphModule, list[Any]]:
    """The fewest operators with which it still fails: a run of neighbours first, then without each that is not needed."""
    values = values_of(module, args)
    nodes = [n for n in module.graph.nodes if n.op in ("call_function", "call_method")]
    found = neighbours(module, nodes, values, fails)
    if found is None:
        return module, list(args)
    changed = True
    while changed and len(found) > 1:
        changed = False
        for n in list(found[:-1]):
            fewer = [m for m in found if m is not n]
            if attempt(module, fewer, values, fails):
                found, changed = fewer, True
    return piece_of(module, found, values)


def attempt(module: GraphModule, nodes: Sequence[Node], values: dict[Node, Any], fails: Fails) -> bool:
    if not stands_alone(nodes, nodes[-1:], values):
        return False
    return fails(*piece_of(module, nodes, values))


def neighbours(module: GraphModule, nodes: list[Node], values: dict[Node, Any], fails: Fails) -> list[Node] | None:
    """The shortest run of operators that fails by itself; None if it takes all of them together."""
    length = 1
    while length <= len(nodes):
        for first in range(0, len(nodes) - length + 1, max(1, length // 2)):
            chosen = nodes[first : first + length]
            if attempt(module, chosen, values, fails):
                return chosen
        length *= 2
    return None


def minifier(
    fail_f: GraphModule,
    inps: Sequence[Any],
    module_fails: Fails,
    dump_state: Callable[..., None] | None = None,
    **_: Any,
) -> tuple[GraphModule, list[Any]]:
    """PyTorch's name for minify. `dump_state` is told of what was found."""
    if not module_fails(fail_f, inps):
        raise RuntimeError("Input graph did not fail the tester")
    found = minify(fail_f, inps, module_fails)
    if dump_state is not None:
        dump_state(*found)
    return found
