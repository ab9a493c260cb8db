"""Modules that PyTorch has and tocha does not: under the alias they can be imported, and their names refuse when used.

A program may import much more than it uses. What it imports is there, as a class that can be named in annotations,
`isinstance` and bases, or as a function; making or calling one raises NotImplementedError with the name.
"""

from __future__ import annotations

import functools
import importlib
import os
import types
from typing import Any, NoReturn

from tocha import _C
from tocha._alias import native_names

# Modules of which tocha has a part: their other names refuse, because programs import them before they ask what is there.
PARTLY = frozenset(
    f"torch.{n}"
    for n in (
        "_dispatch.python", "_prims_common", "cuda", "distributed", "distributed.distributed_c10d", "jit", "onnx", "onnx.symbolic_helper", "utils.data",
        "distributed.tensor", "distributed.tensor.placement_types", "distributed.nn",
        "distributed.nn.functional", "distributed.device_mesh", "distributed._functional_collectives", "utils.data.datapipes", "utils.data.datapipes.iter",
        "_inductor", "_inductor.codecache", "_inductor.compile_fx", "_inductor.custom_graph_pass", "_inductor.decomposition", "_inductor.exc",
        "_inductor.freezing", "_inductor.graph", "_inductor.lowering", "_inductor.metrics", "_inductor.output_code", "_inductor.pattern_matcher", "_inductor.utils",
    )
)  # fmt: skip


@functools.cache
def _table() -> dict[str, dict[str, str]]:
    with open(os.path.join(os.path.dirname(__file__), "pytorch_names.json")) as file:
        return importlib.import_module("json").load(file)


def known(name: str) -> dict[str, str] | None:
    """The names, by kind, of a module torch.x that only PyTorch has, or has more of."""
    return _table().get(name.removeprefix("torch."))


def _refuse(full: str) -> NoReturn:
    raise NotImplementedError(f"[{full}] is not built in tocha: it is there to be imported, not to be used")


class _Refused(type):
    """The class of refused classes: they have no instances."""

    def __call__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        _refuse(f"{cls.__module__}.{cls.__qualname__}")


def _function(module: str, name: str) -> Any:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and not kwargs and isinstance(args[0], types.FunctionType):
            return functools.wraps(args[0])(_function(module, name))  # a decorator: what it decorates refuses
        _refuse(f"{module}.{name}")

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__module__ = module
    refuse.__doc__ = "Not built in tocha."
    return refuse


def _predicate(module: str, name: str) -> Any:
    """A question whether something is there or under way (`rpc.is_available()`): it is not."""

    def answer_no() -> bool:
        return False

    answer_no.__name__ = answer_no.__qualname__ = name
    answer_no.__module__ = module
    answer_no.__doc__ = "False: what is asked for is not built in tocha."
    return answer_no


class _Member:
    """A member of a refused enumeration: there to be a default argument."""

    def __init__(self, name: str):
        self._name = name

    def __repr__(self) -> str:
        return self._name


def _class(module: str, name: str) -> Any:
    return _Refused(name, (), {"__module__": module, "__doc__": "Not built in tocha."})


def _made(module: str, name: str, kinds: dict[str, str]) -> Any:
    """The refusing class or function of a name; None for others. Values are left out: what they are is not known."""
    if name in kinds.get("class", "").split():
        made = _class(module, name)
        for _, _, member in (m.partition(".") for m in kinds.get("member", "").split() if m.startswith(f"{name}.")):
            full = f"{name}.{member}"
            setattr(made, member, _Member(f"{module}.{full}") if member.isupper() else _function(module, full))
        return made
    if name in kinds.get("function", "").split():
        return _function(module, name)
    if name in kinds.get("predicate", "").split():
        return _predicate(module, name)
    for again, _, origin in (a.partition("=") for a in kinds.get("again", "").split()):
        if again == name:
            return _again(*origin.rpartition(".")[::2])
    return None


def _again(module: str, name: str) -> Any:
    """What a module offers that comes from another: that module's own, if it is there."""
    try:
        found = importlib.import_module(module)
    except ImportError:
        found = None
    if hasattr(found, name):
        return getattr(found, name)
    if known(f"{module}.{name}") is not None:
        return importlib.import_module(f"{module}.{name}")
    return _class(module, name) if name[:1].isupper() else _function(module, name)


def answer(module: types.ModuleType, name: str) -> Any:
    """A name that a module has in PyTorch and not here: a module, a class or a function that refuses."""
    full = f"{module.__name__}.{name}"
    if module.__name__ == "torch" and (name in native_names.LATE or name in _table()["_C"]["class"].split()):
        return getattr(_C, name)
    if known(full) is not None:
        return importlib.import_module(full)
    made = None if name.startswith("__") else _made(module.__name__, name, known(module.__name__) or {})
    if made is None:
        raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}", name=name, obj=module)
    setattr(module, name, made)
    return made


def fill(module: types.ModuleType) -> None:
    """Lets a module answer for names that it has in PyTorch only, after its own way of answering."""
    own = vars(module).get("__getattr__")

    def __getattr__(name: str) -> Any:
        if own is not None:
            try:
                return own(name)
            except AttributeError:
                pass
        return answer(module, name)

    vars(module)["__getattr__"] = __getattr__


def names(module: str) -> list[str]:
    """The public names that a refused module offers, for `import *`."""
    kinds = known(module) or {}
    found = [
        n.partition("=")[0] for kind in ("class", "function", "predicate", "again") for n in kinds.get(kind, "").split()
    ]
    return [n for n in found if not n.startswith("_")]
