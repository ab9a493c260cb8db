"""The stack itself, constants, and operators on what lies on it."""

from __future__ import annotations

import dis
from typing import Any

from tocha._dynamo import operators
from tocha._dynamo.bytecode import VERSION
from tocha._dynamo.opcodes.registry import opcode
from tocha._dynamo.promises import is_asserted
from tocha._dynamo.values.base import NULL
from tocha._dynamo.values.constant import Constant
from tocha._dynamo.values.containers import SliceValue
from tocha._dynamo.values.lazy import Lazy


@opcode("NOP", "RESUME", "PRECALL", "CACHE", "COPY_FREE_VARS", "EXTENDED_ARG")
def nothing(f: Any, i: Any) -> None:
    """Frames start with their free variables in place."""


@opcode("POP_TOP")
def pop_top(f: Any, i: Any) -> None:
    f.stack.pop()


@opcode("PUSH_NULL")
def push_null(f: Any, i: Any) -> None:
    f.push(NULL)


@opcode("COPY")
def copy(f: Any, i: Any) -> None:
    f.push(f.stack[-i.arg])


@opcode("SWAP")
def swap(f: Any, i: Any) -> None:
    f.stack[-1], f.stack[-i.arg] = f.stack[-i.arg], f.stack[-1]


@opcode("LOAD_CONST")
def load_const(f: Any, i: Any) -> None:
    f.push(Constant(i.arg) if type(i.arg) in (int, str, float, bool, type(None)) else f.wrap_known(i.arg))


@opcode("LOAD_ASSERTION_ERROR")
def load_assertion_error(f: Any, i: Any) -> None:
    f.push(f.wrap_known(AssertionError))


_SYMBOLS = [s for _, s in dis._nb_ops]  # type: ignore[attr-defined]


@opcode("BINARY_OP")
def binary_op(f: Any, i: Any) -> None:
    a, b = f.pop_many(2)
    symbol = _SYMBOLS[i.arg]
    f.push(operators.binary(f, symbol.rstrip("="), a, b, inplace=symbol.endswith("=")))


@opcode("UNARY_NEGATIVE")
def unary_negative(f: Any, i: Any) -> None:
    f.push(operators.unary(f, "-", f.pop()))


@opcode("UNARY_POSITIVE", until=(3, 11))
def unary_positive(f: Any, i: Any) -> None:
    f.push(operators.unary(f, "+", f.pop()))


@opcode("UNARY_INVERT")
def unary_invert(f: Any, i: Any) -> None:
    f.push(operators.unary(f, "~", f.pop()))


@opcode("UNARY_NOT")
def unary_not(f: Any, i: Any) -> None:
    f.push(Constant(not f.pop().truth(f)))


@opcode("TO_BOOL", since=(3, 13))
def to_bool(f: Any, i: Any) -> None:
    value = f.pop()
    f.push(Constant(is_asserted(f, value, f.ip + 1) or value.truth(f)))


@opcode("COMPARE_OP")
def compare_op(f: Any, i: Any) -> None:
    a, b = f.pop_many(2)
    which = i.arg if VERSION < (3, 12) else i.arg >> 4 if VERSION < (3, 13) else i.arg >> 5
    result = operators.compare(f, dis.cmp_op[which], a, b)
    if VERSION >= (3, 13) and i.arg & 16:  # asks for a bool
        result = Constant(is_asserted(f, result, f.ip + 1) or result.truth(f))
    f.push(result)


@opcode("IS_OP")
def is_op(f: Any, i: Any) -> None:
    a, b = f.pop_many(2)
    f.push(Constant(operators.is_(f, a, b) != bool(i.arg)))


@opcode("CONTAINS_OP")
def contains_op(f: Any, i: Any) -> None:
    item, container = f.pop_many(2)
    f.push(Constant(f.contains(container, item) != bool(i.arg)))


@opcode("BINARY_SUBSCR")
def binary_subscr(f: Any, i: Any) -> None:
    container, key = f.pop_many(2)
    f.push(container.item(f, key))


@opcode("STORE_SUBSCR")
def store_subscr(f: Any, i: Any) -> None:
    value, container, key = f.pop_many(3)
    container.set_item(f, key, value)


@opcode("DELETE_SUBSCR")
def delete_subscr(f: Any, i: Any) -> None:
    container, key = f.pop_many(2)
    container.delete_item(f, key)


@opcode("BINARY_SLICE", since=(3, 12))
def binary_slice(f: Any, i: Any) -> None:
    container, start, stop = f.pop_many(3)
    f.push(container.item(f, SliceValue([start, stop, Constant(None)])))


@opcode("STORE_SLICE", since=(3, 12))
def store_slice(f: Any, i: Any) -> None:
    value, container, start, stop = f.pop_many(4)
    container.set_item(f, SliceValue([start, stop, Constant(None)]), value)


@opcode("FORMAT_VALUE", until=(3, 12))
def format_value(f: Any, i: Any) -> None:
    spec = f.pop().constant() if i.arg & 4 else ""
    value = f.pop()
    convert = i.arg & 3
    if convert:
        value = _convert(f, value, convert)
    f.push(Constant(operators.format_value(f, value, spec)))


def _convert(f: Any, value: Any, how: int) -> Constant:
    text = operators.to_text(f, value, "s" if how == 1 else "r")
    return Constant(
        ascii(eval(text)) if how == 3 and value.is_constant() and isinstance(value.constant(), str) else text
    )


@opcode("CONVERT_VALUE", since=(3, 13))
def convert_value(f: Any, i: Any) -> None:
    f.push(_convert(f, f.pop(), i.arg))


@opcode("FORMAT_SIMPLE", since=(3, 13))
def format_simple(f: Any, i: Any) -> None:
    f.push(Constant(operators.format_value(f, f.pop(), "")))


@opcode("FORMAT_WITH_SPEC", since=(3, 13))
def format_with_spec(f: Any, i: Any) -> None:
    value, spec = f.pop_many(2)
    f.push(Constant(operators.format_value(f, value, spec.constant())))


@opcode("BUILD_STRING")
def build_string(f: Any, i: Any) -> None:
    f.push(Constant("".join(v.constant() for v in f.pop_many(i.arg))))


def is_lazy(v: Any) -> bool:
    return type(v) is Lazy
