"""What an operator is made of, read off its record: a composite's body, a kernel's decomposition, a formula carried out with operators.

Everything runs on tensors (or fakes), so that whoever traces sees the operators inside.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from tocha import _C, _ops
from tocha._library.native_calls import Eager, record_arguments, released
from tocha._library.tags import is_core
from tocha.ir import dtypes as dt
from tocha.ir.node import CONSTANT, Node, topological
from tocha.ir.select import CAST, where
from tocha.operators.derived import operator_for, resolve, traced, type_codes
from tocha.operators.differentiate import FormulaOnTensors
from tocha.operators.facts import Facts
from tocha.operators.interpreter import Interpreter, as_operand, formula_of
from tocha.operators.overloads import FUNCTIONAL, INPLACE, OUT, Overload, names, table
from tocha.operators.record import Operator, overloads

TRIED = (dt.float32, dt.int64, dt.bool_, dt.complex64)  # formulas differ by these


# ---- formulas --------------------------------------------------------------------------------------


class Parts(Eager):
    """Runs bodies on tensors. A number where an operator takes a tensor is made one by an operator, so that graphs have it."""

    def call(self, o: Operator, arguments: dict[str, Any], inplace: bool = False) -> Any:
        # A number first is another operator where calls are seen (1 - x is rsub), which is made of this one.
        first = o.schema.arguments[0].name if o.schema.arguments and o.seen_as is not None else ""
        numbers = [
            a.name for a in o.schema.arguments
            if (a.type in ("Tensor", "Tensor?") or a.name == first) and is_number(arguments[a.name])
        ]  # fmt: skip
        if numbers:
            arguments = {n: self.tensor(v) if n in numbers else v for n, v in arguments.items()}
        return super().call(o, arguments, inplace)

    def tensor(self, number: Facts) -> Any:
        return self.apply("scalar_tensor", (number.number,), {"dtype": number.dtype})


def is_number(value: Any) -> bool:
    return isinstance(value, Facts) and value.number is not None


class Formula(FormulaOnTensors):
    """A formula of a record on its operands, each step in the dtype that the formula has there."""

    def compute(self, n: Node) -> Any:
        if n.op in self.leaves or n.op is CONSTANT:
            return super().compute(n)
        args = [self.value(a) for a in n.args]
        if all(map(is_number, args)):
            return as_operand(n.op.evaluate(n, *(a.number for a in args)))
        if n.op is CAST:
            return self.it.apply("to", (args[0], n.dtype), {})
        if n.op is where and is_number(args[0]):
            return args[1 if args[0].number else 2]
        if n.op is where and is_number(args[1]) and is_number(args[2]):
            # A choice of two numbers has the default dtype.
            given = {"dtype": n.dtype, "device": args[0].device}
            args[1] = self.it.apply("scalar_tensor", (args[1].number,), given)
        name, keywords = operator_for(n.op.name)
        return self.it.apply(name, tuple(a if a.number is None else a.number for a in args), keywords)


@cache
def splits(o: Operator) -> bool:
    """Whether a formula is more than one operator: its primitives are other operators than itself."""
    known = set(names(o)) | {o.name}
    for t in (t for t in o.dtypes if t in TRIED):
        for n in topological(traced(o, t)):
            if n.args and n.op is not CAST and n.op.name != "conj":  # which is a view of what it conjugates
                name, _ = operator_for(n.op.name)
                if name in known or not any(r.core or r.kind == "pointwise" for r in overloads(name)):
                    return False
    return bool(o.dtypes)


def by_formula(it: Interpreter, o: Operator, arguments: dict[str, Any]) -> Any:
    """A pointwise operator's results, computed with other operators in the precision of its kernel."""
    f = formula_of(o)
    wanted = Interpreter.pointwise(it, o, arguments)
    operands = [arguments[n] for n in f.operands]
    t = it.compute_dtype(o, f, operands)
    c = t.compute if t.compute in o.dtypes else t
    _, codes, _ = type_codes(o)
    operands = [in_dtype(it, v, resolve(code, c)) for v, code in zip(operands, codes, strict=True)]
    params = [arguments[a.name] for a in o.schema.arguments if not a.is_tensor and a.type != "Generator?"]
    formula = Formula(it, (), operands, (), params)
    results = [
        fitted(it, formula.value(n), w)
        for n, w in zip(traced(o, c), wanted if isinstance(wanted, tuple) else (wanted,), strict=True)
    ]
    return results[0] if len(results) == 1 else tuple(results)


def in_dtype(it: Interpreter, v: Facts, dtype: dt.DType) -> Facts:
    return v if v.number is not None or v.dtype is dtype else it.apply("to", (v, dtype), {})


