"""torch.jit.isinstance: a value against a type that may say what its containers hold."""

from __future__ import annotations

import types
import typing
from typing import Any

_BARE = {list: "list", dict: "dict", tuple: "tuple", typing.List: "List", typing.Dict: "Dict", typing.Tuple: "Tuple"}  # noqa: UP006


def check(obj: Any, target_type: Any) -> bool:
    """Whether obj is of the type, or of one of a tuple of types; containers with all that they hold.

    >>> from typing import Dict, List
    >>> check([1, 2], List[int]), check({"a": [1.5]}, Dict[str, List[int]]), check(None, int | None)
    (True, False, True)
    """
    if isinstance(target_type, tuple):
        return any(check(obj, t) for t in target_type)
    bare = _BARE.get(target_type) if isinstance(target_type, type) or target_type in _BARE else None
    if bare is not None:
        raise RuntimeError(
            f"Attempted to use {bare} without a contained type. Please add a contained type, e.g. {bare}[int]"
        )
    origin, arguments = typing.get_origin(target_type), typing.get_args(target_type)
    if origin in (typing.Union, types.UnionType):
        return any(check(obj, t) for t in arguments)
    if origin is None:
        return isinstance(obj, target_type)
    return _contains(obj, origin, arguments)


def _contains(obj: Any, origin: Any, arguments: tuple) -> bool:
    if not isinstance(obj, origin):
        return False
    if origin is list:
        return all(check(v, arguments[0]) for v in obj)
    if origin is dict:
        return all(check(k, arguments[0]) and check(v, arguments[1]) for k, v in obj.items())
    if origin is tuple:
        return len(obj) == len(arguments) and all(check(v, t) for v, t in zip(obj, arguments, strict=True))
    return False  # programs have no other containers
