"""The types of the translated subset and how they stand in C++: names, facts about values, conversions, defaults.

tocha/codegen/translator.py translates with them; the build asks for declarations and defaults.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tocha.ir import dtypes as dt
from tocha.operators.record import Operator
from tocha.operators.schema import CPP_TYPES

OWN = {k: v[0] for k, v in CPP_TYPES.items()} | {
    "View": "ViewSpec",
    "View[]": "std::vector<ViewSpec>",
    "Out": "OutSpec",
    "Out[]": "std::vector<OutSpec>",
    "none": "std::nullptr_t",
    "int[][]": "std::vector<Ints>",
    "str[]": "std::vector<std::string>",
    "float[]": "std::vector<double>",
    "dtype[]": "std::vector<DType>",
}
PARAMETER = {k: v[1] for k, v in CPP_TYPES.items()}
ERRORS = {
    "RuntimeError": "Runtime",
    "ValueError": "Value",
    "TypeError": "Type",
    "IndexError": "Index",
    "NotImplementedError": "NotImplemented",
    "ZeroDivisionError": "ZeroDivision",
}
DTYPES = {d.name: d.cpp_enum for d in dt.DTYPES}
# What a tensor answers without being an operator: (arguments) -> type, C++.
TENSOR_FACTS = {
    "dim": ((), "int", "{0}.dim()"),
    "numel": ((), "int", "{0}.numel()"),
    "size": (("int",), "int", "size_at({0}, {1})"),
    "stride": (("int",), "int", "stride_at({0}, {1})"),
    "storage_offset": ((), "int", "{0}.offset()"),
    "is_contiguous": ((), "bool", "{0}.is_contiguous()"),
    "is_complex": ((), "bool", "{0}.is_complex()"),
    "is_floating_point": ((), "bool", "{0}.is_floating()"),
    "is_conj": ((), "bool", "{0}.is_conj()"),
    "is_neg": ((), "bool", "{0}.is_neg()"),
    "element_size": ((), "int", "{0}.itemsize()"),
}
TENSOR_ATTRIBUTES = {
    "shape": ("int[]", "{0}.sizes()"),
    "strides": ("int[]", "{0}.strides()"),
    "ndim": ("int", "{0}.dim()"),
    "dtype": ("dtype", "{0}.dtype()"),
    "device": ("device", "{0}.device()"),
    "is_meta": ("bool", "{0}.is_meta()"),
    "is_wrapped_number": ("bool", "{0}.is_wrapped_number()"),
}
SCALAR_FACTS = {
    "is_complex": "bool", "is_floating": "bool", "is_integral": "bool", "is_boolean": "bool", "to_double": "float",
    "to_int": "int", "to_bool": "bool",
}  # fmt: skip
BINARY = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.LShift: "<<",
    ast.RShift: ">>",
}
COMPARE = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
DUNDER = {
    ast.Add: "__add__", ast.Sub: "__sub__", ast.Mult: "__mul__", ast.Div: "__truediv__", ast.FloorDiv: "__floordiv__",
    ast.Mod: "__mod__", ast.Pow: "__pow__", ast.MatMult: "__matmul__", ast.BitAnd: "__and__", ast.BitOr: "__or__",
    ast.BitXor: "__xor__", ast.LShift: "__lshift__", ast.RShift: "__rshift__", ast.Eq: "__eq__", ast.NotEq: "__ne__",
    ast.Lt: "__lt__", ast.LtE: "__le__", ast.Gt: "__gt__", ast.GtE: "__ge__", ast.USub: "__neg__", ast.Invert: "__invert__",
}  # fmt: skip
NUMBERS = ("int", "float", "bool")
# Names that mean something else in the C++ around a translated body: keywords and the helpers of dispatch/rules.h.
RESERVED = frozenset(
    [
        "default",
        "new",
        "register",
        "int",
        "float",
        "double",
        "auto",
        "this",
        "operator",
        "union",
        "char",
        "short",
        "long",
        "signed",
        "unsigned",
        "const",
        "template",
        "typename",
        "at",
        "length",
        "concat",
        "product",
        "contains",
        "shown",
        "str",
        "fail",
        "ops",
        "rules",
        "native",
        "value_of",
        "is_none",
        "insert_at",
        "pop_at",
        "index_of",
        "sum_of",
        "size_at",
        "stride_at",
    ]
)


class TranslationError(Exception):
    """Something outside the translatable subset."""


@dataclass(eq=False, repr=False)
class Value:
    """C++ that has a value, and its type."""

    code: str
    type: str
    items: list[Value] = field(default_factory=list)  # for tuple displays


def typed(v: Value) -> Any:
    """What the resolver of overloads sees of a value: displays are tuples of types."""
    return tuple(typed(i) for i in v.items) if v.items else v.type


def element(list_type: str) -> str:
    return {"Tensor?[]": "Tensor?", "Outs": "Tensor"}.get(list_type, list_type[:-2])


def cpp_string(s: str) -> str:
    plain = s.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return '"' + "".join(c if c.isprintable() else "".join(f"\\{b:03o}" for b in c.encode()) for c in plain) + '"'


def is_tuple(t: str) -> bool:
    return t.startswith("(")


def tuple_items(t: str) -> list[str]:
    return t[1:-1].split("|")


def own_type(t: str) -> str:
    if is_tuple(t):
        return "std::tuple<" + ", ".join(own_type(x) for x in tuple_items(t)) + ">"
    if t not in OWN:
        raise TranslationError(f"no C++ type for {t!r}")
    return OWN[t]


def return_type(o: Operator) -> str:
    kinds = [r.type for r in o.schema.returns]
    if not kinds:
        return "none"
    return kinds[0] if len(kinds) == 1 else "(" + "|".join(kinds) + ")"


def coerce(v: Value, to: str) -> str:
    """C++ for v as a value of type `to`."""
    if v.type == to and not v.items:
        return v.code
    base = to.removesuffix("?")
    if v.type == "none":
        if to in ("Tensor?", "Tensor"):
            return "Tensor()"
        if to.endswith("?"):
            return "std::nullopt" if to != "Generator?" else "GeneratorRef()"
        raise TranslationError(f"None where {to} is wanted")
    if {v.type, to} <= {"Tensor", "Tensor?", "Operand"}:
        return v.code
    if to == "Operand" and v.type in ("int", "float", "bool", "Scalar"):
        return f"wrapped_number(Scalar({v.code}))"
    if to == "Operand" and v.type in ("int?", "float?", "bool?", "Scalar?"):
        return f"wrapped_number(Scalar(value_of({v.code})))"
    if to == "Tensor" and v.type in ("int", "float", "bool", "Scalar"):
        return f"wrapped_number(Scalar({v.code}))"
    if v.type == "int[]" and to == "int[]?":
        return f"std::optional<Ints>(Ints({v.code}))"
    if v.type == base and to.endswith("?"):
        return f"std::optional<{own_type(base)}>({v.code})" if base not in ("Tensor", "Generator", "layout") else v.code
    if v.type.endswith("?") and v.type[:-1] == to:
        return f"value_of({v.code})"
    if v.type in ("int", "float", "bool") and to in ("Scalar", "Scalar?"):
        return f"Scalar({v.code})"
    if v.type in ("int?", "float?") and to == "Scalar":
        return f"Scalar(value_of({v.code}))"
    if v.type in NUMBERS and to in ("int", "float", "bool"):
        return {"int": "static_cast<int64_t>", "float": "static_cast<double>", "bool": "static_cast<bool>"}[
            to
        ] + f"({v.code})"
    if v.type in NUMBERS and to in ("int?", "float?"):
        return f"std::optional<{own_type(base)}>({v.code})"
    if v.type == "Scalar" and to in NUMBERS:
        return {"int": f"{v.code}.to_int()", "float": f"{v.code}.to_double()", "bool": f"{v.code}.to_bool()"}[to]
    if v.type == "Scalar?" and to in NUMBERS:
        return coerce(Value(f"value_of({v.code})", "Scalar"), to)
    if v.items and to.endswith("[]") and is_tuple(v.type):
        inner = ", ".join(coerce(i, element(to)) for i in v.items)
        return f"{own_type(to)}{{{inner}}}"
    if v.items and to in ("int[]?", "float[]?"):
        inner = ", ".join(coerce(i, element(base)) for i in v.items)
        return f"std::optional<{own_type(base)}>({own_type(base)}{{{inner}}})"
    if v.type == "int" and to == "int[]":
        return f"Ints{{{v.code}}}"
    if v.type == "int" and to == "int[]?":
        return f"std::optional<Ints>(Ints{{{v.code}}})"
    if v.type == "[]" and to.endswith(("[]", "[]?")):
        return f"{own_type(to.removesuffix('?'))}{{}}"
    if v.type == "Tensor[]" and to == "Tensor?[]":
        return v.code
    if is_tuple(v.type) and is_tuple(to) and v.items:
        return f"{own_type(to)}{{{', '.join(coerce(i, t) for i, t in zip(v.items, tuple_items(to), strict=True))}}}"
    raise TranslationError(f"cannot turn {v.type} ({v.code}) into {to}")


def compared(operation: ast.cmpop, a: Value, b: Value) -> Value:
    """Two numbers, names or dtypes. A Scalar may be complex: then it equals no real number, and is in no order."""
    equal, sign = isinstance(operation, ast.Eq), COMPARE[type(operation)]
    if "Scalar" in (a.type, b.type) and a.type != b.type and (equal or isinstance(operation, ast.NotEq)):
        scalar, number = (a, b) if a.type == "Scalar" else (b, a)
        return Value(f"{'' if equal else '!'}{scalar.code}.equals({coerce(number, 'float')})", "bool")
    a, b = (Value(coerce(v, "float"), "float") if v.type == "Scalar" else v for v in (a, b))
    if a.type.endswith("?") and a.type[:-1] in (*NUMBERS, "str", "dtype") and b.type == a.type[:-1] and not equal:
        a = Value(f"value_of({a.code})", b.type)
    return Value(f"({a.code} {sign} {b.code})", "bool")


def unify(a: Value, b: Value) -> str:
    if a.type == b.type:
        return a.type
    types = {a.type, b.type}
    if "none" in types:
        other = (types - {"none"}).pop()
        return other if other.endswith("?") else other + "?"
    if types <= {"Tensor", "Tensor?", "Operand"}:
        return "Tensor?" if "Tensor?" in types else "Tensor"
    if types <= {"int", "bool"}:
        return "int"
    if types <= {"int", "float", "bool"}:
        return "float"
    if types <= {"int", "float", "bool", "Scalar"}:
        return "Scalar"
    for t in types:
        if t.endswith("?") and t[:-1] in types:
            return t
    if "[]" in types:
        return (types - {"[]"}).pop()
    for t in types:
        if t.endswith("[]"):
            return t
    raise TranslationError(f"no common type for {a.type} and {b.type}")


def annotations_of(f: Callable) -> dict[str, str]:
    """A rule's types; quoted annotations under `from __future__ import annotations` are quoted twice."""
    return {k: v.strip("\"'") for k, v in f.__annotations__.items()}


