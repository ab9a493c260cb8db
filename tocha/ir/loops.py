"""The loop IR: what a program computes, as loops over index expressions, and calls of native operators.

A `Buffer` is memory. A `Loop` computes the elements of buffers at every point of its domain: it reads other buffers at
*addresses* (symbolic integers over its variables, so that views, broadcasting, slices and flips are all arithmetic), combines
what it read by formulas of the scalar IR, and may fold its last dims. A `Call` is a native operator. Programs print, and `verify` says
what is wrong with one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tocha.ir import layout
from tocha.ir import symbolic as s
from tocha.ir.assumptions import Assumptions
from tocha.ir.dtypes import DType, int64
from tocha.ir.node import INPUT, Node, topological
from tocha.ir.sym_types import expression


class VerificationError(ValueError):
    """A program that does not mean anything."""


class NotLowered(NotImplementedError):
    """What has no form in the loop IR, or none in its printed form."""


@dataclass(eq=False)
class Buffer:
    """Elements in memory: dense, in some order of the dims."""

    name: str
    sizes: tuple[Any, ...]
    strides: tuple[Any, ...]
    dtype: DType
    producer: Loop | Call | None = None  # None: an input or a constant
    bits: tuple[bool, bool] = (False, False)  # whether the tensor reads as the conjugate of its memory, and negated

    def span(self) -> Any:
        """How many elements lie from the first to the last; more than there are, where a layout has holes."""
        if any(isinstance(n, int) and n == 0 for n in self.sizes):
            return 0
        return s.total([1, *(s.mul(s.add(n, -1), step) for n, step in zip(self.sizes, self.strides, strict=True))])

    def numel(self) -> Any:
        return s.product(self.sizes)

    def __repr__(self) -> str:
        return f"{self.name}: {self.dtype.name}[{', '.join(map(str, self.sizes))}]"


@dataclass(frozen=True)
class Load:
    """The element of a buffer at an address, counted in elements; where the guard does not hold, nothing is read and it is zero."""

    buffer: Buffer
    address: Any
    guard: Any = True

    def __repr__(self) -> str:
        when = "" if self.guard is True else f" if {self.guard}"
        return f"{self.buffer.name}[{self.address}]{when}"


@dataclass(frozen=True)
class Position:
    """An index expression as an int64 element, or a float of symbols as a float64 element."""

    value: Any

    def __repr__(self) -> str:
        return f"({self.value})"


@dataclass(frozen=True)
class Indirect:
    """A symbol in addresses that stands for an int64 element: the index that a gather reads. It lies in [0, size)."""

    atom: s.Atom
    value: Node
    size: Any


@dataclass(frozen=True)
class FoldNodes:
    """A reduction's scalar pieces as nodes: states are params, the element is input 0, its position the index node.

    `merge` has two sets of states, mine first; `finish` has the count after the states. Where the states are a value and the position
    of the first element that ties with it, `search` is which of two values is picked, and whether the first beats the second or ties.
    """

    states: tuple[DType, ...]
    init: tuple[Node, ...]
    combine: tuple[Node, ...]
    merge: tuple[Node, ...]
    finish: tuple[Node, ...]
    search: tuple[Node, Node, Node] | None = None


@dataclass(frozen=True)
class Part:
    """Of a buffer's memory: what a loop stores into, from this index on, where the rest stays as it is."""

    buffer: Buffer
    start: tuple[Any, ...]


@dataclass(eq=False)
class Loop:
    """for each point of `sizes`: results = formulas(reads); with a fold, its last `folded` dims go into one element."""

    name: str
    sizes: tuple[Any, ...]
    variables: tuple[Any, ...]  # symbols, one per dim
    reads: tuple[Load | Position, ...]
    formulas: tuple[Node, ...]  # Input(k) is reads[k]
    results: list[Buffer] = field(default_factory=list)
    fold: FoldNodes | None = None
    folded: int = 0
    indirect: tuple[Indirect, ...] = ()
    origins: tuple[str, ...] = ()  # the operators that it came from
    count: Any = None  # how many elements a fold is of, where not those of the loop
    number: Any = None  # an element's place among them, likewise
    part: Part | None = None  # its result is that buffer with a part changed, and lies where it does

    @property
    def places(self) -> tuple[Any, ...]:
        """The index in its results at which it stores."""
        index = self.variables[: len(self.sizes) - self.folded]
        return index if self.part is None else tuple(map(s.add, self.part.start, index))

    @property
    def outer(self) -> tuple[Any, ...]:
        """The dims of the results."""
        return self.sizes[: len(self.sizes) - self.folded]

    def loads(self) -> Iterator[Load]:
        for r in self.reads:
            if isinstance(r, Load):
                yield r

    def __repr__(self) -> str:
        head = ", ".join(f"{v} < {n}" for v, n in zip(self.variables, self.sizes, strict=True))
        reads = ", ".join(f"input{i} = {r!r}" for i, r in enumerate(self.reads))
        targets = ", ".join(map(repr, self.results))
        if self.part is not None:
            targets += f" on {self.part.buffer.name} from [{', '.join(map(str, self.part.start))}]"
        kind = f" folds {self.folded}" if self.fold else ""
        body = ", ".join(map(str, self.formulas))
        where = "".join(f", {i.atom.name} = {i.value}" for i in self.indirect)
        return f"{self.name}: for {head or 'once'}{kind}: {targets} = {body} where {reads}{where}"


