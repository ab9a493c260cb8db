"""Tensors without elements, and the numbers that stand beside them when a record's Python text is run as it is.

`Facts` knows what can be known without computing: sizes, strides, offset, dtype, device, conj and neg bits, whether a
gradient flows, whose memory it is. Sizes may be symbols. Methods and operators on it are calls of records, which the
interpreter (tocha.operators.interpreter) takes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from tocha.ir import layout
from tocha.ir.devices import CPU, Device
from tocha.ir.dtypes import DType
from tocha.ir.layout import MemoryFormat
from tocha.ir.shape_env import GuardOnDataDependentSymNode
from tocha.ir.sym_types import Symbolic, SymBool, SymFloat, SymInt

_numbers = itertools.count()


class Memory:
    """The identity of a storage: tensors that share it are views of one another. Counts writes."""

    __slots__ = ("counted", "known_at", "nbytes", "number", "storage", "version")

    def __init__(self, nbytes: Any = None) -> None:
        self.number = next(_numbers)
        self.nbytes = nbytes
        self.storage: Any = None  # what stands for it where readers show it (tocha/_subclasses)
        self.version = 0
        self.counted = 0  # the writes that tensors show in their versions
        self.known_at = -1  # the version of which a reader knows the elements


class Facts:
    """What is known of a tensor without its elements."""

    __slots__ = (
        "_contiguous",
        "base",
        "conjugated",
        "device",
        "dtype",
        "is_plain",
        "memory",
        "negated",
        "number",
        "offset",
        "requires_grad",
        "sizes",
        "steps",
    )

    def __init__(
        self,
        sizes: Sequence[Any],
        dtype: DType,
        device: Device = CPU,
        strides: Sequence[Any] | None = None,
        offset: Any = 0,
        memory: Memory | None = None,
        conjugated: bool = False,
        negated: bool = False,
        requires_grad: bool = False,
        base: Facts | None = None,
        number: Any = None,
    ):
        self.sizes = tuple(sizes)
        self.is_plain = strides is None  # its strides are those of a new contiguous tensor, not only as good as these
        self._contiguous: bool | None = True if strides is None else None
        self.steps = tuple(layout.contiguous_strides(self.sizes) if strides is None else strides)
        self.offset, self.dtype, self.device = offset, dtype, device
        self.memory = memory if memory is not None else Memory()
        self.conjugated, self.negated, self.requires_grad, self.base = conjugated, negated, requires_grad, base
        self.number = number  # the Python number that a 0-d operand is

    # -- what rules ask; lists, as they are in C++, and fresh ones, since rules may write into theirs

    @property
    def shape(self) -> list[Any]:
        return list(self.sizes)

    @property
    def strides(self) -> list[Any]:
        return list(self.steps)

    @property
    def ndim(self) -> int:
        return len(self.sizes)

    @property
    def is_meta(self) -> bool:
        return self.device.type == "meta"

    @property
    def is_wrapped_number(self) -> bool:
        return self.number is not None

    def dim(self) -> int:
        return len(self.sizes)

    def numel(self) -> Any:
        return layout.product(self.sizes)

    def size(self, dim: int) -> Any:
        return self.sizes[self._at(dim)]

    def stride(self, dim: int) -> Any:
        return self.steps[self._at(dim)]

    def _at(self, dim: int) -> int:
        n = len(self.sizes)
        if n == 0:
            raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
        if not -n <= dim < n:
            raise IndexError(f"Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {dim})")
        return dim % n

    def storage_offset(self) -> Any:
        return self.offset

    def is_contiguous(self, format: MemoryFormat | None = None) -> bool:
        """Not so where that depends on sizes that come from data."""
        try:
            if format is not None and format.rank is not None:
                return layout.is_contiguous(self.sizes, self.steps, format)
            if self._contiguous is None:
                self._contiguous = layout.is_contiguous(self.sizes, self.steps)
        except GuardOnDataDependentSymNode:
            return False
        return self._contiguous

    def is_complex(self) -> bool:
        return self.dtype.is_complex

    def is_floating_point(self) -> bool:
        return self.dtype.is_floating

    def is_conj(self) -> bool:
        return self.conjugated

    def is_neg(self) -> bool:
        return self.negated

    def element_size(self) -> int:
        return self.dtype.itemsize

    # -- everything else is an operator

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self.member(name)

    member: Callable[[str], Any]  # the interpreter's: the operator of that name, or its result where it is a property

    def __repr__(self) -> str:
        shown = f"{self.dtype}[{', '.join(map(str, self.sizes))}]"
        if not self.is_contiguous():
            shown += f" strides [{', '.join(map(str, self.steps))}]"
        return shown + (f" on {self.device}" if self.device != CPU else "")

    def fresh(
        self, sizes: Sequence[Any] | None = None, strides: Sequence[Any] | None = None, dtype: DType | None = None
    ) -> Facts:
        """A new tensor beside it: of its sizes, dtype and device unless others are given, contiguous unless strides are."""
        return Facts(self.sizes if sizes is None else sizes, dtype or self.dtype, self.device, strides)

    def twin(self, dtype: DType) -> Facts:
        """A new tensor of its sizes and strides, which are those of a new one (is_plain)."""
        made = Facts.__new__(Facts)
        made.sizes, made.steps, made.offset, made.dtype, made.device = self.sizes, self.steps, 0, dtype, self.device
        made.is_plain = made._contiguous = True
        made.conjugated = made.negated = made.requires_grad = False
        made.base = made.number = None
        made.memory = Memory()
        return made

    def reshape_in_place(self, sizes: Sequence[Any], strides: Sequence[Any], offset: Any) -> None:
        """Another geometry on the same memory, for what changes a tensor itself (resize_, t_, set_)."""
        self.sizes, self.steps, self.offset = tuple(sizes), tuple(strides), offset
        self.is_plain, self._contiguous = False, None

    def with_geometry(
        self, sizes: Sequence[Any], strides: Sequence[Any], offset: Any, dtype: DType | None = None
    ) -> Facts:
        """A view of it."""
        root = self.base if self.base is not None else self
        return Facts(
            sizes,
            dtype or self.dtype,
            self.device,
            strides,
            offset,
            self.memory,
            self.conjugated,
            self.negated,
            base=root,
        )


class Scalar:
    """A Python number as bodies see one that the schema calls Scalar."""

    __slots__ = ("value",)

    def __init__(self, value: Any):
        self.value = value.value if isinstance(value, Scalar) else value

    def is_boolean(self) -> bool:
        return isinstance(self.value, bool | SymBool)

    def is_integral(self) -> bool:
        return isinstance(self.value, int | SymInt) and not isinstance(self.value, bool)

    def is_floating(self) -> bool:
        return isinstance(self.value, float | SymFloat)

    def is_complex(self) -> bool:
        return isinstance(self.value, complex)

    def to_int(self) -> Any:
        return (
            self.value
            if isinstance(self.value, Symbolic)
            else int(self.value.real if self.is_complex() else self.value)
        )

    def to_double(self) -> Any:
        return (
            self.value
            if isinstance(self.value, Symbolic)
            else float(self.value.real if self.is_complex() else self.value)
        )

    def to_bool(self) -> bool:
        return bool(self.value)

    def __float__(self) -> float:
        return float(self.to_double())

    def __int__(self) -> int:
        return int(self.to_int())

    def __bool__(self) -> bool:
        return bool(self.value)

    def __neg__(self) -> Scalar:
        return Scalar(-self.value)

    def __eq__(self, other: object) -> Any:
        return self.value == plain(other)

    def __hash__(self) -> int:
        return hash(self.value)

    def __repr__(self) -> str:
        return repr(self.value)


def _arithmetic(name: str) -> Callable:
    def method(self: Scalar, other: Any) -> Any:
        if isinstance(other, Facts):
            return NotImplemented
        return getattr(self.to_double(), name)(other.to_double() if isinstance(other, Scalar) else other)

    return method


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
    setattr(Scalar, f"__{_name}__", _arithmetic(f"__{_name}__"))
    setattr(Scalar, f"__r{_name}__", _arithmetic(f"__r{_name}__"))
for _name in ("lt", "le", "gt", "ge"):
    setattr(Scalar, f"__{_name}__", _arithmetic(f"__{_name}__"))


def plain(value: Any) -> Any:
    return value.value if isinstance(value, Scalar) else value


_TYPES: dict[type, str] = {
    bool: "bool",
    int: "int",
    float: "float",
    complex: "Scalar",
    Scalar: "Scalar",
    str: "str",
    type(None): "none",
    DType: "dtype",
    Device: "device",
    MemoryFormat: "memory_format",
}


def schema_type(value: Any) -> str:
    """What a value is, in the schema's language."""
    if type(value) is Facts:
        return "Tensor" if value.number is None else "Operand"
    known = _TYPES.get(type(value))
    if known is not None:
        return known
    if isinstance(value, Facts):
        return "Operand" if value.number is not None else "Tensor"
    if isinstance(value, bool | SymBool):
        return "bool"
    if isinstance(value, int | SymInt):
        return "int"
    if isinstance(value, float | SymFloat):
        return "float"
    if value is None:
        return "none"
    if isinstance(value, list | tuple):
        return _list_type(value)
    if isinstance(value, str):
        return "str"
    if isinstance(value, DType):
        return "dtype"
    if isinstance(value, Scalar | complex):
        return "Scalar"
    if isinstance(value, Device):
        return "device"
    if isinstance(value, MemoryFormat):
        return "memory_format"
    return "Storage" if hasattr(value, "nbytes") else "Generator"


