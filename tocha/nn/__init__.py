"""Neural networks: modules and their parts, functions, initialisation, tools.

The layers and tools are loaded when they are first named, so that importing the package stays cheap.

>>> import tocha
>>> tocha.nn.Sequential()(1)
1
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tocha.nn import functional  # noqa: F401
from tocha.nn.parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter  # noqa: F401

if TYPE_CHECKING:
    from tocha.nn import attention, common_types, grad, init, modules, parallel, utils  # noqa: F401
    from tocha.nn.modules import *  # noqa: F403
    from tocha.nn.modules.module import Module as _Module  # noqa: F401
    from tocha.nn.modules.utils import factory_kwargs  # noqa: F401
    from tocha.nn.parallel import DataParallel  # noqa: F401

_HERE = ["Buffer", "Parameter", "UninitializedBuffer", "UninitializedParameter", "functional"]
_SUBMODULES = ["attention", "common_types", "grad", "init", "modules", "parallel", "utils"]


def _load_layers() -> None:
    """Puts every layer into this namespace."""
    layers = importlib.import_module("tocha.nn.modules")
    names = layers.__all__
    globals().update({name: getattr(layers, name) for name in names})
    globals()["factory_kwargs"] = importlib.import_module("tocha.nn.modules.utils").factory_kwargs
    globals()["__all__"] = sorted([*names, *_HERE, *_SUBMODULES, "DataParallel", "factory_kwargs"])


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return importlib.import_module(f"tocha.nn.{name}")
    if name == "_Module":  # for graphs, which are modules and need no layer
        return globals().get("Module") or importlib.import_module("tocha.nn.modules.module").Module
    if name == "DataParallel":
        return importlib.import_module("tocha.nn.parallel").DataParallel
    if "__all__" not in globals():
        _load_layers()
        if name in globals():
            return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    if "__all__" not in globals():
        _load_layers()
    return sorted({*globals(), *_SUBMODULES, "DataParallel"})
