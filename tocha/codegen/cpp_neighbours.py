"""Points whose last dims are short, as those of pairs, corners and colours are: written out one by one, in loops along the other dims.

`torch.stack((a, b), -1)` is such a kernel: each step writes both, from what has vectors along the rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tocha.codegen.cpp_pass import Cuts, Pass
from tocha.codegen.cpp_vectors import SHORT_ROW
from tocha.ir import dtypes as dt
from tocha.ir import symbolic as s
from tocha.ir.kernels import Member
from tocha.ir.loops import Buffer
from tocha.ir.node import Node

MOST_NEIGHBOURS = 4


@dataclass(frozen=True)
class Neighbour:
    """One of a few neighbouring elements of a buffer that are written in one step."""

    buffer: Buffer
    place: Any

    @property
    def dtype(self) -> dt.DType:
        return self.buffer.dtype


def gains(p: Pass, outputs: Sequence[tuple[Buffer, Node]], sizes: list[Any], variables: list[Any]) -> bool:
    """Whether the last dim is too short for a loop. Four elements that are computed alike are a vector of their own."""
    if len(sizes) < 2 or not isinstance(sizes[-1], int) or not 2 <= sizes[-1] <= MOST_NEIGHBOURS:
        return False
    return sizes[-1] < MOST_NEIGHBOURS or len(Cuts(p, [n for _, n in outputs], variables[-1]).ranges) > 1


def split_by_quotient(
    w: Any, sizes: list[Any], variables: list[Any], members: Sequence[Member]
) -> tuple[list[Any], list[Any]] | None:
    """A last dim of whose variable addresses have a quotient (`repeat_interleave(2)`, nearest neighbours at twice the size) as two, of which the
    second is to be written out: its points share what is read, and no compiler has vectors for quotients. None if there is no such one."""
    if not sizes or not isinstance(sizes[-1], int):
        return None
    size, last = sizes[-1], s.atom_of(variables[-1])
    expressions = [e for e in w.expressions(members) if last in s.free_symbols(e)]
    counts = {a.args[1] for e in expressions for a in functions_of(e, last) if a.kind == "floordiv"}
    count = counts.pop() if len(counts) == 1 else None
    if not isinstance(count, int) or not 2 <= count <= MOST_NEIGHBOURS or size % count or size // count < SHORT_ROW:
        return None
    outer, inner = w.new_variables("g", [size // count, count])
    change = {last: s.add(s.scale(outer, count), inner)}
    changed = [w.simplified(e, change) for e in expressions]
    if any(functions_of(e, s.atom_of(v)) for e in changed for v in (outer, inner)):
        return None
    for m in members:
        w.places[m] = {k: w.simplified(v, change) for k, v in w.places[m].items()}
    return [*sizes[:-1], size // count, count], [*variables[:-1], outer, inner]


def split_by_sizes(
    w: Any, sizes: list[Any], variables: list[Any], members: Sequence[Member]
) -> tuple[list[Any], list[Any]]:
    """Dims of whose variable addresses have a quotient by a size (heads side by side: `n * m` of which the place in `m` is asked for) as two each,
    so that nothing is divided for any element."""
    d = len(sizes)
    while d > 0:
        d -= 1
        atom, size = s.atom_of(variables[d]), sizes[d]
        if not isinstance(size, s.Expr):
            continue
        found = [a for e in w.expressions(members) for a in functions_of(e, atom) if a.kind == "floordiv"]
        for by in dict.fromkeys(a.args[1] for a in found):
            count = s.exact_quotient(size, by)
            if count is None or count == 1 or by == 1:
                continue
            change = {atom: s.add(s.mul(by, (made := w.new_variables(f"g{len(sizes)}_", [count, by]))[0]), made[1])}
            places = {m: {k: w.simplified(v, change) for k, v in w.places[m].items()} for m in members}
            before, w.places = w.places, {**w.places, **places}
            if any(functions_of(e, s.atom_of(v)) for e in w.expressions(members) for v in made):
                w.places = before
                continue
            sizes, variables = [*sizes[:d], count, by, *sizes[d + 1 :]], [*variables[:d], *made, *variables[d + 1 :]]
            d += 2
            break
    return sizes, variables


def functions_of(e: Any, variable: s.Atom | None) -> list[s.Atom]:
    """Quotients and their kin of an expression that have a variable in them."""
    terms = e.terms if isinstance(e, s.Expr) else ()
    return [a for monomial, _ in terms for a, _ in monomial if a.args and variable in s.free_symbols(s.of_atom(a))]


def write_out(
    w: Any, count: int, sizes: list[Any], variables: list[Any], places: dict[Member, dict[s.Atom, Any]]
) -> tuple[list[Any], list[Any]]:
    """Puts each point of the last dims, `count` in all, into what w knows of places: the sizes and variables that are left."""
    members, inner = w.kernel.members, len(sizes)
    while s.product(sizes[inner:]) != count:
        inner -= 1
    for point in itertools.product(*(range(n) for n in sizes[inner:])):
        at = {s.atom_of(v): i for v, i in zip(variables[inner:], point, strict=True)}
        w.last_points.append({m: {k: w.simplified(e, at) for k, e in places[m].items()} for m in members})
    return w.coalesced(sizes[:inner], variables[:inner], members)


def neighbours_of(w: Any, p: Pass, members: Sequence[Member]) -> list[tuple[Any, Node]]:
    """Nodes of the members' results at each point of the last dims, and where they are stored: those of one buffer side by side."""
    outputs: dict[Buffer, list[tuple[Any, Node]]] = {}
    for places in w.last_points:
        w.places, p.values = places, {}
        for b, n in w.pass_values(p, members):
            outputs.setdefault(b, []).append((Neighbour(b, w.store_place(b)), n))
    return [o for found in outputs.values() for o in found]
