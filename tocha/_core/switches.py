"""Switches of the whole program: deterministic algorithms, precision of float32 products, warnings that come once.

tocha re-exports all that is public here.
"""

from __future__ import annotations

import os
import warnings

from tocha import _C

__all__ = [
    "are_deterministic_algorithms_enabled",
    "get_deterministic_debug_mode",
    "get_float32_matmul_precision",
    "get_num_interop_threads",
    "is_deterministic_algorithms_warn_only_enabled",
    "is_warn_always_enabled",
    "set_deterministic_debug_mode",
    "set_float32_matmul_precision",
    "set_num_interop_threads",
    "set_warn_always",
    "use_deterministic_algorithms",
]

_deterministic = False
_fill_uninitialized = True
_warn_only = False
_precision = "highest"
_warn_always = False
_interop_threads: int | None = None
_warned: set[str] = set()
_DEBUG_MODES = ("default", "warn", "error")
_PRECISIONS = ("highest", "high", "medium")


def _check_bool(name: str, value: object) -> None:
    if not isinstance(value, bool):
        raise TypeError(f"use_deterministic_algorithms(): argument '{name}' must be bool, not {type(value).__name__}")


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Asks for the same result from the same input, always; with warn_only, a warning where that is not promised.

    Operators whose record says so (`nondeterministic`) refuse or warn: those that PyTorch makes no promise for, so that
    a program finds out before it runs elsewhere.

    >>> import tocha
    >>> tocha.use_deterministic_algorithms(True)
    >>> tocha.are_deterministic_algorithms_enabled()
    True
    >>> tocha.use_deterministic_algorithms(False)
    """
    global _deterministic, _warn_only
    _check_bool("mode", mode)
    _check_bool("warn_only", warn_only)
    _deterministic, _warn_only = mode, warn_only
    _C._set_deterministic(mode, warn_only)
    _C._set_fill_uninitialized(_deterministic and _fill_uninitialized)


def fills_uninitialized() -> bool:
    """What set_fill_uninitialized last set."""
    return _fill_uninitialized


def set_fill_uninitialized(on: bool) -> None:
    """Whether memory that nobody has written is filled while deterministic algorithms are asked for."""
    global _fill_uninitialized
    if not isinstance(on, bool):
        raise RuntimeError(f"expected a bool, but got {type(on).__name__}")
    _fill_uninitialized = on
    _C._set_fill_uninitialized(_deterministic and on)


def are_deterministic_algorithms_enabled() -> bool:
    """Whether deterministic algorithms were asked for.

    >>> tocha.are_deterministic_algorithms_enabled()
    False
    """
    return _deterministic


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Whether operators that are not deterministic are to warn instead of refusing.

    >>> tocha.is_deterministic_algorithms_warn_only_enabled()
    False
    """
    return _warn_only


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """The same switch by one word or number: "default" (0), "warn" (1) or "error" (2).

    >>> import tocha
    >>> tocha.set_deterministic_debug_mode("warn")
    >>> tocha.get_deterministic_debug_mode()
    1
    >>> tocha.set_deterministic_debug_mode(0)
    """
    if not isinstance(debug_mode, int | str):
        raise TypeError(f"debug_mode must be str or int, but got {type(debug_mode)}")
    if isinstance(debug_mode, str):
        if debug_mode not in _DEBUG_MODES:
            raise RuntimeError(
                f"invalid value of debug_mode, expected one of `default`, `warn`, `error`, but got {debug_mode}"
            )
        debug_mode = _DEBUG_MODES.index(debug_mode)
    if debug_mode not in range(len(_DEBUG_MODES)):
        raise RuntimeError(f"invalid value of debug_mode, expected 0, 1, or 2, but got {debug_mode}")
    use_deterministic_algorithms(debug_mode > 0, warn_only=debug_mode == 1)


def get_deterministic_debug_mode() -> int:
    """0 if deterministic algorithms were not asked for, 1 if operators are to warn, 2 if they are to refuse.

    >>> tocha.get_deterministic_debug_mode()
    0
    """
    if not _deterministic:
        return 0
    return 1 if _warn_only else 2


def set_float32_matmul_precision(precision: str) -> None:
    """How far products of float32 matrices may be rounded: "highest" (not at all), "high" or "medium".

    It permits, it does not demand: tocha's products on the CPU are float32 throughout.

    >>> import tocha
    >>> tocha.set_float32_matmul_precision("high")
    >>> tocha.get_float32_matmul_precision()
    'high'
    >>> tocha.set_float32_matmul_precision("highest")
    """
    global _precision
    if not isinstance(precision, str):
        raise RuntimeError(f"set_float32_matmul_precision expects a str, but got {type(precision).__name__}")
    if precision not in _PRECISIONS:
        warnings.warn(
            f"{precision} is not one of 'highest', 'high', or 'medium'; the current "
            "set_float32_matmul_precision call has no effect.",
            stacklevel=2,
        )
        return
    _precision = precision


def get_float32_matmul_precision() -> str:
    """What set_float32_matmul_precision last set.

    >>> tocha.get_float32_matmul_precision()
    'highest'
    """
    return _precision


def get_num_interop_threads() -> int:
    """How many operators may run beside each other: as many as there are processors, unless set.

    >>> tocha.get_num_interop_threads() > 0
    True
    """
    return _interop_threads or os.cpu_count() or 1


def set_num_interop_threads(num: int, /) -> None:
    """How many operators may run beside each other. Can be set once; tocha starts one after the other, so none waits."""
    global _interop_threads
    if not isinstance(num, int):
        raise RuntimeError(f"set_num_interop_threads expects an int, but got {type(num).__name__}")
    if num <= 0:
        raise RuntimeError("set_num_interop_threads expects a positive integer")
    if _interop_threads is not None:
        raise RuntimeError(
            "Error: cannot set number of interop threads after parallel work has started or set_num_interop_threads called"
        )
    _interop_threads = num


def set_warn_always(b: bool, /) -> None:
    """Whether warnings that come once in a program come every time, as tests want them.

    >>> tocha.set_warn_always(True)
    >>> tocha.is_warn_always_enabled()
    True
    >>> tocha.set_warn_always(False)
    """
    global _warn_always
    if not isinstance(b, bool):
        raise RuntimeError(f"set_warn_always expects a bool, but got {type(b).__name__}")
    _warn_always = b
    _C._set_warn_always(b)


def is_warn_always_enabled() -> bool:
    """What set_warn_always last set.

    >>> tocha.is_warn_always_enabled()
    False
    """
    return _warn_always


def warn_once(text: str, *, stacklevel: int = 2) -> None:
    """A warning that comes once in a program, unless set_warn_always says otherwise."""
    if text in _warned and not _warn_always:
        return
    _warned.add(text)
    warnings.warn(text, stacklevel=stacklevel + 1)
