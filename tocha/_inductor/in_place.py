"""Writes to parts of tensors, where they lie.

A functional graph has a write to a part of a tensor as a new value of the whole (`slice_scatter`, `index_put`). Where nobody wants the
old value any more it is a write again: a loop goes through the part alone and stores into the memory of an input that the program gives
a new value; a call of a scatter is one of its in-place form.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tocha._inductor.assembled import Assembled
from tocha._inductor.inlining import Composer
from tocha._library.native_calls import change_of_memory
from tocha.ir import scalar
from tocha.ir import symbolic as s
from tocha.ir.assumptions import Assumptions, solve
from tocha.ir.loops import Buffer, Call, Followed, Geometry, Load, Loop, Part, Program, Step, address_of
from tocha.ir.memory import new_values, same_layout
from tocha.ir.node import INPUT, Node, topological
from tocha.ir.packed import COMPARISONS
from tocha.ir.rewrite import simplify
from tocha.operators.record import OPERATORS

WORTH = 2  # how many times the part a tensor must be

Window = tuple[tuple[Any, Any], ...]  # first index and the one past the last, dim by dim


def written_in_place(program: Program, steps: Sequence[Step], written: Mapping[int, int]) -> list[Step]:
    """Steps with writes to parts of what is not wanted any more done where it lies. `written`: as for plan_memory."""
    last = last_reads(program, steps)
    targets = new_values(program, written)
    on_input = {b: b for b in targets.values()}  # what lies in an input's memory, and in which
    out: list[Step] = []

    def may_lie_in(base: Buffer, step: Step) -> bool:
        """Whether nobody looks at a step's result once its input has got its new value, be it that value itself."""
        made = [r for r in step.results if r is not None]
        return base in on_input and all(last.get(r, 0) < len(steps) or targets.get(r) is on_input[base] for r in made)

    for i, step in enumerate(steps):
        free = {b for b in read_by(step) if last[b] == i}
        base: Buffer | None
        if isinstance(step, Loop):
            tried = ((b, narrowed(step, b, program.known)) for b in free if may_lie_in(b, step))
            base, narrow = next(((b, w) for b, w in tried if w is not None), (None, None))
            if base is not None and narrow is not None:
                step = narrow
                on_input.update((r, on_input[base]) for r in step.results)
        elif (base := changed_by(step)) in free and (is_own(base) or may_lie_in(base, step)):
            change_in_place(step)
            if base in on_input:
                step.changes = base
                on_input.update((r, on_input[base]) for r in step.results if r is not None)
        out.append(step)
    return out


def read_by(step: Step) -> list[Buffer]:
    return [r.buffer for r in (step.loads() if isinstance(step, Loop) else step.tensors)]


def last_reads(program: Program, steps: Sequence[Step]) -> dict[Buffer, int]:
    """Which step reads a buffer last, itself or through a view; none does so behind a result of the program."""
    last: dict[Buffer, int] = {}
    bases: dict[Buffer, set[Buffer]] = {}

    def note(buffers: Iterable[Buffer], i: int) -> None:
        last.update((b, i) for read in buffers for b in (read, *bases.get(read, ())))

    for i, step in enumerate(steps):
        read = read_by(step)
        note(read, i)
        if isinstance(step, Call) and step.is_view:
            under = {b for r in read for b in (r, *bases.get(r, ()))}
            bases.update((r, under) for r in step.results if r is not None)
    note([o.buffer for o in program.outputs if isinstance(o, Geometry)], len(steps))
    return last


# ---- calls -----------------------------------------------------------------------------------------


def changed_by(call: Call) -> Buffer | None:
    """The tensor that a scatter gives back with some elements changed, where the in-place form can do the same."""
    kind, _, name = call.key.partition(" ")
    o = OPERATORS.get(name) if kind == "record" else None
    if o is None or "inplace_kernel" not in o.tags or "inplace" not in o.variants or not call.tensors:
        return None
    whole, *others = call.tensors
    (made,) = call.results
    alike = made is not None and whole.is_whole and same_layout(whole.buffer, made)
    return whole.buffer if alike and all(g.buffer is not whole.buffer for g in others) else None


def is_own(b: Buffer) -> bool:
    """Whether a buffer's memory is the program's own, and nothing else lies on it."""
    return isinstance(b.producer, Loop | Followed)


def change_in_place(call: Call) -> None:
    name = call.key.removeprefix("record ")
    function = change_of_memory(OPERATORS[name])
    old = call.function
    call.function = Assembled(function, old.form, old.names) if isinstance(old, Assembled) else function
    call.key, call.is_view = f"in_place {name}", True


# ---- loops -----------------------------------------------------------------------------------------


def narrowed(loop: Loop, base: Buffer, known: Assumptions) -> Loop | None:
    """A loop that gives `base` with a part of it changed, as one over that part which stores into base; None where it is not one."""
    if loop.fold is not None or loop.indirect or len(loop.results) != 1 or not same_layout(loop.results[0], base):
        return None
    window = Narrowing(loop, base, known).window()
    if window is None:
        return None
    sizes = tuple(size_of(w, known) for w in window)
    if not pays(sizes, loop.sizes):
        return None
    variables = tuple(variable(d, n, known) for d, n in enumerate(sizes))
    index = tuple(s.add(low, v) for (low, _), v in zip(window, variables, strict=True))
    at = {a: i for v, i in zip(loop.variables, index, strict=True) if (a := s.atom_of(v)) is not None}
    made = composed(composed(loop, at, known), {}, known)  # twice: what conditions decide is not read any more
    own = known.simplify(address_of(index, base.strides))
    if not all(r.buffer is not base or is_at(own, r, known) for r in made.loads()):
        return None
    made = replace(made, sizes=sizes, variables=variables, part=Part(base, tuple(low for low, _ in window)))
    made.results[0].producer = made
    return made


