"""The memory plan of a scheduled program: which results take over memory that is there, and where the others lie in one arena.

A result may be written over a value that dies in the same kernel, if the kernel reads that value at the very elements it writes. Inputs
that the program gives new values are written to directly in the same way. What only kernels touch lies in the arena of the call, if it
is small; what is large, what operators are called with, and what is handed out, are tensors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tocha.ir import symbolic as s
from tocha.ir.assumptions import Assumptions
from tocha.ir.kernels import MANY, POINTS, ROWS, Item, Kernel
from tocha.ir.loops import Buffer, Call, Element, Followed, Geometry, Loop, Product, Program, address_of

ALIGNMENT = 64
LARGE = 1 << 16  # bytes: what is so large is a tensor, whose memory serves others as soon as it is used up


@dataclass
class MemoryPlan:
    written: dict[Buffer, Buffer] = field(default_factory=dict)  # a result: the input whose new value it is
    reused: dict[Buffer, Buffer] = field(default_factory=dict)  # a result: the tensor that ends where it is made
    offsets: dict[Buffer, int] = field(default_factory=dict)  # bytes from the beginning of the arena
    arena: int = 0
    shared: dict[Kernel, set[Buffer]] = field(default_factory=dict)  # buffers of a kernel on the memory of another one


def used(item: Item) -> list[Buffer]:
    """What an item reads or makes, as memory."""
    if isinstance(item, Kernel):
        running = item.after.operands() if item.after is not None else []  # the call is not over yet
        return [*(b for b in (*item.reads(), *item.results()) if b not in item.inner), *running]
    if isinstance(item, Followed):
        return [*item.operands(), item.result]
    return [*(g.buffer for g in item.tensors), *(r for r in item.results if r is not None)]


def bases_of(items: Sequence[Item]) -> dict[Buffer, set[Buffer]]:
    """What results lie on: of calls that make views, and of loops that store into a part of something."""
    found: dict[Buffer, set[Buffer]] = {}

    def note(results: Iterable[Buffer | None], under: Iterable[Buffer]) -> None:
        given = {x for b in under for x in (b, *found.get(b, ()))}
        found.update((r, given) for r in results if r is not None)

    for item in items:
        if isinstance(item, Kernel):
            for loop in item.loops:
                if loop.part is not None:
                    note(loop.results, [loop.part.buffer])
        elif item.is_view:
            note(item.results, [g.buffer for g in item.tensors])
    return found


def last_uses(items: Sequence[Item]) -> dict[Buffer, int]:
    bases = bases_of(items)
    return {b: i for i, item in enumerate(items) for u in used(item) for b in (u, *bases.get(u, ()))}


def nbytes(b: Buffer) -> int | None:
    """None where it is known only when the program runs."""
    n = b.numel()
    return n * b.dtype.itemsize if isinstance(n, int) else None


def same_layout(a: Buffer, b: Buffer) -> bool:
    return a.dtype is b.dtype and a.sizes == b.sizes and a.strides == b.strides and a.bits == b.bits


def row_major(sizes: Sequence[Any]) -> tuple[Any, ...]:
    strides: list[Any] = [1]
    for n in reversed(sizes[1:]):
        strides.append(s.mul(strides[-1], n))
    return tuple(reversed(strides)) if sizes else ()


def same_memory(a: Buffer, b: Buffer) -> bool:
    """Whether b lies in a's memory as a does, or as a view of all of it would."""
    if same_layout(a, b):
        return True
    alike = a.dtype is b.dtype and a.bits == b.bits and a.numel() == b.numel()
    return alike and all(tuple(x.strides) == row_major(x.sizes) for x in (a, b))