@dataclass(frozen=True, eq=False)
class Geometry:
    """Part of a buffer, as a tensor: what calls take and programs return."""

    buffer: Buffer
    sizes: tuple[Any, ...]
    strides: tuple[Any, ...]
    offset: Any
    dtype: DType

    @property
    def is_whole(self) -> bool:
        b = self.buffer
        return (
            self.dtype is b.dtype and self.sizes == b.sizes and self.strides == b.strides
            and isinstance(self.offset, int) and self.offset == 0
        )  # fmt: skip


@dataclass(eq=False)
class Call:
    """A native operator on tensors. `function` gets `arguments` with the tensors put in at `holes`; or, with `sizes`, tensors and sizes."""

    name: str
    function: Any
    arguments: tuple[Any, ...]
    holes: tuple[int, ...]
    keywords: tuple[str, ...]
    tensors: tuple[Geometry, ...]
    results: list[Buffer | None] = field(default_factory=list)
    sizes: tuple[Any, ...] | None = None  # symbolic ones that the function is given
    key: str = ""  # what it is, for caches
    ordered: bool = False  # draws random numbers or does something: keeps its place among others that do
    origins: tuple[str, ...] = ()  # the node that it came from
    # Symbols that are known from then on: read off its results, or expressions of those before them.
    binds: dict[s.Atom, Any] = field(default_factory=dict)
    is_view: bool = False  # its results may lie on the memory of its tensors
    changes: Buffer | None = None  # its result is that buffer, some elements changed, and lies where it does

    def __repr__(self) -> str:
        return f"{', '.join(map(repr, self.results))} = {self.name}({', '.join(g.buffer.name for g in self.tensors)})"


@dataclass(eq=False, repr=False)
class Element(Call):
    """The element of a tensor of one, read as an integer that symbols stand for."""


@dataclass(eq=False, repr=False)
class Followed(Call):
    """A call that tells of rows of its result as they are finished, so that a kernel can go on with them."""

    packed: Buffer | None = None  # a constant: what the library's own kernels read of the second tensor

    @property
    def result(self) -> Buffer:
        (made,) = self.results
        assert made is not None
        return made

    @property
    def row_dims(self) -> int:
        """How many of the result's first dims number its rows."""
        raise NotImplementedError

    @property
    def rows(self) -> Any:
        return s.product(self.result.sizes[: self.row_dims])

    def operands(self) -> list[Buffer]:
        return [*(g.buffer for g in self.tensors), *([self.packed] if self.packed is not None else [])]


@dataclass(eq=False, repr=False)
class Product(Followed):
    """A product of matrices, or of batches of them, as a call on memory. Its tensors are a, b, and a row that is added to all, if there is one."""

    engine: int = 0  # see tocha_product in csrc/cpu/engine/program_api.h
    tiling: tuple[int, int] = (0, 0)  # rows and depth of its blocks

    @property
    def row_dims(self) -> int:
        return len(self.result.sizes) - 1


@dataclass(eq=False, repr=False)
class Convolution(Followed):
    """A convolution of pictures. Its tensors are the input, the weight, and a bias, if there is one; its rows are the planes of the result."""

    stride: tuple[int, ...] = ()
    padding: tuple[int, ...] = ()
    dilation: tuple[int, ...] = ()
    groups: int = 1

    @property
    def row_dims(self) -> int:
        return 2


Step = Loop | Call


