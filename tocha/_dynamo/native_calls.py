"""The table of native functions that the tracer handles itself (builtin_calls.py fills it), and calls of polyfills."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import tocha
from tocha._core.library_name import ours
from tocha._dynamo import leaves, polyfills
from tocha._dynamo.values.base import Value
from tocha._dynamo.values.containers import TupleValue
from tocha._dynamo.values.functions import BuiltinValue

if TYPE_CHECKING:
    from tocha._dynamo.frame import Frame

CALLS: dict[Any, Callable[..., Value]] = {}


def known(*functions: Any) -> Callable:
    def register(handler: Callable) -> Callable:
        for function in functions:
            CALLS[function] = handler
            leaves.know(function)
        return handler

    return register


# Functions of rooms that are loaded when a program asks for them: (module, name) -> what makes their handler.
LATE: dict[tuple[str, str], Callable[[Any], Callable[..., Value]]] = {}


def meet(function: Any) -> None:
    """Called with each Python function that capture meets."""
    make = LATE.get((ours(function.__module__), function.__qualname__))
    if make is not None and id(function) not in leaves.KNOWN:
        known(function)(make(function))


def are_sizes(items: list[Value]) -> bool:
    """Ints, of which some are symbols."""
    return any(hasattr(i, "fact") for i in items) and all(i.python_type() is int for i in items)


def call_polyfill(f: Frame, function: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
    if (function not in polyfills.ITERATORS and function not in (sum, min, max)) or kwargs:
        pass
    elif function in (sum, min, max) and all(a.is_constant() for a in args):
        return f.fold(function, args, kwargs)
    if function in (min, max) and args and not kwargs:
        items = [a.realize() for a in (args if len(args) > 1 else args[0].unpack(f))]
        if are_sizes(items):  # which of them it is need not be known
            best = tocha.sym_max if function is max else tocha.sym_min
            found = items[0]
            for item in items[1:]:
                found = f.out.call(f, "call_function", best, [found, item], {})
            return found
        args = args if len(args) > 1 else [TupleValue(items)]
    made_by = (BuiltinValue(function), args, kwargs) if function in polyfills.ITERATORS else None
    return f.inline(f.wrap_known(polyfills.TABLE[function]), args, kwargs, made_by)  # type: ignore[arg-type]
