"""A frame that is executed symbolically: its stack, its variables, and the loop over its instructions."""

from __future__ import annotations

import builtins
import copy
import enum
import functools
import inspect
import os
import types
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NoReturn

from tocha._core.library_name import ours
from tocha._dynamo import build, builtin_calls, construct, draws, modules, operators, polyfills
from tocha._dynamo.bytecode import Body, Handler, Instruction, decode_apart
from tocha._dynamo.calls import bind_arguments
from tocha._dynamo.opcodes import HANDLERS
from tocha._dynamo.refusals import Place, Unsupported
from tocha._dynamo.source import Source
from tocha._dynamo.values.base import NotConstant, Observed, Value
from tocha._dynamo.values.constant import Constant
from tocha._dynamo.values.exceptions import ExceptionValue, StandIn
from tocha._dynamo.values.functions import CellValue, FunctionValue, MethodValue
from tocha._dynamo.values.iterators import GeneratorValue, SequenceIterator
from tocha._dynamo.values.mappings import DictValue
from tocha._dynamo.values.native_method import NativeMethod
from tocha._dynamo.values.objects import MISSING, ClassValue, bind, find_in_class, in_python
from tocha._logging import events

if TYPE_CHECKING:
    from tocha._dynamo.output import Output

MAX_DEPTH = DEFAULT_DEPTH = 60  # nested inlined calls: CPython's own stack carries several frames for each
_GENERATOR = 0x20 | 0x80 | 0x200
_FOUND_AGAIN = (types.FunctionType, classmethod, staticmethod, property, functools._lru_cache_wrapper)
_TRACER = os.path.dirname(__file__) + os.sep
_LIBRARY = os.path.dirname(os.path.dirname(__file__)) + os.sep
_LIBRARIES = ("tocha", "builtins", "collections", "typing", "functools", "enum", "dataclasses", "abc", "contextlib")


def is_of_library(cls: type) -> bool:
    return ours(cls.__module__).split(".")[0] in _LIBRARIES


@functools.lru_cache(maxsize=1024)
def lacks(*names: str) -> Any:
    """A test of classes, the same one for the same names: neither they nor their bases hold any of them."""

    def test(cls: type) -> bool:
        return not any(name in c.__dict__ for c in cls.__mro__ for name in names)

    test.__name__ = f"lacks_{names[0]}"
    return test


class Decoded:
    """A code object's instructions, made once."""

    def __init__(self, code: types.CodeType) -> None:
        self.code = code
        self.body: Body = decode_apart(code)
        self.place = {id(i): k for k, i in enumerate(self.body.instructions)}
        self.handlers: list[Handler | None] = [None] * len(self.body.instructions)
        self.steps = [HANDLERS.get(i.name) for i in self.body.instructions]
        for h in self.body.handlers:
            for k in range(self.place[id(h.start)], self.place[id(h.end)] + 1):
                self.handlers[k] = h


_DECODED: dict[int, Decoded] = {}  # by id: equal code objects may come from different lines


def decoded(code: types.CodeType) -> Decoded:
    if id(code) not in _DECODED:
        if len(_DECODED) >= 4096:
            forget_decoded()
        _DECODED[id(code)] = Decoded(code)
    return _DECODED[id(code)]


def forget_decoded() -> None:
    _DECODED.clear()


def _takes(function: Any, f: Frame, args: list[Any], kwargs: dict[str, Any]) -> bool:
    try:
        inspect.signature(function).bind(f, *args, **kwargs)
    except TypeError:
        return False
    return True


