"""Levels of transforms, as Python sees them: opened for a scope, values put in and taken out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tocha import _C
from tocha.utils._pytree import tree_map

Tensor = _C.Tensor

VMAP, GRAD, JVP = range(3)  # as csrc/autograd/levels.h has them
RANDOMNESS = ("error", "same", "different")


@contextmanager
def level(kind: int, size: int = 0, randomness: str = "error") -> Iterator[int]:
    """A level for the length of a with block, whatever happens in it; its id."""
    opened = _C._push_level(kind, size, RANDOMNESS.index(randomness))
    try:
        yield opened
    finally:
        _C._pop_level()


def enter(value: Any, at: int) -> Any:
    """A tensor of a level of differentiation, for a value of the level outside."""
    return _C._wrap_level(value, at, -1) if isinstance(value, Tensor) else value


def leave(value: Any, at: int) -> Any:
    """What a tensor of the level is outside of it."""
    found = _C._unwrap_level(value, at)
    return value if found is None else leave(found[0], at)


def leave_tree(tree: Any, at: int) -> Any:
    return tree_map(lambda v: leave(v, at), tree)


def depth() -> int:
    """How many levels are open in this thread."""
    return len(_C._levels())


def id_of(number: int) -> int:
    """The id of an open level by its number: 1 is the outermost."""
    return _C._levels()[number - 1][0]


def current() -> tuple | None:
    """(id, kind, size, randomness, grad mode before) of the innermost open level."""
    found = _C._levels()
    return found[-1] if found else None


def debug_unwrap(tensor: Tensor, *, recurse: bool = True) -> Tensor:
    """The value that a tensor of a transform holds: with recurse the one outside of all transforms. For looking at only.

    >>> import tocha
    >>> from tocha.func import debug_unwrap, vmap
    >>> seen = []
    >>> def f(x):
    ...     seen.append(debug_unwrap(x))
    ...     return x
    >>> _ = vmap(f)(tocha.arange(3))
    >>> seen
    [tensor([0, 1, 2])]
    """
    found = _C._level_of(tensor)
    if found is None:
        return tensor
    return debug_unwrap(found[1]) if recurse else found[1]
