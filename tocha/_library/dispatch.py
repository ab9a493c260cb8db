"""`__torch_dispatch__`: from a record's call to PyTorch's operator, and who is asked: modes, classes, devices of programs.

Native operators come here (csrc/dispatch/taken_over.h) when a tensor or a mode takes them over, below autograd. A `Plan` says for
one form of one record which of PyTorch's overloads a call is, and lays the arguments out as PyTorch does: positional ones without
trailing defaults, keyword-only ones by name, numbers as numbers.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tocha import _C
from tocha._C import Tensor
from tocha._library.native_calls import default_object, paired, read_default, type_text
from tocha.operators.function_schema import Required, SchemaArgument
from tocha.operators.overloads import FUNCTIONAL, OUT, Overload, derived, names, table
from tocha.operators.record import OPERATORS, Operator
from tocha.operators.schema import Argument

Call = tuple[Any, tuple, dict[str, Any]]  # handle, args, kwargs


class Missing(Exception):
    """A value that an overload has no place for."""


# ---- arguments ---------------------------------------------------------------------------------------


def same(value: Any, default: Any) -> bool:
    """Whether an argument is what it would be if it were not given."""
    return value is default or (type(value) is type(default) and value == default and not isinstance(value, Tensor))


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
        # What this overload does not say must be as if not given.
        self.silent = [(i, usual(overload.record.schema.argument(n))) for n, i in at.items() if i not in used]

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
        for slot, default in self.silent:
            if not same(values[slot], default) and values[slot] is not None:
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
    from tocha import _ops

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
    table()
    importlib.import_module("tocha.operators.parts")  # what records say of how they are seen
    key = (record, form)
    if key not in _plans:
        _plans[key] = Plan(OPERATORS[record], form)
    return _plans[key]


# ---- who is asked ------------------------------------------------------------------------------------


class _Modes(threading.local):
    def __init__(self) -> None:
        self.stack: list[Any] = []


modes = _Modes()


def push_mode(mode: Any) -> None:
    modes.stack.append(mode)
    _C._set_dispatch_modes(len(modes.stack))


def pop_mode() -> Any:
    mode = modes.stack.pop()
    _C._set_dispatch_modes(len(modes.stack))
    return mode


def ordered(takers: list[Any]) -> list[Any]:
    """One tensor of each class, subclasses before their bases, else as they come."""
    found: list[Any] = []
    for t in takers:
        if any(type(t) is type(o) for o in found):
            continue
        place = next((i for i, o in enumerate(found) if issubclass(type(t), type(o))), len(found))
        found.insert(place, t)
    return found


def run(plan: Plan, values: tuple, takers: list[Any], from_body: int) -> Any:
    """A native call that somebody takes over."""
    func, args, kwargs = plan.arrange(values, from_body)
    return ask(func, ordered(takers) if len(takers) > 1 else takers, args, kwargs)


def ask(func: Any, takers: list[Any], args: tuple, kwargs: dict[str, Any]) -> Any:
    """The innermost mode, then the classes of the tensors; the first that answers has taken the call over."""
    types = tuple(type(t) for t in takers if hasattr(type(t), "__torch_dispatch__"))
    mode = None
    if modes.stack:
        mode = pop_mode()
        try:
            result = answer(mode, type(mode), mode.__torch_dispatch__, func, types, args, kwargs)
        finally:
            push_mode(mode)
        if result is not NotImplemented:
            return result
    for t in takers:
        if not hasattr(type(t), "__torch_dispatch__"):
            continue  # a device speaks for it
        result = answer(type(t), type(t), type(t).__torch_dispatch__, func, types, args, kwargs)
        if result is not NotImplemented:
            return result
    if on_program_device((args, kwargs)):
        return device_call(func, args, kwargs)
    return refuse(func, mode, types)


def answer(who: Any, cls: type, method: Callable, func: Any, types: tuple, args: tuple, kwargs: dict[str, Any]) -> Any:
    """What a mode or class makes of a call; custom operators may have a rule for it (register_torch_dispatch)."""
    rules = getattr(getattr(func._target, "known", None), "torch_dispatch", None)
    if rules and cls in rules:
        return rules[cls](who, func, types, args, kwargs)
    return method(func, types, args, kwargs)


def refuse(func: Any, mode: Any, types: tuple) -> Any:
    asked = [f"mode object {mode!r}"] if mode is not None else []
    asked += [f"tensor subclass {t!r}" for t in types]
    lines = "".join(f"\n  - {a}" for a in asked)
    raise TypeError(
        f"Multiple dispatch failed for 'tocha.ops.{func}'; all __torch_dispatch__ handlers returned NotImplemented:\n{lines}\n\n"
        "For more information, try re-running with TORCH_LOGS=not_implemented"
    )


# ---- devices of programs -----------------------------------------------------------------------------

KEY = "PrivateUse1"


class Kernels:
    """What programs have registered; the registry fills it in."""

    of: Callable[[str], dict[str, Callable]]


fallbacks: dict[str, Callable] = {}  # by dispatch key; the registry's own


def on_program_device(values: Any) -> bool:
    """Whether a tensor among the values, or the device that is asked for, is one that the program has made."""
    if isinstance(values, Tensor):
        return values.device.type == _C._get_privateuse1_backend_name()
    if isinstance(values, _C.device):
        return values.type == _C._get_privateuse1_backend_name()
    if isinstance(values, list | tuple):
        return any(map(on_program_device, values))
    return isinstance(values, dict) and any(map(on_program_device, values.values()))


class without_dispatch:
    """Operators see memory within it."""

    def __enter__(self) -> None:
        _C._disable_dispatch(1)

    def __exit__(self, *exc: object) -> None:
        _C._disable_dispatch(-1)


def device_call(func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """The program's kernel; what needs none (views, memory, copies); a composite's body; the program's fallback."""
    name = func.name()
    known = Kernels.of(name)
    kernel = known.get(KEY)
    if kernel is not None:
        return kernel(*args, **kwargs)
    own = needs_no_kernel(func, args, kwargs)
    if own is not None:
        return own()
    if getattr(func._target, "overload", None) is not None and is_composite(func._target.overload):
        return func.decompose(*args, **kwargs)
    if KEY in fallbacks:
        return fallbacks[KEY](func, *args, **kwargs)
    raise NotImplementedError(
        f"[{name}] Could not run '{name}' with arguments from the '{KEY}' backend. This could be because the operator doesn't exist "
        f"for this backend: no kernel is registered for it, and there is no fallback for {KEY}. It is available for these backends: "
        "[CPU, Meta]"
    )


