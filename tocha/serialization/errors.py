"""What loading raises for a bad file: every cause in words, none of them an accident deep inside."""

from __future__ import annotations

import pickle


class ArchiveError(RuntimeError):
    """A file that is no checkpoint, or a damaged one."""


class Refused(pickle.UnpicklingError):
    """A pickle that wants more than data, or is damaged."""


def brief(text: object, limit: int = 200) -> str:
    """Text from a file, short enough for a message."""
    text = str(text)
    return text if len(text) <= limit else f"{text[:limit]}... ({len(text)} characters)"
