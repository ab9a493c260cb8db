"""Writes of one operator to tensors that share memory: what it writes to one of them shows in the others while it runs.

An operator of a program (`tocha.library`) may be given two views that overlap, or the same tensor twice; so may operators on lists.
New values of each by itself would each lack what was written to the other. The elements of one tensor may share memory too: windows that
overlap, to which `index_add_` adds. So a copy of the memory that they share is made, and the operator writes to views of that.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from tocha import _C
from tocha._functorch.synthetic_bases import extent, overlap
from tocha._library.custom_twins import LONGEST, twin_on_memory
from tocha._subclasses.history import NotFunctional
from tocha.fx import Node
from tocha.ir.shape_env import guard_or_false


class SharedWrite:
    """A node that writes. `members`: its tensors on memory where one that it writes to meets another, by where it stands among all arguments."""

    def __init__(self, functionalizer: Any, n: Node, given: dict[str, Any]):
        self.f, self.handle, self.given = functionalizer, n.target, given
        schema: Any = n.target._schema  # type: ignore[union-attr]
        self.leaves = {
            k * LONGEST + i: (a, v)
            for k, a in enumerate(schema._arguments)
            if a.name in given
            for i, v in enumerate(leaves(given[a.name]))
        }
        self.members: dict[int, Any] = {}
        tensors = [i for i, (a, v) in self.leaves.items() if isinstance(v, Node) and self.takes_part(a)]
        aliases = {i: alias for i in tensors if (alias := self.alias(i)) is not None}
        if len(tensors) > 1:
            self.members = self.meeting(aliases)
        for i, alias in aliases.items():
            if i not in self.members and self.leaves[i][0].is_write and self.f.written_on_memory(alias, self.handle):
                self.members[i] = alias

    def takes_part(self, a: Any) -> bool:
        """Whether an argument's memory matters: operators of the library say themselves what becomes of what they read and write."""
        return a.is_write or self.handle._namespace != "aten"

    def alias(self, i: int) -> Any:
        found = self.f.of.get(self.leaves[i][1])
        return found if hasattr(found, "storage") else None

    def meeting(self, aliases: dict[int, Any]) -> dict[int, Any]:
        by_memory: dict[int, list[int]] = {}
        for i, alias in aliases.items():
            by_memory.setdefault(id(alias.storage), []).append(i)
        groups = [group for group in by_memory.values() if len(group) > 1 and self.any_meet(group, aliases)]
        return {i: aliases[i] for group in groups for i in group}

    def any_meet(self, group: list[int], aliases: dict[int, Any]) -> bool:
        views = {i: self.f.read(aliases[i]) for i in group}
        extents = {i: extent(v) for i, v in views.items()}
        return any(
            i != j and not apart(extents[i], extents[j]) and meet(views[i], views[j])
            for i in group
            if self.leaves[i][0].is_write
            for j in group
        )

    def run(self) -> list[Any]:
        """Writes to all of them; returns the operator's own results."""
        storages = list({id(a.storage): a.storage for a in self.members.values()}.values())
        alone = [v for i, (a, v) in self.leaves.items() if a.is_write and isinstance(v, Node) and i not in self.members]
        form = twin_on_memory(self.handle, len(alone), len(storages))
        bases = [s.base for s in storages]
        places = [n for i, alias in self.members.items() for n in self.place(i, alias, storages)]
        found = self.f.traced(partial(form, **self.f.current(self.given)), bases, places)
        results = list(found) if isinstance(found, tuple) else [found]
        own = len(results) - len(alone) - len(bases)
        for node, value in zip(alone, results[own:], strict=False):
            self.f.written(self.f.of[node], value)
        for storage, base in zip(storages, results[own + len(alone) :], strict=True):
            storage.base = base
            storage.version += 1
        return results[:own]

    def place(self, i: int, alias: Any, storages: list[Any]) -> list[Any]:
        """How a tensor lies on the memory's value, as numbers."""
        view, base = self.f.read(alias), alias.storage.base
        begins = base.storage_offset()
        if view.itemsize != base.itemsize:
            if not guard_or_false(begins * base.itemsize % view.itemsize == 0):
                raise NotFunctional(
                    "[functionalize] a view as a wider type of memory that begins between two of its elements"
                )
            begins = begins * base.itemsize // view.itemsize
        return [
            i,
            storages.index(alias.storage),
            view.ndim,
            *view.shape,
            *view.stride(),
            view.storage_offset() - begins,
        ]


def leaves(value: Any) -> list[Any]:
    return [x for v in value for x in leaves(v)] if isinstance(value, list | tuple) else [value]


def apart(a: tuple[Any, Any], b: tuple[Any, Any]) -> bool:
    """Whether one stretch of memory is known to end before another begins."""
    return guard_or_false(a[1] <= b[0]) or guard_or_false(b[1] <= a[0])


def meet(a: _C.Tensor, b: _C.Tensor) -> bool:
    """Whether tensors may have an element in common."""
    known = all(type(n) is int for t in (a, b) for n in (*t.shape, *t.stride(), t.storage_offset()))
    return not known or overlap(a, b)
