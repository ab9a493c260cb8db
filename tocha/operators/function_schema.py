"""Schemas as PyTorch shows them: `aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor`.

`FunctionSchema` is what `OpOverload._schema` is; `parse_schema` reads one from its text. Operator handles make them from
the records (tocha/operators/overloads.py), tocha.library from what a program defines.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from tocha.ir import dtypes as dt
from tocha.ir.layout import MemoryFormat


class SchemaTextError(RuntimeError):
    """A text that is no schema."""


# ---- types ---------------------------------------------------------------------------------------


class Type:
    """The type of an argument. `str(t)` is its Python name: List[int], Optional[Tensor]."""

    def __init__(self, element: Type | None = None):
        self._element = element

    def kind(self) -> str:
        return type(self).__name__

    def getElementType(self) -> Type:
        if self._element is None:
            raise RuntimeError(f"{self} has no element type")
        return self._element

    def containedTypes(self) -> list[Type]:
        return [self._element] if self._element is not None else []

    def isSubtypeOf(self, other: Type) -> bool:
        if isinstance(other, AnyType) or self == other:
            return True
        if isinstance(other, OptionalType):
            inner = other.getElementType()
            return (
                isinstance(self, NoneType)
                or self.isSubtypeOf(inner)
                or (isinstance(self, OptionalType) and self.getElementType().isSubtypeOf(inner))
            )
        return isinstance(other, NumberType) and isinstance(self, IntType | FloatType | ComplexType)

    @property
    def annotation_str(self) -> str:
        return str(self)

    @classmethod
    def get(cls) -> Type:
        return cls()

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._element == other._element  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((type(self).__name__, self._element))

    def __str__(self) -> str:
        return self.python_name

    __repr__ = __str__
    python_name = "Any"


class AnyType(Type):
    python_name = "Any"


class NoneType(Type):
    python_name = "NoneType"


class TensorType(Type):
    python_name = "Tensor"


class IntType(Type):
    python_name = "int"


class SymIntType(Type):
    python_name = "SymInt"


class FloatType(Type):
    python_name = "float"


class ComplexType(Type):
    python_name = "complex"


class BoolType(Type):
    python_name = "bool"


class StringType(Type):
    python_name = "str"


class NumberType(Type):
    python_name = "number"


class ScalarTypeType(Type):
    python_name = "ScalarType"


class LayoutType(Type):
    python_name = "Layout"


class MemoryFormatType(Type):
    python_name = "MemoryFormat"


class DeviceObjType(Type):
    python_name = "Device"


class StorageType(Type):
    python_name = "Storage"


class StreamType(Type):
    python_name = "Stream"


class _GeneratorType(Type):
    python_name = "Generator"

    def kind(self) -> str:
        return "GeneratorType"


class ListType(Type):
    def __str__(self) -> str:
        return f"List[{self._element}]"

    __repr__ = __str__

    @staticmethod
    def ofTensors() -> ListType:
        return ListType(TensorType())

    @staticmethod
    def ofInts() -> ListType:
        return ListType(IntType())


class OptionalType(Type):
    def __str__(self) -> str:
        return f"Optional[{self._element}]"

    __repr__ = __str__

    @staticmethod
    def ofTensor() -> OptionalType:
        return OptionalType(TensorType())


BASES: dict[str, type[Type]] = {
    "Tensor": TensorType, "int": IntType, "SymInt": SymIntType, "float": FloatType, "complex": ComplexType, "bool": BoolType,
    "str": StringType, "Scalar": NumberType, "ScalarType": ScalarTypeType, "Layout": LayoutType, "Device": DeviceObjType,
    "MemoryFormat": MemoryFormatType, "Generator": _GeneratorType, "Storage": StorageType, "Stream": StreamType, "Any": AnyType,
    "NoneType": NoneType,
}  # fmt: skip
# What PyTorch's Argument.type shows: sizes, dtypes, layouts and formats are ints there.
SHOWN_AS_INT = ("SymInt", "ScalarType", "Layout", "MemoryFormat")

_TYPE = re.compile(r"^(\w+)(?:\(([^)]*)\))?(.*)$")


def type_of(text: str, shown: bool) -> Type:
    """The type that a text such as `SymInt[2]?` means; `shown`: as Argument.type has it, else as real_type."""
    m = _TYPE.match(text)
    if m is None or m.group(1) not in BASES:
        raise SchemaTextError(f"unknown type specifier: {text}")
    base, _, rest = m.groups()
    plain = (shown and base in SHOWN_AS_INT) or base == "SymInt"
    t: Type = IntType() if plain else BASES[base]()
    for mark in re.findall(r"\?|\[\d*\]", rest):
        t = OptionalType(t) if mark == "?" else ListType(t)
    return t


# ---- arguments -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class AliasInfo:
    """Which memory an argument or result shares: `(a!)` is ({a}, {a}, written)."""

    before_set: frozenset[str]
    after_set: frozenset[str]
    is_write: bool


def alias_info(text: str) -> AliasInfo | None:
    if not text:
        return None
    before, _, after = (part.strip() for part in text.partition("->"))
    write = "!" in before
    names = frozenset(before.replace("!", "").replace(" ", "").split("|"))
    return AliasInfo(names, frozenset(after.replace(" ", "").split("|")) if after else names, write)


class Required:
    """The default of arguments that have none."""


@dataclass(frozen=True)
class SchemaArgument:
    """One argument or result of a schema."""

    name: str
    text: str  # the type as written, without the annotation of aliasing: "SymInt[2]?"
    alias: str = ""
    default: Any = Required
    kwarg_only: bool = False

    @cached_property
    def type(self) -> Type:
        return type_of(self.text, shown=True)

    @cached_property
    def real_type(self) -> Type:
        return type_of(self.text, shown=False)

    @cached_property
    def alias_info(self) -> AliasInfo | None:
        if "[" in self.text and self.alias:  # of lists PyTorch only says whether they are written to
            return AliasInfo(frozenset(), frozenset(), "!" in self.alias)
        return alias_info(self.alias)

    @property
    def default_value(self) -> Any:
        value = None if self.default is Required else self.default
        return list(value) if isinstance(value, tuple) else value

    def has_default_value(self) -> bool:
        return self.default is not Required

    @property
    def N(self) -> int | None:
        m = re.search(r"\[(\d+)\]", self.text)
        return int(m.group(1)) if m else None

    @property
    def is_write(self) -> bool:
        return "!" in self.alias

    @property
    def is_out(self) -> bool:
        return self.is_write and self.kwarg_only

    @property
    def is_tensor(self) -> bool:
        return self.text.startswith("Tensor")

    def __str__(self) -> str:
        base = re.match(r"\w+", self.text)
        assert base is not None
        kind = f"{base.group()}({self.alias}){self.text[base.end() :]}" if self.alias else self.text
        text = f"{kind} {self.name}" if self.name else kind
        return f"{text}={default_text(self)}" if self.has_default_value() else text


def number_text(value: float) -> str:
    """A float as PyTorch's schemas print it: 2., 1.0000000000000001e-05."""
    text = f"{value:.17g}"
    return text if re.search(r"[.en]", text) else text + "."


