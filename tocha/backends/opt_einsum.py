"""The order in which einsum multiplies three or more operands: PyTorch asks the package opt_einsum, tocha goes left to right."""

from __future__ import annotations

import contextlib
from typing import Any

from tocha.backends._flags import exchange, held, make_flags

enabled = False
strategy: str | None = None


def is_available() -> bool:
    """Whether einsum asks opt_einsum for the order."""
    return False


def get_opt_einsum() -> Any:
    """The package, if it is used."""
    return None


def set_flags(_enabled: bool | None = None, _strategy: str | None = None) -> tuple:
    """Sets those that are not None; returns what they were."""
    return exchange(__name__, {"enabled": _enabled, "strategy": _strategy})


def flags(enabled: bool | None = None, strategy: str | None = None) -> contextlib.AbstractContextManager[None]:
    """Holds these values for a context."""
    return held(__name__, {"enabled": enabled, "strategy": strategy})


make_flags(__name__)
