"""Which overload a call means: the one answer for the translator, the interpreter of records and operator handles.

Values are seen by their types in the schema's language ("Tensor", "int", "int[]", "none", ...); a tuple display is a
tuple of such types. Overloads are tried in the order of definition, first without and then with making tensors of numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from tocha.operators.record import Operator, overloads
from tocha.operators.schema import Argument

Type = "str | tuple[Type, ...]"
NUMBERS = ("int", "float", "bool")
SCALARS = (*NUMBERS, "Scalar")
WIDER = {
    "bool": ("Scalar", "Scalar?"),
    "int": ("bool", "Scalar", "Scalar?"),
    "float": ("int", "bool", "Scalar", "Scalar?"),
}
TENSORS = ("Tensor", "Operand", "Tensor?")


class NoOverload(TypeError):
    """The arguments fit no overload."""


@dataclass(frozen=True)
class Bound:
    """Where an operator's argument comes from: a position, a keyword, loose ints from a position on, or its default."""

    argument: Argument
    source: int | str | None
    loose: bool = False


@dataclass(frozen=True)
class Match:
    """An operator that a call names, and where its arguments come from."""

    operator: Operator
    arguments: tuple[Bound, ...]
    inplace: bool = False


def element(list_type: str) -> str:
    return list_type.removesuffix("?").removesuffix("[]") if list_type != "Tensor?[]" else "Tensor?"


def fits(have, want: str) -> bool:  # type: ignore[no-untyped-def]
    """Whether a value of one type can be passed where another is wanted."""
    if have == want:
        return True
    optional = want.endswith("?")
    base = want.removesuffix("?")
    if have == "none":
        return optional
    if isinstance(have, tuple):
        return base.endswith("[]") and all(fits(h, element(base)) for h in have)
    if have in TENSORS:
        return base in ("Tensor", "Operand")
    if have == "[]":
        return base.endswith("[]")
    if have == base or (have.endswith("?") and have[:-1] == base):
        return True
    if base == "Operand" or base == "Scalar":
        return have.removesuffix("?") in SCALARS
    if base in NUMBERS:
        return have in WIDER[base]
    if base == "int[]":
        return have in ("int", "bool[]")
    if base == "float[]":
        return have in ("int[]", "bool[]")
    if base == "Scalar[]":
        return have in ("int[]", "bool[]", "float[]")
    return have == "Tensor[]" and base == "Tensor?[]"


def match(
    o: Operator, args: Sequence, kwargs: Mapping[str, object], numbers_as_tensors: bool
) -> tuple[Bound, ...] | str:
    """How the arguments go to o's; or why they do not."""
    bound: list[Bound] = []
    at, left = 0, set(kwargs)
    for i, a in enumerate(o.schema.arguments):
        if at < len(args) and not a.keyword_only:
            have: object = args[at]
            if a.type == "int[]" and a.size is None and have == "int":  # loose ints: x.view(2, 3)
                if any(t != "int" for t in args[at:]):
                    return f"{a.name} takes ints"
                bound.append(Bound(a, at, loose=True))
                at = len(args)
                continue
            source: int | str = at
            at += 1
        elif a.name in left or (i == 0 and "input" in left):
            source = a.name if a.name in left else "input"
            left.remove(source)
            have = kwargs[source]
        elif a.default is not None:
            bound.append(Bound(a, None))
            continue
        else:
            return f"{a.name} is missing"
        if a.type == "Tensor" and have in SCALARS:
            if not numbers_as_tensors:
                return f"a number where {a.name} is a tensor"
        elif not fits(have, a.type):
            return f"{a.name} is {a.type}, not {have}"
        bound.append(Bound(a, source))
    if at < len(args) or left:
        return "too many arguments"
    return tuple(bound)


@cache
def candidates(name: str) -> tuple[tuple[Operator, ...], bool]:
    """The operators that a name means, and whether it means their in-place form."""
    found = tuple(overloads(name))
    if found or not name.endswith("_"):
        return found, False
    return tuple(o for o in overloads(name[:-1]) if "inplace" in o.variants), True


def resolve(name: str, args: Sequence, kwargs: Mapping[str, object], within: Callable | None = None) -> Match:
    """The overload that fits. A body (`within`) that calls its own name means another overload."""
    found, inplace = candidates(name)
    if not found:
        raise NoOverload(f"no operator is called {name}")
    found = tuple(o for o in found if o.body is not within)
    problems = []
    for numbers_as_tensors in (False, True):
        for o in found:
            bound = match(o, args, kwargs, numbers_as_tensors)
            if not isinstance(bound, str):
                return Match(o, bound, inplace)
            problems.append(f"{o.schema.text}: {bound}")
    raise NoOverload(f"no overload of {name} fits: " + "; ".join(problems[len(found) :]))


def matched(o: Operator) -> list[tuple[Argument, Argument | None]]:
    """What an operator on lists gives for each argument of the one it repeats: by name, else by position; None for the default."""
    assert o.each is not None
    own = {a.name: a for a in o.schema.arguments}
    theirs = {a.name for a in o.each.schema.arguments}
    found = []
    for k, wanted in enumerate(o.each.schema.arguments):
        given = own.get(wanted.name)
        if given is None and k < len(o.schema.arguments) and o.schema.arguments[k].name not in theirs:
            given = o.schema.arguments[k]
        found.append((wanted, given))
    return found
