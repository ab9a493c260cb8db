"""The nodes of scalar formulas and what a primitive is.

Nodes are immutable and hash-consed: two equal expressions are one object, so identity is equality. Formulas reach
this module through tocha.ir.scalar; the primitives themselves are the table in tocha.ir.primitives.
"""

from __future__ import annotations

import enum
import functools
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from tocha.ir.dtypes import DType, Kind, Number, bool_, complex_of, int32, real_of


class Cost(enum.Enum):
    """What a primitive costs: CHEAP is an instruction or a few, EXPENSIVE is worth saving rather than repeating."""

    CHEAP = "cheap"
    EXPENSIVE = "expensive"


BOOLEAN = frozenset({Kind.BOOLEAN})
INTEGER = frozenset({Kind.INTEGER})
FLOATING = frozenset({Kind.FLOATING})
COMPLEX = frozenset({Kind.COMPLEX})
REAL = INTEGER | FLOATING
INEXACT = FLOATING | COMPLEX
NUMERIC = REAL | COMPLEX
ANY = BOOLEAN | NUMERIC


@dataclass(eq=False, repr=False)
class Signature:
    """How operands determine the result: "bTT -> T" reads: a bool and two operands of one dtype T give a T.

    Operand letters: T, the common dtype, of one of `kinds`; b, bool; i, any integer. Result letters: T; b; R and C,
    the real and the complex dtype that go with T; i, int32.
    """

    pattern: str
    kinds: frozenset[Kind] = ANY
    takes_reduced: bool = False
    operands: str = field(init=False)
    result: str = field(init=False)

    def __post_init__(self) -> None:
        self.operands, self.result = self.pattern.split(" -> ")

    def common(self, name: str, args: Sequence[Node | Number]) -> DType | None:
        """T, from those operands that are nodes; None where the signature has no T."""
        found: DType | None = None
        for letter, arg in zip(self.operands, args):
            if letter == "T" and isinstance(arg, Node):
                if found is None:
                    found = arg.dtype
                elif arg.dtype is not found:
                    raise TypeError(f"[{name}] operands of different dtypes: {found} and {arg.dtype}")
        if found is None:
            if "T" in self.operands:
                raise TypeError(f"[{name}] at least one operand must be a node, not a number")
            return None
        if found.kind not in self.kinds:
            raise NotDefined(f"[{name}] is not defined for {found}")
        if found.is_reduced and not self.takes_reduced:
            raise NotDefined(f"[{name}] computes in float32: cast the {found} operand first")
        return found

    def result_of(self, common: DType | None) -> DType:
        if self.result == "b":
            return bool_
        if self.result == "i":
            return int32
        assert common is not None
        if self.result == "T":
            return common
        return real_of(common) if self.result == "R" else complex_of(common)


# A gradient rule builds the gradient of one operand from (gradient of the result, result, *operands).
GradientRule = Callable[..., "Node"]
Templates = str | dict[frozenset[Kind], str]


class NotDefined(TypeError):
    """A primitive has no meaning for operands of this dtype."""


class NoDerivative(NotImplementedError):
    """The formula depends differentiably on an operand whose derivative is not known in closed form."""


@dataclass(eq=False)
class Shortcut:
    """C++ for floating operands that a compiler can vectorize, and the test of an operand for which it is wrong."""

    cpp: str
    unless: str


@dataclass(eq=False, repr=False)
class Primitive:
    """One operation on scalars; calling it on nodes and numbers builds a node.

    cpp and triton: templates, one for all dtypes or one per kind of the first common operand. {0}, {1}: operands;
    {type}: the result's type; {T}: the common operand's; {fault}: the variable that records a division by zero.
    Names without a module in Triton's templates are device functions that come with its emitter; None: CPU only.
    gradients: None where the result does not depend differentiably on its operands (comparisons); else one rule per
    operand, None for an operand whose derivative is unknown.
    evaluate: the value in Python, from (node, *values). exact: evaluate gives the bits the kernel gives.
    shortcut: loops may use it for runs of elements none of which fails the test.
    vector: the C++ for floats also takes whole vectors of float32 (see csrc/cpu/vecmath/avx512.h).
    """

    name: str
    signature: Signature
    cpp: Templates
    triton: Templates | None
    gradients: tuple[GradientRule | None, ...] | None
    evaluate: Callable[..., Number]
    cost: Cost = Cost.CHEAP
    exact: bool = False
    commutative: bool = False
    shortcut: Shortcut | None = None
    vector: bool = False

    def __call__(self, *args: Node | Number) -> Node:
        signature = self.signature
        if len(args) != len(signature.operands):
            raise TypeError(f"[{self.name}] takes {len(signature.operands)} operands, got {len(args)}")
        common = signature.common(self.name, args)
        nodes = tuple(
            arg if letter == "T" and isinstance(arg, Node) else _operand(self.name, letter, arg, common)
            for letter, arg in zip(signature.operands, args)
        )
        return make(self, signature.result_of(common), nodes)

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[object, ...]:
        return primitive, (self.name,)

    @property
    def arity(self) -> int:
        return len(self.signature.operands)

    def common_dtype(self, node: Node) -> DType:
        """The dtype that picks among templates: that of the first T operand, or the result's."""
        position = self.signature.operands.find("T")
        return node.args[position].dtype if position >= 0 else node.dtype


