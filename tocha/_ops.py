"""Operator handles: `tocha.ops.aten.add.Tensor` is one overload of one operator, callable, with its schema and tags.

Those of `aten` are made from the records when somebody asks for them (tocha/operators/overloads.py); those of other
namespaces are what programs define through tocha.library.
"""

from __future__ import annotations

import importlib
import os
import types
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, Protocol

from tocha import _C, overrides
from tocha._core.on_demand import Later
from tocha._library.arguments import bound, numbers_for_tensors, tensors_in
from tocha._library.native_calls import Eager, native_call, record_arguments, released
from tocha._library.registry import changed, definitions
from tocha._library.tags import Tag, tags_of
from tocha._library.twins import twins
from tocha.operators.function_schema import FunctionSchema
from tocha.operators.overloads import FUNCTIONAL, Overload, table

ctypes = Later("ctypes")


class Target(Protocol):
    """What an overload stands for: a form of a record, or a custom operator."""

    schema: FunctionSchema

    def native(self, handle: OpOverload) -> Callable: ...
    def tags(self) -> list[Tag]: ...
    def can_decompose(self) -> bool: ...
    def decompose(self, args: tuple, kwargs: dict[str, Any]) -> Any: ...


def mask_of(s: FunctionSchema) -> int | None:
    """Where a call says which results it wants: a truth for each of them, `bool[3] output_mask`."""
    text = f"bool[{len(s._returns)}]"
    return next((i for i, a in enumerate(s._arguments) if a.name == "output_mask" and a.text == text), None)


def where_asked(call: Callable, place: int) -> Callable:
    """The call with None for results that were not asked for, of which a record gives empty tensors."""

    def masked(*args: Any, **kwargs: Any) -> Any:
        results = call(*args, **kwargs)
        mask = kwargs["output_mask"] if place >= len(args) else args[place]
        return (
            tuple(r if wanted else None for r, wanted in zip(results, mask, strict=True))
            if isinstance(results, tuple)
            else results
        )

    return masked


