"""Translates the small Python that records are written in (shape rules, view rules, composites,
gradients) into C++. Types are inferred forward from the schema; what is outside the subset is refused
with the line it stands on. docs/inside/operators.md describes the subset.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable

from tocha.codegen.translator_types import (
    BINARY,
    DTYPES,
    DUNDER,
    ERRORS,
    NUMBERS,
    RESERVED,
    SCALAR_FACTS,
    TENSOR_ATTRIBUTES,
    TENSOR_FACTS,
    TranslationError,
    Value,
    annotations_of,
    coerce,
    compared,
    cpp_string,
    default_cpp,
    element,
    is_tuple,
    own_type,
    parameter_type,
    return_type,
    tuple_items,
    typed,
    unify,
)
from tocha.operators.record import OPERATORS, Operator
from tocha.operators.resolve import Bound, NoOverload, resolve


class Translator:
    """One function. `call_rule` is told which helper rules it uses, so that they get translated too."""

    def __init__(
        self,
        function: Callable,
        parameters: dict[str, str],
        returns: str,
        use_rule: Callable[[Callable], None],
        finish: Callable[[Value, Operator | None, list[str]], str] | None = None,
    ):
        """With `finish`, what is returned is what it makes of a value: of one that an operator gives, it also gets that
        operator and its arguments."""
        self.function = function = inspect.unwrap(function)
        self.returns = returns
        self.use_rule = use_rule
        self.types: dict[str, str] = dict(parameters)
        self.parameters = set(parameters)
        self.locals: dict[str, str] = {}
        self.copied: list[str] = []  # parameters that the body assigns to
        self.lines: list[str] = []
        self.depth = 1
        self.temporaries = 0
        self.rename: dict[str, str] = {}  # comprehension variables
        self.finish = finish
        self.last_call: tuple[Value, Operator, list[str]] | None = None
        source = textwrap.dedent(inspect.getsource(function))
        tree = ast.parse(source).body[0]
        if not isinstance(tree, ast.FunctionDef):
            raise TranslationError(f"{function.__name__}: only plain functions can be translated")
        self.tree = tree
        self.globals = function.__globals__
        closure = inspect.getclosurevars(function).nonlocals
        if closure:
            self.globals = {**self.globals, **closure}

    # -- statements --------------------------------------------------------------------------------

    def body(self) -> list[str]:
        statements = self.tree.body
        if isinstance(statements[0], ast.Expr) and isinstance(statements[0].value, ast.Constant):
            statements = statements[1:]
        for s in statements:
            self.statement(s)
        declared = [f"  {own_type(self.types[n])} {self.name(n)} = {n}_in;" for n in self.copied]
        declared += [f"  {own_type(t)} {self.name(n)}{{}};" for n, t in self.locals.items()]
        return declared + self.lines

    def signature(self) -> str:
        """The C++ parameters; those the body assigns to are copied in."""
        names = [n for s in self.tree.body for n in ast.walk(s) if isinstance(n, ast.Name)]  # not those of decorators
        assigned = {n.id for n in names if isinstance(n.ctx, ast.Store)}
        self.copied = [n for n in self.types if n in self.parameters and n in assigned]
        return ", ".join(
            f"{parameter_type(self.types[n])} {n + '_in' if n in self.copied else self.name(n)}"
            for n in self.types
            if n in self.parameters
        )

    def emit(self, text: str) -> None:
        self.lines.append("  " * self.depth + text)

    def block(self, statements: list[ast.stmt]) -> None:
        self.depth += 1
        for s in statements:
            self.statement(s)
        self.depth -= 1

    def fail(self, node: ast.AST, why: str) -> TranslationError:
        line = self.function.__code__.co_firstlineno + getattr(node, "lineno", 1) - 1
        return TranslationError(f"{self.function.__module__}.{self.function.__name__}, line {line}: {why}")

    def statement(self, s: ast.stmt) -> None:
        try:
            method = getattr(self, "stmt_" + type(s).__name__, None)
            if method is None:
                raise TranslationError(f"{type(s).__name__} is outside the subset")
            method(s)
        except TranslationError as e:
            if "line " in str(e):
                raise
            raise self.fail(s, str(e)) from None

    def declare(self, name: str, t: str) -> None:
        if name in self.types:
            return
        if t == "[]":
            t = "int[]"
        if t == "none":
            raise TranslationError(f"annotate {name}: its first value is None")
        self.types[name] = t
        self.locals[name] = t

    def assign(self, target: ast.expr, v: Value) -> None:
        if isinstance(target, ast.Name):
            self.declare(target.id, self.storable(v))
            self.emit(f"{self.name(target.id)} = {coerce(v, self.types[target.id])};")
        elif isinstance(target, ast.Tuple):
            if v.items:
                values: list[Value] = []
                for i in v.items:  # evaluate all, then assign
                    t = self.storable(i)
                    n = self.temporary()
                    self.emit(f"{own_type(t)} {n} = {coerce(i, t)};")
                    values.append(Value(n, t))
            else:
                n = self.temporary()
                self.emit(f"auto {n} = {v.code};")
                if is_tuple(v.type):
                    values = [Value(f"std::get<{k}>({n})", t) for k, t in enumerate(tuple_items(v.type))]
                else:
                    values = [Value(f"at({n}, {k})", element(v.type)) for k in range(len(target.elts))]
            for each, value in zip(target.elts, values, strict=True):
                self.assign(each, value)
        elif isinstance(target, ast.Subscript):
            base = self.expr(target.value)
            if not base.type.endswith("[]"):
                raise TranslationError(f"cannot assign into {base.type}")
            index = self.expr(target.slice)
            self.emit(f"at({base.code}, {coerce(index, 'int')}) = {coerce(v, element(base.type))};")
        else:
            raise TranslationError("assignment target outside the subset")

    def storable(self, v: Value) -> str:
        """The type a local gets: displays become lists, numbers stay."""
        if v.type == "Operand":
            return "Tensor"
        if v.items and is_tuple(v.type):
            kinds = {i.type for i in v.items}
            if kinds <= {"int", "bool"}:
                return "int[]"
            if kinds <= {"Tensor", "Operand"}:
                return "Tensor[]"
            if kinds <= {"str"}:
                return "str[]"
        return v.type

    def temporary(self) -> str:
        self.temporaries += 1
        return f"t{self.temporaries}_"

    def name(self, n: str) -> str:
        if n in self.rename:
            return self.rename[n]
        return n + "_" if n in RESERVED else n

    def stmt_Assign(self, s: ast.Assign) -> None:
        v = self.expr(s.value)
        for t in s.targets:
            self.assign(t, v)

    def stmt_AnnAssign(self, s: ast.AnnAssign) -> None:
        assert isinstance(s.target, ast.Name) and isinstance(s.annotation, ast.Constant), "annotations are strings"
        self.declare(s.target.id, str(s.annotation.value))
        if s.value is not None:
            self.emit(f"{self.name(s.target.id)} = {coerce(self.expr(s.value), self.types[s.target.id])};")

    def stmt_AugAssign(self, s: ast.AugAssign) -> None:
        assert isinstance(s.target, ast.Name | ast.Subscript)
        value = ast.BinOp(left=s.target, op=s.op, right=s.value)
        ast.copy_location(value, s)
        self.assign(s.target, self.expr(value))

    def stmt_If(self, s: ast.If) -> None:
        self.emit(f"if ({self.condition(s.test)}) {{")
        self.block(s.body)
        if s.orelse:
            self.emit("} else {")
            self.block(s.orelse)
        self.emit("}")

    def stmt_For(self, s: ast.For) -> None:
        head, targets = self.iteration(s.iter, s.target)
        self.emit(head + " {")
        self.depth += 1
        for target, value in targets:
            self.assign(target, value)
        self.depth -= 1
        self.block(s.body)
        self.emit("}")

    def iteration(self, it: ast.expr, target: ast.expr) -> tuple[str, list[tuple[ast.expr, Value]]]:
        """The C++ loop head, and what the loop's targets are set to inside."""
        i = self.temporary()
        if isinstance(it, ast.Call) and isinstance(it.func, ast.Name):
            f = it.func.id
            if f == "range":
                a = [coerce(self.expr(x), "int") for x in it.args]
                start, stop, step = ("0", a[0], "1") if len(a) == 1 else (a[0], a[1], a[2] if len(a) > 2 else "1")
                going = f"{i} > {stop}" if step.startswith(("-", "(-")) else f"{i} < {stop}"
                return f"for (int64_t {i} = {start}; {going}; {i} += {step})", [(target, Value(i, "int"))]
            if f == "reversed" and isinstance(it.args[0], ast.Call):
                inner = it.args[0]
                stop = coerce(self.expr(inner.args[-1]), "int")
                start = coerce(self.expr(inner.args[0]), "int") if len(inner.args) > 1 else "0"
                return f"for (int64_t {i} = {stop} - 1; {i} >= {start}; --{i})", [(target, Value(i, "int"))]
            if f == "enumerate":
                assert isinstance(target, ast.Tuple)
                seq = self.pinned(it.args[0])
                head = f"for (int64_t {i} = 0; {i} < length({seq.code}); ++{i})"
                item = Value(f"at({seq.code}, {i})", element(seq.type))
                return head, [(target.elts[0], Value(i, "int")), (target.elts[1], item)]
            if f == "zip":
                assert isinstance(target, ast.Tuple)
                seqs = [self.pinned(a) for a in it.args]
                limit = f"std::min<int64_t>({{{', '.join(f'length({q.code})' for q in seqs)}}})"
                head = f"for (int64_t {i} = 0; {i} < {limit}; ++{i})"
                return head, [
                    (t, Value(f"at({q.code}, {i})", element(q.type))) for t, q in zip(target.elts, seqs, strict=True)
                ]
        seq = self.pinned(it)
        head = f"for (int64_t {i} = 0; {i} < length({seq.code}); ++{i})"
        return head, [(target, Value(f"at({seq.code}, {i})", element(seq.type)))]

    def pinned(self, e: ast.expr) -> Value:
        """A list in a variable, so that a loop evaluates it once."""
        v = self.expr(e)
        if v.items:
            t = self.storable(v)
            v = Value(coerce(v, t), t)
        if not v.type.endswith("[]"):
            raise TranslationError(f"cannot iterate over {v.type}")
        if v.code.isidentifier():
            return v
        n = self.temporary()
        self.emit(f"{own_type(v.type)} {n} = {v.code};")
        return Value(n, v.type)

    def stmt_While(self, s: ast.While) -> None:
        self.emit(f"while ({self.condition(s.test)}) {{")
        self.block(s.body)
        self.emit("}")

    def stmt_Return(self, s: ast.Return) -> None:
        if s.value is None:
            self.emit("return;" if self.returns == "none" else f"return {coerce(Value('', 'none'), self.returns)};")
            return
        value = self.expr(s.value)
        if self.finish is None:
            self.emit(f"return {coerce(value, self.returns)};")
        else:
            called = self.last_call if self.last_call and self.last_call[0] is value else (value, None, [])
            self.emit(self.finish(*called))

    def stmt_Raise(self, s: ast.Raise) -> None:
        call = s.exc
        assert isinstance(call, ast.Call) and isinstance(call.func, ast.Name), "raise Error(message)"
        self.emit(f"fail(ErrorKind::{ERRORS[call.func.id]}, {self.expr(call.args[0]).code});")

    def stmt_Expr(self, s: ast.Expr) -> None:
        self.emit(self.expr(s.value).code + ";")

    def stmt_Pass(self, s: ast.Pass) -> None:
        pass

    def stmt_Break(self, s: ast.Break) -> None:
        self.emit("break;")

    def stmt_Continue(self, s: ast.Continue) -> None:
        self.emit("continue;")

    # -- expressions -------------------------------------------------------------------------------

    def condition(self, e: ast.expr) -> str:
        return self.truth(self.expr(e))

    def truth(self, v: Value) -> str:
        if v.type in NUMBERS:
            return v.code
        if v.type.endswith("[]"):
            return f"(length({v.code}) != 0)"
        if v.type == "str":
            return f"!{v.code}.empty()"
        if v.type in ("bool?",):
            return f"{v.code}.value_or(false)"
        raise TranslationError(f"the truth of a {v.type} is not plain")

    def expr(self, e: ast.expr) -> Value:
        method = getattr(self, "expr_" + type(e).__name__, None)
        if method is None:
            raise TranslationError(f"{type(e).__name__} is outside the subset")
        return method(e)

    def constant(self, v: object) -> Value:
        if v is None:
            return Value("nullptr", "none")
        if isinstance(v, bool):
            return Value("true" if v else "false", "bool")
        if isinstance(v, int):
            return Value(f"int64_t{{{v}}}" if abs(v) < 2**63 else f"{v}u", "int")
        if isinstance(v, float):
            if v != v:
                return Value("std::numeric_limits<double>::quiet_NaN()", "float")
            if v in (float("inf"), float("-inf")):
                return Value(("-" if v < 0 else "") + "std::numeric_limits<double>::infinity()", "float")
            return Value(f"double{{{v!r}}}", "float")
        if isinstance(v, str):
            return Value(f"std::string({cpp_string(v)})", "str")
        name = getattr(v, "name", None)
        if type(v).__module__ == "tocha.ir.dtypes" and name in DTYPES:
            return Value(f"DType::{DTYPES[name]}", "dtype")
        if isinstance(v, tuple | list):
            items = [self.constant(x) for x in v]
            return self.display(items)
        raise TranslationError(f"constant {v!r} is outside the subset")

    def display(self, items: list[Value]) -> Value:
        if not items:
            return Value("Ints{}", "[]")
        return Value("", "(" + "|".join(i.type for i in items) + ")", items)

    def expr_Constant(self, e: ast.Constant) -> Value:
        return self.constant(e.value)

    def expr_Name(self, e: ast.Name) -> Value:
        if e.id in self.types:
            return Value(self.name(e.id), self.types[e.id])
        if e.id in self.globals:
            return self.constant(self.globals[e.id])
        raise TranslationError(f"unknown name {e.id}")

    def expr_Tuple(self, e: ast.Tuple) -> Value:
        return self.display([self.expr(x) for x in e.elts])

    def expr_List(self, e: ast.List) -> Value:
        if any(isinstance(x, ast.Starred) for x in e.elts):
            total: Value | None = None
            for x in e.elts:
                part = self.expr(x.value) if isinstance(x, ast.Starred) else self.display([self.expr(x)])
                if part.items:
                    t = self.storable(part)
                    part = Value(coerce(part, t), t)
                total = part if total is None else Value(f"concat({total.code}, {part.code})", part.type)
            assert total is not None
            return total
        return self.expr_Tuple(ast.Tuple(elts=e.elts))

    def expr_IfExp(self, e: ast.IfExp) -> Value:
        a, b = self.present(e.body, e.test, ast.IsNot), self.present(e.orelse, e.test, ast.Is)
        a, b = (Value(coerce(x, self.storable(x)), self.storable(x)) if x.items else x for x in (a, b))
        t = unify(a, b)
        code_a, code_b = coerce(a, t), coerce(b, t)
        if t == "int[]":  # borrowed lists have another C++ type
            code_a, code_b = f"Ints({code_a})", f"Ints({code_b})"
        return Value(f"({self.condition(e.test)} ? {code_a} : {code_b})", t)

    def present(self, branch: ast.expr, test: ast.expr, absent: type[ast.cmpop]) -> Value:
        """A branch's value; `x` itself is no longer optional where the test says that it is there."""
        v = self.expr(branch)
        if (
            v.type.endswith("?")
            and v.type not in ("Tensor?", "Generator?", "layout?")
            and isinstance(test, ast.Compare)
            and isinstance(test.ops[0], absent)
        ):
            right = test.comparators[0]
            if isinstance(right, ast.Constant) and right.value is None and ast.dump(test.left) == ast.dump(branch):
                return Value(f"value_of({v.code})", v.type[:-1])
        return v

    def expr_BoolOp(self, e: ast.BoolOp) -> Value:
        sign = " && " if isinstance(e.op, ast.And) else " || "
        return Value("(" + sign.join(self.condition(v) for v in e.values) + ")", "bool")

    def expr_UnaryOp(self, e: ast.UnaryOp) -> Value:
        if isinstance(e.op, ast.Not):
            return Value(f"(!{self.condition(e.operand)})", "bool")
        v = self.expr(e.operand)
        if v.type in ("Tensor", "Operand", "Tensor?"):
            return self.operator_call(DUNDER[type(e.op)], [v])
        if isinstance(e.op, ast.USub):
            return Value(f"(-{v.code})", v.type)
        raise TranslationError("unary operator outside the subset")

    def operator_call(self, dunder: str, args: list[Value]) -> Value:
        for o in OPERATORS.values():
            if o.operator == dunder:
                return self.op_call(o.name, args, {})
        raise TranslationError(f"no operator has {dunder}")

    def expr_BinOp(self, e: ast.BinOp) -> Value:
        a, b = self.expr(e.left), self.expr(e.right)
        tensors = ("Tensor", "Tensor?", "Operand")
        if a.type in tensors or b.type in tensors:
            if a.type not in tensors:
                a = Value(f"wrapped_number(Scalar({a.code}))", "Tensor")
            return self.operator_call(DUNDER[type(e.op)], [a, b])
        if "[]" in (a.type[-2:], b.type[-2:]) or a.items or b.items:
            return self.list_arithmetic(e.op, a, b)
        if a.type == "str" and isinstance(e.op, ast.Add):
            return Value(f"({a.code} + {b.code})", "str")
        for v in (a, b):
            if v.type.removesuffix("?") not in (*NUMBERS, "Scalar"):
                raise TranslationError(f"{v.type} in arithmetic")
        a, b = (Value(f"value_of({v.code})", v.type[:-1]) if v.type.endswith("?") else v for v in (a, b))
        if "Scalar" in (a.type, b.type):
            a, b = (Value(f"{v.code}.to_double()", "float") if v.type == "Scalar" else v for v in (a, b))
        floating = "float" in (a.type, b.type)
        if isinstance(e.op, ast.Div):
            return Value(f"(static_cast<double>({a.code}) / static_cast<double>({b.code}))", "float")
        if isinstance(e.op, ast.FloorDiv) and not floating:
            return Value(f"floor_div({a.code}, {b.code})", "int")
        if isinstance(e.op, ast.Mod) and not floating:
            return Value(f"floor_mod({a.code}, {b.code})", "int")
        if isinstance(e.op, ast.Pow):
            return Value(f"std::pow({a.code}, {b.code})", "float")
        if type(e.op) in BINARY:
            return Value(f"({a.code} {BINARY[type(e.op)]} {b.code})", "float" if floating else "int")
        raise TranslationError("arithmetic outside the subset")

    def list_arithmetic(self, operation: ast.operator, a: Value, b: Value) -> Value:
        if isinstance(operation, ast.Mult):
            seq, n = (a, b) if (a.items or a.type.endswith("[]")) else (b, a)
            t = self.storable(seq)
            return Value(f"repeat_list({coerce(seq, t)}, {coerce(n, 'int')})", t)
        if isinstance(operation, ast.Add):
            a, b = (Value(coerce(v, self.storable(v)), self.storable(v)) if v.items else v for v in (a, b))
            t = b.type if a.type == "[]" else a.type
            t = "int[]" if t == "[]" else t
            return Value(f"concat({coerce(a, t)}, {coerce(b, t)})", t)
        raise TranslationError("list arithmetic outside the subset")

    def expr_Compare(self, e: ast.Compare) -> Value:
        parts, left = [], e.left
        for operation, right in zip(e.ops, e.comparators, strict=True):
            parts.append(self.compare(operation, left, right))
            left = right
        if len(parts) == 1:
            return parts[0]
        return Value("(" + " && ".join(p.code for p in parts) + ")", "bool")

    def compare(self, operation: ast.cmpop, left: ast.expr, right: ast.expr) -> Value:
        a = self.expr(left)
        if isinstance(operation, ast.Is | ast.IsNot):
            b = self.expr(right)
            if b.type != "none":
                raise TranslationError("`is` compares with None only")
            positive = f"is_none({a.code})"
            return Value(positive if isinstance(operation, ast.Is) else f"!{positive}", "bool")
        if isinstance(operation, ast.In | ast.NotIn):
            b = self.expr(right)
            if b.items:
                code = "(" + " || ".join(f"{a.code} == {coerce(i, a.type)}" for i in b.items) + ")"
            else:
                code = f"contains({b.code}, {coerce(a, element(b.type))})"
            return Value(code if isinstance(operation, ast.In) else f"!{code}", "bool")
        b = self.expr(right)
        if {a.type, b.type} & {"Tensor", "Tensor?", "Operand"}:
            return self.operator_call(DUNDER[type(operation)], [a, b])
        if a.items or b.items or "[]" in (a.type, b.type):
            t = unify(Value("", self.storable(a)), Value("", self.storable(b)))
            a, b = Value(coerce(a, t), t), Value(coerce(b, t), t)
        return compared(operation, a, b)

    def expr_JoinedStr(self, e: ast.JoinedStr) -> Value:
        parts = []
        for v in e.values:
            if isinstance(v, ast.Constant):
                parts.append(cpp_string(str(v.value)))
            else:
                assert isinstance(v, ast.FormattedValue)
                inner = self.expr(v.value)
                if inner.items:
                    t = self.storable(inner)
                    inner = Value(coerce(inner, t), t)
                parts.append(f"shown({inner.code})")
        return Value(f"str({', '.join(parts)})", "str")

    def expr_Subscript(self, e: ast.Subscript) -> Value:
        v = self.expr(e.value)
        if v.type in ("Tensor", "Operand"):
            raise TranslationError("index tensors through operators (select, narrow, index_select)")
        if isinstance(e.slice, ast.Slice):

            def bound(x: ast.expr | None) -> str:
                return "std::nullopt" if x is None else f"std::optional<int64_t>({coerce(self.expr(x), 'int')})"

            if e.slice.step is not None:
                if isinstance(e.slice.step, ast.UnaryOp) and e.slice.lower is None and e.slice.upper is None:
                    return Value(f"reversed_list({v.code})", v.type)
                raise TranslationError("slice steps other than [::-1]")
            return Value(f"slice_list({v.code}, {bound(e.slice.lower)}, {bound(e.slice.upper)})", v.type)
        at = e.slice.value if isinstance(e.slice, ast.Constant) else None
        if v.items and isinstance(at, int):
            return v.items[at]
        if is_tuple(v.type):
            assert isinstance(at, int), "a tuple is indexed by a number"
            return Value(f"std::get<{at}>({v.code})", tuple_items(v.type)[at])
        if v.type.endswith("?") and v.type[:-1].endswith("[]") and v.type != "Tensor?[]":
            v = Value(f"value_of({v.code})", v.type[:-1])
        if not v.type.endswith("[]"):
            raise TranslationError(f"cannot index {v.type}")
        return Value(f"at({v.code}, {coerce(self.expr(e.slice), 'int')})", element(v.type))

    def expr_Attribute(self, e: ast.Attribute) -> Value:
        if isinstance(e.value, ast.Name) and e.value.id not in self.types and e.value.id in self.globals:
            return self.constant(getattr(self.globals[e.value.id], e.attr))
        v = self.expr(e.value)
        if v.type in ("Tensor", "Operand", "Tensor?"):
            if e.attr in TENSOR_ATTRIBUTES:
                t, template = TENSOR_ATTRIBUTES[e.attr]
                return Value(template.format(v.code), t)
            return self.op_call(e.attr, [v], {})
        if v.type == "dtype?":
            v = Value(f"value_of({v.code})", "dtype")
        if v.type == "dtype" and e.attr in ("is_complex", "is_floating_point", "itemsize"):
            code = {"is_complex": "is_complex({})", "is_floating_point": "is_floating({})", "itemsize": "itemsize({})"}[
                e.attr
            ]
            return Value(code.format(v.code), "int" if e.attr == "itemsize" else "bool")
        raise TranslationError(f"attribute {e.attr} of {v.type}")

    def comprehension(self, e: ast.ListComp | ast.GeneratorExp) -> tuple[str, Value, list[str]]:
        """Loop head, element value and extra guard lines; names are scoped to the loop."""
        assert len(e.generators) == 1
        g = e.generators[0]
        saved = dict(self.types)
        head, targets = self.iteration(g.iter, g.target)
        lines = []
        for target, value in targets:
            assert isinstance(target, ast.Name)
            fresh = f"{self.name(target.id)}_{self.temporary()}"
            lines.append(f"auto {fresh} = {value.code};")
            self.types[target.id] = value.type
            self.rename[target.id] = fresh
        guards = [f"if (!({self.condition(c)})) continue;" for c in g.ifs]
        v = self.expr(e.elt)
        if v.items:
            t = self.storable(v)
            v = Value(coerce(v, t), t)
        for target, _ in targets:
            assert isinstance(target, ast.Name)
            del self.rename[target.id]
        self.types = saved
        return head, v, lines + guards

    def expr_ListComp(self, e: ast.ListComp) -> Value:
        head, v, lines = self.comprehension(e)
        t = {"Operand": "Tensor[]"}.get(v.type, v.type + "[]")
        made = self.temporary()
        return Value(
            f"([&] {{ {own_type(t)} {made}; {head} {{ {' '.join(lines)} {made}.push_back({v.code}); }} return {made}; }}())",
            t,
        )

    def expr_GeneratorExp(self, e: ast.GeneratorExp) -> Value:
        return self.expr_ListComp(ast.ListComp(elt=e.elt, generators=e.generators))

    # -- calls -------------------------------------------------------------------------------------

    def expr_Call(self, e: ast.Call) -> Value:
        f = e.func
        if isinstance(f, ast.Attribute):
            return self.attribute_call(e, f)
        assert isinstance(f, ast.Name)
        if f.id in ("any", "all") and isinstance(e.args[0], ast.GeneratorExp):
            head, v, lines = self.comprehension(e.args[0])
            hit, end = ("true", "false") if f.id == "any" else ("false", "true")
            test = self.truth(v) if f.id == "any" else f"!({self.truth(v)})"
            return Value(
                f"([&] {{ {head} {{ {' '.join(lines)} if ({test}) return {hit}; }} return {end}; }}())", "bool"
            )
        args = [self.expr(a) for a in e.args if not isinstance(a, ast.Starred)]
        builtin = getattr(self, "builtin_" + f.id, None)
        if builtin is not None and f.id not in self.globals:
            return builtin(args)
        target = self.globals.get(f.id)
        kwargs = {k.arg: self.expr(k.value) for k in e.keywords if k.arg}
        if isinstance(target, Operator):
            return self.op_call(target.name, args, kwargs)
        if callable(target) and (getattr(target, "_tocha_rule", False) or getattr(target, "_tocha_intrinsic", None)):
            return self.rule_call(target, args, kwargs)
        if f.id == "View":
            return self.view_spec(args, kwargs)
        if f.id == "Out":
            return self.out_spec(args, kwargs)
        raise TranslationError(f"call of {f.id} is outside the subset")

    def pass_arg(self, v: Value, t: str) -> str:
        return coerce(v, t)

    def view_spec(self, args: list[Value], kwargs: dict[str, Value]) -> Value:
        given = dict(zip(("sizes", "strides", "offset", "dtype"), args, strict=False)) | kwargs
        types = {"sizes": "int[]", "strides": "int[]", "offset": "int", "dtype": "dtype?"}
        return Value(f"ViewSpec{{{', '.join(coerce(given[n], t) for n, t in types.items() if n in given)}}}", "View")

    def out_spec(self, args: list[Value], kwargs: dict[str, Value]) -> Value:
        given = dict(zip(("sizes", "dtype", "device", "strides"), args, strict=False)) | kwargs
        code = f"OutSpec{{{coerce(given['sizes'], 'int[]')}, {coerce(given['dtype'], 'dtype')}"
        code += f", {coerce(given.get('device', Value('nullptr', 'none')), 'device?')}"
        code += f", {coerce(given.get('strides', Value('nullptr', 'none')), 'int[]?')}}}"
        return Value(code, "Out")

    def attribute_call(self, e: ast.Call, f: ast.Attribute) -> Value:
        args = [self.expr(a) for a in e.args]
        kwargs = {k.arg: self.expr(k.value) for k in e.keywords if k.arg}
        if isinstance(f.value, ast.Name) and f.value.id not in self.types:
            if f.value.id == "op":
                return self.op_call(f.attr, args, kwargs)
            if f.value.id == "math":
                return self.math_call(f.attr, args)
        v = self.expr(f.value)
        if v.type in ("Tensor", "Operand", "Tensor?"):
            if f.attr in TENSOR_FACTS and len(TENSOR_FACTS[f.attr][0]) == len(args):
                types, result, template = TENSOR_FACTS[f.attr]
                return Value(template.format(v.code, *(coerce(a, t) for a, t in zip(args, types, strict=True))), result)
            return self.op_call(f.attr, [v, *args], kwargs)
        if v.type.endswith("[]") and f.attr in (
            "append",
            "pop",
            "insert",
            "index",
            "count",
            "extend",
            "copy",
            "reverse",
        ):
            if f.attr == "append":
                return Value(f"{v.code}.push_back({coerce(args[0], element(v.type))})", "none")
            if f.attr == "extend":
                return Value(f"{v.code} = concat({v.code}, {coerce(args[0], v.type)})", "none")
            if f.attr == "insert":
                return Value(
                    f"insert_at({v.code}, {coerce(args[0], 'int')}, {coerce(args[1], element(v.type))})", "none"
                )
            if f.attr == "pop":
                return Value(f"pop_at({v.code}, {coerce(args[0], 'int') if args else '-1'})", element(v.type))
            if f.attr == "index":
                return Value(f"index_of({v.code}, {coerce(args[0], element(v.type))})", "int")
        if v.type == "Scalar" and f.attr in SCALAR_FACTS:
            return Value(f"{v.code}.{f.attr}()", SCALAR_FACTS[f.attr])
        if v.type == "str" and f.attr in ("replace", "split", "find", "strip", "count"):
            code = f"str_{f.attr}({', '.join([v.code, *(coerce(a, 'str') for a in args)])})"
            return Value(code, {"split": "str[]", "find": "int", "count": "int"}.get(f.attr, "str"))
        raise TranslationError(f"method {f.attr} of {v.type}")

    def math_call(self, name: str, args: list[Value]) -> Value:
        if name in ("sqrt", "log", "exp", "floor", "ceil", "pow", "isnan", "isinf"):
            t = {"isnan": "bool", "isinf": "bool", "floor": "int", "ceil": "int"}.get(name, "float")
            code = f"std::{name}({', '.join(coerce(a, 'float') for a in args)})"
            return Value(f"static_cast<int64_t>({code})" if t == "int" else code, t)
        raise TranslationError(f"math.{name}")

    def rule_call(self, target: Callable, args: list[Value], kwargs: dict[str, Value]) -> Value:
        hints = annotations_of(target)
        returns = hints.pop("return")
        names = list(inspect.signature(target).parameters)
        defaults = inspect.signature(target).parameters
        given = dict(zip(names, args, strict=False)) | kwargs
        codes = []
        for n in names:
            v = given.get(n)
            if v is None:
                v = self.constant(defaults[n].default)
            codes.append(coerce(v, hints[n]))
        cpp = getattr(target, "_tocha_intrinsic", None)
        if cpp is None:
            self.use_rule(target)
            cpp = f"rules::{target.__name__}"
        return Value(f"{cpp}({', '.join(codes)})", returns)

    def op_call(self, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        try:
            found = resolve(name, [typed(v) for v in args], {k: typed(v) for k, v in kwargs.items()}, self.function)
        except NoOverload as e:
            raise TranslationError(str(e)) from None
        codes = [self.argument(b, args, kwargs) for b in found.arguments]
        value = Value(
            f"ops::{found.operator.cpp_name}{'_' if found.inplace else ''}({', '.join(codes)})",
            return_type(found.operator),
        )
        if not found.inplace:
            self.last_call = value, found.operator, codes
        return value

    def argument(self, b: Bound, args: list[Value], kwargs: dict[str, Value]) -> str:
        """C++ for an operator's argument."""
        a = b.argument
        if b.source is None:
            return default_cpp(a)
        if b.loose:
            assert isinstance(b.source, int)
            return coerce(self.display(args[b.source :]), a.type)
        v = args[b.source] if isinstance(b.source, int) else kwargs[b.source]
        return f"Ints({a.size}, {v.code})" if a.type == "int[]" and a.size and v.type == "int" else coerce(v, a.type)

    # -- builtins ----------------------------------------------------------------------------------

    def builtin_len(self, a: list[Value]) -> Value:
        if a[0].items:
            return Value(str(len(a[0].items)), "int")
        if a[0].type.endswith("[]?"):
            return Value(f"length(value_of({a[0].code}))", "int")
        return Value(f"length({a[0].code})", "int")

    def builtin_min(self, a: list[Value]) -> Value:
        return self.extreme("min", a)

    def builtin_max(self, a: list[Value]) -> Value:
        return self.extreme("max", a)

    def extreme(self, which: str, a: list[Value]) -> Value:
        if len(a) == 1:
            return Value(f"{which}_of({a[0].code})", element(a[0].type))
        t = "float" if any(x.type == "float" for x in a) else "int"
        code = coerce(a[0], t)
        for x in a[1:]:
            code = f"std::{which}<{own_type(t)}>({code}, {coerce(x, t)})"
        return Value(code, t)

    def builtin_abs(self, a: list[Value]) -> Value:
        return Value(f"std::abs({a[0].code})", a[0].type)

    def builtin_int(self, a: list[Value]) -> Value:
        return Value(coerce(a[0], "int"), "int")

    def builtin_float(self, a: list[Value]) -> Value:
        if isinstance(a[0], Value) and a[0].type == "str":
            return self.constant(float(a[0].code.split('"')[1]))
        return Value(coerce(a[0], "float"), "float")

    def builtin_bool(self, a: list[Value]) -> Value:
        return Value(coerce(a[0], "bool"), "bool")

    def builtin_list(self, a: list[Value]) -> Value:
        if not a:
            return Value("Ints{}", "[]")
        t = self.storable(a[0])
        return Value(coerce(a[0], t), t)

    def builtin_tuple(self, a: list[Value]) -> Value:
        return self.builtin_list(a)

    def builtin_sum(self, a: list[Value]) -> Value:
        return Value(f"sum_of({a[0].code})", element(a[0].type))

    def builtin_sorted(self, a: list[Value]) -> Value:
        return Value(f"sorted_list({a[0].code})", a[0].type)

    def builtin_reversed(self, a: list[Value]) -> Value:
        return Value(f"reversed_list({a[0].code})", a[0].type)

    def builtin_range(self, a: list[Value]) -> Value:
        codes = [coerce(x, "int") for x in a]
        return Value(f"range_list({', '.join(codes if len(codes) > 1 else ['0', *codes])})", "int[]")

    def builtin_str(self, a: list[Value]) -> Value:
        return Value(f"str(shown({a[0].code}))", "str")
