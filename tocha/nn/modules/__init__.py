"""The modules of tocha.nn, one file per family. They are loaded when one is first named: graphs need the class Module alone."""

import importlib as _importlib
from importlib.util import find_spec as _find_spec
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

if _TYPE_CHECKING:
    from tocha.nn.modules._layers import *  # noqa: F403


def _load() -> None:
    layers = _importlib.import_module("tocha.nn.modules._layers")
    globals().update({n: getattr(layers, n) for n in layers.__all__}, __all__=layers.__all__)


def __getattr__(name: str) -> _Any:
    if (name[0].isupper() or name == "__all__") and "__all__" not in globals():
        _load()
        if name in globals():
            return globals()[name]
    elif name[0].islower() and _find_spec(f"{__name__}.{name}"):
        return _importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    if "__all__" not in globals():
        _load()
    return sorted(globals())
