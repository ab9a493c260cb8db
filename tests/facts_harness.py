"""From tensors to facts and back: what tests need to hold interpreted records against native calls."""

from __future__ import annotations

import math
from typing import Any

from samples import Sample

import tocha
from tocha.ir import dtypes as dt
from tocha.ir.devices import Device
from tocha.ir.layout import MemoryFormat
from tocha.ir.shape_env import ShapeEnv
from tocha.ir.sym_types import Symbolic
from tocha.ir.symbolic import evaluate
from tocha.operators.facts import Facts, Memory, schema_type
from tocha.operators.interpreter import DataDependent, Interpreter, filled
from tocha.operators.record import OPERATORS
from tocha.operators.resolve import match


class Memories:
    """One Memory per storage, so that facts share where tensors share."""

    def __init__(self) -> None:
        self.known: dict[int, Memory] = {}

    def of(self, t: tocha.Tensor) -> Memory:
        return self.known.setdefault(t.untyped_storage()._cdata, Memory())

    def facts(self, value: Any) -> Any:
        """A native value as the interpreter takes it."""
        if isinstance(value, tocha.Tensor):
            return Facts(
                tuple(value.shape),
                dt.by_name(str(value.dtype).split(".")[1]),
                Device(value.device.type, value.device.index),
                value.stride(),
                value.storage_offset(),
                self.of(value),
                value.is_conj(),
                value.is_neg(),
            )
        if isinstance(value, tocha.dtype):
            return dt.by_name(str(value).split(".")[1])
        if isinstance(value, tocha.device):
            return Device(value.type, value.index)
        if isinstance(value, tocha.memory_format):
            return MemoryFormat(str(value).split(".")[1])
        if isinstance(value, list | tuple):
            return [self.facts(v) for v in value]
        return value


def described(value: Any) -> Any:
    """A result's facts in a form that compares."""
    if isinstance(value, list | tuple):
        return [described(v) for v in value]
    if isinstance(value, Facts):
        return (
            tuple(value.sizes),
            tuple(value.steps),
            value.dtype.name,
            str(value.device),
            value.conjugated,
            value.negated,
            value.offset,
        )
    if isinstance(value, tocha.Tensor):
        return (
            tuple(value.shape),
            value.stride(),
            str(value.dtype).split(".")[1],
            str(value.device),
            value.is_conj(),
            value.is_neg(),
            value.storage_offset(),
        )
    return value