def _operand(name: str, letter: str, arg: Node | Number, common: DType | None) -> Node:
    if isinstance(arg, Node):
        wanted = BOOLEAN if letter == "b" else INTEGER
        if arg.dtype.kind not in wanted:
            raise NotDefined(f"[{name}] wants a {'bool' if letter == 'b' else 'integer'} operand, got {arg.dtype}")
        return arg
    if letter == "T":
        assert common is not None
        return constant(arg, common)
    return constant(arg, bool_ if letter == "b" else int32)


PRIMITIVES: dict[str, Primitive] = {}


def primitive(name: str) -> Primitive:
    return PRIMITIVES[name]


def define(
    name: str,
    pattern: str,
    kinds: frozenset[Kind] = ANY,
    *,
    cpp: Templates,
    triton: Templates | None,
    gradients: tuple[GradientRule | None, ...] | None,
    evaluate: Callable[..., Number],
    cost: Cost = Cost.CHEAP,
    exact: bool = False,
    commutative: bool = False,
    takes_reduced: bool = False,
    shortcut: Shortcut | None = None,
    vector: bool = False,
) -> Primitive:
    """Enters a primitive into the table."""
    if name in PRIMITIVES:
        raise ValueError(f"primitive {name} is defined twice")
    signature = Signature(pattern, kinds, takes_reduced)
    entry = Primitive(name, signature, cpp, triton, gradients, evaluate, cost, exact, commutative, shortcut, vector)
    PRIMITIVES[name] = entry
    return entry


class Node:
    """An expression. `attr` is the value of a constant or the position of a leaf, else None."""

    __slots__ = ("__weakref__", "args", "attr", "dtype", "op")

    op: Primitive
    dtype: DType
    args: tuple[Node, ...]
    attr: Number | None

    # Live nodes have distinct addresses, hence distinct hashes: dictionaries keyed by nodes never ask __eq__.
    __hash__ = object.__hash__

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("nodes are immutable")

    def __bool__(self) -> bool:
        raise TypeError("a formula cannot branch on a value it computes: use where()")

    def __repr__(self) -> str:
        if self.op is CONSTANT:
            return f"{self.attr}:{self.dtype.code}"
        if self.attr is not None:
            return f"{self.op}{self.attr}:{self.dtype.code}"
        return f"{self.op}({', '.join(map(repr, self.args))})"

    def __reduce__(self) -> tuple[object, ...]:
        return make, (self.op, self.dtype, self.args, self.attr)

    def __add__(self, other: Node | Number) -> Node:
        return PRIMITIVES["add"](self, other)

    def __radd__(self, other: Number) -> Node:
        return PRIMITIVES["add"](other, self)

    def __sub__(self, other: Node | Number) -> Node:
        return PRIMITIVES["sub"](self, other)

    def __rsub__(self, other: Number) -> Node:
        return PRIMITIVES["sub"](other, self)

    def __mul__(self, other: Node | Number) -> Node:
        return PRIMITIVES["mul"](self, other)

    def __rmul__(self, other: Number) -> Node:
        return PRIMITIVES["mul"](other, self)

    def __truediv__(self, other: Node | Number) -> Node:
        return PRIMITIVES["div"](self, other)

    def __rtruediv__(self, other: Number) -> Node:
        return PRIMITIVES["div"](other, self)

    def __floordiv__(self, other: Node | Number) -> Node:
        return PRIMITIVES["floordiv"](self, other)

    def __rfloordiv__(self, other: Number) -> Node:
        return PRIMITIVES["floordiv"](other, self)

    def __mod__(self, other: Node | Number) -> Node:
        return PRIMITIVES["remainder"](self, other)

    def __rmod__(self, other: Number) -> Node:
        return PRIMITIVES["remainder"](other, self)

    def __pow__(self, other: Node | Number) -> Node:
        return PRIMITIVES["pow"](self, other)

    def __rpow__(self, other: Number) -> Node:
        return PRIMITIVES["pow"](other, self)

    def __and__(self, other: Node | Number) -> Node:
        return PRIMITIVES["bitwise_and"](self, other)

    __rand__ = __and__

    def __or__(self, other: Node | Number) -> Node:
        return PRIMITIVES["bitwise_or"](self, other)

    __ror__ = __or__

    def __xor__(self, other: Node | Number) -> Node:
        return PRIMITIVES["bitwise_xor"](self, other)

    __rxor__ = __xor__

    def __lshift__(self, other: Node | Number) -> Node:
        return PRIMITIVES["shift_left"](self, other)

    def __rlshift__(self, other: Number) -> Node:
        return PRIMITIVES["shift_left"](other, self)

    def __rshift__(self, other: Node | Number) -> Node:
        return PRIMITIVES["shift_right"](self, other)

    def __rrshift__(self, other: Number) -> Node:
        return PRIMITIVES["shift_right"](other, self)

    def __neg__(self) -> Node:
        return PRIMITIVES["neg"](self)

    def __pos__(self) -> Node:
        return self

    def __abs__(self) -> Node:
        return PRIMITIVES["abs"](self)

    def __invert__(self) -> Node:
        return PRIMITIVES["bitwise_not"](self)

    def __eq__(self, other: Node | Number) -> Node:  # type: ignore[override]
        return PRIMITIVES["eq"](self, other)

    def __ne__(self, other: Node | Number) -> Node:  # type: ignore[override]
        return PRIMITIVES["ne"](self, other)

    def __lt__(self, other: Node | Number) -> Node:
        return PRIMITIVES["lt"](self, other)

    def __le__(self, other: Node | Number) -> Node:
        return PRIMITIVES["le"](self, other)

    def __gt__(self, other: Node | Number) -> Node:
        return PRIMITIVES["gt"](self, other)

    def __ge__(self, other: Node | Number) -> Node:
        return PRIMITIVES["ge"](self, other)


