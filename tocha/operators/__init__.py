"""The operator records, one file per family, and what reads them: schemas, rules, facts, the interpreter."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType


def import_families(besides: str = "") -> list[ModuleType]:
    """Every file of this folder, in the order of their names, which becomes that of the records."""
    found = sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.ispkg and m.name != besides)
    return [importlib.import_module(f"{__name__}.{name}") for name in found]
