"""Kernels in turns: those that follow each other run one after the other for each index of their common first dim, so that what one writes the
next finds in the cache. A softmax over a middle dim is four kernels, each of which would go through all of memory.

Which kernels may do so is decided when memory is planned: in turns, a kernel writes for one index before an earlier one has read for the next.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from tocha.ir import symbolic as s
from tocha.ir.assumptions import Assumptions
from tocha.ir.kernels import LANES, MANY, Item, Kernel, Member
from tocha.ir.loops import Buffer, index_of
from tocha.ir.memory import MemoryPlan, bases_of, last_uses, nbytes, same_layout

FEWEST = 32  # turns, so that threads have enough of them
CACHED = 1 << 20  # bytes that a turn may touch
LITTLE = 8  # of memory: so small a part of it may live longer
LARGE = 1 << 21  # bytes, below which all of it stays in a cache anyway
# Bytes of a turn, which is of several indices where one is less: a call of each kernel for a row of three takes ten times as long.
SMALLEST = 1 << 15


def first_dim(kernel: Kernel, m: Member) -> int | None:
    """The dim of a loop that its kernel goes through last; None where it has none to itself."""
    order = m.rows if m.rows else m.columns
    order = [d for d in order if m.loop.sizes[d] != 1]
    if m.inner is not None or not order or (kernel.kind == LANES and len(order) < 2):
        return None
    return order[0]


class Turns:
    """Which kernels of a program run in turns. `writers` have written them: they know how many tasks each has."""

    def __init__(self, items: Sequence[Item], writers: Mapping[Kernel, Any], memory: MemoryPlan, known: Assumptions):
        self.items, self.writers, self.memory, self.known = items, writers, memory, known
        self.bases, self.last = bases_of(items), last_uses(items)

    def groups(self) -> dict[Kernel, tuple[list[Kernel], int]]:
        """By the first kernel of each group: the group, and how many turns it takes."""
        found: dict[Kernel, tuple[list[Kernel], int]] = {}
        group: list[Kernel] = []
        for item in (*self.items, None):
            if isinstance(item, Kernel) and group and self.goes_on(group, item):
                group.append(item)
                continue
            if len(group) > 1 and (number := self.number(group)) is not None:
                found[group[0]] = group, number
            group = [item] if isinstance(item, Kernel) and self.turns_of(item) is not None else []
        return found

    def turns_of(self, k: Kernel) -> int | None:
        """How many turns a kernel has by itself; None if it has none."""
        if k.kind == MANY or k.after is not None or k.in_place:
            return None
        w, counts = self.writers[k], set()
        for m in k.members:
            d = first_dim(k, m)
            counts.add(None if d is None else m.loop.sizes[d])
        n = counts.pop() if len(counts) == 1 else None
        whole = isinstance(n, int) and isinstance(w.task_rows, int) and n >= FEWEST and w.task_rows % n == 0
        return n if whole and w.first_dim_is_outermost else None

    def goes_on(self, group: list[Kernel], k: Kernel) -> bool:
        made = {b for o in group for b in o.results()}
        n = self.turns_of(k)
        together = [*group, k]
        return (
            n is not None and n == self.turns_of(group[0]) and bool(k.reads() & made)
            and self.needs_no_more_memory(together) and self.keep_apart(together)
        )  # fmt: skip

    def number(self, group: list[Kernel]) -> int | None:
        """How many turns of about the same memory a group takes; None if it gains nothing by them."""
        n = self.turns_of(group[0])
        seen = {self.place(b): nbytes(b) for k in group for b in self.touched(k)}
        sizes = [size for size in seen.values() if size is not None]
        total = sum(sizes)
        if n is None or len(sizes) != len(seen) or not LARGE <= total <= n * CACHED:
            return None
        most = min(n, total // SMALLEST)
        return next((m for m in range(most, FEWEST - 1, -1) if n % m == 0 and total <= m * CACHED), None)

    @staticmethod
    def touched(k: Kernel) -> set[Buffer]:
        return {*k.reads(), *k.results()} - k.inner

    def place(self, b: Buffer) -> Any:
        """What says where a buffer lies: the first that lay there."""
        while (under := self.memory.reused.get(b) or self.memory.written.get(b)) is not None:
            b = under
        return self.memory.offsets.get(b, b)

    def needs_no_more_memory(self, group: list[Kernel]) -> bool:
        """Whether nothing large ends in front of a kernel that needs other memory: in turns, it ends after all of them."""
        at = {k: self.items.index(k) for k in group}
        touched = {b for k in group for b in self.touched(k)}
        little = max(nbytes(b) or 0 for b in touched) // LITTLE
        large = [b for b in touched if self.owned(b) and (nbytes(b) or 0) > little]
        for k in group[1:]:
            new = [b for b in large if b in k.results() and b not in self.memory.reused]
            if new and any(at[group[0]] <= self.last.get(b, -1) < at[k] for b in large):
                return False
        return True

    def owned(self, b: Buffer) -> bool:
        """Whether memory comes and goes with it."""
        return b.producer is not None and b not in self.memory.offsets and b not in self.memory.written

    def keep_apart(self, group: list[Kernel]) -> bool:
        """Whether what is written in one turn is read and written in no other."""
        written = {self.place(b) for k in group for b in k.results() if b not in k.inner}
        if any(set(self.bases.get(b, ())) & written for k in group for b in self.touched(k)):
            return False
        lying: dict[Any, Buffer] = {}
        dims: dict[Any, set[int]] = {}
        for b, index, variable in (a for k in group for a in self.accesses(k)):
            where = self.place(b)
            if where not in written:
                continue
            if not same_layout(lying.setdefault(where, b), b):
                return False
            mine = {d for d, i in enumerate(index) if i == variable}
            dims[where] = dims.get(where, mine) & mine
        if not all(dims.values()):
            return False
        arena = {b for k in group for b in self.touched(k) if b in self.memory.offsets}
        pieces = sorted({(self.memory.offsets[b], self.memory.offsets[b] + (nbytes(b) or 0)) for b in arena})
        return all(past <= low for (_, past), (low, _) in pairwise(pieces))

    def accesses(self, k: Kernel) -> Iterator[tuple[Buffer, Sequence[Any], Any]]:
        """What a kernel reads and writes in memory: at which index, and the variable that is the number of the turn."""
        for m in k.members:
            d = first_dim(k, m)
            assert d is not None
            variable = m.loop.variables[d]
            for load in m.loop.loads():
                if load.buffer not in k.inner:
                    yield load.buffer, self.index(load.buffer, load.address), variable
            for b in m.loop.results:
                if b not in k.inner:
                    yield b, m.loop.places, variable

    def index(self, b: Buffer, address: Any) -> Sequence[Any]:
        if b.producer is None and b not in self.memory.written.values():
            return ()  # an input that nobody writes to
        return index_of(self.known.simplify(address), b.sizes, b.strides, self.known)


def write_turns(p: Any, writers: Sequence[Any], n: int) -> None:
    """The entry's text of a group that takes n turns; p writes the program (cpp_program.py)."""
    frames = [p.frame(w, str(i)) for i, w in enumerate(writers)]
    p.put("{  // " + ", ".join(w.kernel.name for w in writers) + " in turns")
    for frame in frames:
        for line in frame:
            p.put(line)
    rows = ", ".join(f"{{{p.functions[w.kernel]}, &frame{i}, {w.task_rows // n}}}" for i, w in enumerate(writers))
    p.put(f"  const KernelTurn parts[] = {{{rows}}};")
    p.put(f"  KernelTurns turns{{parts, {len(writers)}}};")
    work = p.index(s.total([w.work for w in writers]))
    p.put(f"  run(api, program, {p.ran}, {n}, 1, {work}, run_in_turns, &turns);")
    p.ran += len(writers)
    for i, w in enumerate(writers):
        if w.faults:
            p.put(f"  if (frame{i}.fault) return api->fail(frame{i}.fault);")
    p.put("}")
