"""Modules of settings: a table says each one's type, default, meaning and environment variable; what it does not know is refused with the nearest name.

>>> from tocha._dynamo import config
>>> config.recompile_limti = 3
Traceback (most recent call last):
AttributeError: [config] no such setting: 'recompile_limti'; did you mean 'recompile_limit'?
>>> saved = config.save_config()
>>> config.recompile_limit = 3
>>> config.load_config(saved)
>>> config.recompile_limit
8
"""

from __future__ import annotations

import contextlib
import copy
import os
import sys
import types
import warnings
from collections.abc import Collection, Mapping
from typing import Any

from tocha._core.on_demand import Later

difflib, hashlib, json = Later("difflib"), Later("hashlib"), Later("json")

Row = tuple[type | tuple[type, ...], Any, str] | tuple[type | tuple[type, ...], Any, str, str]
Table = Mapping[str, Row]  # name: type, default, what it does, and the environment variable that sets it
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off", "")


def from_environment(name: str, kind: type | tuple[type, ...], variable: str, default: Any) -> Any:
    """What an environment variable says, as the setting's type; a text that is none is refused."""
    text = os.environ.get(variable)
    if text is None:
        return default
    kinds = kind if isinstance(kind, tuple) else (kind,)
    try:
        if bool in kinds:
            if text.lower() not in (*_TRUE, *_FALSE):
                raise ValueError(text)
            return text.lower() in _TRUE
        for number in (int, float):
            if number in kinds:
                return number(text)
    except ValueError:
        raise ValueError(f"[config] {variable} sets {name}, which takes {_shown_type(kind)}: got {text!r}") from None
    return text


def _shown_type(kind: type | tuple[type, ...]) -> str:
    return " or ".join(k.__name__ for k in (kind if isinstance(kind, tuple) else (kind,)))


class Group:
    """Settings with a common first part: config.trace.enabled is config's "trace.enabled"."""

    def __init__(self, module: ConfigModule, prefix: str) -> None:
        self.__dict__.update(_module=module, _prefix=prefix)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._module, f"{self._prefix}.{name}")

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._module, f"{self._prefix}.{name}", value)

    def __delattr__(self, name: str) -> None:
        delattr(self._module, f"{self._prefix}.{name}")

    def __dir__(self) -> list[str]:
        return [n.removeprefix(f"{self._prefix}.") for n in self._module.names() if n.startswith(f"{self._prefix}.")]


class Patch(contextlib.ContextDecorator):
    """Other values for a while: around a block, any number of times, a function, or every test of a class of them."""

    def __init__(self, module: ConfigModule, changes: dict[str, Any]) -> None:
        self.module, self.changes = module, changes
        self.open: list[contextlib.ExitStack] = []

    def __enter__(self) -> None:
        with contextlib.ExitStack() as around:
            for name, value in self.changes.items():
                around.callback(setattr, self.module, name, getattr(self.module, name))
                setattr(self.module, name, value)
            self.open.append(around.pop_all())

    def __exit__(self, *raised: Any) -> None:
        self.open.pop().close()

    def __call__(self, function: Any) -> Any:
        if not isinstance(function, type):
            return super().__call__(function)
        if not issubclass(function, sys.modules["unittest"].TestCase if "unittest" in sys.modules else ()):
            raise AssertionError("[config] settings can be patched for a class only if that is a unittest.TestCase")
        patch_class(function, self)
        return function


def patch_class(case: Any, patch: Patch) -> None:
    """Puts a patch around all tests of a class."""
    set_up, tear_down = case.setUpClass.__func__, case.tearDownClass.__func__

    def setUpClass(cls: Any) -> None:
        patch.__enter__()
        try:
            set_up(cls)
        except BaseException:  # unittest ends no class that did not begin
            patch.__exit__()
            raise

    def tearDownClass(cls: Any) -> None:
        try:
            tear_down(cls)
        finally:
            patch.__exit__()

    case.setUpClass, case.tearDownClass = classmethod(setUpClass), classmethod(tearDownClass)


# What a module of settings keeps beside them.
MACHINERY = frozenset({"_table", "_without_effect", "_aliases", "_or_none", "_said", "_kept", "_elsewhere"})


