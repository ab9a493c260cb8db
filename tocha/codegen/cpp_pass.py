"""What is computed at the same points of a kernel: reads, formulas on them, and where along a variable conditions change."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tocha.ir import dtypes as dt
from tocha.ir import scalar
from tocha.ir import symbolic as s
from tocha.ir.assumptions import Assumptions
from tocha.ir.kernels import Member
from tocha.ir.loops import Buffer, Load, Position
from tocha.ir.node import CONSTANT, INPUT, Node, topological
from tocha.ir.rewrite import simplify


class NarrowPosition(Position):
    """A position that 32 bits hold: as wide as a float, so that its conversion has vectors."""


class Pass:
    """Formulas that are computed at the same points: what they read, and their nodes in terms of that."""

    def __init__(self, writer: Any):
        self.writer = writer  # of the kernel: a KernelWriter (cpp_loops.py)
        self.reads: dict[Any, int] = {}  # Load, Position or the name of a variable
        self.indirect: dict[s.Atom, tuple[Node, Any]] = {}  # computed indices: their value, and how many there may be
        self.values: dict[Buffer, Node] = {}  # computed in this pass

    def input(self, read: Any, dtype: dt.DType) -> Node:
        return scalar.Input(self.reads.setdefault(read, len(self.reads)), dtype)

    def index_symbol(self, value: Node, size: Any) -> s.Atom:
        """The symbol for an index with this value."""
        for atom, (known, _) in self.indirect.items():
            if known is value:
                return atom
        made = s.atom_of(s.symbol(f"at{len(self.indirect)}"))
        assert made is not None
        self.writer.known.constrain(made, 0, size - 1 if isinstance(size, int) else float("inf"))
        self.indirect[made] = (value, size)
        return made

    def settled(self, guard: Any) -> Any:
        """A guard without the parts that always hold; False if one never does."""
        if isinstance(guard, bool):
            return guard
        parts = guard.args if guard.kind == "and" else (guard,)
        decided = [self.writer.known.holds(part) for part in parts]
        if False in decided:
            return False
        return s.combine("and", [part for part, holds in zip(parts, decided, strict=True) if holds is None])

    def nodes(self, m: Member, formulas: Sequence[Node]) -> tuple[Node, ...]:
        """A member's formulas on this pass's inputs."""
        places = dict(self.writer.places[m])
        indirect = {i.atom: i for i in m.loop.indirect}

        def index_symbols(e: Any) -> None:
            for atom in sorted(s.free_symbols(e)):
                if atom in indirect and atom not in places:
                    (value,) = substituted((indirect[atom].value,))
                    size = s.substitute(indirect[atom].size, places)
                    places[atom] = s.of_atom(self.index_symbol(value, size))

        def element(n: Node) -> Node:
            read = m.loop.reads[n.attr]  # type: ignore[index]
            if isinstance(read, Position):
                index_symbols(read.value)
                value = self.writer.simplified(read.value, places)
                return (
                    scalar.constant(value, n.dtype) if isinstance(value, int) else self.input(Position(value), n.dtype)
                )
            index_symbols(read.address)
            index_symbols(read.guard)
            if read.buffer in self.values:
                return self.values[read.buffer]
            if read.buffer in self.writer.variables:
                return self.input(self.writer.variables[read.buffer], n.dtype)
            address = self.writer.simplified(read.address, places)
            guard = self.settled(read.guard if isinstance(read.guard, bool) else s.substitute(read.guard, places))
            if guard is False:
                return scalar.constant(False if n.dtype is dt.bool_ else 0, n.dtype)
            if read.buffer in self.writer.scratch:
                address = self.writer.scratch_address(read.buffer, address)
            return self.input(Load(read.buffer, address, guard), n.dtype)

        def substituted(nodes: Sequence[Node]) -> tuple[Node, ...]:
            leaves = [n for n in topological(nodes) if n.op is INPUT]
            return scalar.substitute(nodes, {n: element(n) for n in leaves})

        return self.with_narrow_positions(substituted(formulas))

    def with_narrow_positions(self, nodes: Sequence[Node]) -> tuple[Node, ...]:
        """The formulas with conversions of positions to floats as those of integers of 32 bits, where these suffice."""
        known, reads = self.writer.known, list(self.reads)
        change: dict[Node, Node] = {}
        for n in topological(nodes):
            if n.op is scalar.CAST and n.dtype.is_floating and n.args[0].dtype is dt.int64:
                value = position_of(n.args[0], reads)
                low, high = known.bounds(value) if isinstance(value, s.Expr) else (-math.inf, math.inf)
                if low >= -NARROW and high < NARROW:
                    change[n] = scalar.cast(self.input(NarrowPosition(value), dt.int32), n.dtype)
        return scalar.substitute(tuple(nodes), change) if change else tuple(nodes)

    # -- what changes along a variable

    def fixed_reads(self, along: Any) -> set[int]:
        """Numbers of the reads that do not change along a variable."""
        found = {i for r, i in self.reads.items() if isinstance(r, str)}
        if along is None:
            return found
        changing = self.changing(along)
        return found | {i for r, i in self.reads.items() if not isinstance(r, str) and self.stays(r, changing)}

    def reads_unguarded(self, nodes: Sequence[Node], whole: Pass, along: Any) -> bool:
        """Whether what is read before a loop was under a guard in the whole row: where this part of it is empty, there may be nothing."""
        reads, fixed = list(self.reads), self.fixed_reads(along)
        used = {n.attr for n in topological((*nodes, *(v for v, _ in self.indirect.values()))) if n.op is INPUT}
        return any(isinstance(reads[i], Load) and reads[i] not in whole.reads for i in used & fixed)  # type: ignore[index, operator]

    def changing(self, along: Any) -> set[Any]:
        """The symbols that change along a variable: itself, and the indices that are read from memory at places that do."""
        changing = {s.atom_of(along)} if along is not None else set()
        changing |= set(self.indirect)
        if along is None:
            return changing
        reads = {i: r for r, i in self.reads.items()}

        def fixed(value: Node, size: Any) -> bool:
            used = [reads[n.attr] for n in topological((value,)) if n.op is INPUT]  # type: ignore[index]
            return not s.free_symbols(size) & changing and all(
                isinstance(r, str) or self.stays(r, changing) for r in used
            )

        while found := {
            atom for atom, (value, size) in self.indirect.items() if atom in changing and fixed(value, size)
        }:
            changing -= found
        return changing

    def indices_change(self, along: Any) -> bool:
        """Whether indices that are read from memory change along a variable."""
        return bool(self.changing(along) & set(self.indirect))

    @staticmethod
    def stays(r: Load | Position, changing: set[Any]) -> bool:
        empty = isinstance(r, Load) and r.buffer.numel() == 0
        return not empty and not Pass.symbols_of(r) & changing

    @staticmethod
    def symbols_of(r: Any) -> frozenset | set:
        """What a read depends on."""
        if isinstance(r, str):
            return frozenset()
        return (
            s.free_symbols(r.value) if isinstance(r, Position) else s.free_symbols(r.address) | s.free_symbols(r.guard)
        )


COMPARISONS = {scalar.lt: s.lt, scalar.le: s.le, scalar.gt: s.gt, scalar.ge: s.ge, scalar.eq: s.eq, scalar.ne: s.ne}
ARITHMETIC: dict[Any, Any] = {
    scalar.add: s.add,
    scalar.sub: lambda a, b: s.add(a, s.scale(b, -1)),
    scalar.neg: lambda a: s.scale(a, -1),
}
NARROW = 2**31
MOST_CUTS = 8
LONG_ROW = 8  # elements, below which a comparison of each costs less than a loop and one element more
MOST_CASES = 16  # of a row, by conditions on the dims outside of it


def functions_in(e: Any) -> Iterator[s.Atom]:
    """Quotients, extremes and the like in an expression, those in their operands too."""
    for monomial, _ in s.terms_of(e) if isinstance(e, s.Expr) else ():
        for atom, _ in monomial:
            if atom.kind != "symbol":
                yield atom
                for a in atom.args:
                    yield from functions_in(a)


def parts_of(r: Any) -> Iterator[Any]:
    """The comparisons that a relation is made of."""
    if isinstance(r, bool):
        return
    if r.kind in ("and", "or", "not"):
        for part in r.args:
            yield from parts_of(part)
    else:
        yield r


def position_of(n: Node, reads: Sequence[Any]) -> Any:
    """A node of sums of positions as an index expression; None if it is none."""
    if n.op is CONSTANT:
        return n.attr if isinstance(n.attr, int) else None
    if n.op is INPUT:
        r = reads[n.attr]  # type: ignore[index]
        return r.value if isinstance(r, Position) and isinstance(r.value, s.Expr) else None
    args = [position_of(a, reads) for a in n.args] if n.op in ARITHMETIC and n.dtype is dt.int64 else [None]
    return None if None in args else ARITHMETIC[n.op](*args)


def later(bound: str, cut: str, function: str) -> str:
    """A bound of a range that is also cut; where both are numbers, the cut lies within."""
    return cut if bound.isdigit() and cut.isdigit() else f"{function}({bound}, {cut})"


class Cuts:
    """Where along a variable the conditions of a pass change, and the pass between two such places.

    With `turning`, also where addresses turn; with `moving`, also at places that are not the same for every row, if they move together: the edges of a triangle or a band;
    `done`: where the row has been cut before; with `single`, also around the one place where a comparison for equality holds: a diagonal, or what a row's index says (`one_hot`).
    """

    def __init__(
        self, p: Pass, nodes: Sequence[Node], variable: Any, moving: bool = False, turning: bool = True, single: bool = False, done: Sequence[Any] = (),
    ):  # fmt: skip
        self.p, self.nodes, self.done = p, nodes, done
        self.atom = s.atom_of(variable) if isinstance(variable, s.Expr) else None
        self.reads = list(p.reads)
        self.single = single and self.atom is not None and self.is_long(variable)
        self.read_edges: dict[s.Atom, Any] = {}  # edges that are read from memory: what reads them
        self.fixed = p.fixed_reads(variable) if self.single else set()
        relations = {n: r for n in topological(nodes) if (r := self.relation(n)) is not None}
        self.known: dict[int, Assumptions] = {}  # after so many edges
        self.compared = relations
        # Of relations that change at edges: whether each holds in the ranges between them.
        self.sides: dict[Any, list[bool]] = {}
        self.edges: list[Any] = []
        asked = [r for g in self.guards() for r in parts_of(g)] + list(relations.values())
        turns = [r for a in self.addresses() for r in self.turning_points(a)] if turning else []
        # Sizes that are symbols: places that are the same for every row, but no numbers.
        endless = bool(turns) and self.p.writer.known.bounds(variable)[1] == math.inf
        self.symbolic = endless or any(self.is_symbolic(r) for r in (*asked, *turns))
        places: list[int] = []
        if self.symbolic:
            self.set_edges([*asked, *turns], moving)
        else:
            places = self.places(asked, turning)
            if moving and not places:
                self.set_edges([r for r in relations.values() if s.free_symbols(r) != {self.atom}], moving)
        cuts = self.edges or places
        self.ranges: list[tuple[Any, Any]] = list(zip([None, *cuts], [*cuts, None], strict=True))

    def guards(self) -> list[Any]:
        return [r.guard for r in self.reads if isinstance(r, Load) and not isinstance(r.guard, bool)]

    def addresses(self) -> list[Any]:
        return [r.address for r in self.reads if isinstance(r, Load) and s.has_functions(r.address)]

    def places(self, relations: Sequence[Any], turning: bool) -> list[int]:
        """Numbers at which relations change, and with `turning` addresses."""
        found: set[int] = set()
        for r in relations:
            self.scan(r, found)
        low, high = self.p.writer.known.bounds(s.of_atom(self.atom)) if self.atom is not None else (0, 0)
        places = sorted(c for c in found if low < c <= high)
        if turning:
            places = self.with_turns(places, low, high)
        return [] if len(places) > MOST_CUTS else places

    def with_turns(self, places: list[int], low: Any, high: Any) -> list[int]:
        """Places, and those where quotients and extremes in addresses turn: between them such an address is a line."""
        addresses = self.addresses()
        if self.atom is None or not isinstance(high, int) or not addresses:
            return places
        given = places
        while len(places) <= MOST_CUTS:
            found: set[int] = set()
            for first, past in zip([None, *places], [*places, None], strict=True):
                for a in addresses:
                    found |= self.turns(self.narrowed(a, first, past), low if first is None else first, high if past is None else past - 1)  # fmt: skip
            if found <= set(places):
                return places
            places = sorted({*places, *found})
        return given

    def turns(self, e: Any, low: int, high: int) -> set[int]:
        found: set[int] = set()
        for atom in functions_in(e):
            if atom.kind == "floordiv" and isinstance(atom.args[1], int) and atom.args[1] > 0:
                found |= self.steps(atom.args[0], atom.args[1], low, high)
            elif atom.kind in ("min", "max") and len(atom.args) == 2:
                found |= self.steps(s.add(atom.args[0], s.scale(atom.args[1], -1)), None, low, high)
        return found

    def steps(self, e: Any, divisor: int | None, low: int, high: int) -> set[int]:
        """Where a line's quotient changes, or its sign."""
        if s.free_symbols(e) != {self.atom} or s.has_functions(e):
            return set()
        ends = [self.at(e, low), self.at(e, high)]
        by = divisor or max(1, *map(abs, ends)) * 2
        if abs(ends[1] // by - ends[0] // by) > MOST_CUTS:
            return set()
        found, place = set(), low
        while (value := self.at(e, place) // by) != ends[1] // by:
            first, last = place, high
            while last - first > 1:  # the first place with another value
                middle = (first + last) // 2
                first, last = (middle, last) if self.at(e, middle) // by == value else (first, middle)
            place = last
            found.add(place)
        return found

    def at(self, e: Any, place: int) -> int:
        assert self.atom is not None
        return s.evaluate(e, {self.atom: place})

    def relation(self, n: Node) -> Any:
        """A comparison of positions, as a relation in which the variable is."""
        if n.op not in COMPARISONS or self.atom is None:
            return None
        left, right = (self.expression(a) for a in n.args)
        if left is None or right is None:
            left, right = self.with_read_edge(n.args, (left, right))
        if left is None or right is None:
            return None
        found = COMPARISONS[n.op](left, right)
        return found if not isinstance(found, bool) and self.atom in s.free_symbols(found) else None

    def expression(self, n: Node) -> Any:
        return position_of(n, self.reads)

    @property
    def at_one_place(self) -> bool:
        """Whether there is one place at which the pass is another than at all others."""
        return len(self.edges) == 2 and all(sides[0] == sides[2] for sides in self.sides.values())

    def is_long(self, variable: Any) -> bool:
        """Whether rows are worth loops of their own on both sides of one place."""
        known = self.p.writer.known
        low, high = known.bounds(variable)
        return isinstance(low, int) and high - low >= LONG_ROW and (isinstance(high, int) or self.atom in known.sizes)

    def with_read_edge(self, nodes: Sequence[Node], known: Sequence[Any]) -> tuple[Any, Any]:
        """Two sides of a comparison with the variable, of which one is read before the loop: an edge that is called by a name."""
        (mine, other), (left, right) = nodes, known
        if not self.single or s.of_atom(self.atom) not in (left, right):  # type: ignore[arg-type]
            return None, None
        n = mine if left is None else other
        r = self.reads[n.attr] if n.op is INPUT and n.attr in self.fixed else None  # type: ignore[index]
        plain = isinstance(r, str) or (isinstance(r, Load) and r.guard is True)
        if n.dtype is not dt.int64 or not plain or Pass.symbols_of(r) & set(self.p.indirect):
            return None, None
        writer = self.p.writer
        low, high = writer.known.bounds(s.of_atom(self.atom))  # type: ignore[arg-type]
        edge = s.symbol(f"edge{writer.passes}_{n.attr}")
        atom = s.atom_of(edge)
        assert atom is not None
        writer.known.constrain(atom, low - 1, high + 1)
        writer.names[atom] = f"edge{writer.passes}_{n.attr}"
        self.read_edges[atom] = r
        return (edge, right) if left is None else (left, edge)

    def declare_edges(self) -> None:
        """Reads the edges; one that lies outside may be anything, and is moved next to the row, so that its neighbour is no overflow."""
        w = self.p.writer
        for atom, r in self.read_edges.items():
            if any(atom in s.free_symbols(edge) for edge in self.edges):
                high = w.known.bounds(s.of_atom(atom))[1]
                past = high if isinstance(high, int) else w.index(w.known.sizes[self.atom])
                text = r if isinstance(r, str) else f"{w.pointer(r.buffer)}[{w.index(r.address)}]"
                w.text.put(
                    f"const int64_t {w.names[atom]} = index_min({past}, index_max({w.known.bounds(s.of_atom(atom))[0]}, {text}));"
                )

    def is_symbolic(self, r: Any) -> bool:
        """Whether a relation changes at a place that is made of sizes, and is no number."""
        sign, rest = self.linear(r)
        return bool(sign) and isinstance(rest, s.Expr) and not self.varying(rest)

    def varying(self, e: Any) -> set[s.Atom]:
        """Variables of loops in an expression, and indices that are read."""
        return set(s.free_symbols(e) & (self.p.writer.names.keys() | self.p.indirect.keys()))

    def turning_points(self, address: Any) -> Iterator[Any]:
        """Relations of which it depends what extremes and quotients in an address are."""
        for atom in functions_in(address):
            if self.atom not in s.free_symbols(s.of_atom(atom)):
                continue
            if atom.kind in ("min", "max") and len(atom.args) == 2:
                yield s.ge(*atom.args)
            elif atom.kind == "floordiv" and isinstance(atom.args[1], s.Expr):
                yield s.ge(atom.args[0], 0)
                yield s.ge(*atom.args)

    def set_edges(self, relations: Sequence[Any], moving: bool) -> None:
        """Places at which relations change with what is fixed along the variable, in order; for each relation whether it holds before
        the first of them, between the first and the second, and so on."""
        found: dict[Any, tuple[Any, str, int]] = {}  # of a relation: its edge, and what relation the variable has to it
        ordered: list[Any] = []
        for r in dict.fromkeys(relations):
            sign, rest = self.linear(r)
            if not sign or s.free_symbols(rest) & set(self.p.indirect) or not (moving or not self.varying(rest)):
                continue
            if r.kind != "ge" and not (self.single or (self.symbolic and not self.varying(rest))):
                continue
            edge = s.add(rest, 1) if r.kind == "ge" and sign == -1 else s.scale(rest, -sign)
            if edge in self.done:
                continue
            with_edges = self.in_order([*ordered, edge, *([] if r.kind == "ge" else [s.add(edge, 1)])])
            if with_edges is not None:
                found[r], ordered = (edge, r.kind, sign), with_edges
            elif not self.symbolic:
                return
        if len(ordered) > MOST_CUTS:
            return

        def holds(after: int, kind: str, sign: int) -> bool:
            """So many ranges after the one that begins at the edge."""
            return (after >= 0) == (sign == 1) if kind == "ge" else (after == 0) == (kind == "eq")

        self.edges = ordered
        self.sides = {
            r: [holds(k - 1 - ordered.index(edge), kind, sign) for k in range(len(ordered) + 1)]
            for r, (edge, kind, sign) in found.items()
        }

    def in_order(self, edges: Sequence[Any]) -> list[Any] | None:
        """Edges from the first to the last, each once; None where nobody knows which comes first."""
        ordered: list[Any] = []
        for edge in dict.fromkeys(edges):
            at = 0
            for other in ordered:
                distance = s.add(edge, s.scale(other, -1))
                if isinstance(distance, int) and not self.symbolic:
                    after = distance > 0
                elif self.symbolic and self.p.writer.known.holds(s.ge(distance, 0)):
                    after = True
                elif self.symbolic and self.p.writer.known.holds(s.le(distance, 0)):
                    after = False
                else:
                    return None
                at += after
            ordered.insert(at, edge)
        return ordered

    def scan(self, r: Any, found: set[int]) -> None:
        if s.free_symbols(r) == {self.atom} and r.kind in ("ge", "eq", "ne"):
            sign, rest = self.linear(r)
            if sign:
                at = -rest if sign == 1 else rest + 1
                found |= {at} if r.kind == "ge" else {-rest * sign, -rest * sign + 1}

    def linear(self, r: Any) -> tuple[int, Any]:
        """(sign, rest) where a relation is one of sign * v + rest to 0; (0, 0) where it is not."""
        if self.atom is None or isinstance(r, bool) or r.kind not in ("ge", "eq", "ne"):
            return 0, 0
        for sign in (1, -1):
            rest = s.add(r.args[0], s.scale(s.of_atom(self.atom), -sign))
            if self.atom not in s.free_symbols(rest):
                return sign, rest
        return 0, 0

    def within(self, low: Any, high: Any) -> tuple[Pass, list[Node]]:
        """The pass with what is known between two cuts put in."""
        if low is None and high is None:
            return self.p, list(self.nodes)
        if self.edges:
            past = 0 if low is None else 1 + self.edges.index(low)
            made, change = self.read_again(
                lambda address: self.between(address, past), lambda guard: self.answered(guard, past)
            )
            compared = {n: self.sides[r][past] for n, r in self.compared.items() if r in self.sides}
            change |= {n: scalar.constant(value, dt.bool_) for n, value in compared.items()}
        else:
            made, change = self.read_again(
                lambda address: self.narrowed(address, low, high), lambda guard: self.decided(guard, low, high)
            )
            for n, r in self.compared.items():
                value = self.decided(r, low, high) if s.free_symbols(r) == {self.atom} else r
                if isinstance(value, bool):
                    change[n] = scalar.constant(value, dt.bool_)
        for atom, (value, size) in self.p.indirect.items():  # indices too are computed from what is read
            made.indirect[atom] = (simplify(scalar.substitute((value,), change))[0], size)
        return made, list(made.with_narrow_positions(simplify(scalar.substitute(self.nodes, change))))

    def read_again(
        self, address_of: Callable[[Any], Any], guard_of: Callable[[Any], Any]
    ) -> tuple[Pass, dict[Node, Node]]:
        """The pass with other addresses and guards, and what then stands for something else."""
        made = Pass(self.p.writer)
        made.values = self.p.values
        change: dict[Node, Node] = {}
        for i, r in enumerate(self.reads):
            if not isinstance(r, Load):
                made.reads[r] = i
                continue
            guard, t = guard_of(r.guard), r.buffer.dtype
            read = Load(r.buffer, address_of(r.address), guard)
            if guard is False:
                made.reads[f"nothing{i}"] = i
                change[scalar.Input(i, t)] = scalar.constant(False if t is dt.bool_ else 0, t)
            elif read in made.reads:
                made.reads[f"again{i}"] = i
                change[scalar.Input(i, t)] = scalar.Input(made.reads[read], t)
            else:
                made.reads[read] = i
        return made, change

    def answered(self, guard: Any, past: int) -> Any:
        """A guard after so many edges."""
        if guard in self.sides:
            return self.sides[guard][past]
        if isinstance(guard, bool) or guard.kind not in ("and", "or"):
            return guard
        return s.combine(guard.kind, [self.answered(part, past) for part in guard.args])

    def between(self, address: Any, past: int) -> Any:
        """An address after so many edges, given what comparisons with them say there: extremes may have one value."""
        if self.atom not in s.free_symbols(address) or not s.has_functions(address):
            return address
        inside = s.symbol(f"between{self.p.writer.passes}_{past}")
        atom = s.atom_of(inside)
        assert atom is not None
        if past not in self.known:
            # What is learnt holds in this part only: where it is empty, that would be wrong of sizes and rows.
            known = self.known[past] = self.p.writer.known.copy()
            known.constrain(atom, *known.bounds(s.of_atom(self.atom)))  # type: ignore[arg-type]
            if self.atom in known.sizes:
                known.learn(s.lt(known.index(inside, known.sizes[self.atom]), known.sizes[self.atom]))
            for relation, sides in self.sides.items():
                r = s.substitute(relation, {self.atom: inside})  # type: ignore[dict-item]
                known.learn(r if sides[past] else s.negate(r))
        found = self.known[past].simplify(s.substitute(address, {self.atom: inside}))  # type: ignore[dict-item]
        return s.substitute(found, {atom: s.of_atom(self.atom)})  # type: ignore[arg-type]

    def narrowed(self, address: Any, low: int | None, high: int | None) -> Any:
        """An address where the variable lies between two cuts: divisions may have one value there."""
        if s.atom_of(address) is not None or self.atom not in s.free_symbols(address):
            return address
        inside = self.inside(low, high)
        found = self.p.writer.known.simplify(s.substitute(address, {self.atom: inside}))
        return s.substitute(found, {s.atom_of(inside): s.of_atom(self.atom)})  # type: ignore[dict-item, arg-type]

    def inside(self, low: int | None, high: int | None) -> Any:
        """A symbol that lies where the variable does between two cuts; ranges are learnt for good, so each has its own."""
        assert self.atom is not None
        known = self.p.writer.known
        least, most = known.bounds(s.of_atom(self.atom))
        least, most = least if low is None else low, most if high is None else high - 1
        made = s.symbol(f"within_{least}_{most}")
        atom = s.atom_of(made)
        assert atom is not None
        known.constrain(atom, least, most)
        return made

    def decided(self, r: Any, low: int | None, high: int | None) -> Any:
        """A relation where the variable lies between two cuts; what is not the same everywhere there stays."""
        if isinstance(r, bool):
            return r
        if r.kind in ("and", "or"):
            return s.combine(r.kind, [self.decided(a, low, high) for a in r.args])
        if self.atom is None or s.free_symbols(r) != {self.atom} or r.kind not in ("ge", "eq", "ne"):
            return r
        if self.linear(r)[0]:  # it changes at cuts only
            return s.evaluate(r, {self.atom: low if low is not None else high - 1})  # type: ignore[operator]
        answer = self.p.writer.known.holds(s.substitute(r, {self.atom: self.inside(low, high)}))
        return r if answer is None else answer


def write_row(
    w: Any, outer: Sequence[Any], p: Pass, outputs: list[tuple[Buffer, Node]], variable: Any, begin: str, end: str, most: int = MOST_CASES,
) -> None:  # fmt: skip
    """A loop over the points of a row; conditions on the variables outside of it are asked once, before it, if that makes no more than so
    many cases."""
    for i, v in enumerate(outer):
        cuts = Cuts(p, [n for _, n in outputs], v, turning=False)
        if not 1 < len(cuts.ranges) <= most:
            continue
        for low, high in cuts.ranges:
            asked = "" if high is None else f"if ({w.names[cuts.atom]} < {w.index(high)}) "
            if low is not None:
                w.text.close(f"}} else {asked}{{")
                w.text.depth += 1
            else:
                w.text.open(f"{asked}{{")
            part, nodes = cuts.within(low, high)
            made = [(b, n) for (b, _), n in zip(outputs, nodes, strict=True)]
            write_row(w, outer[i + 1 :], part, made, variable, begin, end, most // len(cuts.ranges))
        w.text.close()
        return
    formulas = simplify(tuple(n for _, n in outputs))
    condition = row_condition(p, formulas, variable) if most > 1 else None
    if condition is None:
        w.emit_points(p, outputs, variable, begin, end)
        return
    code = w.emitted(p, [condition], {})
    for line in (*code.prologue, *code.body):
        w.text.put(line)
    for holds, head in ((True, f"if ({code.results[0]}) {{"), (False, "} else {")):
        w.text.depth -= not holds
        w.text.open(head)
        known = simplify(scalar.substitute(formulas, {condition: scalar.constant(holds, dt.bool_)}))
        write_row(w, (), p, [(b, n) for (b, _), n in zip(outputs, known, strict=True)], variable, begin, end, most // 2)
    w.text.close()


def row_condition(p: Pass, nodes: Sequence[Node], variable: Any) -> Node | None:
    """What is chosen by for a whole row: a condition on positions outside of it, or the part of one."""
    if variable is None or p.indirect:
        return None
    reads, atom = list(p.reads), s.atom_of(variable)

    def of_row(n: Node) -> bool:
        leaves = [leaf for leaf in topological((n,)) if not leaf.args and leaf.op is not CONSTANT]
        given = [reads[leaf.attr] if leaf.op is INPUT else None for leaf in leaves]  # type: ignore[index]
        return all(isinstance(r, Position) and atom not in s.free_symbols(r.value) for r in given)

    def part(n: Node) -> Node | None:
        if n.op is CONSTANT or of_row(n):
            return None if n.op is CONSTANT else n
        inner = n.args if n.op in (scalar.bitwise_and, scalar.bitwise_or, scalar.bitwise_not) else ()
        return next((found for a in inner if (found := part(a)) is not None), None)

    choices = [n for n in topological(nodes) if n.op is scalar.where]
    return next((found for n in choices if (found := part(n.args[0])) is not None), None)
