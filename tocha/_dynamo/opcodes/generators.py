"""Generators: yield, send, yield from."""

from __future__ import annotations

from typing import Any

from tocha._dynamo.opcodes.control import is_none
from tocha._dynamo.opcodes.registry import opcode
from tocha._dynamo.refusals import Unsupported
from tocha._dynamo.values.base import Observed, Value
from tocha._dynamo.values.constant import Constant
from tocha._dynamo.values.iterators import GeneratorValue


@opcode("RETURN_GENERATOR")
def return_generator(f: Any, i: Any) -> None:
    f.push(Constant(None))  # what the first resumption sends


@opcode("YIELD_VALUE")
def yield_value(f: Any, i: Any) -> tuple[str, Value]:
    return ("yield", f.pop())


@opcode("GET_YIELD_FROM_ITER")
def get_yield_from_iter(f: Any, i: Any) -> None:
    value = f.pop()
    f.push(value if isinstance(value, GeneratorValue) else value.iterate(f))


@opcode("SEND")
def send(f: Any, i: Any) -> None:
    sent = f.pop()
    inner = f.top()
    try:
        if isinstance(inner, GeneratorValue):
            value = inner.send(f, sent) if inner.started else inner.next(f)
        elif is_none(sent):
            value = inner.next(f)
        else:
            value = inner.call_method(f, "send", [sent], {})
    except Observed as stop:
        if not stop.value.is_a(StopIteration):
            raise
        result = stop.value.args[0] if stop.value.args else Constant(None)
        if f.instructions[f.decoded.place[id(i.target)]].name == "END_SEND":
            f.push(result)
        else:
            f.stack[-1] = result
        f.jump(i.target)
        return
    f.push(value)


@opcode("END_SEND", since=(3, 12))
def end_send(f: Any, i: Any) -> None:
    value = f.stack.pop()
    f.stack[-1] = value


@opcode("CLEANUP_THROW", since=(3, 12))
def cleanup_throw(f: Any, i: Any) -> None:
    """An exception thrown in during `yield from`."""
    raised = f.pop()
    if not raised.is_a(StopIteration):
        raise Observed(raised)
    f.pop_many(2)
    f.push(Constant(None))
    f.push(raised.args[0] if raised.args else Constant(None))


@opcode("GET_AWAITABLE", "GET_AITER", "GET_ANEXT", "BEFORE_ASYNC_WITH", "END_ASYNC_FOR", "ASYNC_GEN_WRAP")
def asynchronous(f: Any, i: Any) -> None:
    raise Unsupported("opcode", f"asynchronous code ({i.name})")
