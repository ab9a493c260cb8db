"""Patterns of operators that passes of the program's own replace: as functions that are traced, or as expressions of nodes.

>>> import tocha
>>> from tocha._inductor import config
>>> passes = PatternMatcherPass()
>>> _ = register_replacement(lambda x: x.sin() * 2, lambda x: x.cos(), [tocha.ones(2)], fwd_only, passes)
>>> with config.patch(post_grad_custom_post_pass=passes.apply):
...     tocha.compile(lambda x: x.sin() * 2 + 1)(tocha.zeros(3))
tensor([2., 2., 2.])
"""

from __future__ import annotations

import heapq
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from tocha import fx
from tocha._ops import OpOverload, OpOverloadPacket
from tocha.autograd import no_grad
from tocha.fx.experimental.proxy_tensor import make_fx
from tocha.fx.passes.utils.matcher_utils import SubgraphMatcher

__all__ = [
    "MULTIPLE", "Arg", "CallFunction", "Ignored", "KeywordArg", "Match", "PatternExpr", "PatternMatcherPass", "fwd_only",
    "register_graph_pattern", "register_replacement", "stable_topological_sort",
]  # fmt: skip

MULTIPLE = object()  # any number of users


def fwd_only(fn: Callable[..., Any], args: Sequence[Any], **settings: Any) -> fx.GraphModule:
    """The operators of a function, without gradients. PyTorch's settings say how it is decomposed, which happens here when graphs are lowered."""
    with no_grad():
        return make_fx(fn)(*args)


def stable_topological_sort(graph: fx.Graph) -> None:
    """Puts nodes behind those that they read, and leaves the others in their order."""
    order = {n: i for i, n in enumerate(graph.nodes)}
    waiting = {n: len(set(n.all_input_nodes)) for n in order}
    ready = [(i, n) for n, i in order.items() if not waiting[n]]
    last: fx.Node | None = None
    while ready:
        _, n = heapq.heappop(ready)
        if last is not None:
            last.append(n)
        last = n
        for user in n.users:
            waiting[user] -= 1
            if not waiting[user]:
                heapq.heappush(ready, (order[user], user))


def value_of(v: Any) -> Any:
    return v.meta.get("val", v.meta.get("example_value")) if isinstance(v, fx.Node) else v


class Match:
    """One occurrence: its nodes, in the graph's order, and what stands for the pattern's arguments."""

    def __init__(self, graph: fx.Graph, nodes: list[fx.Node], outputs: list[fx.Node], args: list[Any], kwargs: dict[str, Any]):  # fmt: skip
        order = {n: i for i, n in enumerate(graph.nodes)}
        self.graph, self.nodes = graph, sorted(nodes, key=order.__getitem__)
        self.outputs, self.args, self.kwargs = outputs, args, kwargs

    def output_node(self) -> fx.Node:
        return self.outputs[0]

    def output_nodes(self) -> list[fx.Node]:
        return list(self.outputs)

    def erase_nodes(self) -> None:
        for n in reversed(self.nodes):
            if not n._erased and not n.users:
                self.graph.erase_node(n)

    def replace_by_example(
        self,
        replacement_fn: Callable[..., Any],
        args: Sequence[Any],
        trace_fn: Callable[..., fx.GraphModule] | None = None,
        run_functional_passes: bool = True,
    ) -> list[fx.Node]:
        """Puts the operators of a function in its place; the function is traced on what the arguments are in this graph."""
        made = (trace_fn or fwd_only)(replacement_fn, [value_of(a) for a in args])
        return self.replace_with_graph(made.graph, args)

    def replace_with_graph(self, replacement_graph: fx.Graph, args: Sequence[Any]) -> list[fx.Node]:
        places = replacement_graph.find_nodes(op="placeholder")
        known = dict(zip(places, args, strict=True))
        before = set(self.graph.nodes)
        with self.graph.inserting_after(self.nodes[-1]):
            point = self.graph.call_function(len, ())  # inserted nodes come in front of it, in order
        with self.graph.inserting_before(point):
            found = self.graph.graph_copy(replacement_graph, known)
        self.graph.erase_node(point)
        results: list[Any] = list(found) if isinstance(found, (tuple, list)) else [found]
        if len(results) != len(self.outputs):
            raise RuntimeError(
                f"[pattern_matcher] a replacement with {len(results)} results for {len(self.outputs)} of the pattern"
            )
        for old, new in zip(self.outputs, results, strict=True):
            old.replace_all_uses_with(new)
        self.erase_nodes()
        stable_topological_sort(self.graph)
        return [n for n in self.graph.nodes if n not in before]


