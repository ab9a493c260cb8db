"""Folds across rows of dear elements: rows of a block are computed first, as points are (on packs, with shortcuts), and folded from there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tocha.codegen.cpp_packs import goes_by_packs
from tocha.codegen.cpp_pass import Pass
from tocha.codegen.cpp_scalar import shortcuts
from tocha.ir import symbolic as s
from tocha.ir.kernels import LANE_BLOCK, Member
from tocha.ir.loops import Buffer, Load
from tocha.ir.node import Cost, Node, topological
from tocha.ir.rewrite import simplify

ROWS = 4  # that are folded at once


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
        if w.hoistable(lane) is None or not any(n.op.cost is Cost.EXPENSIVE for n in topological(made)):
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
