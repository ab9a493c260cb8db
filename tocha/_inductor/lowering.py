"""A functional graph of operators to the loop IR: formulas, folds, views and decompositions of the records, interpreted.

`Lowering` is a reader over the one interpreter of records: its facts are those of the interpreter, and every memory that an
operator makes is a `Buffer` that a `Loop` or a `Call` fills. Views need nothing: their geometry is in the facts.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

from tocha._inductor import config
from tocha._inductor.assembled import Assembled, Element, Real, Size, TensorPlace, Truth
from tocha._inductor.products import product_call
from tocha._library.native_calls import record_call, released
from tocha.ir import dtypes as dt
from tocha.ir import scalar
from tocha.ir import symbolic as s
from tocha.ir.assumptions import Assumptions
from tocha.ir.devices import CPU
from tocha.ir.dtypes import DType
from tocha.ir.loops import (
    Buffer,
    Call,
    FoldNodes,
    Geometry,
    Indirect,
    Load,
    Loop,
    NotLowered,
    Position,
    Step,
    address_of,
    is_dense,
    plain,
)
from tocha.ir.node import Node, NotDefined
from tocha.ir.rewrite import simplify
from tocha.ir.shape_env import GuardOnDataDependentSymNode
from tocha.ir.sym_types import FloatExpr
from tocha.operators.derived import params, resolve, type_codes
from tocha.operators.facts import Facts, Memory, Scalar
from tocha.operators.interpreter import DataDependent, Interpreter, flat_facts, formula_of
from tocha.operators.record import Fold, Operator

# What records and formulas raise on purpose. Anything else is a defect, and is to be seen.
REFUSALS = (NotImplementedError, NotDefined, DataDependent, GuardOnDataDependentSymNode)


class TooManySteps(NotLowered):
    """The parts of an operator became more than it may have."""


FORMULAS = {"truediv": "div", "abs": "absolute", "min": "minimum", "max": "maximum"}


class Reader:
    """Collects what one loop reads, while its formulas are made."""

    def __init__(self, lowering: Lowering, result: Facts | None):
        self.lowering, self.result = lowering, result
        self.reads: dict[Load | Position, int] = {}
        self.indirect: dict[Node, Indirect] = {}

    def refusal(self, message: str) -> NotLowered:
        return NotLowered(message)

    def size(self, t: Facts, d: int) -> Any:
        return plain(t.sizes[d])

    def is_one(self, t: Facts, d: int) -> bool:
        n = plain(t.sizes[d])
        return n == 1 if isinstance(n, int) else self.lowering.known.holds(s.eq(n, 1)) is True

    def holds(self, relation: Any) -> bool:
        """Whether what is known of the sizes says so."""
        return self.lowering.known.holds(relation) is True

    def converted(self, value: Node, dtype: DType) -> Node:
        """An element in another dtype. What becomes of a float that an integer cannot hold is the processor's own matter in conversions
        of tensors, and not in formulas."""
        if value.dtype.is_differentiable and not dtype.is_differentiable and dtype is not dt.bool_:
            raise NotLowered("floats that become integers")
        return scalar.cast(value, dtype)

    def number(self, value: Any, dtype: DType) -> Node:
        value = plain(value.value if isinstance(value, Scalar) else value)
        if isinstance(value, s.Expr | FloatExpr | s.Relation):  # a symbol may turn out to be one number
            value = self.lowering.known.simplify(value)
        if isinstance(value, s.Relation):
            value = s.choose(value, 1, 0)
        if isinstance(value, s.Expr):
            return scalar.cast(self.position(value), dtype)
        if isinstance(value, FloatExpr):
            if value.symbols & self.lowering.items.keys():
                return scalar.cast(self.read(self.lowering.computed(value), []), dtype)
            return scalar.cast(self._input(Position(value), dt.float64), dtype)
        if not isinstance(value, bool | int | float | complex):
            raise NotLowered(f"a number that is {value!r}")
        if isinstance(value, float) and dtype.kind is dt.Kind.INTEGER and not is_held(value, dtype):
            raise NotLowered("a float that an integer cannot hold")
        if isinstance(value, complex) and dtype.kind in (dt.Kind.INTEGER, dt.Kind.FLOATING):
            raise NotLowered("a complex number that is to be real")
        return scalar.constant(dtype.convert(value), dtype)

    def formula(self, e: Any) -> Node:
        """A float of symbols in float64, those that are elements of tensors included."""
        if isinstance(e, FloatExpr) and e.name == "symbol" and e.args[0] in self.lowering.items:
            t = self.lowering.items[e.args[0]]
            return scalar.cast(self.read(t, [0] * t.ndim), dt.float64)
        if not isinstance(e, FloatExpr) or not e.symbols & self.lowering.items.keys():
            return self.number(e, dt.float64)
        args = [self.formula(a) for a in e.args]
        if e.name == "float":
            return args[0]
        name = FORMULAS.get(e.name, e.name)
        if name in ("floordiv", "mod") or not hasattr(scalar, name):
            raise NotLowered(f"{e.name} of an element")
        return getattr(scalar, name)(*args)

    def position(self, value: Any) -> Node:
        value = plain(value)
        if isinstance(value, int):
            return scalar.constant(value, dt.int64)
        return self._input(Position(value), dt.int64)

    def read(self, t: Facts, index: Sequence[Any], guard: Any = True) -> Node:
        if t.number is not None:
            return self.number(t.number, t.dtype)
        buffer = self.lowering.readable(t)
        address = address_of(index, [plain(n) for n in t.steps], plain(t.offset))
        return self._input(Load(buffer, self.lowering.known.simplify(address), guard), t.dtype)

    def broadcast(self, t: Facts, index: Sequence[Any]) -> Node:
        """t's element at an index of something that it broadcasts to."""
        lead = len(index) - t.ndim
        return self.read(t, [0 if self.is_one(t, d) else index[lead + d] for d in range(t.ndim)])

    def loaded(self, value: Node, size: Any) -> Any:
        """An index that is read from memory, along a dim of this size. Into nothing there is none: the call says so, if it is asked for any."""
        if size == 0:
            raise NotLowered("an index into nothing")
        found = self.indirect.get(value)
        if found is None:
            atom = s.atom_of(self.lowering.known.index(s.symbol(f"x{len(self.indirect)}"), size))
            assert atom is not None
            found = self.indirect[value] = Indirect(atom, value, size)
        return s.of_atom(found.atom)

    def _input(self, read: Load | Position, dtype: DType) -> Node:
        return scalar.Input(self.reads.setdefault(read, len(self.reads)), dtype)