def default_text(a: SchemaArgument) -> str:
    value = a.default
    if isinstance(value, bool) or value is None:
        return str(value)
    if isinstance(value, float) or (isinstance(value, int) and a.text.startswith("float") and "[" not in a.text):
        return number_text(float(value))
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, tuple):
        one = a.text.startswith("int[") and (a.N or 0) > 1 and len(set(value)) == 1
        return str(value[0]) if one else "[" + ", ".join(map(element_text, value)) + "]"
    return str(value)


def element_text(value: Any) -> str:
    return number_text(value) if isinstance(value, float) else str(value)


NONE = SchemaArgument("", "NoneType")


# ---- schemas -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FunctionSchema:
    """An operator's name, arguments and results."""

    name: str  # "aten::add"
    overload_name: str
    _arguments: tuple[SchemaArgument, ...]
    _returns: tuple[SchemaArgument, ...]
    _none: bool = False  # "-> None": no results, shown as one of type NoneType
    _text: list[str] = field(default_factory=list, compare=False, hash=False, repr=False)

    @property
    def arguments(self) -> list[SchemaArgument]:
        return list(self._arguments)

    @property
    def returns(self) -> list[SchemaArgument]:
        return [NONE] if self._none else list(self._returns)

    @property
    def is_mutable(self) -> bool:
        return any(a.is_write for a in self._arguments)

    def _is_view_op(self) -> bool:
        return not self.is_mutable and any(r.alias for r in self._returns)

    def is_backward_compatible_with(self, old: FunctionSchema) -> bool:
        """Whether calls that fit the old schema fit this one."""
        mine, theirs = self._arguments, old._arguments
        if (self.name, self.overload_name) != (old.name, old.overload_name) or len(self._returns) != len(old._returns):
            return False
        same = all(m.text == t.text and m.name == t.name for m, t in zip(mine, theirs, strict=False))
        return same and len(mine) >= len(theirs) and all(a.has_default_value() for a in mine[len(theirs) :])

    def __str__(self) -> str:
        if not self._text:
            self._text.append(self._print())
        return self._text[0]

    __repr__ = __str__

    def _print(self) -> str:
        parts: list[str] = []
        for a in self._arguments:
            if a.kwarg_only and "*" not in parts:
                parts.append("*")
            parts.append(str(a))
        returns = [str(r) for r in self.returns]
        name = f"{self.name}.{self.overload_name}" if self.overload_name else self.name
        return f"{name}({', '.join(parts)}) -> {returns[0] if len(returns) == 1 else '(' + ', '.join(returns) + ')'}"


