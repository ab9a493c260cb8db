"""Modules of settings: a table says each one's type, default and meaning; what it does not know is refused with the nearest name."""

from __future__ import annotations

import contextlib
import difflib
import sys
import types
import warnings
from collections.abc import Collection, Iterator, Mapping
from typing import Any

Table = Mapping[str, tuple[type | tuple[type, ...], Any, str]]  # name: type, default, what it does


class ConfigModule(types.ModuleType):
    """A module whose attributes are settings."""

    _table: Table
    _without_effect: Mapping[str, Any]
    _aliases: Mapping[str, str]
    _or_none: bool
    _said: set[str]

    def _check_known(self, name: str) -> None:
        known = [*self._table, *self._without_effect, *self._aliases]
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            raise AttributeError(
                f"[config] no such setting: {name!r}" + (f"; did you mean {near[0]!r}?" if near else "")
            )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        self._check_known(name)
        return getattr(self, self._aliases[name]) if name in self._aliases else self._without_effect[name]

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            super().__setattr__(name, value)
            return
        self._check_known(name)
        name = self._aliases.get(name, name)
        if name in self._without_effect:
            if value != self._without_effect[name] and name not in self._said:
                self._said.add(name)
                warnings.warn(f"[{self.__name__}] the setting {name!r} has no effect", stacklevel=2)
            return
        kind = self._table[name][0]
        if not isinstance(value, kind) and not (self._or_none and value is None):
            raise TypeError(f"[config] {name} takes {kind}, got {value!r}")
        super().__setattr__(name, value)

    def patch(self, changes: dict[str, Any] | str | None = None, value: Any = None, **more: Any) -> Any:
        """A context manager and decorator under which settings have other values."""
        every = {changes: value} if isinstance(changes, str) else {**(changes or {}), **more}

        @contextlib.contextmanager
        def changed() -> Iterator[None]:
            before = {k: getattr(self, k) for k in every}
            for k, v in every.items():
                setattr(self, k, v)
            try:
                yield
            finally:
                for k, v in before.items():
                    setattr(self, k, v)

        return changed()

    def describe(self) -> str:
        return "\n".join(f"{n} = {getattr(self, n)!r}  # {doc}" for n, (_, _, doc) in self._table.items())

    def key_text(self, without: Collection[str] = ()) -> str:
        """The values of all settings that have an effect, as part of a cache's key."""
        return ", ".join(f"{n}={getattr(self, n)!r}" for n in sorted(self._table) if n not in without)

    def names(self) -> list[str]:
        return sorted([*self._table, *self._without_effect, *self._aliases])


def install(
    module: str,
    table: Table,
    without_effect: Mapping[str, Any] | None = None,
    aliases: Mapping[str, str] | None = None,
    or_none: bool = False,
) -> None:
    """Makes a module one of settings. `aliases`: other names; `or_none`: every setting may be None too."""
    config: Any = sys.modules[module]
    config.__class__ = ConfigModule
    config._table, config._without_effect, config._aliases = table, without_effect or {}, aliases or {}
    config._or_none, config._said = or_none, set()
    for name, (_, default, _) in table.items():
        setattr(config, name, default)