def is_held(value: float, dtype: DType) -> bool:
    """Whether a float, without its fraction, is a number of an integer's type."""
    return math.isfinite(value) and dtype.wrap(int(value)) == int(value)


class Lowering(Interpreter):
    """Runs operators on facts, and writes down the loops and calls that compute them."""

    def __init__(self, known: Assumptions, default_dtype: DType = dt.float32):
        self.known = known
        self.steps: list[Step] = []
        self.most_steps: float = math.inf  # that the shortest of the operators being taken apart may have
        self.buffers: dict[Memory, Buffer] = {}
        self.names = itertools.count()
        self.origin = ""
        self.default = default_dtype
        self.only_facts = _FactsOnly(default_dtype)
        self._variables: dict[tuple[int, Any], Any] = {}
        self.items: dict[s.Atom, Facts] = {}  # floats that are elements of tensors: x.item()
        self._computed: dict[FloatExpr, Facts] = {}

    def default_dtype(self) -> DType:
        return self.default

    def computed(self, value: FloatExpr) -> Facts:
        """A float that depends on elements, as a tensor of one float64: computed once, however many loops read it."""
        found = self._computed.get(value)
        if found is None or found.memory not in self.buffers:
            found = self._computed[value] = Facts([], dt.float64, CPU)
            reader = Reader(self, found)
            node = reader.formula(value)
            self.loop("number", (), (), reader, simplify((node,)), [found])
        return found

    # -- memory

    def variable(self, dim: int, size: Any) -> Any:
        """The symbol of a loop over a size: the same one for the same place in the nest."""
        found = self._variables.get((dim, size))
        if found is None:
            taken = sum(d == dim for d, _ in self._variables)  # another range is another symbol
            found = self._variables[dim, size] = self.known.index(s.symbol(f"i{dim}" + "_" * taken), size)
            if isinstance(size, s.Expr):
                self.known.learn(s.lt(found, size))
        return found

    def variables(self, sizes: Sequence[Any]) -> tuple[Any, ...]:
        # A dim of one element has one index.
        return tuple(0 if isinstance(n, int) and n <= 1 else self.variable(d, n) for d, n in enumerate(sizes))

    def buffer(self, t: Facts, name: str, producer: Step | None = None) -> Buffer:
        made = Buffer(
            f"{name}_{next(self.names)}", tuple(map(plain, t.sizes)), tuple(map(plain, t.steps)), t.dtype, producer,
            (t.conjugated, t.negated),
        )  # fmt: skip
        self.buffers[t.memory] = made
        return made

    def readable(self, t: Facts) -> Buffer:
        """The buffer that t is a view of, where loops can read it."""
        found = self.buffers.get(t.memory)
        if found is None or t.conjugated or t.negated or found.dtype is not t.dtype or t.device != CPU:
            raise NotLowered(f"{t} is not read by loops")
        return found

    def geometry(self, t: Facts) -> Geometry:
        found = self.buffers.get(t.memory)
        if found is None:
            raise NotLowered(f"{t} has no memory")
        if (t.conjugated, t.negated) != found.bits:
            raise NotLowered(f"{t} reads as the conjugate of its memory")
        return Geometry(found, tuple(map(plain, t.sizes)), tuple(map(plain, t.steps)), plain(t.offset), t.dtype)

    # -- the kinds

    def call(self, o: Operator, arguments: dict[str, Any], inplace: bool = False) -> Any:
        if inplace or (o.kind == "native" and o.name.endswith("_")):
            raise NotLowered(f"{o.name} writes")
        return getattr(self, o.kind)(o, arguments)

    def pointwise(self, o: Operator, arguments: dict[str, Any]) -> Any:
        made = super().pointwise(o, arguments)
        if "nondeterministic_seeded" in o.tags:
            return self.native_call(o, arguments, made)
        results = made if isinstance(made, tuple) else (made,)
        f = formula_of(o)
        operands = [arguments[n] for n in f.operands]
        t = self.compute_dtype(o, f, operands)
        outs, ins, codes = type_codes(o)
        reader = Reader(self, results[0])
        sizes = tuple(map(plain, results[0].sizes))
        index = self.variables(sizes)
        xs = [self.operand(reader, v, c, t, index, o) for v, c in zip(operands, ins, strict=True)]
        ps = {
            a.name: self.parameter(reader, arguments[a.name], resolve(c, t.compute), c, t)
            for a, c in zip(params(o), codes, strict=True)
        }
        found = o.body(*xs, **ps)
        nodes = simplify(
            tuple(
                scalar.cast(n if isinstance(n, Node) else scalar.constant(n, resolve(c, t.compute)), r.dtype)
                for n, r, c in zip(found if isinstance(found, tuple) else (found,), results, outs, strict=True)
            )
        )
        self.loop(o.name, sizes, index, reader, nodes, results)
        return made

    def operand(self, reader: Reader, v: Facts, code: Any, t: DType, index: Sequence[Any], o: Operator) -> Node:
        """An operand's element in the dtype that the formula computes in, rounded on the way as eager rounds it."""
        wanted = resolve(code, t)
        if v.number is not None:  # in full, unless it is to be rounded like an element
            whole = not wanted.is_reduced or code in ("scalar", "number")
            return scalar.cast(reader.number(v.number, wanted.compute if whole else wanted), wanted.compute)
        element = reader.broadcast(v, index)
        single = v.number is not None or not v.sizes
        kept = (code == "scalar" and single) or (code == "number" and v.number is not None)
        stored = "stored" in o.tags
        if not kept and wanted.is_reduced and element.dtype is not wanted:
            element = scalar.cast(element, wanted)
        return scalar.cast(element, wanted if stored else wanted.compute)

    def parameter(self, reader: Reader, value: Any, dtype: DType, code: Any, t: DType) -> Any:
        node = reader.number(value, dtype)
        return scalar.cast(scalar.cast(node, t), dtype) if code == "rounded" and t.is_reduced else node

    def loop(
        self, name: str, sizes: tuple[Any, ...], index: tuple[Any, ...], reader: Reader, nodes: tuple[Node, ...],
        results: Sequence[Facts], fold: FoldNodes | None = None, folded: int = 0,
    ) -> Loop:  # fmt: skip
        made = Loop(
            f"{name}_{len(self.steps)}", sizes, index, tuple(reader.reads), nodes, [], fold, folded,
            tuple(reader.indirect.values()), (self.origin or name,),
        )  # fmt: skip
        for r in results:
            if not is_dense(r.sizes, r.steps, self.known):
                raise NotLowered(f"{name}: a result with holes")
            made.results.append(self.buffer(r, name, made))
        self.add(made)
        return made

    def reduction(self, o: Operator, arguments: dict[str, Any]) -> Any:
        # A recurrence with divisions is slower than the passes that it saves.
        if o.decomposition is not None and len(o.body(dt.float32).state_types) > 2:
            return self.attempt(lambda: self.decompose(o, dict(arguments)), lambda: self.fold(o, arguments))
        return self.fold(o, arguments)

    def fold(self, o: Operator, arguments: dict[str, Any]) -> Any:
        made = Interpreter.reduction(self, o, arguments)
        results = made if isinstance(made, tuple) else (made,)
        x = arguments["self"]
        t = self.reduced_dtype(o, x, arguments.get("dtype")).compute
        dims = arguments.get("dim")
        dims = [dims] if dims is not None and not isinstance(dims, list) else dims or list(range(x.ndim))
        folded = [d for d in range(x.ndim) if d in {e % x.ndim for e in dims}]
        kept = [d for d in range(x.ndim) if d not in folded]
        order = [*kept, *folded]
        sizes = tuple(plain(x.sizes[d]) for d in order)
        index = self.variables(sizes)
        place = [index[order.index(d)] for d in range(x.ndim)]
        reader = Reader(self, results[0])
        element = reader.converted(self.element_of(o, reader, x, place, t), t)
        extra = {
            a.name: reader.number(arguments[a.name], resolve(c, t)) for a, c in zip(*self.fold_params(o), strict=True)
        }
        fold = fold_nodes(o.body(t), t, extra, [r.dtype for r in results])
        # Without the dims that keepdim leaves, which are the same memory.
        flat = [Facts([x.sizes[d] for d in kept], r.dtype, r.device, memory=r.memory) for r in results]
        self.loop(o.name, sizes, index, reader, simplify((element,)), flat, fold, len(folded))
        return made

    def element_of(self, o: Operator, reader: Reader, x: Facts, place: Sequence[Any], t: DType) -> Node:
        return reader.read(x, place)

    @staticmethod
    def fold_params(o: Operator) -> tuple[list[Any], Sequence[Any]]:
        extra = [a for a in params(o) if a.name not in ("dim", "keepdim", "dtype")]
        return extra, (o.types or {}).get("params", ("T",) * len(extra))

    def composite(self, o: Operator, arguments: dict[str, Any]) -> Any:
        if o.elements is not None:
            return self.attempt(lambda: self.by_elements(o, arguments), lambda: self.whole(o, arguments))
        return self.attempt(lambda: self.run(o, dict(arguments)), lambda: self.whole(o, arguments), allow_calls=True)

    def native(self, o: Operator, arguments: dict[str, Any]) -> Any:
        if o.elements is not None:
            return self.attempt(lambda: self.by_elements(o, arguments), lambda: self.whole(o, arguments))
        if o.decomposition is not None and "called_whole" not in o.tags:
            return self.attempt(lambda: self.decompose(o, dict(arguments)), lambda: self.whole(o, arguments))
        return self.whole(o, arguments)

    def attempt(
        self, parts: Callable[[], Any], whole: Callable[[], Any], allow_calls: bool = False, most: int | None = None
    ) -> Any:
        """The parts of an operator if they are loops, and not too many; else the operator whole."""
        most = config.longest_decomposition if most is None else most
        mark, buffers, outer = len(self.steps), dict(self.buffers), self.most_steps
        self.most_steps = min(outer, mark + most)
        try:
            found = parts()
            new = self.steps[mark:]
            calls = [] if allow_calls else [n for n in new if isinstance(n, Call) and n.results]
            if not calls and self.all_here(found):
                return found
        except TooManySteps:
            if self.most_steps == outer:  # it is the operator around this one that has too many
                raise
        except REFUSALS:
            pass
        finally:
            self.most_steps = outer
        del self.steps[mark:]
        self.buffers = buffers
        return whole()

    def add(self, step: Step) -> None:
        """Refuses as soon as there are too many: windows of a large image have thousands of places."""
        self.steps.append(step)
        if len(self.steps) > self.most_steps:
            raise TooManySteps

    def all_here(self, found: Any) -> bool:
        return all(f.memory in self.buffers for f in flat_facts([found]))

    def by_elements(self, o: Operator, arguments: dict[str, Any]) -> Any:
        made = getattr(self.only_facts, o.kind)(o, arguments)
        if made is arguments.get("self"):
            return made
        if made.offset != 0:  # a copy of a storage; of loops the memory is new
            made = Facts(made.sizes, made.dtype, made.device, made.steps, 0)
        reader = Reader(self, made)
        sizes = tuple(map(plain, made.sizes))
        index = self.variables(sizes)
        assert o.elements is not None
        nothing = 0 in sizes  # then there is no element to ask about
        node = reader.number(0, made.dtype) if nothing else o.elements(reader, list(index), *arguments.values())
        self.loop(o.name, sizes, index, reader, simplify((node,)), [made])
        return made

    def foreach(self, o: Operator, arguments: dict[str, Any], inplace: bool = False) -> Any:
        """Loops for each of the tensors, which are fused with those before and after: kernels that do not need each other run as one."""
        if inplace or o.name.endswith("_"):
            raise NotLowered(f"{o.name} writes")
        most = config.longest_decomposition * max(len(v) for v in arguments.values() if isinstance(v, list))
        return self.attempt(
            lambda: Interpreter.foreach(self, o, arguments), lambda: self.whole(o, arguments), most=most
        )

    def copied(self, made: Facts, source: Any) -> Facts:
        """`made` with the elements of another tensor, broadcast and converted, or with a number."""
        reader = Reader(self, made)
        sizes = tuple(map(plain, made.sizes))
        index = self.variables(sizes)
        t = made.dtype
        if isinstance(source, complex) and t.kind in (dt.Kind.INTEGER, dt.Kind.FLOATING):
            source = source.real
        node = (
            reader.converted(reader.broadcast(source, index), t)
            if isinstance(source, Facts)
            else reader.number(source, t)
        )
        self.loop("copy", sizes, index, reader, simplify((node,)), [made])
        return made

    # -- calls

    def whole(self, o: Operator, arguments: dict[str, Any]) -> Any:
        """The operator as a call of its native form."""
        made = getattr(self.only_facts, o.kind)(o, arguments)
        return self.native_call(o, arguments, made)

    def native_call(self, o: Operator, arguments: dict[str, Any], made: Any) -> Any:
        results = list(flat_facts([made]))
        refuses = not o.schema.returns
        if not refuses and all(r.memory in self.buffers for r in results):  # a view, or an argument as it is
            if all(self.buffers[r.memory].bits == (r.conjugated, r.negated) for r in results):
                return made
            if len(results) != 1:
                raise NotLowered(f"{o.name}: several views that read as conjugates")
            made.memory = Memory()  # the tensor that the operator gives
            made.offset = 0
        product = product_call(o, arguments, made, self.geometry) if config.runs("products") else None
        if product is not None:
            self.add_call(product, results)
            return made
        call = template(record_call(o, False)._op, tuple(arguments.values()), (), self)
        call.name, call.key = o.full_name, f"record {o.full_name}"
        call.ordered = o.algorithm == "random" or "nondeterministic_seeded" in o.tags or refuses
        call.is_view = o.kind == "view"
        self.add_call(call, results)
        return made

    def add_call(self, call: Call, results: Sequence[Facts | None]) -> None:
        for r in results:
            if r is not None:
                r.offset = 0  # a buffer begins with the tensor's first element, wherever that lies in its memory
            call.results.append(None if r is None else self.buffer(r, call.name.split(".")[0], call))
        call.origins = (self.origin,) if self.origin else ()
        self.add(call)


