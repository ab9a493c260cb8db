"""Rows between the passes of a kernel: where a result will be, on the stack, or in memory of their own where they are long or of a size
that is a symbol. `w` is the kernel's writer (cpp_loops.py)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tocha.codegen.cpp_scalar import memory_type
from tocha.ir import symbolic as s
from tocha.ir.kernels import Member
from tocha.ir.loops import Buffer

ROW_BYTES = 1 << 16  # rows up to this size are kept on the stack


def choose_scratch(w: Any, members: Sequence[Member]) -> None:
    """Rows that only later passes of this kernel read."""
    for m in members:
        if m.loop.fold is not None or w.group_of[m] == 1:
            continue
        for b in m.loop.results:
            if b not in w.kernel.inner:
                continue
            readers = [o for o in members if any(load.buffer is b for load in o.loop.loads())]
            if all(w.levels[o] == w.levels[m] for o in readers):
                continue
            w.scratch[b] = m


def declare_rows(w: Any, held: dict[Buffer, str]) -> list[str]:
    """Memory of the rows that do not lie in a result; what gives it back."""
    room, ends = ROW_BYTES, []
    for b, m in w.scratch.items():
        count, t = w.group_of[m], memory_type(b.dtype)
        fits = isinstance(count, int) and count * b.dtype.itemsize <= room
        if fits:
            room -= count * b.dtype.itemsize
        if b in held:
            continue
        if fits:
            w.text.put(f"alignas(64) {t} row_{b.name}[{count}];")
        else:
            size = f"sizeof({t}) * size_t({w.index(count)}) + 1"
            w.text.put(f"{t}* const row_{b.name} = static_cast<{t}*>(std::malloc({size}));")
            w.text.put(f"if (!row_{b.name}) {{ fault |= TOCHA_NO_MEMORY; end = begin; }}")
            w.faults = True
            ends.append(f"std::free(row_{b.name});")
    return ends


def lodged(w: Any, columns: Sequence[s.Atom | None]) -> dict[Buffer, str]:
    """Rows of scratch that can lie where a later pass puts a result, and where that is: the cache fetches the result's lines while
    there is something to compute, and the last pass finds them."""
    found: dict[Buffer, str] = {}
    taken: set[Buffer] = set()
    for b, m in w.scratch.items():
        for o in w.kernel.members:
            if o.loop.fold is not None or w.group_of[o] != w.group_of[m] or w.levels[o] <= w.levels[m]:
                continue
            for result in o.loop.results:
                start = start_of_row(w, o, result, columns)
                free = result not in taken and result not in w.kernel.inner and result not in w.shared
                same = memory_type(result.dtype) == memory_type(b.dtype)
                if b not in found and free and same and start is not None and read_before(w, b, m, o):
                    found[b] = f"{w.pointer(result)} + {w.index(start)}"
                    taken.add(result)
    return found


def start_of_row(w: Any, m: Member, b: Buffer, columns: Sequence[s.Atom | None]) -> Any:
    """Where a row of a result begins, if its elements lie one after another in the order of the columns."""
    index = [w.simplified(v, w.places[m]) for v in m.loop.variables]
    place = s.total([s.mul(i, n) for i, n in zip(index, b.strides, strict=True)])
    start = w.known.simplify(s.add(place, s.scale(w.column_number(m, index), -1)))
    return None if any(a in s.free_symbols(start) for a in columns) else start


def read_before(w: Any, b: Buffer, m: Member, last: Member) -> bool:
    """Whether nobody reads a row of scratch after a member has written its results, nor that member but at the place it writes."""
    for o in w.kernel.members:
        for load in o.loop.loads():
            if load.buffer is not b:
                continue
            if o is last:
                if not w.at_same_column(m, o, load):
                    return False
            elif w.levels[o] >= w.levels[last]:
                return False
    return True
