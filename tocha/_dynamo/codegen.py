"""Generated code: pushes tracked values, makes each object once, replays side effects."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

from tocha._dynamo.bytecode import VERSION, Instruction, Names
from tocha._dynamo.draws import Draw
from tocha._dynamo.relations import atom_of, function_of
from tocha._dynamo.source import Source
from tocha._dynamo.values.base import NULL, Value
from tocha._dynamo.values.constant import Constant
from tocha._dynamo.values.functions import CellValue
from tocha._dynamo.values.lazy import Lazy
from tocha._dynamo.values.objects import ClassValue
from tocha._dynamo.values.symbol import SymbolValue
from tocha._dynamo.values.tensor import TensorValue
from tocha.ir.symbolic import free_symbols as symbols_of

if TYPE_CHECKING:
    from tocha._dynamo.output import Output


class Codegen:
    def __init__(self, out: Output) -> None:
        self.out = out
        self.code: list[Instruction] = []
        self.names = Names(())
        self.locals: list[str] = []  # beyond the arguments
        self.made: dict[int, str] = {}  # a value's id -> the local that holds it
        self.making: set[int] = set()
        self.pending: list[Any] = []  # objects made, to be filled
        self.kept: list[Value] = []  # ids above stay theirs
        self.outputs: dict[int, tuple[int, Any]] = {}
        self.symbols: dict[Any, str] = {}  # a symbol -> the local that holds its value

    # ---- instructions

    def emit(self, name: str, arg: Any = None, target: Instruction | None = None) -> Instruction:
        made = Instruction(name, arg, target)
        self.code.append(made)
        return made

    def new_local(self) -> str:
        self.locals.append(f"___{len(self.locals)}")
        return self.locals[-1]

    def load_constant(self, value: Any) -> None:
        self.emit("LOAD_CONST", value)

    def load_argument(self, i: int) -> None:
        self.emit("LOAD_FAST", self.out.arguments[i])

    def load_global(self, name: str) -> None:
        shift = 1  # the lowest bit asks for a NULL below
        self.emit("LOAD_GLOBAL", self.names.number(name) << shift)

    def load_attribute(self, name: str) -> None:
        n = self.names.number(name)
        self.emit("LOAD_ATTR", n << 1 if VERSION >= (3, 12) else n)

    def store_attribute(self, name: str) -> None:
        self.emit("STORE_ATTR", self.names.number(name))

    def delete_attribute(self, name: str) -> None:
        self.emit("DELETE_ATTR", self.names.number(name))

    def start_call(self, function: Any) -> None:
        """Before the arguments: a callable that generated code holds."""
        self.push_callable(lambda: self.load_constant(function))

    def push_callable(self, load: Any) -> None:
        if VERSION < (3, 13):
            self.emit("PUSH_NULL")
            load()
        else:
            load()
            self.emit("PUSH_NULL")

    def end_call(self, count: int, keep: bool = True) -> None:
        if VERSION < (3, 12):
            self.emit("PRECALL", count)
        self.emit("CALL", count)
        if not keep:
            self.emit("POP_TOP")

    def call_method_of(self, owner: Value, name: str, args: list[Value], keep: bool = False) -> None:
        def load() -> None:
            self.load(owner)
            self.load_attribute(name)

        self.push_callable(load)
        for a in args:
            self.load(a)
        self.end_call(len(args), keep)

    def call_values(self, function: Value, args: list[Value], kwargs: dict[str, Value]) -> None:
        self.push_callable(lambda: self.load(function))
        self.build("BUILD_TUPLE", args)
        for k, v in kwargs.items():
            self.load_constant(k)
            self.load(v)
        self.emit("BUILD_MAP", len(kwargs))
        self.emit("CALL_FUNCTION_EX", 1)

    def build(self, opcode: str, items: list[Value]) -> None:
        for i in items:
            self.load(i)
        self.emit(opcode, len(items))

    # ---- values

    def load_source(self, source: Source) -> None:
        source.load(self)

    def load_symbol(self, atom: Any) -> None:
        self.symbols.setdefault(atom, f"___{atom.name}")
        self.emit("LOAD_FAST", self.symbols[atom])

    def fetch_symbols(self) -> None:
        """At the start, before anything can change: the values of the symbols in use."""
        for atom, draw in self.out.draws.items():
            self.fetch_draw(draw)
            self.emit("STORE_FAST", self.symbols.setdefault(atom, f"___{atom.name}"))
        for atom, local in self.symbols.items():
            if atom in self.out.draws:
                continue
            source = self.out.guards.numbers.source_of(atom)
            assert source is not None
            self.load_source(source)
            self.emit("STORE_FAST", local)

    def fetch_draw(self, draw: Draw) -> None:
        def load() -> None:
            self.load_source(draw.owner)
            self.load_attribute(draw.name)

        self.push_callable(load)
        for a in draw.args:
            self.load_constant(a)
        self.end_call(len(draw.args))

    def load_number(self, value: SymbolValue) -> None:
        """A symbolic number: computed from the symbols' values, or by the graph where it depends on elements."""
        expr = value.fact.expr
        atoms = sorted(symbols_of(expr), key=lambda a: a.serial)
        if any(self.out.guards.numbers.source_of(a) is None and a not in self.out.draws for a in atoms):
            self.load_graph_output(value)
            return
        if len(atoms) == 1 and atom_of(expr) is atoms[0]:
            self.load_symbol(atoms[0])
            return
        self.start_call(function_of(expr, atoms))
        for a in atoms:
            self.load_symbol(a)
        self.end_call(len(atoms))

    def load_graph_output(self, value: Any) -> None:
        if id(value) not in self.outputs:
            self.outputs[id(value)] = (len(self.outputs), value)
        self.emit("LOAD_FAST", f"___graph{self.outputs[id(value)][0]}")

    def load(self, value: Value) -> None:
        """Pushes a value: from where it came, from where it was kept, or made anew."""
        if value is NULL:
            self.emit("PUSH_NULL")
            return
        if id(value) in self.made:
            self.emit("LOAD_FAST", self.made[id(value)])
            return
        if isinstance(value, Lazy) and (value.known is not None or value.source is None):
            self.load(value.realize())
            return
        if isinstance(value, CellValue) and value.source is not None:
            self.load_real_cell(value)
            return
        if isinstance(value, Constant) and not value.source:
            self.load_constant(value.value)
            return
        if isinstance(value, SymbolValue):
            self.load_number(value)
            return
        if value.source is not None:
            self.load_source(value.source)
            return
        if id(value) in self.making:
            value.refuse("reconstruct", "a cycle through")
        self.making.add(id(value))
        value.reconstruct(self)
        self.making.discard(id(value))
        if value.has_identity and not self.is_graph_output(value):
            self.keep(value)

    def is_graph_output(self, value: Value) -> bool:
        return id(value) in self.outputs

    def keep(self, value: Value) -> None:
        """The value on top of the stack is this one: kept in a local."""
        self.made[id(value)] = self.new_local()
        self.kept.append(value)
        self.emit("COPY", 1)
        self.emit("STORE_FAST", self.made[id(value)])
        if self.pending and self.pending[-1] is value:
            self.pending.pop()
            self.fill(value)

    def drop(self, value: Value) -> None:
        """The local that holds it is not needed any longer."""
        if id(value) in self.made:
            self.emit("DELETE_FAST", self.made.pop(id(value)))

    def load_real_cell(self, cell: CellValue) -> None:
        source: Any = cell.source
        if source.fetch == "free":
            self.emit("LOAD_CLOSURE" if VERSION < (3, 13) else "LOAD_FAST", source.shown)
            return
        assert source.fetch == "closure"
        self.load_source(source.base)
        self.load_attribute("__closure__")
        self.load_constant(source.key)
        self.emit("BINARY_SUBSCR")

    def fill_later(self, value: Value) -> None:
        """What it holds is set once it has a place: it may be part of itself."""
        self.pending.append(value)

    def fill(self, value: Any) -> None:
        if isinstance(value, CellValue) and value.contents is None:
            return
        value.apply(self)

    def settle(self, value: Value) -> None:
        """Makes sure that loading the value later does not depend on what side effects change."""
        if isinstance(value, Lazy) and value.known is not None:
            value = value.known
        if isinstance(value, Constant) or value is NULL or id(value) in self.made:
            return
        self.load(value)
        if id(value) not in self.made:
            self.made[id(value)] = self.new_local()
            self.kept.append(value)
            self.emit("STORE_FAST", self.made[id(value)])
        else:
            self.emit("POP_TOP")

    def side_effects(self, results: list[Value]) -> None:
        """Replays what captured code changed outside of it; `results` are needed afterwards."""
        effects = [
            e for e in self.out.effects.order if e.source is not None or not getattr(e, "new", True) or is_outside(e)
        ]
        if not effects and not self.out.global_writes:
            return
        for value in [*results, *self.out.global_writes.values()]:
            self.settle(value)
        for effect in effects:
            self.settle(effect)
            for part in effect.parts():
                self.settle(part)
        for effect in effects:
            effect.apply(self)
        for (_, name), value in self.out.global_writes.items():
            scope = self.out.scopes[_]
            self.load(value)
            if scope is self.out.globals:
                self.emit("STORE_GLOBAL", self.names.number(name))
            else:
                self.load_constant(scope)
                self.load_constant(name)
                self.emit("STORE_SUBSCR")


def is_outside(value: Value) -> bool:
    """Does it exist already, though no source leads to it (a class that the code closes over)? A tensor with attributes does when
    the graph has run."""

    return isinstance(value, ClassValue | TensorValue) or (
        getattr(value, "real", None) is not None and not getattr(value, "new", False)
    )


def code_flags(code: types.CodeType) -> int:
    return code.co_flags & ~(0x04 | 0x08)  # *args and **kwargs arrive as plain arguments