def default_cpp(a) -> str:
    """C++ for a schema default."""
    text = a.default
    if text == "None":
        if a.type in ("Tensor?", "Tensor"):
            return "Tensor()"
        if a.type == "Generator?":
            return "GeneratorRef()"
        return "false" if a.type == "layout?" else "std::nullopt"
    if a.type in ("Scalar", "Scalar?"):
        return f"Scalar({_number(text)})"
    if a.type == "Operand":
        return f"wrapped_number(Scalar({_number(text)}))"
    if a.type in ("int", "int?"):
        return text if text.lstrip("-").isdigit() else str(int(text))
    if a.type in ("float", "float?"):
        return f"double{{{text}}}" if "inf" not in text else "std::numeric_limits<double>::infinity()"
    if a.type in ("bool", "bool?"):
        return text.lower()
    if a.type in ("int[]", "int[]?"):
        if text.startswith("["):
            inner = text[1:-1]
            return f"Ints{{{inner}}}" if a.type == "int[]" else f"std::optional<Ints>(Ints{{{inner}}})"
        return f"Ints({a.size}, {text})" if a.type == "int[]" else f"std::optional<Ints>(Ints({a.size}, {text}))"
    if a.type in ("str", "str?"):
        return f"std::string({cpp_string(text.strip(chr(34) + chr(39)))})"
    if a.type in ("dtype", "dtype?"):
        return f"DType::{DTYPES[text]}"
    if a.type == "memory_format?":
        return {"contiguous_format": "MemoryFormat::Contiguous", "preserve_format": "MemoryFormat::Preserve"}[text]
    raise TranslationError(f"default {text!r} for {a.type}")


def _number(text: str) -> str:
    if text in ("True", "False"):
        return text.lower()
    if text in ("inf", "-inf"):
        return ("-" if text[0] == "-" else "") + "std::numeric_limits<double>::infinity()"
    return f"int64_t{{{text}}}" if text.lstrip("-").isdigit() else f"double{{{text}}}"


def parameter_type(t: str) -> str:
    return PARAMETER.get(t, f"const {own_type(t)}&")
