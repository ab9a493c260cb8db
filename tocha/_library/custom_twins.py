"""Functional forms of operators that programs define: graphs without writes call those."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

from tocha import _C, _ops
from tocha._library.library import Library
from tocha._library.twins import copied, functional_schema, written
from tocha.operators.function_schema import FunctionSchema, SchemaArgument

TWINS: dict[str, Library] = {}
LONGEST = 1 << 20  # of an argument that is a list: where an element of it stands is said by one number


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

    return defined(schema, run)


def defined(schema: FunctionSchema, run: Callable) -> Any:
    """An operator that calls a function."""
    if schema.name in TWINS:  # of an operator that was defined anew
        TWINS[schema.name]._destroy()
    space, _, name = schema.name.partition("::")
    made = TWINS[schema.name] = Library(space, "FRAGMENT")
    made.define(str(schema))
    overload = f".{schema.overload_name}" if schema.overload_name else ""
    made.impl(f"{name}{overload}", run, "CompositeExplicitAutograd")
    return getattr(getattr(getattr(_ops.ops, space), name), schema.overload_name or "default")


@cache
def twin_on_memory(handle: Any, alone: int, bases: int) -> Any:
    """The functional form of an operator some of whose tensors share memory: what it writes to one of them shows in the others.

    It takes `bases`, numbers that say how tensors lie on them (`places`), and what the operator takes. It gives the operator's own
    results, new values of what it writes to elsewhere (`alone` of them, in order), and of the bases."""
    s: FunctionSchema = handle._schema
    own = tuple(r for r in s._returns if not r.alias)
    taken = (SchemaArgument("_bases", "Tensor[]"), SchemaArgument("_places", "SymInt[]"))
    schema = FunctionSchema(
        f"functionalized::{s.name.replace('::', '_')}_{s.overload_name}_{alone}_{bases}", s.overload_name,
        (*taken, *(replace(a, alias="") for a in s._arguments)), own + (SchemaArgument("", "Tensor"),) * (alone + bases),
    )  # fmt: skip

    def run(bases: list[Any], numbers: list[int], *args: Any, **kwargs: Any) -> Any:
        given = {**dict(zip((a.name for a in s._arguments), args, strict=False)), **kwargs}
        memory = [same_memory(marked(b, b)) for b in bases]
        places, new = places_in(numbers), []

        def placed(value: Any, is_write: bool, at: int) -> Any:
            if isinstance(value, list | tuple):
                return [placed(v, is_write, at + k) for k, v in enumerate(value)]
            place = places.get(at)
            if place is not None:
                which, *geometry = place
                return marked(as_type(memory[which], value.dtype).as_strided(*geometry), value)
            if is_write and value is not None:
                new.append(value.clone())
                return new[-1]
            return value

        arguments = [(k * LONGEST, a) for k, a in enumerate(s._arguments) if a.name in given]
        found = handle(**{a.name: placed(given[a.name], a.is_write, at) for at, a in arguments})
        returned = found if isinstance(found, tuple) else (found,)
        changed = [marked(m, b) for m, b in zip(memory, bases, strict=True)]
        results = (*(v for v, r in zip(returned, s._returns, strict=False) if not r.alias), *new, *changed)
        return results[0] if len(results) == 1 else results

    return defined(schema, run)


def marked(t: Any, like: Any) -> Any:
    """Memory read as another tensor is: conjugated, negated. Marked as itself, a tensor is what lies in its memory."""
    if like.is_conj():
        t = t.conj()
    return _C._neg_view(t) if like.is_neg() else t


def same_memory(base: Any) -> Any:
    """A copy whose elements lie as those of the base: views by addresses are the same on it."""
    made = _C.empty_strided(base.shape, base.stride(), dtype=base.dtype, device=base.device)
    return made.copy_(base)


def as_type(memory: Any, dtype: Any) -> Any:
    """All of a tensor's memory as elements of another type, but for what is left of less than one."""
    if memory.dtype is dtype:
        return memory
    span = 1 + sum((n - 1) * s for n, s in zip(memory.shape, memory.stride(), strict=True))
    whole = max(dtype.itemsize // memory.itemsize, 1)
    return memory.as_strided([span // whole * whole], [1]).view(dtype)


def places_in(numbers: list[int]) -> dict[int, tuple[Any, ...]]:
    """By where a tensor stands among the arguments (their number times LONGEST, and its own in a list): which base it lies on, its sizes, strides, and where it begins."""
    found, rest = {}, list(numbers)
    while rest:
        leaf, base, dims, *rest = rest
        found[leaf] = (base, rest[:dims], rest[dims : 2 * dims], rest[2 * dims])
        del rest[: 2 * dims + 1]
    return found
