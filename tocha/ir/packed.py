"""Primitives that are computed on packs of float32 (csrc/cpu/engine/program_packs.h)."""

from __future__ import annotations

from collections.abc import Sequence

from tocha.ir import dtypes as dt
from tocha.ir import scalar
from tocha.ir.node import CONSTANT, INPUT, OUTPUT, PARAM, Cost, Node, topological

# What the header has: scalar forms of it are arithmetic, comparison and choice on float32.
PACKED = frozenset({
    scalar.add, scalar.sub, scalar.mul, scalar.div, scalar.neg, scalar.reciprocal, scalar.absolute, scalar.sqrt, scalar.rsqrt,
    scalar.copysign, scalar.maximum, scalar.minimum, scalar.fmax, scalar.fmin, scalar.clamp, scalar.clamp_min, scalar.clamp_max,
    scalar.relu, scalar.where, scalar.eq, scalar.ne, scalar.lt, scalar.le, scalar.gt, scalar.ge, scalar.isnan,
    scalar.bitwise_and, scalar.bitwise_or, scalar.bitwise_xor, scalar.bitwise_not,
    scalar.exp, scalar.exp_below_zero, scalar.expm1, scalar.log, scalar.log1p, scalar.tanh, scalar.sigmoid, scalar.erf,
    scalar.exp2, scalar.log2, scalar.log10, scalar.sin, scalar.cos,
})  # fmt: skip
# What packs have lane by lane: no reason to go by them, and none against it.
LANEWISE = frozenset({
    scalar.floor, scalar.ceil, scalar.trunc, scalar.round, scalar.sinh, scalar.cosh, scalar.asin, scalar.acos, scalar.atan,
})  # fmt: skip
# Compilers turn a choice around, and then compare in ways that mind NaNs.
CHOICES = frozenset({
    scalar.where, scalar.relu, scalar.maximum, scalar.minimum, scalar.fmax, scalar.fmin, scalar.clamp, scalar.clamp_min,
    scalar.clamp_max,
})  # fmt: skip


def goes_on_packs(nodes: Sequence[Node]) -> bool | None:
    """Whether formulas gain by packs: a compiler does well on arithmetic. None if they cannot be computed on them."""
    varying: set[Node] = set()
    gains = False
    for n in topological(nodes):
        if n.op in (CONSTANT, PARAM) or (n.args and not any(a in varying for a in n.args)):
            continue
        leaf = n.op in (INPUT, OUTPUT)
        if n.dtype not in (dt.float32, dt.bool_) or (leaf and n.dtype is dt.bool_):
            return None
        if not leaf and (n.op not in PACKED | LANEWISE or (n.op is scalar.where and n.dtype is not dt.float32)):
            return None
        varying.add(n)
        gains |= (n.op in PACKED and n.op.cost is Cost.EXPENSIVE) or n.op in CHOICES
    return gains if all(n.dtype is dt.float32 for n in nodes) else None
