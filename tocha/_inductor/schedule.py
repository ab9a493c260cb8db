"""Steps to kernels: loops over the same rows, points or lanes share one.

A *rows* kernel goes through rows; for each it runs its loops over the columns, so that a row is read from memory once and from
cache after that. A *points* kernel computes elements that do not depend on each other. A *lanes* kernel folds across rows: many sums
side by side. Loops join a kernel when they read what it computes, row by row, or the same memory.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tocha._inductor import config
from tocha._inductor.in_place import written_in_place
from tocha._inductor.inlining import inline, needed_in_memory
from tocha._inductor.products import attach_epilogues
from tocha._inductor.rewrites import rewritten
from tocha._inductor.short_folds import without_short_folds
from tocha._inductor.side_by_side import side_by_side
from tocha._inductor.sooner import sooner
from tocha.ir import dtypes as dt
from tocha.ir import scalar
from tocha.ir import symbolic as s
from tocha.ir.assumptions import Assumptions
from tocha.ir.kernels import (
    LANE_BLOCK,
    LANES,
    POINTS,
    ROWS,
    Item,
    Kernel,
    Member,
    coefficient,
    fold_count,
    fold_number,
    folds_lanes,
    largest_loads,
    refine,
)
from tocha.ir.layout import contiguous_strides
from tocha.ir.loops import (
    Bindings,
    Buffer,
    Call,
    Geometry,
    Load,
    Loop,
    Position,
    Program,
    Step,
    in_memory_order,
    index_of,
)
from tocha.ir.node import INDEX, topological
from tocha.ir.symbolic import product

FEW_TASKS = 16  # kernels with fewer rows than this are cut, if there is much to fold
MUCH_TO_FOLD = 1 << 14  # in rows beside which there is nothing else to do
WORTH_CUTTING = 1 << 16  # elements of a fold: of fewer, one thread would do both halves
MOST_STREAMS = 16  # buffers that a loop goes through at once


def member_of(loop: Loop) -> Member:
    outer = len(loop.sizes) - loop.folded
    if loop.fold is None:
        order = in_memory_order(loop.results[0].sizes, loop.results[0].strides)
        return Member(loop, [], order)
    loads = largest_loads(loop)

    def step(d: int) -> float:
        """How far apart neighbours lie; a product of sizes counts as farther than any number."""
        found = coefficient(loads[0].address, loop.variables[d]) if loads else 0
        return math.inf if found is None else abs(found)

    columns = list(range(outer, len(loop.sizes)))
    if not any(n.op is INDEX for n in topological(loop.fold.combine)):  # of equal ones argmax gives the first
        columns.sort(key=lambda d: -step(d))
    return Member(loop, list(range(outer)), columns)


class Scheduler:
    def __init__(self, program: Program, written: Mapping[int, int], given_away: bool):
        self.program, self.known, self.written, self.given_away = program, program.known, written, given_away
        self.items: list[Item] = []
        self.made_by: dict[Buffer, Item] = {}
        self.place: dict[int, int] = {}
        self.bindings = Bindings(program)
        self.bound_at: dict[s.Atom, int] = {}

    def run(self) -> list[Item]:
        if config.runs("short_folds"):
            self.program.steps = without_short_folds(self.program.steps, self.known)
        steps = inline(self.program) if config.runs("inline") else self.program.steps
        steps = rewritten(steps, self.known) if config.runs("rewrite") else steps
        if config.runs("in_place") and config.runs("reuse"):
            steps = written_in_place(self.program, steps, self.written)
        for step in cut_long_folds(steps, self.known, self.bindings.bound) if config.runs("cut") else steps:
            if isinstance(step, Call):
                self.append(step)
            else:
                self.add(step)
        self.find_inner()
        if config.runs("epilogues"):
            self.items = attach_epilogues(self.items, self.known, self.split, config.look_back, self.bindings)
        kept = {o.buffer for o in self.program.outputs if isinstance(o, Geometry)}
        if config.runs("side_by_side"):
            self.items = side_by_side(self.items, kept)
        if config.runs("sooner"):
            kept |= {b for b, _ in self.program.constants}
            kept |= set() if self.given_away else {b for b in self.program.inputs if b is not None}
            self.items = sooner(self.items, kept, self.bindings)
        kernels = [k for k in self.items if isinstance(k, Kernel)]
        for i, k in enumerate(kernels):
            k.name = f"kernel_{i}"
            for j, part in enumerate(k.parts):
                part.name = f"part_{j}"
        return self.items

    def append(self, item: Item) -> None:
        self.place[id(item)] = len(self.items)
        self.items.append(item)
        results = item.results() if isinstance(item, Kernel) else item.results
        for b in results:
            if b is not None:
                self.made_by[b] = item
        if isinstance(item, Call):
            self.bound_at.update(dict.fromkeys(item.binds, len(self.items) - 1))

    def add(self, loop: Loop) -> None:
        member = member_of(loop)
        if loop.part is not None:
            self.append(Kernel("", POINTS, [member]))
            return
        kind = LANES if loop.fold is not None and folds_lanes(loop) else ROWS if loop.fold is not None else POINTS
        after = max((self.place[id(k)] for load in loop.loads() if (k := self.made_by.get(load.buffer))), default=-1)
        after = max(after, *(self.bound_at.get(a, -1) for a in self.bindings.needed([loop])), -1)
        near = self.items[max(after, 0, len(self.items) - config.look_back) :] if config.runs("fuse") else []
        for item in reversed(near):
            if isinstance(item, Kernel) and self.join(item, member, kind):
                for b in loop.results:
                    self.made_by[b] = item
                return
        self.append(Kernel("", kind, [member]))

    # -- joining

    def join(self, k: Kernel, m: Member, kind: str) -> bool:
        """Puts a loop into a kernel if it fits and gains something by it."""
        if k.in_place:
            return False
        mine = set(k.results())
        reads = {load.buffer for load in m.loop.loads()}
        vertical = bool(mine & reads)
        if not vertical and not self.shares(k, m, reads):
            return False
        if LANES in (k.kind, kind):
            return self.join_lanes(k, m, kind)
        if k.kind == POINTS and kind == POINTS:
            return self.join_points(k, m, mine)
        return self.join_rows(k, m, kind, mine)

    @staticmethod
    def shares(k: Kernel, m: Member, reads: set[Buffer]) -> bool:
        """Whether a kernel reads memory that a loop reads too: enough of it, and not too much beside it."""
        points = product(m.loop.sizes)
        known = k.reads()
        if len({*known, *reads, *k.results(), *m.loop.results}) > MOST_STREAMS:
            return False

        def counts(b: Buffer) -> bool:
            n = b.numel()
            return not isinstance(n, int) or not isinstance(points, int) or n * 8 >= points

        return any(b in known and counts(b) for b in reads)

    def join_points(self, k: Kernel, m: Member, mine: set[Buffer]) -> bool:
        first = k.members[0]
        if refine(first.column_sizes, m.column_sizes) is None:
            return False
        if not all(refine(o.column_sizes, m.column_sizes) is not None for o in k.members):
            return False
        if not self.same_points(k, m, mine):
            return False
        k.members.append(m)
        return True

    def same_points(self, k: Kernel, m: Member, mine: set[Buffer]) -> bool:
        here = self.known.simplify(m.number(m.loop.variables))
        for load in m.loop.loads():
            if load.buffer in mine:
                producer = next(o for o in k.members if load.buffer in o.loop.results)
                index = index_of(load.address, load.buffer.sizes, load.buffer.strides, self.known)
                there = producer.number(index)
                if self.known.simplify(there) is not here or load.guard is not True:
                    return False
        return True

    def join_rows(self, k: Kernel, m: Member, kind: str, mine: set[Buffer]) -> bool:
        rows = product(k.members[0].row_sizes) if k.kind == ROWS else product(m.row_sizes)
        members = [self.split(o, rows) for o in k.members]
        joined = self.split(m, rows)
        if joined is None or any(o is None for o in members) or self.wants_more_rows(joined, rows):
            return False
        together = [o for o in [*members, joined] if o is not None]
        common: list[Any] | None = []
        for i, o in enumerate(together):
            sizes = o.row_sizes
            common = sizes if i == 0 else refine(common, sizes) if common is not None else None
        if common is None or not self.columns_fit(together):
            return False
        if not self.same_rows(together[:-1], joined, mine):
            return False
        vertical = any(load.buffer in mine for load in m.loop.loads())
        if not vertical and not self.meet(together[:-1], joined, rows):
            return False
        k.kind, k.members = ROWS, together
        return True

    @staticmethod
    def meet(members: list[Member], m: Member, rows: Any) -> bool:
        """Whether rows of a loop read what others read for the same row, not what they read elsewhere in the same memory."""
        if not isinstance(rows, int) or not all(isinstance(n, int) for o in (*members, m) for n in o.row_sizes):
            return True

        def read_at(o: Member, row: int) -> set[tuple[Buffer, Any]]:
            start = zip(o.loop.variables, o.row_start(row), strict=True)
            at = {s.atom_of(v): i for v, i in start if isinstance(v, s.Expr)}
            return {(load.buffer, s.substitute(load.address, at)) for load in o.loop.loads()}  # type: ignore[arg-type]

        def common(row: int) -> set[Buffer]:
            return {b for b, _ in read_at(m, row) & set().union(*(read_at(o, row) for o in members))}

        return rows < 2 or bool(common(1) & common(rows // 2) & common(rows - 1))

    @staticmethod
    def wants_more_rows(m: Member, rows: Any) -> bool:
        """Whether a loop has much to do in rows that are too few for the threads."""
        columns = product(m.column_sizes)
        if m.loop.fold is not None or not isinstance(rows, int) or rows >= FEW_TASKS:
            return False
        return not isinstance(columns, int) or rows * columns > MUCH_TO_FOLD

    def columns_fit(self, members: list[Member]) -> bool:
        """Columns of the same number must be gone through together."""
        by_count: dict[Any, list[Any]] = {}
        for o in members:
            sizes = o.column_sizes
            n = product(sizes)
            if n in by_count:
                found = refine(by_count[n], sizes)
                if found is None:
                    return False
                by_count[n] = found
            else:
                by_count[n] = [x for x in sizes if x != 1]
        return True

    def split(self, m: Member, rows: Any) -> Member | None:
        """A member with its first dims as rows, so that there are this many."""
        if m.loop.fold is not None:
            return m if product(m.row_sizes) == rows else None
        order = [*m.rows, *(m.columns if m.inner is None else m.columns[1:])]
        count: Any = 1
        for i in range(len(order) + 1):
            if count is rows or count == rows:
                while i < len(order) and m.loop.sizes[order[i]] == 1:
                    i += 1
                return Member(m.loop, order[:i], order[i:])
            if i < len(order):
                inner = self.run_length(m.loop.sizes[order[i]], count, rows)
                if inner is not None:
                    return Member(m.loop, order[: i + 1], order[i:], inner)
                count = s.mul(count, m.loop.sizes[order[i]])
        return None

    @staticmethod
    def run_length(n: Any, before: Any, rows: Any) -> int | None:
        """How many neighbours of a dim are in one row, where rows end inside of the dim."""
        if not all(isinstance(x, int) and x > 0 for x in (n, before, rows)) or rows % before or before * n <= rows:
            return None
        outer = rows // before
        return n // outer if outer > 1 and n % outer == 0 else None

    def same_rows(self, members: list[Member], m: Member, mine: set[Buffer]) -> bool:
        here = self.known.simplify(m.row_number(m.loop.variables))
        for load in m.loop.loads():
            if load.buffer not in mine:
                continue
            producer = next(o for o in members if load.buffer in o.loop.results)
            index = index_of(load.address, load.buffer.sizes, load.buffer.strides, self.known)
            there = self.known.simplify(producer.row_number(index))
            if there is not here and (here != 0 or there != 0):
                return False
            if load.guard is not True:
                return False
        return True

    def join_lanes(self, k: Kernel, m: Member, kind: str) -> bool:
        first = k.members[0]
        mine = set(k.results())
        outer = first.row_sizes
        if k.kind != LANES:
            return False
        reads_mine = any(load.buffer in mine for load in m.loop.loads())
        if kind == LANES:
            same = m.row_sizes == outer and first.column_sizes == m.column_sizes
            if same and not reads_mine:
                k.members.append(m)
                return True
            return False
        if kind == POINTS and [n for n in m.column_sizes if n != 1] == [n for n in outer if n != 1]:
            as_rows = Member(m.loop, m.columns, [])
            if self.same_rows(k.members, as_rows, mine):
                k.members.append(as_rows)
                return True
        return False

    # -- what stays inside

    def find_inner(self) -> None:
        outside = needed_in_memory(self.program)
        for item in self.items:
            if not isinstance(item, Kernel):
                continue
            for other in self.items:
                if other is not item and isinstance(other, Kernel):
                    outside |= other.reads() & set(item.results())
        for item in self.items:
            if isinstance(item, Kernel):
                item.inner = set(item.results()) - outside


def cut_long_folds(steps: list[Step], known: Assumptions, from_data: set[s.Atom]) -> list[Step]:
    """Folds of much into little become two: partial states, then their merge."""
    out: list[Step] = []
    for step in steps:
        parts = None
        if isinstance(step, Loop) and step.fold is not None:
            parts = cut_of_unknown(step, known, from_data) or cut(step, known)
        out += parts if parts is not None else [step]
    return out


def cut(loop: Loop, known: Assumptions) -> list[Step] | None:
    fold = loop.fold
    assert fold is not None
    outer = len(loop.sizes) - loop.folded
    sizes = loop.sizes
    if not all(isinstance(n, int) for n in sizes):
        return None
    results = product(sizes[:outer])
    lanes = folds_lanes(loop)
    tasks = -(-results // LANE_BLOCK) if lanes else results
    folded = product(sizes[outer:])
    if tasks >= FEW_TASKS or results * folded < WORTH_CUTTING or folded < 64:
        return None
    # Whole leading dims become rows; if the first is too long, it is cut at a divisor.
    first, rest = sizes[outer], sizes[outer + 1 :]
    # Lanes start slowly, as rows are asked for before their turn: fewer, longer chunks.
    wanted = max(2, FEW_TASKS * (2 if lanes else 4) // tasks)
    chunks = divisor_near(first, wanted) if first > 256 or not rest else first
    if chunks <= 1 or folded // chunks < 8:
        return None
    return two_folds(loop, chunks, known)


def cut_of_unknown(loop: Loop, known: Assumptions, from_data: set[s.Atom]) -> list[Step] | None:
    """A fold of one dim whose size comes from data: as many elements for each of some chunks, then what is left, then all of them."""
    fold, outer = loop.fold, loop.outer
    assert fold is not None
    if loop.folded != 1 or len(fold.states) != 1 or loop.indirect or loop.count is not None or folds_lanes(loop):
        return None
    n = loop.sizes[-1]
    if not s.free_symbols(n) & from_data or not all(isinstance(d, int) for d in outer) or product(outer) >= FEW_TASKS:
        return None
    if any(node.op is INDEX for node in topological(fold.combine)):
        return None
    chunks = FEW_TASKS * 4
    inner = s.floordiv(n, chunks)
    whole = replace(
        loop, sizes=(*outer, s.mul(inner, chunks)), fold=replace(fold, finish=(scalar.Param(0, fold.states[0]),))
    )
    whole.results = [state_of(loop, "whole", whole)]
    rest = remainder(loop, s.mul(inner, chunks), known)
    return [*two_folds(whole, chunks, known, inner), rest, merged(loop, whole.results[0], rest.results[0])]


def state_of(loop: Loop, name: str, producer: Loop) -> Buffer:
    """Memory for the state of each of a loop's results."""
    assert loop.fold is not None
    strides = tuple(contiguous_strides(loop.outer))
    return Buffer(f"{loop.name}_{name}_{next(_made)}", loop.outer, strides, loop.fold.states[0], producer)