class Source(NamedTuple):
    """Where a symbol's value is read: of an input or a call's result, by a function of the interface ("size" and "stride" of a dim,
    "offset", "integer", "real_bits" of a number); "element" is that of an Element."""

    position: int
    function: str
    dim: int | None = None


class Check(NamedTuple):
    """What is known of symbols because the program makes sure of it, as soon as it knows them."""

    relation: Any
    message: str
    error: str  # a type of Python's own


@dataclass(eq=False)
class Program:
    """Steps in an order that they can run in."""

    inputs: list[Buffer | None]  # None: a number, or a tensor that nobody reads
    constants: list[tuple[Buffer, Any]]
    steps: list[Step]
    outputs: list[Any]  # Geometry; a symbolic integer; None
    known: Assumptions
    sizes: dict[s.Atom, Any] = field(default_factory=dict)  # what a symbol is: a Source, or an expression of others
    checks: list[Check] = field(default_factory=list)
    lines: dict[str, str] = field(default_factory=dict)  # by origin: the line of the user's program

    def __repr__(self) -> str:
        lines = [f"inputs: {', '.join(map(repr, self.inputs))}", *map(repr, self.steps)]
        return "\n".join(
            [
                *lines,
                f"outputs: {', '.join(o.buffer.name if isinstance(o, Geometry) else str(o) for o in self.outputs)}",
            ]
        )


class Bindings:
    """Which symbols of a program are known only after a step of it, and what waits for them.

    A symbol counts as known when what is checked of it has been: with those that the checks tie it to.
    """

    def __init__(self, program: Program):
        self.bound = {a for step in program.steps if isinstance(step, Call) for a in step.binds}
        self.ties: dict[s.Atom, frozenset[s.Atom]] = {}
        for check in program.checks:
            together = frozenset(s.free_symbols(check.relation) & self.bound)
            for a in together:
                self.ties[a] = self.ties.get(a, frozenset()) | together

    def needed(self, steps: Iterable[Step]) -> set[s.Atom]:
        """The symbols that must be known before these steps run."""
        if not self.bound:
            return set()
        found = {a for step in steps for e in expressions(step) for a in s.free_symbols(e)} & self.bound
        return found.union(*(self.ties[a] for a in found if a in self.ties))


def expressions(step: Step) -> Iterator[Any]:
    """All that a step has to compute of symbols when it runs."""
    if isinstance(step, Call):
        for g in step.tensors:
            yield from (*g.sizes, *g.strides, g.offset)
        yield from step.sizes or ()
        return
    yield from step.sizes
    yield from step.part.start if step.part is not None else ()
    for r in step.reads:
        yield from (r.address, r.guard) if isinstance(r, Load) else (r.value,)
    for b in step.results:
        yield from (*b.sizes, *b.strides)
    yield from (i.size for i in step.indirect)
    yield from (step.count, step.number)


def plain(value: Any) -> Any:
    """A size or index as an int or an expression."""
    return expression(value)


def address_of(index: Sequence[Any], strides: Sequence[Any], offset: Any = 0) -> Any:
    return s.total([offset, *(s.mul(i, n) for i, n in zip(index, strides, strict=True))])


def index_of(address: Any, sizes: Sequence[Any], strides: Sequence[Any], known: Assumptions) -> tuple[Any, ...]:
    """Where in a dense tensor an address lies: address_of undone."""
    index = index_within(math.inf, address, sizes, strides, known)
    assert index is not None
    return index


def index_within(
    most: float, address: Any, sizes: Sequence[Any], strides: Sequence[Any], known: Assumptions
) -> tuple[Any, ...] | None:
    """The index of an address, or None where it takes more terms than that."""
    index: list[Any] = [0] * len(sizes)
    rest = address
    for d in in_memory_order(sizes, strides):
        one, none = (type(n) is int and n == v for n, v in ((sizes[d], 1), (strides[d], 0)))
        if one or none:  # a dense tensor without elements has strides of zero
            continue
        index[d] = known.simplify(s.floordiv(rest, strides[d]))
        if sum(s.size_of(i) for i in index) > most:
            return None
        rest = known.simplify(s.add(rest, s.scale(s.mul(index[d], strides[d]), -1)))
    return tuple(index)


def in_memory_order(sizes: Sequence[Any], strides: Sequence[Any]) -> list[int]:
    """Dims, the outermost in memory first."""
    if all(isinstance(n, int) for n in strides):
        return sorted(range(len(sizes)), key=lambda d: (-strides[d], d))
    dense = dense_dims(sizes, strides)
    return list(range(len(sizes))) if dense is None else dense[::-1]


