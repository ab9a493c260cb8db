"""NNPACK, which this build does not use."""

from __future__ import annotations

import contextlib

from tocha.backends._flags import exchange, held, make_flags

__all__ = ["enabled", "flags", "is_available", "set_flags"]

enabled = False


def is_available() -> bool:
    """Whether NNPACK is in this build."""
    return False


def set_flags(_enabled: bool) -> tuple:
    """Sets whether NNPACK may be used; returns what it was."""
    return exchange(__name__, {"enabled": _enabled})


def flags(enabled: bool = False) -> contextlib.AbstractContextManager[None]:
    """Holds this value for a context."""
    return held(__name__, {"enabled": enabled})


make_flags(__name__, enabled=bool)
