"""The loop IR: what operators become on the way to fused kernels.

A `Loop` computes one value over a rectangular range. Its body is a scalar formula whose inputs are
`Load`s from buffers or from other loops; a reduction also has a `Fold` and the dims it folds. The
scheduler groups loops into `Kernel`s, and tocha/codegen prints those.

    >>> from tocha.ir import dtypes as dt
    >>> x = Buffer("x", (4, 8), dt.float32)
    >>> y = Loop("y", (4, 8), dt.float32, (Load(x, strides=(8, 1)),), formula=None)
    >>> y.numel
    32
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tocha.ir.dtypes import DType


@dataclass(frozen=True, eq=False)
class Buffer:
    """Memory with a name: a graph input, or a result that some kernel writes."""

    name: str
    sizes: tuple[int, ...]
    dtype: DType

    @property
    def numel(self) -> int:
        n = 1
        for s in self.sizes:
            n *= s
        return n


@dataclass(frozen=True, eq=False)
class Load:
    """One element per point of the loop: source[offset + sum(index[d] * strides[d])].

    The source is a Buffer, or a Loop: then the value at the point with the same coordinates, where a
    stride of 0 marks a dim the source is broadcast along.
    """

    source: Buffer | Loop
    strides: tuple[int, ...]
    offset: int = 0


@dataclass(frozen=True, eq=False)
class Loop:
    """A value over `sizes`: `outputs` formulas of loads; `fold` if the dims in `reduced` are folded away."""

    name: str
    sizes: tuple[int, ...]  # the iteration space, reduced dims included
    dtype: DType
    loads: tuple[Load, ...]
    formula: Any  # a scalar Node over Input(i) = loads[i]
    params: tuple[float, ...] = ()
    fold: Any = None  # operators.record.Fold
    reduced: frozenset[int] = frozenset()
    keepdim: bool = False
    users: list[Loop] = field(default_factory=list)

    @property
    def is_reduction(self) -> bool:
        return self.fold is not None

    @property
    def out_sizes(self) -> tuple[int, ...]:
        if not self.is_reduction:
            return self.sizes
        return tuple(
            1 if d in self.reduced else s for d, s in enumerate(self.sizes) if self.keepdim or d not in self.reduced
        )

    @property
    def numel(self) -> int:
        n = 1
        for s in self.sizes:
            n *= s
        return n


@dataclass(frozen=True, eq=False)
class Kernel:
    """Loops over one row space that run together: for each row, each loop in order over its columns."""

    name: str
    rows: int
    columns: int
    loops: tuple[Loop, ...]
    outputs: tuple[Loop, ...]  # which of them are written to memory


class VerificationError(Exception):
    """A program that breaks the loop IR's rules."""


def verify(kernels: list[Kernel]) -> None:
    """Every load reads a graph input, an earlier kernel's output, or an earlier loop of its own kernel."""
    written: set[Loop] = set()
    for k in kernels:
        inside: set[Loop] = set()
        for loop in k.loops:
            for load in loop.loads:
                if isinstance(load.source, Loop) and load.source not in written and load.source not in inside:
                    raise VerificationError(f"{k.name}: {loop.name} reads {load.source.name} before it is computed")
                if len(load.strides) != len(loop.sizes):
                    raise VerificationError(
                        f"{k.name}: {loop.name} has {len(loop.sizes)} dims, its load {len(load.strides)}"
                    )
            inside.add(loop)
        missing = [o.name for o in k.outputs if o not in inside]
        if missing:
            raise VerificationError(f"{k.name}: writes {missing} without computing them")
        written |= set(k.outputs)


def show(kernels: list[Kernel]) -> str:
    """The program as indented text, one line per loop."""
    lines = []
    for k in kernels:
        lines.append(f"{k.name}: for row in range({k.rows}):")
        for loop in k.loops:
            reads = ", ".join(load.source.name for load in loop.loads)
            head = f"fold over {k.columns} columns" if loop.is_reduction else f"for column in range({k.columns})"
            stored = "  -> memory" if loop in k.outputs else ""
            lines.append(f"    {head}: {loop.name}: {loop.dtype.name} = {loop.formula}  reads {reads}{stored}")
    return "\n".join(lines)
