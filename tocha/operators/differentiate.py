"""Gradients of records, interpreted: what backward computes, on whatever values the interpreter's reader has.

Native autograd has the same formulas and functions in C++ (tocha/_build/gradients.py); here they run as Python text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tocha.ir import dtypes as dt
from tocha.ir.node import CONSTANT, GRAD, INPUT, OUTPUT, PARAM, Node, topological
from tocha.ir.select import CAST, conj, where
from tocha.ir.sym_types import Symbolic
from tocha.operators.derived import formulas, operator_for, refusal, usable, whole_formulas
from tocha.operators.facts import Facts, Scalar
from tocha.operators.interpreter import Interpreter, as_operand, formula_of
from tocha.operators.record import Operator


class Call:
    """An operator's call, as far as its gradients ask for it."""

    def __init__(self, o: Operator, arguments: dict[str, Any], results: Sequence[Any]):
        self.operator, self.arguments, self.results = o, arguments, results


def gradients(it: Interpreter, call: Call, grads: Sequence[Any], wanted: Sequence[str]) -> dict[str, Any]:
    """The gradient of each wanted input, by name, from those of the results; None where nothing flows."""
    o = call.operator
    with it:
        found = _by_functions(_seen(call, grads[0]), call, grads, wanted) if o.seen_gradients and it.watched() else {}
        wanted = [n for n in wanted if n not in found]
        if o.kind == "pointwise":
            found |= {n: _by_formula(it, call, grads, n) for n in wanted}
        elif o.kind == "view" and not o.gradients:
            found |= {n: _through_view(it, call, grads) for n in wanted}
        else:
            found |= _by_functions(o.gradients, call, grads, wanted)
        return {n: fitted(it, g, call.arguments[n]) for n, g in found.items()}


def _seen(call: Call, grad: Any) -> dict:
    """The gradients as PyTorch computes them, without those that would round between their steps."""
    o = call.operator
    if not o.seen_in_steps or grad is None or _is_precise(grad, [call.arguments[n] for n in formula_of(o).operands]):
        return o.seen_gradients
    return {names: f for names, f in o.seen_gradients.items() if names not in o.seen_in_steps}


def fitted(it: Interpreter, grad: Any, like: Any) -> Any:
    """A gradient as that of something of this shape and dtype: summed over what was broadcast, cast, made real."""
    if grad is None:
        return None
    if isinstance(grad, list):
        return [fitted(it, g, x) for g, x in zip(grad, like, strict=True)]
    lead = grad.ndim - like.ndim
    dims = [i for i in range(grad.ndim) if i < lead or _is_broadcast(like.sizes[i - lead], grad.sizes[i])]
    if dims:
        grad = it.apply("sum", (grad, dims, True), {})
    if lead > 0:
        grad = it.apply("view", (grad, like.shape), {})
    if grad.dtype is not like.dtype:
        if grad.dtype.is_complex and not like.dtype.is_complex:
            grad = it.apply("real", (grad,), {})
        if grad.dtype is not like.dtype:
            grad = it.apply("to", (grad, like.dtype), {})
    return grad


def _is_broadcast(n: Any, to: Any) -> bool:
    """Whether a dim of this size became one of that; of symbols it was asked when they met."""
    if isinstance(n, int) or isinstance(to, int):
        return n == 1 and to != 1
    return n is not to and n != to


