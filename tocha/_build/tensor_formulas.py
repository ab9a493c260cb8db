"""Scalar formulas as calls of operators on tensors: for gradients of gradients, and for complex numbers."""

from __future__ import annotations

from tocha.codegen.translator import Translator
from tocha.codegen.translator_types import Value
from tocha.ir import dtypes as dt
from tocha.ir.node import CONSTANT, GRAD, INPUT, OUTPUT, PARAM, Node
from tocha.ir.select import CAST
from tocha.operators.derived import gradient_as_operator, is_number, operator_for, whole_formulas
from tocha.operators.record import Operator


def _blank():
    pass


class TensorFormula:
    """Prints scalar formulas as calls of operators on tensors."""

    def __init__(self) -> None:
        self.translator = Translator(_blank, {}, "none", lambda f: None)
        self.lines: list[str] = []
        self.names: dict[Node, str] = {}

    def name(self, n: Node) -> str:
        if n in self.names:
            return self.names[n]
        self.names[n] = text = self.text(n)
        if n.args:
            self.names[n] = f"v{len(self.lines)}"
            self.lines.append(f"Tensor {self.names[n]} = {text};")
        return self.names[n]

    # What means the same for a real tensor that stands for complex numbers.
    PROMOTES = frozenset({"add", "sub", "mul", "div", "pow", "conj", "eq", "ne", "where"})

    def operand(self, n: Node, a: Node) -> str:
        """In a formula for complex numbers an input may be real all the same: 1j ** x. Its logarithm is a complex one, of the
        gradient's precision."""
        name = self.name(a)
        if a.op is not INPUT or not a.dtype.is_complex or n.op.name in self.PROMOTES:
            return name
        precise = f"ops::to_dtype({name}, g[0].dtype(), false, false, std::nullopt)"
        return f"(g[0].is_complex() ? {precise} : autograd::as_complex({name}))"

    def text(self, n: Node) -> str:
        if n.op is GRAD:
            return f"g[{n.attr}]"
        if n.op is INPUT:
            return f"x[{n.attr}]"
        if n.op is OUTPUT:
            return f"y[{n.attr}]"
        if n.op is PARAM:
            return f"wrapped_number(p[{n.attr}])"
        if n.op is CONSTANT:
            return f"wrapped_number(Scalar({number(n)}))"
        if n.op.name == "polygamma":  # its order is an int, not a tensor
            return self.translator.op_call("polygamma", [Value(integer(n.args[0]), "int"), Value(self.name(n.args[1]), "Tensor")], {}).code
        if whole := whole_formulas(n.dtype).get(n):
            return self.translator.op_call(whole.name, [Value("x[0]", "Tensor")], {}).code
        if found := gradient_as_operator(n):
            return self.operator_text(*found)
        if is_number(n):
            return f"computed_number([&] {{ return {self.number_text(n)}; }})"
        args = [Value(self.operand(n, a), "Tensor") for a in n.args]
        if n.op is CAST:
            source = n.args[0].dtype
            if source.is_complex and not n.dtype.is_complex:
                return f"ops::real({args[0].code})"
            if source is dt.bool_ or not source.is_differentiable:
                return f"ops::to_dtype({args[0].code}, real_dtype(g[0].dtype()), false, false, std::nullopt)"
            return args[0].code  # between floats: promotion does it
        return self.call(n, args)

    def number_text(self, n: Node) -> str:
        """A formula of params and constants, in double precision: numbers alone would promote to the default dtype."""
        if n.op is PARAM:
            return f"exact_number(p[{n.attr}])"
        if n.op is CONSTANT:
            return f"exact_number(Scalar({number(n)}))"
        args = [Value(self.number_text(a), "Tensor") for a in n.args]
        return args[0].code if n.op is CAST else self.call(n, args)

    def operator_text(self, o: Operator, leaves: list[Node]) -> str:
        """A call with these tensors, and with the parameters at hand."""
        given = [Value(self.name(leaf), "Tensor") for leaf in leaves]
        for i, a in enumerate(a for a in o.schema.arguments if not a.is_tensor):
            given.append(Value(f"p[{i}].to_double()", "float") if a.type == "float" else Value(f"p[{i}]", "Scalar"))
        return self.translator.op_call(o.name, given, {}).code

    def call(self, n: Node, args: list[Value]) -> str:
        name, keywords = operator_for(n.op.name)
        given = {k: Value(f'std::string("{v}")', "str") for k, v in keywords.items()}
        return self.translator.op_call(name, args, given).code


def integer(n: Node) -> str:
    """A formula of params and constants as a C++ integer."""
    if n.op is CONSTANT:
        assert isinstance(n.attr, int | float)
        return str(int(n.attr))
    if n.op is PARAM:
        return f"p[{n.attr}].to_int()"
    if n.op is CAST:
        return integer(n.args[0])
    return "(" + {"add": "{} + {}", "sub": "{} - {}"}[n.op.name].format(*map(integer, n.args)) + ")"


def number(n: Node) -> str:
    v = n.attr
    if isinstance(v, bool):
        return str(v).lower()
    if isinstance(v, complex):
        return f"Complex<double>{{{_real(v.real)}, {_real(v.imag)}}}"
    if isinstance(v, int):
        return f"int64_t{{{v}}}"
    assert v is not None
    return _real(v)


def _real(v: float) -> str:
    if v != v:
        return "std::numeric_limits<double>::quiet_NaN()"
    if v in (float("inf"), float("-inf")):
        return ("-" if v < 0 else "") + "std::numeric_limits<double>::infinity()"
    return f"double{{{v!r}}}"


__all__ = ["TensorFormula"]
