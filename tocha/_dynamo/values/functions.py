"""Functions: Python's own, bound methods, native ones, partials; and the cells of closures."""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tocha._dynamo.refusals import Unsupported
from tocha._dynamo.source import Source
from tocha._dynamo.values.base import NotConstant, Value
from tocha._dynamo.values.constant import Constant
from tocha._dynamo.values.containers import TupleValue
from tocha._dynamo.values.lazy import Lazy
from tocha._dynamo.values.mappings import DictValue
from tocha._dynamo.values.native_method import NativeMethod

if TYPE_CHECKING:
    from tocha._dynamo.codegen import Codegen
    from tocha._dynamo.frame import Frame


class CellValue(Value):
    """A cell of a closure. `load_cell` pushes the real one, where there is one."""

    has_identity = True

    def __init__(self, contents: Value | None, source: Any = None, name: str = "") -> None:
        self.contents, self.source, self.name = contents, source, name

    def python_type(self) -> type:
        return types.CellType

    def get_attribute(self, f: Frame, name: str) -> Value:
        if name == "cell_contents":
            if self.contents is None:
                f.raise_(ValueError, "Cell is empty")
            return self.contents.realize()
        return super().get_attribute(f, name)

    def set(self, f: Frame, value: Value | None) -> None:
        f.out.effects.add(self)
        self.contents = value

    def parts(self) -> list[Value]:
        return [self.contents] if self.contents is not None else []

    def reconstruct(self, cg: Codegen) -> None:
        """The cell itself, empty: what it holds is set when everything has been made."""
        cg.start_call(types.CellType)
        cg.end_call(0)
        cg.fill_later(self)

    def apply(self, cg: Codegen) -> None:
        if self.contents is None:
            cg.load(self)
            cg.delete_attribute("cell_contents")
            return
        cg.load(self.contents)
        cg.load(self)
        cg.store_attribute("cell_contents")


class Callable_(Value):
    has_identity = True

    def python_type(self) -> type:
        return types.FunctionType

    def truth(self, f: Frame) -> bool:
        return True

    def hash_key(self, f: Frame) -> Any:
        real = getattr(self, "real", None)
        if self.source is not None and real is not None:
            f.out.guards.add(self.source.call(id), "constant", id(real))  # another one may be another key
        return ("function", id(self))


