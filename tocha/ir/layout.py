"""How elements lie in memory: strides of new tensors, and what strides say, on ints and on symbols alike.

csrc/core/tensor.cpp and csrc/dispatch/pointwise.cpp are the native counterparts; tests/test_facts.py holds them together.
Comparisons that follow from sizes being at least 2 cost no guard; products of sizes are compared so (tocha.ir.assumptions).
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any

from tocha.ir.sym_types import Symbolic, sym_max


class MemoryFormat(enum.Enum):
    """The order of dims in memory; `preserve_format` is the order of another tensor's."""

    contiguous_format = "contiguous_format"
    preserve_format = "preserve_format"
    channels_last = "channels_last"
    channels_last_3d = "channels_last_3d"

    @property
    def rank(self) -> int | None:
        """The number of dims it is defined for; None for any."""
        return {"channels_last": 4, "channels_last_3d": 5}.get(self.value)


Sizes = Sequence[Any]


def product(sizes: Sizes) -> Any:
    n: Any = 1
    for s in sizes:
        n = n * s
    return n


def same_sizes(a: Sizes, b: Sizes) -> bool:
    """Whether these are the same sizes without asking anything of symbols; equal ones may go unnoticed."""
    return a is b or (len(a) == len(b) and all([x is y or _same(x, y) for x, y in zip(a, b, strict=True)]))


def _same(x: Any, y: Any) -> bool:
    if isinstance(x, Symbolic):
        return isinstance(y, Symbolic) and x.expr is y.expr
    return not isinstance(y, Symbolic) and x == y


def contiguous_strides(sizes: Sizes) -> list[Any]:
    return strides_in_order(sizes, range(len(sizes) - 1, -1, -1))


def strides_in_order(sizes: Sizes, order: Sequence[int]) -> list[Any]:
    """Dense strides with the dims of `order` from the innermost on."""
    strides: list[Any] = [0] * len(sizes)
    step: Any = 1
    for d in order:
        strides[d] = step
        n = sizes[d]
        step = step * (n if type(n) is int and n > 0 else sym_max(n, 1))
    return strides


def dense_order(sizes: Sizes, strides: Sizes) -> list[int] | None:
    """The dims of a dense tensor from the innermost on, by the numbers at hand: strides_in_order gives its strides. None where there
    are no numbers, or it is not dense."""
    counts, steps = ([n if isinstance(n, int) else n.node.hint for n in v] for v in (sizes, strides))
    if None in (*counts, *steps):
        return None
    order = sorted(range(len(sizes) - 1, -1, -1), key=lambda d: (steps[d], counts[d] != 1))
    found = strides_in_order(counts, order)
    return order if all(n == 1 or a == b for n, a, b in zip(counts, found, steps, strict=True)) else None


def has_gaps(sizes: Sizes, strides: Sizes) -> bool:
    """Whether elements lie apart, each in a place of its own, by the numbers at hand: a new tensor like it would be dense."""
    counts, steps = ([n if isinstance(n, int) else n.node.hint for n in v] for v in (sizes, strides))
    if None in (*counts, *steps) or 0 in counts:
        return False
    end, gap = 0, False
    for step, n in sorted((step, n) for step, n in zip(steps, counts, strict=True) if n > 1):
        if step <= end:
            return False
        gap, end = gap or step > end + 1, end + (n - 1) * step
    return gap


def format_strides(sizes: Sizes, format: MemoryFormat | None) -> list[Any]:
    rank = format.rank if format is not None else None
    if rank is None:
        return contiguous_strides(sizes)
    assert format is not None
    if len(sizes) != rank:
        raise RuntimeError(f"required rank {rank} tensor to use {format.value} format")
    return strides_in_order(sizes, [1, *range(rank - 1, 1, -1), 0])


def is_contiguous(sizes: Sizes, strides: Sizes, format: MemoryFormat | None = None) -> bool:
    """Whether every element lies where a new tensor of this shape and format would have it."""
    if format is not None and format.rank is not None and format.rank != len(sizes):
        return False
    if any(s == 0 for s in sizes if isinstance(s, int)):
        return True
    expected = format_strides(sizes, format)
    return all(have == want or size == 1 for size, have, want in zip(sizes, strides, expected, strict=True))


def is_dense(sizes: Sizes, strides: Sizes) -> bool:
    """Whether elements fill a stretch of memory without holes and none lies twice, in whatever order of dims."""
    if is_contiguous(sizes, strides):
        return True
    order = [i for i, s in enumerate(sizes) if s != 1]
    _insertion_sort(order, lambda a, b: _compare(strides[a], strides[b]))
    expected: Any = 1
    for d in order:
        if strides[d] != expected:
            return False
        expected = expected * sizes[d]
    return True


def _compare(a: Any, b: Any) -> int:
    return 0 if a == b else -1 if a < b else 1


