"""Loads every family of records; done when somebody asks for them, never by `import tocha`."""

from __future__ import annotations

import builtins
import importlib
from collections.abc import Callable
from functools import cache
from typing import Any

from tocha.ir.sym_types import Symbolic, sym_max, sym_min
from tocha.operators import import_families, interpreter


@cache
def load() -> None:
    for family in import_families():
        # Rules are plain Python; Python's own would ask which symbol is the greater one, which is a guard.
        for name, extremum in EXTREMA.items():
            vars(family).setdefault(name, extremum)
    importlib.import_module("tocha.operators.decomposed")  # after the records, whose order is that of their files
    interpreter.bind_operators()


def _extremum(plain: Callable, symbolic: Callable) -> Callable:
    def extremum(*values: Any, **options: Any) -> Any:
        among = tuple(values[0]) if len(values) == 1 else values
        is_plain = options or not any(isinstance(v, Symbolic) for v in among)
        return plain(among, **options) if is_plain else symbolic(*among)

    return extremum


EXTREMA = {"max": _extremum(builtins.max, sym_max), "min": _extremum(builtins.min, sym_min)}
