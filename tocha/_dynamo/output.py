"""One capture's outcome: the graph with its inputs, guards, side effects, and the code that replaces a frame's."""

from __future__ import annotations

import operator
import re
import types
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import tocha
from tocha import fx
from tocha._dynamo import config, facts, modes, overrides, own_errors, wrappers
from tocha._dynamo.draws import Draw
from tocha._dynamo.dynamic import Policy, Promises
from tocha._dynamo.guards import Guards
from tocha._dynamo.refusals import Unsupported
from tocha._dynamo.relations import atom_of
from tocha._dynamo.source import Source
from tocha._dynamo.values.base import Observed, Value
from tocha._dynamo.values.constant import Constant, is_plain
from tocha._dynamo.values.containers import ListValue, NamedTupleValue, SizeValue, TupleValue
from tocha._dynamo.values.functions import CellValue
from tocha._dynamo.values.lazy import Lazy
from tocha._dynamo.values.symbol import SymbolValue, fits
from tocha._dynamo.values.tensor import ASKED, TensorValue
from tocha.fx import traceback
from tocha.fx.experimental.symbolic_shapes import free_symbols
from tocha.ir.shape_env import ShapeEnv
from tocha.ir.sym_types import FloatExpr, SymFloat, float_symbol
from tocha.ir.sym_types import wrap as wrap_symbolic
from tocha.ir.symbolic import Expr, Relation, of_atom
from tocha.nn.parameter import is_lazy

if TYPE_CHECKING:
    from tocha._dynamo.frame import Frame

MAX_STEPS = 3_000_000
_DIVISIONS = (operator.truediv, operator.floordiv, operator.mod)
_INTEGERS = (tocha.uint8, tocha.int8, tocha.int16, tocha.int32, tocha.int64)
_DETACHING = ("detach_", tocha.detach_)
STEPS_WITHOUT_CALL = 50_000


def is_not(number: int) -> Callable[[Any], bool]:
    """A guard: an object is not the one with this id, which another guard keeps in its place."""

    def is_another_object(value: Any) -> bool:
        return id(value) != number

    return is_another_object


class Effects:
    """Objects that captured code changed, in the order of their first change."""

    def __init__(self) -> None:
        self.order: list[Any] = []
        self.known: set[int] = set()

    def add(self, value: Any) -> None:
        if id(value) not in self.known:
            self.known.add(id(value))
            self.order.append(value)


