"""Jumps, loops, returns."""

from __future__ import annotations

from typing import Any

from tocha._dynamo.bytecode import VERSION
from tocha._dynamo.opcodes.registry import opcode
from tocha._dynamo.promises import is_asserted
from tocha._dynamo.values.base import Observed, Value
from tocha._dynamo.values.constant import Constant


def is_none(v: Any) -> bool:
    return isinstance(v, Constant) and v.value is None


@opcode("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT")
def jump(f: Any, i: Any) -> None:
    f.jump(i.target)


@opcode("POP_JUMP_IF_TRUE", "POP_JUMP_FORWARD_IF_TRUE", "POP_JUMP_BACKWARD_IF_TRUE")
def pop_jump_if_true(f: Any, i: Any) -> None:
    if is_asserted(f, f.top(), f.ip) or f.top().truth(f):
        f.jump(i.target)
    f.stack.pop()


@opcode("POP_JUMP_IF_FALSE", "POP_JUMP_FORWARD_IF_FALSE", "POP_JUMP_BACKWARD_IF_FALSE")
def pop_jump_if_false(f: Any, i: Any) -> None:
    if not f.top().truth(f):
        f.jump(i.target)
    f.stack.pop()


@opcode("POP_JUMP_IF_NONE", "POP_JUMP_FORWARD_IF_NONE", "POP_JUMP_BACKWARD_IF_NONE")
def pop_jump_if_none(f: Any, i: Any) -> None:
    if is_none(f.pop()):
        f.jump(i.target)


@opcode("POP_JUMP_IF_NOT_NONE", "POP_JUMP_FORWARD_IF_NOT_NONE", "POP_JUMP_BACKWARD_IF_NOT_NONE")
def pop_jump_if_not_none(f: Any, i: Any) -> None:
    if not is_none(f.pop()):
        f.jump(i.target)


@opcode("JUMP_IF_TRUE_OR_POP", until=(3, 11))
def jump_if_true_or_pop(f: Any, i: Any) -> None:
    if f.top().truth(f):
        f.jump(i.target)
    else:
        f.pop()


@opcode("JUMP_IF_FALSE_OR_POP", until=(3, 11))
def jump_if_false_or_pop(f: Any, i: Any) -> None:
    if not f.top().truth(f):
        f.jump(i.target)
    else:
        f.pop()


@opcode("GET_ITER")
def get_iter(f: Any, i: Any) -> None:
    f.push(f.pop().iterate(f))


@opcode("FOR_ITER")
def for_iter(f: Any, i: Any) -> None:
    try:
        item = f.top().next(f)
    except Observed as stop:
        if not stop.value.is_a(StopIteration):
            raise
        f.jump(i.target)
        if f.instructions[f.ip].name != "END_FOR":  # which pops it, from 3.12 on
            f.stack.pop()
        else:
            f.stack.pop()
            _skip_end_for(f)
        return
    f.push(item)


def _skip_end_for(f: Any) -> None:
    """The interpreter jumps over END_FOR (3.12), and over the POP_TOP after it (3.13)."""
    f.ip += 1
    if f.instructions[f.ip].name == "POP_TOP" and f.instructions[f.ip - 1].name == "END_FOR" and _two_step(f):
        f.ip += 1


def _two_step(f: Any) -> bool:
    return VERSION >= (3, 13)


@opcode("END_FOR", since=(3, 12))
def end_for(f: Any, i: Any) -> None:
    f.stack.pop()


@opcode("RETURN_VALUE")
def return_value(f: Any, i: Any) -> tuple[str, Value]:
    return ("return", f.pop())


@opcode("RETURN_CONST", since=(3, 12))
def return_const(f: Any, i: Any) -> tuple[str, Value]:
    return ("return", f.wrap_known(i.arg))
