"""How native kernels run on a batch (vmap), one file per family: what cannot be derived from the kind of the record.

Each rule is registered on the kernel's own record and is given the batch and the record's arguments; tests/test_vmap_operators.py
holds all of them against loops.
"""

from __future__ import annotations

import importlib
import pkgutil

for _family in sorted(m.name for m in pkgutil.iter_modules(__path__)):
    importlib.import_module(f"{__name__}.{_family}")