_HEAD = re.compile(r"^\s*((?:\w+::)?\w+)(?:\.(\w+))?\s*\((.*)\)\s*->\s*(.+?)\s*$", re.S)
_ARGUMENT = re.compile(r"^(\w+)(?:\(([^)]*)\))?([?\[\]\d]*)(?:\s+(\w+))?(?:\s*=\s*(.+))?$", re.S)
_NAMED = {"None": None, "True": True, "False": False, "Mean": 1, "Sum": 2, "strided": 0, "contiguous_format": 0}
_FORMATS = {f.value: i for i, f in enumerate(MemoryFormat)}


def split(text: str) -> list[str]:
    """Splits at top-level commas."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += c in "([{"
        depth -= c in ")]}"
        if c == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    last = text[start:].strip()
    return [*parts, last] if last else parts


def read_default(text: str, kind: str) -> Any:
    """The value of a default as written."""
    text = text.strip()
    if kind.startswith("ScalarType") and text not in _NAMED:
        return scalar_type(text)
    if kind.startswith("MemoryFormat") and text in _FORMATS:
        return _FORMATS[text]
    if text in _NAMED:
        return _NAMED[text]
    if text[0] in "'\"":
        return text[1:-1]
    if text[0] == "[":
        return tuple(read_default(t, kind.split("[")[0]) for t in split(text[1:-1]))
    try:
        value: Any = int(text)
    except ValueError:
        value = float(text)
    m = re.search(r"\[(\d+)\]", kind)
    return (value,) * int(m.group(1)) if m else value


def scalar_type(name: str) -> int:
    """PyTorch's number of a dtype, which is what its schemas show."""
    if name.isdigit():
        return int(name)
    return SCALAR_TYPES.index(dt.by_name({"long": "int64", "float": "float32", "bool": "bool"}.get(name, name)))


SCALAR_TYPES = (
    dt.uint8, dt.int8, dt.int16, dt.int32, dt.int64, dt.float16, dt.float32, dt.float64, dt.complex32, dt.complex64, dt.complex128,
    dt.bool_, None, None, None, dt.bfloat16,
)  # fmt: skip


def parse_argument(text: str, kwarg_only: bool = False) -> SchemaArgument:
    m = _ARGUMENT.match(text)
    if m is None or m.group(1) not in BASES:
        raise SchemaTextError(f"unknown type specifier in the argument: {text}")
    base, alias, rest, name, default = m.groups()
    value = Required if default is None else read_default(default, base + rest)
    return SchemaArgument(name or "", base + rest, alias or "", value, kwarg_only)


def parse_arguments(text: str) -> tuple[SchemaArgument, ...]:
    found, kwarg_only = [], False
    for part in split(text):
        if part == "*":
            kwarg_only = True
        else:
            found.append(parse_argument(part, kwarg_only))
    return tuple(found)


def parse_returns(text: str) -> tuple[SchemaArgument, ...]:
    text = text.strip()
    inner = text[1:-1] if text.startswith("(") else text
    return tuple(parse_argument(p) for p in split(inner))


def parse_schema(text: str) -> FunctionSchema:
    """The schema that a text means.

    >>> str(parse_schema("aten::mul.Tensor(Tensor self, Tensor other)->Tensor"))
    'aten::mul.Tensor(Tensor self, Tensor other) -> Tensor'
    """
    m = _HEAD.match(text)
    if m is None:
        raise SchemaTextError(f"expected NAME(ARGUMENTS) -> RETURNS, got: {text}")
    name, overload, arguments, returns = m.groups()
    none = returns.strip("() ") in ("None", "NoneType")
    return FunctionSchema(
        name, overload or "", parse_arguments(arguments), () if none else parse_returns(returns), none
    )


def replaced(arguments: Sequence[SchemaArgument], index: int, new: SchemaArgument) -> tuple[SchemaArgument, ...]:
    return (*arguments[:index], new, *arguments[index + 1 :])
