"""Names: unique ones for the values of a graph, and the public name under which a function can be called in printed code."""

from __future__ import annotations

import builtins
import inspect
import keyword
import linecache
import re
import sys
import types
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import tocha
from tocha._core.library_name import is_ours, ours, spoken, spoken_name

_ILLEGAL = re.compile(r"[^0-9a-zA-Z_]+")
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")
# What every generated function may refer to; see _codegen.CUSTOM_BUILTINS.
GENERATED_GLOBALS = ("inf", "nan", "NoneType", "tocha", "device", "fx_pytree", "pytree")
RESERVED = frozenset({*keyword.kwlist, *dir(builtins), *GENERATED_GLOBALS})
# Where public functions are looked for; the first that has it names it.
NAMESPACES = (
    "tocha", "tocha.nn.functional", "tocha.linalg", "tocha.special", "tocha.fft", "tocha.functional", "tocha.nn.init",
    "tocha.signal.windows", "tocha.sparse",
)  # fmt: skip


def is_magic(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


@lru_cache(maxsize=1024)
def snake_case(name: str) -> str:
    """
    >>> snake_case("FooBar"), snake_case("ABc")
    ('foo_bar', 'abc')
    """
    return _HUMP.sub("_", name).lower()


@lru_cache(maxsize=4096)
def _identifier(candidate: str) -> tuple[str, str, int]:
    """The name that is nearest to a candidate, and its parts: what comes before its number, and that (0 for none)."""
    name = _ILLEGAL.sub("_", candidate) or "_unnamed"
    if name[0].isdigit():
        name = f"_{name}"
    base, _, number = name.rpartition("_")
    return (name, base, int(number)) if base and number.isdecimal() else (name, name, 0)


class Namespace:
    """Hands out names that are Python identifiers and used once: x, x_1, x_2, ..."""

    def __init__(self) -> None:
        self._obj_to_name: dict[Any, str] = {}
        self._used_names: set[str] = set()
        self._base_count: dict[str, int] = {}

    def create_name(self, candidate: str, obj: object | None) -> str:
        """A free name as near to the candidate as can be; an object that has a name already keeps it."""
        if obj is not None and obj in self._obj_to_name:
            return self._obj_to_name[obj]
        candidate, base, number = _identifier(candidate)
        last = self._base_count.get(base, 0)
        if candidate in self._used_names or self._is_taken(candidate, obj):
            number = last
            while True:
                number += 1
                candidate = f"{base}_{number}"
                if candidate not in self._used_names and not self._is_taken(candidate, obj):
                    break
        self._base_count[base] = number if number > last else last
        self._used_names.add(candidate)
        if obj is not None:
            self._obj_to_name[obj] = candidate
        return candidate

    def _is_taken(self, name: str, obj: object) -> bool:
        """Keywords and builtins mean something already, unless the name is asked for by the builtin itself."""
        return (name in RESERVED or name == spoken()) and (obj is None or getattr(builtins, name, None) is not obj)

    def associate_name_with_obj(self, name: str, obj: object) -> None:
        known = self._obj_to_name.setdefault(obj, name)
        if known != name:
            raise AssertionError(f"obj {obj} already has name {known}, cannot associate {name}")

    def _rename_object(self, obj: object, name: str) -> None:
        if obj not in self._obj_to_name:
            raise AssertionError(f"Object {obj!r} not found in _obj_to_name")
        self._obj_to_name[obj] = name
        self._used_names.add(name)


def _public_names() -> dict[int, tuple[Any, str]]:
    """Functions of the library by identity. Nobody has functions of a namespace that is not loaded yet."""
    return _names_in(tuple([n for n in NAMESPACES if n in sys.modules]))


@lru_cache(maxsize=1)
def _names_in(namespaces: tuple[str, ...]) -> dict[int, tuple[Any, str]]:
    """Values keep the functions alive, so that identities stay theirs."""
    found: dict[int, tuple[Any, str]] = {}
    for namespace in namespaces:
        for name, f in vars(sys.modules[namespace]).items():
            if callable(f) and not isinstance(f, type):
                found.setdefault(id(f), (f, f"{namespace}.{name}"))
    for name, f in vars(tocha.Tensor).items():
        if callable(f):
            found.setdefault(id(f), (f, f"tocha.Tensor.{name}"))
    return found


@lru_cache(maxsize=1)
def _members_of_tensor() -> dict[int, Any]:
    return {id(member): member for member in vars(tocha.Tensor).values()}


def is_tensor_method(func: Any) -> bool:
    """Whether a function is one of Tensor's methods."""
    return id(func) in _members_of_tensor()


def public_name(func: Callable) -> str | None:
    """The name under which the library offers this function, if it does.

    >>> import tocha
    >>> public_name(tocha.nn.functional.softmax), public_name(tocha.Tensor.relu)
    ('tocha.nn.functional.softmax', 'tocha.Tensor.relu')
    """
    known = _public_names().get(id(func))
    return known[1] if known else None


def _name_of_lambda(func: Any) -> str:
    """The variable a lambda was assigned to, as far as its source line says."""
    line = linecache.getline(func.__code__.co_filename, func.__code__.co_firstlineno)
    assigned = re.match(r"\s*(\w+)\s*=[^=]", line)
    return assigned.group(1) if assigned else "_lambda_"


def qualified_name(func: Any) -> str:
    """How a function is called from anywhere: module and name, the public one for functions of the library.

    >>> import operator
    >>> qualified_name(operator.add), qualified_name(len)
    ('_operator.add', 'len')
    """
    if (name := public_name(func)) is not None:
        return spoken_name(name)
    name = getattr(func, "__name__", None)
    if name is None:
        raise RuntimeError(f"cannot name {func!r} in generated code: it has no __name__")
    if getattr(builtins, name, None) is func:
        return name
    if isinstance(func, types.MethodDescriptorType | types.WrapperDescriptorType | types.GetSetDescriptorType):
        return f"{qualified_name(func.__objclass__)}.{name}"
    if isinstance(func, types.MethodWrapperType) and hasattr(func.__self__, "__objclass__"):
        return f"{qualified_name(func.__self__)}.{name}"  # the getter of a property: Tensor.T.__get__
    if name == "<lambda>":
        name = _name_of_lambda(func)
    module = getattr(func, "__module__", None) or _module_holding(func)
    module = spoken_name(ours(module).replace("tocha._ops.", "tocha.ops."))
    qualname = getattr(func, "__qualname__", name)
    if isinstance(func, type) and "<locals>" not in qualname:
        return f"{module}.{qualname}"
    return f"{module}.{name}"


def _module_holding(func: Any) -> str:
    owner = getattr(func, "__self__", None)
    if inspect.ismodule(owner):
        return owner.__name__
    if owner is not None:
        cls = owner if isinstance(owner, type) else type(owner)
        return f"{cls.__module__}.{cls.__name__}"
    raise RuntimeError(f"cannot find module for {func}")


def is_from_tocha(obj: Any) -> bool:
    """Whether `tocha.…` names it: then printed code needs no import but the library."""
    if public_name(obj) is not None:
        return True
    module = getattr(obj, "__module__", None)
    if not isinstance(module, str) or not is_ours(module):
        return False
    found: Any = tocha
    try:
        for part in qualified_name(obj).split(".")[1:]:
            found = getattr(found, part)
    except (AttributeError, RuntimeError, ImportError):
        return False
    return found is obj
