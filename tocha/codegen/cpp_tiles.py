"""Points that are read along one variable and written along another: in tiles, whose lines of memory stay in the cache.

What lies far apart along the last variable is brought into a small array, transposed; the loop over the last variable reads it there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tocha.codegen.cpp_pass import Cuts, Pass, later
from tocha.codegen.cpp_scalar import memory_type
from tocha.codegen.cpp_vectors import atom_of, is_one, step_of
from tocha.ir import symbolic as s
from tocha.ir.loops import Buffer, Load
from tocha.ir.node import INPUT, Node

FAR = 16  # elements apart, from which on lines of memory are read for one element each
ROWS, COLUMNS = 256, 16  # of a tile: kTileRows, kTileColumns (csrc/cpu/engine/program_tiles.h)


def is_transposed(r: Any, last: Any, across: Any) -> bool:
    """Whether neighbours along `across` are neighbours in memory, and those along `last` lie far apart."""
    if not isinstance(r, Load) or not is_one(step_of(r.address, across)):
        return False
    step = step_of(r.address, last)
    return isinstance(step, int) and abs(step) >= FAR


def transposed_along(p: Pass, sizes: Sequence[Any], variables: Sequence[Any]) -> int | None:
    """The variable along which most of what lies far apart along the last one is to be read; None if nothing is."""
    long = [not (isinstance(n, int) and n < FAR) for n in sizes]
    found = {
        i: sum(is_transposed(r, variables[-1], v) for r in p.reads)
        for i, v in enumerate(variables[:-1])
        if long[i] and long[-1]
    }
    best = max(found, key=lambda i: found[i], default=None)
    return best if best is not None and found[best] else None


def write_tiles(
    w: Any, p: Pass, outputs: list[tuple[Buffer, Node]], sizes: list[Any], variables: list[Any], across: int
) -> None:
    """Writes a kernel's points; w is its writer (cpp_loops.py)."""
    blocks = s.ceildiv(sizes[across], ROWS)
    rest = [i for i in range(len(sizes) - 1) if i != across]
    w.task_rows = s.mul(s.product([sizes[i] for i in rest]), blocks)
    w.task_columns = s.mul(sizes[-1], ROWS)
    w.first_dim_is_outermost = across != 0
    t = w.text
    t.open("for (int64_t task = begin; task < end; ++task) {")
    t.put(f"const int64_t block = task % {w.index.grouped(blocks)} * {ROWS};")
    t.put(f"const int64_t past = {bounded('block', ROWS, w.index(sizes[across]))};")
    if rest:
        t.put(f"const int64_t r = task / {w.index.grouped(blocks)};")
        w.decode("r", [sizes[i] for i in rest], [variables[i] for i in rest])
    cuts = Cuts(p, [n for _, n in outputs], variables[-1])
    for low, high in cuts.ranges:
        part, nodes = cuts.within(low, high)
        first = "0" if low is None else later("0", w.index(low), "index_max")
        end = w.index(sizes[-1])
        end = end if high is None else later(end, w.index(high), "index_min")
        values = [(b, n) for (b, _), n in zip(outputs, nodes, strict=True)]
        t.open(f"for (int64_t from = {first}; from < {end}; from += {COLUMNS}) {{")
        t.put(f"const int64_t to = {bounded('from', COLUMNS, end, first)};")
        if moves(w, part, values, variables[-1], variables[across]):
            for b, n in values:
                write_move(w, list(part.reads)[n.attr], b, variables[-1], variables[across], sizes[across])  # type: ignore[index]
            t.close()
            continue
        loaded = with_tiles(w, part, sizes, variables, across)
        name = w.names[s.atom_of(variables[across])]
        t.open(f"for (int64_t {name} = block; {name} < past; ++{name}) {{")
        w.emit_range(loaded, values, variables[-1], "from", "to")
        t.close()
        t.close()
    t.close()


def moves(w: Any, p: Pass, values: Sequence[tuple[Buffer, Node]], last: Any, across: Any) -> bool:
    """Whether elements go from one order to the other as they are."""
    reads = list(p.reads)

    def is_move(b: Buffer, n: Node) -> bool:
        r = reads[n.attr] if n.op is INPUT else None  # type: ignore[index]
        if not isinstance(r, Load) or r.guard is not True or not is_transposed(r, last, across) or touches(r, p):
            return False
        to = w.store_place(b)
        return r.buffer.dtype is b.dtype and is_one(step_of(to, last)) and isinstance(step_of(to, across), int)

    return all(is_move(b, n) for b, n in values)


def write_move(w: Any, r: Load, b: Buffer, last: Any, across: Any, size: Any) -> None:
    """A tile that is written where it belongs, transposed."""
    begin = {atom_of(last): w.new_variable("from", FAR), atom_of(across): w.new_variable("block", size)}
    to, source = (s.substitute(e, begin) for e in (w.store_place(b), r.address))
    given = f"{w.pointer(b)} + {w.index(to)}, {w.index(step_of(w.store_place(b), across))}"
    given += f", {w.pointer(r.buffer)} + {w.index(source)}, {w.index(step_of(r.address, last))}"
    w.text.put(f"transpose_copy({given}, past - block, to - from);")
    w.passes += 1


def bounded(begin: str, step: int, end: str, low: str = "0") -> str:
    """The end of a step from `begin`, of those from `low` to `end`: where all are whole, their length is known to the compiler."""
    whole = end.isdigit() and low.isdigit() and (int(end) - int(low)) % step == 0
    return f"{begin} + {step}" if whole else f"index_min({begin} + {step}, {end})"


def with_tiles(w: Any, p: Pass, sizes: Sequence[Any], variables: Sequence[Any], along: int) -> Pass:
    """The pass with reads of tiles in place of what is read far apart, which is brought there."""
    last, across = variables[-1], variables[along]
    block, begin = w.new_variable("block", sizes[along]), w.new_variable("from", sizes[-1])
    made = Pass(w)
    made.indirect, made.values = p.indirect, p.values
    for r, i in p.reads.items():
        if isinstance(r, Load) and r.guard is True and is_transposed(r, last, across) and not touches(r, p):
            tile = Buffer(f"tile{w.passes}_{i}", (ROWS, COLUMNS), (COLUMNS, 1), r.buffer.dtype)
            w.strips[tile] = 0
            place = s.substitute(r.address, {atom_of(last): begin, atom_of(across): block})
            w.text.put(f"alignas(64) {memory_type(tile.dtype)} {w.pointer(tile)}[{ROWS * COLUMNS}];")
            given = f"{w.pointer(tile)}, {w.pointer(r.buffer)} + {w.index(place)}, {w.index(step_of(r.address, last))}"
            w.text.put(f"transpose_tile({given}, past - block, to - from);")
            inside = s.add(s.mul(s.add(across, s.scale(block, -1)), COLUMNS), s.add(last, s.scale(begin, -1)))
            r = Load(tile, inside)
        made.reads[r] = i
    return made


def touches(r: Load, p: Pass) -> bool:
    """Whether where something is read depends on an element."""
    return bool(s.free_symbols(r.address) & set(p.indirect))
