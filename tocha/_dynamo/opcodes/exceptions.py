"""try, except, finally, with."""

from __future__ import annotations

from typing import Any

from tocha._dynamo import exception_groups
from tocha._dynamo.opcodes.registry import opcode
from tocha._dynamo.refusals import Unsupported
from tocha._dynamo.values.base import NULL, Observed
from tocha._dynamo.values.constant import Constant
from tocha._dynamo.values.containers import TupleValue
from tocha._dynamo.values.exceptions import ExceptionValue, TracebackValue
from tocha._dynamo.values.objects import MISSING, ClassValue, find_in_class


@opcode("RAISE_VARARGS")
def raise_varargs(f: Any, i: Any) -> None:
    if i.arg == 0:
        active = f.active_exception()
        if active is None:
            raise Unsupported("exception", "raising again what a caller handles")
        raise Observed(active)
    cause = f.pop() if i.arg == 2 else None
    value = f.as_exception(f.pop())
    if cause is not None:
        value.written["__cause__"] = cause if isinstance(cause, Constant) else f.as_exception(cause)
        value.written["__suppress_context__"] = Constant(True)
    active = f.active_exception()
    if active is not None and active is not value:
        value.set_context(active)
    raise Observed(value)


@opcode("PUSH_EXC_INFO")
def push_exc_info(f: Any, i: Any) -> None:
    raised = f.stack.pop()
    f.push(f.handling[-1] if f.handling else Constant(None))
    f.push(raised)
    f.handling.append(raised)


@opcode("POP_EXCEPT")
def pop_except(f: Any, i: Any) -> None:
    f.stack.pop()
    f.handling.pop()


@opcode("CHECK_EXC_MATCH")
def check_exc_match(f: Any, i: Any) -> None:
    kinds = f.pop()
    raised = f.top()
    classes: list[Any] = [k.realize() for k in kinds.items] if isinstance(kinds, TupleValue) else [kinds]
    if not all(isinstance(c, ClassValue) and BaseException in c.value.__mro__ for c in classes):
        f.raise_(TypeError, "catching classes that do not inherit from BaseException is not allowed")
    bases = raised.python_type().__mro__  # not issubclass(): a metaclass has no say in it
    f.push(Constant(any(c.value in bases for c in classes)))


@opcode("CHECK_EG_MATCH")
def check_eg_match(f: Any, i: Any) -> None:
    kinds, raised = f.pop(), f.pop()
    classes: list[Any] = [k.realize() for k in kinds.items] if isinstance(kinds, TupleValue) else [kinds]
    for c in classes:
        if not isinstance(c, ClassValue) or not issubclass(c.value, BaseException):
            f.raise_(TypeError, "catching classes that do not inherit from BaseException is not allowed")
        if issubclass(c.value, BaseExceptionGroup):
            f.raise_(TypeError, "catching ExceptionGroup with except* is not allowed. Use except instead.")
    if isinstance(raised, Constant):  # nothing is left
        f.push(Constant(None))
        f.push(Constant(None))
        return
    rest, matched = f.wrap_known(exception_groups.matched).call(f, [raised, kinds], {}).items
    f.push(rest)
    f.push(matched)
    if isinstance(matched.realize(), ExceptionValue):
        f.handling[-1] = matched.realize()


@opcode("PREP_RERAISE_STAR")
def prep_reraise_star(f: Any, i: Any) -> None:
    raised, whole = f.pop(), f.pop()
    f.push(f.wrap_known(exception_groups.left_over).call(f, [whole, raised], {}))


@opcode("CALL_INTRINSIC_2", since=(3, 12))
def call_intrinsic_2(f: Any, i: Any) -> None:
    if i.arg != 1:
        raise Unsupported("opcode", "type parameters")
    prep_reraise_star(f, i)


@opcode("RERAISE")
def reraise(f: Any, i: Any) -> None:
    raised = f.pop()
    if i.arg:
        f.stack.pop()
    raise Observed(raised)


@opcode("BEFORE_WITH")
def before_with(f: Any, i: Any) -> None:
    manager = f.pop()
    cls = manager.python_type()
    for name in ("__enter__", "__exit__"):
        if find_in_class(cls, name)[0] is MISSING:
            f.raise_(TypeError, f"'{cls.__name__}' object does not support the context manager protocol")
    f.push(manager.get_attribute(f, "__exit__"))
    f.push(manager.call_method(f, "__enter__", [], {}))


@opcode("WITH_EXCEPT_START")
def with_except_start(f: Any, i: Any) -> None:
    raised = f.top()
    leave = f.stack[-4].realize()
    assert leave is not NULL
    f.push(leave.call(f, [f.wrap_known(raised.python_type()), raised, TracebackValue()], {}))
