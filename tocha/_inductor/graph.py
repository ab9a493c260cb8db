"""FX graphs to programs of the loop IR: every node goes through the interpreter of records, or becomes a native call."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import tocha
from tocha import _C, fx
from tocha._functorch.checks import message_of
from tocha._functorch.runtime import with_strides
from tocha._higher_order_ops.operator import HigherOrderOperator
from tocha._inductor.lowering import REFUSALS, Lowering, template
from tocha._library.native_calls import default_object, dtype_facts, held, paired
from tocha._ops import OpOverload, ops
from tocha._subclasses.fake import FakeTensor
from tocha._symbolic import _assert_scalar
from tocha.fx.graph import parse_stack_trace
from tocha.ir import symbolic as s
from tocha.ir.assumptions import Assumptions
from tocha.ir.devices import Device
from tocha.ir.layout import contiguous_strides, has_gaps, like_strides
from tocha.ir.loops import Buffer, Call, Check, Element, Loop, NotLowered, Program, Source, plain, verify
from tocha.ir.shape_env import GuardOnDataDependentSymNode, ShapeEnv
from tocha.ir.sym_types import FloatExpr, Symbolic, settled
from tocha.operators.facts import Facts, Memory
from tocha.operators.interpreter import converter, default_of, flat_facts
from tocha.operators.overloads import FUNCTIONAL, Overload
from tocha.operators.record import OPERATORS
from tocha.utils import _pytree as pytree

Tensor = _C.Tensor
ITEM, AS_STRIDED = ops.aten._local_scalar_dense.default, ops.aten.as_strided.default
LIBRARY = str(Path(tocha.__file__).parent)
COPY, ZERO = ops.aten.copy.default, ops.aten.zero.default


@cache
def argument_plan(overload: Overload) -> tuple[dict[str, str], dict[str, Any]]:
    """The record's arguments by the handle's names, and the handle's defaults."""
    partners = paired(overload)
    defaults = {
        partners[a.name]: default_object(a)
        for a in overload.schema._arguments
        if a.name in partners and a.has_default_value()
    }
    return partners, defaults


