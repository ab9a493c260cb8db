"""Arguments of a call against a schema, in Python: for packets that choose an overload, for custom operators, and for the
words of a refusal. Calls of records are matched natively (csrc/python/operator_handles.cpp).
"""

from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import Any

from tocha import _C
from tocha.ir.sym_types import Symbolic, SymBool, SymFloat, SymInt
from tocha.operators.function_schema import FunctionSchema, SchemaArgument

Tensor = _C.Tensor


def is_number(v: object) -> bool:
    return isinstance(v, numbers.Number | Symbolic) and not isinstance(v, Tensor)


FITS: dict[str, Callable[[Any], bool]] = {
    "Tensor": lambda v: isinstance(v, Tensor) or is_number(v) or hasattr(type(v), "__torch_function__"),
    "Scalar": is_number,
    "int": lambda v: isinstance(v, int) or (hasattr(v, "__index__") and not isinstance(v, Tensor)),
    "float": lambda v: isinstance(v, int | float | SymInt | SymFloat),
    "complex": is_number,
    "bool": lambda v: isinstance(v, bool | SymBool),
    "str": lambda v: isinstance(v, str),
    "ScalarType": lambda v: isinstance(v, _C.dtype),
    "Layout": lambda v: isinstance(v, _C.layout),
    "Device": lambda v: isinstance(v, _C.device | str),
    "MemoryFormat": lambda v: isinstance(v, _C.memory_format),
    "Generator": lambda v: isinstance(v, _C.Generator),
    "Any": lambda v: True,
}
FITS["SymInt"] = FITS["int"]


def fits(a: SchemaArgument, value: Any) -> bool:
    """Whether a value can be passed for an argument."""
    kind = a.text
    if kind.endswith("?"):
        if value is None:
            return True
        kind = kind[:-1]
    if not kind.endswith("]"):
        return FITS.get(kind, FITS["Any"])(value)
    element, _, size = kind[:-1].rpartition("[")
    one = SchemaArgument(a.name, element)
    if not isinstance(value, list | tuple):
        return bool(size) and fits(one, value)
    return all(fits(one, v) for v in value)


def numbers_for_tensors(s: FunctionSchema, found: dict[str, Any]) -> bool:
    """Whether a number was given for a tensor: allowed, but another overload may take it as it is."""
    tensors = [found[a.name] for a in s._arguments if a.is_tensor and a.name in found]
    return any(is_number(v) or (isinstance(v, list | tuple) and any(map(is_number, v))) for v in tensors)


def bound(s: FunctionSchema, args: tuple, kwargs: dict[str, Any]) -> dict[str, Any] | str:
    """The arguments by name, those that were given; or why they do not fit, in PyTorch's words."""
    positional = [a for a in s._arguments if not a.kwarg_only]
    if len(args) > len(positional):
        return too_many(s, len(args), len(positional))
    found: dict[str, Any] = {}
    for i, a in enumerate(s._arguments):
        if not a.kwarg_only and i < len(args):
            if a.name in kwargs:
                return f"Argument '{a.name}' specified both as positional and keyword argument. Schema: {s}"
            value = args[i]
        elif a.name in kwargs:
            value = kwargs[a.name]
        elif a.has_default_value():
            continue
        else:
            return f"{s.name}() is missing value for argument '{a.name}'. Declaration: {s}"
        if not fits(a, value):
            return wrong_value(s, i, value)
        found[a.name] = value
    unknown = next((k for k in kwargs if k not in found), None)
    if unknown is not None:
        return f"Unknown keyword argument '{unknown}' for operator '{s.name}'. Schema: {s}"
    return found


def too_many(s: FunctionSchema, given: int, most: int) -> str:
    if most < len(s._arguments):
        return f"{s.name}() takes {most} positional argument(s) but {given} was/were given.  Declaration: {s}"
    return f"{s.name}() expected at most {most} argument(s) but received {given} argument(s). Declaration: {s}"


def wrong_value(s: FunctionSchema, index: int, value: Any) -> str:
    a = s._arguments[index]
    shown = str(a.type)
    details = f"Unable to cast Python instance of type {type(value)} to {shown}"
    if shown in ("Tensor", "number"):
        details = f"{'Unable to' if shown == 'Tensor' else 'Cannot'} cast {value} to {shown}"
    return (
        f"{s.name}() Expected a value of type '{shown}' for argument '{a.name}' but instead found type "
        f"'{type(value).__name__}'.\nPosition: {index}\nValue: {value!r}\nDeclaration: {s}\nCast error details: {details}"
    )


def tensors_in(values: Any) -> list[Tensor]:
    """The tensors among arguments, those in lists too."""
    found = []
    for v in values:
        if isinstance(v, Tensor):
            found.append(v)
        elif isinstance(v, list | tuple):
            found += tensors_in(v)
    return found