def remainder(loop: Loop, start: Any, known: Assumptions) -> Loop:
    """The fold of what lies behind `start`, unfinished."""
    assert loop.fold is not None
    size = s.add(loop.sizes[-1], s.scale(start, -1))
    e = known.index(s.symbol("j"), size)
    old = s.atom_of(loop.variables[-1])
    at = {old: s.add(start, e)} if old is not None else {}
    partial = replace(loop.fold, finish=(scalar.Param(0, loop.fold.states[0]),))
    made = replace(
        loop, name=f"{loop.name}_rest", sizes=(*loop.outer, size), variables=(*loop.variables[:-1], e),
        reads=tuple(substituted_read(r, at, known) for r in loop.reads), fold=partial, results=[],
    )  # fmt: skip
    made.results = [state_of(loop, "rest", made)]
    return made


def merged(loop: Loop, *states: Buffer) -> Loop:
    """The results of a fold, of two states for each."""
    fold = loop.fold
    assert fold is not None
    at = loop.variables[:-1]
    loads = [Load(b, s.total([s.mul(v, d) for v, d in zip(at, b.strides, strict=True)])) for b in states]
    (dtype,) = fold.states
    (both,) = scalar.substitute(fold.merge, {scalar.Param(i, dtype): scalar.Input(i, dtype) for i in range(2)})
    count = scalar.Input(2, dt.int64)
    made = replace(
        loop, sizes=loop.outer, variables=at, reads=(*loads, Position(loop.sizes[-1])), fold=None, folded=0,
        formulas=scalar.substitute(fold.finish, {scalar.Param(0, dtype): both, scalar.Param(1, dt.int64): count}),
    )  # fmt: skip
    for b in made.results:
        b.producer = made
    return made


