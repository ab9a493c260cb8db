"""Inputs of captured graphs: fakes as they were before the graph ran on them, with the symbols of the capture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from tocha import _C
from tocha._functorch.joint import passed_on
from tocha._functorch.wrappers import around, flat, is_wrapper
from tocha._subclasses.convert import dtype_facts, is_symbolic_geometry
from tocha._subclasses.fake import FakeTensor, new
from tocha._subclasses.mode import unless_plain
from tocha.fx import GraphModule, Node
from tocha.ir.sym_types import Symbolic
from tocha.nn import Module
from tocha.operators.facts import Facts, Memory

Tensor = _C.Tensor


def captured(mod: Module, args: Sequence[Any]) -> tuple[list[Any], bool]:
    """What to trace a module on in place of these arguments, and whether sizes are symbols."""
    if not isinstance(mod, GraphModule):
        return list(args), False
    nodes = mod.graph.find_nodes(op="placeholder")
    if len(nodes) != len(args):
        return list(args), False
    symbolic = any(is_symbolic(n.meta.get("example_value")) for n in mod.graph.nodes)
    before = Before(nodes, args, symbolic)
    return [before.fake(i) for i in range(len(args))], symbolic


def is_symbolic(value: Any) -> bool:
    return isinstance(value, Symbolic) or (isinstance(value, FakeTensor) and is_symbolic_geometry(value._facts))


class Before:
    """Fakes of real tensors, in the mode of the capture. Those that shared memory share it again, and views of one tensor are again."""

    def __init__(self, nodes: Sequence[Node], args: Sequence[Any], symbolic: bool):
        self.nodes, self.args, self.symbolic = nodes, args, symbolic
        self.memories: dict[int, Memory] = {}
        self.fakes: dict[int, Any] = {}  # by place
        self.places = {id(a): i for i, a in enumerate(args)}
        self.bases: dict[int, FakeTensor] = {}  # of arguments that are none themselves
        self.views = Counter(id(a._base) for a in args if isinstance(a, Tensor) and a._base is not None)

    def fake(self, i: int) -> Any:
        if i not in self.fakes:
            self.fakes[i] = self.made(self.nodes[i].meta, self.args[i])
        return self.fakes[i]

    def made(self, meta: dict[str, Any], real: Any) -> Any:
        if self.symbolic and is_wrapper(real):  # its parts in the mode that the symbols belong to: their sizes are none
            mode = flat(meta["example_value"])[0].fake_mode
            return around(real, mode.from_tensor).requires_grad_(real.requires_grad)
        if "geometry" not in meta or not isinstance(real, Tensor) or isinstance(real, FakeTensor):
            return real
        fact = meta["example_value"]
        f = fact._facts
        sizes, steps, offset = meta["geometry"]
        lay_on = meta["memory"]
        memory = self.memories.setdefault(id(lay_on), Memory(lay_on.nbytes))
        shown = None if f.is_plain and steps == tuple(f.steps) else steps
        facts = Facts(sizes, f.dtype, f.device, shown, offset, memory, real.is_conj(), real.is_neg())
        return with_history_of(real, fact.fake_mode, facts, self.base(real, fact.fake_mode, facts))

    def base(self, real: Tensor, mode: Any, facts: Facts) -> Any:
        """What it is a view of, if that, or another view of it, is among the arguments."""
        base = real._base
        if base is None:
            return None
        if id(base) in self.places:
            found = self.fake(self.places[id(base)])
            return found if isinstance(found, FakeTensor) else None
        if self.views[id(base)] < 2 or self.symbolic:
            return None
        if id(base) not in self.bases:
            sizes, steps = tuple(base.shape), base.stride()
            whole = Facts(
                sizes, dtype_facts(base.dtype), facts.device, unless_plain(sizes, steps), base.storage_offset(),
                facts.memory, base.is_conj(), base.is_neg(),
            )  # fmt: skip
            self.bases[id(base)] = with_history_of(base, mode, whole)
        return self.bases[id(base)]


def with_history_of(real: Tensor, mode: Any, facts: Facts, base: Any = None) -> FakeTensor:
    made = new(mode, facts, base)
    if not real.requires_grad:
        return made
    made.requires_grad_()
    return made if real.is_leaf else passed_on(made, base)