def _list_type(values: Sequence[Any]) -> str:
    kinds = {schema_type(v) for v in values}
    if not kinds:
        return "[]"
    if kinds <= {"Tensor", "Operand"}:
        return "Tensor[]"
    if kinds <= {"Tensor", "Operand", "none"}:
        return "Tensor?[]"
    if kinds == {"bool"}:
        return "bool[]"
    if kinds <= {"int", "bool"}:
        return "int[]"
    if kinds <= {"int", "bool", "float"}:
        return "float[]"
    if kinds <= {"int", "bool", "float", "Scalar"}:
        return "Scalar[]"
    return "str[]" if kinds == {"str"} else "dtype[]"


# ---- what rules return -----------------------------------------------------------------------------


class View:
    """What a view rule returns, or a list of them; the dtype is self's unless given."""

    def __init__(self, sizes, strides, offset, dtype=None):
        # Copied: a rule may go on to write into its lists, as it may in C++.
        self.sizes, self.strides, self.offset, self.dtype = list(sizes), list(strides), offset, dtype


class Out:
    """What a shape rule returns for one output; the device is the first tensor's unless given."""

    def __init__(self, sizes, dtype, device=None, strides=None):
        self.sizes, self.dtype, self.device = list(sizes), dtype, device
        self.strides = None if strides is None else list(strides)