class RecordTarget:
    """A form of a record."""

    def __init__(self, overload: Overload):
        self.overload = overload
        self.schema = overload.schema

    def native(self, handle: OpOverload) -> Callable:
        call, place = native_call(self.overload, handle), mask_of(self.schema)
        return call if place is None else where_asked(call, place)

    @cached_property
    def _tags(self) -> list[Tag]:
        return tags_of(self.overload)

    def tags(self) -> list[Tag]:
        return self._tags

    def body(self) -> Callable | None:
        o = self.overload.record
        if self.overload.form != FUNCTIONAL:
            return None
        return o.body if o.kind == "composite" else o.decomposition

    def can_decompose(self) -> bool:
        return self.body() is not None

    def decompose(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Runs the body on the tensors: its operators are called one by one."""
        body, o = self.body(), self.overload.record
        assert body is not None
        reader = Eager()
        with reader.inside(o):
            return released(body(*record_arguments(self.overload, args, kwargs)))


class OperatorBase:
    """What overloads and packets have in common."""

    def __deepcopy__(self, memo: object = None) -> Any:
        return self

    def __copy__(self) -> Any:
        return self


class OpOverload(OperatorBase):
    """One overload of an operator.

    >>> import tocha
    >>> add = tocha.ops.aten.add.Tensor
    >>> add._schema
    aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor
    >>> add(tocha.ones(2), tocha.ones(2), alpha=3)
    tensor([4., 4.])
    """

    def __init__(self, packet: OpOverloadPacket, target: Target):
        s = target.schema
        self._schema = s
        self._overloadpacket = packet
        self._overloadname = s.overload_name or "default"
        self._target = target
        self._namespace, _, self._opname = s.name.partition("::")
        self._name = f"{s.name}.{s.overload_name}" if s.overload_name else s.name
        self.__name__ = f"{self._opname}.{self._overloadname}"
        self.__qualname__ = self._name
        self.__module__ = packet.__module__
        self.__annotations__ = {}
        self._op = target.native(self)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return self._op(*args, **kwargs)

    op = property(lambda self: self._op)
    overloadpacket = property(lambda self: self._overloadpacket)
    namespace = property(lambda self: self._namespace)

    def name(self) -> str:
        return self._name

    @property
    def tags(self) -> list[Tag]:
        return self._target.tags()

    _tags = tags

    @property
    def is_view(self) -> bool:
        return self._schema._is_view_op()

    @property
    def _nondeterministic_seeded(self) -> bool:
        return Tag.nondeterministic_seeded in self.tags

    def _can_decompose(self) -> bool:
        return self._target.can_decompose()

    def decompose(self, /, *args: Any, **kwargs: Any) -> Any:
        """The same from other operators, which are called one by one; NotImplemented where there is no such body."""
        return self._target.decompose(args, kwargs) if self._can_decompose() else NotImplemented

    def has_kernel_for_dispatch_key(self, key: str) -> bool:
        return getattr(self._target, "has_kernel", lambda k: k in ("CPU", "Meta", "Autograd"))(key)

    def _refuse(self, /, *args: Any, **kwargs: Any) -> Any:
        """Called by the native form when arguments do not fit: says why not."""
        problem = bound(self._schema, args, kwargs)
        if isinstance(problem, str):
            raise RuntimeError(problem)
        raise RuntimeError(f"{self._schema.name}() does not take these arguments. Declaration: {self._schema}")

    def __reduce__(self) -> tuple:
        return _handle, (self._namespace, self._opname, self._overloadname)

    def __repr__(self) -> str:
        return f"<OpOverload(op='{self._namespace}.{self._opname}', overload='{self._overloadname}')>"

    def __str__(self) -> str:
        return f"{self._namespace}.{self._opname}.{self._overloadname}"


class OpOverloadPacket(OperatorBase):
    """An operator: its overloads are attributes; called, it chooses the first one that the arguments fit."""

    def __init__(self, qualified_op_name: str, targets: dict[str, Target]):
        self._qualified_op_name = qualified_op_name
        self._namespace, _, name = qualified_op_name.partition("::")
        self.__name__ = name
        self.__module__ = f"tocha._ops.{self._namespace}"
        self._targets = targets
        self._made: dict[str, OpOverload] = {}

    def overloads(self) -> list[str]:
        return [n or "default" for n in self._targets]

    @property
    def _overload_names(self) -> list[str]:
        return list(self._targets)

    @property
    def _schemas(self) -> dict[str, FunctionSchema]:
        return {n: t.schema for n, t in self._targets.items()}

    op = property(lambda self: self.__call__)
    _op = op

    def __getattr__(self, key: str) -> OpOverload:
        if key.startswith("__"):
            raise AttributeError(f"'{self}' can't have an overload name beginning with '__' and has no attribute {key}")
        target = self._targets.get("" if key == "default" else key)
        if target is None:
            raise AttributeError(f"The underlying op of '{self}' has no overload name '{key}'")
        known = self._made.get(key)
        if known is None or known._target is not target:
            known = self._made[key] = OpOverload(self, target)
        return known

    def __iter__(self) -> Iterator[str]:
        return iter(self.overloads())

    def __dir__(self) -> list[str]:
        return [*self.overloads(), *object.__dir__(self)]

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        given = (*args, *kwargs.values())
        if _C._has_torch_function(tuple(overridable(given))):
            return overrides.handle_torch_function(self, overridable(given), *args, **kwargs)
        problems, second = [], None
        for name, target in self._targets.items():
            found = bound(target.schema, args, kwargs)
            if isinstance(found, str):
                problems.append(found)
            elif numbers_for_tensors(target.schema, found):
                second = second or name or "default"
            else:
                return getattr(self, name or "default")(*args, **kwargs)
        if second is not None:
            return getattr(self, second)(*args, **kwargs)
        if len(problems) == 1:
            raise RuntimeError(problems[0])
        raise RuntimeError(
            "Overloaded torch operator invoked from Python failed to match any schema:\n" + "\n\n".join(problems)
        )

    def __reduce__(self) -> tuple:
        return _packet, (self._namespace, self.__name__)

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='{self}')>"

    def __str__(self) -> str:
        return f"{self._namespace}.{self.__name__}"


def overridable(values: Any) -> list[Any]:
    """What may take a call over: tensors and look-alikes, those in lists too."""
    return tensors_in(values) + [
        v for v in values if not isinstance(v, _C.Tensor) and hasattr(type(v), "__torch_function__")
    ]


# Shared libraries that cannot be loaded here, by folder and name, and the modules that define their operators instead.
stand_ins: dict[str, str] = {}


def _of_others(space: str, name: str) -> None:
    """PyTorch's operators that are functions of those that records answer for."""
    if space in ("aten", "prims"):
        importlib.import_module("tocha._library.composites").define(space, name)


# Asked for an operator that nobody has defined; whoever knows it defines it (tocha/_alias/operators.py).
unknown: list[Callable[[str, str], object]] = [_of_others]


def _handle(namespace: str, name: str, overload: str) -> OpOverload:
    return getattr(_packet(namespace, name), overload)


def _packet(namespace: str, name: str) -> OpOverloadPacket:
    return getattr(getattr(ops, namespace), name)


class _OpNamespace(types.ModuleType):
    """`tocha.ops.aten`, or a namespace that a program defines."""

    def __init__(self, name: str):
        super().__init__(f"tocha.ops.{name}")
        self.name = name
        self.__file__ = "tocha.ops"

    def _names(self) -> list[str]:
        defined = [n.partition("::")[2] for n in definitions if n.startswith(f"{self.name}::")]
        return [*(table() if self.name == "aten" else ()), *defined]

    def _find(self, name: str) -> dict[str, Any] | None:
        defined = definitions.get(f"{self.name}::{name}")
        if self.name != "aten" or name not in table():
            derived = twins(name) if self.name == "aten" else None
            return {**derived, **(defined or {})} if derived else defined
        return {n: RecordTarget(o) for n, o in table()[name].items()} | (defined or {})

    def __getattr__(self, name: str) -> Any:
        if self.name == "higher_order" and not name.startswith("__"):
            importlib.import_module("tocha._higher_order_ops")  # which puts its operators here
            if name in self.__dict__:
                return self.__dict__[name]
        targets = self._find(name)
        if not targets and not name.startswith("__"):
            for asked in unknown:
                asked(self.name, name)
            targets = self._find(name)
        if not targets:
            raise AttributeError(f"'_OpNamespace' '{self.name}' object has no attribute '{name}'")
        packet = OpOverloadPacket(f"{self.name}::{name}", targets)
        setattr(self, name, packet)
        return packet

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._names()})

    def __repr__(self) -> str:
        return f"<module 'tocha.ops.{self.name}' from 'tocha.ops'>"


