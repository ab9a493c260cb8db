"""Reads operator schemas: "add(Tensor self, Operand other, *, Scalar alpha=1) -> Tensor".

The grammar is PyTorch's, plus `Operand` (a tensor or a Python number). `SymInt` is an int that is a size: rules treat
it as any other, operator handles show it. Used by the records, the build and the compiler.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

# Every type an argument can have, with the C++ type that carries it and how it is passed.
CPP_TYPES = {
    "Tensor": ("Tensor", "const Tensor&"),
    "Operand": ("Tensor", "const Tensor&"),
    "Tensor?": ("Tensor", "const Tensor&"),
    "Tensor[]": ("Tensors", "const Tensors&"),
    "Tensor?[]": ("Tensors", "const Tensors&"),
    "Scalar": ("Scalar", "const Scalar&"),
    "Scalar?": ("std::optional<Scalar>", "const std::optional<Scalar>&"),
    "Scalar[]": ("std::vector<Scalar>", "const std::vector<Scalar>&"),
    "int": ("int64_t", "int64_t"),
    "int?": ("std::optional<int64_t>", "std::optional<int64_t>"),
    "int[]": ("Ints", "IntsView"),
    "int[]?": ("std::optional<Ints>", "const std::optional<Ints>&"),
    "float": ("double", "double"),
    "float?": ("std::optional<double>", "std::optional<double>"),
    "float[]?": ("std::optional<std::vector<double>>", "const std::optional<std::vector<double>>&"),
    "bool": ("bool", "bool"),
    "bool?": ("std::optional<bool>", "std::optional<bool>"),
    "bool[]": ("std::vector<bool>", "const std::vector<bool>&"),
    "str": ("std::string", "const std::string&"),
    "str?": ("std::optional<std::string>", "const std::optional<std::string>&"),
    "dtype": ("DType", "DType"),
    "dtype?": ("std::optional<DType>", "std::optional<DType>"),
    "device": ("Device", "Device"),
    "device?": ("std::optional<Device>", "std::optional<Device>"),
    "layout?": ("bool", "bool"),
    "memory_format?": ("std::optional<MemoryFormat>", "std::optional<MemoryFormat>"),
    "Generator?": ("GeneratorRef", "const GeneratorRef&"),
    "Storage": ("GivenStorage", "const GivenStorage&"),
}
TENSOR_TYPES = ("Tensor", "Operand", "Tensor?", "Tensor[]", "Tensor?[]")


class SchemaError(ValueError):
    """A schema text that does not follow the grammar."""


@dataclass(frozen=True)
class Argument:
    """One argument of a record's schema."""

    name: str
    type: str  # a key of CPP_TYPES
    size: int | None = None  # int[2]: a single int stands for two
    default: str | None = None  # as written; None when the argument is required
    keyword_only: bool = False
    alias: str = (
        ""  # what stands in Tensor(a!): "a" is shared with a result, "a!" written to, "a -> *" cut into several
    )
    symbolic: bool = False  # written SymInt

    @property
    def is_tensor(self) -> bool:
        return self.type in TENSOR_TYPES

    @property
    def cpp_type(self) -> str:
        return CPP_TYPES[self.type][0]

    @property
    def cpp_parameter(self) -> str:
        return CPP_TYPES[self.type][1]


@dataclass(frozen=True)
class Return:
    """One result of it."""

    type: str
    name: str | None = None
    alias: str = ""


class Schema:
    """A schema, whose arguments and results are read when somebody asks: most records of a process are never called."""

    def __init__(self, name: str, overload: str, text: str, arguments: str, returns: str):
        self.name, self.overload, self.text = name, overload, text
        self.full_name = f"{name}.{overload}" if overload else name
        self._written = arguments, returns

    @cached_property
    def arguments(self) -> tuple[Argument, ...]:
        parsed, keyword_only = [], False
        for part in _split(self._written[0]):
            if part == "*":
                keyword_only = True
            else:
                parsed.append(_argument(part, keyword_only))
        return tuple(parsed)

    @cached_property
    def returns(self) -> tuple[Return, ...]:
        return _returns(self._written[1])

    def argument(self, name: str) -> Argument:
        for a in self.arguments:
            if a.name == name:
                return a
        raise KeyError(name)


_HEAD = re.compile(r"^\s*(\w+)(?:\.(\w+))?\s*\((.*)\)\s*->\s*(.+?)\s*$", re.S)
_ARG = re.compile(r"^(\w+)(?:\(([^)]*)\))?(\?)?(\[\d*\])?(\?)?\s+(\w+)(?:\s*=\s*(.+))?$", re.S)

_RETURN = re.compile(r"^(\w+)(?:\(([^)]*)\))?([?\[\]\d]*)(?:\s+(\w+))?$")


def _split(text: str) -> list[str]:
    """Splits at top-level commas."""
    if "(" not in text and "{" not in text and "[" not in text.replace("[]", ""):
        return [p.strip() for p in text.split(",")] if text.strip() else []
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += c in "([{"
        depth -= c in ")]}"
        if c == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    last = text[start:].strip()
    return [*parts, last] if last else parts


def _argument(text: str, keyword_only: bool) -> Argument:
    m = _ARG.match(text)
    if not m:
        raise SchemaError(f"cannot read the argument {text!r}")
    base, alias, inner_optional, brackets, optional, name, default = m.groups()
    kind = "int" if base == "SymInt" else base
    size = None
    if brackets is not None:
        kind += ("?" if inner_optional else "") + "[]" + ("?" if optional else "")
        size = int(brackets[1:-1]) if brackets != "[]" else None
    elif inner_optional or optional:
        kind += "?"
    if kind not in CPP_TYPES:
        raise SchemaError(f"unknown type {kind!r} in {text!r}")
    return Argument(name, kind, size, default, keyword_only, alias or "", base == "SymInt")


def _returns(text: str) -> tuple[Return, ...]:
    text = text.strip()
    if text == "()":
        return ()
    parts = _split(text[1:-1]) if text.startswith("(") else [text]
    out = []
    for p in parts:
        m = _RETURN.match(p)
        if not m:
            raise SchemaError(f"cannot read the result {p!r}")
        base, alias, rest, name = m.groups()
        out.append(Return(("int" if base == "SymInt" else base) + rest, name, alias or ""))
    return tuple(out)


def parse(text: str) -> Schema:
    m = _HEAD.match(text)
    if not m:
        raise SchemaError(f"cannot read the schema {text!r}")
    name, overload, arguments, returns = m.groups()
    return Schema(name, overload or "", text.strip(), arguments, returns)
