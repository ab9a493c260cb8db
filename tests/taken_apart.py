"""Runs records on real tensors, with composites and decomposed kernels taken apart: a reader of the interpreter for tests."""

from __future__ import annotations

from functools import cache
from typing import Any

import samples as s

import tocha
from tocha.ir import dtypes as dt
from tocha.ir.devices import Device
from tocha.ir.dtypes import DType
from tocha.ir.layout import MemoryFormat
from tocha.operators.derived import formulas, traced
from tocha.operators.differentiate import Call, FormulaOnTensors, gradients
from tocha.operators.facts import Facts, Scalar
from tocha.operators.interpreter import DataDependent, Interpreter, formula_of
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


class WrittenOver(Exception):
    """A body that writes to a tensor, which this tape does not follow."""


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


def differentiable_inputs(o: Operator, arguments: dict[str, Any]) -> list[str]:
    """The inputs that have gradients and for which the record knows one."""
    if o.kind == "pointwise":
        names = formula_of(o).operands
        t = next(
            (v.dtype.compute for n in names if isinstance(v := arguments[n], Held) and v.dtype.is_differentiable), None
        )
        found = formulas(o, t) if t is not None else None
        if found is None:
            return []
        names = [n for n, f in zip(names, found, strict=True) if f is not None]
    else:
        names = [n for ns in o.gradients for n in ns] or [o.schema.arguments[0].name]

    def fits(v: Any) -> bool:
        return isinstance(v, Held) and v.dtype.is_differentiable

    return [n for n in names if (all(map(fits, v)) if isinstance(v := arguments[n], list) else fits(v))]


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


class TakenApart(Interpreter):
    """`reached`: the kernels whose decomposition ran. `tape`: the calls that have gradients, in order."""

    def __init__(self) -> None:
        self.reached: set[str] = set()
        self.tape: list[Call] = []
        self.within_recorded = False
        self.differentiating = False
        self.written_over = ""

    def call(self, o: Operator, arguments: dict[str, Any], inplace: bool = False) -> Any:
        if self.within_recorded or not (o.gradients or o.kind in ("pointwise", "view")):
            return self.taken(o, arguments, inplace)
        self.within_recorded = True
        try:
            result = self.taken(o, arguments, inplace)
        finally:
            self.within_recorded = False
        unchanged = any(result is v for v in arguments.values())  # to() of its own dtype
        if "no_gradient" not in o.tags and (inplace or not unchanged):
            if inplace or o.name.endswith("_"):
                self.written_over = o.full_name
            self.tape.append(Call(o, arguments, list(result) if isinstance(result, list | tuple) else [result]))
        return result

    def recording(self) -> bool:
        return not self.within_recorded and self.differentiating

    def backward(self, results: list[Any], grads: list[Any], of: list[Held], again: bool = False) -> list[Any]:
        """The gradients of some tensors from those of results of recorded calls; recorded themselves if wanted again."""
        if self.written_over:
            raise WrittenOver(self.written_over)
        tape, self.tape = self.tape, []
        known: dict[int, Any] = {}
        self.within_recorded, self.differentiating = not again, True
        try:
            for r, g in zip(results, grads, strict=True):
                self.collect(known, r, g)
            for call in reversed(tape):
                self.step(call, known)
        finally:
            self.within_recorded = self.differentiating = False
        if again:
            self.tape = tape + self.tape
        return [known.get(id(x)) for x in of]

    def step(self, call: Call, known: dict[int, Any]) -> None:
        grads = [known.get(id(r)) for r in call.results]
        wanted = differentiable_inputs(call.operator, call.arguments)
        if not wanted or all(g is None for g in grads):
            return
        needed = "grads" in {p for f in call.operator.gradients.values() for p in f.__code__.co_varnames}
        shown = [
            g if g is not None else self.zeros(r) if not needed else None
            for g, r in zip(grads, call.results, strict=True)
        ]
        for n, g in gradients(self, call, shown, wanted).items():
            x = call.arguments[n]
            for xi, gi in zip(x, g or [], strict=False) if isinstance(x, list) else [(x, g)]:
                self.collect(known, xi, gi)

    def zeros(self, x: Any) -> Any:
        floating = isinstance(x, Held) and x.dtype.is_differentiable
        return held(tocha.zeros_like(x.tensor)) if floating else None

    def collect(self, known: dict[int, Any], x: Any, g: Any) -> None:
        if g is None or x is None:
            return
        before = known.get(id(x))
        known[id(x)] = g if before is None else self.apply("add", (before, g), {})

    def taken(self, o: Operator, arguments: dict[str, Any], inplace: bool) -> Any:
        if inplace:
            return self.natively(o, arguments, True)
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
        """A formula without a Python name from its primitives, a view from its geometry."""
        if o.kind == "view":
            shown = Interpreter.view(self, o, arguments)
            base = arguments[o.schema.arguments[0].name].tensor
            return held(base.as_strided(shown.sizes, shown.steps, shown.offset))
        if o.kind != "pointwise":
            raise NoNativeForm(o.full_name)
        operands = [arguments[a.name] for a in o.schema.arguments if a.is_tensor]
        params = [arguments[a.name] for a in o.schema.arguments if not a.is_tensor]
        facts = Interpreter.pointwise(self, o, arguments)
        nodes = traced(o, facts.dtype.compute)
        return FormulaOnTensors(self, (), operands, (), params).value(nodes[0]).to(facts.dtype)
