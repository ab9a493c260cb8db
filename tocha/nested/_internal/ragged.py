"""The size that a ragged dimension has: a symbol (`j1`) that equals itself only. One belongs to each tensor of offsets."""

from __future__ import annotations

import itertools
import weakref
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


_known: dict[int, tuple[weakref.ref, SymInt]] = {}  # by the id of the offsets, as long as they live


def ragged_size(offsets: Tensor) -> SymInt:
    """The size of a dimension with these offsets: the same for the same tensor."""
    number = id(offsets)
    found = _known.get(number)
    if found is None or found[0]() is not offsets:
        size = SymInt(symbolic.symbol(f"j{next(_numbers)}"), _lengths)
        found = _known[number] = (weakref.ref(offsets, lambda _: _known.pop(number, None)), size)
    return found[1]
