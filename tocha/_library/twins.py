"""Functional forms of operators that only write: `aten.copy`, `aten.zero`, `aten.uniform`, as PyTorch's graphs without writes have them.

Derived from the in-place overloads that have no functional one: a copy of what would be written to is written to and returned.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

from tocha import _C
from tocha._library import dispatch
from tocha._library.arguments import bound
from tocha._library.native_calls import native_call
from tocha._library.tags import Tag, tags_of
from tocha.ir.layout import has_gaps
from tocha.operators.function_schema import FunctionSchema, SchemaArgument
from tocha.operators.overloads import Overload, table


def signature(s: FunctionSchema) -> tuple:
    """What a call takes, whoever is written to."""
    return tuple((a.name, a.text, a.kwarg_only) for a in s._arguments if not a.is_out)


def written(s: FunctionSchema) -> list[SchemaArgument]:
    return [a for a in s._arguments if a.is_write]


def functional_schema(s: FunctionSchema, name: str, space: str = "aten") -> FunctionSchema:
    """The schema with results in place of writes, after those that it has anyway."""
    given = tuple(replace(a, alias="") for a in s._arguments)
    own = tuple(r for r in s._returns if not r.alias)
    returned = own + tuple(SchemaArgument("", a.text) for a in written(s))
    return FunctionSchema(f"{space}::{name}", s.overload_name, given, returned)


class TwinTarget:
    """The functional form of an in-place overload."""

    def __init__(self, overload: Overload, name: str):
        self.inplace = overload
        self.schema = functional_schema(overload.schema, name)
        self._call: Any = None

    def native(self, handle: Any) -> Callable:
        self._call = native_call(self.inplace, handle)

        def call(*args: Any, **kwargs: Any) -> Any:
            if dispatch.modes.stack and not _C._dispatch_disabled():
                return dispatch.ask(handle, [], args, kwargs)
            return self.run(args, kwargs)

        return call

    def run(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        given = bound(self.schema, args, kwargs)
        if isinstance(given, str):
            raise RuntimeError(given)
        copies = {a.name: copied(given[a.name]) for a in written(self.inplace.schema) if a.name in given}
        given = {**given, **copies}
        places = [a for a in self.schema._arguments if a.name in given]
        out = self._call(
            *(given[a.name] for a in places if not a.kwarg_only),
            **{a.name: given[a.name] for a in places if a.kwarg_only},
        )
        returns = self.inplace.schema._returns  # none of `_foreach_zero_`, whose call returns what it wrote to
        own = out if isinstance(out, tuple) else (out,)
        fresh = [o for o, r in zip(own, returns, strict=True) if not r.alias] if returns else []
        results = (*fresh, *(copies.get(a.name) for a in written(self.inplace.schema)))
        return results[0] if len(results) == 1 else results

    def tags(self) -> list[Tag]:
        return tags_of(self.inplace)

    def can_decompose(self) -> bool:
        return False

    def decompose(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        return NotImplemented


def copied(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [copied(v) for v in value]
    if value is not None and value.layout is _C.strided and has_gaps(value.shape, value.stride()):
        # A write leaves gaps where they are, and so does its functional form.
        return _C.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device).copy_(value)
    return None if value is None else value.clone()


def base_name(name: str) -> str:
    """The name without the mark of writing."""
    return name[:-1] if name.endswith("_") and not name.endswith("__") else name


@cache
def functional_name(name: str, overload: str) -> tuple[str, str] | None:
    """For an overload that writes: the functional one with the same arguments, in the records or derived here."""
    o = table().get(name, {}).get(overload)
    if o is None or not written(o.schema):
        return None
    same = among_records(name, overload, o)
    if same is None and not any(a.is_out for a in o.schema._arguments):
        return twin_name(name), overload
    return same


def among_records(name: str, overload: str, o: Overload) -> tuple[str, str] | None:
    base = base_name(name)
    forms = table().get(base, {})
    fitting = [
        other
        for other, form in forms.items()
        if not written(form.schema) and matches(signature(form.schema), signature(o.schema))
    ]
    same_name = base != name and overload in forms and not written(forms[overload].schema)
    if same_name and (overload in fitting or not fitting):  # pow_.Scalar raises a tensor, pow.Scalar a number
        return base, overload
    return (base, fitting[0]) if fitting else None


def matches(functional: tuple, writing: tuple) -> bool:
    """Factories say more in the functional form."""
    return functional[: len(writing)] == writing and all(keyword for _, _, keyword in functional[len(writing) :])


def twin_name(name: str) -> str:
    base = base_name(name)
    return f"{base}_functional" if base == name or base in table() else base


@cache
def twins(base: str) -> dict[str, TwinTarget]:
    """The derived forms of a name that records do not have, by overload."""
    stem = base.removesuffix("_functional")
    found: dict[str, TwinTarget] = {}
    for name in dict.fromkeys((stem, stem + "_", base + "_")):
        for overload, o in table().get(name, {}).items():
            if functional_name(name, overload) == (base, overload) and overload not in table().get(base, {}):
                found[overload] = TwinTarget(o, base)
    return found
