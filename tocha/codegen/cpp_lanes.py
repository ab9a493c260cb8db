"""Folds across rows: many sums side by side. Rows of dear elements are computed first, as points are (on packs, with shortcuts), and folded from there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tocha.codegen.cpp_packs import goes_by_packs
from tocha.codegen.cpp_pass import Pass
from tocha.codegen.cpp_scalar import shortcuts
from tocha.codegen.cpp_vectors import ROWS_ADDED, Aside, VectorLanes
from tocha.ir import symbolic as s
from tocha.ir.kernels import LANE_BLOCK, Member
from tocha.ir.loops import Buffer, Load
from tocha.ir.node import Cost, Node, topological
from tocha.ir.packed import is_half_cast
from tocha.ir.rewrite import simplify

ROWS = 4  # that are folded at once
SHORT_BODY = 6  # statements
NARROW = 32  # lanes that a compiler may write out


class LaneStrips(Pass):
    """A pass of folds whose elements lie in arrays; `w` is the kernel's writer (cpp_loops.py), lane the variable along the block, row the
    one from which it is folded."""

    def __init__(self, w: Any, elements: Pass, made: Sequence[Node], lane: Any, width: Any, row: Any, rows: Any):
        super().__init__(w)
        self.elements, self.lane, self.row = elements, lane, row
        column = s.add(lane, s.scale(w.new_variable("block", width), -1))
        first = w.new_variable("top", rows)
        self.place = column if row is None else s.add(column, s.scale(s.add(row, s.scale(first, -1)), LANE_BLOCK))
        self.arrays: dict[Node, Buffer] = {}
        for n in made:
            if n not in self.arrays:
                b = self.arrays[n] = Buffer(f"strip{w.passes}_{len(self.arrays)}", (ROWS * LANE_BLOCK,), (1,), n.dtype)
                w.strips[b] = self.place

    @classmethod
    def of(cls, w: Any, folds: Sequence[Member], lane: Any, width: Any, row: Any, rows: Any) -> LaneStrips | None:
        """None where a compiler does as well on the elements within the fold."""
        elements = Pass(w)
        made = simplify(tuple(n for m in folds for n in elements.nodes(m, m.loop.formulas)))
        if w.hoistable(lane) is None or not any(
            n.op.cost is Cost.EXPENSIVE or is_half_cast(n) for n in topological(made)
        ):
            return None
        found = cls(w, elements, made, lane, width, row, rows)
        outputs = [(b, n) for n, b in found.arrays.items()]
        if not shortcuts(made) and not goes_by_packs(w, elements, outputs, lane):
            for b in found.arrays.values():
                del w.strips[b]
            return None
        return found

    def nodes(self, m: Member, formulas: Sequence[Node]) -> tuple[Node, ...]:
        made = simplify(self.elements.nodes(m, formulas))
        return tuple(self.input(Load(self.arrays[n], self.place), n.dtype) for n in made)

    def declare(self) -> None:
        """The arrays, and what fills a row of them; the first has the number `top`."""
        w = self.writer
        for b in self.arrays.values():
            w.text.put(f"alignas(64) {b.dtype.cpp} row_{b.name}[{ROWS * LANE_BLOCK}];")
        row = w.names[s.atom_of(self.row)] if self.row is not None else "once"
        w.text.put("int64_t top = 0;")
        w.text.open(f"auto fill = [&](int64_t {row}) {{")
        w.emit_points(self.elements, [(b, n) for n, b in self.arrays.items()], self.lane, "block", "block + width")
        w.text.close("};")

    def fill(self, times: int) -> None:
        """Fills the rows from c on."""
        self.writer.text.put(" ".join(["top = c;", *(f"fill(c + {k});" for k in range(times))]))


def write_lanes(w: Any) -> None:
    """Folds across rows: blocks of neighbouring results, each with its states side by side."""
    members = w.kernel.members
    first = members[0]
    outer = [n for n in first.row_sizes if n != 1]
    folded = [n for n in first.column_sizes if n != 1]
    rows = w.new_variables("r", outer)
    steps = w.new_variables("j", folded)
    for m in members:
        w.place_rows(m, outer, rows)
        if m.loop.fold is not None:
            w.place_columns(m, folded, steps)
    folds = [m for m in members if m.loop.fold is not None]
    folded, steps = w.coalesced(folded, steps, folds)
    outer, rows = w.coalesced(outer, rows, members, columns=False)
    lane, width = rows[-1], outer[-1]
    w.first_dim_is_outermost = len(outer) > 1
    blocks = s.ceildiv(width, LANE_BLOCK)
    w.task_rows = s.mul(s.product(outer[:-1]), blocks)
    w.task_columns = s.mul(s.product(folded), LANE_BLOCK)
    t = w.text
    lane_name = w.names[s.atom_of(lane)]  # type: ignore[index]
    t.open("for (int64_t task = begin; task < end; ++task) {")
    t.put(f"const int64_t block = task % {w.index.grouped(blocks)} * {LANE_BLOCK};")
    if len(outer) > 1:
        t.put(f"const int64_t q = task / {w.index.grouped(blocks)};")
        w.decode("q", outer[:-1], rows[:-1])
    t.put(f"int64_t width = index_min({LANE_BLOCK}, {w.index.grouped(width)} - block);")
    if isinstance(width, int) and width <= NARROW:
        # Where GCC 12 knows how few there are it writes them out, takes the loop over rows for a reduction, and of vectors of int64 that
        # count what vectors of other elements say (`(x > 0).sum(0)`) forgets half.
        t.put('asm("" : "+r"(width));')
    p = Pass(w)
    states, combined = w.combined(p, folds, lambda k: f"s_{k}[l]")
    vectors = VectorLanes.of(w, p, folds, combined, lane)
    strips = None
    if vectors is None:
        strips = LaneStrips.of(w, folds, lane, width, *((steps[-1], folded[-1]) if steps else (None, 1)))
    if strips is not None:
        p = strips
        states, combined = w.combined(p, folds, lambda k: f"s_{k}[l]")
    types = [vectors.memory_type(k) for k in range(len(states))] if vectors is not None else None
    if vectors is not None:
        states = vectors.as_values(states)
    code = w.emitted(p, combined, dict(enumerate(states)))
    for line in code.prologue:
        t.put(line)
    w.start_states(folds, "s", str(LANE_BLOCK), types)
    if vectors is not None:
        vectors.write(folded, steps)
        t.open("if (done < width) {")
    (arrays,) = w.arrays_of_states(folds, "s", str(LANE_BLOCK))
    arrays = replace(arrays, types=types or arrays.types, first="0" if vectors is None else "done", end="width")
    aside = Aside.of(w, folds, s.product(folded), ROWS_ADDED, [arrays])
    for v, n in zip(steps[:-1], folded[:-1], strict=True):
        name = w.names[s.atom_of(v)]  # type: ignore[index]
        t.open(f"for (int64_t {name} = 0; {name} < {w.index(n)}; ++{name}) {{")
    name = w.names[s.atom_of(steps[-1])] if steps else "once"  # type: ignore[index]
    t.put("int64_t c = 0;")
    if strips is not None:
        strips.declare()
    t.open(f"auto step = [&](int64_t {name}, int64_t l) __attribute__((always_inline)) {{")
    t.put(f"const int64_t {lane_name} = block + l;")
    w.step_lines(code, [], folds, "s")
    t.close("};")
    whole = end = w.index(folded[-1]) if folded else "1"
    if aside is not None:
        end = aside.open_chunk(folded[-1], end)
    # Several rows at once where that is little code: the states are then read and written less often.
    for times in (4, 1) if len(code.body) <= SHORT_BODY else (1,):
        t.open(f"for (; c + {times} <= {end}; c += {times}) {{")
        if strips is not None:
            strips.fill(times)
        t.put("#pragma GCC ivdep")
        calls = " ".join(f"step(c + {k}, l);" for k in range(times))
        t.put(f"for (int64_t l = {'0' if vectors is None else 'done'}; l < width; ++l) {{ {calls} }}")
        t.close()
    if aside is not None:
        aside.count(whole)
    for _ in steps[:-1]:
        t.close()
    if aside is not None:
        aside.add()
    if vectors is not None:
        t.close()
    t.open("for (int64_t l = 0; l < width; ++l) {")
    t.put(f"const int64_t {lane_name} = block + l;")
    k = 0
    for f, m in enumerate(folds):
        for b in m.loop.results:
            t.put(f"{b.dtype.cpp} v_{b.name};")
        k = w.finish(m, states[k : k + len(m.loop.fold.states)], f"f{f}_", k)  # type: ignore[union-attr]
        for b in m.loop.results:
            w.variables[b] = f"v_{b.name}"
            if b not in w.kernel.inner:
                w.store(b, f"v_{b.name}")
    rest = [m for m in members if m.loop.fold is None]
    if rest:
        w.row_values(rest)
    t.close()
    t.close()
