"""Primitives that are computed on packs of float32 (csrc/cpu/engine/program_packs.h)."""

from __future__ import annotations

from collections.abc import Sequence

from tocha.ir import dtypes as dt
from tocha.ir import scalar
from tocha.ir.node import CONSTANT, INPUT, OUTPUT, PARAM, Cost, Node, topological

# What the header has: scalar forms of it are arithmetic, comparison and choice on float32.
PACKED = frozenset({
    scalar.add, scalar.sub, scalar.mul, scalar.madd, scalar.div, scalar.neg, scalar.reciprocal, scalar.absolute, scalar.sqrt, scalar.rsqrt,
    scalar.copysign, scalar.maximum, scalar.minimum, scalar.fmax, scalar.fmin, scalar.clamp, scalar.clamp_min, scalar.clamp_max,
    scalar.relu, scalar.where, scalar.eq, scalar.ne, scalar.lt, scalar.le, scalar.gt, scalar.ge, scalar.isnan,
    scalar.bitwise_and, scalar.bitwise_or, scalar.bitwise_xor, scalar.bitwise_not,
    scalar.exp, scalar.exp_below_zero, scalar.expm1, scalar.log, scalar.log1p, scalar.tanh, scalar.sigmoid, scalar.erf,
    scalar.gelu, scalar.exp2, scalar.log2, scalar.log10, scalar.sin, scalar.cos,
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


COMPARISONS = frozenset({scalar.eq, scalar.ne, scalar.lt, scalar.le, scalar.gt, scalar.ge})


def goes_on_packs(nodes: Sequence[Node], masks: bool = False) -> bool | None:
    """Whether formulas gain by packs: a compiler does well on arithmetic. None if they cannot be computed on them.

    With `masks`, inputs may also be truths, and positions (int64) that are compared with what does not vary.
    """
    varying: set[Node] = set()
    gains = False
    for n in topological(nodes):
        if n.op in (CONSTANT, PARAM) or (n.args and not any(a in varying for a in n.args)):
            continue
        leaf = n.op in (INPUT, OUTPUT)
        if leaf and n.dtype is not dt.float32 and not (masks and n.dtype in (dt.bool_, dt.int64)):
            return None
        if not leaf and not (n.op in PACKED | LANEWISE or (masks and n.op is scalar.CAST)):
            return None
        if not leaf and not on_packs(n, varying):
            return None
        varying.add(n)
        gains |= (n.op in PACKED and n.op.cost is Cost.EXPENSIVE) or n.op in CHOICES
    return gains if all(n.dtype is dt.float32 for n in nodes) else None


def on_packs(n: Node, varying: set[Node]) -> bool:
    """Whether an operation's operands are of types that packs have it for."""
    if n.op in COMPARISONS and dt.int64 in (
        a.dtype for a in n.args
    ):  # a position beside what is the same for all lanes
        return sum(a in varying for a in n.args) == 1
    if n.op is scalar.CAST:
        return n.args[0].dtype is dt.bool_ and n.dtype is dt.float32
    if n.op is scalar.where and n.dtype is not dt.float32:
        return False
    return n.dtype in (dt.float32, dt.bool_) and all(a.dtype in (dt.float32, dt.bool_) for a in n.args)