class PatternExpr:
    """What a node, or an argument of one, has to be."""

    def match(self, v: Any, found: Found, is_root: bool = False) -> bool:
        raise NotImplementedError


class Found:
    """What a pattern has met so far."""

    def __init__(self) -> None:
        self.nodes: dict[fx.Node, PatternExpr] = {}
        self.args: list[Any] = []
        self.kwargs: dict[str, Any] = {}


class Ignored(PatternExpr):
    """Anything, which the handler is not given."""

    def match(self, v: Any, found: Found, is_root: bool = False) -> bool:
        return True


class Arg(PatternExpr):
    """Anything, which the handler gets in order."""

    def match(self, v: Any, found: Found, is_root: bool = False) -> bool:
        found.args.append(v)
        return True


class KeywordArg(PatternExpr):
    """Anything, which the handler gets by name; the same wherever the name stands."""

    def __init__(self, name: str):
        self.name = name

    def match(self, v: Any, found: Found, is_root: bool = False) -> bool:
        return found.kwargs.setdefault(self.name, v) is v or found.kwargs[self.name] == v


class CallFunction(PatternExpr):
    """A call of a function, of any overload of an operator, or of one of several. `_users`: how many nodes read it."""

    def __init__(self, fns: Any, *args: Any, _users: Any = 1, **kwargs: Any):
        self.fns = list(fns) if isinstance(fns, (tuple, list)) else [fns]
        self.args, self.kwargs, self.users = args, kwargs, _users

    def is_called(self, target: Any) -> bool:
        packet = target.overloadpacket if isinstance(target, OpOverload) else None
        return any(f is target or (isinstance(f, OpOverloadPacket) and f is packet) for f in self.fns)

    def match(self, v: Any, found: Found, is_root: bool = False) -> bool:
        if not isinstance(v, fx.Node) or v.op != "call_function" or not self.is_called(v.target):
            return False
        if v in found.nodes:
            return found.nodes[v] is self
        if not is_root and self.users is not MULTIPLE and len(v.users) != self.users:
            return False
        if len(v.args) != len(self.args) or v.kwargs.keys() != self.kwargs.keys():
            return False
        found.nodes[v] = self
        pairs = [*zip(self.args, v.args, strict=True), *((self.kwargs[k], v.kwargs[k]) for k in v.kwargs)]
        return all(matches(p, a, found) for p, a in pairs)


def matches(pattern: Any, v: Any, found: Found) -> bool:
    if isinstance(pattern, PatternExpr):
        return pattern.match(v, found)
    if isinstance(pattern, (tuple, list)):
        return isinstance(v, (tuple, list)) and len(v) == len(pattern) and all(matches(p, a, found) for p, a in zip(pattern, v, strict=True))  # fmt: skip
    return not isinstance(v, fx.Node) and bool(type(pattern) is type(v) and pattern == v)


class Handled:
    """A pattern of nodes, and what is called where it occurs."""

    def __init__(self, pattern: PatternExpr, check: Callable[[Match], bool], handler: Callable[..., Any]):
        self.pattern, self.check, self.handler = pattern, check, handler

    def apply(self, graph: fx.Graph) -> int:
        count = 0
        for n in reversed(list(graph.nodes)):
            found = Found()
            if n._erased or not self.pattern.match(n, found, is_root=True):
                continue
            match = Match(graph, list(found.nodes), [n], found.args, found.kwargs)
            if self.check(match):
                self.handler(match, *match.args, **match.kwargs)
                count += 1
        return count


