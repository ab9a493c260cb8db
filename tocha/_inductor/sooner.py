"""Kernels and products that end more memory than they make run as soon as they can: what they read need not wait for other work."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tocha.ir import symbolic as s
from tocha.ir.kernels import Item, Kernel
from tocha.ir.loops import Bindings, Buffer, Call, Followed, Step
from tocha.ir.memory import nbytes, used

Unit = list[Item]  # what stays together: a product and the kernel that follows it row by row


def sooner(items: Sequence[Item], kept: set[Buffer], bindings: Bindings) -> list[Item]:
    """Items in an order that their values allow. `kept` outlives the program: results, and inputs that the caller keeps."""
    return Order(list(units(items)), kept, bindings).run()


def units(items: Sequence[Item]) -> Iterator[Unit]:
    unit: Unit = []
    for item in items:
        if unit and not (isinstance(item, Kernel) and item.after is not None):
            yield unit
            unit = []
        unit.append(item)
    if unit:
        yield unit


class Order:
    def __init__(self, given: list[Unit], kept: set[Buffer], bindings: Bindings):
        self.units, self.kept, self.bindings = given, kept, bindings
        self.used = [{b for item in unit for b in used(item)} for unit in given]
        self.made = [{b for item in unit for b in made_by(item)} for unit in given]
        self.users: dict[Buffer, set[int]] = {}  # of those that have not run
        self.waits_for: list[set[int]] = []
        self.done: list[int] = []
        self.find_edges()

    def find_edges(self) -> None:
        makers: dict[Buffer, int] = {}
        written: dict[Buffer, int] = {}  # by the last call that may have changed it
        bound: dict[s.Atom, int] = {}
        for i, unit in enumerate(self.units):
            for b in self.used[i]:
                self.users.setdefault(b, set()).add(i)
            needed = {bound[a] for item in unit for a in self.bindings.needed(steps_of(item)) if a in bound}
            self.waits_for.append(needed | {m[b] for m in (makers, written) for b in self.used[i] if b in m})
            bound.update((a, i) for item in unit if isinstance(item, Call) for a in item.binds)
            makers.update(dict.fromkeys(self.made[i], i))
            if any(isinstance(item, Call) and item.ordered for item in unit):
                written.update(dict.fromkeys(self.used[i], i))

    def run(self) -> list[Item]:
        ran: set[int] = set()
        for i in range(len(self.units)):
            ready = [i]
            while ready:
                j = ready.pop(0)
                if j in ran:
                    continue
                ran.add(j)
                self.done.append(j)
                for b in self.used[j]:
                    self.users[b].discard(j)
                near = {k for b in self.used[j] | self.made[j] for k in self.users[b]}
                ready += [k for k in sorted(near) if self.waits_for[k] <= ran and self.pays(k)]
        return [item for i in self.done for item in self.units[i]]

    def pays(self, i: int) -> bool:
        """Whether a kernel or a product ends more bytes than it makes."""
        if not all(isinstance(x, Followed) or (isinstance(x, Kernel) and not x.in_place) for x in self.units[i]):
            return False
        ended = [b for b in self.used[i] - self.made[i] if self.users[b] == {i} and b not in self.kept]
        sizes = [nbytes(b) for b in (*ended, *self.made[i])]
        if None in sizes:
            return False
        return sum(n or 0 for n in sizes[: len(ended)]) > sum(n or 0 for n in sizes[len(ended) :])


def steps_of(item: Item) -> Sequence[Step]:
    return item.loops if isinstance(item, Kernel) else [item]


def made_by(item: Item) -> list[Buffer]:
    if isinstance(item, Kernel):
        return [b for b in item.results() if b not in item.inner]
    return [b for b in item.results if b is not None]
