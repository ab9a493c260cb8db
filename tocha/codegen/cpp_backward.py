"""Loops over points that read memory backward (`flip`): a processor looks ahead in the other direction only, so that each line of memory is
asked for before its turn, one for each step of the loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tocha.codegen.cpp_pass import Pass
from tocha.codegen.cpp_vectors import LONGEST_FETCHED, atom_of, is_one, size_of, step_of
from tocha.ir import symbolic as s
from tocha.ir.loops import Buffer, Load
from tocha.ir.node import Node

LINE = 64  # bytes
AHEAD = 1024  # bytes, along a row
LONG_ROW = 256  # elements, below which the next row is near enough


def step_along(r: Load, variable: Any) -> Any:
    return 0 if variable is None else step_of(r.address, variable)


def goes_backward(r: Any, last: Any, row: Any) -> bool:
    """Whether a read goes from its end to its beginning: along the last variable, or from one row to the next."""
    if not isinstance(r, Load) or r.guard is not True:
        return False
    step, by_rows = step_along(r, last), step_along(r, row)
    return isinstance(step, int) and (step == -1 or (is_one(step) and isinstance(by_rows, int) and by_rows < 0))


def fetches(w: Any, reads: Sequence[Load], last: Any) -> list[str]:
    """What asks for the lines that will be read: at the same place of the next row, or so far ahead in this one."""
    lines = []
    for r in reads:
        by_rows = step_along(r, w.row)
        near = isinstance(by_rows, int) and 0 < abs(by_rows) <= LONGEST_FETCHED
        ahead = by_rows if near else -AHEAD // size_of(r.buffer.dtype)
        place = s.add(s.substitute(r.address, {atom_of(last): 0}), ahead)
        sign = "-" if step_along(r, last) == -1 else "+"
        lines.append(f"vec::fetch({w.pointer(r.buffer)} + {w.index(place)} {sign} c);")
    return lines


def write_backward(
    w: Any, p: Pass, outputs: Sequence[tuple[Buffer, Node]], variable: Any, begin: str, end: str
) -> bool:
    """Writes a loop over points; False if it reads nothing backward. w is the kernel's writer (cpp_loops.py)."""
    last = w.hoistable(variable)
    if last is None or w.known.bounds(last)[1] < LONG_ROW or p.indices_change(last):
        return False
    own = w.scratch.keys() | w.strips.keys()
    reads = [r for r in p.reads if goes_backward(r, last, w.row) and r.buffer not in own]
    if not reads:
        return False
    t, name = w.text, w.names[atom_of(last)]
    code = w.emitted(p, [n for _, n in outputs], {}, last)
    count = LINE // min(size_of(r.buffer.dtype) for r in reads)
    t.open("{")
    for line in code.prologue:
        t.put(line)
    t.open(f"auto step = [&](int64_t {name}) __attribute__((always_inline)) {{")
    for line in code.body:
        t.put(line)
    for (b, _), r in zip(outputs, code.results, strict=True):
        w.store(b, r)
    t.close("};")
    t.put(f"int64_t c = {begin};")
    t.open(f"for (; c + {count} <= {end}; c += {count}) {{")
    for line in fetches(w, reads, last):
        t.put(line)
    t.put("#pragma GCC ivdep")
    t.put("#pragma GCC unroll 4")
    t.put(f"for (int64_t l = 0; l < {count}; ++l) step(c + l);")
    t.close()
    t.put(f"for (; c < {end}; ++c) step(c);")
    t.close()
    return True
