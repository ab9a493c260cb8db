"""__torch_function__ of the program's objects: who has one answers calls of the library that the object is given to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tocha
from tocha._dynamo.values.base import Value
from tocha._dynamo.values.containers import ListValue, TupleValue
from tocha._dynamo.values.functions import BuiltinValue
from tocha._dynamo.values.objects import ClassValue, ObjectValue

if TYPE_CHECKING:
    from tocha._dynamo.frame import Frame


def overloaded(values: list[Value]) -> list[ObjectValue]:
    """The objects that want to be asked, one of each class, subclasses first."""
    found: list[ObjectValue] = []
    for v in values:
        v = v.realize()
        if isinstance(v, (TupleValue, ListValue)):
            inner = overloaded(v.items)
        else:
            inner = [v] if isinstance(v, ObjectValue) and hasattr(v.cls, "__torch_function__") else []
        for o in inner:
            if any(o.cls is known.cls for known in found):
                continue
            place = next((i for i, known in enumerate(found) if issubclass(o.cls, known.cls)), len(found))
            found.insert(place, o)
    return found


def answer(f: Frame, function: Any, asked: list[ObjectValue], args: list[Value], kwargs: dict[str, Value]) -> Value:
    """What the first of them that knows the function makes of the call."""
    types = TupleValue([ClassValue(o.cls) for o in asked])
    for o in asked:
        method = ClassValue(o.cls).get_attribute(f, "__torch_function__")
        result = method.call(f, [BuiltinValue(function), types, TupleValue(args), f.new_dict(kwargs.items())], {})
        result = result.realize()
        if not (result.is_constant() and result.constant() is NotImplemented):
            return result
    names = [o.cls for o in asked]
    f.raise_(TypeError, f"no implementation found for '{tocha.overrides.resolve_name(function) or function}' on types that implement __torch_function__: {names}")  # fmt: skip