class ConfigModule(types.ModuleType):
    """A module whose attributes are settings."""

    _table: Table
    _without_effect: Mapping[str, Any]
    _aliases: Mapping[str, str]
    _or_none: bool
    _said: set[str]
    _kept: dict[str, Any]  # what settings without effect were set to
    _elsewhere: Mapping[str, Any]  # settings of other modules that are known here too

    def _check_known(self, name: str) -> None:
        if name in self._table or name in self._without_effect or name in self._aliases or name in self._elsewhere:
            return
        near = difflib.get_close_matches(name, self.names(), 1)
        raise AttributeError(f"[config] no such setting: {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))

    def __getattr__(self, name: str) -> Any:
        if name in MACHINERY or name.startswith("__"):
            raise AttributeError(name)
        if any(n.startswith(f"{name}.") for n in (*self._table, *self._without_effect)):
            return Group(self, name)
        self._check_known(name)
        if name in self._elsewhere:
            return getattr(self._elsewhere[name], name)
        if name in self._aliases:
            return getattr(self, self._aliases[name])
        if name in self._table:
            raise AttributeError(f"[config] the setting {name!r} was taken away")
        return self._kept.get(name, self._without_effect[name])

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_") and name not in self.__dict__.get("_without_effect", ()):
            super().__setattr__(name, value)
            return
        self._check_known(name)
        if name in self._elsewhere:
            setattr(self._elsewhere[name], name, value)
            return
        name = self._aliases.get(name, name)
        if name in self._without_effect:
            if value != self._without_effect[name] and name not in self._said:
                self._said.add(name)
                warnings.warn(f"[{self.__name__}] the setting {name!r} has no effect", stacklevel=2)
            self._kept[name] = value  # programs read what they set
            return
        kind = self._table[name][0]
        if not isinstance(value, kind) and not (self._or_none and value is None):
            raise TypeError(f"[config] {name} takes {kind}, got {value!r}")
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        """`unittest.mock.patch` takes a setting away before it sets what was there. One without effect has what it always has."""
        self._check_known(name)
        if name in self._elsewhere:
            delattr(self._elsewhere[name], name)
        elif name in self._aliases:
            delattr(self, self._aliases[name])
        elif name in self._table:
            super().__delattr__(name)
        else:
            self._kept.pop(name, None)

    def patch(self, changes: dict[str, Any] | str | None = None, value: Any = None, **more: Any) -> Any:
        """A context manager and decorator under which settings have other values."""
        every = {changes: value} if isinstance(changes, str) else {**(changes or {}), **more}
        for name in every:
            self._check_known(name)

        return Patch(self, every)

    # -- all of them

    def names(self) -> list[str]:
        return sorted([*self._table, *self._without_effect, *self._aliases, *self._elsewhere])

    def to_dict(self) -> dict[str, Any]:
        """Every setting by its name."""
        return {n: copy.deepcopy(getattr(self, n)) for n in sorted([*self._table, *self._without_effect])}

    get_config_copy = shallow_copy_dict = save_config_portable = get_serializable_config_copy = to_dict

    def save_config(self) -> bytes:
        """What was changed, as bytes: for load_config, here or in another process."""
        kept = {n: v for n, v in self._kept.items() if v != self._without_effect[n]}
        return json.dumps({n: _encoded(v) for n, v in {**self._changed(), **kept}.items()}, default=str).encode()

    def load_config(self, saved: bytes | str | Mapping[str, Any]) -> None:
        """Every setting as it was saved; from a dict, those that are in it."""
        if isinstance(saved, Mapping):
            for n, v in saved.items():
                setattr(self, n, v)
            return
        changed = {n: _decoded(v) for n, v in json.loads(saved).items()}
        self._kept.clear()
        for n in self._without_effect:
            if n in changed:
                self._kept[n] = changed[n]
        for n, row in self._table.items():
            setattr(self, n, changed.get(n, copy.deepcopy(row[1])))

    def codegen_config(self) -> str:
        """Python that sets what is not as at the beginning."""
        return "\n".join(f"{self.__name__}.{n} = {v!r}" for n, v in self._changed().items())

    def _changed(self) -> dict[str, Any]:
        return {n: getattr(self, n) for n, row in self._table.items() if getattr(self, n) != row[1]}

    def is_default(self, name: str) -> bool:
        self._check_known(name)
        name = self._aliases.get(name, name)
        return name not in self._table or getattr(self, name) == self._table[name][1]

    def get_type(self, name: str) -> Any:
        self._check_known(name)
        name = self._aliases.get(name, name)
        return self._table[name][0] if name in self._table else type(self._without_effect[name])

    def get_hash(self) -> bytes:
        return hashlib.md5(self.key_text().encode(), usedforsecurity=False).digest()

    def describe(self) -> str:
        return "\n".join(f"{n} = {getattr(self, n)!r}  # {row[2]}" for n, row in self._table.items())

    def key_text(self, without: Collection[str] = ()) -> str:
        """The values of all settings that have an effect, as part of a cache's key."""
        return ", ".join(f"{n}={getattr(self, n)!r}" for n in sorted(self._table) if n not in without)


def _encoded(value: Any) -> Any:
    """JSON has no sets; functions in them are not kept."""
    if isinstance(value, set | frozenset):
        return {"set": sorted(v for v in value if isinstance(v, str))}
    return {"value": value}


def _decoded(value: Mapping[str, Any]) -> Any:
    return set(value["set"]) if "set" in value else value["value"]


def install(
    module: str,
    table: Table,
    without_effect: Mapping[str, Any] | None = None,
    aliases: Mapping[str, str] | None = None,
    or_none: bool = False,
    elsewhere: Mapping[str, Any] | None = None,
) -> None:
    """Makes a module one of settings. `aliases`: other names; `or_none`: every setting may be None too; `elsewhere`: the module of each
    setting that is another one's."""
    config: Any = sys.modules[module]
    config.__class__ = ConfigModule
    config._table, config._without_effect, config._aliases = table, without_effect or {}, aliases or {}
    config._or_none, config._said, config._kept, config._elsewhere = or_none, set(), {}, elsewhere or {}
    for name, row in table.items():
        default = copy.deepcopy(row[1])
        setattr(config, name, from_environment(name, row[0], row[3], default) if len(row) == 4 else default)
