"""What is computed at the same points of a kernel: reads, formulas on them, and where along a variable conditions change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tocha.ir import dtypes as dt
from tocha.ir import scalar
from tocha.ir import symbolic as s
from tocha.ir.kernels import Member
from tocha.ir.loops import Buffer, Load, Position
from tocha.ir.node import CONSTANT, INPUT, Node, topological
from tocha.ir.rewrite import simplify


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

        return substituted(formulas)

    # -- what changes along a variable

    def fixed_reads(self, along: Any) -> set[int]:
        """Numbers of the reads that do not change along a variable."""
        found = {i for r, i in self.reads.items() if isinstance(r, str)}
        if along is None:
            return found
        changing = self.changing(along)
        return found | {i for r, i in self.reads.items() if not isinstance(r, str) and self.stays(r, changing)}

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
MOST_CUTS = 8
MOST_CASES = 16  # of a row, by conditions on the dims outside of it


def functions_in(e: Any) -> Iterator[s.Atom]:
    """Quotients, extremes and the like in an expression, those in their operands too."""
    for monomial, _ in s.terms_of(e) if isinstance(e, s.Expr) else ():
        for atom, _ in monomial:
            if atom.kind != "symbol":
                yield atom
                for a in atom.args:
                    yield from functions_in(a)


class Cuts:
    """Where along a variable the conditions of a pass change, and the pass between two such places.

    With `turning`, also where addresses turn; with `moving`, also at places that are not the same for every row, if they move together: the edges of a triangle or a band.
    """

    def __init__(self, p: Pass, nodes: Sequence[Node], variable: Any, moving: bool = False, turning: bool = True):
        self.p, self.nodes = p, nodes
        self.atom = s.atom_of(variable) if isinstance(variable, s.Expr) else None
        self.reads = list(p.reads)
        relations = {n: r for n in topological(nodes) if (r := self.relation(n)) is not None}
        self.compared = {n: r for n, r in relations.items() if s.free_symbols(r) == {self.atom}}
        found: set[int] = set()
        for r in self.reads:
            if isinstance(r, Load) and not isinstance(r.guard, bool):
                self.scan(r.guard, found)
        for r in self.compared.values():
            self.scan(r, found)
        low, high = p.writer.known.bounds(variable) if self.atom is not None else (0, 0)
        places = sorted(c for c in found if low < c <= high)
        if turning:
            places = self.with_turns(places, low, high)
        if len(places) > MOST_CUTS:
            places = []
        self.edges, self.sides = self.moving_edges(relations) if moving and not places else ([], {})
        cuts = self.edges or places
        self.ranges: list[tuple[Any, Any]] = list(zip([None, *cuts], [*cuts, None], strict=True))

    def with_turns(self, places: list[int], low: Any, high: Any) -> list[int]:
        """Places, and those where quotients and extremes in addresses turn: between them such an address is a line."""
        addresses = [r.address for r in self.reads if isinstance(r, Load) and s.has_functions(r.address)]
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
            return None
        found = COMPARISONS[n.op](left, right)
        return found if not isinstance(found, bool) and self.atom in s.free_symbols(found) else None

    def expression(self, n: Node) -> Any:
        """A node of sums of positions as an index expression; None if it is none."""
        if n.op is CONSTANT:
            return n.attr if isinstance(n.attr, int) else None
        if n.op is INPUT:
            r = self.reads[n.attr]  # type: ignore[index]
            return r.value if isinstance(r, Position) and isinstance(r.value, s.Expr) else None
        args = [self.expression(a) for a in n.args] if n.op in ARITHMETIC and n.dtype is dt.int64 else [None]
        return None if None in args else ARITHMETIC[n.op](*args)

    def moving_edges(self, relations: dict[Node, Any]) -> tuple[list[Any], dict[Node, tuple[int, bool]]]:
        """Places at which comparisons with what is fixed along the variable change, in order; for each comparison which, and whether it
        holds before it."""
        varies = set(self.p.indirect)
        found: dict[Any, dict[Node, bool]] = {}
        for n, r in relations.items():
            if n in self.compared or r.kind != "ge" or s.free_symbols(r) & varies:
                continue
            sign, rest = self.linear(r)
            if sign:
                edge = s.scale(rest, -1) if sign == 1 else s.add(rest, 1)
                found.setdefault(edge, {})[n] = sign == -1
        distances = {edge: s.add(edge, s.scale(next(iter(found)), -1)) for edge in found}
        if len(found) > MOST_CUTS or not all(isinstance(d, int) for d in distances.values()):
            return [], {}
        edges = sorted(found, key=lambda edge: distances[edge])
        return edges, {n: (i, before) for i, edge in enumerate(edges) for n, before in found[edge].items()}

    def scan(self, r: Any, found: set[int]) -> None:
        if isinstance(r, bool) or self.atom is None:
            return
        if r.kind in ("and", "or", "not"):
            for a in r.args:
                self.scan(a, found)
        elif s.free_symbols(r) == {self.atom} and r.kind in ("ge", "eq", "ne"):
            sign, rest = self.linear(r)
            if sign:
                at = -rest if sign == 1 else rest + 1
                found |= {at} if r.kind == "ge" else {-rest * sign, -rest * sign + 1}

    def linear(self, r: Any) -> tuple[int, Any]:
        """(sign, rest) where a relation is one of sign * v + rest to 0; (0, 0) where it is not."""
        assert self.atom is not None
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
            known = {n: scalar.constant(before == (past <= i), dt.bool_) for n, (i, before) in self.sides.items()}
            return self.p, list(simplify(scalar.substitute(self.nodes, known)))
        made = Pass(self.p.writer)
        made.values = self.p.values
        change: dict[Node, Node] = {}
        for i, r in enumerate(self.reads):
            if isinstance(r, Load):
                r = Load(r.buffer, self.narrowed(r.address, low, high), r.guard)
            guard = self.decided(r.guard, low, high) if isinstance(r, Load) else True
            if isinstance(r, Load) and guard is False:
                made.reads[f"nothing{i}"] = i
                t = r.buffer.dtype
                change[scalar.Input(i, t)] = scalar.constant(False if t is dt.bool_ else 0, t)
            elif isinstance(r, Load) and Load(r.buffer, r.address, guard) in made.reads:
                made.reads[f"again{i}"] = i
                change[scalar.Input(i, r.buffer.dtype)] = scalar.Input(
                    made.reads[Load(r.buffer, r.address, guard)], r.buffer.dtype
                )
            else:
                made.reads[Load(r.buffer, r.address, guard) if isinstance(r, Load) else r] = i
        for n, r in self.compared.items():
            value = self.decided(r, low, high)
            if isinstance(value, bool):
                change[n] = scalar.constant(value, dt.bool_)
        for atom, (value, size) in self.p.indirect.items():  # indices too are computed from what is read
            made.indirect[atom] = (simplify(scalar.substitute((value,), change))[0], size)
        return made, list(simplify(scalar.substitute(self.nodes, change)))

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
    w.emit_points(p, outputs, variable, begin, end)
