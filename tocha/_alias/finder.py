"""Finds torch.x as tocha.x, one module object under two names, and gives modules that load later the name torch.x."""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Sequence
from types import ModuleType

from tocha._alias import refused, stamp

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "path")
_FUNCTORCH = {n: f"tocha.{n}" for n in ("functorch", "functorch.experimental", "functorch.compile")}


def ours(name: str) -> str | None:
    """The tocha module that a torch name means."""
    root, dot, rest = name.partition(".")
    return f"tocha{dot}{rest}" if root == "torch" else None


def _find_elsewhere(name: str, path: Sequence[str] | None) -> importlib.machinery.ModuleSpec | None:
    """What the other finders say."""
    for finder in sys.meta_path:
        if not isinstance(finder, AliasFinder) and hasattr(finder, "find_spec"):
            spec = finder.find_spec(name, path)
            if spec is not None:
                return spec
    return None


class _NamedLoader(importlib.machinery.SourceFileLoader):
    """Runs a module of tocha under its torch name, known by both from its first line on."""

    def get_filename(self, name: str | None = None) -> str:
        return str(self.path)

    def exec_module(self, module: ModuleType) -> None:
        twin = module.__name__ = stamp.theirs(module.__name__)
        sys.modules[twin] = module
        try:
            super().exec_module(module)
        except BaseException:
            sys.modules.pop(twin, None)
            raise
        stamp.values(module)
        stamp.module(module, twin)


class _TwinLoader(importlib.machinery.SourceFileLoader):
    """Gives torch.x the module object of tocha.x; code and source are that module's."""

    def __init__(self, name: str, path: str, source: str):
        super().__init__(name, path)
        self._source = source

    def get_filename(self, name: str | None = None) -> str:
        return str(self.path)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        module = importlib.import_module(self._source)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec  # the machinery has put its own there


class _RefusedLoader:
    """A module that only PyTorch has."""

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        vars(module)["__all__"] = refused.names(module.__name__)
        refused.fill(module)


class AliasFinder:
    """On sys.meta_path while the alias is on."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        root = name.partition(".")[0]
        if root == "tocha":
            return self._named(name, path)
        source = _FUNCTORCH.get(name) if root == "functorch" else ours(name)
        return self._twin(name, source) if source else None

    def _named(self, name: str, path: Sequence[str] | None) -> importlib.machinery.ModuleSpec | None:
        spec = _find_elsewhere(name, path)
        if spec is not None and (spec.origin or "").endswith(".py") and stamp.has_twin(name):
            spec.loader = _NamedLoader(name, str(spec.origin))
        return spec

    def _twin(self, name: str, source: str) -> importlib.machinery.ModuleSpec | None:
        try:
            spec = importlib.util.find_spec(source)
        except (ModuleNotFoundError, ValueError):  # no such parent, or a module that has no spec
            spec = None
        loaded = sys.modules.get(source)
        if spec is None and loaded is None:
            return self._refused(name)
        origin = getattr(loaded, "__file__", None) or (spec.origin if spec else None) or ""
        twin = importlib.machinery.ModuleSpec(name, _TwinLoader(name, origin, source), origin=origin)
        where = getattr(loaded, "__path__", None) or (spec.submodule_search_locations if spec else None)
        twin.submodule_search_locations = list(where) if where is not None else None
        twin.has_location = bool(origin)
        return twin

    def _refused(self, name: str) -> importlib.machinery.ModuleSpec | None:
        kinds = refused.known(name)
        if kinds is None:
            return None
        return importlib.machinery.ModuleSpec(name, _RefusedLoader(), is_package="package" in kinds)  # type: ignore[arg-type]