class Replaced:
    """A function whose operators are replaced by those of another."""

    def __init__(
        self,
        search: Callable[..., Any],
        replace: Callable[..., Any],
        examples: Sequence[Any],
        trace: Callable[..., fx.GraphModule],
        check: Callable[[Match], bool],
    ):
        self.search, self.replace, self.trace, self.check = search, replace, trace, check
        self.names = list(inspect.signature(search).parameters)
        self.pattern = live(trace(search, examples).graph)

    def apply(self, graph: fx.Graph) -> int:
        """Numbers in the pattern are sizes of the examples, perhaps: what is found is traced once more on what it is in this graph."""
        count = 0
        for rough in SubgraphMatcher(self.pattern, ignore_literals=True).match(graph):
            if any(isinstance(n, fx.Node) and n._erased for n in rough.nodes_map.values()):
                continue
            pattern = live(self.trace(self.search, [value_of(v) for v in rough.placeholder_nodes]).graph)
            exact = [m for m in SubgraphMatcher(pattern).match(graph) if m.returning_nodes == rough.returning_nodes]
            if not exact:
                continue
            m, given = exact[0], exact[0].placeholder_nodes
            inner = [v for p, v in m.nodes_map.items() if p.op not in ("placeholder", "output")]
            match = Match(graph, inner, m.returning_nodes, list(given), dict(zip(self.names, given, strict=False)))
            if self.check(match):
                match.replace_by_example(self.replace, given, self.trace)
                count += 1
        return count


def live(graph: fx.Graph) -> fx.Graph:
    graph.eliminate_dead_code()
    return graph


class PatternMatcherPass:
    """Patterns, tried in the order in which they were registered. `apply` is a pass over a graph."""

    def __init__(self, pass_name: str | None = None, subsystem: str | None = None):
        self.pass_name, self.subsystem = pass_name, subsystem
        self.entries: list[Handled | Replaced] = []

    def apply(self, gm: fx.GraphModule | fx.Graph) -> int:
        """How many occurrences were found."""
        graph = gm.graph if isinstance(gm, fx.GraphModule) else gm
        count = sum(entry.apply(graph) for entry in self.entries)
        if isinstance(gm, fx.GraphModule):
            gm.recompile()
        return count

    def clear(self) -> None:
        self.entries.clear()


def register_graph_pattern(
    pattern: PatternExpr,
    extra_check: Callable[[Match], bool] = lambda match: True,
    *,
    pass_dict: PatternMatcherPass,
    prepend: bool = False,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator: the function is called with each occurrence and its arguments, and may replace it."""

    def register(handler: Callable[..., Any]) -> Callable[..., Any]:
        pass_dict.entries.insert(0 if prepend else len(pass_dict.entries), Handled(pattern, extra_check, handler))
        return handler

    return register


def register_replacement(
    search_fn: Callable[..., Any],
    replace_fn: Callable[..., Any],
    example_inputs: Sequence[Any],
    trace_fn: Callable[..., fx.GraphModule],
    pass_dicts: Any,
    extra_check: Callable[[Match], bool] = lambda match: True,
    scalar_workaround: dict[str, float | int] | None = None,
    exclusive_arg_names: Sequence[str] = (),
    search_fn_pattern: PatternExpr | None = None,
    skip_duplicates: bool = False,
) -> bool:
    """Replaces the operators of one function by those of another, wherever a pass finds them.

    Both are traced again on what is found, so that sizes in their text are those of the graph; where these are symbols, patterns
    whose operators take sizes (`view`, `expand`) are not found.
    """
    if scalar_workaround or exclusive_arg_names or search_fn_pattern is not None:
        raise NotImplementedError(
            "[register_replacement] scalar_workaround, exclusive_arg_names and search_fn_pattern are not here: numbers of the pattern are constants"
        )
    entry = Replaced(search_fn, replace_fn, example_inputs, trace_fn, extra_check)
    for passes in pass_dicts if isinstance(pass_dicts, (tuple, list)) else [pass_dicts]:
        passes.entries.append(entry)
    return True
