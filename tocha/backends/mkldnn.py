"""Switches of oneDNN, which this build does not use: its place is taken by kernels of our own."""

from __future__ import annotations

import contextlib
from typing import Any

from tocha.backends._flags import Precision, Verbose, exchange, held, make_flags

VERBOSE_OFF = 0
VERBOSE_ON = 1
VERBOSE_ON_CREATION = 2
enabled = True
deterministic = False
allow_tf32: bool | None = None
fp32_precision = "none"
matmul = Precision("mkldnn.matmul", "none")
conv = Precision("mkldnn.conv", "none")
rnn = Precision("mkldnn.rnn", "none")


def is_available() -> bool:
    """Whether oneDNN is in this build.

    >>> is_available()
    False
    """
    return False


def is_acl_available() -> bool:
    """Whether oneDNN has Arm's library."""
    return False


class verbose(Verbose):
    """A context in which oneDNN reports what it runs; it runs nothing here."""

    library = "oneDNN"


def _values(
    enabled: bool | None, deterministic: bool | None, allow_tf32: bool | None, fp32_precision: str
) -> dict[str, Any]:
    return {
        "enabled": enabled,
        "deterministic": deterministic,
        "allow_tf32": allow_tf32,
        "fp32_precision": fp32_precision,
    }


def set_flags(
    _enabled: bool | None = None,
    _deterministic: bool | None = None,
    _allow_tf32: bool | None = None,
    _fp32_precision: str = "none",
) -> tuple:
    """Sets those that are not None; returns what they were."""
    return exchange(__name__, _values(_enabled, _deterministic, _allow_tf32, _fp32_precision))


def flags(
    enabled: bool = False, deterministic: bool = False, allow_tf32: bool = True, fp32_precision: str = "none"
) -> contextlib.AbstractContextManager[None]:
    """Holds these values for a context."""
    return held(__name__, _values(enabled, deterministic, allow_tf32, fp32_precision))


make_flags(__name__, enabled=bool, deterministic=bool, fp32_precision=str)
