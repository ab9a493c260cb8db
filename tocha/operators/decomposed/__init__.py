"""Native kernels in terms of other operators, one file per family: what a compiler fuses instead of calling the kernel.

Each is registered on the kernel's own record; tests/test_decompositions.py holds both forms against each other.
"""

from __future__ import annotations

import importlib
import pkgutil

for _family in sorted(m.name for m in pkgutil.iter_modules(__path__)):
    importlib.import_module(f"{__name__}.{_family}")