def record_arguments(overload: Overload, args: tuple, kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a node in the order of the record's, as bodies take them."""
    partners, defaults = argument_plan(overload)
    named = {a.name: v for a, v in zip(overload.schema._arguments, args, strict=False)} | kwargs
    given = {partners[k]: v for k, v in named.items() if k in partners}
    out = {}
    for a in overload.record.schema.arguments:
        if a.name in given or a.name in defaults:
            out[a.name] = converter(a)(held(given.get(a.name, defaults.get(a.name))))
        else:
            out[a.name] = converter(a)(default_of(a))
    return out


def reads_elements(user: fx.Node) -> bool:
    """Whether a node is an operator of the library's that gives a value of its own, wherever its arguments' elements lie."""
    target = user.target
    known = isinstance(target, OpOverload) and getattr(target._target, "overload", None) is not None
    return known and not target._schema._is_view_op()  # type: ignore[union-attr]


def without_gaps(node: fx.Node, f: Facts) -> Facts:
    """A value that is only read for its elements: it needs no gaps between them, which loops do not make."""
    if not has_gaps(f.sizes, f.steps) or not all(map(reads_elements, node.users)):
        return f
    return Facts(f.sizes, f.dtype, f.device, like_strides(f.sizes, f.steps), 0, None, f.conjugated, f.negated)


def facts_of(t: Tensor) -> Facts:
    """Facts of a tensor on memory of its own, which begins at its first element."""
    if isinstance(t, FakeTensor):
        f = t._facts
        # One size has one form in a program, or places that are the same would look different.
        sizes, steps = (f.sizes, f.steps) if not t._symbolic else (tuple(map(settled, v)) for v in (f.sizes, f.steps))
        made = Facts(sizes, f.dtype, f.device, steps, 0, None, f.conjugated, f.negated)
        made.is_plain, made._contiguous = f.is_plain, f._contiguous
        return made
    return Facts(
        tuple(t.shape), dtype_facts(t.dtype), Device(t.device.type, t.device.index), t.stride(), 0, None, t.is_conj(), t.is_neg()
    )  # fmt: skip


Strides = tuple[int, ...] | None  # None: contiguous, or no tensor


def strides_of(v: Any) -> Strides:
    if not isinstance(v, Tensor) or v.is_contiguous():
        return None
    if any(isinstance(n, Symbolic) for n in v.stride()):
        raise NotLowered("a function of tensors whose strides are not known beforehand")
    return tuple(v.stride())


def laid_out(v: Any, strides: Strides) -> Any:
    if not isinstance(v, Tensor):
        return v
    return v.contiguous() if strides is None else with_strides(v, strides)


class LaidOut:
    """A function whose arguments or results are copied where they do not lie as the graph says: each branch of a choice has its own
    layout, and what a loop carries may have another one after the first round."""

    def __init__(self, function: Any, given: list[Strides] | None = None, gives: list[Strides] | None = None):
        self.function, self.given, self.gives = function, given, gives

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.given is not None:
            args = tuple(map(laid_out, args, self.given))
        found = self.function(*args, **kwargs)
        return found if self.gives is None else tuple(map(laid_out, found, self.gives))


class GraphLowering:
    """One graph on its way to a program."""

    def __init__(self, module: fx.GraphModule, compile_piece: Callable[[fx.GraphModule], Callable]):
        self.module, self.compile_piece = module, compile_piece
        self.env: dict[fx.Node, Any] = {}
        self.inputs: list[Buffer | None] = []
        self.constants: list[tuple[Buffer, Any]] = []
        self.symbols: dict[s.Atom, Any] = {}  # as Program.sizes has them
        self.numbers: list[tuple[Any, Source]] = []  # inputs that are no tensors
        self.given: dict[Memory, Tensor] = {}  # arguments and constants by their memory
        self.shown: dict[
            Memory, Facts
        ] = {}  # copies of what lies at addresses of an argument's storage, and the argument
        self.bound: set[s.Atom] = set()  # symbols that a call of the program makes known
        self.seen: set[s.Atom] = (
            set()
        )  # those of sizes and numbers so far, as they were before they were found to be others
        self.lowering = Lowering(self.assumptions(), dtype_facts(_C.get_default_dtype()))

    def assumptions(self) -> Assumptions:
        """What is known of the sizes; loop variables are added to a copy."""
        env = self.environment()
        return Assumptions() if env is None else env.known.copy()

    def program(self) -> Program:
        outputs: list[Any] = []
        for node in self.module.graph.find_nodes(op="placeholder"):
            self.env[node] = self.placeholder(node)
            self.note_seen(node.meta.get("val"))
        self.solve_sizes()
        for node in self.module.graph.nodes:
            if node.op == "placeholder":
                continue
            if node.op == "get_attr":
                self.env[node] = self.constant(node)
            elif node.op == "output":
                given = node.args[0]  # of a loop's condition: one value
                outputs = [self.output(v) for v in (given if isinstance(given, list | tuple) else [given])]
            elif node.op == "call_function":
                self.env[node] = self.call(node)
                self.bind_sizes(node)
            else:
                raise NotLowered(f"a graph with {node.op}")
        lowering = self.lowering
        checks = list(self.checks())
        made = Program(self.inputs, self.constants, lowering.steps, outputs, lowering.known, self.symbols, checks)
        made.lines = {n.name: line for n in self.module.graph.nodes if (line := line_of(n)) is not None}
        verify(made)
        return made

    # -- leaves

    def placeholder(self, node: fx.Node) -> Any:
        value = node.meta.get("val")
        if isinstance(value, Tensor):
            f = facts_of(value)
            self.given[f.memory] = value
            self.inputs.append(self.lowering.buffer(f, node.name))
            return f
        self.inputs.append(None)
        e = plain(value)
        if isinstance(e, s.Expr):
            atom = s.atom_of(e)
            if atom is not None:
                self.symbols[atom] = Source(len(self.inputs) - 1, "integer")
            self.numbers.append((plain(settled(value)), Source(len(self.inputs) - 1, "integer")))
            return settled(value)
        if isinstance(e, s.Relation) and len(e.symbols) == 1:  # a bool, as element() has it
            self.symbols[next(iter(e.symbols))] = Source(len(self.inputs) - 1, "integer")
            return settled(value)
        if isinstance(e, FloatExpr) and e.name == "symbol":
            self.symbols[e.args[0]] = Source(len(self.inputs) - 1, "real_bits")
            return value
        if isinstance(value, int | float | bool | type(None)):
            return value
        raise NotLowered(f"an input that is {type(value).__name__}")

    def solve_sizes(self) -> None:
        """Finds each symbol in the geometry of an input. Those that inputs have only as a part of theirs (n of a padded result, n + 3,
        that backward gets) are computed from it; sizes come before strides, which say nothing where there is one element."""
        inputs = [(i, b) for i, b in enumerate(self.inputs) if b is not None]
        shown = [e for e in self.numbers if isinstance(e[0], s.Expr)]
        shown += [
            (n, Source(i, function, d))
            for function in ("size", "stride")
            for i, b in inputs
            for d, n in enumerate(b.sizes if function == "size" else b.strides)
            if isinstance(n, s.Expr)
        ]
        for e, source in shown:
            atom = s.atom_of(e)
            if atom is not None and atom.kind == "symbol":
                self.symbols.setdefault(atom, source)
        for _ in shown:  # what one finds may be what another waits for
            for e, source in shown:
                unknown = s.free_symbols(e) - self.symbols.keys()
                if len(unknown) != 1:
                    continue
                (atom,) = unknown
                read = s.symbol("_".join(map(str, source)))
                value = solved(e, atom, read)
                if value is not None:
                    self.symbols[s.atom_of(read)] = source  # type: ignore[index]
                    self.symbols[atom] = value

    # -- numbers that come from data

    def new_sizes(self, value: Any) -> list[tuple[int, int, Any]]:
        """Sizes of results that nobody knows before they are there: which result, which dim, the size."""
        found = []
        for i, t in enumerate(pytree.tree_leaves(value)):
            for d, n in enumerate(t.shape if isinstance(t, FakeTensor) and t._symbolic else ()):
                if self.new_in(n):
                    found.append((i, d, n))
        return found

    def new_in(self, number: Any) -> list[s.Atom]:
        return [a for a in s.free_symbols(plain(number)) if self.is_new(a, number)]

    def is_new(self, atom: s.Atom, number: Any) -> bool:
        if atom.kind != "symbol" or atom in self.bound or not number.env.is_unbacked_symint(atom):
            return False
        now = s.free_symbols(number.env.simplify(s.of_atom(atom))) if atom in self.seen else {atom}
        return not all(a in self.bound or a in self.symbols for a in now)

    def note_seen(self, value: Any) -> None:
        for v in pytree.tree_leaves(value):
            numbers = v.shape if isinstance(v, FakeTensor) and v._symbolic else (v,)
            self.seen.update(a for n in numbers if isinstance(n, Symbolic) for a in s.free_symbols(n.expr))

    def bind_sizes(self, node: fx.Node) -> None:
        """After a call that makes sizes they can be read off its results."""
        found = self.new_sizes(node.meta.get("val"))
        results = list(flat_facts([self.env[node]])) if found else []
        for i, d, number in found:
            self.bind(number, results[i], "size", d)
        val = node.meta.get("val")
        if isinstance(val, FakeTensor) and self.new_in(val.storage_offset()):  # the place of a view
            self.bind(val.storage_offset(), self.env[node], "offset")
        # From here on a size that was found to be a number is one; where it is made it is still read, and checked.
        self.note_seen(val)

    def bind(self, number: Any, of: Facts, function: str, dim: int | None = None) -> None:
        """A number that is read off a result gives the one symbol in it that was not known."""
        new = self.new_in(number)
        buffer = self.lowering.buffers.get(of.memory)
        call = buffer.producer if buffer is not None else None
        if len(new) != 1 or not isinstance(call, Call):
            return
        read = s.symbol(function)
        value = solved(plain(number), new[0], read)
        if value is not None:
            source = Source(call.results.index(buffer), function, dim)
            call.binds.update({s.atom_of(read): source, new[0]: value})  # type: ignore[dict-item]
            self.bound.add(new[0])

    def element(self, node: fx.Node, val: Any, t: Facts) -> None:
        """`x.item()`: a float is read by the loops that want it, an integer is a symbol from here on."""
        e = plain(val)
        if isinstance(e, FloatExpr):
            self.lowering.items[e.args[0]] = t
            return
        symbols = s.free_symbols(e)  # one; a bool is the relation that its number is one
        atom = next(iter(symbols)) if len(symbols) == 1 else None
        if atom is not None and self.is_new(atom, val):
            self.lowering.origin = node.name
            self.bind_element(atom, t)

    def bind_element(self, atom: s.Atom, t: Facts) -> None:
        self.lowering.readable(t)
        call = Element("item", None, (), (), (), (self.lowering.geometry(t),), binds={atom: Source(0, "element")})
        self.lowering.add_call(call, [])
        self.bound.add(atom)

    def bind_reals(self, value: Any) -> None:
        """Floats that are elements, for a result that is computed of them, or what was promised of them."""
        for atom in sorted(getattr(value, "symbols", set()) & self.lowering.items.keys()):
            if atom not in self.bound:
                self.bind_element(atom, self.lowering.items[atom])

    def checks(self) -> Iterator[Check]:
        """What was promised of these numbers, by the program or by operators that have become loops and views."""
        env = self.environment()
        for a in [a for asserts in env.deferred_runtime_asserts.values() for a in asserts] if env is not None else ():
            atoms = s.free_symbols(a.expr)
            if all(atom in self.bound or atom in self.symbols for atom in atoms):
                yield Check(a.expr, message_of(a), a.error.__name__)

    def environment(self) -> ShapeEnv | None:
        for node in self.module.graph.nodes:
            for v in pytree.tree_leaves(node.meta.get("val")):
                if isinstance(v, Symbolic):
                    return v.env
                if isinstance(v, FakeTensor) and v._symbolic:
                    return v.fake_mode.shape_env
        return None

    def constant(self, node: fx.Node) -> Any:
        value: Any = self.module
        for part in str(node.target).split("."):
            value = getattr(value, part)
        if isinstance(value, fx.GraphModule):
            return value
        if not isinstance(value, Tensor):
            raise NotLowered(f"a constant that is {type(value).__name__}")
        f = facts_of(value)
        self.given[f.memory] = value
        self.constants.append((self.lowering.buffer(f, "constant"), value))
        return f

    def output(self, value: Any) -> Any:
        if isinstance(value, fx.Node):
            node, value = value, self.env[value]
            if isinstance(value, Facts) and value.memory in self.shown:
                value = self.as_it_lies(node, value)
        if isinstance(value, Facts):
            return self.lowering.geometry(value)
        value = plain(value)
        if isinstance(value, FloatExpr):
            self.bind_reals(value)
        if value is None or isinstance(value, s.Expr | s.Relation | FloatExpr | float | int):
            return value
        raise NotLowered(f"a result that is {value!r}")

    # -- operators

    def call(self, node: fx.Node) -> Any:
        args, kwargs = fx.map_arg((node.args, dict(node.kwargs)), lambda n: self.env[n])
        target = node.target
        if target is operator.getitem:
            return args[0][args[1]]
        if target is _assert_scalar:
            self.bind_reals(plain(getattr(node.args[0], "meta", {}).get("val")))  # by now args have it as true
            return None  # with all that was promised: see checks
        val = node.meta.get("val")
        if isinstance(val, Symbolic | int | float | bool):
            if target is ITEM and isinstance(val, Symbolic) and isinstance(args[0], Facts):
                self.element(node, val, args[0])
            return settled(val)
        if isinstance(target, HigherOrderOperator):
            return self.higher_order(node, target, args, kwargs, val)
        if not isinstance(target, OpOverload):
            if not kwargs and all(isinstance(a, Symbolic | int | float) for a in args):  # arithmetic on sizes
                return target(*args)  # type: ignore[operator]
            raise NotLowered(f"a call of {target}")
        self.lowering.origin = node.name
        if target is AS_STRIDED and (args[0].memory in self.shown or self.shows_more(node, args[0])):
            return self.by_address(record_arguments(target._target.overload, args, kwargs))
        if target in (COPY, ZERO) and isinstance(val, Tensor):
            try:
                return self.lowering.copied(without_gaps(node, facts_of(val)), args[1] if target is COPY else 0)
            except REFUSALS:
                return self.whole(node, target, args, kwargs, val)
        overload = getattr(target._target, "overload", None)
        if overload is not None and overload.form == FUNCTIONAL and not self.new_sizes(val):
            try:
                with self.lowering:
                    arguments = record_arguments(overload, args, kwargs)
                    if "moves" in overload.record.tags and self.only_moves(node, list(flat_facts(arguments.values()))):
                        return self.lowering.whole(overload.record, arguments)
                    return self.lowering.call(overload.record, arguments)
            except REFUSALS:
                pass
        return self.whole(node, target, args, kwargs, val)

    def only_moves(self, node: fx.Node, operands: Sequence[Facts]) -> bool:
        """Whether a result is nothing but memory in another order, and goes to the caller: with AVX-512 the library transposes
        in registers, and tiles of generated code are no match for it."""
        if not transposes_in_registers() or any(user.op != "output" for user in node.users):
            return False
        buffers = [self.lowering.buffers.get(t.memory) for t in operands]
        if any(b is None or isinstance(b.producer, Loop) for b in buffers):
            return False
        along = fastest_dim(facts_of(node.meta["val"]))
        return along is not None and all(fastest_dim(t) not in (None, along) for t in operands)

    def higher_order(self, node: fx.Node, target: HigherOrderOperator, args: Any, kwargs: Any, val: Any) -> Any:
        """A call whose functions are programs of their own, where the operator only calls them."""
        if not isinstance(val, tuple | list) or not all(isinstance(v, Tensor) for v in val):
            raise NotLowered(f"a call of {target} that gives numbers")
        if target.only_calls:
            args = tuple(self.piece(a) if isinstance(a, fx.GraphModule) else a for a in args)
        function = LaidOut(target, gives=[strides_of(v) for v in val])
        call = template(function, tuple(args), tuple(kwargs.items()), self.lowering)
        call.name, call.key, call.ordered = target.name(), f"higher_order {target}", True
        self.lowering.origin = node.name
        found = [facts_of(v) for v in val]
        self.lowering.add_call(call, found)
        return tuple(found)

    def piece(self, module: fx.GraphModule) -> Callable[..., Any]:
        given = [strides_of(n.meta.get("val")) for n in module.graph.find_nodes(op="placeholder")]
        return LaidOut(self.compile_piece(module), given)

    def by_address(self, arguments: dict[str, Any]) -> Facts:
        """as_strided of an argument, or of what as_strided has shown of one: the same storage. A copy of it lies as it does, gaps and
        repetitions and all: results of what reads it are laid out by that."""
        source = self.shown.get(arguments["self"].memory, arguments["self"])
        if source is not arguments["self"] and arguments["storage_offset"] is None:
            raise NotLowered("as_strided that begins where another one does")
        sizes, steps = arguments["size"], arguments["stride"]
        with self.lowering:
            if 0 in sizes or list(steps) == list(contiguous_strides(sizes)):
                made = self.lowering.whole(OPERATORS["as_strided_copy"], {**arguments, "self": source})
            else:
                span = 1 + sum((n - 1) * k for n, k in zip(sizes, steps, strict=True))
                taken = {**arguments, "self": source, "size": [span], "stride": [1]}
                memory = self.lowering.whole(OPERATORS["as_strided_copy"], taken)
                made = self.lowering.call(OPERATORS["as_strided"], {**arguments, "self": memory, "storage_offset": 0})
        self.shown[made.memory] = source
        return made

    def as_it_lies(self, node: fx.Node, copy: Facts) -> Facts:
        """A result that lies in an argument's storage, for the copy of it that loops read."""
        f = node.meta["val"]._facts
        if f.dtype is not copy.dtype:
            raise NotLowered("a result that reads an argument's storage as another dtype")
        arguments = {"self": self.shown[copy.memory], "size": list(f.sizes), "stride": list(f.steps), "storage_offset": f.offset}  # fmt: skip
        with self.lowering:
            made = Facts(f.sizes, f.dtype, f.device, f.steps, 0)
            return self.lowering.native_call(OPERATORS["as_strided"], arguments, made)

    def shows_more(self, node: fx.Node, t: Facts) -> bool:
        """Whether as_strided goes by memory that does not begin and end with the tensor: an argument's, which others share."""
        given = self.given.get(t.memory)
        if given is None:
            return False
        val = node.meta["val"]
        ends = [val.storage_offset(), *((n - 1) * k for n, k in zip(val.shape, val.stride(), strict=True))]
        whole = given.is_contiguous() and type(given.storage_offset()) is int and given.storage_offset() == 0
        return not whole or any(isinstance(e, Symbolic) for e in ends) or sum(ends) >= given.numel()

    def whole(self, node: fx.Node, target: OpOverload, args: Any, kwargs: Any, val: Any) -> Any:
        """The node as a call of its handle; what comes out is what the fake says."""
        values, spec = pytree.tree_flatten(val) if val is not None else ([], None)
        nested = isinstance(val, tuple | list) and len(values) != len(val)
        call = template(flat(target._op) if nested else target._op, tuple(args), tuple(kwargs.items()), self.lowering)
        call.name = target.__name__.replace(".", "_")
        call.key = f"{'flat results of' if nested else 'handle'} {target}"
        call.ordered = target._nondeterministic_seeded or not isinstance(val, Tensor | tuple | list)
        call.is_view = target._schema._is_view_op()
        found = [facts_of(v) if isinstance(v, Tensor) else None for v in values]
        self.lowering.add_call(call, found)
        return pytree.tree_unflatten(found, spec) if spec is not None else None


def solved(e: s.Expr, atom: s.Atom, value: Any) -> Any:
    """What a symbol is where an expression that has it once has a value; None where that is not said."""
    times = dict(s.terms_of(e)).get(((atom, 1),), 0)
    rest = s.add(e, s.scale(s.of_atom(atom), -times))
    if not times or atom in s.free_symbols(rest):
        return None
    return s.floordiv(s.add(value, s.scale(rest, -1)), times)


def transposes_in_registers() -> bool:
    return _C._cpu_capability() == "AVX512"


def fastest_dim(t: Facts) -> int | None:
    """The dim along which elements are neighbours in memory."""
    found = [
        d
        for d, (n, k) in enumerate(zip(t.sizes, t.steps, strict=True))
        if (isinstance(n, Symbolic) or n > 1) and type(k) is int and k == 1
    ]
    return found[0] if found else None


def flat(function: Any) -> Any:
    """A function whose results are not in lists."""
    return lambda *args, **kwargs: tuple(pytree.tree_leaves(function(*args, **kwargs)))


def line_of(n: fx.Node) -> str | None:
    """The innermost line of the user's program, outside of this library, that a node came from."""
    trace = n.stack_trace
    if not trace:
        return None
    frame = parse_stack_trace(trace, lambda file, *_: not file.startswith(LIBRARY)) or parse_stack_trace(trace)
    return None if frame is None else frame.get_summary_str()


def lower_graph(module: fx.GraphModule, compile_piece: Callable[[fx.GraphModule], Callable] | None = None) -> Program:
    """The program of a functional graph whose nodes know their values (meta["val"]). `compile_piece`: what makes programs of the
    functions that operators are given; without it they stay graphs."""
    try:
        return GraphLowering(module, compile_piece or (lambda piece: piece)).program()
    except GuardOnDataDependentSymNode as asked:
        raise NotLowered(f"it asks for numbers that come from data: {str(asked).partition(' (unhinted')[0]}") from asked
