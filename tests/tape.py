"""Reverse-mode differentiation with the records' interpreted gradients, through composites: a reader of the interpreter."""

from __future__ import annotations

from typing import Any

from tocha.operators.derived import formulas
from tocha.operators.differentiate import Call, gradients
from tocha.operators.facts import Facts
from tocha.operators.interpreter import Interpreter, formula_of
from tocha.operators.record import Operator


class WrittenOver(Exception):
    """A body that writes to a tensor, which this tape does not follow."""


def differentiable_inputs(o: Operator, arguments: dict[str, Any]) -> list[str]:
    """The inputs that have gradients and for which the record knows one."""
    if o.kind == "pointwise":
        names = formula_of(o).operands
        t = next(
            (v.dtype.compute for n in names if isinstance(v := arguments[n], Facts) and v.dtype.is_differentiable), None
        )
        found = formulas(o, t) if t is not None else None
        if found is None:
            return []
        names = [n for n, f in zip(names, found, strict=True) if f is not None]
    else:
        names = [n for ns in o.gradients for n in ns] or [o.schema.arguments[0].name]

    def fits(v: Any) -> bool:
        return isinstance(v, Facts) and v.dtype.is_differentiable

    return [n for n in names if (all(map(fits, v)) if isinstance(v := arguments[n], list) else fits(v))]


class Taped(Interpreter):
    """`tape`: the calls that have gradients, in order. What happens in such a call is not looked into."""

    def __init__(self) -> None:
        self.tape: list[Call] = []
        self.produced: set[int] = set()  # results of recorded calls
        self.within_recorded = False
        self.differentiating = False
        self.written_over = ""

    def call(self, o: Operator, arguments: dict[str, Any], inplace: bool = False) -> Any:
        if self.within_recorded or (o.kind == "composite" and not o.gradients):
            return self.taken(o, arguments, inplace)
        self.within_recorded = True
        try:
            result = self.taken(o, arguments, inplace)
        finally:
            self.within_recorded = False
        if not (o.gradients or o.kind in ("pointwise", "view")) or "no_gradient" in o.tags:
            return result
        if inplace or o.name.endswith("_"):
            self.note_write(o, arguments)
        elif not any(result is v for v in arguments.values()):  # to() of its own dtype
            self.record(o, arguments, result)
        return result

    def record(self, o: Operator, arguments: dict[str, Any], result: Any) -> None:
        self.tape.append(Call(o, arguments, list(result) if isinstance(result, list | tuple) else [result]))
        self.produced |= {id(r) for r in self.tape[-1].results}

    def note_write(self, o: Operator, arguments: dict[str, Any]) -> None:
        """Facts have no elements that could be lost; of tensors, scratch that no gradient flows through may be written to."""
        name, target = next(iter(arguments.items()))
        others = [v for v in arguments.values() if isinstance(v, Facts) and v is not target and v.number is None]
        if id(target) not in self.produced and not any(v.dtype.is_differentiable for v in others):
            return
        if type(target) is not Facts or target.base is not None:
            self.written_over = o.full_name
            return
        before = target.fresh(strides=target.steps)
        for call in self.tape:
            call.results = [before if r is target else r for r in call.results]
            call.arguments = {k: before if v is target else v for k, v in call.arguments.items()}
        self.record(o, {**arguments, name: before}, target)

    def recording(self) -> bool:
        return not self.within_recorded and self.differentiating

    def backward(self, results: list[Any], grads: list[Any], of: list[Facts], again: bool = False) -> list[Any]:
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
        floating = isinstance(x, Facts) and x.dtype.is_differentiable
        return self.apply("zeros_like", (x,), {}) if floating else None

    def collect(self, known: dict[int, Any], x: Any, g: Any) -> None:
        if g is None or x is None:
            return
        before = known.get(id(x))
        known[id(x)] = g if before is None else self.apply("add", (before, g), {})

    def taken(self, o: Operator, arguments: dict[str, Any], inplace: bool) -> Any:
        return Interpreter.call(self, o, arguments, inplace)