class _FactsOnly(Interpreter):
    """Facts of results without loops: what whole operators give."""

    def __init__(self, default_dtype: DType):
        super().__init__()
        self.default = default_dtype

    def default_dtype(self) -> DType:
        return self.default

    def composite(self, o: Operator, arguments: dict[str, Any]) -> Any:
        return self.by_facts(o, arguments)


def template(function: Any, args: tuple, keywords: Sequence[tuple[str, Any]], lowering: Lowering) -> Call:
    """A call with its tensors taken out. Those inside lists, and symbolic sizes, are put back by a function of Python."""
    values = [*args, *(v for _, v in keywords)]
    names = tuple(k for k, _ in keywords)
    tensors: list[Geometry] = []
    holes: list[int] = []
    for i, v in enumerate(values):
        if isinstance(v, Facts) and v.number is None:
            tensors.append(lowering.geometry(v))
            holes.append(i)
    rest = [v for i, v in enumerate(values) if i not in holes]
    if not any(_is_inside(v) for v in rest):
        fixed = tuple(None if i in holes else released(v) for i, v in enumerate(values))
        return Call("", function, fixed, tuple(holes), names, tuple(tensors))
    tensors, sizes = [], []

    def taken_out(v: Any) -> Any:
        if isinstance(v, Facts) and v.number is None:
            tensors.append(lowering.geometry(v))
            return TensorPlace(len(tensors) - 1)
        e = number_in(v)
        if isinstance(e, FloatExpr) and e.symbols & lowering.items.keys():
            tensors.append(lowering.geometry(lowering.computed(e)))
            return Element(len(tensors) - 1)
        if isinstance(e, s.Relation):
            sizes.append(s.choose(e, 1, 0))
            return Truth(len(sizes) - 1)
        if isinstance(e, s.Expr | FloatExpr):
            sizes.append(e)
            return (Size if isinstance(e, s.Expr) else Real)(len(sizes) - 1)
        if isinstance(v, list | tuple):
            return (list if isinstance(v, list) else tuple)(map(taken_out, v))
        return released(v)

    form = [taken_out(v) for v in values]
    return Call("", Assembled(function, form, names), (), (), (), tuple(tensors), sizes=tuple(sizes))


