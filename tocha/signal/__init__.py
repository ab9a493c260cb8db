"""Signal processing: window functions."""

from tocha.signal import windows

__all__ = ["windows"]
