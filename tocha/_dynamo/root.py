"""The frame that is being replaced: captured until it returns, raises, or has to break."""

from __future__ import annotations

import dis
import types
from collections.abc import Callable
from typing import Any

from tocha import _C
from tocha._dynamo import config
from tocha._dynamo.bytecode import VERSION, Body, Handler, Instruction, assemble, stack_size
from tocha._dynamo.codegen import Codegen, code_flags
from tocha._dynamo.frame import Frame
from tocha._dynamo.opcodes import HANDLERS
from tocha._dynamo.output import Output
from tocha._dynamo.refusals import Escapes, SkipFrame, Unsupported
from tocha._dynamo.resume import (  # fmt: skip
    FIRST,
    HELD,
    Resumption,
    cells_of,
    first_argument,
    in_loop,
    live_locals,
    resume_code,
    shows_locals,
)
from tocha._dynamo.source import argument, free_variable
from tocha._dynamo.values.base import NULL, NotConstant, Observed, Value
from tocha._dynamo.values.exceptions import ExceptionValue
from tocha._dynamo.values.functions import _make_function
from tocha._dynamo.values.lazy import Lazy
from tocha._dynamo.values.symbol import SymbolValue
from tocha._logging import events
from tocha.fx._lazy_graph_module import _LazyGraphModule

# How many values an instruction takes from the stack; the rest stays below and is not touched.
_TAKES = {
    "BINARY_OP": 2, "BINARY_SUBSCR": 2, "COMPARE_OP": 2, "CONTAINS_OP": 2, "IS_OP": 2, "STORE_SUBSCR": 3, "DELETE_SUBSCR": 2, "BINARY_SLICE": 3, "STORE_SLICE": 4,
    "LOAD_ATTR": 1, "LOAD_METHOD": 1, "STORE_ATTR": 2, "DELETE_ATTR": 1, "LOAD_SUPER_ATTR": 3, "GET_ITER": 1, "UNPACK_SEQUENCE": 1, "UNPACK_EX": 1,
    "UNARY_NOT": 1, "UNARY_NEGATIVE": 1, "UNARY_INVERT": 1, "UNARY_POSITIVE": 1, "TO_BOOL": 1, "IMPORT_NAME": 2, "IMPORT_FROM": 1, "LOAD_GLOBAL": 0, "LOAD_CONST": 0,
    "BEFORE_WITH": 1, "FORMAT_SIMPLE": 1, "FORMAT_WITH_SPEC": 2, "CONVERT_VALUE": 1, "STORE_GLOBAL": 1, "DELETE_GLOBAL": 0, "LOAD_BUILD_CLASS": 0, "GET_LEN": 1,
    "LOAD_DEREF": 0, "LOAD_FAST": 0, "STORE_DEREF": 1, "STORE_FAST": 1, "LOAD_NAME": 0, "LOAD_ASSERTION_ERROR": 0, "CALL_INTRINSIC_1": 1, "GET_YIELD_FROM_ITER": 1,
}  # fmt: skip


def _takes(i: Instruction) -> int | None:
    match i.name:
        case "CALL":
            return i.arg + 2
        case "CALL_KW":
            return i.arg + 3
        case "CALL_FUNCTION_EX":
            return 3 + (i.arg & 1)
        case "FORMAT_VALUE":
            return 2 if i.arg & 4 else 1
        case "BUILD_STRING" | "BUILD_TUPLE" | "BUILD_LIST" | "BUILD_SET" | "BUILD_SLICE" | "RAISE_VARARGS":
            return i.arg
        case "BUILD_MAP":
            return 2 * i.arg
        case "LIST_EXTEND" | "SET_UPDATE" | "DICT_UPDATE" | "DICT_MERGE" | "LIST_APPEND" | "SET_ADD":
            return 1 + i.arg
    return _TAKES.get(i.name)


