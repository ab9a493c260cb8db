"""Which values are stored and which dissolve into their readers; loops are rewritten accordingly.

A loop's formula is put in place of the reads of its result, at the index that is read: composing two operators is composing their
formulas and index maps. Every (buffer, address) is composed once per reader, so the work is linear in the program.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from tocha.ir import scalar
from tocha.ir import symbolic as s
from tocha.ir.assumptions import Assumptions
from tocha.ir.kernels import coefficient, folds_lanes
from tocha.ir.loops import (
    Bindings,
    Buffer,
    Call,
    Geometry,
    Indirect,
    Load,
    Loop,
    Position,
    Program,
    Step,
    in_memory_order,
    index_within,
)
from tocha.ir.node import INPUT, Cost, Node, topological
from tocha.ir.rewrite import simplify

MOST_NODES, MOST_READS = 256, 24  # in one formula, beyond which a value is stored however few read it
SHARED_NODES, SHARED_READS = 20, 6  # beyond which a value that several loops read is stored
# Of the index that a value is read at, beyond which it is stored: indices grow as products do when composed.
MOST_TERMS = 128


ARITHMETIC: dict[Any, Callable[..., Any]] = {
    scalar.add: s.add, scalar.mul: s.mul, scalar.sub: lambda a, b: s.add(a, s.scale(b, -1)), scalar.neg: lambda a: s.scale(a, -1),
    scalar.maximum: s.maximum, scalar.minimum: s.minimum, scalar.abs: lambda a: s.maximum(a, s.scale(a, -1)),
    scalar.lt: s.lt, scalar.le: s.le, scalar.gt: s.gt, scalar.ge: s.ge, scalar.eq: s.eq, scalar.ne: s.ne,
    scalar.clamp_min: s.maximum, scalar.clamp_max: s.minimum, scalar.clamp: lambda a, low, high: s.minimum(s.maximum(a, low), high),
}  # fmt: skip
DIVISIONS: dict[Any, Callable[..., Any]] = {scalar.floordiv: s.floordiv, scalar.remainder: s.mod}


def is_expensive(nodes: Iterable[Node]) -> bool:
    return any(n.op.cost is Cost.EXPENSIVE for n in topological(nodes))


def converts_long(nodes: Iterable[Node]) -> bool:
    """Whether 64-bit integers become floats: vectors hold few of them, and not all processors convert any."""
    return any(n.dtype.is_floating and any(a.dtype is scalar.int64 for a in n.args) for n in topological(nodes))


def needed_in_memory(program: Program) -> set[Buffer]:
    """What calls take and programs return."""
    found = {o.buffer for o in program.outputs if isinstance(o, Geometry)}
    for step in program.steps:
        if isinstance(step, Call):
            found |= {g.buffer for g in step.tensors}
    return found


def readers_of(steps: Iterable[Step]) -> dict[Buffer, list[Loop]]:
    found: dict[Buffer, list[Loop]] = defaultdict(list)
    for step in steps:
        if isinstance(step, Loop):
            for load in step.loads():
                if step not in found[load.buffer]:
                    found[load.buffer].append(step)
    return found


class Composer:
    """One loop, with the formulas of what it reads put in their place."""

    def __init__(self, loop: Loop, dissolved: dict[Buffer, Loop], known: Assumptions):
        self.loop, self.dissolved, self.known = loop, dissolved, known
        self.reads: dict[Load | Position, int] = {}
        self.indirect: dict[Node, Indirect] = {}
        self.done: dict[tuple, Node] = {}
        self.atoms: dict[s.Atom, Any] = {}
        self.origins: dict[str, None] = {}
        # What is read at an index of too many terms, or by a division for each element.
        self.too_long: set[Buffer] = set()
        self.under: dict[Any, Assumptions] = {}  # what is known where a guard holds

    def composed(self) -> Loop:
        formulas = self.rewritten(self.loop, self.loop.formulas, {}, True)
        return replace(
            self.loop, formulas=simplify(formulas), reads=tuple(self.reads), indirect=tuple(self.indirect.values()),
            origins=tuple(dict.fromkeys((*self.origins, *self.loop.origins))),
        )  # fmt: skip

    def rewritten(self, loop: Loop, formulas: tuple[Node, ...], at: dict[s.Atom, Any], guard: Any) -> tuple[Node, ...]:
        """Formulas of a loop at a point of this one's domain, in terms of this one's reads."""
        places: dict[s.Atom, Any] = dict(at)
        inner = {i.atom: i for i in loop.indirect}
        memo: dict[int, Node] = {}

        def indirection(atom: s.Atom) -> None:
            if atom in places or atom not in inner:
                return
            i = inner[atom]
            (value,) = substituted((i.value,))
            size = s.substitute(i.size, places) if isinstance(i.size, s.Expr) else i.size
            places[atom] = self.index_value(value, size, i)

        def element(k: int, dtype: Any) -> Node:
            if k in memo:
                return memo[k]
            read = loop.reads[k]
            e = read.value if isinstance(read, Position) else read.address
            for atom in sorted(s.free_symbols(e)):
                indirection(atom)
            if isinstance(read, Position):
                found = self.position(self.known.simplify(s.substitute(e, places)))
            else:
                for atom in sorted(s.free_symbols(read.guard)):
                    indirection(atom)
                address = self.known.simplify(s.substitute(e, places))
                held = self.holds(s.substitute(read.guard, places) if read.guard is not True else True, guard)
                found = self.element(read.buffer, address, held, dtype)
            memo[k] = found
            return found

        def substituted(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
            leaves = [n for n in topological(nodes) if n.op is INPUT]
            return scalar.substitute(nodes, {n: element(n.attr, n.dtype) for n in leaves})  # type: ignore[arg-type]

        return substituted(formulas)

    def holds(self, guard: Any, outer: Any) -> Any:
        both = s.combine("and", [guard, outer])
        if isinstance(both, bool):
            return both
        parts = both.args if both.kind == "and" else (both,)
        decided = [self.known.holds(p) for p in parts]
        if any(d is False for d in decided):
            return False
        return s.combine("and", [p for p, d in zip(parts, decided, strict=True) if d is None])

    def position(self, value: Any) -> Node:
        if isinstance(value, int | float):
            return scalar.constant(value, scalar.int64 if isinstance(value, int) else scalar.float64)
        return self.input(Position(value), scalar.int64 if isinstance(value, s.Expr) else scalar.float64)

    def index_value(self, value: Node, size: Any, like: Indirect) -> Any:
        found = self.indirect.get(value)
        if found is None:
            computed = self.as_expression(value)
            if computed is not None and self.known.holds(s.ge(computed, 0)) and self.known.holds(s.lt(computed, size)):
                return computed
            atom = s.atom_of(self.known.index(s.symbol(f"x{len(self.indirect)}"), size))
            assert atom is not None
            found = self.indirect[value] = Indirect(atom, value, size)
        return s.of_atom(found.atom)

    def as_expression(self, value: Node) -> Any:
        """An int64 element as an index expression, if it is arithmetic on positions; else None."""
        positions = list(self.reads)
        found: dict[Node, Any] = {}
        for n in topological((value,)):
            args = [found[a] for a in n.args]
            if n.op is INPUT and isinstance(read := positions[n.attr], Position):  # type: ignore[index]
                found[n] = read.value if isinstance(read.value, s.Expr) else None
            elif n.op is scalar.CONSTANT and isinstance(n.attr, int):
                found[n] = n.attr
            elif n.op in ARITHMETIC and None not in args:
                found[n] = self.known.simplify(ARITHMETIC[n.op](*args))
            elif n.op in DIVISIONS and None not in args and self.known.holds(s.gt(args[1], 0)):
                found[n] = self.known.simplify(DIVISIONS[n.op](*args))
            elif n.op is scalar.where and None not in args:
                decided = args[0] if isinstance(args[0], bool) else self.known.holds(args[0])
                found[n] = None if decided is None else args[1] if decided else args[2]
            else:
                found[n] = None
        return found[value]

    def element(self, buffer: Buffer, address: Any, guard: Any, dtype: Any) -> Node:
        if guard is False:
            return scalar.constant(False if dtype is scalar.bool_ else 0, dtype)
        producer = self.dissolved.get(buffer)
        if producer is None:
            return self.input(Load(buffer, address, guard), dtype)
        key = (buffer, address, guard)
        if key not in self.done:
            self.origins |= dict.fromkeys(producer.origins)
            index = index_within(MOST_TERMS, address, buffer.sizes, buffer.strides, self.known_under(guard))
            if index is None or any(self.divides(i) for i in index):
                self.too_long.add(buffer)
                return self.input(Load(buffer, address, guard), dtype)
            at = {s.atom_of(v): i for v, i in zip(producer.variables, index, strict=True) if isinstance(v, s.Expr)}
            k = producer.results.index(buffer)
            (self.done[key],) = self.rewritten(producer, (producer.formulas[k],), at, guard)  # type: ignore[arg-type]
        return self.done[key]

    def divides(self, e: Any) -> bool:
        """Whether an index has a quotient by a symbol that stays one for each element: neither is a dim two, nor does it turn at one place."""
        for monomial, _ in s.terms_of(e):
            for atom, _ in monomial:
                if atom.kind != "floordiv" or not isinstance(atom.args[1], s.Expr):
                    continue
                varying = [a for a in s.free_symbols(atom.args[0]) if a in self.known.sizes]
                sizes = [self.known.sizes[a] for a in varying]
                if len(varying) > 1 or any(s.exact_quotient(n, atom.args[1]) is None for n in sizes):
                    return True
        return False

    def known_under(self, guard: Any) -> Assumptions:
        """An element that is read under a guard is of no account where that does not hold: what was padded lies within its sizes."""
        if guard is True:
            return self.known
        if guard not in self.under:
            self.under[guard] = self.known.copy()
            self.under[guard].learn(guard)
        return self.under[guard]

    def input(self, read: Load | Position, dtype: Any) -> Node:
        return scalar.Input(self.reads.setdefault(read, len(self.reads)), dtype)


def call_depths(program: Program) -> dict[Step, int]:
    """How many calls each step waits for, one after the other: loops of different depths are never in one kernel."""
    depth: dict[Step, int] = {}
    made: dict[Buffer | s.Atom, int] = defaultdict(int)
    bindings = Bindings(program)
    for step in program.steps:
        reads: Iterable[Load | Geometry] = step.loads() if isinstance(step, Loop) else step.tensors
        waits = [*(made[r.buffer] for r in reads), *(made[a] for a in bindings.needed([step]))]
        depth[step] = max(waits, default=0)
        if isinstance(step, Call):
            made.update(dict.fromkeys(step.binds, depth[step] + 1))
        for b in step.results:
            if b is not None:
                made[b] = depth[step] + isinstance(step, Call)
    return depth


def bytes_repeated(loop: Loop, buffer: Buffer, kernels: int) -> bool:
    """Whether that many kernels read fewer bytes if the first one stores the value."""
    size = s.product(loop.sizes)
    whole = {load.buffer for load in loop.loads() if load.buffer.numel() == size}
    reads = sum(b.dtype.itemsize for b in whole)
    return reads * kernels > reads + buffer.dtype.itemsize * kernels


def dissolves(loop: Loop, buffer: Buffer, readers: list[Loop], depths: dict[Step, int]) -> bool:
    """Whether a value is better computed where it is read: cost by bytes saved against work repeated."""
    nodes = len(topological(loop.formulas))
    reads = len(loop.reads)
    if nodes > MOST_NODES or reads > MOST_READS:
        return False
    heavy = is_expensive(loop.formulas)
    once = heavy or loop.indirect or converts_long(loop.formulas)
    if once and any(repeats(reader, buffer) for reader in readers):
        return False
    if divides(loop.formulas) and any(repeats(r, buffer) and changes_along_rows(r, buffer) for r in readers):
        return False
    guarded = any(load.guard is not True for load in loop.loads())
    if guarded and (len(readers) > 1 or any(map(folds_lanes, readers))):
        return False  # loops over points are cut where guards turn, passes over rows and lanes are not
    if len(readers) == 1:
        return True
    if heavy or nodes > SHARED_NODES or reads > SHARED_READS:
        return False
    return not bytes_repeated(loop, buffer, len({depths[r] for r in readers}))


def repeats(reader: Loop, buffer: Buffer) -> bool:
    """Whether a loop reads elements of a buffer more than once each, or at places that elements name."""
    loads = [r for r in reader.loads() if r.buffer is buffer]
    if len(loads) > 1:
        return True
    there, here = buffer.numel(), s.product(reader.sizes)
    if any(i.atom in s.free_symbols(loads[0].address) for i in reader.indirect):
        return True
    return there is not here and there != here


def divides(nodes: Iterable[Node]) -> bool:
    """Whether there is an operation that takes as long as many others."""
    return any(n.op in (scalar.div, scalar.reciprocal, scalar.sqrt, scalar.rsqrt) for n in topological(nodes))


def changes_along_rows(reader: Loop, buffer: Buffer) -> bool:
    """Whether a loop reads another element of a buffer with each step along its rows: what stays the same there is computed once a row."""
    order = in_memory_order(reader.results[0].sizes, reader.results[0].strides)
    across = reader.fold is None or folds_lanes(reader)
    last = reader.variables[order[-1] if across and order else len(reader.sizes) - 1] if reader.sizes else 0
    return any(coefficient(load.address, last) != 0 for load in reader.loads() if load.buffer is buffer)


def composed(loop: Loop, dissolved: dict[Buffer, Loop], known: Assumptions) -> tuple[Loop, list[Loop]]:
    """A loop with what it reads dissolved into it, and the loops that are stored after all, in order: their index is too long."""
    stored: dict[Loop, None] = {}
    while any(load.buffer in dissolved for load in loop.loads()):
        composer = Composer(loop, dissolved, known)
        made = composer.composed()
        if not composer.too_long:
            return made, list(stored)
        again = dict.fromkeys(producer for b, producer in dissolved.items() if b in composer.too_long)
        for b in [b for b, producer in dissolved.items() if producer in again]:
            del dissolved[b]
        stored |= again
    return loop, list(stored)


def is_table(loop: Loop) -> bool:
    """Whether its results are whole numbers made of places alone."""
    return loop.fold is None and all(isinstance(r, Position) and isinstance(r.value, s.Expr) for r in loop.reads) and all(
        f.dtype is scalar.int64 for f in loop.formulas
    )  # fmt: skip


def without_tables(loop: Loop, tables: dict[Buffer, Loop], known: Assumptions) -> Loop:
    """A loop that reads its indices from tables, as one that computes them, if they are expressions of its variables then."""
    mine = {b: tables[b] for b in dict.fromkeys(load.buffer for load in loop.loads()) if b in tables}
    if not loop.indirect or not mine:
        return loop
    composer = Composer(loop, mine, known)
    made = composer.composed()
    if composer.too_long or len(made.indirect) > len(loop.indirect) - len(mine) or is_expensive(made.formulas):
        return loop
    return made


def inline(program: Program) -> list[Step]:
    """The program's steps with values dissolved into their readers; what nobody reads is gone."""
    fixed = needed_in_memory(program)
    dissolved: dict[Buffer, Loop] = {}
    tables: dict[Buffer, Loop] = {}
    readers = readers_of(program.steps)
    depths = call_depths(program)
    out: list[Step] = []
    for step in program.steps:
        if not isinstance(step, Loop):
            out.append(step)
            continue
        made, stored = composed(step, dissolved, program.known)
        out += stored
        made = without_tables(made, tables, program.known)
        for b in made.results:
            b.producer = made
        gone = made.fold is None and all(
            b not in fixed and (not readers[b] or dissolves(made, b, readers[b], depths)) for b in made.results
        )
        if gone:
            for b in made.results:
                dissolved[b] = made
        elif made.fold is None or any(b in fixed or readers[b] for b in made.results):
            out.append(made)
            if is_table(made):
                tables.update(dict.fromkeys(made.results, made))
    return without_unread(out, fixed)


def without_unread(steps: list[Step], fixed: set[Buffer]) -> list[Step]:
    kept: list[Step] = []
    read = set(fixed)
    for step in reversed(steps):
        if isinstance(step, Loop) and not any(b in read for b in step.results):
            continue
        if isinstance(step, Loop):
            read |= {load.buffer for load in step.loads()}
        kept.append(step)
    return kept[::-1]
