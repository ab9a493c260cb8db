"""Calls, making functions and classes."""

from __future__ import annotations

from typing import Any

from tocha._dynamo.bytecode import VERSION
from tocha._dynamo.opcodes.registry import opcode
from tocha._dynamo.operators import unary
from tocha._dynamo.refusals import Unsupported
from tocha._dynamo.values.base import NULL, Value
from tocha._dynamo.values.constant import Constant
from tocha._dynamo.values.containers import ListValue, TupleValue
from tocha._dynamo.values.functions import FunctionValue
from tocha._dynamo.values.mappings import pairs_of


@opcode("KW_NAMES", until=(3, 12))
def kw_names(f: Any, i: Any) -> None:
    f.keyword_names = i.arg


def _callee(f: Any) -> tuple[Value, list[Value]]:
    """The callable below the arguments, and an argument before them, if one is there."""
    second, first = f.stack.pop().realize(), f.stack.pop().realize()
    if VERSION < (3, 13):
        return (second, []) if first is NULL else (first, [second])
    return (first, []) if second is NULL else (first, [second])


@opcode("CALL")
def call(f: Any, i: Any) -> None:
    args = f.pop_many(i.arg)
    function, before = _callee(f)
    names, f.keyword_names = f.keyword_names, ()
    split = len(args) - len(names)
    f.push(function.call(f, [*before, *args[:split]], dict(zip(names, args[split:]))))


@opcode("CALL_KW", since=(3, 13))
def call_kw(f: Any, i: Any) -> None:
    names = f.pop().constant()
    args = f.pop_many(i.arg)
    function, before = _callee(f)
    split = len(args) - len(names)
    f.push(function.call(f, [*before, *args[:split]], dict(zip(names, args[split:]))))


@opcode("CALL_FUNCTION_EX")
def call_function_ex(f: Any, i: Any) -> None:
    kwargs = f.pop() if i.arg & 1 else None
    args = f.pop()
    if VERSION < (3, 13):
        function = f.pop()
        f.stack.pop()
    else:
        f.stack.pop()
        function = f.pop()
    named = {k.constant(): v.realize() for k, v in pairs_of(f, kwargs)} if kwargs is not None else {}
    if not all(isinstance(k, str) for k in named):
        f.raise_(TypeError, "keywords must be strings")
    f.push(function.call(f, [a.realize() for a in args.unpack(f)], named))


@opcode("MAKE_FUNCTION")
def make_function(f: Any, i: Any) -> None:
    code = f.pop().constant()
    flags = i.arg if VERSION < (3, 13) else 0
    cells = f.pop().items if flags & 8 else []
    annotations = f.pop() if flags & 4 else None
    named = f.pop() if flags & 2 else None
    defaults = f.pop().unpack(f) if flags & 1 else []
    made = FunctionValue(
        code,
        f.globals,
        name=code.co_qualname,
        defaults=defaults,
        kwdefaults={k.constant(): v for k, v in pairs_of(f, named)} if named else {},
        cells=cells,
    )
    if annotations is not None:
        made.attributes["__annotations__"] = annotations_of(f, annotations)
    f.push(made)


def annotations_of(f: Any, pairs: Any) -> Any:
    """(name, value, name, value, ...) as a dict."""
    items = pairs.unpack(f)
    return f.new_dict([(name.constant(), value) for name, value in zip(items[::2], items[1::2])])


@opcode("SET_FUNCTION_ATTRIBUTE", since=(3, 13))
def set_function_attribute(f: Any, i: Any) -> None:
    function, value = f.pop(), f.pop()
    if i.arg == 8:
        function.cells = value.items
    elif i.arg == 2:
        function.kwdefaults = {k.constant(): v for k, v in pairs_of(f, value)}
    elif i.arg == 1:
        function.defaults = value.unpack(f)
    elif i.arg == 4:
        function.attributes["__annotations__"] = annotations_of(f, value)
    f.push(function)


@opcode("LOAD_BUILD_CLASS")
def load_build_class(f: Any, i: Any) -> None:
    f.push(f.wrap_known(__build_class__))  # type: ignore[name-defined]


@opcode("CALL_INTRINSIC_1", since=(3, 12))
def call_intrinsic_1(f: Any, i: Any) -> None:
    value = f.pop()
    if i.arg == 5:
        f.push(unary(f, "+", value))
    elif i.arg == 6:
        f.push(TupleValue(value.unpack(f)))
    elif i.arg == 3:  # StopIteration out of a generator
        if value.is_a(StopIteration):
            value = f.generator_stopped(value)
        f.push(value)
    else:
        raise Unsupported("opcode", f"CALL_INTRINSIC_1 {i.arg}")


def as_list(f: Any, value: Value) -> ListValue:
    return ListValue(value.unpack(f))


__all__ = ["Constant"]
