"""Symbolic sizes under the name that PyTorch's users know: tocha.ir has them (shape_env, sym_types)."""

from tocha.ir.shape_env import (
    ConstraintViolationError,
    DimDynamic,
    GuardOnDataDependentSymNode,
    ShapeEnv,
    ShapeGuard,
    StatelessSymbolicContext,
    guard_or_false,
    guard_or_true,
    statically_known_true,
)
from tocha.ir.sym_types import (
    SymBool,
    SymFloat,
    SymInt,
    SymNode,
    is_symbolic,
    sym_float,
    sym_int,
    sym_ite,
    sym_max,
    sym_min,
    sym_not,
)

__all__ = [
    "ConstraintViolationError",
    "DimDynamic",
    "GuardOnDataDependentSymNode",
    "ShapeEnv",
    "ShapeGuard",
    "StatelessSymbolicContext",
    "SymBool",
    "SymFloat",
    "SymInt",
    "SymNode",
    "guard_or_false",
    "guard_or_true",
    "is_symbolic",
    "statically_known_true",
    "sym_float",
    "sym_int",
    "sym_ite",
    "sym_max",
    "sym_min",
    "sym_not",
]