def composed(loop: Loop, at: dict[Any, Any], known: Assumptions) -> Loop:
    """A loop's formulas at other points, with the comparisons of positions that are decided there."""
    composer = Composer(loop, {}, known)
    formulas = composer.rewritten(loop, loop.formulas, at, True)
    decided: dict[Node, Node] = {}
    for n in topological(formulas):
        r = composer.as_expression(n) if n.op in COMPARISONS else None
        held = r if isinstance(r, bool) else None if r is None else known.holds(r)
        if held is not None:
            decided[n] = scalar.constant(held, scalar.bool_)
    formulas = simplify(scalar.substitute(formulas, decided))
    return replace(loop, formulas=formulas, reads=tuple(composer.reads))


def is_at(own: Any, r: Load, known: Assumptions) -> bool:
    """Whether an element is read at an address, if at all: a guard may say what an index is."""
    guards = () if isinstance(r.guard, bool) else r.guard.args if r.guard.kind == "and" else (r.guard,)
    solved = {a: v for g in guards for a in s.free_symbols(g) if (v := solve(g, a)) is not None}
    own, there = (known.simplify(s.substitute(e, solved)) for e in (own, r.address))
    return own is there or own == there


def pays(sizes: Sequence[Any], whole: Sequence[Any]) -> bool:
    part, all_ = s.product(sizes), s.product(whole)
    if isinstance(part, int) and isinstance(all_, int):
        return part * WORTH <= all_
    return tuple(sizes) != tuple(whole)


def size_of(side: tuple[Any, Any], known: Assumptions) -> Any:
    low, past = side
    n = known.simplify(s.add(past, s.scale(low, -1)))
    return n if known.holds(s.ge(n, 0)) else s.maximum(n, 0)


def variable(dim: int, size: Any, known: Assumptions) -> Any:
    """A symbol of its own for each size of a dim; a dim of one element has one index."""
    if isinstance(size, int) and size <= 1:
        return 0
    made = known.index(s.symbol(f"w{dim}[{size}]"), size)
    if isinstance(size, s.Expr):
        known.learn(s.lt(made, size))
    return made


class Narrowing:
    """Where a loop's result differs from an input's element at the same place: a window, dim by dim, that holds all such points."""

    def __init__(self, loop: Loop, base: Buffer, known: Assumptions):
        self.loop, self.base, self.known = loop, base, known
        self.own = address_of(loop.variables, base.strides)
        self.expressions = Composer(loop, {}, known)
        self.expressions.reads = {r: k for k, r in enumerate(loop.reads)}

    def window(self) -> Window | None:
        return self.differs(self.loop.formulas[0], tuple((0, n) for n in self.loop.sizes))

    def differs(self, n: Node, within: Window) -> Window | None:
        """Of a formula's value at the points of a window; None where it differs nowhere."""
        if n.op is INPUT:
            return None if self.is_own_element(self.loop.reads[n.attr], within) else within  # type: ignore[index]
        if n.op is not scalar.where:
            return within
        condition, a, b = n.args
        inside, outside = self.differs(a, self.held(condition, within)), self.differs(b, within)
        if inside is None or outside is None:
            return inside or outside
        return tuple((self.least(x[0], y[0]), self.most(x[1], y[1])) for x, y in zip(inside, outside, strict=True))

    def is_own_element(self, r: Any, within: Window) -> bool:
        if not isinstance(r, Load) or r.buffer is not self.base:
            return False
        at: dict[s.Atom, Any] = {}
        for d, (v, side) in enumerate(zip(self.loop.variables, within, strict=True)):
            if (atom := s.atom_of(v)) is not None:
                at[atom] = s.add(side[0], variable(d, size_of(side, self.known), self.known))
        own, there = (self.known.simplify(s.substitute(e, at)) for e in (self.own, r.address))
        held = r.guard if isinstance(r.guard, bool) else self.known.holds(s.substitute(r.guard, at))
        return held is True and (own is there or own == there)

    def held(self, condition: Node, within: Window) -> Window:
        """The points of a window at which a condition may hold."""
        if condition.op is scalar.bitwise_and:
            for part in condition.args:
                within = self.held(part, within)
            return within
        r = self.expressions.as_expression(condition) if condition.op in COMPARISONS else None
        if not isinstance(r, s.Relation) or r.kind not in ("ge", "eq"):
            return within
        asked = s.free_symbols(r)
        mine = [(d, a) for d, v in enumerate(self.loop.variables) if (a := s.atom_of(v)) is not None and a in asked]
        if len(mine) != 1:
            return within
        ((d, atom),) = mine
        return (*within[:d], self.cut(r, atom, within[d]), *within[d + 1 :])

    def cut(self, r: s.Relation, atom: s.Atom, side: tuple[Any, Any]) -> tuple[Any, Any]:
        low, past = side
        for sign in (1, -1):
            rest = s.add(r.args[0], s.scale(s.of_atom(atom), -sign))
            if atom in s.free_symbols(rest):
                continue
            place = s.scale(rest, -sign)  # where the expression is zero
            if r.kind == "eq" or sign == 1:
                low = self.most(low, place)
            if r.kind == "eq" or sign == -1:
                past = self.least(past, s.add(place, 1))
            break
        return low, past

    def most(self, a: Any, b: Any) -> Any:
        return a if self.known.holds(s.ge(a, b)) else b if self.known.holds(s.ge(b, a)) else s.maximum(a, b)

    def least(self, a: Any, b: Any) -> Any:
        return a if self.known.holds(s.ge(b, a)) else b if self.known.holds(s.ge(a, b)) else s.minimum(a, b)