class _Ops(types.ModuleType):
    """`tocha.ops`: operators by namespace."""

    __file__ = "_ops.py"

    def __init__(self) -> None:
        super().__init__("tocha.ops")
        self.loaded_libraries: set[str] = set()
        self._spaces: dict[str, _OpNamespace] = {}

    def __getattr__(self, name: str) -> _OpNamespace:
        if name.startswith("__"):
            raise AttributeError(f"module 'tocha.ops' has no attribute {name!r}")
        space = self._spaces[name] = _OpNamespace(name)
        setattr(self, name, space)
        return space

    def __iter__(self) -> Iterator[str]:
        return iter(self._spaces)

    def load_library(self, path: str) -> None:
        """Loads a shared library that registers kernels of a device when it is loaded (docs/inside/devices.md)."""
        if (stand_in := stand_ins.get("/".join(os.path.normpath(path).split(os.sep)[-2:]))) is not None:
            importlib.import_module(stand_in)
            self.loaded_libraries.add(os.path.abspath(path))
            return
        ctypes.CDLL(_C.__file__, os.RTLD_NOLOAD | os.RTLD_GLOBAL | os.RTLD_NOW)  # its names are there for the library
        try:
            ctypes.CDLL(os.path.abspath(path))
        except OSError as e:
            raise OSError(f"Could not load this library: {path}") from e
        self.loaded_libraries.add(os.path.abspath(path))

    def __repr__(self) -> str:
        return "<module 'tocha.ops' from '_ops.py'>"


ops = _Ops()


def _forget(name: str) -> None:
    """An operator was defined or removed: its packet is made anew."""
    namespace, _, short = name.partition("::")
    space = ops._spaces.get(namespace)
    packet = space.__dict__.get(short) if space is not None else None
    if packet is not None and packet._targets is not definitions.get(name):
        del space.__dict__[short]


changed.append(_forget)
