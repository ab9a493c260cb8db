"""Between the objects of a call and what the interpreter of records takes: facts of fake tensors, dtypes, devices, numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

from tocha import _C
from tocha.ir import dtypes as dt
from tocha.ir import layout
from tocha.ir.devices import Device
from tocha.ir.dtypes import DType
from tocha.ir.sym_types import Symbolic
from tocha.operators.facts import Facts, Scalar
from tocha.operators.record import Operator
from tocha.operators.schema import Argument

Tensor = _C.Tensor
NATIVE_TYPES = {float: "float64", int: "int64", bool: "bool", complex: "complex128"}


@cache
def dtype_facts(dtype: Any) -> DType:
    name = NATIVE_TYPES.get(dtype) or str(dtype).split(".")[1]
    if dtype is float:
        return dtype_facts(_C.get_default_dtype())
    return dt.by_name(name)


@cache
def native_dtype(dtype: DType) -> _C.dtype:
    return getattr(_C, dtype.name)


@cache
def native_device(device: Device) -> _C.device:
    return _C.device(str(device))


def device_facts(device: Any) -> Device:
    return normalised(device if isinstance(device, _C.device) else _C.device(device))


@cache
def normalised(device: _C.device) -> Device:
    """A device of which there are several has a number, the first unless it is said."""
    index = device.index
    if index is None and device.type not in ("cpu", "meta"):
        index = 0
    return Device(device.type, index)


@cache
def format_facts(memory_format: Any) -> layout.MemoryFormat:
    return layout.MemoryFormat(str(memory_format).split(".")[1])


def plain_int(v: Any) -> Any:
    """A number for an int argument: symbols stay, tensors are asked for their element."""
    if type(v) is int or isinstance(v, Symbolic):
        return v
    if isinstance(v, Tensor):
        return v.item()
    return int(v)


def plain_ints(v: Any) -> list[Any]:
    return [n if type(n) is int else plain_int(n) for n in v]


def plain_float(v: Any) -> Any:
    v = v.item() if isinstance(v, Tensor) else v
    return v if type(v) is float or isinstance(v, Symbolic) else float(v)


def plain_number(v: Any) -> Any:
    """NumPy's scalars as Python's."""
    if isinstance(v, bool | int | float | complex | Symbolic):
        return v
    return v.item()


def scalar(v: Any) -> Scalar:
    return Scalar(plain_number(v))


CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "int": plain_int,
    "float": plain_float,
    "float[]": lambda vs: [plain_float(v) for v in vs],
    "bool": lambda v: v if isinstance(v, bool) else bool(v),
    "bool[]": lambda vs: [bool(v) for v in vs],
    "Scalar": scalar,
    "Scalar[]": lambda vs: [scalar(v) for v in vs],
    "dtype": dtype_facts,
    "device": device_facts,
    "memory_format": format_facts,
    "layout": lambda v: None,
}


def may_be_symbol(o: Operator, a: Argument) -> bool:
    """Whether an int may stay a symbol. Records of our own write `int` for sizes, too: of theirs only dims may not."""
    return a.symbolic or (o.name.startswith(("_", "nn_")) and not a.name.startswith("dim"))


@cache
def conversion(a: Argument, symbolic: bool) -> Callable[[Any], Any]:
    """What makes the body's value of what is given for an argument that is no tensor."""
    base = a.type.removesuffix("?")
    if base == "int[]":
        convert: Callable[[Any], Any] = partial(sized_ints, a.size or 1, symbolic)
    elif base == "int" and not symbolic:
        convert = known_int
    else:
        convert = CONVERSIONS.get(base, lambda v: v)
    return (lambda v: None if v is None else convert(v)) if a.type.endswith("?") else convert


def known_int(v: Any) -> Any:
    """For an argument that decides what is computed, as a dim does: a symbol becomes its value, which is guarded."""
    return v if type(v) is int else int(plain_int(v))


def sized_ints(size: int, symbolic: bool, v: Any) -> list[Any]:
    """int[2]: one int stands for two."""
    values = plain_ints(v) if isinstance(v, list | tuple) else [plain_int(v)]
    if not symbolic:
        values = [known_int(n) for n in values]
    return values * size if len(values) == 1 else values


INTS = frozenset([int])


def is_symbolic_geometry(f: Facts) -> bool:
    given = (*f.sizes, *f.steps, f.offset)
    return not INTS.issuperset(map(type, given)) and any([isinstance(n, Symbolic) for n in given])


def bytes_needed(sizes: Sequence[Any], strides: Sequence[Any], offset: Any, itemsize: int) -> Any:
    """How much memory a tensor of this geometry lies in."""
    last = offset
    for n, step in zip(sizes, strides, strict=True):
        if type(n) is int and n == 0:
            return 0
        last = last + (n - 1) * step
    return (last + 1) * itemsize
