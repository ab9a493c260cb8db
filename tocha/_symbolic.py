"""Symbolic numbers at the top of the package (tocha.SymInt, tocha.sym_max, ...) and `_check`, by which a program says what it
knows of them. Imported when somebody asks for one of these names.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

from tocha import _C
from tocha.ir.sym_types import (  # noqa: F401
    SymBool,
    SymFloat,
    SymInt,
    sym_float,
    sym_function,
    sym_int,
    sym_ite,
    sym_max,
    sym_min,
    sym_not,
    sym_sum,
)
from tocha.ir.symbolic import free_symbols

_C._set_symbolic_types(SymInt, SymFloat, SymBool)

sym_sqrt = _sym_sqrt = sym_function("sqrt")
_sym_acos, _sym_asin, _sym_atan = map(sym_function, ("acos", "asin", "atan"))
_sym_cos, _sym_cosh, _sym_log2 = map(sym_function, ("cos", "cosh", "log2"))
_sym_sin, _sym_sinh, _sym_tan, _sym_tanh = map(sym_function, ("sin", "sinh", "tan", "tanh"))


def _check_with(error_type: type[Exception], cond: Any, message: Callable[[], object] | None = None) -> None:
    """Raises unless cond holds; of a symbolic one, promises that it will where nobody can know now."""
    if not isinstance(cond, bool | SymBool):
        raise TypeError(f"cond must be a bool, but got {type(cond)}")
    if isinstance(cond, SymBool):
        if cond.env.expect(cond.expr, "" if message is None else str(message()), error_type):
            return
    elif cond:
        return
    if message is None:
        raise error_type("Expected cond to be True, but got False.")
    if not callable(message):
        raise TypeError("message must be a callable")
    raise error_type(str(message()))


def _check(cond: Any, message: Callable[[], object] | None = None) -> None:
    """Raises RuntimeError unless cond holds.

    >>> import tocha
    >>> tocha._check(2 > 1)
    """
    _check_with(RuntimeError, cond, message)


def _assert_scalar(cond: Any, message: str, error: str = "RuntimeError") -> None:
    """In graphs: what was promised of numbers that come from data, and is known by now. `error` is a type of Python's own."""
    kind = getattr(builtins, error)
    if not (cond.env.expect(cond.expr, message, kind) if isinstance(cond, SymBool) else cond):
        raise kind(message)


def _check_index(cond: Any, message: Callable[[], object] | None = None) -> None:
    _check_with(IndexError, cond, message)


def _check_value(cond: Any, message: Callable[[], object] | None = None) -> None:
    _check_with(ValueError, cond, message)


def _check_type(cond: Any, message: Callable[[], object] | None = None) -> None:
    _check_with(TypeError, cond, message)


def _check_not_implemented(cond: Any, message: Callable[[], object] | None = None) -> None:
    _check_with(NotImplementedError, cond, message)


def _check_is_size(i: Any, message: Callable[[], object] | None = None, *, max: Any = None) -> None:
    """i is a size: at least 0, and at most `max` where that is given."""
    _check(i >= 0, message)
    if isinstance(i, SymInt):
        for atom in free_symbols(i.expr):
            if i.env.is_unbacked_symint(atom):
                i.env.mark_size_like(atom)
    if max is not None:
        _check(i <= max, message)


def _check_tensor_all_with(error_type: type[Exception], cond: Any, message: Callable[[], object] | None = None) -> None:
    if not isinstance(cond, _C.Tensor):
        raise TypeError(f"cond must be a tensor, but got {type(cond)}")
    if cond.dtype is not _C.bool:
        raise TypeError(f"cond tensor must have dtype tocha.bool, but got {cond.dtype}")
    result = cond.all().item()
    _check_with(error_type, result, message)


def _check_tensor_all(cond: Any, message: Callable[[], object] | None = None) -> None:
    _check_tensor_all_with(RuntimeError, cond, message)


def sym_constrain_range(size: Any, *, min: int | None = None, max: int | None = None) -> None:
    """Promises that a number lies between two others."""
    if min is not None:
        _check(size >= min)
    if max is not None:
        _check(size <= max)


def sym_constrain_range_for_size(size: Any, *, min: int | None = None, max: int | None = None) -> None:
    """The same for a size."""
    _check_is_size(size)
    sym_constrain_range(size, min=min, max=max)