class FunctionValue(Callable_):
    """A Python function. One from outside has `real`; one made by captured code has what MAKE_FUNCTION was given."""

    def __init__(
        self,
        code: types.CodeType,
        globals_: dict,
        *,
        name: str,
        defaults: list[Value],
        kwdefaults: dict[str, Value],
        cells: list[CellValue],
        source: Any = None,
        real: types.FunctionType | None = None,
    ) -> None:
        self.code, self.globals, self.name = code, globals_, name
        self.defaults, self.kwdefaults, self.cells = defaults, kwdefaults, cells
        self.source, self.real = source, real
        self.attributes: dict[str, Value] = {}

    def __repr__(self) -> str:
        return f"Function({self.name})"

    def constant(self) -> Any:
        if self.real is None:
            return super().constant()
        return self.real

    def call(self, f: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if getattr(self.real, "_dynamo_marked_constant", False):
            return _assumed(f, self.real, args, kwargs)
        return f.call_function(self, args, kwargs)

    def get_attribute(self, f: Frame, name: str) -> Value:
        if name in self.attributes:
            return self.attributes[name]
        if name in ("__name__", "__qualname__"):
            return Constant(getattr(self.real, name) if self.real else self.name.split(".")[-1] if name == "__name__" else self.name)  # fmt: skip
        if name == "__code__":
            return f.wrap_known(self.code)
        if name == "__get__":
            return Bound(f, self)
        if name == "__defaults__" and self.real is None:
            return TupleValue(list(self.defaults)) if self.defaults else Constant(None)
        if name == "__kwdefaults__" and self.real is None:
            return f.new_dict(list(self.kwdefaults.items())) if self.kwdefaults else Constant(None)
        if name == "__closure__":
            return TupleValue(list(self.cells)) if self.cells else Constant(None)
        if self.real is not None and hasattr(self.real, name):
            return f.wrap(getattr(self.real, name), self.source.attribute(name) if self.source else None)
        if name == "__annotations__":
            self.attributes[name] = f.new_dict([])
            return self.attributes[name]
        if name == "__module__":
            return Constant(self.globals.get("__name__"))
        if name == "__doc__":
            first = next(iter(self.code.co_consts), None)
            has = isinstance(first, str) and (sys.version_info < (3, 14) or bool(self.code.co_flags & 0x4000000))
            return Constant(first if has else None)
        if name == "__dict__":
            return FunctionDict(self)
        if self.real is not None and self.source is not None:
            f.out.guards.add(self.source.attribute("__dict__"), "without", name)
        f.raise_(AttributeError, f"'function' object has no attribute '{name}'")

    def set_attribute(self, f: Frame, name: str, value: Value) -> None:
        f.out.effects.add(self)
        self.attributes[name] = value

    def call_method(self, f: Frame, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name == "__call__":
            return self.call(f, args, kwargs)
        if name == "__get__":
            return self if args[0].is_constant() and args[0].constant() is None else MethodValue(self, args[0])
        return super().call_method(f, name, args, kwargs)

    def parts(self) -> list[Value]:
        return list(self.attributes.values())

    def reconstruct(self, cg: Codegen) -> None:
        if self.real is not None:
            cg.load_constant(self.real)
            return
        cg.start_call(_make_function)
        cg.load_constant(self.code)
        cg.load_constant(self.globals)
        cg.load_constant(self.name)
        cg.load(TupleValue(list(self.defaults)))
        for k, v in self.kwdefaults.items():
            cg.load_constant(k)
            cg.load(v)
        cg.emit("BUILD_MAP", len(self.kwdefaults))
        cg.build("BUILD_TUPLE", list(self.cells))
        cg.end_call(6)
        if self.attributes:
            cg.fill_later(self)

    def apply(self, cg: Codegen) -> None:
        for name, value in self.attributes.items():
            cg.load(value)
            cg.load(self)
            cg.store_attribute(name)


_SPECIAL = frozenset({
    "__name__", "__qualname__", "__doc__", "__module__", "__annotations__", "__defaults__", "__kwdefaults__", "__code__", "__type_params__", "__builtins__",
})  # fmt: skip


class FunctionDict(Value):
    """The __dict__ of a function made by captured code: what decorators hand on (functools.wraps)."""

    def __init__(self, owner: FunctionValue) -> None:
        self.owner = owner

    def python_type(self) -> type:
        return dict

    def as_dict(self, f: Frame) -> Value:
        return f.new_dict([(k, v) for k, v in self.owner.attributes.items() if k not in _SPECIAL])

    def length(self, f: Frame) -> int:
        return self.as_dict(f).length(f)

    def iterate(self, f: Frame) -> Value:
        return self.as_dict(f).iterate(f)

    def unpack(self, f: Frame) -> list[Value]:
        return self.as_dict(f).unpack(f)

    def item(self, f: Frame, key: Value) -> Value:
        return self.as_dict(f).item(f, key)

    def set_item(self, f: Frame, key: Value, value: Value) -> None:
        self.owner.set_attribute(f, key.constant(), value)

    def get_attribute(self, f: Frame, name: str) -> Value:
        return NativeMethod(self, name)

    def call_method(self, f: Frame, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name == "update" and len(args) <= 1:
            given = args[0].realize() if args else f.new_dict([])
            for key in given.unpack(f):
                self.set_item(f, key.realize(), given.item(f, key.realize()))
            for k, v in kwargs.items():
                self.owner.set_attribute(f, k, v)
            return Constant(None)
        if name in ("get", "items", "keys", "values", "copy", "__contains__", "__len__", "__iter__", "__getitem__"):
            return self.as_dict(f).call_method(f, name, args, kwargs)
        self.refuse("mutation", f"{name} of a function's __dict__")


def _make_function(
    code: types.CodeType, globals_: dict, name: str, defaults: tuple, kwdefaults: dict, cells: tuple
) -> Any:
    made = types.FunctionType(code, globals_, name.split(".")[-1], defaults or None, cells)
    made.__qualname__ = name
    if kwdefaults:
        made.__kwdefaults__ = kwdefaults
    return made


class Bound(Callable_):
    """function.__get__"""

    def __init__(self, f: Frame, function: Value) -> None:
        self.function = function

    def call(self, f: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return self.function.call_method(f, "__get__", args, kwargs)


class MethodValue(Callable_):
    """A callable with its first argument."""

    def __init__(self, function: Value, owner: Value, source: Any = None) -> None:
        self.function, self.owner, self.source = function, owner, source

    def python_type(self) -> type:
        return types.MethodType

    def call(self, f: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return self.function.call(f, [self.owner, *args], kwargs)

    def get_attribute(self, f: Frame, name: str) -> Value:
        if name == "__self__":
            return self.owner
        if name == "__func__":
            return self.function
        return self.function.get_attribute(f, name)

    def hash_key(self, f: Frame) -> Any:
        owner = self.owner.realize()
        real = getattr(owner, "real", None)
        if owner.source is not None and real is not None:  # methods are equal if they are of one object
            f.out.guards.add(owner.source.call(id), "constant", id(real))
        self.function.hash_key(f)  # guards which it is
        return ("method", id(self.function), id(owner))

    def reconstruct(self, cg: Codegen) -> None:
        cg.start_call(types.MethodType)
        cg.load(self.function)
        cg.load(self.owner)
        cg.end_call(2)


class WholeFunction(Callable_):
    """A function that was compiled with fullgraph: no graph breaks in it, nor in a function that calls it."""

    def __init__(self, function: Value, source: Any) -> None:
        self.function, self.source = function, source

    def call(self, f: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
        env, whole = f.out.env, f.out.whole
        allowed = env.allow_scalar_outputs, env.allow_dynamic_output_shape_ops
        f.out.whole = env.allow_scalar_outputs = env.allow_dynamic_output_shape_ops = True
        result = self.function.call(f, args, kwargs)
        f.out.whole = whole
        env.allow_scalar_outputs, env.allow_dynamic_output_shape_ops = allowed
        return result

    def get_attribute(self, f: Frame, name: str) -> Value:
        return self.function.get_attribute(f, name)


class BuiltinValue(Callable_):
    """A native function or method descriptor, or a leaf of the graph."""

    has_identity = False

    def __init__(self, value: Any, source: Any = None) -> None:
        self.value, self.source = value, source

    def __repr__(self) -> str:
        return f"Builtin({self.value!r})"

    def python_type(self) -> type:
        return type(self.value)

    def constant(self) -> Any:
        return self.value

    def call(self, f: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return f.call_builtin(self.value, args, kwargs)

    def get_attribute(self, f: Frame, name: str) -> Value:
        try:
            found = getattr(self.value, name)
        except AttributeError as e:
            f.raise_(AttributeError, *e.args)
        return f.wrap_known(found)

    def call_method(self, f: Frame, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name == "__call__":
            return self.call(f, args, kwargs)
        if name == "__get__":
            return MethodValue(self, args[0])
        return super().call_method(f, name, args, kwargs)

    def hash_key(self, f: Frame) -> Any:
        return self.value

    def reconstruct(self, cg: Codegen) -> None:
        cg.load_constant(self.value)


class PartialValue(Callable_):
    def __init__(self, function: Value, args: list[Value], kwargs: dict[str, Value], source: Any = None, real: Any = None) -> None:  # fmt: skip
        self.function, self.args, self.kwargs, self.source, self.real = function, args, kwargs, source, real
        self.written: dict[
            str, Value
        ] = {}  # attributes of one that captured code made: functools.partialmethod's __self__

    def python_type(self) -> type:
        return functools.partial

    def call(self, f: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return self.function.call(f, [*self.args, *args], {**self.kwargs, **kwargs})

    def get_attribute(self, f: Frame, name: str) -> Value:
        if name == "func":
            return self.function
        if name == "args":
            return TupleValue(list(self.args))
        if name == "keywords":
            return DictValue({k: (Constant(k), v) for k, v in self.kwargs.items()})
        if name in self.written:
            return self.written[name].realize()
        if name in getattr(self.real, "__dict__", ()):
            return f.wrap(self.real.__dict__[name], self.source.attribute(name) if self.source else None)
        if self.source is not None:
            f.out.guards.add(self.source.attribute("__dict__"), "without", name)
        if not self.has_method(name):  # what type itself answers, names and annotations, is the class's own
            f.raise_(AttributeError, f"'functools.partial' object has no attribute '{name}'", name=name, obj=self)
        if name in ("__doc__", "__module__"):
            return Constant(getattr(functools.partial, name))
        return f.wrap_known(functools.partial) if name == "__class__" else NativeMethod(self, name)

    def call_method(self, f: Frame, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name == "__call__":
            return self.call(f, args, kwargs)
        found = self.get_attribute(f, name)
        return f.call_native_method(self, name, args, kwargs) if isinstance(found, NativeMethod) and found.owner is self else found.call(f, args, kwargs)  # fmt: skip

    def set_attribute(self, f: Frame, name: str, value: Value) -> None:
        if self.source is not None or name in ("func", "args", "keywords"):
            super().set_attribute(f, name, value)
        self.written[name] = value

    def reconstruct(self, cg: Codegen) -> None:
        if self.written:
            raise Unsupported(
                "mutation", f"a partial with attributes ({', '.join(self.written)}) that leaves captured code"
            )
        cg.call_values(BuiltinValue(functools.partial), [self.function, *self.args], self.kwargs)


def real_function(f: Frame, value: Value, stand_in: Callable[[Value], Any] | None = None) -> Callable[..., Any]:
    """The function itself, or one made of its code and what its closure holds; values that captured code made have a
    stand-in, or cannot be held."""
    if isinstance(value, BuiltinValue):
        return value.value
    if isinstance(value, PartialValue):
        args = [_held(f, a, stand_in) for a in value.args]
        kwargs = {k: _held(f, v, stand_in) for k, v in value.kwargs.items()}
        return functools.partial(real_function(f, value.function.realize(), stand_in), *args, **kwargs)
    if not isinstance(value, FunctionValue):
        raise Unsupported("call", f"{value.describe()}, to be called outside of captured code")
    if value.real is not None:
        if stand_in is None and value.source is not None:
            f.out.guards.add(value.source, "same", value.real)
        return value.real
    if value.defaults or value.kwdefaults:
        raise Unsupported("call", "a function with defaults, to be called outside of captured code")
    closure = tuple(types.CellType(_held(f, cell.contents, stand_in)) for cell in value.cells)
    return types.FunctionType(value.code, value.globals, value.code.co_name, None, closure)


def _assumed(f: Frame, function: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """What a function that is marked by assume_constant_result returns now. Nothing that it reads is guarded."""

    def refuse(value: Value) -> Any:
        raise Unsupported("value", f"{value.describe()}, given to {function.__qualname__} whose result is assumed to be constant")  # fmt: skip

    given = [_held(f, a, refuse) for a in args]
    named = {k: _held(f, v, refuse) for k, v in kwargs.items()}
    try:
        result = function(*given, **named)
    except Exception as error:
        f.raise_real(error)
    return f.wrap(result, Source("object", result, None, function.__qualname__))


def _held(f: Frame, value: Value | None, stand_in: Callable[[Value], Any] | None) -> Any:
    """The object of the program that a value stands for."""
    if value is None:
        raise Unsupported("value", "a variable without a value in a closure")
    if isinstance(value, Lazy) and stand_in is not None:
        return value.real  # and nothing is guarded
    value = value.realize()
    for real, known in f.out.memo.values():
        if known is value:
            if stand_in is None and value.source is not None:
                f.out.guards.add(value.source, "same", real)
            return real
    if isinstance(value, FunctionValue | PartialValue | BuiltinValue):
        return real_function(f, value, stand_in)
    try:
        return value.constant()
    except NotConstant:
        pass
    if stand_in is None:
        raise Unsupported("value", f"{value.describe()} in the closure of a function that is called outside of captured code")  # fmt: skip
    return stand_in(value)
