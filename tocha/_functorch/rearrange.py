"""rearrange: transposes, splits and merges of dimensions, written as a pattern ("b (h w) c -> b c h w")."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from tocha import _C

Tensor = _C.Tensor
_ELLIPSIS = "..."
Group = tuple[str, ...]  # names that one dimension is made of; none for a dimension of size one
_REST: Group = ("...", "")  # an ellipsis by itself: dimensions that stay as many


class DimensionBindError(Exception):
    """Sizes in a pattern do not fit the tensor's."""


def rearrange(tensor: Tensor | Sequence[Tensor], pattern: str, **axes_lengths: int) -> Tensor:
    """The tensor (or tensors, stacked) with dimensions reordered, split and merged as the pattern says.

    >>> import tocha
    >>> rearrange(tocha.ones(2, 6, 3), "b (h w) c -> b c h w", h=2).shape
    tocha.Size([2, 3, 2, 3])
    """
    if not isinstance(tensor, Tensor):
        tensor = _C.stack(list(tensor))
    left, right = _parsed(pattern, tuple(sorted(axes_lengths)))
    left, right = _without_ellipsis(left, right, tensor.dim())
    if len(left) != tensor.dim():
        raise ValueError(
            f"Number of dimensions in pattern ({len(left)}) must be equal to the number of dimensions in the tensor ({tensor.dim()})"
        )
    sizes: dict[str, Any] = dict(axes_lengths)
    for group, size in zip(left, tensor.shape, strict=True):
        _bind(group, size, sizes)
    names = [n for group in left for n in group]
    split = tensor.reshape([sizes[n] for n in names])
    order = [names.index(n) for group in right for n in group]
    return split.permute(order).reshape([_product(sizes[n] for n in group) for group in right])


def _product(sizes: Any) -> Any:
    found = 1
    for size in sizes:
        found = found * size
    return found


def _bind(group: Group, size: Any, sizes: dict[str, Any]) -> None:
    """Sizes of the names that a dimension is made of; at most one may be unknown."""
    known = _product(sizes[n] for n in group if n in sizes)
    unknown = [n for n in group if n not in sizes]
    if len(unknown) > 1:
        raise DimensionBindError(f"cannot infer the sizes of two dimensions at once {unknown[0]} and {unknown[1]}")
    shown = tuple(sizes.get(n, "?") for n in group)
    if unknown:
        if size % known != 0:
            raise DimensionBindError(f"inferred dimension does not evenly fit into larger dimension: {size} vs {shown}")
        sizes[unknown[0]] = size // known
    elif known != size:
        raise DimensionBindError(
            f"Dimension sizes to do not match ({size} != {known}) when matching dimension pack {shown}"
        )


# -- patterns ----------------------------------------------------------------------------------------


@functools.lru_cache(256)
def _parsed(pattern: str, given: Group) -> tuple[list[Group], list[Group]]:
    """Both sides of a pattern as groups of names."""
    sides = pattern.split("->")
    if len(sides) != 2:
        raise ValueError("Pattern must contain a single '->' separator")
    left, right = (_groups(side) for side in sides)
    inside = [part.partition(")")[0] for part in sides[0].split("(")[1:]]
    if any(_ELLIPSIS in part for part in inside):
        raise ValueError(f"Ellipsis is parenthesis in the left side is not allowed: {pattern}")
    before, after = ({n for group in side for n in group if n} for side in (left, right))
    if _ELLIPSIS in after and _ELLIPSIS not in before:
        raise ValueError(f"Ellipsis found in right side, but not left side of a pattern {pattern}")
    if before != after:
        raise ValueError(f"Identifiers only on one side of rearrange expression (should be on both): {before ^ after}")
    if missing := set(given) - before:
        raise ValueError(f"Identifiers not found in rearrange expression: {missing}")
    return left, right


def _groups(side: str) -> list[Group]:
    found: list[Group] = []
    inside: list[str] | None = None  # names of the parenthesis that is open
    seen: set[str] = set()
    for word in _words(side):
        if word == "(":
            if inside is not None:
                raise ValueError("Axis composition is one-level (brackets inside brackets not allowed)")
            inside = []
        elif word == ")":
            if inside is None:
                raise ValueError("Brackets are not balanced")
            found.append(tuple(inside))
            inside = None
        elif word == "1":
            if inside is None:
                found.append(())
        else:
            if word in seen:
                raise ValueError(f"Indexing expression contains duplicate dimension '{word}'")
            seen.add(word)
            if inside is None:
                found.append(_REST if word == _ELLIPSIS else (word,))
            else:
                inside.append(word)
    if inside is not None:
        raise ValueError(f"Imbalanced parentheses in expression: '{side}'")
    return found


def _words(side: str) -> list[str]:
    found: list[str] = []
    at = 0
    while at < len(side):
        if side.startswith(_ELLIPSIS, at):
            found.append(_ELLIPSIS)
            at += 3
        elif side[at] in "()":
            found.append(side[at])
            at += 1
        elif side[at] == " ":
            at += 1
        elif side[at].isalnum() or side[at] == "_":
            end = at
            while end < len(side) and (side[end].isalnum() or side[end] == "_"):
                end += 1
            found.append(_checked(side[at:end]))
            at = end
        else:
            raise ValueError(f"Unknown character '{side[at]}'")
    return found


def _checked(name: str) -> str:
    if name == "1":
        return name
    if name.isdecimal():
        raise ValueError("rearrange only supports unnamed axes of size 1")
    if not name.isidentifier():
        raise ValueError(f"Invalid axis identifier: {name}\nnot a valid python identifier")
    if name.startswith("_") or name.endswith("_"):
        raise ValueError(f"Invalid axis identifier: {name}\naxis name should should not start or end with underscore")
    return name


def _without_ellipsis(left: list[Group], right: list[Group], dims: int) -> tuple[list[Group], list[Group]]:
    """The ellipsis as names of the dimensions that it stands for."""
    if _REST not in left:
        return left, right
    count = dims - (len(left) - 1)
    if count < 0:
        raise ValueError(
            f"Number of dimensions in pattern ({len(left) - 1}) must be less than or equal to the number of dimensions in the tensor ({dims})"
        )
    names = tuple(f"...{i}" for i in range(count))
    at = left.index(_REST)
    left = [*left[:at], *((n,) for n in names), *left[at + 1 :]]
    out: list[Group] = []
    for group in right:
        if group == _REST:
            out += [(n,) for n in names]
        else:
            place = group.index(_ELLIPSIS) if _ELLIPSIS in group else None
            out.append(group if place is None else (*group[:place], *names, *group[place + 1 :]))
    return left, out