def _is_inside(v: Any) -> bool:
    """Whether there are tensors or symbolic sizes in a value that is not a tensor."""
    if isinstance(v, list | tuple):
        return any(_is_inside(x) or (isinstance(x, Facts) and x.number is None) for x in v)
    return isinstance(number_in(v), s.Expr | FloatExpr | s.Relation)


def number_in(v: Any) -> Any:
    """The number that a value is, also one that stands where a tensor may; other values as they are."""
    v = v.number if isinstance(v, Facts) and v.number is not None else v
    return plain(v.value if isinstance(v, Scalar) else v)


def fold_nodes(fold: Fold, t: DType, extra: dict[str, Node], results: Sequence[DType]) -> FoldNodes:
    """A fold as nodes: states are params."""
    states = tuple(resolve(c, t) for c in fold.state_types)
    k = len(states)
    mine = tuple(scalar.Param(i, d) for i, d in enumerate(states))
    others = tuple(scalar.Param(k + i, d) for i, d in enumerate(states))
    if any(n.args or n.op is scalar.INPUT for n in extra.values()):
        raise NotLowered("a reduction with a parameter that is not known beforehand")

    def one(values: tuple) -> Any:
        return values[0] if k == 1 else values

    def typed(values: Any, targets: Sequence[DType]) -> tuple[Node, ...]:
        values = values if isinstance(values, tuple) else (values,)
        return simplify(
            tuple(
                scalar.cast(v, d) if isinstance(v, Node) else scalar.constant(v, d)
                for v, d in zip(values, targets, strict=True)
            )
        )

    return FoldNodes(
        states,
        typed(fold.init(**extra), states),
        typed(fold.combine(one(mine), scalar.Input(0, t), scalar.index(), **extra), states),
        typed(fold.merge(one(mine), one(others), **extra), states),
        typed(fold.finish(one(mine), scalar.Param(k, dt.int64), **extra), results),
        search_nodes(fold, states[0]),
    )


def search_nodes(fold: Fold, d: DType) -> tuple[Node, Node, Node] | None:
    if fold.search is None:
        return None
    pick, beats, ties = (f(scalar.Param(0, d), scalar.Param(1, d)) for f in fold.search)
    return simplify((pick, beats, ties))  # type: ignore[return-value]
