"""Intel's Math Kernel Library, which this build does not use: products and decompositions stand on OpenBLAS."""

from __future__ import annotations

VERBOSE_OFF = 0
VERBOSE_ON = 1


def is_available() -> bool:
    """Whether MKL is in this build.

    >>> is_available()
    False
    """
    return False


class verbose:
    """A context in which MKL reports what it runs; it runs nothing here."""

    def __init__(self, enable: int) -> None:
        self.enable = enable

    def __enter__(self) -> verbose:
        if self.enable != VERBOSE_OFF:
            raise RuntimeError("tocha was built without MKL: there is nothing to report")
        return self

    def __exit__(self, *exception: object) -> bool:
        return False
