"""Operators that programs define, what is registered for them, and how a call finds its kernel.

A call goes through the layers that PyTorch's dispatcher has: overrides, autocast, autograd, then the kernel of the device.
Registrations are kept by the operator's full name, so that a kernel may come before the definition.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tocha import _C, overrides
from tocha._library import dispatch, fake
from tocha._library.arguments import bound, is_number, tensors_in
from tocha._library.autograd import Formula, recorded
from tocha._library.dispatch import ask, modes, ordered, same
from tocha._library.native_calls import default_object
from tocha._library.returned import check_returned, way_of_returning, written
from tocha._library.tags import Tag
from tocha.amp.autocast_mode import autocast
from tocha.autograd.graph import increment_version
from tocha.operators.function_schema import FunctionSchema, Required, SchemaArgument

Tensor = _C.Tensor
EXPLICIT, IMPLICIT = "CompositeExplicitAutograd", "CompositeImplicitAutograd"


@dataclass
class Registrations:
    """What is known of one operator beside its schema."""

    kernels: dict[str, Callable] = field(default_factory=dict)  # by dispatch key: CPU, Meta, Autograd, ...
    fake: Callable | None = None
    formula: Formula | None = None
    vmap: Callable | None = None
    torch_dispatch: dict[type, Callable] = field(default_factory=dict)
    autocast: dict[str, _C.dtype] = field(default_factory=dict)  # by device type


definitions: dict[str, dict[str, CustomTarget]] = {}  # "ns::name" to overloads by name
registrations: dict[str, Registrations] = {}  # "ns::name.overload"
fallbacks: dict[str, Callable] = {}  # by dispatch key
fake_modes: list[Callable[[list[Tensor]], Any]] = []  # says which fake mode a call belongs to, once there are fakes
# What transforms make of a call on their tensors, and of its kernel below autograd (tocha/_functorch), once there are any.
across_levels: tuple[Callable, Callable] | None = None
changed: list[Callable[[str], None]] = []  # told the name of an operator that was defined or removed


dispatch.fallbacks = fallbacks
dispatch.Kernels.of = staticmethod(lambda name: registrations[name].kernels if name in registrations else {})


def of(full_name: str) -> Registrations:
    return registrations.setdefault(full_name, Registrations())


class _Level(threading.local):
    below_autograd = False


_level = _Level()


@contextlib.contextmanager
def below_autograd() -> Iterator[None]:
    """Calls made here skip the autograd layer."""
    before, _level.below_autograd = _level.below_autograd, True
    try:
        yield
    finally:
        _level.below_autograd = before


class CustomTarget:
    """A custom operator: its schema, and the way of a call."""

    def __init__(self, schema: FunctionSchema, tags: Sequence[Tag] = (), definition: Any = None):
        self.schema = schema
        self.full_name = f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name
        self.given_tags = list(tags)
        self.way = way_of_returning(tags) if definition is not None else None
        self.definition = definition  # the CustomOpDef, where it was made by one
        self.known = of(self.full_name)
        self.place = ""  # where it was defined
        self.handle: Any = None  # the OpOverload through which calls come

    # -- what handles ask

    def tags(self) -> list[Tag]:
        return self.given_tags

    def can_decompose(self) -> bool:
        return IMPLICIT in self.known.kernels

    def decompose(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        return self.known.kernels[IMPLICIT](*args, **kwargs)

    def has_kernel(self, key: str) -> bool:
        return key in self.known.kernels or (key == "Meta" and self.known.fake is not None)

    def native(self, handle: Any) -> Callable:
        self.handle = handle

        def call(*args: Any, **kwargs: Any) -> Any:
            given = tensors_in((*args, *kwargs.values()))
            if _C._has_torch_function(tuple(given)):
                return overrides.handle_torch_function(handle, given, *args, **kwargs)
            return self.run(args, kwargs)

        return call

    # -- a call

    def run(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        found = bound(self.schema, args, kwargs)
        if isinstance(found, str):
            raise RuntimeError(found)
        values = [converted(a, found[a.name]) if a.name in found else default_object(a) for a in self.schema._arguments]
        positional = tuple(v for a, v in zip(self.schema._arguments, values, strict=True) if not a.kwarg_only)
        keywords = {a.name: v for a, v in zip(self.schema._arguments, values, strict=True) if a.kwarg_only}
        tensors = tensors_in(values)
        device = device_of(tensors, found)
        dtype = self.known.autocast.get(device)
        if dtype is not None and _C.is_autocast_enabled(device):
            return self.run_in(device, dtype, positional, keywords)
        cast = self.known.kernels.get(f"Autocast{device.upper()}")
        if cast is not None and _C.is_autocast_enabled(device):
            return cast(*positional, **keywords)
        return self.differentiated(device, tensors, positional, keywords)

    def run_in(self, device: str, dtype: _C.dtype, args: tuple, kwargs: dict[str, Any]) -> Any:
        """With floating tensors of the device in the dtype that was registered, outside the region."""

        def cast(v: Any) -> Any:
            if isinstance(v, Tensor):
                return v.to(dtype) if v.is_floating_point() and v.device.type == device else v
            return [cast(x) for x in v] if isinstance(v, list) else v

        with autocast(device, enabled=False):
            return self.run(tuple(map(cast, args)), {k: cast(v) for k, v in kwargs.items()})

    def differentiated(self, device: str, tensors: list[Tensor], args: tuple, kwargs: dict[str, Any]) -> Any:
        if across_levels is not None:
            result = across_levels[0](self, args, kwargs)
            if result is not NotImplemented:
                return result
        if _level.below_autograd:
            return self.computed(device, args, kwargs)
        kernels = self.known.kernels
        own = kernels.get(f"Autograd{key_of(device)}") or kernels.get("Autograd")
        if own is not None:
            return own(*args, **kwargs)
        formula = self.known.formula
        if formula is None and self.definition is None:  # autograd sees what the kernel calls
            return self.computed(device, args, kwargs)
        wanted = _C.is_grad_enabled() and any(t.requires_grad for t in tensors)
        if wanted and self.way is Tag.out:
            raise RuntimeError(
                f"{self.schema.name.partition('::')[2]}(): functions with out=... arguments don't support automatic "
                "differentiation, but one of the arguments requires grad."
            )
        if wanted and self.schema._returns and (self.way is Tag.inplace or not self.schema.is_mutable):
            return recorded(self, formula, lambda: self.computed(device, args, kwargs), args, kwargs)
        with no_grad():
            return self.computed(device, args, kwargs)

    def computed(self, device: str, args: tuple, kwargs: dict[str, Any]) -> Any:
        """The kernel of the device, and what must be true of its results."""
        if across_levels is not None:
            result = across_levels[1](self, args, kwargs)
            if result is not NotImplemented:
                return result
        tensors = tensors_in((*args, *kwargs.values()))
        mode = next((m for find in fake_modes if (m := find(tensors)) is not None), None)
        takers = [t for t in tensors if _C._has_torch_dispatch(t)] if mode is None else []
        if (takers or modes.stack) and not _C._dispatch_disabled() and not self.is_composite(device):
            return self.handed_over(takers, args, kwargs)
        result = (
            mode.run_rule(self, tensors, args, kwargs) if mode is not None else self.kernel(device)(*args, **kwargs)
        )
        if self.definition is not None:
            if self.way is None:
                check_sharing(self.schema, result, args, kwargs)
            else:
                check_returned(self.schema, self.way, result, args, kwargs)
            for a, v in self.given(args, kwargs):
                if a.is_write:
                    increment_version(tensors_in([v]))
        return checked_result(self.schema, result)

    def is_composite(self, device: str) -> bool:
        """Whether only its body is known, whose operators are taken over instead."""
        kernels = self.known.kernels
        return IMPLICIT in kernels and key_of(device) not in kernels and EXPLICIT not in kernels

    def handed_over(self, takers: list[Tensor], args: tuple, kwargs: dict[str, Any]) -> Any:
        """A mode, or the class of an argument, takes the call over: it sees what was given, without defaults."""
        positional = [a for a in self.schema._arguments if not a.kwarg_only]
        while args and same(args[-1], default_of(positional[len(args) - 1])):
            args = args[:-1]
        named = {a.name: a for a in self.schema._arguments if a.kwarg_only}
        kwargs = {k: v for k, v in kwargs.items() if not same(v, default_of(named[k]))}
        with no_grad():
            return ask(self.handle, ordered(takers), args, kwargs)

    def given(self, args: tuple, kwargs: dict[str, Any]) -> Iterator[tuple[SchemaArgument, Any]]:
        positional = iter(args)
        for a in self.schema._arguments:
            yield a, kwargs[a.name] if a.kwarg_only else next(positional)

    def kernel(self, device: str) -> Callable:
        kernels, key = self.known.kernels, key_of(device)
        if key == "Meta":
            return kernels.get("Meta") or self.fake_kernel()
        found = kernels.get(key) or kernels.get(EXPLICIT) or kernels.get(IMPLICIT)
        if found is not None:
            return found
        if key in fallbacks:
            return lambda *args, **kwargs: fallbacks[key](self.handle, *args, **kwargs)
        available = ", ".join([*kernels, *(["Meta"] if self.known.fake else [])])
        raise NotImplementedError(
            f"Could not run '{self.full_name}' with arguments from the '{key}' backend. This could be because the operator "
            f"doesn't exist for this backend. '{self.full_name}' is only available for these backends: [{available}]."
        )

    def fake_kernel(self, unknown_size: Callable[[int, int | None], Any] | None = None) -> Callable:
        """The rule for results without elements; `unknown_size(min, max)` makes sizes that depend on elements."""
        rule = self.known.fake
        if rule is not None:
            return lambda *args, **kwargs: fake.run(self.full_name, rule, args, kwargs, unknown_size)
        if not self.schema._returns:
            return lambda *args, **kwargs: None
        way = self.way
        if way is not None:
            return lambda *args, **kwargs: written(self.schema, way, args, kwargs)
        composite = self.known.kernels.get(IMPLICIT) or (
            self.known.kernels.get(EXPLICIT) if self.definition is None else None
        )
        if composite is not None:
            return composite
        if self.definition is not None:
            raise RuntimeError(
                f"There was no fake impl registered for {self.definition}. This is necessary for tocha.compile/export/fx tracing "
                f"to work. Please use `{self.definition._init_fn.__name__}.register_fake` to add an fake impl."
            )
        raise NotImplementedError(
            f"{self.full_name}: attempted to run this operator with Meta tensors, but there was no fake impl or Meta kernel "
            "registered."
        )


def default_of(a: SchemaArgument) -> Any:
    return default_object(a) if a.has_default_value() else Required


class no_grad:
    """What a kernel calls is not recorded: the operator's formula speaks for it."""

    def __enter__(self) -> None:
        self.before = _C.is_grad_enabled()
        _C._set_grad_enabled(False)

    def __exit__(self, *exception: object) -> None:
        _C._set_grad_enabled(self.before)


