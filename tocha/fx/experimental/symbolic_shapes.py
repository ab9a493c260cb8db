"""Symbolic sizes under the name that PyTorch's users know: tocha.ir has them (shape_env, sym_types)."""

from typing import Any

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
from tocha.ir.symbolic import free_symbols as symbols_of

SymbolicContext = StatelessSymbolicContext


def has_symbolic_sizes_strides(elem: Any) -> bool:
    """Whether a size, a stride or the offset of a tensor is a symbol."""
    return any(map(is_symbolic, (*elem.size(), *elem.stride(), elem.storage_offset())))


def is_concrete_int(a: Any) -> bool:
    """Whether a is a plain int, or a symbolic one of which only one value is left."""
    return isinstance(a, int) or (isinstance(a, SymInt) and a.node.is_constant())


def guard_int(a: Any) -> int:
    """The value of a, on which the program then rests."""
    return int(a)


def guard_float(a: Any) -> float:
    """The value of a, on which the program then rests."""
    return float(a)


def guard_bool(a: Any) -> bool:
    """The value of a, on which the program then rests."""
    return bool(a)


def statically_known_false(x: Any) -> bool:
    """Whether it fails for all values; never adds a guard."""
    return statically_known_true(sym_not(x))


def free_symbols(val: Any) -> set[Any]:
    """The symbols of a number, of a tensor's geometry, or of a list of such."""
    if isinstance(val, list | tuple):
        return set().union(*map(free_symbols, val)) if val else set()
    if hasattr(val, "storage_offset"):
        return free_symbols([*val.size(), *val.stride(), val.storage_offset()])
    return set(symbols_of(val.node.expr)) if is_symbolic(val) else set()


def free_unbacked_symbols(val: Any) -> set[Any]:
    """Those of its symbols that have no hint."""
    return {atom for atom in free_symbols(val) if atom.name.startswith("u") or atom.name.startswith("zuf")}


def has_free_symbols(val: Any) -> bool:
    return bool(free_symbols(val))


def has_free_unbacked_symbols(val: Any) -> bool:
    return bool(free_unbacked_symbols(val))


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
    "SymbolicContext",
    "free_symbols",
    "free_unbacked_symbols",
    "guard_bool",
    "guard_float",
    "guard_int",
    "guard_or_false",
    "guard_or_true",
    "has_free_symbols",
    "has_free_unbacked_symbols",
    "has_symbolic_sizes_strides",
    "is_concrete_int",
    "is_symbolic",
    "statically_known_false",
    "statically_known_true",
    "sym_float",
    "sym_int",
    "sym_ite",
    "sym_max",
    "sym_min",
    "sym_not",
]
