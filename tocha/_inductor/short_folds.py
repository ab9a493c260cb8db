"""Folds of a few elements are formulas: they go by vectors across their results, and dissolve into what reads them."""

from __future__ import annotations

import itertools
from dataclasses import replace

from tocha._inductor.inlining import Composer, is_expensive
from tocha.ir import scalar
from tocha.ir import symbolic as s
from tocha.ir.assumptions import Assumptions
from tocha.ir.loops import Loop, Step
from tocha.ir.node import Node, topological
from tocha.ir.rewrite import simplify

SHORT = 7  # elements: of eight on, vectors along them do as well
MANY = 64  # results, of fewer there is nothing to gain
SHORT_DEAR = 15  # the same where an element takes an exponential: for less than a vector there is nothing along them
MOST_NODES, MOST_READS = 96, 21
MOST_DEAR_NODES = 256


def without_short_folds(steps: list[Step], known: Assumptions) -> list[Step]:
    return [written_out(x, known) if isinstance(x, Loop) and is_short(x) else x for x in steps]


def is_short(loop: Loop) -> bool:
    if loop.fold is None or loop.indirect or loop.count is not None or len(loop.formulas) != 1:
        return False
    sizes = loop.sizes[len(loop.sizes) - loop.folded :]
    n = s.product(sizes)
    results = s.product(loop.outer)
    if isinstance(results, int) and results < MANY:
        return False
    dear = is_expensive((*loop.formulas, *loop.fold.combine))
    if not isinstance(n, int) or not 0 < n <= (SHORT_DEAR if dear else SHORT):
        return False
    nodes = len(topological((*loop.formulas, *loop.fold.combine)))
    return n * nodes <= (MOST_DEAR_NODES if dear else MOST_NODES) and n * len(loop.reads) <= MOST_READS


def written_out(loop: Loop, known: Assumptions) -> Loop:
    """A loop over the results alone, whose formula has all elements in it."""
    fold = loop.fold
    assert fold is not None
    outer = len(loop.sizes) - loop.folded
    composer = Composer(loop, {}, known)
    states: tuple[Node, ...] = fold.init
    for k, place in enumerate(itertools.product(*(range(n) for n in loop.sizes[outer:]))):
        at = {s.atom_of(v): i for v, i in zip(loop.variables[outer:], place, strict=True) if isinstance(v, s.Expr)}
        (element,) = composer.rewritten(loop, loop.formulas, at, True)  # type: ignore[arg-type]
        change: dict[Node, Node] = {scalar.Param(i, x.dtype): x for i, x in enumerate(states)}
        change |= {scalar.Input(0, element.dtype): element, scalar.index(): scalar.constant(k, scalar.int64)}
        states = scalar.substitute(fold.combine, change)
    count = scalar.constant(s.product(loop.sizes[outer:]), scalar.int64)
    last = {scalar.Param(i, x.dtype): x for i, x in enumerate(states)} | {
        scalar.Param(len(states), scalar.int64): count
    }
    made = replace(
        loop, sizes=loop.sizes[:outer], variables=loop.variables[:outer], reads=tuple(composer.reads),
        formulas=simplify(scalar.substitute(fold.finish, last)), fold=None, folded=0,
    )  # fmt: skip
    for b in made.results:
        b.producer = made
    return made