# ---- values --------------------------------------------------------------------------------------


def converted(a: SchemaArgument, value: Any) -> Any:
    """A value as kernels get it: ints are floats where floats are asked for, lists are lists."""
    if isinstance(value, tuple):
        value = list(value)
    kind = a.text.rstrip("?")
    if kind == "float" and isinstance(value, int):
        return float(value)
    if kind == "Tensor" and is_number(value):
        return _C.tensor(value)
    if kind.endswith("]") and value is not None and not isinstance(value, list):
        return [value] * (a.N or 1)
    return value


def device_of(tensors: list[Tensor], found: dict[str, Any]) -> str:
    """The type of the device whose kernel runs: meta if any tensor is there, else the first that is not the CPU."""
    kinds = [t.device.type for t in tensors]
    if not kinds:
        asked = found.get("device")
        return _C.device(asked).type if asked is not None else "cpu"
    return "meta" if "meta" in kinds else next((k for k in kinds if k != "cpu"), "cpu")


def key_of(device: str) -> str:
    """The dispatch key of a type of device: cpu is CPU, meta is Meta."""
    known = _C.device(device).type
    return {"meta": "Meta", _C._get_privateuse1_backend_name(): "PrivateUse1"}.get(known, known.upper())


def checked_result(s: FunctionSchema, result: Any) -> Any:
    """Results are what the schema says; tuples of several, lists for lists."""
    returns = s._returns
    if not returns:
        if result is not None and result != ():
            raise RuntimeError(
                f"{s.name}: expected no result, since the schema is {s}, but the kernel returned {type(result)}"
            )
        return None
    if len(returns) == 1:
        return checked_value(returns[0], result)
    if not isinstance(result, list | tuple):
        raise TypeError(f"Object of type '{type(result).__name__}' is not an instance of 'sequence'")
    if len(result) != len(returns):
        raise RuntimeError(f"{s.name}: expected {len(returns)} results, since the schema is {s}, but got {len(result)}")
    return tuple(checked_value(r, v) for r, v in zip(returns, result, strict=True))