def reads_where_it_writes(kernel: Kernel, old: Buffer, result: Buffer, known: Assumptions) -> bool:
    """Whether every element of `old` is read before, and in the same turn as, the result's element in its place is written."""
    if not same_memory(old, result):
        return False
    if kernel.kind == MANY:  # the parts run at the same time
        (part,) = (k for k in kernel.parts if result in k.results())
        elsewhere = any(old in k.reads() for k in kernel.parts if k is not part)
        return not elsewhere and reads_where_it_writes(part, old, result, known)
    if kernel.kind not in (POINTS, ROWS):
        return False
    maker = next(m for m in kernel.members if result in m.loop.results)
    readers = [m for m in kernel.members if any(load.buffer is old for load in m.loop.loads())]
    if kernel.kind == ROWS and not {id(m.loop) for m in readers} <= needed_by(kernel, maker.loop):
        return False  # a later pass over the row might read what was written
    together = all((m.rows, m.columns, m.inner) == (maker.rows, maker.columns, maker.inner) for m in readers)
    in_place = all(reads_its_own_elements(m.loop, old, known) for m in (maker, *readers))
    return maker.loop.fold is None and together and in_place


def needed_by(kernel: Kernel, loop: Loop) -> set[int]:
    """The loops of a kernel that run before this one, or with it: those whose results it needs."""
    found, left = {id(loop)}, [loop]
    while left:
        for load in left.pop().loads():
            producer = next((x for x in kernel.loops if load.buffer in x.results), None)
            if producer is not None and id(producer) not in found:
                found.add(id(producer))
                left.append(producer)
    return found


def reads_its_own_elements(loop: Loop, old: Buffer, known: Assumptions) -> bool:
    if loop.indirect:
        return False
    strides = old.strides
    if tuple(loop.sizes) != tuple(old.sizes):  # a view of other sizes
        strides = row_major(loop.sizes)
        if tuple(old.strides) != row_major(old.sizes) or s.product(loop.sizes) != old.numel():
            return False
    own = known.simplify(address_of(loop.variables, strides))
    return all(known.simplify(load.address) == own for load in loop.loads() if load.buffer is old)


def new_values(program: Program, written: Mapping[int, int]) -> dict[Buffer, Buffer]:
    """Results that are new values of inputs, and lie as those do. `written`: which outputs are of which inputs."""
    outputs = program.outputs
    kept = {o.buffer for o in outputs if isinstance(o, Geometry)}
    found: dict[Buffer, Buffer] = {}
    for output, place in written.items():
        o, target = outputs[output], program.inputs[place]
        if not isinstance(o, Geometry) or not o.is_whole or target is None or target in kept:
            continue
        alone = sum(isinstance(x, Geometry) and x.buffer is o.buffer for x in outputs) == 1
        if alone and same_layout(o.buffer, target) and o.buffer not in found and target not in found.values():
            found[o.buffer] = target
    return found