# Entries are keyed by the addresses of the operands, which the node in the entry keeps alive. A node that dies takes
# its entry with it before its operands go, so an address in a key is never stale.
_interned: dict[tuple[object, ...], weakref.ref[Node]] = {}
_set = object.__setattr__


def make(op: Primitive, dtype: DType, args: tuple[Node, ...] = (), attr: Number | None = None) -> Node:
    """The one node with these parts. Does not check dtypes: calling a primitive does."""
    # repr tells -0.0 from 0.0 and finds NaN again; equality does neither.
    key = (op.name, dtype, *map(id, args)) if attr is None else (op.name, dtype, repr(attr))
    entry = _interned.get(key)
    if entry is not None:
        node = entry()
        if node is not None:
            return node
    node = Node.__new__(Node)
    _set(node, "op", op)
    _set(node, "dtype", dtype)
    _set(node, "args", args)
    _set(node, "attr", attr)
    _interned[key] = weakref.ref(node, functools.partial(_forget, key))
    return node


def _forget(key: tuple[object, ...], dead: weakref.ref[Node]) -> None:
    if _interned.get(key) is dead:
        del _interned[key]


def _leaf(name: str) -> Primitive:
    def unknown(node: Node) -> Number:
        raise LookupError(f"{node} has no value of its own")

    return define(name, " -> T", cpp="", triton="", gradients=(), evaluate=unknown)


CONSTANT = _leaf("constant")
INPUT = _leaf("input")
PARAM = _leaf("param")
OUTPUT = _leaf("output")
GRAD = _leaf("grad")
INDEX = _leaf("index")


def constant(value: Number, dtype: DType) -> Node:
    """A number in a dtype; a number the dtype cannot hold (a fraction among integers) is an error."""
    _check_constant(value, dtype)
    return make(CONSTANT, dtype, (), dtype.convert(value))


def _check_constant(value: Number, dtype: DType) -> None:
    if isinstance(value, Node):
        raise TypeError("expected a number, got a node")
    kind = dtype.kind
    if kind is Kind.COMPLEX or (kind is Kind.FLOATING and not isinstance(value, complex)):
        return
    if kind is Kind.INTEGER and isinstance(value, int):
        if not dtype.smallest_integer <= value <= dtype.largest_integer:
            raise TypeError(f"{value} does not fit {dtype}")
        return
    if kind is Kind.BOOLEAN and isinstance(value, bool):
        return
    raise TypeError(f"the number {value!r} cannot be a constant of dtype {dtype}")


def Input(index: int, dtype: DType) -> Node:
    """Element of the index-th tensor operand."""
    return make(INPUT, dtype, (), index)


def Param(index: int, dtype: DType) -> Node:
    """The index-th scalar attribute: the same for every element."""
    return make(PARAM, dtype, (), index)


def Output(index: int, dtype: DType) -> Node:
    """Element of the index-th result, kept for the gradient."""
    return make(OUTPUT, dtype, (), index)


def Grad(index: int, dtype: DType) -> Node:
    """Element of the gradient that arrives for the index-th result."""
    return make(GRAD, dtype, (), index)


def topological(roots: Iterable[Node], done: dict[Node, Node] | None = None) -> list[Node]:
    """Every node below the roots, operands first, in an order that depends only on the expressions.

    Nodes in `done` are left out, with what only they need."""
    order: list[Node] = []
    seen: set[Node] = set()
    finished: dict[Node, Node] = {} if done is None else done
    # A None on the stack says that the operands of the node below it are done.
    stack: list[Node | None] = list(roots)
    stack.reverse()
    while stack:
        node = stack.pop()
        if node is None:
            order.append(stack.pop())  # type: ignore[arg-type]
        elif node in seen or node in finished:
            continue
        elif not node.args:
            seen.add(node)
            order.append(node)
        else:
            seen.add(node)
            stack += (node, None)
            stack += node.args[::-1]
    return order
