"""Inputs of captured graphs: fakes as they were before the graph ran on them, with the symbols of the capture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tocha import _C
from tocha._functorch.joint import passed_on
from tocha._subclasses.convert import is_symbolic_geometry
from tocha._subclasses.fake import FakeTensor, new
from tocha.fx import GraphModule
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
    memories: dict[int, Memory] = {}
    found = [before(n.meta, a, memories) if "geometry" in n.meta else a for n, a in zip(nodes, args, strict=True)]
    return found, any(is_symbolic(n.meta.get("example_value")) for n in mod.graph.nodes)


def is_symbolic(value: Any) -> bool:
    return isinstance(value, Symbolic) or (isinstance(value, FakeTensor) and is_symbolic_geometry(value._facts))


def before(meta: dict[str, Any], real: Any, memories: dict[int, Memory]) -> Any:
    """A fake of the real tensor, in the mode of the capture. Inputs that shared memory share it again."""
    if not isinstance(real, Tensor) or isinstance(real, FakeTensor):
        return real
    fact = meta["example_value"]
    f = fact._facts
    sizes, steps, offset = meta["geometry"]
    memory = memories.setdefault(id(f.memory), Memory(f.memory.nbytes))
    shown = None if f.is_plain and steps == tuple(f.steps) else steps
    made = new(fact.fake_mode, Facts(sizes, f.dtype, f.device, shown, offset, memory, real.is_conj(), real.is_neg()))
    if not real.requires_grad:
        return made
    made.requires_grad_()
    return made if real.is_leaf else passed_on(made)
