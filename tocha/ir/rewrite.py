"""Rewriting formulas: a table of (pattern, function) and the one engine that applies it.

`simplify` runs the default table, whose rules keep every value bit for bit (a NaN stays a NaN, its sign and payload
aside; powers with small constant exponents become the products PyTorch defines them by). Callers may bring tables of
their own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tocha.ir.dtypes import Kind, Number, bool_, is_lossless
from tocha.ir.node import CONSTANT, Node, Primitive, constant, make, topological
from tocha.ir.primitives import (
    absolute,
    add,
    div,
    exp,
    expm1,
    log,
    log1p,
    madd,
    maximum,
    minimum,
    mul,
    neg,
    pow,
    reciprocal,
    rsqrt,
    sigmoid,
    sqrt,
    sub,
)
from tocha.ir.select import (
    CAST,
    IMAG_PART,
    REAL_PART,
    bitwise_and,
    bitwise_not,
    bitwise_or,
    cast,
    conj,
    eq,
    make_complex,
    ne,
    where,
    zero_like,
)


@dataclass(eq=False, repr=False)
class Var:
    """Matches any node; the same name twice matches the same node twice."""

    name: str


@dataclass(eq=False, repr=False)
class Const:
    """Matches any constant."""

    name: str


@dataclass(eq=False, repr=False)
class Value:
    """Matches a constant with this value in any numeric dtype; 0.0 and -0.0 differ."""

    value: Number


@dataclass(eq=False, repr=False)
class Op:
    """Matches a node of a primitive, its operands in either order if the primitive is commutative; binds the node
    itself if there is a name."""

    op: Primitive
    args: tuple[Pattern, ...]
    name: str | None = None


Pattern = Var | Const | Value | Op
Bindings = dict[str, Node]


@dataclass(eq=False, repr=False)
class Rule:
    """`build` gets the node under the pattern's names and returns what replaces it, or None to decline."""

    pattern: Op
    build: Callable[..., Node | None]

    def operands(self) -> frozenset[Primitive]:
        """Primitives that must be among those of the node's operands: a quick test before matching."""
        needed = (arg.op if isinstance(arg, Op) else CONSTANT for arg in self.pattern.args if not isinstance(arg, Var))
        return frozenset(needed)


def op(primitive: Primitive, *args: Pattern, name: str | None = None) -> Op:
    return Op(primitive, args, name)


class Table:
    """Rules by the primitive at their root, in the order given; the first that matches wins."""

    def __init__(self, rules: Sequence[Rule], everywhere: Sequence[Callable[[Node], Node | None]] = ()) -> None:
        self.everywhere = tuple(everywhere)
        self.by_root: dict[Primitive, list[tuple[frozenset[Primitive], Rule]]] = {}
        for rule in rules:
            self.by_root.setdefault(rule.pattern.op, []).append((rule.operands(), rule))

    def apply(self, node: Node) -> Node | None:
        """What the first rule that fits makes of the node, or None."""
        for build in self.everywhere:
            better = build(node)
            if better is not None:
                return better
        rules = self.by_root.get(node.op)
        if rules is None:
            return None
        present = {arg.op for arg in node.args}
        for needed, rule in rules:
            if not needed <= present:
                continue
            for bindings in match(rule.pattern, node, {}):
                better = rule.build(**bindings)
                if better is not None and better is not node:
                    return better
        return None


def match(pattern: Pattern, node: Node, bindings: Bindings) -> list[Bindings]:
    """Every way in which the node fits the pattern: the names it binds, on top of those given."""
    if isinstance(pattern, Op):
        if node.op is not pattern.op:
            return []
        if pattern.name is not None:
            bindings = {**bindings, pattern.name: node}
        found = _match_all(pattern.args, node.args, bindings)
        if node.op.commutative and node.args[0] is not node.args[1]:
            found += _match_all(pattern.args, node.args[::-1], bindings)
        return found
    if isinstance(pattern, Value):
        return [bindings] if _has_value(node, pattern.value) else []
    if isinstance(pattern, Const) and node.op is not CONSTANT:
        return []
    bound = bindings.get(pattern.name)
    if bound is None:
        return [{**bindings, pattern.name: node}]
    return [bindings] if bound is node else []


def _match_all(patterns: tuple[Pattern, ...], nodes: tuple[Node, ...], bindings: Bindings) -> list[Bindings]:
    found = [bindings]
    for pattern, node in zip(patterns, nodes):
        found = [extended for known in found for extended in match(pattern, node, known)]
        if not found:
            break
    return found


def _has_value(node: Node, value: Number) -> bool:
    if node.op is not CONSTANT or node.attr != value or (node.dtype is bool_) != isinstance(value, bool):
        return False
    if node.dtype.is_complex:
        return repr(node.attr) == repr(complex(value))
    return value != 0 or not node.dtype.is_floating or _is_negative(node.attr) == _is_negative(value)


