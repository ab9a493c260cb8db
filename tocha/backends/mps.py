"""Apple's graphics processors, which this build has no kernels for."""

from __future__ import annotations

__all__ = ["is_available", "is_built", "is_macos13_or_newer", "is_macos_or_newer"]


def is_built() -> bool:
    """Whether there are kernels for MPS in this build."""
    return False


def is_available() -> bool:
    """Whether tensors can be on an MPS device.

    >>> is_available()
    False
    """
    return False


def is_macos_or_newer(major: int, minor: int) -> bool:
    """Whether the system is macOS of this version or a newer one; only MPS can tell."""
    raise RuntimeError("Cannot execute is_macos_or_newer() without MPS backend.")


def is_macos13_or_newer(minor: int = 0) -> bool:
    """Whether the system is macOS 13 or newer; only MPS can tell."""
    return is_macos_or_newer(13, minor)