def fitted(it: Interpreter, found: Facts, wanted: Facts) -> Any:
    """A result in the dtype, shape and layout that the operator gives it."""
    if found.number is not None:
        found = it.apply("full", (wanted.shape, found.number), {"dtype": wanted.dtype, "device": wanted.device})
    if found.dtype is not wanted.dtype:
        found = it.apply("to", (found, wanted.dtype), {})
    if list(found.sizes) != list(wanted.sizes):
        found = it.apply("expand", (found, wanted.shape), {})
    return it.laid_out(found, wanted)


# ---- any record ------------------------------------------------------------------------------------


def has_parts(o: Operator) -> bool:
    """Whether a record says what smaller operators it is made of."""
    if o.parts is not None or o.decomposition is not None or o.kind in ("composite", "foreach"):
        return True
    return o.kind == "pointwise" and splits(o)


def run_parts(o: Operator, arguments: dict[str, Any], inplace: bool = False) -> Any:
    """The results of an operator from its parts."""
    it = Parts()
    with it.inside(o):
        if o.kind == "foreach":
            return it.foreach(o, arguments, inplace)
        if o.decomposition is not None:
            return it.decompose(o, arguments)
        if o.parts is not None:
            return o.parts(*arguments.values())
        return o.body(*arguments.values()) if o.kind == "composite" else by_formula(it, o, arguments)


class Decomposition:
    """One overload as a function of other operators."""

    def __init__(self, overload: Overload):
        self.overload = overload
        self.__name__ = self.__qualname__ = overload.schema.name.removeprefix("aten::")
        self.__doc__ = overload.record.doc

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        overload = self.overload
        outs = [kwargs[a.name] for a in overload.schema._arguments if a.is_out] if overload.form == OUT else []
        values = record_arguments(overload, args, kwargs)
        arguments = {a.name: v for a, v in zip(overload.record.schema.arguments, values, strict=True)}
        inplace = overload.form == INPLACE
        found = released(run_parts(overload.record, arguments, inplace))
        if outs:
            return written(outs, found)
        if inplace and overload.record.kind != "foreach":
            return args[0].copy_(found)
        return found

    def __repr__(self) -> str:
        return f"<decomposition of {self.overload.schema.name}.{self.overload.schema.overload_name or 'default'}>"


def written(outs: list[Any], found: Any) -> Any:
    """Results in the tensors given by out=."""
    for out, value in zip(outs, found if isinstance(found, list | tuple) else (found,), strict=True):
        if tuple(out.shape) != tuple(value.shape):
            out.resize_(value.shape)
        out.copy_(value)
    return outs[0] if len(outs) == 1 else tuple(outs)


def own_name(overload: Overload) -> Overload | None:
    """The overload under the record's own name for one under an alias, and the one of tensors for one with a number first."""
    o, s = overload.record, overload.schema
    short, own = s.name.removeprefix("aten::"), next(names(o))
    if overload.form != FUNCTIONAL:
        return None
    if short != own:
        found = table().get(own, {}).get(s.overload_name)
        return found if found is not None and found.record is o else None
    if s._arguments and s._arguments[0].text == "Scalar" and any(a.is_tensor for a in s._arguments):
        found = table()[own].get("Tensor")
        return found if found is not None and is_core(found) and not is_core(overload) else None
    return None


class Renamed:
    """An overload that is another one of the same record: `absolute` is `abs`."""

    def __init__(self, overload: Overload, own: Overload):
        self.overload, self.own = overload, own
        self.__name__ = self.__qualname__ = overload.schema.name.removeprefix("aten::")
        self.__doc__ = overload.record.doc

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        s = self.own.schema
        if s._arguments and s._arguments[0].is_tensor and not isinstance(args[0], _C.Tensor):
            args = (_C.scalar_tensor(args[0], dtype=_C.tensor(args[0]).dtype), *args[1:])
        handle = getattr(getattr(_ops.ops.aten, s.name.removeprefix("aten::")), s.overload_name or "default")
        return handle(*args, **kwargs)

    __repr__ = Decomposition.__repr__


def decomposition_of(overload: Overload) -> Callable | None:
    """The function for an overload; None for what has no parts, and for in-place views, which move no elements."""
    o = overload.record
    own = own_name(overload)
    if own is not None:
        return Renamed(overload, own)
    if not has_parts(o) or (o.kind == "view" and overload.form == INPLACE):
        return None
    if o.kind == "foreach" and overload.form == OUT:
        return None
    return Decomposition(overload)


def is_smallest(overload: Overload) -> bool:
    """Whether nothing smaller says it: PyTorch's core operators, and kernels and primitives outside that set."""
    return is_core(overload) or (not has_parts(overload.record) and own_name(overload) is None)
