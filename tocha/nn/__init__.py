"""Neural networks: modules and their parts, functions, initialisation, tools.

>>> import tocha
>>> tocha.nn.Sequential()(1)
1
"""

from __future__ import annotations

import importlib
from types import ModuleType

from tocha.nn import functional, init
from tocha.nn import modules as modules
from tocha.nn.modules import *  # noqa: F403
from tocha.nn.modules.utils import factory_kwargs
from tocha.nn.parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter

__all__ = [
    *(name for name in vars(modules) if name[0].isupper()),
    "Buffer",
    "Parameter",
    "UninitializedBuffer",
    "UninitializedParameter",
    "attention",  # noqa: F405
    "common_types",  # noqa: F405
    "factory_kwargs",
    "functional",
    "grad",  # noqa: F405
    "init",
    "utils",
]


def __getattr__(name: str) -> ModuleType:
    # Submodules that few programs need are loaded when they are first named.
    if name in ("attention", "common_types", "grad", "utils"):
        return importlib.import_module(f"tocha.nn.{name}")
    raise AttributeError(f"module 'tocha.nn' has no attribute {name!r}")
