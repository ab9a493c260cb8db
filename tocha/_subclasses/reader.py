"""Readers of the interpreter of records for fake tensors: one that only wants facts, one that records nodes for autograd."""

from __future__ import annotations

import copy
import threading
from functools import cache, partial
from types import NoneType
from typing import Any

from tocha import _C
from tocha._library import dispatch, plans
from tocha._ops import ops
from tocha._subclasses import data_sizes, history
from tocha._subclasses.convert import dtype_facts, native_device, native_dtype, plain_number
from tocha._subclasses.errors import DynamicOutputShapeException
from tocha._subclasses.fake import FakeTensor, new
from tocha._subclasses.mixed_precision import cast, wanted_dtype
from tocha.ir.devices import Device
from tocha.ir.dtypes import DType
from tocha.ir.layout import MemoryFormat
from tocha.ir.promotion import number_dtype
from tocha.ir.shape_env import GuardOnDataDependentSymNode
from tocha.operators.facts import Facts, Scalar
from tocha.operators.interpreter import DataDependent, Interpreter
from tocha.operators.overloads import names, table
from tocha.operators.record import Operator
from tocha.utils._python_dispatch import is_traceable_wrapper_subclass


class _Modes(threading.local):
    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.kernel: tuple[str, dict[str, Any]] | None = None  # the kernel whose rule runs, and its arguments


modes = _Modes()


def active_mode() -> Any:
    return modes.stack[-1] if modes.stack else None


@cache
def overload_of(o: Operator) -> Any:
    """The operator handle under which a record is shown; its name where it has none."""
    for packet in (short for name in names(o) for short in (name, name + "_")):
        for overload, form in table().get(packet, {}).items():
            if form.record is o:
                return getattr(getattr(ops.aten, packet), overload or "default")
    return handle_named(o.name)


def handle_named(name: str) -> Any:
    """The first overload of an operator, or what stands for it where there is none."""
    packet = getattr(ops.aten, name, None)
    return f"aten.{name}.default" if packet is None else getattr(packet, packet.overloads()[0])


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


def is_seen_whole(o: Operator) -> bool:
    """Whether dispatch modes see the operator itself, or those that its body calls (docs/inside/dispatch.md)."""
    return o.kind != "composite" or o.whole or bool(o.gradients)


PLAIN = frozenset([int, float, bool, complex, str, NoneType])  # values that are shown as they are


