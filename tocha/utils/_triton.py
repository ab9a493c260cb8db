"""Whether Triton is there: its kernels need devices that the library does not compile for."""

from __future__ import annotations

import importlib.util

__all__ = ["has_triton", "has_triton_package", "has_triton_tma", "has_triton_tma_device"]


def has_triton_package() -> bool:
    """Can it be imported?"""
    return importlib.util.find_spec("triton") is not None


def has_triton() -> bool:
    """Can compiled functions use it? They are compiled to C++."""
    return False


def has_triton_tma() -> bool:
    return False


def has_triton_tma_device() -> bool:
    return False