class Output:
    def __init__(
        self, code: types.CodeType, globals_: dict, arguments: tuple[str, ...], dynamic: bool | None, fullgraph: bool
    ) -> None:
        self.code, self.globals, self.arguments, self.fullgraph = code, globals_, arguments, fullgraph
        self.graph = fx.Graph()
        self.fake_mode = facts.new_mode(fullgraph)
        self.policy = Policy(code, dynamic)
        self.promises = Promises()
        self.numbers: dict[Any, Any] = {}  # an expression of symbols -> its node
        self.float_atoms: set[Any] = set()
        self.number_atoms: set[Any] = set()  # of ints and floats from outside, which are no sizes
        self.elements: dict[int, SymbolValue] = {}  # of inputs of one element, by their sources
        self.draws: dict[Any, Draw] = {}  # by symbol, in the program's order
        self.guards = Guards(self.env)
        self.guards.add_global_state()
        self.effects = Effects()
        self.inputs: list[TensorValue | SymbolValue] = []
        self.names: dict[str, int] = {}  # of inputs: how often each was taken
        self.memo: dict[int, tuple[Any, Value]] = {}  # a real object's id -> the object, its value
        self.others: dict[int, Callable[[Any], bool]] = {}  # an object's id -> whether something is another one
        self.cells: dict[int, tuple[Any, CellValue]] = {}
        self.by_fact: dict[int, TensorValue] = {}
        self.overriding = overrides.Overriding()
        self.plains: dict[int, tuple[TensorValue, TensorValue]] = {}  # tensors of subclasses -> as the graph has them
        self.class_writes: dict[tuple[int, str], Value] = {}
        self.global_writes: dict[tuple[int, str], Value] = {}
        self.cached: dict[tuple, Value] = {}  # calls of functions with functools.lru_cache
        self.scopes: dict[int, dict] = {}
        self.aliases = 0
        self.steps, self.step_limit = 0, STEPS_WITHOUT_CALL
        self.root: Any = None  # the captured frame
        self.new_cells: list[CellValue] = []
        self.generators: list[Any] = []  # those that were advanced
        self.calls = self.calls_then = 0
        self.error_on_break = self.error_on_break_then = fullgraph or config.error_on_graph_break
        self.whole = fullgraph  # whether a break is an error here, whatever error_on_graph_break says
        self.kept: list[Any] = []

    # ---- values from outside

    def input(self, f: Frame, tensor: Any, source: Source) -> TensorValue:
        cls = type(tensor)
        facts.check_dense(tensor)
        if wrappers.is_kind(cls):
            return wrappers.input_of(self, tensor, source)
        if cls not in (tocha.Tensor, tocha.nn.Parameter, tocha.nn.Buffer):
            if not overrides.is_kind_of_parameter(cls):
                return self.subclass_input(f, tensor, source)
            self.guards.add(source, "type", cls)
        fact = facts.of(self.fake_mode, tensor, self.policy.wishes(tensor, source, self.in_module(source)))
        self.promises.add(self.env, tensor, source, tuple(fact.shape))
        before = set(self.guards.numbers.places)
        self.guards.add_tensor(source, tensor, tuple(fact.shape), fact.stride())
        for atom, place in self.guards.numbers.places.items():
            if atom not in before:
                self.symbol_input(atom, self.guards.numbers.sources[place])
        if getattr(tensor, "_dynamo_static_input_type", None) == "guarded":
            self.guards.add(source.call(tocha.Tensor.data_ptr), "constant", tensor.data_ptr())
        node = self.graph.placeholder(self.input_name(source))
        node.meta["example_value"] = fact
        node.meta["geometry"] = facts.geometry(fact)  # the program may give its fact another
        node.meta["memory"] = fact._facts.memory  # and put it on other memory
        node.meta["is_state"] = isinstance(tensor, tocha.nn.Parameter | tocha.nn.Buffer) or is_buffer(source)
        value = TensorValue(node, fact, source, tensor)
        value.written_before = fact._facts.memory.version
        self.by_fact[id(fact)] = value
        self.inputs.append(value)
        return value

    def item_of_input(self, tensor: TensorValue) -> Value | None:
        """The element of an input of no dims, an integer, as a symbol: what the program decides by it is guarded. None of
        other tensors, and of one that has been written to."""
        if tensor.real is None or tensor.source is None or tensor.cls is not None or not self.env.allow_scalar_outputs:
            return None
        fact = tensor.fact
        if fact.dtype not in _INTEGERS or fact.ndim or fact.device.type != "cpu":
            return None
        if tensor.wraps or facts.version(fact) != tensor.written_before:
            return None
        source = tensor.source.call(tocha.Tensor.item)
        if source.identity not in self.elements:
            self.elements[source.identity] = self.new_number_input(tensor.real.item(), source)
        return self.elements[source.identity]

    def subclass_input(self, f: Frame, tensor: Any, source: Source) -> TensorValue:
        """The graph gets a plain tensor; what the class makes of calls happens while capturing."""
        cls = type(tensor)
        if is_lazy(tensor):
            raise Unsupported("subclass", "a parameter that has no shape yet")
        if hasattr(cls, "__torch_dispatch__") or overrides.takes_no_calls(cls):
            raise Unsupported("subclass", f"an input of type {cls.__name__}")
        self.guards.add(source, "type", cls)
        plain = overrides.as_plain(tensor)
        self.kept.append(plain)
        at = source.call(overrides.as_plain)
        inner = self.input(f, plain, at)
        inner.source, inner.input_source = None, at
        value = TensorValue(inner.node, inner.fact, source, tensor)
        value.cls = cls
        self.plains[id(value)] = (value, inner)
        return value

    def plain(self, value: TensorValue) -> TensorValue:
        """A tensor of a subclass as the graph has it."""
        if id(value) not in self.plains:
            self.plains[id(value)] = (value, TensorValue(value.node, value.fact))
        return self.plains[id(value)][1]

    @property
    def env(self) -> ShapeEnv:
        env = self.fake_mode.shape_env
        assert env is not None
        return env

    def in_module(self, source: Source | None) -> bool:
        """Does a module lie on the way to it?"""
        return source is not None and any([s.identity in self.guards.modules for s in source.way()])

    def symbol_input(self, atom: Any, source: Source) -> SymbolValue:
        """A symbol as an input of the graph: where it is a tensor's size, that is what is passed."""
        fact = wrap_symbolic(of_atom(atom) if atom not in self.float_atoms else float_symbol(atom), self.env)
        node = self.graph.placeholder(atom.name)
        node.meta["example_value"] = fact
        value = SymbolValue(node, fact, source, self.env.var_to_val.get(atom))
        self.numbers[fact.expr] = node
        self.inputs.append(value)
        return value

    def drawn_number(self, draw: Draw, integer: bool) -> Value:
        """A random number that generated code draws first thing."""
        fact = self.env.create_unbacked_symint() if integer else self.env.create_unbacked_symfloat()
        atom = atom_of(fact.expr)
        assert atom is not None
        self.draws[atom] = draw
        node = self.graph.placeholder(atom.name)
        node.meta["example_value"] = fact
        value = SymbolValue(node, fact, None, 1 if integer else 0.5)
        self.numbers[fact.expr] = node
        self.inputs.append(value)
        return value

    def number_input(self, number: Any, source: Source) -> Value | None:
        """An int or float from outside as a symbol, if it is one in this capture."""
        if not self.policy.number_is_symbol(number, source, self.in_module(source)):
            return None
        return self.new_number_input(number, source)

    def new_number_input(self, number: Any, source: Source) -> SymbolValue:
        expr = self.env.create_unspecified_symbol(number, source)
        atom = atom_of(expr)
        assert atom is not None
        self.number_atoms.add(atom)
        if type(number) is float:
            self.float_atoms.add(atom)
        self.guards.add_number(source, wrap_symbolic(expr, self.env), type(number))
        return self.symbol_input(atom, source)

    def sizes(self, f: Frame, tensor: TensorValue) -> list[Value]:
        return [
            self.number(n, partial(self.graph.call_method, "size", (tensor.node, i)))
            for i, n in enumerate(tensor.fact.shape)
        ]

    def number(self, number: Any, make: Callable[[], Any]) -> Value:
        """The value of a number that facts gave: a node of the graph where it is symbolic, made only once."""
        if not facts.is_number(number):
            return Constant(number)
        expr = self.env.simplify(number.expr)
        if not isinstance(expr, (Expr, FloatExpr, Relation)):
            return Constant(expr)
        if expr not in self.numbers:
            node = make()
            node.meta["example_value"] = number
            self.numbers[expr] = node
        return SymbolValue(self.numbers[expr], number)

    def input_name(self, source: Source) -> str:
        name = re.sub(r"[^0-9A-Za-z]+", "_", source.name)
        self.names[name] = count = self.names.get(name, -1) + 1
        return f"{name}_{count}" if count else name

    def new_cell(self, contents: Value | None, name: str) -> CellValue:
        self.new_cells.append(CellValue(contents, None, name))
        return self.new_cells[-1]

    def cell_of(self, f: Frame, cell: Any, source: Source | None, name: str) -> CellValue:
        """The tracked cell of a real one."""
        if id(cell) not in self.cells:
            made = CellValue(None, source, name)
            self.cells[id(cell)] = (cell, made)
            try:
                contents = cell.cell_contents
            except ValueError:
                contents = None
                made.contents = None
                if source is not None and source.base is not None:
                    place = source.base.attribute("__closure__").tuple_item(source.key)
                    self.guards.add(place, "empty_cell", None)
                return made
            made.contents = Lazy(f, contents, source if source is not None else Source("cell", None, Source("object", cell, None, name)))  # fmt: skip
        return self.cells[id(cell)][1]

    def guard_alias(self, value: Value, source: Source) -> None:
        """The same object was reached on another way: guards see to it that it stays the same."""
        first = value.source
        if first is None or first.identity == source.identity:
            return
        number = getattr(value, "alias_number", None)
        if number is None:
            number = value.alias_number = self.aliases  # type: ignore[attr-defined]
            self.aliases += 1
            self.guards.add(first, "alias", number)
        self.guards.add(source, "alias", number)
        # A key of a dict is counted up to; guards have made sure that this way leads to the same tensor.
        if first.counts and not source.counts:
            value.source = source

    def guard_apart(self, a: Value, b: Value) -> None:
        """Two objects from outside were found to be two: guards see to it that they are not one in another call. One of them has to be
        the same object then, rather one that is no argument. Guards on types, dtypes and code tell others apart."""
        a, b = a.realize(), b.realize()
        if isinstance(a, TensorValue | SymbolValue | Constant) or a.python_type() is not b.python_type():
            return
        first, second = (self._from_outside(v) for v in (a, b))
        if first is None or second is None or (a.source is None and b.source is None):
            return
        kept, id_kept, other = (a, id(first), b)
        if b.source is None or (a.source is not None and a.source.root.fetch == "local"):
            kept, id_kept, other = (b, id(second), a)
        if kept.source is not None:
            self.guards.add(kept.source.call(id), "constant", id_kept)
        if other.source is not None and other.source.fetch != "object":
            self.guards.add(other.source, "holds", self.others.setdefault(id_kept, is_not(id_kept)))

    def _from_outside(self, value: Value) -> Any:
        """The very object; None for one that captured code made."""
        return next((real for real, known in self.memo.values() if known is value), None)

    def check_steps(self) -> None:
        """Unrolling goes on as long as the graph grows: a loop of Python alone is better run than captured."""
        if self.calls == self.calls_then or self.steps > MAX_STEPS:
            raise Unsupported("steps", f"{self.steps} instructions")
        self.calls_then, self.step_limit = self.calls, self.steps + STEPS_WITHOUT_CALL

    def note_generator(self, generator: Any) -> int:
        self.generators.append(generator)
        return self.root.count - 1

    def check_generators(self) -> None:
        """Nobody knows when a generator that waits inside a try is dropped: it runs as it is from its start."""
        for g in self.generators:
            if g.owes_cleanup():
                refused = Unsupported("generator", f"{g.frame.code.co_name} waits inside a try")
                refused.at = g.started_at
                raise refused

    # ---- the graph

    def call(self, f: Frame, op: str, target: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
        """A call that may become a node: it does when tensors come out of it, or go into one that returns nothing."""
        args = [a.realize() for a in args]
        kwargs = {k: v.realize() for k, v in kwargs.items()}
        taken = overrides.take_over(f, op, target, args, kwargs)
        if taken is not None:
            return taken
        if target in _DETACHING and isinstance(args[0], TensorValue):
            args[0].check_detached()
        if op == "call_method" and target in ASKED:
            self.guard_answer(args[0], target)
        examples = tuple(a.example() for a in args)
        named = {k: v.example() for k, v in kwargs.items()}
        if target in _DIVISIONS and facts.is_number(examples[1]) and not isinstance(args[0], TensorValue):
            self.check_divisor(f, target, *examples)
        try:
            result = facts.run(self.fake_mode, op, target, examples, named)
        except Unsupported:
            raise
        except Exception as error:
            self.raise_operator_error(f, error, op, target, examples, named)
        if any(a is True for a in (*examples, *named.values())):
            facts.check_gradient(result, [*examples, *named.values()])
        if not _has_tensor(result) and not (result is None and _has_tensor([examples, *named.values()])):
            return f.wrap_known(result)

        def node() -> Any:
            made = getattr(self.graph, op)(
                target, tuple(a.graph_argument() for a in args), {k: v.graph_argument() for k, v in kwargs.items()}
            )
            made.meta["stack_trace"] = f.stack_text
            self.note(made)
            return made

        if facts.is_number(result) and not fits(self.env, target, examples, result, self.number_atoms):
            return f.fold(target, args, kwargs)
        if facts.is_number(result):
            self.calls += bool(self.env.hint(result.expr) is None)
            return self.number(result, node)
        self.calls += 1
        return self.result(f, node(), result)

    def note(self, node: Any) -> None:
        """What captured code says of its nodes with `fx.traceback.annotate`."""
        known = self.memo.get(id(traceback.current_meta))
        if known is not None:
            notes = known[1].constant().get("custom")
            node.meta.update({"custom": notes} if notes else {})

    def guard_answer(self, tensor: Value, name: str) -> list[TensorValue]:
        """Somebody asks a tensor for what guards of tensors do not look at: the inputs in its memory say the same the next time."""
        memory = facts.memory(tensor.example())
        given = [i for i in self.inputs if isinstance(i, TensorValue) and i.real is not None and facts.memory(i.fact) is memory]  # fmt: skip
        for i in given:
            answer, source = getattr(i.real, name), i.source
            if source is not None and callable(answer):
                self.guards.add(source.call(getattr(tocha.Tensor, name)), "constant", answer())
            elif source is not None:
                self.guards.add(source.attribute(name), "constant", answer)
        return given

    def check_divisor(self, f: Frame, target: Any, dividend: Any, divisor: Any) -> None:
        """A number is divided by a symbol: that it is not zero is guarded; if it is, that is the program's error."""
        if self.env.hint(divisor.expr) is None or facts.decided(lambda: bool(divisor != 0)):
            return  # what nothing is known of is divided by when the program runs
        kind = float if any(isinstance(n, (float, SymFloat)) for n in (dividend, divisor)) else int
        try:
            target(kind(1), kind(0))
        except ZeroDivisionError as error:
            f.raise_real(error)

    def raise_operator_error(self, f: Frame, error: Exception, op: str, target: Any, args: tuple, kwargs: dict) -> NoReturn:  # fmt: skip
        """An error is one of these very sizes, and says so: symbols become their values first."""
        atoms = free_symbols([a for a in _leaves([*args, *kwargs.values()]) if _has_tensor(a)])
        for atom in atoms:
            if atom in self.env.var_to_val and atom not in self.float_atoms:
                self.env.specialize(of_atom(atom))
        if atoms:
            try:
                facts.run(self.fake_mode, op, target, args, kwargs)
            except Exception as again:
                error = again
        own_errors.check(error, op, target, args, kwargs)
        error.__traceback__ = None  # frames that hold the error itself
        try:
            f.raise_real(error)
        except Observed as raised:
            raised.value.of_operator = True
            raise

    def result(self, f: Frame, node: Any, result: Any) -> Value:
        """Tracked values for what a node gives."""
        if isinstance(result, tocha.Tensor):
            if id(result) in self.by_fact:
                return self.by_fact[id(result)]
            node.meta["example_value"] = result
            value = TensorValue(node, result)
            self.by_fact[id(result)] = value
            return value
        if isinstance(result, tocha.Size):
            return SizeValue([self.number(n, partial(self.graph.call_function, operator.getitem, (node, i))) for i, n in enumerate(result)])  # fmt: skip
        if isinstance(result, (tuple, list)):
            items: list[Value] = []
            for i, r in enumerate(result):
                if isinstance(r, (tocha.Tensor, tuple, list)) and not isinstance(r, tocha.Size):
                    piece = self.graph.call_function(operator.getitem, (node, i))
                    items.append(self.result(f, piece, r))
                elif facts.is_number(r):
                    items.append(self.number(r, partial(self.graph.call_function, operator.getitem, (node, i))))
                else:
                    items.append(f.wrap_known(r))
            if type(result) is list:
                return ListValue(items)
            return TupleValue(items) if type(result) is tuple else NamedTupleValue(type(result), items)
        if is_plain(result):
            return Constant(result)
        raise Unsupported("value", f"a result of type {type(result).__name__}")

    def used_inputs(self) -> list[TensorValue | SymbolValue]:
        """The inputs that the finished graph has: nobody's numbers go, and then nobody's inputs."""
        for node in reversed(list(self.graph.nodes)):
            if node.op in ("call_function", "call_method") and not node.users:
                number: Any = node.meta.get("example_value")
                if facts.is_number(number) and self.env.hint(number.expr) is not None:
                    self.graph.erase_node(node)
        tensors = [v.fact for v in self.inputs if isinstance(v, TensorValue) and v.node.users]
        shown = free_symbols(tensors)
        used = [
            v for v in self.inputs if v.node.users or (isinstance(v, SymbolValue) and atom_of(v.fact.expr) in shown)
        ]
        kept = {id(v) for v in used}
        for v in self.inputs:
            if id(v) not in kept:
                self.graph.erase_node(v.node)
        return used

    def release(self) -> None:
        for cell in self.new_cells:  # a function that calls itself is a cycle
            cell.contents = None
        for held in (self.memo, self.cells, self.by_fact, self.plains, self.inputs, self.kept, self.generators, self.new_cells, self.class_writes, self.global_writes, self.cached, self.scopes, self.numbers, self.elements, self.effects.order):  # fmt: skip
            held.clear()  # type: ignore[attr-defined]
        self.root = None

    def guard_sharing(self) -> None:
        tensors = [v for v in self.inputs if isinstance(v, TensorValue)]
        written = [v.real for v in tensors if facts.version(v.fact) != v.written_before]
        self.guards.add_written([p for t in written for p in wrappers.parts(t)])

    def forget_inputs(self) -> None:
        """The graph keeps its facts; they do not keep an eye on the real tensors any longer."""
        self.fake_mode.fake_tensor_converter.clear()

    def switch(self, function: Any, args: list[Any]) -> Any:
        """Switches a mode of the library, here and in the graph."""
        self.state_call(function, args)
        return modes.switch(function, args)

    def state_call(self, target: Any, args: list[Any]) -> None:
        """A node that changes the state of the library and has no value (grad mode)."""
        self.graph.call_function(target, tuple(args), {})
        self.calls += 1


def is_buffer(source: Source) -> bool:
    """Whether a module has it among its buffers."""
    return source.base is not None and source.base.key == "_buffers"


def _has_tensor(value: Any) -> bool:
    if isinstance(value, tocha.Tensor) or facts.is_number(value):
        return True
    if isinstance(value, dict):
        return any(_has_tensor(v) for v in value.values())
    return isinstance(value, (tuple, list)) and any(_has_tensor(v) for v in value)


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        value = list(value.values())
    return [leaf for v in value for leaf in _leaves(v)] if isinstance(value, (tuple, list)) else [value]
