"""Runs records on real tensors, with composites and decomposed kernels taken apart: a reader of the interpreter for tests."""

from __future__ import annotations

from functools import cache
from typing import Any

import samples as s
from tape import Taped

import tocha
from tocha.ir import dtypes as dt
from tocha.ir.devices import Device
from tocha.ir.dtypes import DType
from tocha.ir.layout import MemoryFormat
from tocha.operators.derived import traced
from tocha.operators.differentiate import FormulaOnTensors
from tocha.operators.facts import Facts, Scalar
from tocha.operators.interpreter import DataDependent, Interpreter
from tocha.operators.record import OPERATORS, Operator


class Held(Facts):
    """Facts with the tensor that they are of."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: tocha.Tensor):
        super().__init__(
            tuple(tensor.shape),
            dt.by_name(str(tensor.dtype).split(".")[1]),
            Device(tensor.device.type, tensor.device.index),
            tensor.stride(),
            tensor.storage_offset(),
            None,
            tensor.is_conj(),
            tensor.is_neg(),
        )
        self.tensor = tensor


class NoNativeForm(Exception):
    """A record that Python cannot call."""


def held(value: Any) -> Any:
    if isinstance(value, tocha.Tensor):
        return Held(value)
    if isinstance(value, tocha.dtype):
        return dt.by_name(str(value).split(".")[1])
    if isinstance(value, tocha.device):
        return Device(value.type, value.index)
    if isinstance(value, tocha.memory_format):
        return MemoryFormat(str(value).split(".")[1])
    if isinstance(value, list | tuple) and not isinstance(value, tocha.Size):
        return [held(v) for v in value] if isinstance(value, list) else tuple(held(v) for v in value)
    return value


def released(value: Any) -> Any:
    """What a native call takes."""
    if isinstance(value, Held):
        return value.tensor
    if isinstance(value, Facts):
        assert value.number is not None, "facts without a tensor"
        return value.number
    if isinstance(value, Scalar):
        return value.value
    if isinstance(value, DType):
        return getattr(tocha, value.name)
    if isinstance(value, Device):
        return tocha.device(str(value))
    if isinstance(value, MemoryFormat):
        return getattr(tocha, value.value)
    return type(value)(released(v) for v in value) if isinstance(value, list | tuple) else value


@cache
def callable_of(o: Operator) -> Any:
    """The Python function of a record, or of another one with the same kernel."""
    alike = (
        p for p in OPERATORS.values() if o.kernel and p.kernel == o.kernel and p.schema.arguments == o.schema.arguments
    )
    found = s.function_of(o) or next(filter(None, map(s.function_of, alike)), None)
    if found is None:
        raise NoNativeForm(o.full_name)
    return found


class TakenApart(Taped):
    """`reached`: the kernels whose decomposition ran."""

    def __init__(self) -> None:
        super().__init__()
        self.reached: set[str] = set()

    def taken(self, o: Operator, arguments: dict[str, Any], inplace: bool) -> Any:
        if inplace:
            return self.natively(o, arguments, True)
        if o.algorithm == "answer" and not o.schema.returns:  # it only looks at values
            return None
        if o.kind == "composite":
            try:
                return self.run(o, arguments)
            except (NoNativeForm, DataDependent):
                return self.natively(o, arguments)
        if o.decomposition is not None:
            self.reached.add(o.full_name)
            return self.decompose(o, arguments)
        try:
            return self.natively(o, arguments)
        except NoNativeForm:
            return self.piecewise(o, arguments)

    def natively(self, o: Operator, arguments: dict[str, Any], inplace: bool = False) -> Any:
        function = s.inplace_forms(o)[0] if inplace else callable_of(o)
        given = {a.name: released(arguments[a.name]) for a in o.schema.arguments}
        for a in o.schema.arguments:
            if a.type == "Tensor" and not isinstance(given[a.name], tocha.Tensor):
                given[a.name] = tocha.tensor(given[a.name])  # a number where overloads with numbers are not meant
        positional = [given[a.name] for a in o.schema.arguments if not a.keyword_only]
        found = function(*positional, **{a.name: given[a.name] for a in o.schema.arguments if a.keyword_only})
        same = [v for v in arguments.values() if isinstance(v, Held) and v.tensor is found]
        found = same[0] if same else held(found)
        returns = o.schema.returns
        return list(found) if len(returns) == 1 and returns[0].type == "Tensor[]" else found

    def piecewise(self, o: Operator, arguments: dict[str, Any]) -> Any:
        """A formula without a Python name and with one result from its primitives, a view from its geometry."""
        if o.kind == "view":
            shown = Interpreter.view(self, o, arguments)
            base = arguments[o.schema.arguments[0].name].tensor
            return held(base.as_strided(shown.sizes, shown.steps, shown.offset))
        if o.kind != "pointwise" or len(o.schema.returns) > 1:
            raise NoNativeForm(o.full_name)
        operands = [arguments[a.name] for a in o.schema.arguments if a.is_tensor]
        params = [arguments[a.name] for a in o.schema.arguments if not a.is_tensor]
        facts = Interpreter.pointwise(self, o, arguments)
        nodes = traced(o, facts.dtype.compute)
        return FormulaOnTensors(self, (), operands, (), params).value(nodes[0]).to(facts.dtype)
