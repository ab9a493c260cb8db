"""Readers of the interpreter of records for fake tensors: one that only wants facts, one that records nodes for autograd."""

from __future__ import annotations

import copy
import threading
from functools import cache
from typing import Any

from tocha import _C
from tocha._subclasses import history
from tocha._subclasses.convert import dtype_facts, plain_number
from tocha._subclasses.errors import DynamicOutputShapeException
from tocha._subclasses.fake import FakeTensor, new
from tocha._subclasses.mixed_precision import cast, wanted_dtype
from tocha.ir.devices import Device
from tocha.ir.dtypes import DType
from tocha.ir.promotion import number_dtype
from tocha.operators.facts import Facts
from tocha.operators.interpreter import DataDependent, Interpreter
from tocha.operators.overloads import table
from tocha.operators.record import Operator


class _Modes(threading.local):
    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.kernel: tuple[str, dict[str, Any]] | None = None  # the kernel whose rule runs, and its arguments


modes = _Modes()


def active_mode() -> Any:
    return modes.stack[-1] if modes.stack else None


class Unlisted:
    """Stands for a record that has no operator handle."""

    def __init__(self, name: str):
        self.name = name

    def __repr__(self) -> str:
        return f"aten.{self.name}.default"


@cache
def overload_of(o: Operator) -> Any:
    """The name under which an operator is shown: aten.add.Tensor."""
    for packet, forms in table().items():
        for overload, form in forms.items():
            if form.record is o:
                return f"aten.{packet}.{overload or 'default'}"
    return repr(Unlisted(o.name))


def elements_asked() -> Any:
    """What tells the elements of a kernel's arguments apart from others: memory, the writes to it, geometry; numbers."""
    assert modes.kernel is not None
    _, arguments = modes.kernel
    return tuple((n, element_key(v)) for n, v in arguments.items())


def element_key(v: Any) -> Any:
    if isinstance(v, Facts):
        return v.memory.number, v.memory.version, v.dtype, str(v.sizes), str(v.steps), str(v.offset)
    return tuple(map(element_key, v)) if isinstance(v, list) else repr(v)


def operand(reader: Interpreter, value: Any) -> Facts:
    """A number as the tensor that operators see."""
    value = plain_number(value)
    made = Facts((), number_dtype(value, reader.default_dtype()))
    made.number = value
    return made


class FakeInterpreter(Interpreter):
    """Facts of the results of one mode's calls; sizes that depend on elements are unbacked symbols where it makes such."""

    def __init__(self, mode: Any):
        super().__init__()
        self.mode = mode
        self.casts = True  # mixed precision applies: not within an operator that has been given its dtypes

    def call(self, o: Operator, arguments: dict[str, Any], inplace: bool = False) -> Any:
        if o.autocast and self.casts:
            to = wanted_dtype(o, arguments)
            if to is not None:
                within = copy.copy(self)
                within.casts = False
                arguments = {n: cast(within, v, to) for n, v in arguments.items()}
                return within.call(o, arguments, inplace)
        return super().call(o, arguments, inplace)

    def default_dtype(self) -> DType:
        return dtype_facts(_C.get_default_dtype())

    def default_device(self) -> Device:
        device = _C.get_default_device()
        return Device(device.type, device.index)

    def native(self, o: Operator, arguments: dict[str, Any]) -> Any:
        before, modes.kernel = modes.kernel, (o.full_name, arguments)
        try:
            return super().native(o, arguments)
        finally:
            modes.kernel = before

    def unknown_size(self, op: str, least: Any = 0) -> Any:
        """A size without a hint: the same one where the same is asked of the same elements again."""
        env = self.mode.shape_env
        if env is None or not env.allow_dynamic_output_shape_ops:
            raise DynamicOutputShapeException(f"aten.{op}.default")
        key = (op, least, elements_asked())
        known = self.mode.unknown_sizes.get(key)
        if known is None:
            made = env.create_unbacked_symint(size_like=True)
            known = self.mode.unknown_sizes[key] = made + least if least else made
        return known

    def elements(self, op: str, t: Facts) -> list[Any]:
        raise DataDependent(op, f"the elements of {t} are not known")

    def recording(self) -> bool:
        return False

    def tensor_of(self, f: Facts, given: list[FakeTensor]) -> FakeTensor:
        """The tensor that has these facts: an argument, a view of one, or a new one."""
        near = None
        for t in given:
            if t._facts is f:
                return t
            if t._facts.memory is f.memory:
                near = t
        if f.number is not None:
            f = Facts(f.sizes, f.dtype, f.device)
        if near is None and f.base is not None and f.base is not f:
            near = self.tensor_of(f.base, [])
        return new(self.mode, f, near, near is not None and f.base is None)


class Recorder(FakeInterpreter):
    """Records a node for each operator that has a gradient, composites looked into: history.py says how."""

    def __init__(self, mode: Any, given: list[FakeTensor]):
        super().__init__(mode)
        self.tensors: dict[int, FakeTensor] = {id(t._facts): t for t in given}  # by facts: of this call and its parts
        self.held: list[Facts] = []  # so that no two facts have one id
        self.quiet = False

    def recording(self) -> bool:
        return not self.quiet and _C.is_grad_enabled()

    def call(self, o: Operator, arguments: dict[str, Any], inplace: bool = False) -> Any:
        if self.quiet or o.kind == "foreach":
            return super().call(o, arguments, inplace)
        if o.kind == "composite" and not o.gradients:
            result = super().call(o, arguments, inplace)
            if o.node:
                history.label(self, o, arguments, inplace, result)
            return result
        if o.autocast and self.casts and wanted_dtype(o, arguments) is not None:
            return super().call(o, arguments, inplace)
        return history.recorded(self, o, arguments, inplace)

    def silently(self, o: Operator, arguments: dict[str, Any], inplace: bool) -> Any:
        self.quiet = True
        try:
            return super().call(o, arguments, inplace)
        finally:
            self.quiet = False

    def wanting(self, f: Any) -> FakeTensor | None:
        """The tensor behind facts, if a gradient flows to it."""
        t = self.tensors.get(id(f))
        return t if t is not None and t.requires_grad else None

    def adopt(self, f: Facts, t: FakeTensor) -> FakeTensor:
        self.tensors[id(f)] = t
        self.held.append(f)
        return t

    def tensor_of(self, f: Facts, given: list[FakeTensor]) -> FakeTensor:
        known = self.tensors.get(id(f))
        if known is not None:
            return known
        return self.adopt(f, super().tensor_of(f, [*given, *self.tensors.values()]))