class Frame:
    def __init__(self, out: Output, code: types.CodeType, globals_: dict, caller: Frame | None) -> None:
        self.out, self.code, self.globals, self.caller = out, code, globals_, caller
        self.decoded = decoded(code)
        self.instructions = self.decoded.body.instructions
        self.locals: dict[str, Value] = {}
        self.cells: dict[str, CellValue] = {}
        self.stack: list[Value] = []
        self.ip = 0
        self.current: Instruction | None = None
        self.keyword_names: tuple[str, ...] = ()
        self.handling: list[Value] = []  # exceptions being handled, the innermost last
        self.names: dict[str, Value] | None = None  # of a class body
        self.depth: int = caller.depth + 1 if caller else 0
        self.function: FunctionValue | None = None
        out.scopes.setdefault(id(globals_), globals_)

    # ---- the loop

    def run(self) -> tuple[str, Value]:
        """Until it returns or yields."""
        out, instructions, handlers = self.out, self.instructions, self.decoded.steps
        while True:
            at = self.ip
            self.current = instruction = instructions[at]
            self.ip = at + 1
            out.steps += 1
            if out.steps > out.step_limit:
                out.check_steps()
            if events.STEPS:
                events.step(self, instruction)
            handler = handlers[at]
            if handler is None:
                raise Unsupported("opcode", f"instruction {instruction.name}")
            try:
                done = handler(self, instruction)
            except Observed as raised:
                if not self.unwind(raised.value):
                    raise
                continue
            if done is not None:
                return done

    def unwind(self, error: Value) -> bool:
        """Goes on at the handler of an exception, if there is one."""
        at = self.ip - 1 if self.current is self.instructions[self.ip - 1] else self.decoded.place[id(self.current)]
        handler = self.decoded.handlers[at]
        if handler is None:
            return False
        error.raised = True  # type: ignore[attr-defined]
        del self.stack[handler.depth :]
        if handler.lasti:
            self.push(Constant(self.current.offset // 2 if self.current else 0))
        self.push(error)
        self.jump(handler.target)
        return True

    def jump(self, target: Instruction | None) -> None:
        self.ip = self.decoded.place[id(target)]

    def push(self, value: Value) -> None:
        self.stack.append(value)

    def pop(self) -> Value:
        return self.stack.pop().realize()

    def pop_many(self, count: int) -> list[Value]:
        if count == 0:
            return []
        items = [v.realize() for v in self.stack[-count:]]
        del self.stack[-count:]
        return items

    def top(self) -> Value:
        return self.stack[-1].realize()

    @property
    def line(self) -> int:
        positions = self.current.positions if self.current else None
        return positions[0] or self.code.co_firstlineno if positions else self.code.co_firstlineno

    def user_stack(self) -> list[Place]:
        above = self.caller.user_stack() if self.caller else []
        return [*above, Place(self.code.co_filename, self.line, self.code.co_name)]

    @property
    def stack_text(self) -> str:
        return "".join(f"{p.with_code}\n" for p in self.user_stack())

    # ---- values from outside

    def wrap(self, real: Any, source: Source | None) -> Value:
        return build.wrap(self, real, source)

    def wrap_known(self, real: Any) -> Value:
        """An object that captured code got hold of and that cannot change behind its back."""
        return build.wrap(self, real, None)

    def wrap_class_of(self, value: Any) -> Value:
        return ClassValue(value.python_type(), value.source.type() if value.source else None)

    def class_source(self, cls: type, holder: type | None, name: str, found: Any) -> Source | None:
        """Where a class attribute is found again: those of user classes may be replaced, and the forward of any module."""
        if holder is None or (is_of_library(holder) and name != "forward"):
            return None
        source = Source("object", cls, None, cls.__qualname__).attribute(name)
        if isinstance(found, property):
            self.out.guards.add(source, "same", found)
        if isinstance(found, _FOUND_AGAIN) or not hasattr(type(found), "__get__"):
            return source
        if in_python(type(found)):  # a descriptor: reading it from the class would ask it
            return Source("object", holder, None, holder.__qualname__).attribute("__dict__").item(name)
        return None

    def class_place(self, cls: type, name: str) -> Source | None:
        """Where an attribute that every class has is found."""
        return None if is_of_library(cls) else Source("object", cls, None, cls.__qualname__).attribute(name)

    def class_function(self, cls: type, name: str) -> Value | None:
        """A function that the interpreter itself looks for in a class; None where there is none, or a native one."""
        found, holder = find_in_class(cls, name)
        if not isinstance(found, types.FunctionType):
            return None
        return self.wrap(found, self.class_source(cls, holder, name, found))

    def guard_missing(self, cls: type, *names: str) -> None:
        """Neither the class nor a base has these attributes."""
        if not is_of_library(cls):
            self.out.guards.add(Source("object", cls, None, cls.__qualname__), "holds", lacks(*names))

    def attribute_of_class(self, value: Value, cls: type, name: str) -> Value | None:
        """A Python method or property of a class, bound; None where it is native or missing."""
        found, holder = find_in_class(cls, name)
        if isinstance(found, _FOUND_AGAIN):
            return bind(self, found, value, cls, self.class_source(cls, holder, name, found))
        if found is MISSING or callable(found) or hasattr(type(found), "__get__"):
            return None
        return self.wrap(found, self.class_source(cls, holder, name, found))

    def wrap_constant_attribute(self, owner: Constant, name: str) -> Value:
        cls = type(owner.value)
        held, holder = find_in_class(cls, name)
        if isinstance(owner.value, enum.Enum) and isinstance(held, types.FunctionType | property) and type(held).__module__ == "builtins":  # fmt: skip
            return bind(self, held, owner, cls, self.class_source(cls, holder, name, held))
        try:
            found = getattr(owner.value, name)
        except AttributeError as e:
            self.raise_real(e)
        if isinstance(found, types.MethodType):
            return MethodValue(self.wrap(found.__func__, None), owner)
        if isinstance(found, types.BuiltinFunctionType | types.MethodWrapperType):
            return NativeMethod(owner, name)
        return self.wrap_known(found)

    # ---- constants

    def fold(self, function: Any, args: list[Value], kwargs: dict[str, Value]) -> Any:
        """Calls a pure function of constants."""
        try:
            plain = [a.constant() for a in args]
            named = {k: v.constant() for k, v in kwargs.items()}
        except NotConstant:
            raise Unsupported("builtin", f"{getattr(function, '__qualname__', function)} of {[a.describe() for a in args]}") from None  # fmt: skip
        changeable = [(p, v, copy.copy(p)) for p, v in zip(plain, args) if type(p) in (list, dict, set, bytearray)]
        try:
            result = function(*plain, **named)
        except Exception as error:
            self.raise_real(error)
        for p, v, before in changeable:
            if p != before:  # what it changed is a copy of what the program has
                raise Unsupported("mutation", f"{getattr(function, '__qualname__', function)} of {v.describe()}")
            if result is p:
                return v
        return self.wrap_known(result)

    def fold_real(self, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        try:
            result = function(*args, **kwargs)
        except Exception as error:
            self.raise_real(error)
        return self.wrap_known(result)

    def checked(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Runs the tracer's own code for a native one: its TypeErrors are the program's."""
        try:
            return function(*args, **kwargs)
        except (TypeError, ValueError, IndexError, KeyError, OverflowError, MemoryError) as error:
            self.raise_real(error)

    def handled(self, real: Any, handler: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """A call of a native function by the tracer's own code for it; arguments that this does not take are for the function itself."""
        try:
            return handler(self, *args, **kwargs)
        except (TypeError, ValueError, IndexError, KeyError, OverflowError, MemoryError) as error:
            if type(error) is TypeError and not _takes(handler, self, args, kwargs):
                return self.fold(real, args, kwargs)
            self.raise_real(error)

    def index(self, key: Value) -> Any:
        """An index of a sequence."""
        try:
            at = key.constant()
        except NotConstant:
            if key.has_method("__index__") and not hasattr(key, "fact"):
                return key.call_method(self, "__index__", [], {}).constant()
            raise Unsupported("tensor_to_python", f"{key.describe()} as an index") from None
        if not hasattr(at, "__index__") and not isinstance(at, slice):
            self.raise_(TypeError, f"list indices must be integers or slices, not {type(at).__name__}")
        return at if isinstance(at, slice) else at.__index__()

    # ---- exceptions

    def make_exception(self, cls: type, *args: Any, **named: Any) -> ExceptionValue:
        made = ExceptionValue(cls, [a if isinstance(a, Value) else Constant(a) for a in args])
        made.named = {k: v if isinstance(v, Value) else Constant(v) for k, v in named.items()}
        made.from_below = True
        return made

    def generator_stopped(self, stop: Any) -> ExceptionValue:
        """What leaves a generator in the place of a StopIteration."""
        made = self.make_exception(RuntimeError, "generator raised StopIteration")
        made.written |= {"__cause__": stop, "__context__": stop, "__suppress_context__": Constant(True)}
        return made

    def raise_(self, cls: type, *args: Any, **named: Any) -> NoReturn:
        value = self.make_exception(cls, *args, **named)
        active = self.active_exception()
        if active is not None:
            value.set_context(active)
        raise Observed(value)

    def active_exception(self) -> Any:
        """What is being handled, here or in a caller."""
        frame: Frame | None = self
        while frame is not None and not frame.handling:
            frame = frame.caller
        return frame.handling[-1] if frame is not None else None

    def raise_real(self, error: Exception) -> NoReturn:
        if isinstance(error, (Unsupported, Observed)):
            raise error
        try:
            args = [self.wrap_known(a) for a in error.args]
        except Unsupported:
            args = [Constant(str(error))]
        value = ExceptionValue(type(error), args)
        value.from_below = True
        value.stand_in = StandIn.of_real(error)
        active = self.active_exception()
        if active is not None:
            value.set_context(active)
        raise Observed(value)

    def as_exception(self, value: Value) -> Any:
        """What `raise value` raises."""
        value = value.realize()
        if isinstance(value, ClassValue) and issubclass(value.value, BaseException):
            value = value.call(self, [], {})
        if not isinstance(value, ExceptionValue):
            self.raise_(TypeError, "exceptions must derive from BaseException")
        return value

    # ---- operators that several opcodes share

    def contains(self, container: Value, item: Value) -> bool:
        return operators.contains(self, container, item)

    def same_or_equal(self, a: Value, b: Value) -> bool:
        a, b = a.realize(), b.realize()
        return operators.is_same(a, b) or operators.compare(self, "==", a, b).truth(self)

    def sort(self, items: list[Value], key: Value | None, reverse: bool) -> list[Value]:
        return operators.sort(self, items, key, reverse)

    def format_string(self, text: str, how: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return operators.format_string(self, text, how, args, kwargs)

    def shown(self, value: Value) -> Any:
        """The value itself where it is known, else something that prints as it does."""
        return operators.plain_or_shown(self, value)

    # ---- what values ask for that lies above them

    def call_builtin(self, function: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return builtin_calls.call_builtin(self, function, args, kwargs)

    def call_native_method(self, owner: Value, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return builtin_calls.call_native_method(self, owner, name, args, kwargs)

    def call_class(self, cls: ClassValue, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return construct.call_class(self, cls, args, kwargs)

    def iterator(self, items: list[Value], cls: type) -> Value:
        return SequenceIterator(items, cls)

    def new_dict(self, pairs: Iterable[tuple[str, Value]]) -> Value:
        made = DictValue({})
        for name, value in pairs:
            made.put(self, Constant(name), value)
        return made

    # ---- names

    def load_global(self, name: str) -> Value:
        if name in self.globals or (id(self.globals), name) in self.out.global_writes:
            return self.load_from(self.globals, name)
        if hasattr(builtins, name):
            if not self.code.co_filename.startswith(_LIBRARY):
                self.guard_builtin(name)
            return self.wrap_known(getattr(builtins, name))
        for scope, shown in (
            (self.globals, f"globals of {self.globals.get('__name__')}"),
            (builtins.__dict__, "builtins"),
        ):
            self.out.guards.add(Source("object", scope, None, shown), "without", name)
        self.raise_(NameError, f"name '{name}' is not defined", name=name)

    def load_from(self, scope: dict, name: str) -> Value:
        """A name of these globals, which has a value."""
        written = self.out.global_writes.get((id(scope), name))
        return written if written is not None else self.wrap(scope[name], self.source_in(scope, name))

    def guard_builtin(self, name: str) -> None:
        """No global hides it, nobody has replaced it."""
        shown = f"globals of {self.globals.get('__name__')}"
        self.out.guards.add(Source("object", self.globals, None, shown), "without", name)
        scope = Source("object", builtins.__dict__, None, "builtins")
        self.out.guards.add(scope.dict_item(name), "same", getattr(builtins, name))

    def source_in(self, scope: dict, name: str) -> Source:
        if scope is self.out.globals:
            return Source("global", name)
        return Source("dict_item", name, Source("object", scope, None, f"globals of {scope.get('__name__')}"))

    def load_cell(self, name: str) -> Value:
        contents = self.cells[name].contents
        if contents is None:
            free = name in self.code.co_freevars
            if free:
                self.raise_(NameError, f"cannot access free variable '{name}' where it is not associated with a value in enclosing scope")  # fmt: skip
            self.raise_(
                UnboundLocalError, f"cannot access local variable '{name}' where it is not associated with a value"
            )
        return contents

    # ---- calls

    def call_function(self, function: FunctionValue, args: list[Value], kwargs: dict[str, Value]) -> Value:
        """Inlines a Python function, or makes a generator of it."""
        drawn = draws.name_of(function.real)
        if drawn is not None and args and not kwargs:
            return draws.draw(self, drawn, args[0].realize(), [a.realize() for a in args[1:]])
        other = polyfills.replaced(self, function, args, kwargs)
        if other is None and function.real is not None:
            other = modules.shortened(self, function.real, args, kwargs)
        return other if other is not None else self.inline(function, args, kwargs)

    def inline(
        self, function: FunctionValue, args: list[Value], kwargs: dict[str, Value], made_by: Any = None
    ) -> Value:
        if self.depth >= MAX_DEPTH:
            raise Unsupported("recursion", f"{MAX_DEPTH} nested calls")
        if function.real is not None:
            logged = builtin_calls.log_call(self, function.real, function, args, kwargs)
            if logged is not None:
                return logged
        code = function.code
        frame = Frame(self.out, code, function.globals, self)
        frame.function = function
        bind_arguments(self, frame, function, args, kwargs)
        for name in code.co_cellvars:
            frame.cells[name] = self.out.new_cell(frame.locals.pop(name, None), name)
        frame.cells.update(zip(code.co_freevars, function.cells))
        if code.co_flags & _GENERATOR:
            if code.co_flags & (0x80 | 0x200):
                raise Unsupported("opcode", "a coroutine")
            return GeneratorValue(frame, made_by or (function, args, kwargs))
        try:
            return frame.run()[1]
        except Unsupported as refused:
            refused.stack = refused.stack or frame.user_stack()
            raise
        except Observed as raised:
            frame.passed_by(raised.value)
            raise

    def is_protected(self) -> bool:
        """Does the place where it stands have a handler of the program's own?"""
        return self._has_handler(self.ip - 1)

    def closes_quietly(self) -> bool:
        """Would GeneratorExit, raised where it stands, leave it without running anything of the program's?"""
        at: int | None = self.ip - 1
        while at is not None and self._has_handler(at):
            handler = self.decoded.handlers[at]
            assert handler is not None
            at = self.decoded.place[id(handler.target)]
            if (
                handler.target.name == "CLEANUP_THROW"
            ):  # of `yield from`: raised again, the generator below was asked itself
                continue
            at = self._reraised_at(at)
            if at is None:
                return False
        return True

    def _has_handler(self, at: int) -> bool:
        handler = self.decoded.handlers[at]
        return handler is not None and handler.target.name != "CALL_INTRINSIC_1"  # which every generator has, from 3.12

    def _reraised_at(self, at: int) -> int | None:
        """Follows a handler that only asks whether the exception is another one, to where it goes on; None if it does more."""
        asked: Any = None
        while True:
            i = self.instructions[at]
            if i.name == "LOAD_GLOBAL":
                name = self.code.co_names[i.arg >> 1]
                asked = self.globals.get(name, getattr(builtins, name, None))
            elif i.name == "CHECK_EXC_MATCH":
                if not isinstance(asked, type) or issubclass(GeneratorExit, asked):
                    return None
            elif i.name == "RERAISE":
                return at
            elif i.target is not None and "IF_FALSE" in i.name:
                at = self.decoded.place[id(i.target)]
                continue
            elif i.name not in ("PUSH_EXC_INFO", "COPY", "POP_EXCEPT", "NOP"):
                return None
            at += 1

    def passed_by(self, error: Any) -> None:
        """An exception left this frame: its traceback would show it, unless the frame stands for native code."""
        error.left = error.left or self
        if not self.code.co_filename.startswith(_TRACER):
            error.from_below = True

    def resume_generator(self, error: Any = None) -> tuple[bool, Value]:
        """Runs a generator's frame to its next yield (True) or its end (False)."""
        if error is not None:
            self.current = self.instructions[self.ip - 1]
            if not self.unwind(error):
                raise Observed(error)
        kind, value = self.run()
        return kind == "yield", value