def _by_functions(functions: dict, call: Call, grads: Sequence[Any], wanted: Sequence[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for names, f in functions.items():
        if not any(n in wanted for n in names):
            continue
        values = f(*(_asked(call, grads, p, names, wanted) for p in f.__code__.co_varnames[: f.__code__.co_argcount]))
        pairs = zip(names, values if len(names) > 1 else (values,), strict=True)
        found |= {n: g for n, g in pairs if n in wanted}
    return found


def _asked(call: Call, grads: Sequence[Any], p: str, names: tuple[str, ...], wanted: Sequence[str]) -> Any:
    """What a gradient function's parameter stands for."""
    if p == "grad":
        return grads[0]
    if p == "grads":
        return list(grads)
    if p == "wanted":
        return [n in wanted for n in names]
    if p in call.arguments:
        return call.arguments[p]
    if p.startswith("grad") and p[4:].isdigit():
        return grads[int(p[4:])]
    return call.results[int(p.removeprefix("result") or 0)]


def _through_view(it: Interpreter, call: Call, grads: Sequence[Any]) -> Any:
    """The gradient written into zeros through the same view."""
    o = call.operator
    base = call.arguments[o.schema.arguments[0].name]
    whole = it.apply("zeros", (base.shape,), {"dtype": base.dtype, "device": base.device})
    parts = it.call(o, {**call.arguments, o.schema.arguments[0].name: whole})
    for part, grad in zip(parts if isinstance(parts, list) else [parts], grads, strict=True):
        if grad is not None:
            it.apply("copy_", (part, grad), {})
    return whole


# ---- derived ones --------------------------------------------------------------------------------


def _by_formula(it: Interpreter, call: Call, grads: Sequence[Any], name: str) -> Any:
    o = call.operator
    f = formula_of(o)
    operands = [call.arguments[n] for n in f.operands]
    is_complex = any(v.dtype.is_complex for v in (*operands, *(g for g in grads if g is not None)))
    real, complex_ = (dt.float64, dt.float32), (dt.complex128, dt.complex64)
    # Where results are complex but the formula's own numbers are not, as polar's, the real one serves.
    t = next((c for c in ((*complex_, *real) if is_complex else real) if usable(o, c)), None)
    found = formulas(o, t) if t is not None else None
    without = o.tags & {"no_gradient", "no_derivative"}
    if found is None and t is not None and not without:  # a truth, written to floats in place
        return it.apply("zeros_like", (grads[0],), {})
    node = found[f.operands.index(name)] if found is not None else None
    if node is None:
        error, text, _ = refusal(o)
        raise error(text)
    params = [call.arguments[a.name] for a in o.schema.arguments if not a.is_tensor]
    if node.op is CONSTANT:  # zero, or a slope that depends on nothing but the gradient's shape
        return it.apply("full_like", (grads[0], node.attr), {})
    on_tensors = FormulaOnTensors(it, grads, operands, call.results, params, _compute_dtype(grads[0], operands, node))
    slope = on_tensors.value(node)
    if slope.number is not None:
        return it.apply("full_like", (grads[0], slope.number), {})
    return _in_precision(it, slope, dt.real_of(grads[0].dtype)) if on_tensors.wide is not None else slope


EXACT = {"abs", "cast", "conjugate", "imag", "make_complex", "maximum", "minimum", "neg", "real", "where"}


def _compute_dtype(grad: Any, operands: Sequence[Any], formula: Node) -> dt.DType | None:
    """The dtype that native kernels compute a formula in, where operators on its parts would round between them: None elsewhere."""
    if _is_precise(grad, operands):
        return None
    steps = [n for n in topological((formula,)) if n.args and n.dtype.is_differentiable and n.op.name not in EXACT]
    return dt.real_of(grad.dtype).compute if len(steps) > 1 else None


def _is_precise(grad: Any, operands: Sequence[Any]) -> bool:
    """Whether operators on a gradient and its operands compute in the dtype that a kernel for all of them would."""
    wide = dt.real_of(grad.dtype).compute
    floats = [v.dtype for v in (grad, *operands) if v.number is None and v.dtype.is_differentiable]
    return all(dt.real_of(t) is wide for t in floats)


def _in_precision(it: Interpreter, v: Any, real: dt.DType) -> Any:
    """The value in this precision, real or complex as it is."""
    wanted = dt.complex_of(real) if v.dtype.is_complex else real
    return v if v.dtype is wanted else it.apply("to", (v, wanted), {})


def is_real_number(n: Any) -> bool:
    return isinstance(n, bool | int | float | Symbolic)


class FormulaOnTensors:
    """A scalar formula carried out with operators."""

    def __init__(
        self,
        it: Interpreter,
        grads: Sequence[Any],
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        params: Sequence[Any],
        wide: dt.DType | None = None,
    ):
        self.it, self.wide = it, wide
        self.leaves = {GRAD: grads, INPUT: inputs, OUTPUT: outputs, PARAM: params}
        self.known: dict[Node, Any] = {}

    def value(self, n: Node) -> Any:
        if n not in self.known:
            self.known[n] = self.compute(n)
        return self.known[n]

    def compute(self, n: Node) -> Any:
        if n.op in self.leaves:
            return self.leaf(self.leaves[n.op][n.attr])  # type: ignore[index]
        if n.op is CONSTANT:
            return as_operand(n.attr)
        if n.op.name == "polygamma":  # its order is an int, not a tensor
            return self.it.apply("polygamma", (self.integer(n.args[0]), self.value(n.args[1])), {})
        if whole := whole_formulas(n.dtype).get(n):
            return self.it.apply(whole.name, (self.leaf(self.leaves[INPUT][0]),), {})
        args = tuple(self.value(a) for a in n.args)
        if args and all(
            type(v.number) in (bool, int, float) for v in args
        ):  # of numbers alone: a number, no operator's call
            return as_operand(n.dtype.convert(n.op.evaluate(n, *(v.number for v in args))))
        if args and all(is_real_number(v.number) for v in args):  # some are known when the program runs
            if n.op.name in self.SYMBOLIC:
                return as_operand(n.op.evaluate(n, *(v.number for v in args)))
            args = (self.it.apply("scalar_tensor", (args[0].number,), {"dtype": n.args[0].dtype}), *args[1:])
        if n.op is conj and type(args[0].number) is complex:
            return as_operand(args[0].number.conjugate())
        if n.op is where and type(args[0].number) is bool:
            return args[1] if args[0].number else args[2]
        if n.op is CAST:
            return self.cast(n, args[0])
        name, keywords = operator_for(n.op.name)
        if name == "imag" and not args[0].dtype.is_complex:  # a real operand of a complex formula
            return self.it.apply("zeros_like", args, {})
        if n.op.name not in self.PROMOTES:
            args = tuple(self.as_complex(a, v) for a, v in zip(n.args, args, strict=True))
        return self.it.apply(name, self.as_computed(n, args), keywords)

    def leaf(self, v: Any) -> Any:
        v = v if isinstance(v, Facts) else as_operand(v)
        is_float = v.number is None and v.dtype.is_differentiable
        return _in_precision(self.it, v, self.wide) if is_float and self.wide is not None else v

    SYMBOLIC = frozenset({"add", "sub", "mul", "neg"})  # what symbols do as numbers do
    # What means the same for a real tensor that stands for complex numbers.
    PROMOTES = frozenset({"add", "sub", "mul", "div", "pow", "conj", "eq", "ne", "where", "real"})

    def as_complex(self, source: Node, value: Any) -> Any:
        """A real input of a formula for complex numbers, such as the base of x ** 1j: its logarithm is a complex one."""
        if source.op is not INPUT or not source.dtype.is_complex or value.number is not None or value.dtype.is_complex:
            return value
        grad = self.leaves[GRAD][0]
        return self.it.apply("to", (value, grad.dtype), {}) if grad.dtype.is_complex else value

    def as_computed(self, n: Node, args: tuple) -> tuple:
        """Operands that are not floats as the formula has them, where the operator would not make the same of them: it computes in
        another dtype if all of them are integers, and does not subtract truths."""
        tensors = [v for v in args if v.number is None]
        mixed = any(v.dtype.is_differentiable for v in tensors) and not any(v.dtype == dt.bool_ for v in tensors)
        if mixed or not n.dtype.is_differentiable or n.op is where or not tensors:
            return args
        return tuple(
            self.in_dtype_of_gradient(v)
            if v.number is None and not v.dtype.is_differentiable and source.dtype.is_differentiable
            else v
            for v, source in zip(args, n.args, strict=True)
        )

    def in_dtype_of_gradient(self, value: Any) -> Any:
        grad = self.leaves[GRAD][0]
        return self.it.apply("to", (value, dt.real_of(grad.dtype) if grad.dtype.is_complex else grad.dtype), {})

    def cast(self, n: Node, value: Any) -> Any:
        source = n.args[0].dtype
        if source.is_complex and not n.dtype.is_complex:
            return self.it.apply("real", (value,), {})
        if not source.is_differentiable:
            return self.in_dtype_of_gradient(value)
        return value  # between floats: promotion does it

    def integer(self, n: Node) -> int:
        """A formula of params and constants as an int."""
        if n.op is CONSTANT:
            return int(n.attr)  # type: ignore[arg-type]
        if n.op is PARAM:
            v = self.leaves[PARAM][n.attr]  # type: ignore[index]
            return v.to_int() if isinstance(v, Scalar) else int(v)
        if n.op is CAST:
            return self.integer(n.args[0])
        a, b = map(self.integer, n.args)
        return a + b if n.op.name == "add" else a - b
