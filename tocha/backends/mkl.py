"""Intel's Math Kernel Library, which this build does not use: products and decompositions stand on OpenBLAS."""

from __future__ import annotations

from tocha.backends._flags import Verbose

VERBOSE_OFF = 0
VERBOSE_ON = 1


def is_available() -> bool:
    """Whether MKL is in this build.

    >>> is_available()
    False
    """
    return False


class verbose(Verbose):
    """A context in which MKL reports what it runs; it runs nothing here."""

    library = "MKL"