def bound(o, args: list, kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments of one record by name."""
    types, keywords = [schema_type(a) for a in args], {k: schema_type(v) for k, v in kwargs.items()}
    found = match(o, types, keywords, False)
    if isinstance(found, str):
        found = match(o, types, keywords, True)
    assert not isinstance(found, str), found
    return {b.argument.name: filled(b, tuple(args), kwargs) for b in found}


def interpreted(interpreter: Interpreter, o, args: list, kwargs: dict[str, Any]) -> Any:
    with interpreter:
        return interpreter.call(o, bound(o, args, kwargs))


class SymbolicInterpreter(Interpreter):
    """Sizes that depend on elements are unbacked symbols."""

    def __init__(self, env: ShapeEnv):
        super().__init__()
        self.env = env

    def unknown_size(self, op: str, least: Any = 0) -> Any:
        return self.env.create_unbacked_symint(size_like=True)


class _Geometry:
    def __init__(self, of: Facts):
        self.of = of

    def size(self) -> tuple:
        return self.of.sizes

    def stride(self) -> tuple:
        return self.of.steps

    def storage_offset(self) -> Any:
        return self.of.offset


def symbolic(env: ShapeEnv, value: Any) -> Any:
    """Facts with symbols for sizes."""
    if isinstance(value, list):
        return [symbolic(env, v) for v in value]
    if not isinstance(value, Facts):
        return value
    sizes, strides, offset = env.create_symbolic_sizes_strides_storage_offset(_Geometry(value), None)
    return Facts(sizes, value.dtype, value.device, strides, offset, value.memory, value.conjugated, value.negated)


def at_hints(env: ShapeEnv, value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [at_hints(env, v) for v in value]
    if not isinstance(value, Facts):
        return value

    def hint(n: Any) -> Any:
        return env.hint(n.expr) if isinstance(n, Symbolic) else n

    return Facts(
        tuple(map(hint, value.sizes)),
        value.dtype,
        value.device,
        tuple(map(hint, value.steps)),
        hint(value.offset),
        None,
        value.conjugated,
        value.negated,
    )


def flat(value: Any) -> list:
    return [x for v in value for x in flat(v)] if isinstance(value, list | tuple) else [value]


def sharing(o, result: Any, memories: Memories) -> list[bool]:
    """Per result: whether it is on memory of an input."""
    if o.name.endswith("_"):
        return []  # the result is an argument, perhaps on other memory
    inputs = {m.number for m in memories.known.values()}
    return [r.memory.number in inputs for r in flat(result) if isinstance(r, Facts)]


def native_sharing(o, result: Any, sample: Any) -> list[bool]:
    if o.name.endswith("_"):
        return []
    tensors = [t for t in flat([*sample.args, *sample.kwargs.values()]) if isinstance(t, tocha.Tensor)]
    inputs = {t.untyped_storage()._cdata for t in tensors}
    return [r.untyped_storage()._cdata in inputs for r in flat(result) if isinstance(r, tocha.Tensor)]


def says_so(e: Exception) -> bool:
    """Whether the record that stopped for want of elements says that it reads them."""
    if not isinstance(e, DataDependent):
        return True  # a question about a size that another operator left open
    if e.operator in ("ints_of", "foreach"):
        return True
    found = [
        o
        for o in OPERATORS.values()
        if o.name.removeprefix("nn_") == e.operator or o.name.lstrip("_").startswith(e.operator)
    ]
    return any(
        o.tags & {"reads_values", "dynamic"} or o.schema.returns[0].type == "bool" for o in found if o.schema.returns
    )


def leaf(value):
    if isinstance(value, tocha.Tensor) and (value.is_floating_point() or value.is_complex()):
        return value.detach().requires_grad_()
    return type(value)(leaf(v) for v in value) if isinstance(value, list | tuple) else value


def live_sample(o, sample):
    """The sample with tensors that want gradients, where the record knows some."""
    names = [a.name for a in o.schema.arguments]
    args = [a if n in o.constants else leaf(a) for n, a in zip(names, sample.args, strict=False)]
    return Sample(tuple(args), {k: v if k in o.constants else leaf(v) for k, v in sample.kwargs.items()})


class Elsewhere:
    """The same program at other sizes: every symbol has another value."""

    def __init__(self, env: ShapeEnv, grown: Any):
        self.env = env
        self.values = {atom: grown(hint) for atom, hint in env.var_to_val.items()}

    def guards_hold(self) -> bool:
        return all(evaluate(g.expr, self.values) for g in self.env.guards)

    def size(self, n: Any) -> Any:
        return evaluate(n.expr, self.values) if isinstance(n, Symbolic) else n

    def facts(self, value: Any) -> Any:
        if isinstance(value, list | tuple):
            return [self.facts(v) for v in value]
        if not isinstance(value, Facts):
            return self.size(value)
        sizes, steps = tuple(map(self.size, value.sizes)), tuple(map(self.size, value.steps))
        shown = (value.conjugated, value.negated)
        return Facts(sizes, value.dtype, value.device, steps, self.size(value.offset), None, *shown)

    def sample(self, sample: Sample) -> Sample:
        return Sample(self.made(sample.args), {k: self.made(v) for k, v in sample.kwargs.items()})

    def can_be_made(self, sample: Sample) -> bool:
        tensors = [t for t in flat([*sample.args, *sample.kwargs.values()]) if isinstance(t, tocha.Tensor)]
        return all(t.is_contiguous() and not t.is_conj() and not t.is_neg() for t in tensors)

    def made(self, value: Any) -> Any:
        """Tensors of the other sizes, their elements repeated."""
        if isinstance(value, list | tuple):
            return type(value)(self.made(v) for v in value)
        if not isinstance(value, tocha.Tensor):
            return value
        hints = {hint: self.values[atom] for atom, hint in self.env.var_to_val.items()}
        shape = [hints.get(n, n) for n in value.shape]
        count = math.prod(shape)
        times = -(-count // max(value.numel(), 1))
        return value.reshape(-1).repeat(times)[:count].reshape(shape)
