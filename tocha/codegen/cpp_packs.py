"""Loops over dear formulas (exponentials, logarithms), choices (relu, clamp) and conversions of float16 on packs of sixteen floats:
several registers side by side, whose chains of operations overlap. Rounded as the scalar forms are (csrc/cpu/engine/program_packs_math.h).

For formulas of floats whose results are neighbours in memory; the others are loops that the compiler makes vectors of (cpp_loops.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tocha.codegen.cpp_neighbours import MOST_NEIGHBOURS
from tocha.codegen.cpp_pass import Pass
from tocha.codegen.cpp_scalar import VectorForm
from tocha.codegen.cpp_vectors import atom_of, is_one, step_of, write_loop
from tocha.ir import dtypes as dt
from tocha.ir import scalar
from tocha.ir import symbolic as s
from tocha.ir.loops import Buffer, Load, Position
from tocha.ir.node import INPUT, Cost, Node, topological
from tocha.ir.packed import STORED, goes_on_packs, is_half_cast
from tocha.ir.rewrite import simplify

PACK = 16  # elements
# Statements, beyond which what is left at the end takes no step of its own: it would compile twice as long.
LONG_STEP = 64
PACKS = VectorForm(
    "vec::pack",
    "vec::load({0}, how)",
    {scalar.where: "vec::choose({0}, {1}, {2})", scalar.CAST: "vec::cast<{type}>({0})"},
    "vec::Positions{{{0}}}",
    apart="vec::load_apart<{1}>({0}, how)",
)
CLOSE = 4  # elements that lie so far apart at most are vectors to a compiler, too


def goes_by_packs(w: Any, p: Pass, outputs: Sequence[tuple[Buffer, Node]], variable: Any) -> bool:
    if variable is None or p.indices_change(variable):
        return False
    fixed = p.fixed_reads(variable)
    nodes = simplify(tuple(n for _, n in outputs))
    needed = {n.attr for n in topological(nodes) if n.op is INPUT} - fixed
    apart = 0
    for r, i in p.reads.items():
        if i in needed and not is_neighbours(r, variable):
            step = step_of(r.address, variable) if is_read(r) else None
            if not isinstance(step, int):
                return False
            apart = min(apart or abs(step), abs(step))
    together = stores(w, [b for b, _ in outputs], variable)
    if together is None or not all(b.dtype in STORED for b, _ in outputs):
        return False
    if any(count > 1 and outputs[i][0].dtype is not dt.float32 for i, count in together):
        return False
    nodes = w.with_fixed(nodes, fixed)
    if 0 < apart <= CLOSE and not any(n.op.cost is Cost.EXPENSIVE or is_half_cast(n) for n in topological(nodes)):
        return False
    return bool(goes_on_packs(nodes, compiled=True))


def stores(w: Any, buffers: Sequence[Any], variable: Any) -> list[tuple[int, int]] | None:
    """What is stored together, as the first of the buffers and how many: one by one where lanes are neighbours in memory, or several that
    are each other's neighbours. None where they are neither."""
    found, i = [], 0
    while i < len(buffers):
        place, pointer = w.store_place(buffers[i]), w.pointer(buffers[i])
        step = step_of(place, variable)
        if not isinstance(step, int) or not 1 <= step <= min(MOST_NEIGHBOURS, len(buffers) - i):
            return None
        for k, b in enumerate(buffers[i : i + step]):
            if w.pointer(b) != pointer or w.store_place(b) != s.add(place, k):
                return None
        found.append((i, step))
        i += step
    return found


def is_neighbours(r: Any, variable: Any) -> bool:
    """Whether what is read for the lanes of a pack are neighbours in memory, or positions that follow each other."""
    if isinstance(r, Position):
        return isinstance(r.value, s.Expr) and is_one(step_of(r.value, variable))
    return is_read(r) and is_one(step_of(r.address, variable))


def is_read(r: Any) -> bool:
    """Whether a read is one of memory of which packs are made."""
    return isinstance(r, Load) and r.guard is True and r.buffer.dtype in (*STORED, dt.bool_)


def write_packs(w: Any, p: Pass, outputs: Sequence[tuple[Buffer, Node]], variable: Any, begin: str, end: str) -> bool:
    """Writes a loop over points; False if it is none for packs. w is the kernel's writer (cpp_loops.py)."""
    last = w.hoistable(variable)
    if not goes_by_packs(w, p, outputs, last):
        return False
    t, name = w.text, w.names[atom_of(last)]
    code = w.emitted(p, [n for _, n in outputs], {}, last, PACKS)
    t.open("{")
    for line in code.prologue:
        t.put(line)
    t.open(f"auto step = [&](int64_t {name}, auto how) __attribute__((always_inline)) {{")
    for line in code.body:
        t.put(line)
    for i, count in stores(w, [b for b, _ in outputs], last) or []:
        b, packs = outputs[i][0], [f"vec::pack({r})" for r in code.results[i : i + count]]
        at = f"{w.pointer(b)} + {w.index(w.store_place(b))}"
        stored = f"store({at}, {packs[0]}" if count == 1 else f"store_in_turn({at}, {{{', '.join(packs)}}}"
        t.put(f"vec::{stored}, how);")
    t.close("};")
    t.put(f"int64_t c = {begin};")
    if len(code.body) > LONG_STEP:
        write_loop(w, p, last, f"for (; c < {end}; c += {PACK})", f"step(c, vec::Part{{{end} - c}});")
        t.close()
        return True
    write_loop(w, p, last, f"for (; c + {PACK} <= {end}; c += {PACK})", "step(c, vec::Whole());")
    if not (begin.isdigit() and end.isdigit() and (int(end) - int(begin)) % PACK == 0):
        t.put(f"if (c < {end}) step(c, vec::First{{{end} - c}});")
    t.close()
    return True
