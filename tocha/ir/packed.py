"""Primitives that are computed on packs of float32 (csrc/cpu/engine/program_packs.h)."""

from __future__ import annotations

from tocha.ir import scalar

# What the header has: scalar forms of it are arithmetic, comparison and choice on float32.
PACKED = frozenset({
    scalar.add, scalar.sub, scalar.mul, scalar.div, scalar.neg, scalar.reciprocal, scalar.absolute, scalar.sqrt, scalar.rsqrt,
    scalar.copysign, scalar.maximum, scalar.minimum, scalar.fmax, scalar.fmin, scalar.clamp, scalar.clamp_min, scalar.clamp_max,
    scalar.relu, scalar.where, scalar.eq, scalar.ne, scalar.lt, scalar.le, scalar.gt, scalar.ge, scalar.isnan,
    scalar.bitwise_and, scalar.bitwise_or, scalar.bitwise_xor, scalar.bitwise_not,
    scalar.exp, scalar.exp_below_zero, scalar.expm1, scalar.log, scalar.log1p, scalar.tanh, scalar.sigmoid, scalar.erf,
})  # fmt: skip
# Compilers turn a choice around, and then compare in ways that mind NaNs.
CHOICES = frozenset({
    scalar.where, scalar.relu, scalar.maximum, scalar.minimum, scalar.fmax, scalar.fmin, scalar.clamp, scalar.clamp_min,
    scalar.clamp_max,
})  # fmt: skip
