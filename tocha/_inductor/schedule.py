"""Loops to kernels: elementwise loops dissolve into their readers, reductions over the same rows share a kernel.

A kernel walks rows; for each row it runs its loops over the columns, so that a row is read from memory once
and from cache after that. A reduction over everything is cut in two: one state per row, then the rows.
"""

from __future__ import annotations

from dataclasses import replace

from tocha.ir import scalar
from tocha.ir.loops import Buffer, Kernel, Load, Loop, verify
from tocha.ir.rewrite import simplify
from tocha.operators.record import Fold


def product(sizes: tuple[int, ...]) -> int:
    n = 1
    for s in sizes:
        n *= s
    return n


def row_dims(loop: Loop) -> int:
    """How many leading dims are rows: all but the reduced ones, which must be trailing."""
    n = len(loop.sizes)
    if not loop.is_reduction:
        return n - 1 if n else 0
    first = min(loop.reduced, default=n)
    if loop.reduced != frozenset(range(first, n)):
        raise NotImplementedError(
            f"{loop.name}: only trailing dims are reduced so far, got {sorted(loop.reduced)} of {n}"
        )
    return first


def split_full(loop: Loop) -> list[Loop]:
    """A reduction over all dims as one over the last dim and one over the rest."""
    fold: Fold = loop.fold
    if len(loop.sizes) < 2 or len(loop.reduced) != len(loop.sizes) or len(fold.state_types) != 1:
        return [loop]
    partial_fold = replace(fold, finish=lambda s, n: s, out_types=fold.state_types)
    state = loop.formula.dtype
    partial = replace(
        loop,
        name=loop.name + "_rows",
        dtype=state,
        fold=partial_fold,
        reduced=frozenset({len(loop.sizes) - 1}),
        users=[],
    )
    total = loop.numel
    final_fold = replace(
        fold,
        combine=lambda s, x, i: fold.merge(s, x),
        finish=lambda s, n: fold.finish(s, scalar.constant(total, n.dtype)),
    )
    rows = partial.out_sizes
    strides = [1] * len(rows)
    for d in reversed(range(len(rows) - 1)):
        strides[d] = strides[d + 1] * rows[d + 1]
    element = scalar.Input(0, state)
    final = Loop(
        loop.name,
        rows,
        loop.dtype,
        (Load(partial, tuple(strides)),),
        element,
        fold=final_fold,
        reduced=frozenset(range(len(rows))),
        keepdim=False,
    )
    return [partial, final]


class Inliner:
    """Rewrites a loop so that it reads only memory and reductions: producers' formulas are composed into it."""

    def __init__(self, stored: dict[Loop, Loop]):
        self.stored = stored  # original loop -> the loop that computes it (after inlining and splitting)

    def __call__(self, loop: Loop) -> Loop:
        loads: list[Load] = []
        nodes = {}
        for i, read in enumerate(loop.loads):
            nodes[scalar.Input(i, read.source.dtype)] = self.node(read, loads)
        (formula,) = scalar.substitute((loop.formula,), nodes)
        return replace(loop, loads=tuple(loads), formula=simplify((formula,))[0], users=[])

    def node(self, read: Load, loads: list[Load]) -> scalar.Node:
        source = read.source
        if isinstance(source, Loop) and source in self.stored:
            source = self.stored[source]
        elif isinstance(source, Loop):
            inner = {}
            lead = len(read.strides) - len(source.sizes)
            for i, deeper in enumerate(source.loads):
                strides = tuple(
                    0
                    if d < lead or (read.strides[d] == 0 and source.sizes[d - lead] == 1)
                    else deeper.strides[d - lead]
                    for d in range(len(read.strides))
                )
                inner[scalar.Input(i, deeper.source.dtype)] = self.node(replace(deeper, strides=strides), loads)
            return scalar.substitute((source.formula,), inner)[0]
        wanted = replace(read, source=source)
        for i, have in enumerate(loads):
            if have.source is wanted.source and have.strides == wanted.strides and have.offset == wanted.offset:
                return scalar.Input(i, source.dtype)
        loads.append(wanted)
        return scalar.Input(len(loads) - 1, source.dtype)


def schedule(outputs: list[Loop], order: list[Loop]) -> list[Kernel]:
    """Kernels that compute `outputs`; `order` lists all loops, producers first."""
    stored: dict[Loop, Loop] = {}
    inline = Inliner(stored)
    wanted = set(outputs)
    roots: list[Loop] = []
    for loop in order:
        if not loop.is_reduction and loop not in wanted:
            continue
        parts = split_full(loop) if loop.is_reduction else [loop]
        for k, part in enumerate(parts):
            done = inline(part)
            roots.append(done)
            if len(parts) > 1 and k == 0:
                stored[part] = done
        stored[loop] = roots[-1]
    finals = {stored[o] for o in outputs}
    groups: list[list[Loop]] = []
    for loop in roots:
        space = (product(loop.sizes[: row_dims(loop)]), product(loop.sizes[row_dims(loop) :]))
        if groups and fits(groups[-1], loop, space):
            groups[-1].append(loop)
        else:
            groups.append([loop])
    kernels = []
    for i, group in enumerate(groups):
        later = {load.source for g in groups[i + 1 :] for loop in g for load in loop.loads}
        first = group[0]
        rows, columns = product(first.sizes[: row_dims(first)]), product(first.sizes[row_dims(first) :])
        written = tuple(loop for loop in group if loop in finals or loop in later)
        kernels.append(Kernel(f"kernel_{i}", rows, columns, tuple(group), written))
    verify(kernels)
    return kernels


def fits(group: list[Loop], loop: Loop, space: tuple[int, int]) -> bool:
    """Whether loop can run in the group's kernel: the same rows and columns, and of the group's results it reads
    only reductions of its own row."""
    first = group[0]
    n = row_dims(first)
    if space != (product(first.sizes[:n]), product(first.sizes[n:])):
        return False
    for load in loop.loads:
        if load.source in group:
            source = load.source
            assert isinstance(source, Loop)
            own_row = source.is_reduction and all(s == 0 for s in load.strides[row_dims(loop) :])
            if not own_row:
                return False
    return True


__all__ = ["Buffer", "schedule"]
