"""Code that runs while a function is captured: it looks at the tracer from the place where it stands."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tocha._dynamo.native_calls import known
from tocha._dynamo.refusals import Unsupported
from tocha._dynamo.values.base import Value
from tocha._dynamo.values.constant import Constant
from tocha._dynamo.values.functions import FunctionValue, real_function
from tocha._dynamo.values.symbol import SymbolValue
from tocha._dynamo.values.tensor import TensorValue
from tocha.ir.sym_types import is_symbolic

if TYPE_CHECKING:
    from tocha._dynamo.frame import Frame


class ComptimeVar:
    """A value of captured code."""

    def __init__(self, value: Value) -> None:
        self._value = value.realize()

    def as_proxy(self) -> Any:
        """Its node in the graph."""
        return self._value.graph_argument()

    def is_proxy(self) -> bool:
        """Does a node of the graph stand for it?"""
        return isinstance(self._value, (TensorValue, SymbolValue))

    def as_fake(self) -> Any:
        """What is known of it."""
        return self._value.example()

    def as_python_constant(self) -> Any:
        return self._value.constant()

    def is_python_constant(self) -> bool:
        return self._value.is_constant()

    def python_type(self) -> type:
        return self._value.python_type()

    def size(self, dim: int | None = None) -> Any:
        return self.as_fake().size() if dim is None else self.as_fake().size(dim)

    def is_dynamic(self) -> bool:
        """Does it depend on symbols?"""
        if isinstance(self._value, TensorValue):
            return any(is_symbolic(n) for n in self._value.fact.shape)
        return isinstance(self._value, SymbolValue)

    def force_static(self) -> None:
        """Its symbols become the values that they have now."""
        if isinstance(self._value, SymbolValue):
            self._value.constant()
        elif isinstance(self._value, TensorValue):
            for n in self._value.fact.shape:
                int(n)

    def __repr__(self) -> str:
        return repr(self._value)


class ComptimeContext:
    """The tracer at one place of captured code."""

    def __init__(self, f: Frame) -> None:
        self._frame = f

    def get_local(self, name: str, *, stacklevel: int = 0) -> ComptimeVar:
        f = self._at(stacklevel)
        return ComptimeVar(f.locals[name] if name in f.locals else f.load_cell(name))

    def _at(self, stacklevel: int) -> Frame:
        f = self._frame
        for _ in range(stacklevel):
            assert f.caller is not None, "[comptime] there are not so many frames"
            f = f.caller
        return f

    def parent(self) -> ComptimeContext:
        return ComptimeContext(self._at(1))

    def graph(self) -> Any:
        return self._frame.out.graph

    def graph_break(self, msg: str = "ComptimeContext.graph_break") -> None:
        raise Unsupported("graph_break", msg)

    def assert_static(self, value: ComptimeVar) -> None:
        assert not value.is_dynamic(), "expected static but got dynamic (run with TORCH_LOGS=dynamic for more info)"

    def print(self, value: Any, *, file: Any = None) -> None:
        print(repr(value), file=file)

    def print_graph(self, *, verbose: bool = True, file: Any = None) -> None:
        print(self.graph().python_code("self").src if verbose else self.graph(), file=file)

    def print_locals(self, *, file: Any = None, stacklevel: int = 0) -> None:
        for name, value in self._at(stacklevel).locals.items():
            print(f"    {name} = {value.realize()!r}", file=file)

    def print_value_stack(self, *, file: Any = None, stacklevel: int = 0) -> None:
        for value in self._at(stacklevel).stack:
            print(f"- {value.realize()!r}", file=file)

    def print_bt(self, *, file: Any = None, stacklevel: int = 0) -> None:
        for place in self._at(stacklevel).user_stack():
            print(str(place), file=file)

    def print_guards(self, *, file: Any = None) -> None:
        print("\n".join(self._frame.out.guards.texts()), file=file)

    def print_disas(self, *, file: Any = None, stacklevel: int = 0) -> None:
        f = self._at(stacklevel)
        for i in f.instructions:
            print(f"{'-->' if i is f.current else '   '} {i.name} {i.arg if i.arg is not None else ''}", file=file)

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class _Comptime:
    """comptime(lambda ctx: ...) runs the function while capturing; comptime.print_graph() and its like do one thing there."""

    def __call__(self, fn: Callable[[ComptimeContext], Any], fallback_fn: Callable[[], Any] = lambda: None) -> None:
        """What is not captured calls `fallback_fn`."""
        fallback_fn()

    def _later(name: str) -> Callable:  # type: ignore[misc]
        def call(self: Any, *args: Any, **kwargs: Any) -> None:
            return None

        call.__name__ = name
        return call

    graph_break = _later("graph_break")
    print = _later("print")
    print_graph = _later("print_graph")
    print_disas = _later("print_disas")
    print_value_stack = _later("print_value_stack")
    print_locals = _later("print_locals")
    print_bt = _later("print_bt")
    print_guards = _later("print_guards")
    assert_static = _later("assert_static")
    force_static = _later("force_static")
    sleep = _later("sleep")
    breakpoint = _later("breakpoint")


comptime = _Comptime()


@known(_Comptime.__call__)
def _call(f: Frame, self: Value, fn: Value, fallback_fn: Value | None = None) -> Value:
    fn = fn.realize()
    if not isinstance(fn, FunctionValue):
        raise Unsupported("call", f"comptime of {fn.describe()}")
    real_function(f, fn, ComptimeVar)(ComptimeContext(f))
    return Constant(None)


def _print(f: Frame, name: str, args: list[Value]) -> Value:
    context = ComptimeContext(f)
    variables = [ComptimeVar(a) for a in args]
    if name == "breakpoint":
        sys.breakpointhook()
    elif name == "force_static":
        variables[0].force_static()
    elif name == "graph_break":
        context.graph_break()
    elif name == "sleep":
        context.sleep(variables[0].as_python_constant())
    else:
        getattr(context, name)(*variables)
    return Constant(None)


def _register(name: str) -> None:
    known(getattr(_Comptime, name))(lambda f, self, *args, **kwargs: _print(f, name, list(args)))


for _name in ("graph_break", "print", "print_graph", "print_disas", "print_value_stack", "print_locals", "print_bt", "print_guards", "assert_static", "force_static", "sleep", "breakpoint"):  # fmt: skip
    _register(_name)
