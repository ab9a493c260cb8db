"""`_check` and its relatives in captured code: their messages are functions, which are called while the code is captured, where they are
needed: of sizes that are known now what holds is guarded."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tocha._dynamo.native_calls import LATE
from tocha._dynamo.refusals import Unsupported
from tocha._dynamo.values.base import Value
from tocha._dynamo.values.constant import Constant
from tocha._dynamo.values.symbol import SymbolValue
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
            if isinstance(cond, SymbolValue) and (not said or cond.fact.env.hint(cond.fact.expr) is None):
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


LATE.update(((HOME, name), _promise(kind)) for name, kind in KINDS.items())
LATE[HOME, "_check_tensor_all"] = _all_elements
