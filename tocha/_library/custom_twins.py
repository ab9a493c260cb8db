"""Functional forms of operators that programs define: graphs without writes call those."""

from __future__ import annotations

from functools import cache
from typing import Any

from tocha import _ops
from tocha._library.library import Library
from tocha._library.twins import copied, functional_schema, written
from tocha.operators.function_schema import FunctionSchema

TWINS: dict[str, Library] = {}


@cache
def custom_twin(handle: Any) -> Any:
    """The functional form of an operator of a program, itself an operator beside it: copies are written to and returned."""
    s: FunctionSchema = handle._schema
    space, _, name = s.name.partition("::")
    schema = functional_schema(s, f"{name}_functional", space)
    names = [a.name for a in written(s)]

    def run(*args: Any, **kwargs: Any) -> Any:
        given = {**dict(zip((a.name for a in s._arguments), args, strict=False)), **kwargs}
        copies = {n: copied(given[n]) for n in names}
        found = handle(**{**given, **copies})
        returned = found if isinstance(found, tuple) else (found,)
        own = [v for v, r in zip(returned, s._returns, strict=False) if not r.alias]
        results = (*own, *copies.values())
        return results[0] if len(results) == 1 else results

    if schema.name in TWINS:  # of an operator that was defined anew
        TWINS[schema.name]._destroy()
    made = TWINS[schema.name] = Library(space, "FRAGMENT")
    made.define(str(schema))
    overload = f".{s.overload_name}" if s.overload_name else ""
    made.impl(f"{name}_functional{overload}", run, "CompositeExplicitAutograd")
    return getattr(getattr(getattr(_ops.ops, space), f"{name}_functional"), s.overload_name or "default")