def dense_dims(sizes: Sequence[Any], strides: Sequence[Any]) -> list[int] | None:
    """Dims from the innermost on where each begins with what those inside of it span; None where there is no such order."""
    order = [d for d, n in enumerate(sizes) if isinstance(n, int) and n == 1]
    left = [d for d in range(len(sizes)) if d not in order]
    steps: tuple[Any, ...] = (1,)
    while left:
        d = next((d for d in reversed(left) if strides[d] in steps), None)
        if d is None:
            return None
        left.remove(d)
        order.append(d)
        # Strides count a size that may be 0 as 1; where sizes are known to be more they are plain products.
        steps = plain(s.mul(strides[d], sizes[d])), plain(s.mul(strides[d], s.extremum("max", [sizes[d], 1])))
    return order


def is_dense(sizes: Sequence[Any], strides: Sequence[Any], known: Assumptions) -> bool:
    sizes, strides = ([known.simplify(plain(n)) for n in numbers] for numbers in (sizes, strides))
    if all(isinstance(n, int) for n in (*sizes, *strides)):
        return layout.is_dense(sizes, strides)
    return dense_dims(sizes, strides) is not None


# ---- verification --------------------------------------------------------------------------------


def verify(program: Program) -> None:
    """Raises VerificationError unless every read is of something there by then, inside of it, and of the right type."""
    there: set[int] = {id(b) for b in program.inputs if b} | {id(b) for b, _ in program.constants}
    for step in program.steps:
        if isinstance(step, Loop):
            _verify_loop(step, there, program.known)
        else:
            for g in step.tensors:
                _require(id(g.buffer) in there, f"{step.name} reads {g.buffer.name} before it is there")
        for r in step.results:
            if r is not None:
                _require(r.producer is step, f"{r.name} is not said to come from {step.name}")
                there.add(id(r))
    for o in program.outputs:
        if isinstance(o, Geometry):
            _require(id(o.buffer) in there, f"the result {o.buffer.name} is never computed")


def _verify_address(loop: Loop, r: Load, known: Assumptions) -> None:
    low, high = known.bounds(r.address)
    count = r.buffer.span()
    if not (isinstance(low, int) and isinstance(high, int) and isinstance(count, int)) or s.product(loop.sizes) == 0:
        return
    own = {s.atom_of(v) for v in loop.variables} | {i.atom for i in loop.indirect}
    if not s.free_symbols(r.address) <= own:  # with sizes in it bounds are wide: they take each symbol for itself
        low, high = min(high, 0), max(low, 0)
    _require(low >= 0 and high < count, f"{loop.name} reads {r!r} outside of its {count} elements")


def _verify_loop(loop: Loop, there: set[int], known: Assumptions) -> None:
    _require(
        len(loop.variables) == len(loop.sizes),
        f"{loop.name} has {len(loop.variables)} variables for {len(loop.sizes)} dims",
    )
    _require((loop.fold is None) == (loop.folded == 0 and loop.fold is None), f"{loop.name} folds without a fold")
    for r in loop.reads:
        if not isinstance(r, Load):
            continue
        _require(id(r.buffer) in there, f"{loop.name} reads {r.buffer.name} before it is there")
        if r.guard is True:
            _verify_address(loop, r, known)
    for node in topological(loop.formulas):
        if node.op is INPUT:
            at = node.attr
            _require(isinstance(at, int) and at < len(loop.reads), f"{loop.name} has no input {at}")
            read = loop.reads[at]  # type: ignore[index]
            if isinstance(read, Load):
                _require(read.buffer.dtype is node.dtype, f"{loop.name} takes {read!r} for {node.dtype}")
            else:
                whole = isinstance(read.value, int | s.Expr)
                _require(whole == (node.dtype is int64), f"{loop.name} takes {read!r} for {node.dtype}")
    if loop.fold is None:
        for f, b in zip(loop.formulas, loop.results, strict=True):
            _require(f.dtype is b.dtype, f"{loop.name} computes {f.dtype} for {b!r}")
            _require(b.sizes == loop.sizes, f"{loop.name} over {loop.sizes} fills {b!r}")
    for b in loop.results:
        _require(is_dense(b.sizes, b.strides, known), f"{b!r} has holes")


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise VerificationError(message)
