"""Kernels that do not need each other run as one: one start of the threads for many small ones, as over an optimizer's parameters."""

from __future__ import annotations

from collections.abc import Sequence

from tocha.ir.kernels import MANY, Item, Kernel
from tocha.ir.loops import Buffer

SMALL = 1 << 16  # elements; greater results are not made before their turn
MOST_PARTS = 512


def side_by_side(items: Sequence[Item], kept: set[Buffer]) -> list[Item]:
    """Items with the kernels between two calls or writes put together, as early as what they read allows. `kept` outlives the program."""
    out: list[Item] = []
    waiting: list[Kernel] = []
    for item in items:
        if isinstance(item, Kernel) and item.after is None and not item.in_place:
            waiting.append(item)
        else:
            out += [*together(waiting, kept), item]
            waiting = []
    return [*out, *together(waiting, kept)]


def together(kernels: Sequence[Kernel], kept: set[Buffer]) -> list[Kernel]:
    groups: list[list[Kernel]] = []
    made: dict[Buffer, int] = {}
    for k in kernels:
        first = max((made[b] + 1 for b in k.reads() if b in made), default=0)
        at = first if may_be_early(k, kept) else max(first, len(groups) - 1)
        while at < len(groups) and len(groups[at]) >= MOST_PARTS:
            at += 1
        if at == len(groups):
            groups.append([])
        groups[at].append(k)
        for b in k.results():
            made[b] = at
    return [g[0] if len(g) == 1 else joined(g) for g in groups]


def may_be_early(k: Kernel, kept: set[Buffer]) -> bool:
    """Whether memory for what a kernel makes may be there before it is needed."""
    sizes = [b.numel() for b in k.results() if b not in k.inner and b not in kept]
    return all(isinstance(n, int) for n in sizes) and sum(sizes) <= SMALL


def joined(parts: list[Kernel]) -> Kernel:
    members = [m for k in parts for m in k.members]
    return Kernel("", MANY, members, {b for k in parts for b in k.inner}, parts)