def checked_value(r: SchemaArgument, value: Any) -> Any:
    if r.text == "Tensor" and not (isinstance(value, Tensor) or value is None):
        raise RuntimeError(f"Unable to cast {value} to Tensor")
    if r.text.endswith("[]"):
        if not isinstance(value, list | tuple):
            raise RuntimeError(f"Unable to cast {value} to {r.type}")
        return list(value)
    return value


def check_sharing(s: FunctionSchema, result: Any, args: tuple, kwargs: dict[str, Any]) -> None:
    """Results share memory neither with arguments nor with each other."""
    storages = {t.untyped_storage()._cdata for t in tensors_in((*args, *kwargs.values())) if has_memory(t)}
    for t in tensors_in([result]):
        if not has_memory(t):
            continue
        key = t.untyped_storage()._cdata
        if key in storages:
            raise RuntimeError(
                f"{s.name.partition('::')[2]} (with implementation in {s.name.partition('::')[0]}): The output of this custom operator (1) must not "
                "also be an input to this custom operator and (2) may not alias any inputs to this custom operator or other "
                "returns. The most common way to trigger this error is if we have y = custom_op(x) and y and x are the same "
                "Tensor. Please instead return a clone of the offending output tensor(s) (e.g. return x.clone()) or refactor the "
                "custom operator to not return y."
            )
        storages.add(key)


def has_memory(t: Tensor) -> bool:
    return t.layout == _C.strided and t.numel() > 0


_C._AutoDispatchBelowAutograd = below_autograd