def divisor_near(n: int, wanted: int) -> int:
    """A divisor of n that is at least `wanted` if there is one below 4096, else the greatest below."""
    divisors = [d for d in range(1, min(n, 4096) + 1) if n % d == 0]
    return next((d for d in divisors if d >= wanted), divisors[-1])


_made = iter(range(1 << 60))


def two_folds(loop: Loop, chunks: int, known: Assumptions, inner: Any = None) -> list[Step]:
    fold = loop.fold
    assert fold is not None
    outer = len(loop.sizes) - loop.folded
    if inner is None:
        inner = loop.sizes[outer] // chunks
    c, e = loop_variable("k", chunks, known), loop_variable("j", inner, known)
    old = s.atom_of(loop.variables[outer]) if isinstance(loop.variables[outer], s.Expr) else None
    at = {old: s.add(s.mul(c, inner), e)} if old is not None else {}
    reads = tuple(substituted_read(r, at, known) for r in loop.reads)
    indirect = loop.indirect
    # The states of a chunk are one element each; chunks come first, so that lanes stay neighbours.
    sizes = (chunks, *loop.sizes[:outer], inner, *loop.sizes[outer + 1 :])
    variables = (c, *loop.variables[:outer], e, *loop.variables[outer + 1 :])
    k = len(fold.states)
    states = tuple(scalar.Param(i, d) for i, d in enumerate(fold.states))
    partial = replace(fold, finish=states)
    head = replace(
        loop, name=f"{loop.name}_parts", sizes=sizes, variables=variables, reads=reads, fold=partial, results=[], indirect=indirect
    )  # fmt: skip
    shape = (chunks, *loop.sizes[:outer])
    for i, d in enumerate(fold.states):
        head.results.append(
            Buffer(f"{loop.name}_state{i}_{next(_made)}", shape, tuple(contiguous_strides(shape)), d, head)
        )
    loads = tuple(
        Load(b, s.total([s.mul(v, n) for v, n in zip((c, *loop.variables[:outer]), b.strides, strict=True)]))
        for b in head.results
    )
    merge = scalar.substitute(
        fold.merge, {scalar.Param(k + i, d): scalar.Input(i, d) for i, d in enumerate(fold.states)}
    )
    tail = replace(
        loop, sizes=(*loop.sizes[:outer], chunks), variables=(*loop.variables[:outer], c), reads=loads, folded=1,
        formulas=tuple(scalar.Input(i, d) for i, d in enumerate(fold.states)), fold=replace(fold, combine=merge, search=None), indirect=(),
    )  # fmt: skip
    tail.count = head.count = fold_count(loop)
    head.number = fold_number(loop, at, known)
    for b in tail.results:
        b.producer = tail
    return [head, tail]


def loop_variable(name: str, size: Any, known: Assumptions) -> Any:
    return 0 if size == 1 else known.index(s.symbol(name), size)


def substituted_read(r: Any, at: dict, known: Assumptions) -> Any:
    if isinstance(r, Load):
        guard = r.guard if r.guard is True else s.substitute(r.guard, at)
        return Load(r.buffer, known.simplify(s.substitute(r.address, at)), guard)
    return type(r)(known.simplify(s.substitute(r.value, at)))


def schedule(program: Program, written: Mapping[int, int] | None = None, given_away: bool = False) -> list[Item]:
    """The items of a program, in order. `written`: which outputs are new values of which inputs, and may be written there. `given_away`:
    inputs are dropped after their last use."""
    return Scheduler(program, written or {}, given_away).run()
