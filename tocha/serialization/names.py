"""Names in files. PyTorch's files say `torch...`; what they name lives under `tocha...` here, and back when saving."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from tocha import _C
from tocha._core.library_name import is_ours
from tocha._core.library_name import ours as ours_here

_MOVED = {  # PyTorch's private homes of public things
    ("torch.storage", "_LegacyStorage"): ("tocha.storage", "TypedStorage"),
    ("torch.storage", "_TypedStorage"): ("tocha.storage", "TypedStorage"),
    ("torch.storage", "_UntypedStorage"): ("tocha.storage", "UntypedStorage"),
    ("torch.serialization", "_get_layout"): ("tocha.serialization.names", "_get_layout"),
    ("torch._dynamo.decorators", "_DimRange"): ("tocha.serialization.safe", "DimRange"),
}
_PYTHON_2 = {"__builtin__": "builtins", "copy_reg": "copyreg", "Queue": "queue"}


def ours(module: str, name: str) -> tuple[str, str]:
    """The module and name that a file's module and name mean here."""
    if (module, name) in _MOVED:
        return _MOVED[module, name]
    module = _PYTHON_2.get(module, module)
    if module == "torch" or module.startswith("torch."):
        module = "tocha" + module[len("torch") :]
    return module, name


def theirs(module: str) -> str:
    """The module's name in a file."""
    return "torch" + module[len("tocha") :] if module == "tocha" or module.startswith("tocha.") else module


def in_files(module: str, name: str) -> tuple[str, str]:
    """The module and name under which a file names something of ours."""
    if (module, name) == _MOVED["torch.serialization", "_get_layout"]:
        return "torch.serialization", name
    return theirs(module), name


def home_of(obj: Any, name: str | None) -> tuple[str, str]:
    """Where an object can be found: module and qualified name."""
    qualified = name or getattr(obj, "__qualname__", None) or obj.__name__
    module = getattr(obj, "__module__", None)
    if module is None:  # dtypes
        module = "tocha" if is_ours(type(obj).__module__) else "__main__"
    return ours_here(module), qualified


def _get_layout(name: str) -> Any:
    """A layout by the name that files have for it: "torch.sparse_coo"."""
    found = getattr(_C, name.rpartition(".")[2], None) if isinstance(name, str) else None
    if not isinstance(found, _C.layout):
        raise ValueError(f"no layout is called {name!r}")
    return found


def find(module: str, name: str) -> Any:
    """The object of that name; imports the module."""
    importlib.import_module(module)
    found: Any = sys.modules[module]
    for part in name.split("."):
        found = getattr(found, part)
    return found
