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


def _too_many(count: int, defaults: int, given: int, named: int) -> str:
    takes = f"from {count - defaults} to {count}" if defaults else str(count)
    also = f" positional argument{'s' * (given != 1)} (and {named} keyword-only argument{'s' * (named != 1)})" if named else ""  # fmt: skip
    return f"takes {takes} positional argument{'s' * (count != 1 or defaults > 0)} but {given}{also} {'was' if given == 1 and not named else 'were'} given"  # fmt: skip


def _missing(by_position: list[str], every: list[str]) -> str:
    kind, names = ("positional", by_position) if by_position else ("keyword-only", every)
    shown = [repr(n) for n in names]
    listed = " and ".join(shown) if len(shown) < 3 else f"{', '.join(shown[:-1])}, and {shown[-1]}"
    return f"missing {len(names)} required {kind} argument{'s' * (len(names) > 1)}: {listed}"


def bind_arguments(
    f: Frame, frame: Frame, function: FunctionValue, args: list[Value], kwargs: dict[str, Value]
) -> None:
    code, name = function.code, function.name
    count, only = code.co_argcount, code.co_kwonlyargcount
    parameters = code.co_varnames[: count + only]
    places: dict[str, Value] = dict(zip(parameters[:count], args))
    rest = args[count:]
    extra: dict[str, Value] = {}
    has_rest, has_extra = bool(code.co_flags & 4), bool(code.co_flags & 8)
    for key, value in kwargs.items():
        if key in parameters[code.co_posonlyargcount :]:
            if key in places:
                f.raise_(TypeError, f"{name}() got multiple values for argument '{key}'")
            places[key] = value
        elif has_extra:
            extra[key] = value
        else:
            by_position = [k for k in kwargs if k in parameters[: code.co_posonlyargcount]]
            if by_position:
                f.raise_(TypeError, f"{name}() got some positional-only arguments passed as keyword arguments: '{', '.join(by_position)}'")  # fmt: skip
            f.raise_(TypeError, f"{name}() got an unexpected keyword argument '{key}'")
    defaults, named = defaults_of(f, function)
    if rest and not has_rest:
        f.raise_(TypeError, f"{name}() {_too_many(count, len(defaults), len(args), sum(p in places for p in parameters[count:]))}")  # fmt: skip
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
        f.raise_(TypeError, f"{name}() {_missing([p for p in missing if p in parameters[:count]], missing)}")
    frame.locals.update(places)
    at = count + only
    if has_rest:
        frame.locals[code.co_varnames[at]] = TupleValue(rest)
        at += 1
    if has_extra:
        frame.locals[code.co_varnames[at]] = DictValue({k: (Constant(k), v) for k, v in extra.items()})
