"""Kernels: loops that run together, over common rows, points or lanes; made by the scheduler, printed by the code generators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tocha.ir import symbolic as s
from tocha.ir.assumptions import Assumptions
from tocha.ir.loops import Buffer, Call, Followed, Load, Loop

ROWS, POINTS, LANES, MANY = "rows", "points", "lanes", "many"
LANE_BLOCK = 512  # results that a lanes kernel folds side by side


@dataclass(eq=False)
class Member:
    """A loop in a kernel: which of its dims are rows, which columns, in the order in which they are gone through.

    With `inner`, the last of the rows is also the first of the columns: runs of so many of its elements are in one row.
    """

    loop: Loop
    rows: list[int]
    columns: list[int]
    inner: int | None = None

    @property
    def row_sizes(self) -> list[Any]:
        sizes = [self.loop.sizes[d] for d in self.rows]
        return sizes if self.inner is None else [*sizes[:-1], sizes[-1] // self.inner]

    @property
    def column_sizes(self) -> list[Any]:
        sizes = [self.loop.sizes[d] for d in self.columns]
        return sizes if self.inner is None else [self.inner, *sizes[1:]]

    def row_number(self, index: Sequence[Any]) -> Any:
        """Of the row in which a point of the loop lies."""
        places = [index[d] for d in self.rows]
        if self.inner is not None:
            places[-1] = s.floordiv(places[-1], self.inner)
        return counted(self.row_sizes, places)

    def row_start(self, row: int) -> list[int]:
        """The first point of a row; sizes are numbers."""
        index = [0] * len(self.loop.sizes)
        for d, n in zip(reversed(self.rows), reversed(self.row_sizes), strict=True):
            row, index[d] = divmod(row, n)
        if self.inner is not None:
            index[self.rows[-1]] *= self.inner
        return index

    def column_number(self, index: Sequence[Any]) -> Any:
        places = [index[d] for d in self.columns]
        if self.inner is not None:
            places[0] = s.mod(places[0], self.inner)
        return counted(self.column_sizes, places)

    def number(self, index: Sequence[Any]) -> Any:
        return s.add(s.mul(self.row_number(index), s.product(self.column_sizes)), self.column_number(index))


@dataclass(eq=False)
class Kernel:
    name: str
    kind: str
    members: list[Member]
    inner: set[Buffer] = field(default_factory=set)  # results that nobody outside reads
    parts: list[Kernel] = field(default_factory=list)  # of MANY: kernels that do not need each other, run as one
    after: Followed | None = None  # runs on rows of its result as they are finished; it is the item before

    @property
    def loops(self) -> list[Loop]:
        return [m.loop for m in self.members]

    @property
    def in_place(self) -> bool:
        """Whether it stores into memory whose old value others may have read: it keeps its place behind them."""
        return any(loop.part is not None for loop in self.loops)

    def results(self) -> list[Buffer]:
        return [b for loop in self.loops for b in loop.results]

    def reads(self) -> set[Buffer]:
        stored_into = {loop.part.buffer for loop in self.loops if loop.part is not None}
        return {load.buffer for loop in self.loops for load in loop.loads()} | stored_into

    def __repr__(self) -> str:
        return f"{self.name} ({self.kind}):\n" + "\n".join(f"  {loop!r}" for loop in self.loops)


def refine(a: Sequence[Any], b: Sequence[Any]) -> list[Any] | None:
    """The coarsest sizes of which both are products of neighbours; None if there are none."""
    left, right = [n for n in a if n != 1], [n for n in b if n != 1]
    out: list[Any] = []
    x = y = None
    while True:
        x = left.pop() if x is None and left else x
        y = right.pop() if y is None and right else y
        if x is None and y is None:
            return out[::-1]
        if x is None or y is None:
            return None
        if x is y or x == y:
            out.append(x)
            x = y = None
        elif isinstance(x, int) and isinstance(y, int) and x and y and x % y == 0:
            out.append(y)
            x = x // y
            y = None
        elif isinstance(x, int) and isinstance(y, int) and x and y and y % x == 0:
            out.append(x)
            y = y // x
            x = None
        else:
            # Sizes that are symbols: one is the other times something.
            over, under = s.exact_quotient(x, y) if y != 0 else None, s.exact_quotient(y, x) if x != 0 else None
            if isinstance(over, s.Expr) or (isinstance(over, int) and over > 1):
                out.append(y)
                x, y = over, None
            elif isinstance(under, s.Expr) or (isinstance(under, int) and under > 1):
                out.append(x)
                y, x = under, None
            else:
                return None


def linear(dims: Sequence[int], sizes: Sequence[Any], index: Sequence[Any]) -> Any:
    """The number of a point when some dims are counted through, the last fastest."""
    return counted([sizes[d] for d in dims], [index[d] for d in dims])


def counted(sizes: Sequence[Any], places: Sequence[Any]) -> Any:
    """The number of a point of a nest of these sizes, the last fastest."""
    number: Any = 0
    for n, i in zip(sizes, places, strict=True):
        number = s.add(s.mul(number, n), i)
    return number


def fold_count(loop: Loop) -> Any:
    """How many elements go into one result."""
    return loop.count if loop.count is not None else s.product(loop.sizes[len(loop.sizes) - loop.folded :])


def fold_number(loop: Loop, at: dict, known: Assumptions) -> Any:
    """The place of an element among those that go into its result."""
    found = loop.number
    if found is None:
        outer = len(loop.sizes) - loop.folded
        found = linear(range(outer, len(loop.sizes)), loop.sizes, loop.variables)
    return known.simplify(s.substitute(found, at))


def coefficient(address: Any, variable: Any) -> int | None:
    """How far apart neighbours along a variable lie; None if that varies."""
    atom = s.atom_of(variable) if isinstance(variable, s.Expr) else None
    if atom is None or atom not in s.free_symbols(address):
        return 0
    step = s.add(s.substitute(address, {atom: s.add(variable, 1)}), s.scale(address, -1))
    return step if isinstance(step, int) else None


def largest_loads(loop: Loop) -> list[Load]:
    loads = list(loop.loads())
    sizes = [b if isinstance(b := load.buffer.numel(), int) else 1 << 40 for load in loads]
    top = max(sizes, default=0)
    return [load for load, n in zip(loads, sizes, strict=True) if n == top]


MANY_LANES = 8  # results side by side, for which what they share is read once


def folds_lanes(loop: Loop) -> bool:
    """Whether neighbours in memory belong to different results."""
    outer = len(loop.sizes) - loop.folded
    if outer == 0 or not loop.folded:
        return False
    last, n = outer - 1, loop.sizes[outer - 1]
    loads = largest_loads(loop)
    along = [coefficient(load.address, loop.variables[last]) for load in loads]
    if any(along) and any(
        not isinstance(load.buffer.numel(), int) for load in loads
    ):  # nobody knows which is the largest
        loads = [load for load, step in zip(loads, along, strict=True) if step != 0]
        along = [step for step in along if step != 0]
    if along and not any(along) and not (isinstance(n, int) and n < MANY_LANES):  # one number for all results of a row
        loads = [load for load in loop.loads() if coefficient(load.address, loop.variables[last]) != 0]
        along = [coefficient(load.address, loop.variables[last]) for load in loads]
    across = [coefficient(load.address, v) for load in loads for v in loop.variables[outer:]]
    return bool(loads) and all(a == 1 for a in along) and 1 not in across and not (isinstance(n, int) and n < 4)


Item = Kernel | Call
