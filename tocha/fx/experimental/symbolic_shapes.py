"""Symbolic sizes under the name that PyTorch's users know: tocha.ir has them (shape_env, sym_types)."""

import functools
import operator
from typing import Any

from tocha._ops import ops
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


def has_free_unbacked_symbols(x: Any) -> bool:
    return bool(free_unbacked_symbols(x))


def is_concrete_bool(a: Any) -> bool:
    """Whether a is a plain bool, or a symbolic one of which only one value is left."""
    return isinstance(a, bool) or (isinstance(a, SymBool) and a.node.is_constant())


def is_concrete_float(a: Any) -> bool:
    """Whether a is a plain float, or a symbolic one of which only one value is left."""
    return isinstance(a, float) or (isinstance(a, SymFloat) and a.node.is_constant())


def is_nested_int(s: Any) -> bool:
    """Whether a size is that of a ragged dim; there are none here."""
    return False


def has_static_value(a: Any) -> bool:
    """Whether only one value is left for a number; never adds a guard."""
    return not is_symbolic(a) or a.node.is_constant()


def guard_scalar(a: Any) -> bool | int | float:
    """The value of a number, on which the program then rests."""
    if isinstance(a, SymBool | bool):
        return guard_bool(a)
    if isinstance(a, SymInt | int):
        return guard_int(a)
    if isinstance(a, SymFloat | float):
        return guard_float(a)
    raise AssertionError(f"unrecognized scalar {a}")


def guard_size_oblivious(expr: Any) -> bool:
    """The value of a condition; one about unknown sizes is answered as for sizes that are neither 0 nor 1."""
    return guard_or_false(expr) if has_free_unbacked_symbols(expr) else bool(expr)


def optimization_hint(a: Any, fallback: int | None = None) -> int:
    """A number to reckon with, on which the program does not rest."""
    if not is_symbolic(a):
        return a
    hint = None if has_free_unbacked_symbols(a) else a.node.hint
    if hint is None and fallback is None:
        raise RuntimeError(f"[optimization_hint] {a} has no hint, and no fallback is given")
    return fallback if hint is None else hint  # type: ignore[return-value]


def guarding_hint_or_throw(a: Any) -> int | bool:
    """The value that a number has in the run at hand; raises for one that depends on elements."""
    if not is_symbolic(a):
        return a
    if has_free_unbacked_symbols(a):
        raise GuardOnDataDependentSymNode(
            a.node.expr, f"[guarding_hint_or_throw] {a} depends on elements and has no hint"
        )
    return a.node.hint


def sym_and(x: Any, *others: Any) -> Any:
    """`and` of conditions, symbolic where one is; adds no guard."""
    return functools.reduce(operator.and_, others, x)


def sym_or(x: Any, *others: Any) -> Any:
    """`or` of conditions, symbolic where one is; adds no guard."""
    return functools.reduce(operator.or_, others, x)


def sym_eq(x: Any, y: Any) -> Any:
    """Whether two numbers, or two sequences of numbers, are equal, as a condition that adds no guard."""
    if isinstance(x, list | tuple) and isinstance(y, list | tuple):
        if len(x) != len(y):
            return False
        return functools.reduce(operator.and_, map(sym_eq, x, y), True)
    return x == y


def is_accessor_node(node: Any) -> bool:
    """Whether a node asks a tensor for a size, a stride, its offset or its element."""
    aten = ops.aten
    if node.op == "call_method":
        return node.target in ("size", "stride", "storage_offset", "item")
    handles = (
        aten.sym_size.default, aten.sym_size.int, aten.sym_stride.default, aten.sym_stride.int,
        aten.sym_storage_offset.default, aten.sym_numel.default, aten._local_scalar_dense.default,
    )  # fmt: skip
    return node.op == "call_function" and node.target in handles


def is_symbol_binding_fx_node(node: Any) -> Any:
    """The symbol that a node brings into a graph: an input that is one, or a value that depends on elements; else None."""
    value = node.meta.get("val")
    if not isinstance(value, SymInt):
        return None
    found = free_symbols(value)
    alone = len(found) == 1 and str(value.node.expr) == str(next(iter(found)))
    return next(iter(found)) if alone and (node.op == "placeholder" or free_unbacked_symbols(value)) else None


def check_consistent(new: Any, old: Any) -> None:
    """Raises unless two descriptions of a value, made by two traces, agree."""
    if hasattr(new, "storage_offset"):
        if new.dim() != old.dim():
            raise AssertionError(f"[check_consistent] {old.shape} != {new.shape} (old != new)")
        pairs = list(zip(new.shape, old.shape, strict=True))
    else:
        pairs = [(new, old)]
    for a, b in pairs:
        if statically_known_false(sym_eq(a, b)):
            raise AssertionError(f"[check_consistent] {b} != {a} (old != new)")


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
    "check_consistent",
    "free_symbols",
    "free_unbacked_symbols",
    "guard_bool",
    "guard_float",
    "guard_int",
    "guard_or_false",
    "guard_or_true",
    "guard_scalar",
    "guard_size_oblivious",
    "guarding_hint_or_throw",
    "has_free_symbols",
    "has_free_unbacked_symbols",
    "has_static_value",
    "has_symbolic_sizes_strides",
    "is_accessor_node",
    "is_concrete_bool",
    "is_concrete_float",
    "is_concrete_int",
    "is_nested_int",
    "is_symbol_binding_fx_node",
    "is_symbolic",
    "optimization_hint",
    "statically_known_false",
    "statically_known_true",
    "sym_and",
    "sym_eq",
    "sym_float",
    "sym_int",
    "sym_ite",
    "sym_max",
    "sym_min",
    "sym_not",
    "sym_or",
]