def _is_negative(value: Number | None) -> bool:
    return math.copysign(1.0, value) < 0  # type: ignore[arg-type]


class Rewriter:
    """Applies a table bottom-up until nothing changes, remembering what each node became."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.memo: dict[Node, Node] = {}

    def __call__(self, roots: Sequence[Node]) -> tuple[Node, ...]:
        memo = self.memo
        for node in topological(roots, memo):
            if node.args:
                args = tuple([memo[arg] for arg in node.args])
                memo[node] = self._settle(make(node.op, node.dtype, args, node.attr))
            else:
                memo[node] = node
        return tuple([memo[root] for root in roots])

    def _settle(self, node: Node) -> Node:
        """The final form of a node whose operands are final. Recursion is as deep as rules feed rules, not as
        formulas are deep."""
        known = self.memo.get(node)
        if known is not None:
            return known
        better = self.table.apply(node)
        settled = node if better is None else self((better,))[0]
        self.memo[node] = settled
        return settled


def fold(node: Node) -> Node | None:
    """A constant for an operation on constants, where Python gives the kernel's very bits."""
    for arg in node.args:
        if arg.op is not CONSTANT or arg.dtype.is_complex:
            return None
    if not node.args or not node.op.exact or node.dtype.is_complex:
        return None
    try:
        value = node.op.evaluate(node, *[arg.attr for arg in node.args])
    except ZeroDivisionError:
        return None  # an integer division by zero is the kernel's to report
    return constant(node.dtype.convert(value), node.dtype)


def _integer_only(result: Callable[..., Node]) -> Callable[..., Node | None]:
    return lambda x: result(x) if x.dtype.is_integer else None


def _signed_only(result: Callable[..., Node]) -> Callable[..., Node | None]:
    """Not for unsigned integers: 1 and its negation, 255, are both positive there."""
    return lambda x: result(x) if x.dtype.is_signed else None


def _real_only(result: Callable[..., Node]) -> Callable[..., Node | None]:
    return lambda x: None if x.dtype.is_complex else result(x)


def _divide_by_constant(x: Node, c: Node) -> Node | None:
    """Multiplication by the reciprocal, when that is exact: a power of two, neither huge nor tiny."""
    if not x.dtype.is_floating or not isinstance(c.attr, float) or c.attr == 0 or not math.isfinite(c.attr):
        return None
    mantissa, exponent = math.frexp(c.attr)
    return x * (1.0 / c.attr) if abs(mantissa) == 0.5 and abs(exponent) < 120 else None


def _power(x: Node, c: Node) -> Node | None:
    """Small constant exponents as products and roots, which is also how PyTorch defines them."""
    exponent = c.attr
    if exponent == 1:
        return x
    if exponent == 2:
        return x * x
    if exponent == 3 and not x.dtype.is_complex:
        return x * x * x
    if exponent == 0 and not x.dtype.is_complex:
        return constant(1, x.dtype)
    if x.dtype.is_integer:
        return None
    if exponent == 0.5:
        return sqrt(x)
    if exponent == -1:
        return reciprocal(x)
    if exponent == -2 and not x.dtype.is_complex:
        return reciprocal(x * x)
    return rsqrt(x) if exponent == -0.5 and not x.dtype.is_complex else None


def _of_integer(x: Node, number: Node) -> Node | None:
    """A number that was an integer is no -0.0."""
    return number if x.dtype.kind is Kind.INTEGER and number.dtype.is_floating else None


def _cast_of_cast(x: Node, inner: Node, outer: Node) -> Node | None:
    return cast(x, outer.dtype) if is_lossless(x.dtype, inner.dtype) else None


X, A, B, C, K = Var("x"), Var("a"), Var("b"), Var("c"), Const("c")

