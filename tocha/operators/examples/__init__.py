"""Examples of operators, one file per family: the reference shows them, the tests run them, and nothing else loads them.

A function is named like the record (or records: overloads share one) that its docstring shows. Aliases, methods and forms in
place need no example of their own: tools/reference derives theirs from the same text.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from functools import cache

from tocha.operators import families
from tocha.operators.record import OPERATORS


@cache
def load() -> None:
    """Puts every example onto the records of its name."""
    families.load()
    texts = {}
    for family in sorted(m.name for m in pkgutil.iter_modules(__path__)):
        module = importlib.import_module(f"{__name__}.{family}")
        for name, function in inspect.getmembers(module, inspect.isfunction):
            texts[name] = inspect.cleandoc(function.__doc__ or "")
    unknown = texts.keys() - {o.name for o in OPERATORS.values()}
    if unknown:
        raise ValueError(f"examples of no record: {sorted(unknown)}")
    for o in OPERATORS.values():
        o.example = texts.get(o.name, "")
