"""The native functions that the current thread is in, for bug reports."""

from __future__ import annotations

import ctypes
import sys

__all__ = ["get_cpp_backtrace"]


class _Found(ctypes.Structure):
    _fields_ = (
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("symbol", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )


def _line(library: ctypes.CDLL, number: int, address: int) -> str:
    found = _Found()
    if not library.dladdr(ctypes.c_void_p(address), ctypes.byref(found)):
        return f"frame #{number}: <unknown function> (0x{address:x})"
    start = found.address if found.symbol else found.base
    name = found.symbol.decode() if found.symbol else "<unknown function>"
    return f"frame #{number}: {name} + 0x{address - (start or 0):x} (0x{address:x} in {(found.file or b'?').decode()})"


def get_cpp_backtrace(frames_to_skip: int = 0, maximum_number_of_frames: int = 64) -> str:
    """The current thread's native frames, innermost first, a line each.

    >>> "frame #0" in get_cpp_backtrace()
    True
    """
    if not sys.platform.startswith("linux"):
        raise NotImplementedError("[get_cpp_backtrace] native frames are read through the C library of Linux")
    library = ctypes.CDLL(None)
    size = frames_to_skip + maximum_number_of_frames
    addresses = (ctypes.c_void_p * size)()
    count = library.backtrace(addresses, size)
    shown = [a for a in addresses[frames_to_skip:count] if a is not None]
    return "\n".join(_line(library, i, a) for i, a in enumerate(shown, frames_to_skip)) + "\n"
