"""Loads every family of records; done when somebody asks for them, never by `import tocha`."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from pathlib import Path

from tocha.operators import interpreter


@cache
def load() -> None:
    for m in sorted(m.name for m in pkgutil.iter_modules([str(Path(__file__).parent)]) if not m.ispkg):
        importlib.import_module(f"tocha.operators.{m}")
    importlib.import_module("tocha.operators.decomposed")  # after the records, whose order is that of their files
    interpreter.bind_operators()