class FakeInterpreter(Interpreter):
    """Facts of the results of one mode's calls; sizes that depend on elements are unbacked symbols where it makes such."""

    def __init__(self, mode: Any):
        super().__init__()
        self.mode = mode
        self.wrapped = False  # whether some of the tensors are wrappers around fakes
        self.casts = True  # mixed precision applies: not within an operator that has been given its dtypes

    def call(self, o: Operator, arguments: dict[str, Any], inplace: bool = False) -> Any:
        if o.autocast and self.casts:
            to = wanted_dtype(o, arguments)
            if to is not None:
                within = copy.copy(self)
                within.casts = False
                arguments = {n: cast(within, v, to) for n, v in arguments.items()}
                return within.call(o, arguments, inplace)
        asked = dispatch.modes.stack or (self.wrapped and self.meets_wrapper(arguments))
        if asked and is_seen_whole(o) and not _C._dispatch_disabled():
            return self.shown_to_modes(o, arguments, inplace)
        env = self.mode.shape_env
        fixed = inplace or env is None or env.trying
        try:
            if fixed or not env.unbacked:
                return super().call(o, arguments, inplace)
            call = partial(super().call, o)
            found = data_sizes.watched(env, call, arguments) if env.size_like else call(arguments)
            data_sizes.made_of_sizes(env, found)
            return found
        except GuardOnDataDependentSymNode as asked:
            if fixed:
                raise
            return self.without_values(asked, o, arguments)

    def without_values(self, asked: GuardOnDataDependentSymNode, o: Operator, arguments: dict[str, Any]) -> Any:
        """The call, of which something rests on numbers that come from data."""
        try:
            return data_sizes.answered(self.mode.shape_env, asked, partial(super().call, o), arguments)
        except GuardOnDataDependentSymNode:
            found = data_sizes.loose_view(self.mode, o, arguments)
            if found is None:
                raise
            return found

    def meets_wrapper(self, arguments: dict[str, Any]) -> bool:
        return False

    def shown_to_modes(self, o: Operator, arguments: dict[str, Any], inplace: bool) -> Any:
        raise NotImplementedError(f"[{o.name}] dispatch modes see the calls of a recorder only")

    def default_dtype(self) -> DType:
        return dtype_facts(_C.get_default_dtype())

    def default_device(self) -> Device:
        device = _C.get_default_device()
        return Device(device.type, device.index)

    def composite(self, o: Operator, arguments: dict[str, Any]) -> Any:
        return self.by_facts(o, arguments)

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
            raise DynamicOutputShapeException(handle_named(op))
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

    def watched(self) -> bool:
        return (bool(dispatch.modes.stack) or self.wrapped) and not _C._dispatch_disabled()

    def meets_wrapper(self, arguments: dict[str, Any]) -> bool:
        """Whether an argument is a wrapper: its class says what operators do to it."""
        found = (self.tensors.get(id(f)) for v in arguments.values() for f in history.facts_in(v))
        return any(t is not None and not isinstance(t, FakeTensor) for t in found)

    def recording(self) -> bool:
        return not self.quiet and _C.is_grad_enabled()

    def wants_gradient(self, t: Facts) -> bool:
        return self.recording() and self.wanting(t) is not None

    def call(self, o: Operator, arguments: dict[str, Any], inplace: bool = False) -> Any:
        if o.parts is not None and not inplace and self.watched():
            with (
                self
            ):  # what PyTorch takes apart before anybody sees it; parts may be the operator itself on other shapes
                return o.parts(*arguments.values())
        if self.quiet:
            return super().call(o, arguments, inplace)
        if o.kind == "foreach":
            return self.composed(o, arguments, inplace)
        if o.kind == "composite" and not o.gradients:
            history.refuse_constants(self, o, arguments)
            result = self.composed(o, arguments, inplace)
            if o.node:
                history.label(self, o, arguments, inplace, result)
            return result
        if o.autocast and self.casts and wanted_dtype(o, arguments) is not None:
            return super().call(o, arguments, inplace)
        return history.recorded(self, o, arguments, inplace)

    def composed(self, o: Operator, arguments: dict[str, Any], inplace: bool) -> Any:
        """A composite: where a gradient flows its operators are recorded, whoever would like to see it whole."""
        seen = is_seen_whole(o) and self.recording()
        given = [f for v in arguments.values() for f in history.facts_in(v)] if seen else []
        flows = any(self.wanting(f) is not None for f in given)
        if flows and not (o.autocast and self.casts and wanted_dtype(o, arguments) is not None):
            return Interpreter.call(self, o, arguments, inplace)
        return super().call(o, arguments, inplace)

    def write(self, o: Operator, arguments: dict[str, Any]) -> Any:
        """A composite in place: its result is copied, so that the history and those who watch see the write."""
        if o.kind != "composite" or self.quiet:
            return super().write(o, arguments)
        target = arguments[o.schema.arguments[0].name]
        version = target.memory.version
        if dispatch.modes.stack and self.wanting(target) is not None and self.recording():
            with self:  # gradients are of what it is before the write
                arguments = {**arguments, o.schema.arguments[0].name: self.apply("clone", (target,), {})}
        result = self.call(o, arguments)
        self.check_written(o, target, result)
        with self:
            self.apply("copy_", (target, result), {})
        target.memory.version = version + 1
        return target

    def into_shown(self, o: Operator, arguments: dict[str, Any], outs: list[FakeTensor]) -> Any:
        """The out= form for dispatch modes: as one operator, or what computes the result, and a copy of it."""
        if is_seen_whole(o):
            given = tuple(self.shown(v) for v in arguments.values())
            with history.unrecorded():
                plans.run(plans.plan(o.full_name, "out"), (*outs, *given), [], 0)
            return outs[0]._facts if len(outs) == 1 else tuple(t._facts for t in outs)
        results = self.call(o, arguments)
        results = results if isinstance(results, tuple | list) else (results,)
        for i, (t, r) in enumerate(zip(outs, results, strict=True)):
            self.check_out(o, i, t._facts, r, arguments)
            with self:
                if t._facts.sizes != r.sizes:
                    self.apply("resize_", (t._facts, list(r.sizes)), {})
                self.apply("copy_", (t._facts, r), {})
        return outs[0]._facts if len(outs) == 1 else tuple(t._facts for t in outs)

    def shown_to_modes(self, o: Operator, arguments: dict[str, Any], inplace: bool) -> Any:
        """A call below autograd: dispatch modes get PyTorch's operator and the tensors."""
        plan = plans.plan(o.full_name, "inplace" if inplace else "functional")
        values = tuple(self.shown(v) for v in arguments.values())
        with history.unrecorded():
            takers = [v for v in values if isinstance(v, _C.Tensor)] if self.wrapped else []
            found = plans.run(plan, values, takers, 0)
        self.settle_views(values, found)
        return self.taken_back(found)

    def settle_views(self, values: tuple, found: Any) -> None:
        """Views were made below autograd, but count as made here."""
        of = next((v for v in values if isinstance(v, FakeTensor)), None)
        for t in found if isinstance(found, list | tuple) else (found,):
            if of is not None and t is not of and isinstance(t, FakeTensor) and t._base is not None:
                _C._set_view_origin(t, of)

    def shown(self, v: Any) -> Any:
        if type(v) in PLAIN:
            return v
        if isinstance(v, Facts):
            return self.tensor_of(v, []) if v.number is None else v.number
        if isinstance(v, DType):
            return native_dtype(v)
        if isinstance(v, Device):
            return native_device(v)
        if isinstance(v, MemoryFormat):
            return getattr(_C, v.value)
        return [self.shown(x) for x in v] if isinstance(v, list) else v.value if isinstance(v, Scalar) else v

    def taken_back(self, found: Any) -> Any:
        """What a mode returned as facts."""
        if isinstance(found, FakeTensor):
            self.adopt(found._facts, found)
            return found._facts
        if self.wrapped and is_traceable_wrapper_subclass(found):
            return self.adopt_wrapper(found)
        if isinstance(found, _C.Tensor):
            raise TypeError("[fake] a dispatch mode gave a real tensor where a fake one was expected")
        if isinstance(found, list | tuple):
            return type(found)([self.taken_back(x) for x in found])
        return found

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

    def adopt_wrapper(self, t: Any) -> Facts:
        """Facts for a wrapper around fakes: what its class shows of it."""
        self.wrapped = True
        f = self.mode.facts_of(t)
        self.adopt(f, t)
        return f

    def tensor_of(self, f: Facts, given: list[FakeTensor]) -> FakeTensor:
        known = self.tensors.get(id(f))
        if known is not None:
            return known
        near = [t for t in (*given, *self.tensors.values()) if not self.wrapped or isinstance(t, FakeTensor)]
        return self.adopt(f, super().tensor_of(f, near))
