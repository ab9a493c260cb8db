"""Rewrites of loops that need to know more than one of them: done between inlining and scheduling."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tocha.ir import scalar
from tocha.ir import symbolic as s
from tocha.ir.assumptions import Assumptions
from tocha.ir.loops import Load, Loop, Position, Step, index_of
from tocha.ir.node import INPUT, PARAM, Node, topological


def rewritten(steps: list[Step], known: Assumptions) -> list[Step]:
    """The steps with every rewrite of this file done."""
    out: list[Step] = []
    for step in steps:
        made = exponents_below_zero(step, known) if isinstance(step, Loop) else step
        if made is not step:
            for b in made.results:
                if b is not None:
                    b.producer = made
        out.append(made)
    return out


def exponents_below_zero(loop: Loop, known: Assumptions) -> Loop:
    """exp(x - max(x)), where the maximum is one that a loop folded of the same x: the exponent is not above zero."""
    change: dict[Node, Node] = {}
    for n in topological(loop.formulas):
        if n.op is not scalar.exp or n.args[0].op is not scalar.sub or not n.dtype.is_floating:
            continue
        x, top = n.args[0].args
        if top.op is INPUT and is_maximum_of(loop, loop.reads[top.attr], x, known):  # type: ignore[index]
            change[n] = scalar.exp_below_zero(n.args[0])
    return replace(loop, formulas=scalar.substitute(loop.formulas, change)) if change else loop


def is_maximum_of(loop: Loop, read: Any, x: Node, known: Assumptions) -> bool:
    """Whether what a loop reads is the maximum of a row in which x lies."""
    if not isinstance(read, Load) or read.guard is not True or not isinstance(read.buffer.producer, Loop):
        return False
    maker = read.buffer.producer
    if maker.fold is None or maker.indirect or len(maker.results) != 1 or not is_maximum(maker):
        return False
    outer = len(maker.sizes) - maker.folded
    index = index_of(read.address, read.buffer.sizes, read.buffer.strides, known)
    used = set().union(*(s.free_symbols(i) for i in index))
    free = [
        (v, n) for v, n in zip(loop.variables, loop.sizes, strict=True) if not is_single(n) and s.atom_of(v) not in used
    ]
    folded = [(v, n) for v, n in zip(maker.variables[outer:], maker.sizes[outer:], strict=True) if not is_single(n)]
    if [n for _, n in free] != [n for _, n in folded]:
        return False
    at = {s.atom_of(v): i for v, i in zip(maker.variables[:outer], index, strict=True) if isinstance(v, s.Expr)}
    at |= {s.atom_of(v): w for (v, _), (w, _) in zip(folded, free, strict=True)}
    numbers: dict[Any, int] = {}
    return number_of(x, loop, {}, known, numbers) == number_of(maker.formulas[0], maker, at, known, numbers)


def is_single(n: Any) -> bool:
    return isinstance(n, int) and n == 1


def is_maximum(maker: Loop) -> bool:
    assert maker.fold is not None
    (combined, *rest), (finished, *_) = maker.fold.combine, maker.fold.finish
    kinds = {a.op for a in combined.args}
    return not rest and combined.op is scalar.maximum and kinds == {PARAM, INPUT} and finished.op is PARAM


def number_of(node: Node, loop: Loop, at: dict, known: Assumptions, numbers: dict[Any, int]) -> int:
    """A number for a formula on what it reads: the same for the same formula of another loop."""
    found: dict[Node, int] = {}
    for n in topological((node,)):
        key: tuple = (n.op.name, n.attr, n.dtype.name, *(found[a] for a in n.args))
        if n.op is INPUT:
            r = loop.reads[n.attr]  # type: ignore[index]
            place = known.simplify(s.substitute(r.value if isinstance(r, Position) else r.address, at))
            key = ("position", place)
            if isinstance(r, Load):
                key = (r.buffer, place, r.guard if r.guard is True else s.substitute(r.guard, at))
        found[n] = numbers.setdefault(key, len(numbers))
    return found[node]
