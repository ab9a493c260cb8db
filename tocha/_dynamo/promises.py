"""`_check` and its relatives in captured code: their messages are functions, which are called while the code is captured, where they are
needed: of sizes that are known now what holds is guarded."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import tocha
from tocha._dynamo import operators
from tocha._dynamo.native_calls import LATE, known
from tocha._dynamo.refusals import Unsupported
from tocha._dynamo.values.base import Value
from tocha._dynamo.values.constant import Constant
from tocha._dynamo.values.symbol import SymbolValue
from tocha._dynamo.values.tensor import TensorValue
from tocha._functions.basics import _assert_async
from tocha._symbolic import _assert_scalar, _check

if TYPE_CHECKING:
    from tocha._dynamo.frame import Frame

HOME = "tocha._symbolic"
KINDS = {
    "_check": RuntimeError, "_check_index": IndexError, "_check_value": ValueError, "_check_type": TypeError,
    "_check_not_implemented": NotImplementedError,
}  # fmt: skip


def text_of(f: Frame, message: Value) -> str:
    found = message.call(f, [], {}).realize()
    if not found.is_constant():
        raise Unsupported("value", "a message of _check that depends on symbols")
    return str(found.constant())


def _promise(error: type[Exception]) -> Callable[[Any], Callable[..., Value]]:
    def make(real: Callable) -> Callable[..., Value]:
        def check(f: Frame, cond: Value, message: Value | None = None) -> Value:
            said = message is not None and not (message.is_constant() and message.constant() is None)
            if isinstance(cond, SymbolValue) and (not said or is_unknown(cond)):
                if not said:
                    return f.out.call(f, "call_function", real, [cond], {})
                text = text_of(f, message)  # type: ignore[arg-type]
                return f.out.call(f, "call_function", _assert_scalar, [cond, Constant(text), Constant(error.__name__)], {})  # fmt: skip
            if cond.python_type() is not bool:
                f.raise_(TypeError, f"cond must be a bool, but got {cond.python_type()}")
            if not cond.constant():
                f.raise_(error, text_of(f, message) if said else "Expected cond to be True, but got False.")  # type: ignore[arg-type]
            return Constant(None)

        return check

    return make


def _all_elements(real: Callable) -> Callable[..., Value]:
    def checked(cond: Any, message: Any = None) -> None:
        _check(cond.all().item(), message)

    return lambda f, *args, **kwargs: f.inline(f.wrap_known(checked), list(args), kwargs, None)


def checked_in_graph(f: Frame, condition: TensorValue, text: str) -> None:
    """A tensor of one element that is asserted: the graph refuses to go on where it is zero, with a RuntimeError."""
    env, before = f.out.env, f.out.env.allow_scalar_outputs
    env.allow_scalar_outputs = True  # nobody sees this number
    try:
        if condition.fact.dtype is not tocha.bool:
            condition = f.out.call(f, "call_function", operator.ne, [condition, Constant(0)], {})  # type: ignore[assignment]
        number = f.out.call(f, "call_method", "item", [condition], {})
    finally:
        env.allow_scalar_outputs = before
    f.out.call(f, "call_function", _assert_scalar, [number, Constant(text), Constant("RuntimeError")], {})


def number_checked_in_graph(f: Frame, condition: SymbolValue, text: str) -> None:
    """A number that comes from data, or a relation of such, that is asserted: the graph refuses with the program's own error."""
    if condition.python_type() is not bool:
        condition = operators.compare(f, "!=", condition, Constant(0))  # type: ignore[assignment]
    f.out.call(f, "call_function", _assert_scalar, [condition, Constant(text), Constant("AssertionError")], {})


@known(_assert_async)
def _checked_later(f: Frame, input: Value, assert_msg: Value | None = None) -> Value:
    if not isinstance(input, TensorValue) or input.fact.numel() != 1:
        f.raise_(RuntimeError, "Boolean value of Tensor with more than one value is ambiguous")
    unsaid = inspect.signature(_assert_async).parameters["assert_msg"].default
    checked_in_graph(f, input, unsaid if assert_msg is None else assert_msg.constant())
    return Constant(None)


def is_unknown(number: SymbolValue) -> bool:
    return number.fact.env.hint(number.fact.expr) is None


def is_asserted(f: Frame, condition: Value, at: int) -> bool:
    """`assert` of a tensor or of a number that comes from data, with a constant for its message or none: the graph checks it.
    `at` is the instruction behind the jump."""
    if not isinstance(condition, TensorValue | SymbolValue) or f.instructions[at].name != "LOAD_ASSERTION_ERROR":
        return False
    after = [i for i in f.instructions[at + 1 : at + 6] if i.name not in ("PRECALL", "CALL", "CACHE")]
    said = after[0].name == "LOAD_CONST" and isinstance(after[0].arg, str)
    text = after.pop(0).arg if said else None
    if after[0].name != "RAISE_VARARGS":
        return False
    if isinstance(condition, SymbolValue):
        if is_unknown(condition):
            number_checked_in_graph(f, condition, text or "")
            return True
        return False
    if condition.cls is not None or condition.fact.numel() != 1:
        return False
    if text is None:
        text = "assertion error"
    checked_in_graph(f, condition, text)
    return True


LATE.update(((HOME, name), _promise(kind)) for name, kind in KINDS.items())
LATE[HOME, "_check_tensor_all"] = _all_elements
