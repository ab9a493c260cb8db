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
    scalar.gelu, scalar.exp2, scalar.log2, scalar.log10, scalar.sin, scalar.cos, scalar.tan, scalar.lgamma, scalar.digamma,
})  # fmt: skip
# What packs have lane by lane: no reason to go by them, and none against it.
LANEWISE = frozenset({
    scalar.floor, scalar.ceil, scalar.trunc, scalar.round, scalar.sinh, scalar.cosh, scalar.asin, scalar.acos, scalar.atan,
})  # fmt: skip
# The same for compiled graphs alone (csrc/cpu/engine/program_packs_lanes.h), whose formulas join several functions.
COMPILED_LANEWISE = frozenset({
    scalar.asinh, scalar.acosh, scalar.atanh, scalar.erfc, scalar.sign, scalar.pow, scalar.atan2, scalar.hypot, scalar.isinf,
    scalar.isfinite, scalar.erfinv, scalar.fmod, scalar.remainder, scalar.floordiv,
})  # fmt: skip
# Compilers turn a choice around, and then compare in ways that mind NaNs.
CHOICES = frozenset({
    scalar.where, scalar.relu, scalar.maximum, scalar.minimum, scalar.fmax, scalar.fmin, scalar.clamp, scalar.clamp_min,
    scalar.clamp_max,
})  # fmt: skip


COMPARISONS = frozenset({scalar.eq, scalar.ne, scalar.lt, scalar.le, scalar.gt, scalar.ge})


# What packs are read from and written to: as a pack, a number of the small types is the float that it stands for.
STORED = frozenset({dt.float32, dt.float16, dt.bfloat16})


def goes_on_packs(nodes: Sequence[Node], compiled: bool = False) -> bool | None:
    """Whether formulas gain by packs: a compiler does well on arithmetic. None if they cannot be computed on them.

    Formulas of compiled graphs may also read truths, small floats, and positions: as int64 they are compared with what does not vary, as
    int32 they become floats.
    """
    varying: set[Node] = set()
    gains = False
    leaves = STORED | {dt.bool_, dt.int32, dt.int64} if compiled else {dt.float32}
    able = PACKED | LANEWISE | ({*COMPILED_LANEWISE, scalar.CAST} if compiled else set())
    for n in topological(nodes):
        if n.op in (CONSTANT, PARAM) or (n.args and not any(a in varying for a in n.args)):
            continue
        leaf = n.op in (INPUT, OUTPUT)
        if leaf and n.dtype not in leaves:
            return None
        if not leaf and (n.op not in able or not on_packs(n, varying)):
            return None
        varying.add(n)
        gains |= (n.op in PACKED and n.op.cost is Cost.EXPENSIVE) or n.op in CHOICES or is_half_cast(n)
    results = STORED if compiled else {dt.float32}
    return gains if all(n.dtype in results for n in nodes) else None


def is_half_cast(n: Node) -> bool:
    """Whether a float16 is widened or rounded to, for which x86-64's compilers have no vectors of their own."""
    return n.op is scalar.CAST and dt.float16 in (n.dtype, n.args[0].dtype)


def on_packs(n: Node, varying: set[Node]) -> bool:
    """Whether an operation's operands are of types that packs have it for."""
    if n.op in COMPARISONS and dt.int64 in (
        a.dtype for a in n.args
    ):  # a position beside what is the same for all lanes
        return sum(a in varying for a in n.args) == 1
    if n.op is scalar.CAST:
        source = n.args[0].dtype
        return (source in (dt.bool_, dt.int32, *STORED) and n.dtype is dt.float32) or (
            source is dt.float32 and n.dtype in STORED
        )
    if n.op is scalar.where:
        return n.dtype in STORED
    return n.dtype in (dt.float32, dt.bool_) and all(a.dtype in (dt.float32, dt.bool_) for a in n.args)
