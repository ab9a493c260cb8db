"""Results that are the same number almost everywhere: memory is filled as one piece, and the places that differ are written afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tocha.codegen.cpp_pass import Cuts, Pass
from tocha.codegen.cpp_runs import lie_together
from tocha.codegen.cpp_scalar import literal, stored_as
from tocha.ir import symbolic as s
from tocha.ir.loops import Buffer
from tocha.ir.node import CONSTANT, Node
from tocha.ir.rewrite import simplify

ZEROS = ("0", "0.0", "0j", "False")  # numbers whose bits are all zero
LONG_FILL = 64  # elements, below which a loop takes no longer than a call


def is_zero(n: Node) -> bool:
    return n.op is CONSTANT and repr(n.attr) in ZEROS


def write_zeros(w: Any, p: Pass, outputs: Sequence[tuple[Buffer, Node]], variable: Any, begin: str, end: str) -> bool:
    """Writes a loop over points that are all zero; False if it is none, or is short. The library's way of it takes half the time."""
    known = begin.isdigit() and end.isdigit()
    if variable is None or (int(end) - int(begin) if known else w.known.bounds(variable)[1] + 1) < LONG_FILL:
        return False
    if not all(is_zero(n) for n in simplify(tuple(n for _, n in outputs))):
        return False
    steps = [s.add(w.store_place(b), s.scale(variable, -1)) for b, _ in outputs]
    if any(s.atom_of(variable) in s.free_symbols(step) for step in steps):
        return False
    for (b, _), step in zip(outputs, steps, strict=True):
        start = w.index(step)
        at = " + ".join([w.pointer(b), *(e for e in (begin, start) if e != "0")])
        w.text.put(f"fill_zeros({at}, {end});" if begin == "0" else f"fill_zeros({at}, {end} - ({begin}));")
    return True


def write_fill(
    w: Any, p: Pass, outputs: Sequence[tuple[Buffer, Node]], sizes: Sequence[Any], variables: Sequence[Any]
) -> bool:
    """Writes points that are one number but for one place in each row; False if they are not. w is the kernel's writer (cpp_loops.py)."""
    last = w.hoistable(variables[-1])
    if last is None or lie_together(w, p, outputs):
        return False
    cuts = Cuts(p, [n for _, n in outputs], last, moving=True, single=True)
    if not cuts.at_one_place or not all(in_order(w, b, sizes, variables) for b, _ in outputs):
        return False
    low, high = cuts.edges
    _, usual = cuts.within(None, low)
    if not all(n.op is CONSTANT for n in usual):
        return False
    t, n = w.text, w.index.grouped(sizes[-1])
    for (b, _), value in zip(outputs, usual, strict=True):
        if is_zero(value):
            t.put(f"fill_zeros({w.pointer(b)} + {n} * begin, {n} * (end - begin));")
            continue
        t.open(f"for (int64_t i = {n} * begin; i < {n} * end; ++i) {{")
        for line in stored_as(b.dtype, f"{w.pointer(b)}[i]", literal(value.attr, b.dtype)):  # type: ignore[arg-type]
            t.put(line)
        t.close()
    t.open("for (int64_t r = begin; r < end; ++r) {")
    w.decode("r", sizes[:-1], variables[:-1])
    cuts.declare_edges()
    part, nodes = cuts.within(low, high)
    t.open(f"if ({w.index(low)} >= 0 && {w.index(low)} < {n}) {{")
    made = [(b, value) for (b, _), value in zip(outputs, nodes, strict=True)]
    w.emit_range(part, made, last, w.index(low), w.index(high))
    t.close()
    t.close()
    return True


def in_order(w: Any, b: Any, sizes: Sequence[Any], variables: Sequence[Any]) -> bool:
    """Whether the points of a kernel are written one after the other."""
    number: Any = 0
    for n, v in zip(sizes, variables, strict=True):
        number = s.add(s.mul(number, n), v)
    return isinstance(b, Buffer) and w.store_place(b) == number
