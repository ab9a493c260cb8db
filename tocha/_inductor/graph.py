"""FX graphs to programs of the loop IR: every node goes through the interpreter of records, or becomes a native call."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from tocha import _C, fx
from tocha._functorch.runtime import with_strides
from tocha._higher_order_ops.operator import HigherOrderOperator
from tocha._inductor.lowering import REFUSALS, Lowering, template
from tocha._library.native_calls import default_object, dtype_facts, held, paired
from tocha._ops import OpOverload, ops
from tocha._subclasses.fake import FakeTensor
from tocha.ir import symbolic as s
from tocha.ir.assumptions import Assumptions
from tocha.ir.devices import Device
from tocha.ir.layout import contiguous_strides
from tocha.ir.loops import Buffer, Loop, NotLowered, Program, Source, plain, verify
from tocha.ir.shape_env import GuardOnDataDependentSymNode
from tocha.ir.sym_types import FloatExpr, Symbolic, settled
from tocha.operators.facts import Facts, Memory
from tocha.operators.interpreter import converter, default_of, flat_facts
from tocha.operators.overloads import FUNCTIONAL, Overload
from tocha.operators.record import OPERATORS
from tocha.utils import _pytree as pytree

Tensor = _C.Tensor
ITEM, AS_STRIDED = ops.aten._local_scalar_dense.default, ops.aten.as_strided.default


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
        self.given: dict[Memory, Tensor] = {}  # arguments and constants by their memory
        self.shown: dict[
            Memory, Facts
        ] = {}  # copies of what lies at addresses of an argument's storage, and the argument
        self.lowering = Lowering(self.assumptions(), dtype_facts(_C.get_default_dtype()))

    def assumptions(self) -> Assumptions:
        """What is known of the sizes; loop variables are added to a copy."""
        known = Assumptions()
        for node in self.module.graph.nodes:
            value = node.meta.get("val")
            if isinstance(value, FakeTensor) and value._symbolic:
                source = value.fake_mode.shape_env.known
                known.ranges = dict(source.ranges)
                known.replacements = dict(source.replacements)
                known.multiples = dict(source.multiples)
                known.nonnegative = list(source.nonnegative)
                known.nonzero, known.true = set(source.nonzero), set(source.true)
                break
        return known

    def program(self) -> Program:
        outputs: list[Any] = []
        for node in self.module.graph.nodes:
            if node.op == "placeholder":
                self.env[node] = self.placeholder(node)
            elif node.op == "get_attr":
                self.env[node] = self.constant(node)
            elif node.op == "output":
                given = node.args[0]  # of a loop's condition: one value
                outputs = [self.output(v) for v in (given if isinstance(given, list | tuple) else [given])]
            elif node.op == "call_function":
                self.env[node] = self.call(node)
            else:
                raise NotLowered(f"a graph with {node.op}")
        self.solve_sizes()
        lowering = self.lowering
        made = Program(self.inputs, self.constants, lowering.steps, outputs, lowering.known, self.symbols)
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
        shown = [
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
                times = dict(s.terms_of(e)).get(((atom, 1),), 0)
                rest = s.add(e, s.scale(s.of_atom(atom), -times))
                if times and atom not in s.free_symbols(rest):
                    read = s.symbol("_".join(map(str, source)))
                    self.symbols[s.atom_of(read)] = source  # type: ignore[index]
                    self.symbols[atom] = s.floordiv(s.add(read, s.scale(rest, -1)), times)

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
        if value is None or isinstance(value, s.Expr | FloatExpr | float) or type(value) is int:
            return value
        raise NotLowered(f"a result that is {value!r}")

    # -- operators

    def call(self, node: fx.Node) -> Any:
        args, kwargs = fx.map_arg((node.args, dict(node.kwargs)), lambda n: self.env[n])
        target = node.target
        if target is operator.getitem:
            return args[0][args[1]]
        val = node.meta.get("val")
        if isinstance(val, Symbolic | int | float | bool):
            e = plain(val)
            if target is ITEM and isinstance(e, FloatExpr) and isinstance(args[0], Facts):
                self.lowering.items[e.args[0]] = args[0]
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
        overload = getattr(target._target, "overload", None)
        if overload is not None and overload.form == FUNCTIONAL:
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
        found = [facts_of(v) if isinstance(v, Tensor) else None for v in values]
        self.lowering.add_call(call, found)
        return pytree.tree_unflatten(found, spec) if spec is not None else None


def transposes_in_registers() -> bool:
    return _C._cpu_capability() == "AVX512"


def fastest_dim(t: Facts) -> int | None:
    """The dim along which elements are neighbours in memory."""
    found = [d for d, (n, k) in enumerate(zip(t.sizes, t.steps, strict=True)) if type(n) is int and n > 1 and k == 1]
    return found[0] if found else None


def flat(function: Any) -> Any:
    """A function whose results are not in lists."""
    return lambda *args, **kwargs: tuple(pytree.tree_leaves(function(*args, **kwargs)))


def lower_graph(module: fx.GraphModule, compile_piece: Callable[[fx.GraphModule], Callable] | None = None) -> Program:
    """The program of a functional graph whose nodes know their values (meta["val"]). `compile_piece`: what makes programs of the
    functions that operators are given; without it they stay graphs."""
    try:
        return GraphLowering(module, compile_piece or (lambda piece: piece)).program()
    except GuardOnDataDependentSymNode as asked:
        raise NotLowered(f"it asks for numbers that come from data: {str(asked).partition(' (unhinted')[0]}") from asked
