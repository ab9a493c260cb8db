"""From a record's native call to PyTorch's operator. A `Plan` says for one form of one record which of PyTorch's overloads a call
is, and lays the arguments out as PyTorch does: positional ones without trailing defaults, keyword-only ones by name, numbers as
numbers. Native code makes one at the first call that is taken over (csrc/python/dispatch_calls.cpp).
"""

from __future__ import annotations

import importlib
from dataclasses import replace
from typing import Any

from tocha import _ops
from tocha._C import Tensor
from tocha._library.dispatch import ask, ordered, same
from tocha._library.native_calls import default_object, paired, read_default, type_text
from tocha.operators.families import load
from tocha.operators.function_schema import Required, SchemaArgument
from tocha.operators.overloads import FUNCTIONAL, OUT, Overload, derived, names, table
from tocha.operators.record import OPERATORS, Operator
from tocha.operators.schema import Argument

Call = tuple[Any, tuple, dict[str, Any]]  # handle, args, kwargs


class Missing(Exception):
    """A value that an overload has no place for."""


# ---- arguments ---------------------------------------------------------------------------------------


class Parameter:
    """One parameter of an overload, and the record's value that goes there."""

    __slots__ = ("default", "keyword", "listed", "name", "number", "optional", "single", "slot", "tensor")

    def __init__(self, a: SchemaArgument, slot: int):
        self.name, self.keyword, self.slot = a.name, a.kwarg_only, slot
        base = a.text.rstrip("?")
        self.tensor = base == "Tensor"
        self.number = base == "Scalar"
        self.optional = a.text.endswith("?") or a.has_default_value()
        self.single = base in ("int", "SymInt")
        self.listed = "[" in base
        self.default: Any = default_object(a) if a.default is not Required else Required

    def read(self, values: tuple) -> Any:
        """The value as this overload takes it."""
        if self.slot < 0:
            return self.default if self.default is not Required else None
        v = values[self.slot]
        if v is None:
            if self.listed and self.default == []:
                return []
            if not self.optional:
                raise Missing
        elif self.single and isinstance(v, list):
            if len(v) != 1:
                raise Missing
            return v[0]
        elif self.number and isinstance(v, Tensor):
            raise Missing
        elif self.listed and isinstance(v, int) and not isinstance(v, bool):
            return [v]
        return v


class Choice:
    """One of the overloads that a record's form may be."""

    def __init__(self, overload: Overload):
        self.overload = overload
        self._handle: Any = None
        results = [a for a in overload.schema._arguments if a.is_out] if overload.form == OUT else []
        at = {a.name: i + len(results) for i, a in enumerate(overload.record.schema.arguments)}
        partners = paired(overload)
        self.parameters = []
        for a in overload.schema._arguments:
            slot = results.index(a) if a in results else at.get(partners.get(a.name, ""), -1)
            self.parameters.append(Parameter(a, slot))
        used = {p.slot for p in self.parameters}
        # What this overload does not say must be as if not given, or what out= says of a factory's result.
        self.silent = [(n, i, usual(overload.record.schema.argument(n))) for n, i in at.items() if i not in used]
        self.said_by_out = {"dtype", "device"} if results and "factory" in overload.record.tags else set()

    @property
    def handle(self) -> Any:
        if self._handle is None:
            self._handle = handle_of(self.overload)
        return self._handle

    def numbers_for_tensors(self, values: tuple) -> int:
        found = 0
        for p in self.parameters:
            if p.tensor and p.slot >= 0 and isinstance(values[p.slot], int | float | complex):
                found += 1
        return found

    def arrange(self, values: tuple) -> Call:
        for name, slot, default in self.silent:
            v = values[slot]
            if (
                not same(v, default)
                and v is not None
                and not (name in self.said_by_out and v == getattr(values[0], name))
            ):
                raise Missing
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        keep = 0
        for p in self.parameters:
            v = p.read(values)
            if p.keyword:
                if not same(v, p.default):
                    kwargs[p.name] = v
                continue
            args.append(v)
            if not same(v, p.default):
                keep = len(args)
        return self.handle, tuple(args[:keep]), kwargs


def usual(a: Argument) -> Any:
    """The default of a record's argument as Python passes it."""
    if a.default is None:
        return Required
    text = type_text(a)
    value = read_default(a.default, text)
    return default_object(SchemaArgument(a.name, text, default=value))


def handle_of(overload: Overload) -> Any:
    """The operator handle; records that answer for none of PyTorch's have one in the namespace `tocha`."""
    s = overload.schema
    space, _, name = s.name.partition("::")
    if space == "aten":
        return _ops._handle(space, name, s.overload_name or "default")
    packet = _ops.OpOverloadPacket(s.name, {s.overload_name: _ops.RecordTarget(overload)})
    return getattr(packet, s.overload_name or "default")


class Plan:
    """Which overload a call of one form of a record is."""

    def __init__(self, record: Operator, form: str):
        self.record, self.form = record, form
        own = next(names(record))
        aliases = {own, own + "_"}
        form = FUNCTIONAL if record.name.endswith("_") else form
        found = [
            o
            for name in aliases
            for o in table().get(name, {}).values()
            if o.record is record and o.form == form and o.schema.name.removeprefix("aten::") in aliases
        ]
        if not found:
            made = derived(record, record.name)[0]
            found = [Overload(record, form, replace(made, name=f"tocha::{record.name}", _text=[]))]
        self.choices = sorted(map(Choice, found), key=lambda c: len(c.parameters))
        # `x + 2` in Python is PyTorch's add.Tensor; other operators have an overload for numbers there too.
        self.numbers_are_tensors = "number_is_tensor" in record.tags
        self.orders: dict[tuple, list[Choice]] = {}  # by the types of the values

    def order(self, values: tuple, from_body: int) -> list[Choice]:
        """The overloads as they are tried for values of these types: those that take numbers as numbers first."""
        if self.numbers_are_tensors and not from_body:
            return [c for c in self.choices if not any(p.number and p.default is Required for p in c.parameters)]
        return sorted(self.choices, key=lambda c: c.numbers_for_tensors(values))

    def arrange(self, values: tuple, from_body: int) -> Call:
        if self.record.seen_as is not None and self.form == FUNCTIONAL:
            spelled = self.record.seen_as(*values)
            if spelled is not None:
                name, given = spelled
                return Choice(table()[name.partition(".")[0]][name.partition(".")[2]]).arrange(given)
        if len(self.choices) == 1:
            return self.choices[0].arrange(values)
        key = (bool(from_body), *map(type, values))
        choices = self.orders.get(key)
        if choices is None:
            choices = self.orders[key] = self.order(values, from_body)
        for c in choices:
            try:
                return c.arrange(values)
            except Missing:
                continue
        return self.choices[-1].arrange(values)


_plans: dict[tuple[str, str], Plan] = {}


def plan(record: str, form: str) -> Plan:
    """Called by native code, once for each form of a record."""
    found = _plans.get((record, form))
    if found is None:
        importlib.import_module("tocha.operators.parts")  # what records say of how they are seen
        load()
        found = _plans[record, form] = Plan(OPERATORS[record], form)
    return found


def run(plan: Plan, values: tuple, takers: list[Any], from_body: int) -> Any:
    """A native call that somebody takes over."""
    func, args, kwargs = plan.arrange(values, from_body)
    return ask(func, ordered(takers) if len(takers) > 1 else takers, args, kwargs)
