"""The older names of autocast's settings, one per kind of device; tocha re-exports them, and each warns."""

from __future__ import annotations

import warnings

from tocha import _C

__all__ = [
    "get_autocast_cpu_dtype",
    "get_autocast_gpu_dtype",
    "is_autocast_cpu_enabled",
    "set_autocast_cpu_dtype",
    "set_autocast_cpu_enabled",
    "set_autocast_gpu_dtype",
]


def _warn(old: str, new: str) -> None:
    warnings.warn(f"tocha.{old} is deprecated. Please use tocha.{new} instead.", DeprecationWarning, stacklevel=3)


def is_autocast_cpu_enabled() -> bool:
    """is_autocast_enabled("cpu").

    >>> with tocha.autocast("cpu"):
    ...     tocha.is_autocast_cpu_enabled()
    True
    """
    _warn("is_autocast_cpu_enabled()", "is_autocast_enabled('cpu')")
    return _C.is_autocast_enabled("cpu")


def set_autocast_cpu_enabled(enabled: bool, /) -> None:
    """set_autocast_enabled("cpu", enabled).

    >>> tocha.set_autocast_cpu_enabled(True)
    >>> tocha.is_autocast_cpu_enabled()
    True
    >>> tocha.set_autocast_cpu_enabled(False)
    """
    _warn("set_autocast_cpu_enabled(enabled)", "set_autocast_enabled('cpu', enabled)")
    _C.set_autocast_enabled("cpu", enabled)


def get_autocast_cpu_dtype() -> _C.dtype:
    """get_autocast_dtype("cpu").

    >>> tocha.get_autocast_cpu_dtype()
    tocha.bfloat16
    """
    _warn("get_autocast_cpu_dtype()", "get_autocast_dtype('cpu')")
    return _C.get_autocast_dtype("cpu")


def set_autocast_cpu_dtype(dtype: _C.dtype, /) -> None:
    """set_autocast_dtype("cpu", dtype).

    >>> tocha.set_autocast_cpu_dtype(tocha.float16)
    >>> tocha.get_autocast_cpu_dtype()
    tocha.float16
    >>> tocha.set_autocast_cpu_dtype(tocha.bfloat16)
    """
    _warn("set_autocast_cpu_dtype(dtype)", "set_autocast_dtype('cpu', dtype)")
    _C.set_autocast_dtype("cpu", dtype)


def get_autocast_gpu_dtype() -> _C.dtype:
    """get_autocast_dtype("cuda").

    >>> tocha.get_autocast_gpu_dtype()
    tocha.float16
    """
    _warn("get_autocast_gpu_dtype()", "get_autocast_dtype('cuda')")
    return _C.get_autocast_dtype("cuda")


def set_autocast_gpu_dtype(dtype: _C.dtype, /) -> None:
    """set_autocast_dtype("cuda", dtype).

    >>> tocha.set_autocast_gpu_dtype(tocha.bfloat16)
    >>> tocha.get_autocast_gpu_dtype()
    tocha.bfloat16
    >>> tocha.set_autocast_gpu_dtype(tocha.float16)
    """
    _warn("set_autocast_gpu_dtype(dtype)", "set_autocast_dtype('cuda', dtype)")
    _C.set_autocast_dtype("cuda", dtype)
