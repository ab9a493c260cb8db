"""Public functions that are Python by nature. `import tocha` and tocha.functional export them under their public names."""

from __future__ import annotations

from tocha import _lowrank
from tocha._functions import unique


def install() -> None:
    """Puts those that are methods too onto the class; called once by `import tocha`."""
    _lowrank.install()
    unique.install()
