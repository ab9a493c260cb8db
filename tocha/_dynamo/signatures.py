"""inspect.signature of callables that captured code knows in parts: methods, objects, partials, functions that it made."""

from __future__ import annotations

import functools
import inspect
import types
from typing import TYPE_CHECKING, Any

from tocha._dynamo.native_calls import known
from tocha._dynamo.values.base import NotConstant, Value
from tocha._dynamo.values.functions import FunctionValue, MethodValue, PartialValue
from tocha._dynamo.values.objects import ObjectValue

if TYPE_CHECKING:
    from tocha._dynamo.frame import Frame


def _look_alike(f: Frame, value: Value) -> Any:
    """Something real with the same parameters; raises NotConstant where a default is not known."""
    value = value.realize()
    if isinstance(value, MethodValue):
        return types.MethodType(_look_alike(f, value.function), object())
    if isinstance(value, PartialValue):
        bound = {k: v.constant() for k, v in value.kwargs.items()}
        return functools.partial(_look_alike(f, value.function), *[None] * len(value.args), **bound)
    if isinstance(value, FunctionValue) and value.real is None:
        return _made_function(f, value)
    called = f.class_function(value.cls, "__call__") if isinstance(value, ObjectValue) else None
    return types.MethodType(_look_alike(f, called), object()) if called is not None else value.constant()


def _made_function(f: Frame, value: FunctionValue) -> Any:
    if "__wrapped__" in value.attributes:
        return _look_alike(f, value.attributes["__wrapped__"])
    cells = tuple(types.CellType() for _ in value.code.co_freevars)
    defaults = tuple(v.constant() for v in value.defaults)
    made = types.FunctionType(value.code, value.globals, value.name, defaults, cells)
    made.__kwdefaults__ = {k: v.constant() for k, v in value.kwdefaults.items()}
    annotations = value.attributes.get("__annotations__")
    made.__annotations__ = annotations.constant() if annotations is not None else {}
    return made


@known(inspect.signature)
def signature(f: Frame, function: Value) -> Value:
    try:
        real = _look_alike(f, function)
    except NotConstant:
        return f.fold(inspect.signature, [function], {})
    return f.fold_real(inspect.signature, [real], {})