def suggested_format(sizes: Sizes, strides: Sizes) -> MemoryFormat:
    """channels_last where the dims are laid out so."""
    for format in (MemoryFormat.channels_last, MemoryFormat.channels_last_3d):
        if len(sizes) == format.rank and _in_channel_order(sizes, strides):
            return format
    return MemoryFormat.contiguous_format


def _in_channel_order(sizes: Sizes, strides: Sizes) -> bool:
    """Channels innermost, then the spatial dims from last to first, then the batch."""
    if strides[1] == 0:
        return False
    least: Any = 0
    for d in (1, *range(len(sizes) - 1, 1, -1), 0):
        if sizes[d] == 0 or strides[d] < least or (d == 0 and least == strides[1]):
            return False
        least = strides[d] * sizes[d] if sizes[d] > 1 else strides[d]
    return True


def like_strides(sizes: Sizes, strides: Sizes, format: MemoryFormat | None = MemoryFormat.preserve_format) -> list[Any]:
    """Strides of a new tensor in the layout of another."""
    if format is not None and format is not MemoryFormat.preserve_format:
        return format_strides(sizes, format)
    if is_dense(sizes, strides):
        return list(strides)
    return ordered_strides(sizes, [strides])  # the order of dims by stride, without holes


def _insertion_sort(order: list[int], compare: Callable[[int, int], int]) -> None:
    """Stable, and defined for comparisons that are no total order."""
    for i in range(1, len(order)):
        at = i
        while at > 0 and compare(order[at - 1], order[at]) > 0:
            order[at - 1], order[at] = order[at], order[at - 1]
            at -= 1


def result_strides(sizes: Sizes, operands: Sequence[tuple[Sizes, Sizes]]) -> list[Any]:
    """The layout of an elementwise result: the one its operands (sizes and strides) agree on; else dims are ordered by
    the operands' strides, the first operand deciding before the next."""
    sizes = list(sizes)
    dimensioned = [(list(s), list(t)) for s, t in operands if len(s)]
    if not sizes or not dimensioned:
        return contiguous_strides(sizes)
    if all(same_sizes(s, sizes) for s, _ in dimensioned):
        plain = contiguous_strides(sizes)
        if all(same_sizes(t, plain) for _, t in dimensioned):
            return plain
        # Beside a number the strides of dims of size one count, as they do where operands differ in shape.
        common = _common_strides(sizes, [t for _, t in dimensioned]) if len(dimensioned) == len(operands) else None
        if common is not None:
            return common
    n = len(sizes)

    def step(s: list[Any], t: list[Any], d: int) -> Any:
        lead = n - len(s)
        return 0 if d < lead or (s[d - lead] == 1 and sizes[d] != 1) else t[d - lead]

    return ordered_strides(sizes, [[step(s, t, d) for d in range(n)] for s, t in dimensioned])


def ordered_strides(sizes: Sizes, operands: Sequence[Sizes]) -> list[Any]:
    """A layout without holes whose dims are ordered by the strides of operands, the first one deciding before the next."""

    def compare(a: int, b: int) -> int:  # > 0: a belongs outside b
        for t in operands:
            x, y = t[a], t[b]
            if x == 0 or y == 0:
                continue
            if x != y:
                return -1 if x < y else 1
            if sizes[a] > sizes[b]:
                return 1
        return 0

    order = list(range(len(sizes) - 1, -1, -1))
    for i in range(1, len(sizes)):
        at = i
        for j in range(i - 1, -1, -1):
            c = compare(order[j], order[at])
            if c > 0:
                order[j], order[at] = order[at], order[j]
                at = j
            elif c < 0:
                break
    if order == list(range(len(sizes) - 1, -1, -1)):
        return contiguous_strides(sizes)
    strides: list[Any] = [0] * len(sizes)
    step: Any = 1
    for d in order:
        strides[d] = step
        step = step * sizes[d]  # what lies outside of an empty dim has stride 0
    return strides


def _common_strides(sizes: Sizes, strides: Sequence[Sizes]) -> list[Any] | None:
    """The layout that operands of one shape agree on, if they do."""
    for format in (MemoryFormat.contiguous_format, MemoryFormat.channels_last):
        if all(is_contiguous(sizes, t, format) for t in strides):
            return format_strides(sizes, format)
    if all(same_sizes(t, strides[0]) for t in strides) and is_dense(sizes, strides[0]):
        return list(strides[0])
    return None


def joined_strides(sizes: Sizes, parts: Sequence[tuple[Sizes, Sizes]]) -> list[Any]:
    """The layout of a join: channels_last when every part is laid out so."""
    formats = {suggested_format(s, t) for s, t in parts}
    return format_strides(sizes, formats.pop() if len(formats) == 1 else MemoryFormat.contiguous_format)
