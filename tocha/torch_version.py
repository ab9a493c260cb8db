"""TorchVersion: the version as a string that compares as a version."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

__all__ = ["TorchVersion"]

# Compiled when versions are compared, not at every start.
_PARTS = r"(\d+(?:\.\d+)*)(?:\.?(a|b|rc|alpha|beta|c|pre|preview)(\d*))?(?:\.?(dev)(\d*))?(?:\.?(post)(\d*))?"
_STAGES = {"alpha": "a", "beta": "b", "c": "rc", "pre": "rc", "preview": "rc"}
_LAST = (4, 0)


def _key(text: str) -> tuple:
    """What versions are ordered by: numbers without zeros at the end, then development, pre-release, release, post-release, local part."""
    public, _, local = text.strip().lower().removeprefix("v").partition("+")
    found = re.fullmatch(_PARTS, public.replace("-", ".").replace("_", "."))
    if found is None:
        raise ValueError(f"Invalid version: {text!r}")
    numbers = [int(n) for n in found[1].split(".")]
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    stage, development, post = found[2], found[4], found[6]
    if stage:
        order: tuple = (("a", "b", "rc").index(_STAGES.get(stage, stage)) + 1, int(found[3] or 0))
    else:
        order = (0, 0) if development and not post else _LAST
    after = (1, int(found[7] or 0)) if post else (0, 0)
    unfinished = (0, int(found[5] or 0)) if development else (1, 0)
    parts = tuple((1, int(p), "") if p.isdigit() else (0, 0, p) for p in re.split(r"[.\-_]", local)) if local else ()
    return tuple(numbers), order, after, unfinished, parts


def _text(other: Any) -> str:
    if isinstance(other, str):
        return other
    if isinstance(other, Iterable):
        return ".".join(str(part) for part in other)
    if hasattr(other, "public"):  # packaging's Version
        return str(other)
    raise ValueError(f"can't convert {other} into a version")


class TorchVersion(str):
    """A version that compares with strings, tuples of numbers and packaging's versions.

    >>> TorchVersion("2.13.0+tocha") >= (2, 9), TorchVersion("2.13.0") > "2.9", TorchVersion("2.13.0") == "2.13"
    (True, True, True)
    """

    def _compare(self, other: Any, test: str) -> Any:
        try:
            mine, others = _key(str(self)), _key(_text(other))
        except (ValueError, TypeError):  # not versions: as strings
            return getattr(str, test)(str(self), other)
        return getattr(tuple, test)(mine, others)

    def __eq__(self, other: object) -> bool:
        return self._compare(other, "__eq__")

    def __ne__(self, other: object) -> bool:
        equal = self.__eq__(other)
        return equal if equal is NotImplemented else not equal

    def __lt__(self, other: Any) -> bool:
        return self._compare(other, "__lt__")

    def __le__(self, other: Any) -> bool:
        return self._compare(other, "__le__")

    def __gt__(self, other: Any) -> bool:
        return self._compare(other, "__gt__")

    def __ge__(self, other: Any) -> bool:
        return self._compare(other, "__ge__")

    __hash__ = str.__hash__
