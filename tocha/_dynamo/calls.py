"""Arguments to parameters, as CPython binds them, with its errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tocha._dynamo.values.base import Value
from tocha._dynamo.values.constant import Constant
from tocha._dynamo.values.containers import TupleValue
from tocha._dynamo.values.lazy import Lazy
from tocha._dynamo.values.mappings import DictValue

if TYPE_CHECKING:
    from tocha._dynamo.frame import Frame
    from tocha._dynamo.values.functions import FunctionValue


def defaults_of(f: Frame, function: FunctionValue) -> tuple[list[Value], dict[str, Value]]:
    if function.real is None:
        return function.defaults, function.kwdefaults
    real, source = function.real, function.source
    place = source.attribute("__defaults__") if source else None
    if place is not None and real.__defaults__:
        f.out.guards.add(place, "length", len(real.__defaults__))
    defaults: list[Value] = [
        Lazy(f, d, place.tuple_item(i) if place else None) for i, d in enumerate(real.__defaults__ or ())
    ]
    place = source.attribute("__kwdefaults__") if source else None
    named: dict[str, Value] = {
        k: Lazy(f, d, place.dict_item(k) if place else None) for k, d in (real.__kwdefaults__ or {}).items()
    }
    return defaults, named


def bind_arguments(
    f: Frame, frame: Frame, function: FunctionValue, args: list[Value], kwargs: dict[str, Value]
) -> None:
    code, name = function.code, function.name.split(".")[-1]
    count, only = code.co_argcount, code.co_kwonlyargcount
    parameters = code.co_varnames[: count + only]
    places: dict[str, Value] = dict(zip(parameters[:count], args))
    rest = args[count:]
    extra: dict[str, Value] = {}
    has_rest, has_extra = bool(code.co_flags & 4), bool(code.co_flags & 8)
    if rest and not has_rest:
        f.raise_(
            TypeError, f"{name}() takes {count} positional argument{'s' * (count != 1)} but {len(args)} were given"
        )
    for key, value in kwargs.items():
        if key in parameters[code.co_posonlyargcount :]:
            if key in places:
                f.raise_(TypeError, f"{name}() got multiple values for argument '{key}'")
            places[key] = value
        elif has_extra:
            extra[key] = value
        else:
            f.raise_(TypeError, f"{name}() got an unexpected keyword argument '{key}'")
    defaults, named = defaults_of(f, function)
    for parameter, value in zip(parameters[count - len(defaults) : count] if defaults else (), defaults):
        places.setdefault(parameter, value)
    for parameter in parameters[count:]:
        if parameter not in places and parameter in named:
            places[parameter] = named[parameter]
    missing = [p for p in parameters if p not in places]
    if missing:
        if function.real is not None and function.source is not None:
            for place, given in (("__defaults__", function.real.__defaults__), ("__kwdefaults__", function.real.__kwdefaults__)):  # fmt: skip
                if given is None:
                    f.out.guards.add(function.source.attribute(place), "same", None)
        f.raise_(TypeError, f"{name}() missing {len(missing)} required {'positional' if missing[0] in parameters[:count] else 'keyword-only'} argument{'s' * (len(missing) > 1)}: {' and '.join(map(repr, missing))}")  # fmt: skip
    frame.locals.update(places)
    at = count + only
    if has_rest:
        frame.locals[code.co_varnames[at]] = TupleValue(rest)
        at += 1
    if has_extra:
        frame.locals[code.co_varnames[at]] = DictValue({k: (Constant(k), v) for k, v in extra.items()})
