"""Operators as functions of smaller operators, by their public names: `_refs.addcmul`, `_refs.nn.functional.silu`. From the records.

>>> import tocha
>>> tocha._refs.addcmul(tocha.ones(2), tocha.ones(2), tocha.ones(2), value=3)
tensor([4., 4.])
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tocha import _ops
from tocha._decomp.from_records import decomposition_of
from tocha._library.arguments import bound, numbers_for_tensors
from tocha.operators.overloads import Overload, table
from tocha.operators.record import NAMESPACES


def _aten_name(space: str, name: str) -> str:
    return name if space in ("", "nn") else f"{space}_{name}"


class _Reference:
    """An operator's overloads, taken apart; the operator itself where it has no parts."""

    def __init__(self, name: str, overloads: list[Overload]):
        self.__name__ = self.__qualname__ = name
        self.__doc__ = overloads[0].record.doc
        self._forms: list[tuple[Overload, Callable]] = []
        for o in overloads:
            handle = getattr(getattr(_ops.ops.aten, name), o.schema.overload_name or "default")
            self._forms.append((o, decomposition_of(o) or handle))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        problems, second = [], None
        for o, f in self._forms:
            found = bound(o.schema, args, kwargs)
            if isinstance(found, str):
                problems.append(found)
            elif numbers_for_tensors(o.schema, found):
                second = second or f
            else:
                return f(*args, **kwargs)
        if second is not None:
            return second(*args, **kwargs)
        raise TypeError(f"[{self.__name__}] no overload takes these arguments: {problems[0]}")

    def __repr__(self) -> str:
        return f"<reference {self.__name__}>"


class _Space:
    """The references of one namespace: `_refs.special`."""

    def __init__(self, space: str):
        self._space = space

    def __getattr__(self, name: str) -> Any:
        if self._space == "nn" and name == "functional":
            return self
        found = _reference(_aten_name(self._space, name))
        if found is None:
            raise AttributeError(f"module 'tocha._refs.{self._space}' has no attribute {name!r}")
        return found

    def __dir__(self) -> list[str]:
        prefix = _aten_name(self._space, "")
        return sorted(n.removeprefix(prefix) for n in table() if n.startswith(prefix))


_made: dict[str, Any] = {}


def _reference(name: str) -> Any:
    if name not in _made and name in table():
        _made[name] = _Reference(name, list(table()[name].values()))
    return _made.get(name)


def __getattr__(name: str) -> Any:
    if name in NAMESPACES:
        return _Space(name)
    found = None if name.startswith("__") else _reference(name)
    if found is None:
        raise AttributeError(f"module 'tocha._refs' has no attribute {name!r}")
    return found


def __dir__() -> list[str]:
    return sorted([*table(), *NAMESPACES])
