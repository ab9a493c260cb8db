"""The size that a ragged dimension has: a symbol (`j1`) that equals itself only. One belongs to each tensor of offsets."""

from __future__ import annotations

import itertools
from typing import Any

from tocha import _C
from tocha._symbolic import SymInt  # tells native code of such sizes
from tocha.ir import symbolic

Tensor = _C.Tensor
_numbers = itertools.count(1)
_FAR = (
    1 << 40
)  # a ragged size stands for many lengths: it equals no number, and is greater than those that programs ask about


class _Lengths:
    """Who answers for ragged sizes, in place of an environment of symbolic shapes: nothing is guarded, nothing has a hint."""

    def simplify(self, expr: Any) -> Any:
        return expr

    def decide(self, relation: Any) -> bool:
        atoms = symbolic.free_symbols(relation)
        return bool(symbolic.evaluate(relation, {a: _FAR + n for n, a in enumerate(sorted(atoms, key=str))}))

    def specialize(self, expr: Any) -> int:
        raise AttributeError(
            f"[int] a ragged size ({expr}) stands for several lengths and is no int: object has no attribute 'int_'"
        )


_lengths: Any = _Lengths()


def ragged_size(offsets: Tensor) -> SymInt:
    """The size of a dimension with these offsets: the same for the same tensor."""
    found = offsets.__dict__.get("_ragged_size")
    if found is None:
        found = SymInt(symbolic.symbol(f"j{next(_numbers)}"), _lengths)
        offsets._ragged_size = found  # type: ignore[attr-defined]
    return found