class Planner:
    def __init__(self, program: Program, items: Sequence[Item], written: Mapping[int, int], keeps_arena: bool):
        self.program, self.items, self.keeps_arena = program, items, keeps_arena
        self.plan = MemoryPlan()
        self.last = last_uses(items)
        self.kept = {o.buffer for o in program.outputs if isinstance(o, Geometry)}
        self.bases = bases_of(items)
        self.kept |= {b for shown, bases in self.bases.items() if shown in self.kept for b in bases}
        self.called = {b for i in items if not isinstance(i, Kernel | Product | Element) for b in used(i)}
        self.targets = {b: target for b, target in new_values(program, written).items() if target not in self.kept}
        self.handed_over = {i.result for i in items if isinstance(i, Product) and self.becomes_result(i.result)}

    def make(self) -> MemoryPlan:
        groups: dict[Buffer, list[Buffer]] = {}  # buffers of the arena by the one whose memory they take
        first: dict[Buffer, int] = {}
        end: dict[Buffer, int] = {}
        for i, item in enumerate(self.items):
            if isinstance(item, Product) and self.in_arena(item.result):
                groups[item.result], first[item.result], end[item.result] = [item.result], i, self.last[item.result]
            if isinstance(item, Call) and item.changes is not None:
                self.plan.written.update((r, self.input_of(item.changes)) for r in item.results if r is not None)
            if not isinstance(item, Kernel):
                continue
            taken: set[Buffer] = set(item.after.operands()) if item.after is not None else set()
            for b in item.results():
                if b in item.inner:
                    continue
                old = self.memory_for(i, item, b, taken)
                if old is not None:
                    taken.add(old)
                    self.plan.shared.setdefault(item, set()).update((b, old))
                if b in self.plan.written:
                    continue
                if not self.in_arena(b):
                    if old is not None:
                        self.plan.reused[b] = old
                    continue
                head = next((h for h, g in groups.items() if old in g), b) if old is not None else b
                groups.setdefault(head, []).append(b)
                first.setdefault(head, i)
                end[head] = self.last[b]
        self.place(groups, first, end)
        return self.plan

    def becomes_result(self, b: Buffer) -> bool:
        """Whether the kernel that a product ends in may write a result of the program over it."""
        end = self.items[self.last[b]]
        return isinstance(end, Kernel) and any(
            r in self.kept and reads_where_it_writes(end, b, r, self.program.known) for r in end.results()
        )

    def input_of(self, b: Buffer) -> Buffer:
        """The input in whose memory a value lies."""
        return self.plan.written.get(b, b)

    def in_arena(self, b: Buffer) -> bool:
        elsewhere = b in self.kept or b in self.called or b in self.handed_over
        size = nbytes(b)
        return not elsewhere and size is not None and (size < LARGE or self.keeps_arena)

    def memory_for(self, i: int, kernel: Kernel, b: Buffer, taken: set[Buffer]) -> Buffer | None:
        """A buffer that ends in this kernel and that b may be written over."""
        known = self.program.known
        part = next((loop.part for loop in kernel.loops if b in loop.results), None)
        if part is not None:
            self.plan.written[b] = self.input_of(part.buffer)
            return part.buffer
        target = self.targets.get(b)
        if target is not None:
            # What lay there so far.
            values = {target, *(v for v, place in self.plan.written.items() if place is target)}
            seen = {r for r in kernel.reads() - values if target in self.bases.get(r, ())}
            read_later = any(self.last.get(v, -1) > i for v in values) or bool(values & taken) or bool(seen)
            read = values & kernel.reads() or {target}
            if not read_later and all(reads_where_it_writes(kernel, v, b, known) for v in read):
                self.plan.written[b] = target
                self.plan.shared.setdefault(kernel, set()).update(read)
                return target
        taken = taken.union(*(self.bases.get(r, ()) for r in kernel.reads()))  # they are read through views
        for old in sorted(kernel.reads() - kernel.inner - taken, key=lambda x: x.name):
            own = old.producer is not None and old not in self.plan.written
            mine = own and old not in self.kept and self.last[old] == i
            if mine and self.in_arena(old) == self.in_arena(b) and reads_where_it_writes(kernel, old, b, known):
                return old
        return None

    def place(self, groups: dict[Buffer, list[Buffer]], first: dict[Buffer, int], end: dict[Buffer, int]) -> None:
        """Offsets: the largest first, each as low as what lives at the same time allows."""
        placed: list[tuple[int, int, int, int]] = []  # offset, past, first, end
        for head in sorted(groups, key=lambda h: (-(nbytes(h) or 0), first[h], h.name)):
            size = -(-(nbytes(head) or 0) // ALIGNMENT) * ALIGNMENT
            at = 0
            for low, past, begins, ends in sorted(placed):
                if begins <= end[head] and first[head] <= ends and low < at + size and at < past:
                    at = past
            placed.append((at, at + size, first[head], end[head]))
            for b in groups[head]:
                self.plan.offsets[b] = at
            self.plan.arena = max(self.plan.arena, at + size)


def plan_memory(
    program: Program, items: Sequence[Item], written: Mapping[int, int] | None = None, keeps_arena: bool = False
) -> MemoryPlan:
    """`written`: which outputs are new values of which inputs, and may be written there. `keeps_arena`: between calls, for all sizes."""
    return Planner(program, items, written or {}, keeps_arena).make()
