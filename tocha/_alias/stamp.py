"""Names under the alias: what is loaded says that it is of torch.x, as PyTorch's objects do."""

from __future__ import annotations

import functools
import importlib
import sys
import types
from typing import Any

from tocha import _C
from tocha._alias import refused
from tocha._core.library_name import speak_as

# Rooms that PyTorch has no counterpart of keep their names; some of their code compares them.
_OWN_ROOMS = frozenset({"ir", "operators", "codegen", "_build", "_alias", "as_torch", "_core"})
# Extensions that are linked against PyTorch, and what defines their operators here.
_STAND_INS = {
    "torchvision/_C.so": "tocha._alias.torchvision_ops",
    "torchvision/image.so": "tocha._alias.torchvision_images",
    **dict.fromkeys(
        (f"lib/{name}{suffix}" for name in ("_torchaudio", "libtorchaudio") for suffix in (".abi3.so", ".so")),
        "tocha._alias.torchaudio_ops",
    ),
}
_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType)


def has_twin(name: str) -> bool:
    """Whether a module of tocha is known by a torch name too."""
    root, _, rest = name.partition(".")
    return root == "tocha" and rest.partition(".")[0] not in _OWN_ROOMS


def theirs(name: str) -> str:
    return "torch" + name[len("tocha") :]


@functools.cache
def _twin(name: object) -> str | None:
    """The torch name that a `__module__` becomes: asked for thousands of values of a hundred modules."""
    return theirs(name) if isinstance(name, str) and has_twin(name) else None


class _Listed(types.ModuleType):
    """A module that loads its classes when they are asked for: whoever looks through its dict finds all of them."""

    @property
    def __dict__(self) -> dict[str, Any]:  # type: ignore[override]
        for name in _contents(self)["__all__"]:
            getattr(self, name)
        return _contents(self)


def _contents(found: types.ModuleType) -> dict[str, Any]:
    """What a module holds now."""
    return vars(types.ModuleType)["__dict__"].__get__(found)


def values(found: types.ModuleType, native: bool = False) -> None:
    """Stamps the classes and functions that a module holds. Types made in C++ carry their module in their name too."""
    for value in list(_contents(found).values()):
        is_class = isinstance(value, type)
        if not is_class and type(value) not in _FUNCTIONS:
            continue
        twin = _twin(value.__module__)
        if twin is None:
            continue
        if is_class and native:
            _C._set_type_module(value, twin)
        else:
            value.__module__ = twin


def _define_operator(namespace: str, name: str) -> None:
    importlib.import_module("tocha._alias.operators").define(namespace, name)


def module(found: types.ModuleType, name: str) -> None:
    """The module says that this is its name; its spec too, from which its repr is made."""
    if name in refused.PARTLY:
        refused.fill(found)
    if name == "torch.optim":
        found.__class__ = _Listed
    if name == "torch._ops":
        found.unknown.append(_define_operator)
        found.stand_ins.update(_STAND_INS)
    found.__name__ = name
    if found.__spec__ is not None:
        found.__spec__.name = name
    if found.__package__:
        found.__package__ = theirs(found.__package__) if found.__package__.startswith("tocha") else found.__package__


def everything() -> None:
    """Stamps what is loaded, and registers it by its torch names."""
    speak_as("torch")
    loaded = [(n, m) for n, m in list(sys.modules.items()) if n == "tocha" or n.startswith("tocha.")]
    native = [(m.__name__, m) for m in (_C, *vars(_C).values()) if isinstance(m, types.ModuleType)]
    for _, found in native:
        values(found, native=True)
    for name, found in (*native, *loaded):
        values(found)
        if has_twin(name):
            module(found, theirs(name))
            sys.modules.setdefault(theirs(name), found)
            sys.modules.setdefault(name, found)