def is_composite(overload: Overload) -> bool:
    """Whether the record is made of other operators."""
    return overload.record.kind == "composite" and overload.form == FUNCTIONAL


def needs_no_kernel(func: Any, args: tuple, kwargs: dict[str, Any]) -> Callable | None:
    """How an operator runs that computes nothing: geometry, memory from the device's allocator, copies from and to it."""

    def natively() -> Any:
        with without_dispatch():
            return func(*args, **kwargs)

    name = func._schema.name
    if func._schema._is_view_op() or name in ("aten::set_", "aten::_unsafe_view"):
        return natively
    if name in ("aten::empty", "aten::empty_strided"):
        return lambda: allocated(func, args, kwargs)
    if name in ("aten::_to_copy", "tocha::_to_cpu"):
        given = {"device": _C.device("cpu")} if name == "tocha::_to_cpu" else kwargs
        return lambda: moved(args[0], **given)
    if name == "aten::copy_":
        return lambda: copy_between(args[0], args[1])
    return None


def allocated(func: Any, args: tuple, kwargs: dict[str, Any]) -> Tensor:
    """Memory of the CPU's kind as that of the device."""
    where = kwargs["device"]
    with without_dispatch():
        return _C._on_device(func(*args, **{**kwargs, "device": _C.device("cpu")}), where)


def moved(t: Tensor, dtype: Any = None, device: Any = None, memory_format: Any = None, **rest: Any) -> Tensor:
    """A copy of t in another dtype or on another device."""
    with without_dispatch():
        like = in_memory(t)
        to = like.to(dtype=dtype or t.dtype, copy=True, memory_format=memory_format or _C.preserve_format)
        where = device if device is not None else t.device
        out = _C._on_device(to, where) if on_program_device(where) else to
    return copy_between(out, t) if KEY in Kernels.of("aten::_copy_from") else out


def in_memory(t: Tensor) -> Tensor:
    """A tensor of the program's device as one of the CPU, on the same memory."""
    return _C._memory_of(t) if on_program_device(t) else t


def copy_between(to: Tensor, source: Tensor) -> Tensor:
    """Registered under `_copy_from` (source, to) where a program moves memory itself; memory of the CPU's kind is copied here."""
    kernel = Kernels.of("aten::_copy_from").get(KEY)
    if kernel is not None:
        kernel(source, to)
        return to
    with without_dispatch():
        in_memory(to).copy_(in_memory(source))
    return to
