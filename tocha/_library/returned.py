"""Operators tagged `inplace` or `out`, which return the very arguments they write to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tocha._library.tags import Tag
from tocha.operators.function_schema import FunctionSchema


def way_of_returning(tags: Sequence[Tag]) -> Tag | None:
    """The tag, of the two that say what is returned; not both."""
    found = [t for t in (Tag.inplace, Tag.out) if t in tags]
    assert len(found) < 2, "torch.Tag.inplace and torch.Tag.out are mutually exclusive"
    return found[0] if found else None


def check_schema(s: FunctionSchema, way: Tag) -> None:
    """A schema that was given with a tag must write to what the tag says."""
    positional = [a for a in s._arguments if not a.kwarg_only]
    shown = str(s).partition("::")[2]
    if way is Tag.inplace:
        if not positional or not positional[0].is_write:
            raise ValueError(
                "Schema tagged with torch.Tag.inplace requires the first positional argument to be mutable "
                f"(e.g., Tensor(a!)). Got: {shown}"
            )
        return
    wrong = [a.name for a in positional if a.is_write]
    if wrong:
        raise ValueError(
            "Schema tagged with torch.Tag.out requires all mutable arguments to be keyword-only (after the *). "
            f"Found mutable positional args: {wrong}. Got: {shown}"
        )
    if not any(a.is_write for a in s._arguments):
        raise ValueError(
            f"Schema tagged with torch.Tag.out requires at least one mutable keyword-only argument. Got: {shown}"
        )


def written(s: FunctionSchema, way: Tag, args: tuple, kwargs: dict[str, Any]) -> Any:
    """What a call returns: its first argument, or its keyword-only arguments that are written to."""
    if way is Tag.inplace:
        return args[0]
    outs = tuple(kwargs[a.name] for a in s._arguments if a.kwarg_only and a.is_write)
    return outs[0] if len(outs) == 1 else outs


def check_returned(s: FunctionSchema, way: Tag, result: Any, args: tuple, kwargs: dict[str, Any]) -> None:
    """A kernel must have returned the arguments themselves."""
    wanted = written(s, way, args, kwargs)
    several = isinstance(wanted, tuple)
    got, wanted = (result, wanted) if several else ((result,), (wanted,))
    if (
        isinstance(got, list | tuple)
        and len(got) == len(wanted)
        and all(a is b for a, b in zip(got, wanted, strict=True))
    ):
        return
    space, _, name = s.name.partition("::")
    what = "first argument" if way is Tag.inplace else "mutable keyword-only arguments"
    raise RuntimeError(
        f"{name} (with implementation in {space}): An operator tagged with torch.Tag.{way.name} must return its {what}."
    )
