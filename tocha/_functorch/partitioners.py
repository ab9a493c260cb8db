"""Cuts a joint graph, which computes results and gradients at once, into a forward and a backward graph.

`default_partition` computes nothing twice: every value that backward reads is kept. `min_cut_rematerialization_partition` keeps
what costs least: each value is a vertex split in two, with the cost of keeping it between the halves, and the cheapest
cut between forward's inputs and backward's readers is what is kept; backward computes the rest again from that.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tocha import _C, _ops, fx
from tocha._functorch import config, costs
from tocha._functorch.checks import is_check, shown_by
from tocha._functorch.functionalize import root_of
from tocha._functorch.max_flow import UNCUTTABLE, Network
from tocha._subclasses.fake import FakeTensor
from tocha.autograd._memory_budget import BUDGET
from tocha.fx import Graph, GraphModule, Node
from tocha.fx._lazy_graph_module import _LazyGraphModule
from tocha.fx.experimental.symbolic_shapes import free_symbols
from tocha.ir import symbolic as s
from tocha.ir.layout import dense_order
from tocha.ir.sym_types import SymInt

WRITABLE = "writable"  # marks, in its meta, an input that the program may write to before backward runs
TANGENTS = "tangents"  # what the placeholders of gradients are called: tangents_1, ...
CLONE = _ops.ops.aten.clone.default
NEAR = 1.05  # a value one step further from backward's readers counts so much more


def _is_tangent(node: Node) -> bool:
    return node.op == "placeholder" and str(node.target).startswith(TANGENTS)


class Joint:
    """A joint graph, with what its nodes are for."""

    def __init__(self, module: GraphModule, num_fwd_outputs: int):
        self.module, self.graph = module, module.graph
        self.nodes = [n for n in self.graph.nodes if n.op != "output"]
        self.inputs = [n for n in self.nodes if n.op == "placeholder" and not _is_tangent(n)]
        self.tangents = [n for n in self.nodes if _is_tangent(n)]
        results = self.graph.output_node().args[0]
        assert isinstance(results, list | tuple)
        self.outputs, self.gradients = list(results[:num_fwd_outputs]), list(results[num_fwd_outputs:])
        self.results, self.given_back = (
            {n for n in part if isinstance(n, Node)} for part in (self.outputs, self.gradients)
        )
        used = _ancestors([*self.outputs, *self.gradients])
        drawn = [n for n in self.nodes if costs.is_random(n) and n not in used]  # the generator goes on though
        self.after_tangents = _descendants(self.tangents)
        checks = [n for n in self.nodes if is_check(n)]
        self.unread = [*drawn, *(n for n in checks if n not in self.after_tangents)]
        self.unread_after = [n for n in checks if n in self.after_tangents]
        self.forward = _ancestors([*self.outputs, *self.unread])
        self.forward |= {n for n in self.nodes if n.target is operator.getitem and n.args[0] in self.forward}
        if not self.after_tangents.isdisjoint(self.forward):
            raise RuntimeError("[partition] a result of the forward graph depends on gradients")
        self.policies = {n: policy for n in self.nodes if (policy := self._policy(n))}
        self.exposed = self._exposed()

    def _policy(self, n: Node) -> str:
        """What a checkpointed region asks for a value: `save`, `recompute`, or nothing.

        What others read of a region is kept, and so is what cannot be had twice: random numbers.
        """
        asked = n.meta.get("recompute")
        name = "" if asked is None else str(getattr(asked, "name", asked)).lower()
        if name.endswith("save"):
            return "save"
        if not name.endswith("recompute"):
            return ""
        region = n.meta.get("ac_graph_id")
        leaves = any(u in self.forward and u.meta.get("ac_graph_id") != region for u in n.users if u.op != "output")
        if costs.is_random(n):
            return "save"
        return "" if leaves or n in self.results else "recompute"

    def _exposed(self) -> set[Node]:
        """Values on the memory of results and inputs of which autograd keeps nothing: the caller may write to it before backward runs.

        Where autograd itself keeps something of that memory, backward is refused after a write, with a compiler and without.
        Parameters are not written to between the two, and would cost the most.
        """
        starts = {i for n, policy in self.policies.items() if policy == "recompute" for i in n.all_input_nodes}
        kept = {root_of(n) for n in self.forward if n in starts or self.needed_outside(n)}
        given = {n for n in self.inputs if n.meta.get(WRITABLE)}
        written = ({root_of(n) for n in self.results} | given) - kept
        return {n for n in self.forward if (n.op == "call_function" or n in given) and root_of(n) in written}

    def needed_outside(self, n: Node) -> bool:
        """Whether something that is not computed by forward reads it."""
        return any(u.op != "output" and u not in self.forward for u in n.users) or n in self.given_back

    def backward_only(self, n: Node) -> bool:
        return n in self.after_tangents

    def read_by_backward(self, n: Node) -> bool:
        return n in self.given_back or any(u in self.after_tangents for u in n.users)


def _ancestors(of: Iterable[Any]) -> set[Node]:
    found: set[Node] = set()
    waiting = [n for n in of if isinstance(n, Node)]
    while waiting:
        n = waiting.pop()
        if n not in found:
            found.add(n)
            waiting += n.all_input_nodes
    return found


def _descendants(of: Iterable[Node]) -> set[Node]:
    found: set[Node] = set()
    waiting = list(of)
    while waiting:
        n = waiting.pop()
        if n not in found and n.op != "output":
            found.add(n)
            waiting += n.users
    return found


# ---- what is kept ----------------------------------------------------------------------------------


def _kept_by_default(joint: Joint) -> list[Node]:
    """Everything of forward that backward reads; what forward does not need either is left to backward."""
    given = {*joint.inputs, *joint.forward}
    return [n for n in joint.nodes if n in given and joint.needed_outside(n) and _can_be_kept(n)]


def _can_be_kept(n: Node) -> bool:
    return n.op != "get_attr" and not costs.is_several(n)


def _computing_again(joint: Joint, n: Node) -> float:
    """What it costs to compute a value in backward once more."""
    asked = joint.policies.get(n, "")
    if asked:
        return 0 if asked == "recompute" else UNCUTTABLE
    if n.meta.get("recompute") is not None:  # read outside of its region
        return UNCUTTABLE
    return costs.again(n) if costs.is_cheap(n) else UNCUTTABLE


def _distance_to_backward(joint: Joint) -> dict[Node, int]:
    """How many steps lie between a value and its first reader in backward."""
    found: dict[Node, int] = {}
    for n in reversed(joint.nodes):
        if joint.backward_only(n):
            found[n] = 0
        else:
            found[n] = min((found[u] + 1 for u in n.users if u.op != "output"), default=len(joint.nodes))
    return found


def _cost(joint: Joint, n: Node, distance: int) -> float:
    """Bytes moved when it is kept: read by backward, and written where forward would not have to."""
    if not _can_be_kept(n) or joint.policies.get(n) == "recompute":
        return UNCUTTABLE
    if costs.is_number(n):
        return 1.0
    if n in joint.exposed and not _can_be_copied(n):
        return UNCUTTABLE
    if _is_held(joint, n):
        return 1.0 + costs.bytes_of(n) / 16  # it lives on anyway
    size = costs.bytes_of(n)
    fused = costs.is_fused(n) and all(costs.is_fused(u) for u in n.users if u in joint.forward)
    written = not fused and n not in joint.exposed
    return (size if written else 2 * size) * NEAR ** min(distance, 100) + 1.0


def _is_held(joint: Joint, n: Node) -> bool:
    return (n.op == "placeholder" or n in joint.results) and n not in joint.exposed


def _can_be_copied(n: Node) -> bool:
    """Whether a copy has the strides for which backward is compiled. Views are had again from a copy of what they are views of."""
    val = n.meta["val"]
    if root_of(n) is not n or val.layout is not _C.strided:
        return False
    sizes, strides = (val._facts.sizes, val._facts.steps) if isinstance(val, FakeTensor) else (val.shape, val.stride())
    return dense_order(sizes, strides) is not None


def _kept_by_cut(joint: Joint, again: Callable[[Node], float]) -> list[Node]:
    """The values of the cheapest cut; `again`: what it costs to compute one in backward."""
    network = Network()
    source, sink = network.vertex(), network.vertex()
    distance = _distance_to_backward(joint)
    halves: dict[Node, tuple[int, int]] = {}
    for n in joint.nodes:
        if joint.backward_only(n):
            continue
        halves[n] = network.vertex(), network.vertex()
        enters, leaves = halves[n]
        network.connect(enters, leaves, _cost(joint, n, distance[n]))
        if n.op == "placeholder":
            network.connect(source, enters, UNCUTTABLE)
        elif n.op != "get_attr" and n in joint.forward and (price := again(n)):
            network.connect(source, enters, price)
        for i in n.all_input_nodes:
            network.connect(halves[i][1], enters, UNCUTTABLE)
        if joint.read_by_backward(n):
            network.connect(leaves, sink, UNCUTTABLE)
    side = network.source_side(source, sink)
    return [n for n, (enters, leaves) in halves.items() if enters in side and leaves not in side]


def _kept_within(joint: Joint, budget: float) -> list[Node]:
    """What is kept when only a part of the memory of the cheapest cut may be used: between keeping what that keeps (1) and as little
    as can be (0), values with the least work per byte are computed again first."""
    usual = _kept_by_cut(joint, lambda n: _computing_again(joint, n))
    if budget >= 1:
        return usual
    least = _kept_by_cut(joint, lambda n: 0 if n.op == "call_function" and _can_be_had_again(joint, n) else UNCUTTABLE)
    if budget <= 0:
        return least
    low, high = _bytes(joint, least), _bytes(joint, usual)
    target = low + budget * (high - low)
    chains = {n: _between(n, set(usual)) for n in usual if n.op == "call_function" and n not in least}
    lifted: set[Node] = set()

    def again(n: Node) -> float:
        return 0 if n in lifted else _computing_again(joint, n)

    kept = usual
    for n in sorted(chains, key=lambda n: sum(map(costs.work, chains[n])) / max(1, costs.bytes_of(n))):
        if _bytes(joint, kept) <= target:
            break
        if all(_can_be_had_again(joint, m) for m in chains[n]):
            lifted |= chains[n]
            kept = _kept_by_cut(joint, again)
    return kept


def _can_be_had_again(joint: Joint, n: Node) -> bool:
    return not costs.is_random(n) and n.target is not costs.ITEM and joint.policies.get(n) != "save"


def _between(n: Node, kept: set[Node]) -> set[Node]:
    """What computes n from other kept values."""
    found: set[Node] = set()
    waiting = [n]
    while waiting:
        m = waiting.pop()
        if m not in found and m.op == "call_function" and (m is n or m not in kept):
            found.add(m)
            waiting += m.all_input_nodes
    return found


def _bytes(joint: Joint, kept: Iterable[Node]) -> int:
    """What keeping costs beyond what lives on anyway."""
    return sum(costs.bytes_of(n) for n in kept if not _is_held(joint, n))


# ---- graphs ----------------------------------------------------------------------------------------


def _extract(inputs: Sequence[Node], outputs: Sequence[Any], order: Sequence[Node]) -> Graph:
    """The graph that computes outputs from inputs. What only one later value needs is computed just before it."""
    graph = fx.Graph()
    made: dict[Node, Node] = {}
    for n in inputs:
        made[n] = graph.placeholder(n.name)
        made[n].meta = dict(n.meta)

    def make(node: Node) -> None:
        waiting = [node]
        while waiting:
            n = waiting[-1]
            if n in made:
                waiting.pop()
                continue
            missing = [i for i in n.all_input_nodes if i not in made]
            if missing:
                waiting += reversed(missing)
                continue
            if n.op == "placeholder":
                raise RuntimeError(f"[partition] backward needs {n.name}, which is not kept")
            made[n] = graph.node_copy(n, lambda x: made[x])
            waiting.pop()

    for n in order:
        make(n)
    for o in outputs:
        if isinstance(o, Node):
            make(o)
    graph.output(tuple(made[o] if isinstance(o, Node) else o for o in outputs))
    return graph


def _hidden(joint: Joint, kept: list[Node]) -> list[Node]:
    """Numbers that forward is given, of which sizes in backward are made, and that nothing shows that backward is given."""
    given = [*kept, *joint.tangents]
    wanted = free_symbols([n.meta.get("val") for n in given]) - shown_by(given).keys()
    numbers = {s.atom_of(n.meta["val"].expr): n for n in joint.inputs if isinstance(n.meta.get("val"), SymInt)}
    return [n for atom, n in numbers.items() if atom in wanted and n not in kept]


def _split(joint: Joint, kept: list[Node]) -> tuple[GraphModule, GraphModule]:
    kept = [*kept, *_hidden(joint, kept)]
    numbers = [n for n in kept if costs.is_number(n)]
    tensors = [n for n in kept if not costs.is_number(n)]
    forward_needs = _ancestors([*joint.outputs, *joint.unread, *kept])
    backward_needs = _ancestors([*joint.gradients, *joint.unread_after])
    forward = _extract(
        joint.inputs, [*joint.outputs, *tensors, *numbers], [n for n in joint.nodes if n in forward_needs]
    )
    _keep_copies(forward, {len(joint.outputs) + i for i, n in enumerate(tensors) if n in joint.exposed})
    backward = _extract(
        [*numbers, *tensors, *joint.tangents],
        joint.gradients,
        [n for n in joint.nodes if joint.backward_only(n) and n in backward_needs],
    )
    return _LazyGraphModule(joint.module, forward, "Forward"), _LazyGraphModule(joint.module, backward, "Backward")


def _keep_copies(graph: Graph, places: set[int]) -> None:
    """Replaces results of a graph by copies."""
    output = graph.output_node()
    results = list(output.args[0])  # type: ignore[arg-type]
    with graph.inserting_before(output):
        for i in sorted(places):
            copy = graph.call_function(CLONE, (results[i],))
            copy.meta = {**results[i].meta, "val": results[i].meta["val"].clone()}
            results[i] = copy
    output.args = (tuple(results),)


def budget_of(joint_module: GraphModule, num_fwd_outputs: int) -> float:
    """What `region_activation_memory_budget` says of the graph; elsewhere the setting."""
    own = [n for n in Joint(joint_module, num_fwd_outputs).forward if n.op == "call_function" and n.stack_trace]
    asked = {n.meta.get("custom", {}).get(BUDGET) for n in own}
    if asked <= {None}:
        return float(config.activation_memory_budget)
    if None in asked:
        raise RuntimeError(
            "[region_activation_memory_budget] must cover the entire forward of a graph: a graph break separates regions of different budgets"
        )
    if len(asked) > 1:
        raise RuntimeError(
            f"[region_activation_memory_budget] conflicting budgets within a single joint graph: {sorted(asked)}"
        )
    return float(asked.pop())


def default_partition(
    joint_module: GraphModule, _joint_inputs: Any = None, *, num_fwd_outputs: int, **_: Any
) -> tuple[GraphModule, GraphModule]:
    """Keeps every value of forward that backward reads.

    Returns the forward graph, whose results are followed by the kept tensors and sizes, and the backward graph, which takes the
    kept sizes and tensors and the gradients of the results.
    """
    joint = Joint(joint_module, num_fwd_outputs)
    if any("recompute" in n.meta for n in joint.nodes):  # checkpointed regions say what is computed again
        return _split(joint, _kept_within(joint, 1.0))
    return _split(joint, _kept_by_default(joint))


def min_cut_rematerialization_partition(
    joint_module: GraphModule,
    _joint_inputs: Any = None,
    compiler: str = "inductor",
    *,
    num_fwd_outputs: int,
    memory_budget: float | None = None,
    **_: Any,
) -> tuple[GraphModule, GraphModule]:
    """Keeps what moves the fewest bytes and computes cheap values again in backward; memory_budget trades work for memory, from 1
    down to 0, where only what cannot be computed again is kept. Without one it is what the program or the setting says."""
    if memory_budget is None:
        memory_budget = budget_of(joint_module, num_fwd_outputs)
    if not 0 <= memory_budget <= 1:
        raise ValueError(f"[partition] memory_budget is between 0 and 1: got {memory_budget}")
    joint = Joint(joint_module, num_fwd_outputs)
    return _split(joint, _kept_within(joint, memory_budget))


@dataclass(frozen=True)
class Point:
    """A point of the curve of memory against work."""

    budget: float
    bytes_kept: int  # beyond inputs and results, which live on anyway
    work_again: int  # operations that backward repeats


def memory_budget_curve(
    joint_module: GraphModule, *, num_fwd_outputs: int, budgets: Sequence[float] = (0.0, 0.25, 0.5, 0.75, 1.0)
) -> list[Point]:
    """What each memory_budget keeps, and what it has backward compute again."""
    joint = Joint(joint_module, num_fwd_outputs)
    needed = _ancestors(joint.gradients)
    points = []
    for budget in budgets:
        kept = _kept_within(joint, budget)
        again = _computed_from(joint, kept, needed)
        points.append(Point(budget, _bytes(joint, kept), sum(costs.work(n) for n in again if n in joint.forward)))
    return points


def _computed_from(joint: Joint, kept: Iterable[Node], needed: set[Node]) -> set[Node]:
    """What backward computes besides gradients, when it has the kept values."""
    found: set[Node] = set()
    have = {*kept, *joint.tangents}
    waiting = [i for n in joint.nodes if n in needed and joint.backward_only(n) for i in n.all_input_nodes]
    waiting += [g for g in joint.gradients if isinstance(g, Node)]
    while waiting:
        n = waiting.pop()
        if n in have or n in found or joint.backward_only(n):
            continue
        found.add(n)
        waiting += n.all_input_nodes
    return found