SIMPLIFY = Table(
    everywhere=(fold,),
    rules=(
        # Neutral and absorbing elements. Not x + 0.0: -0.0 + 0.0 is 0.0. Not x * 0.0: it may be NaN.
        Rule(op(add, X, Value(0)), _integer_only(lambda x: x)),
        Rule(op(add, X, Value(-0.0)), lambda x: x if x.dtype.is_floating else None),
        Rule(op(add, op(CAST, X, name="number"), Value(0.0)), _of_integer),
        Rule(op(sub, X, Value(0.0)), _real_only(lambda x: x)),
        Rule(op(sub, Value(0), X), _integer_only(lambda x: -x)),
        Rule(op(sub, X, X), _integer_only(zero_like)),
        Rule(op(mul, X, Value(1)), _real_only(lambda x: x)),
        Rule(op(mul, X, Value(-1)), _real_only(lambda x: -x)),
        Rule(op(mul, X, Value(0)), _integer_only(zero_like)),
        Rule(op(madd, Value(1), A, B), lambda a, b: b + a),
        Rule(op(madd, Value(-1), A, B), lambda a, b: b - a),
        Rule(op(div, X, Value(1)), _real_only(lambda x: x)),
        Rule(op(div, X, Value(-1)), _real_only(lambda x: -x)),
        Rule(op(div, Value(1), X), _real_only(lambda x: reciprocal(x))),
        Rule(op(div, X, K), _divide_by_constant),
        Rule(op(pow, X, K), _power),
        # Signs
        Rule(op(neg, op(neg, X)), lambda x: x),
        Rule(op(add, A, op(neg, B)), lambda a, b: a - b),
        Rule(op(sub, A, op(neg, B)), lambda a, b: a + b),
        Rule(op(mul, op(neg, A), op(neg, B)), lambda a, b: a * b),
        Rule(op(mul, op(neg, X), K), lambda x, c: None if x.dtype.is_complex else x * -c),
        Rule(op(neg, op(mul, X, K)), lambda x, c: None if x.dtype.is_complex else x * -c),
        Rule(op(div, op(neg, A), op(neg, B)), lambda a, b: a / b),
        Rule(op(absolute, op(neg, X)), _signed_only(lambda x: absolute(x))),
        Rule(op(absolute, op(absolute, X)), lambda x: absolute(x)),
        # Choices
        Rule(op(where, Value(True), A, B), lambda a, b: a),
        Rule(op(where, Value(False), A, B), lambda a, b: b),
        Rule(op(where, C, A, A), lambda c, a: a),
        Rule(op(where, op(bitwise_not, C), A, B), lambda c, a, b: where(c, b, a)),
        Rule(op(where, C, op(where, C, A, X), B), lambda c, a, b, x: where(c, a, b)),
        Rule(op(where, C, A, op(where, C, X, B)), lambda c, a, b, x: where(c, a, b)),
        Rule(op(maximum, X, X), lambda x: x),
        Rule(op(minimum, X, X), lambda x: x),
        # Bits
        Rule(op(bitwise_not, op(bitwise_not, X)), lambda x: x),
        Rule(op(bitwise_not, op(eq, A, B)), lambda a, b: a != b),
        Rule(op(bitwise_not, op(ne, A, B)), lambda a, b: a == b),
        Rule(op(bitwise_and, X, X), lambda x: x),
        Rule(op(bitwise_or, X, X), lambda x: x),
        Rule(op(bitwise_and, X, Value(True)), lambda x: x),
        Rule(op(bitwise_and, X, Value(False)), zero_like),
        Rule(op(bitwise_or, X, Value(False)), lambda x: x),
        Rule(op(bitwise_or, X, Value(True)), lambda x: constant(True, bool_)),
        # Complex parts
        Rule(op(REAL_PART, op(make_complex, A, B)), lambda a, b: a),
        Rule(op(IMAG_PART, op(make_complex, A, B)), lambda a, b: b),
        Rule(op(make_complex, op(REAL_PART, X), op(IMAG_PART, X)), lambda x: x),
        Rule(op(conj, op(conj, X)), lambda x: x),
        Rule(op(REAL_PART, op(conj, X)), lambda x: REAL_PART(x)),
        Rule(
            op(REAL_PART, op(CAST, X), name="part"),
            lambda x, part: None if x.dtype.is_complex else cast(x, part.dtype),
        ),
        # Conversions
        Rule(op(CAST, X, name="outer"), lambda x, outer: x if x.dtype is outer.dtype else None),
        Rule(op(CAST, op(CAST, X, name="inner"), name="outer"), _cast_of_cast),
    ),
)


def simplify(outputs: Sequence[Node]) -> tuple[Node, ...]:
    """The same values by shorter formulas."""
    return Rewriter(SIMPLIFY)(outputs)


# Formulas with a better conditioned primitive of their own. The values agree to rounding, not bit for bit.
RECOGNIZE = Table(
    rules=(
        Rule(op(div, Value(1), op(add, Value(1), op(exp, op(neg, X)))), lambda x: sigmoid(x)),
        Rule(op(reciprocal, op(add, Value(1), op(exp, op(neg, X)))), lambda x: sigmoid(x)),
        Rule(op(sub, op(exp, X), Value(1)), lambda x: expm1(x)),
        Rule(op(log, op(add, Value(1), X)), lambda x: log1p(x)),
    ),
)


def recognize(outputs: Sequence[Node]) -> tuple[Node, ...]:
    """The formulas with idioms as the primitives they mean; the gradients of those are better, too."""
    return Rewriter(RECOGNIZE)(outputs)
