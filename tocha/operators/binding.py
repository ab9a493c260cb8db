"""Matches Python arguments to an operator's schema: the graph-side counterpart of the generated bindings.

Used where operators are called on graph values: lowering, decomposition, shape propagation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tocha.ir.dtypes import DType
from tocha.operators.record import Operator, overloads
from tocha.operators.schema import Argument

Number = bool | int | float | complex


class NoMatch(TypeError):
    """The arguments fit no overload."""


def _is_int(v: object) -> bool:
    return isinstance(v, int) and not isinstance(v, bool)


def accepts(a: Argument, v: object, is_tensor: Callable[[object], bool]) -> bool:
    """Whether v can be passed for a."""
    kind = a.type
    if v is None:
        return kind.endswith("?")
    base = kind.removesuffix("?")
    checks: dict[str, Callable[[Any], bool]] = {
        "Tensor": is_tensor,
        "Operand": lambda x: is_tensor(x) or isinstance(x, Number),
        "Tensor[]": lambda x: isinstance(x, list | tuple) and all(map(is_tensor, x)),
        "Tensor?[]": lambda x: isinstance(x, list | tuple) and all(i is None or is_tensor(i) for i in x),
        "Scalar": lambda x: isinstance(x, Number),
        "Scalar[]": lambda x: isinstance(x, list | tuple),
        "int": _is_int,
        "int[]": lambda x: (isinstance(x, list | tuple) and all(map(_is_int, x))) or (bool(a.size) and _is_int(x)),
        "float": lambda x: isinstance(x, int | float) and not isinstance(x, bool),
        "float[]": lambda x: isinstance(x, list | tuple),
        "bool": lambda x: isinstance(x, bool),
        "bool[]": lambda x: isinstance(x, list | tuple),
        "str": lambda x: isinstance(x, str),
        "dtype": lambda x: isinstance(x, DType),
    }
    check = checks.get(base)
    return check(v) if check else True


def default_value(a: Argument) -> object:
    """The Python value of a schema default."""
    text = a.default
    assert text is not None
    plain = {"None": None, "True": True, "False": False}
    if text in plain:
        value: object = plain[text]
    elif text[0] in "'\"":
        value = text[1:-1]
    elif text.startswith("["):
        value = [int(x) for x in text[1:-1].split(",") if x.strip()]
    else:
        try:
            value = int(text)
        except ValueError:
            try:
                value = float(text)
            except ValueError:
                value = text
    if a.type in ("int[]", "int[]?") and isinstance(value, int) and a.size:
        value = [value] * a.size
    return value


def bind(o: Operator, args: tuple, kwargs: dict[str, Any], is_tensor: Callable[[object], bool]) -> dict[str, Any]:
    """All arguments by name, defaults filled in; raises NoMatch."""
    left = dict(kwargs)
    given = list(args)
    out: dict[str, Any] = {}
    for i, a in enumerate(o.schema.arguments):
        if given and not a.keyword_only:
            loose = a.type == "int[]" and a.size is None and _is_int(given[0])
            value = given[:] if loose else given.pop(0)
            if loose:
                given = []
        elif a.name in left:
            value = left.pop(a.name)
        elif i == 0 and "input" in left:
            value = left.pop("input")
        elif a.default is not None:
            out[a.name] = default_value(a)
            continue
        else:
            raise NoMatch(f"{o.full_name}: {a.name} is missing")
        if not accepts(a, value, is_tensor):
            raise NoMatch(f"{o.full_name}: {a.name} cannot be {value!r}")
        if a.type in ("int[]", "int[]?") and _is_int(value):
            value = [value] * (a.size or 1)
        out[a.name] = value
    if given or left:
        raise NoMatch(f"{o.full_name}: too many arguments")
    return out


def resolve(
    name: str, args: tuple, kwargs: dict[str, Any], is_tensor: Callable[[object], bool]
) -> tuple[Operator, dict[str, Any]]:
    """The first overload that fits, with its arguments."""
    problems = []
    for o in overloads(name):
        try:
            return o, bind(o, args, kwargs, is_tensor)
        except NoMatch as e:
            problems.append(str(e))
    raise NoMatch("; ".join(problems) or f"no operator is called {name}")