class RootFrame(Frame):
    def __init__(self, out: Output, code: types.CodeType, globals_: dict, args: tuple, closure: tuple | None) -> None:
        super().__init__(out, code, globals_, None)
        out.root = self
        self.break_at: int | None = None
        self.count = 0
        self.refused: Unsupported | None = None
        for i, (name, value) in enumerate(zip(out.arguments, args)):
            self.locals[name] = self._argument(i, name, value)
        for name in code.co_cellvars:
            self.cells[name] = out.new_cell(self.locals.pop(name, None), name)
        for i, (name, cell) in enumerate(zip(code.co_freevars, closure or ())):
            self.cells[name] = out.cell_of(self, cell, free_variable(i, name), name)

    def _argument(self, i: int, name: str, value: Any) -> Value:
        """*args and **kwargs are made anew for each call: no identity to keep, no length to guard before it is asked."""
        return Lazy(self, value, argument(i, name))

    def release(self) -> None:
        """Nothing of this capture keeps the program's objects alive."""
        self.locals.clear()
        self.cells.clear()
        self.stack.clear()
        self.handling.clear()
        self.out.release()

    def run(self) -> tuple[str, Value]:
        try:
            return self._run()
        except NotConstant as unknown:
            refused = Unsupported("value", f"a constant was needed, not {unknown}")
            refused.stack = self.user_stack()
            raise refused from None
        except Unsupported as refused:
            refused.stack = refused.stack or self.user_stack()
            raise

    def _run(self) -> tuple[str, Value]:
        while True:
            instruction = self.instructions[self.ip]
            self.current = instruction
            if self.count == self.break_at:
                return ("break", NULL)
            self.count += 1
            self.ip += 1
            self.out.steps += 1
            if self.out.steps > self.out.step_limit:
                self.out.check_steps()
            if events.STEPS:
                events.step(self, instruction)
            handler = HANDLERS.get(instruction.name)
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

    # ---- the code that replaces the frame's

    def capture(self, compile_graph: Callable[..., Any], switched: Callable[[], Any]) -> types.CodeType:
        cg = Codegen(self.out)
        self.switched = switched
        handlers: list[Handler] = []
        try:
            kind, value = self.run()
        except Observed as raised:
            value = raised.value
            if value.of_operator:
                raise Escapes from raised
            self.out.check_generators()
            if self.out.fullgraph or self.out.error_on_break:
                refused = Unsupported("exception", f"Observed exception: {value.words()}")
                refused.stack = (value.left or self).user_stack()
                raise refused from raised
            if value.from_below and not self.out.calls:
                raise Escapes from raised  # nothing to capture before it
            if value.from_below:
                raise Unsupported("exception", value.describe()) from raised
            cg.side_effects([value])
            self._leave_break_setting(cg)
            self._leave_level(cg)
            cg.load(value)
            cg.drop(value)  # a frame that holds its own exception is a cycle
            cg.emit("RAISE_VARARGS", 1)
        else:
            self.out.check_generators()
            if kind == "return":
                cg.side_effects([value])
                self._leave_break_setting(cg)
                self._leave_level(cg)
                cg.load(value)
                cg.emit("RETURN_VALUE")
            else:
                self.emit_break(cg, handlers)
        return self.finish(cg, handlers, compile_graph)

    def finish(self, cg: Codegen, handlers: list[Handler], compile_graph: Callable[..., Any]) -> types.CodeType:
        body, cg.code = cg.code, []
        free = self.code.co_freevars
        if free:
            cg.emit("COPY_FREE_VARS", len(free))
        cg.emit("RESUME", 0)
        start, cg.code = cg.code, []
        self.emit_graph_call(cg, compile_graph)
        call, cg.code = cg.code, start
        cg.fetch_symbols()
        cg.code += call
        for instruction in cg.code:
            instruction.positions = (self.code.co_firstlineno, None, None, None)
        for instruction in body:
            instruction.positions = instruction.positions or (self.line, None, None, None)
        full = Body([*cg.code, *body], handlers)
        varnames = (
            *self.out.arguments,
            *cg.locals,
            *cg.symbols.values(),
            *(f"___graph{k}" for k in range(len(cg.outputs))),
        )
        return assemble(
            full,
            self.code,
            fast=(*varnames, *free),
            names=tuple(cg.names.items),
            co_varnames=varnames,
            co_nlocals=len(varnames),
            co_cellvars=(),
            co_argcount=len(self.out.arguments),
            co_posonlyargcount=0,
            co_kwonlyargcount=0,
            co_flags=code_flags(self.code),
            co_stacksize=stack_size(full) + 2,
        )

    def emit_graph_call(self, cg: Codegen, compile_graph: Callable[..., Any]) -> None:
        out = self.out
        if not out.calls:
            for k, (_, value) in enumerate(cg.outputs.values()):
                if getattr(value, "input_source", None) is None:
                    raise AssertionError(f"output {k} of an empty graph: {value}")
                cg.load_source(value.input_source)  # what an array, or a subclass, is to the graph
                cg.emit("STORE_FAST", f"___graph{k}")
            return
        results = [v for _, v in cg.outputs.values()]
        out.graph.output(tuple(v.node for v in results))
        used = out.used_inputs()
        module = _LazyGraphModule({}, out.graph)
        out.env.allow_scalar_outputs = True  # what is in the graph was allowed
        compiled = compile_graph(module, [v.fact if isinstance(v, SymbolValue) else v.real for v in used])
        cg.start_call(_C._capture.Wrapper(compiled, None))
        for v in used:
            if isinstance(v, SymbolValue):
                cg.load_number(v)
            else:
                source = v.input_source or v.source
                assert source is not None
                cg.load_source(source)
        cg.end_call(len(used))
        if not results:
            cg.emit("POP_TOP")
        else:
            cg.emit("UNPACK_SEQUENCE", len(results))
        for k in range(len(results)):
            cg.emit("STORE_FAST", f"___graph{k}")
        switch = self.switched()
        if switch is not None:  # a backend's code need not switch modes itself
            cg.start_call(switch)
            cg.end_call(0, keep=False)

    def _leave_level(self, cg: Codegen) -> None:
        """Whose __torch_function__ is asked is a switch of the program's: it is left as captured code has it."""
        overriding = self.out.overriding
        if overriding.level != overriding.found:
            cg.start_call(_C._set_overrides)
            cg.load_constant(overriding.level)
            cg.end_call(1, keep=False)

    def _leave_break_setting(self, cg: Codegen) -> None:
        """What error_on_graph_break says here holds for what runs next: the code after a break, or the caller."""
        if self.out.error_on_break != self.out.error_on_break_then:
            cg.start_call(setattr)
            cg.load_constant(config)
            cg.load_constant("error_on_graph_break")
            cg.load_constant(self.out.error_on_break)
            cg.end_call(3, keep=False)

    # ---- graph breaks

    def emit_break(self, cg: Codegen, handlers: list[Handler]) -> None:
        """Side effects so far, the instruction as it is, then a call of the rest."""
        i, at = self.current, self.ip
        assert i is not None
        body = self.decoded.body
        if in_loop(body, at):
            raise SkipFrame("a graph break inside a loop", self.refused)
        if self.handling:
            raise SkipFrame("a graph break while an exception is handled", self.refused)
        if i.name == "FOR_ITER" or "YIELD" in i.name:
            raise SkipFrame(f"a graph break at {i.name}", self.refused)
        jump = i.target is not None and "IF" in i.name
        takes = 1 if jump else _takes(i)
        if takes is None or (i.target is not None and not jump):
            raise SkipFrame(f"a graph break at {i.name}", self.refused)
        split = len(self.stack) - takes
        below, taken = self.stack[:split], self.stack[split:]
        handler = self.decoded.handlers[at]
        targets = [at + 1] if i.name != "RAISE_VARARGS" else []
        if i.target is not None:
            targets.append(self.decoded.place[id(i.target)])
        live = set().union(*(live_locals(body, t) for t in targets)) if targets else set()
        if handler is not None:
            live |= live_locals(body, self.decoded.place[id(handler.target)])
        live |= {*self.locals} if shows_locals(self.code) else {first_argument(self.code) or ""}
        names = tuple(sorted(n for n in self.locals if n in live and n not in self.cells))
        kept = [v for v in below if v is not NULL] + [self.locals[n] for n in names] + self.out.overriding.modes
        cells = [self.cells[n] for n in cells_of(self.code)]
        cg.side_effects([*kept, *taken, *cells])
        for v in [*kept, *cells]:
            cg.settle(v)
        self._enter_modes(cg)
        for v in taken:
            cg.load(v)
        for v in taken:
            if isinstance(v, ExceptionValue) and v not in kept:
                cg.drop(v)
        if self.keyword_names:
            cg.emit("KW_NAMES", self.keyword_names)
        if i.name == "CALL" and VERSION < (3, 12):
            cg.emit("PRECALL", i.arg)
        broken = self._copy(cg, i)
        self._emit_rest(cg, i, broken, below, names, takes)
        if handler is not None:
            self._emit_handler(cg, handlers, handler, broken, below, names)

    def _enter_modes(self, cg: Codegen) -> None:
        """Function modes that captured code has entered and not left are entered for what runs uncaptured."""
        self._leave_break_setting(cg)
        overriding = self.out.overriding
        for mode in overriding.modes:
            cg.call_method_of(mode, "__enter__", [])
        self._leave_level(cg)

    def _copy(self, cg: Codegen, i: Instruction) -> Instruction:
        """The instruction in the new code: names are numbered anew there."""
        names = self.code.co_names
        match i.name:
            case "LOAD_GLOBAL":
                arg = cg.names.number(names[i.arg >> 1]) << 1
            case "LOAD_ATTR" if VERSION >= (3, 12):
                arg = cg.names.number(names[i.arg >> 1]) << 1
            case "LOAD_SUPER_ATTR":
                arg = cg.names.number(names[i.arg >> 2]) << 2 | i.arg & 2
            case "LOAD_ATTR" | "LOAD_METHOD" | "STORE_ATTR" | "DELETE_ATTR" | "IMPORT_NAME" | "IMPORT_FROM" | "STORE_GLOBAL" | "DELETE_GLOBAL" | "LOAD_NAME":  # fmt: skip
                arg = cg.names.number(names[i.arg])
            case "LOAD_DEREF" | "STORE_DEREF" | "LOAD_FAST" | "STORE_FAST":
                raise SkipFrame(f"a graph break at {i.name}", self.refused)
            case _:
                arg = i.arg
        made = cg.emit("LOAD_ATTR" if i.name == "LOAD_METHOD" else i.name, arg)
        made.positions = i.positions
        return made

    def _asks_for_null(self, i: Instruction) -> bool:
        if i.name == "LOAD_METHOD":
            return True
        named = ("LOAD_GLOBAL", "LOAD_SUPER_ATTR", *(("LOAD_ATTR",) if VERSION >= (3, 12) else ()))
        return i.name in named and bool(i.arg & 1)

    def _emit_rest(self, cg: Codegen, i: Instruction, broken: Instruction, below: list[Value], names: tuple[str, ...], takes: int) -> None:  # fmt: skip
        if i.name == "RAISE_VARARGS":
            return
        at = self.ip
        if i.target is None:
            effect = dis.stack_effect(dis.opmap[i.name], i.arg if isinstance(i.arg, int) else None)
            count = 1 if i.name.startswith("CALL") else takes + effect
            results = [cg.new_local() for _ in range(count)]
            layout = (True,) * count
            if self._asks_for_null(i):  # what would be a method and its object is a bound method and a NULL
                layout = (False, True) if VERSION < (3, 13) else (True, False)
            for name in reversed([r for r, real in zip(results, layout) if real]):
                cg.emit("STORE_FAST", name)
            self._call_resume(cg, at + 1, below, layout, results, names)
            return
        keeps = i.name.endswith("OR_POP")  # 3.11: the value stays where the jump is taken
        if keeps:
            raise SkipFrame(f"a graph break at {i.name}", self.refused)
        self._call_resume(cg, at + 1, below, (), [], names)
        label = cg.emit("NOP")
        if "BACKWARD" in broken.name:
            broken.name = broken.name.replace("BACKWARD", "FORWARD")
        broken.target, broken.arg = label, 0
        self._call_resume(cg, self.decoded.place[id(i.target)], below, (), [], names)

    def _call_resume(self, cg: Codegen, at: int, below: list[Value], layout: tuple[bool | str, ...], results: list[str], names: tuple[str, ...], depth: int | None = None) -> None:  # fmt: skip
        """return rest(stack..., locals...)"""
        below = below if depth is None else below[:depth]
        live = {*names} if shows_locals(self.code) else live_locals(self.decoded.body, at)
        first = first_argument(self.code)
        ahead = [self.locals[first]] if first in names else [self.cells[first].contents] if first in self.cells else []
        named = first if first in names else FIRST if ahead else None
        names = tuple(n for n in names if n in live and n != first)
        how = Resumption(at, (*(v is not NULL for v in below), *layout), names, named)
        code = resume_code(self.code, how)
        cells = [self.cells[n] for n in cells_of(self.code)]

        def load() -> None:
            if not cells:
                cg.load_constant(types.FunctionType(code, self.globals, self.code.co_name))
                return
            cg.start_call(_make_function)
            cg.load_constant(code)
            cg.load_constant(self.globals)
            cg.load_constant(self.code.co_qualname)
            cg.load_constant(())
            cg.emit("BUILD_MAP", 0)
            cg.build("BUILD_TUPLE", list(cells))
            cg.end_call(6)

        cg.push_callable(load)
        for v in [*ahead, *below]:
            if v is not NULL:
                cg.load(v)
        for name, real in zip(results, layout):
            if real:
                cg.emit("LOAD_FAST", name)
            if real == HELD:
                cg.emit("BUILD_LIST", 1)
                cg.load_constant(None)
                cg.emit("STORE_FAST", name)
        for n in names:
            cg.load(self.locals[n])
        cg.end_call(len(ahead) + sum(map(bool, how.stack)) + len(names))
        cg.emit("RETURN_VALUE")

    def _emit_handler(self, cg: Codegen, handlers: list[Handler], handler: Handler, broken: Instruction, below: list[Value], names: tuple[str, ...]) -> None:  # fmt: skip
        """What the instruction raises goes to the function's own handler: the rest, from there on."""
        raised = cg.new_local()
        label = cg.emit("STORE_FAST", raised)
        # 3.13 looks up an exception out of a Python callee one unit before the call: the last load is covered too.
        start = cg.code[cg.code.index(broken) - 1] if VERSION >= (3, 13) else broken
        handlers.append(Handler(start, broken, label, 0, False))
        results = [raised]
        if handler.lasti:
            place = cg.new_local()
            cg.load_constant(self.current.offset // 2 if self.current else 0)
            cg.emit("STORE_FAST", place)
            results = [place, raised]
        at = self.decoded.place[id(handler.target)]
        self._call_resume(cg, at, below, (*(True,) * (len(results) - 1), HELD), results, names, handler.depth)
