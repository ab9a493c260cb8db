"""Is a real PyTorch here? The alias gives way to it unless told otherwise."""

from __future__ import annotations

import importlib.machinery
import os
import sys

from tocha._alias.finder import PATH

FORCE = "TOCHA_AS_TORCH"  # =force: tocha even where PyTorch is installed


def is_forced() -> bool:
    return os.environ.get(FORCE) == "force"


def installed_torch() -> str | None:
    """Where a real PyTorch would be imported from."""
    elsewhere = [p for p in sys.path if os.path.abspath(p or ".") != PATH]
    spec = importlib.machinery.PathFinder.find_spec("torch", elsewhere)
    return spec.origin if spec is not None else None


def check_absent() -> None:
    real = sys.modules.get("torch")
    if real is not None and not (getattr(real, "__file__", None) or "").startswith(PATH):
        raise ImportError("[tocha.as_torch] PyTorch has been imported in this process: it cannot be exchanged any more")
    if not is_forced() and (found := installed_torch()):
        raise ImportError(
            f"[tocha.as_torch] PyTorch is installed ({found}): `import torch` would not mean what was installed. "
            f"Set {FORCE}=force (or use `tocha run --force`) to have tocha instead"
        )
