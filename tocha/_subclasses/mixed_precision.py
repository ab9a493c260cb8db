"""Mixed precision on facts: operators whose record says so take their arguments in another dtype (csrc/dispatch/autocast.h)."""

from __future__ import annotations

from typing import Any

from tocha import _C
from tocha._subclasses.convert import dtype_facts
from tocha.ir import dtypes as dt
from tocha.ir.dtypes import DType
from tocha.ir.promotion import promote_types
from tocha.operators.facts import Facts
from tocha.operators.interpreter import Interpreter, flat_facts
from tocha.operators.record import Operator


def covered(f: Facts) -> bool:
    return f.number is None and _C.is_autocast_enabled(f.device.type)


def is_cast(f: Facts) -> bool:
    """float64, integers and tensors of other devices stay what they are."""
    return covered(f) and f.dtype.is_floating and f.dtype is not dt.float64 and f.dtype.itemsize > 1


def wanted_dtype(o: Operator, arguments: dict[str, Any]) -> DType | None:
    """What the operator's arguments are cast to; None outside of regions."""
    tensors = list(flat_facts([arguments["hx"]] if o.autocast == "state" else arguments.values()))
    first = next((f for f in tensors if covered(f)), None)
    if first is None:
        return None
    if o.autocast == "float32":
        return dt.float32
    found = dtype_facts(_C.get_autocast_dtype(first.device.type))
    if o.autocast == "lower":
        return found
    for f in tensors[-1:] if o.autocast == "state" else tensors:
        if is_cast(f):
            found = promote_types(found, f.dtype)
    return found


def cast(reader: Interpreter, value: Any, to: DType) -> Any:
    if isinstance(value, Facts):
        return reader.apply("to", (value, to), {}) if is_cast(value) and value.dtype is not to else value
    return [cast(reader, v, to) for v in value] if isinstance(value, list) else value
