"""Primitives that compare, combine bits, choose, convert, and take complex numbers apart.

Part of the table of primitives (see node.Primitive for what an entry says); formulas import them from tocha.ir.scalar.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tocha.ir import evaluate as ev
from tocha.ir.dtypes import DType, Kind, bool_, int64
from tocha.ir.node import (
    ANY,
    BOOLEAN,
    COMPLEX,
    FLOATING,
    INDEX,
    INEXACT,
    INTEGER,
    REAL,
    Cost,
    Node,
    Primitive,
    constant,
    define,
    make,
)


def conjugate(x: Node) -> Node:
    """The conjugate of a complex node; a real node itself."""
    return conj(x) if x.dtype.is_complex else x


def zero_like(x: Node) -> Node:
    return constant(False if x.dtype is bool_ else 0, x.dtype)


def no_gradient(g: Node, y: Node, x: Node, *rest: Node) -> Node:
    """The rule for the first operand of a function that is constant around almost every point."""
    return zero_like(x)


def no_gradient_second(g: Node, y: Node, a: Node, b: Node, *rest: Node) -> Node:
    return zero_like(b)


# Comparisons


def _comparison(name: str, symbol: str, kinds: frozenset[Kind], evaluate: Callable[..., bool]) -> Primitive:
    return define(
        name,
        "TT -> b",
        kinds,
        cpp=f"({{0}} {symbol} {{1}})",
        triton=f"({{0}} {symbol} {{1}})",
        gradients=None,
        evaluate=evaluate,
        exact=True,
        commutative=symbol in ("==", "!="),
        vector=True,
    )


eq = _comparison("eq", "==", ANY, lambda n, a, b: a == b)
ne = _comparison("ne", "!=", ANY, lambda n, a, b: a != b)
lt = _comparison("lt", "<", REAL | BOOLEAN, lambda n, a, b: a < b)
le = _comparison("le", "<=", REAL | BOOLEAN, lambda n, a, b: a <= b)
gt = _comparison("gt", ">", REAL | BOOLEAN, lambda n, a, b: a > b)
ge = _comparison("ge", ">=", REAL | BOOLEAN, lambda n, a, b: a >= b)


# Bits. On bool these are the logical operations, without short circuit so that loops vectorize.


def _bitwise(name: str, symbol: str, evaluate: Callable[..., int]) -> Primitive:
    return define(
        name,
        "TT -> T",
        INTEGER | BOOLEAN,
        cpp=f"({{0}} {symbol} {{1}})",
        triton=f"({{0}} {symbol} {{1}})",
        gradients=None,
        evaluate=evaluate,
        exact=True,
        commutative=True,
    )


bitwise_and = _bitwise("bitwise_and", "&", lambda n, a, b: a & b)
bitwise_or = _bitwise("bitwise_or", "|", lambda n, a, b: a | b)
bitwise_xor = _bitwise("bitwise_xor", "^", lambda n, a, b: a ^ b)
bitwise_not = define(
    "bitwise_not",
    "T -> T",
    INTEGER | BOOLEAN,
    cpp={BOOLEAN: "(!{0})", INTEGER: "static_cast<{T}>(~{0})"},
    triton={BOOLEAN: "({0} == 0)", INTEGER: "(~{0})"},
    gradients=None,
    evaluate=lambda n, x: not x if n.dtype is bool_ else ~x,
    exact=True,
)
# Out of range shifts: a left shift gives 0, a right shift the sign's bits.
shift_left = define(
    "shift_left",
    "TT -> T",
    INTEGER,
    cpp="math::shift_left({0}, {1})",
    triton="shift_left({0}, {1})",
    gradients=None,
    evaluate=lambda n, a, b: ev.shift_left(n.dtype, a, b),
    exact=True,
)
shift_right = define(
    "shift_right",
    "TT -> T",
    INTEGER,
    cpp="math::shift_right({0}, {1})",
    triton="shift_right({0}, {1})",
    gradients=None,
    evaluate=lambda n, a, b: ev.shift_right(n.dtype, a, b),
    exact=True,
)


def truth(x: Node) -> Node:
    """x != 0 as a bool node; a bool node itself."""
    return cast(x, bool_)


def logical_and(a: Node, b: Node) -> Node:
    return bitwise_and(truth(a), truth(b))


def logical_or(a: Node, b: Node) -> Node:
    return bitwise_or(truth(a), truth(b))


def logical_xor(a: Node, b: Node) -> Node:
    return bitwise_xor(truth(a), truth(b))


def logical_not(x: Node) -> Node:
    return bitwise_not(truth(x))


# Selection

where: Primitive = define(
    "where",
    "bTT -> T",
    ANY,
    cpp="({0} ? {1} : {2})",
    triton="tl.where({0}, {1}, {2})",
    gradients=(
        no_gradient,
        lambda g, y, c, a, b: where(c, g, zero_like(g)),
        lambda g, y, c, a, b: where(c, zero_like(g), g),
    ),
    evaluate=lambda n, c, a, b: a if c else b,
    exact=True,
    takes_reduced=True,
    vector=True,
)


# Classification


def _classification(name: str, kinds: frozenset[Kind], triton: str, evaluate: Callable[..., bool]) -> Primitive:
    return define(
        name,
        "T -> b",
        kinds,
        cpp=f"math::{name}({{0}})",
        triton=triton,
        gradients=None,
        evaluate=evaluate,
        exact=True,
    )


isnan = _classification("isnan", INEXACT, "({0} != {0})", lambda n, x: x != x)
isinf = _classification(
    "isinf", INEXACT, '(tl.abs({0}) == float("inf"))', lambda n, x: math.isinf(x.real) or math.isinf(x.imag)
)
isfinite = _classification(
    "isfinite",
    INEXACT,
    '(tl.abs({0}) < float("inf"))',
    lambda n, x: math.isfinite(x.real) and math.isfinite(x.imag),
)
signbit = _classification("signbit", REAL, "(libdevice.signbit({0}) != 0)", lambda n, x: ev.signbit(x))


# Conversions

CAST = define(
    "cast",
    "T -> T",
    ANY,
    cpp="math::cast<{type}>({0})",
    triton="tl.cast({0}, {type})",
    gradients=(lambda g, y, x: cast(real(g) if g.dtype.is_complex and not x.dtype.is_complex else g, x.dtype),),
    evaluate=lambda n, x: ev.cast(x, n.args[0].dtype, n.dtype),
    exact=True,
    takes_reduced=True,
)
BITCAST = define(
    "bitcast",
    "T -> T",
    ANY,
    cpp="math::bitcast<{type}>({0})",
    triton="{0}.to({type}, bitcast=True)",
    gradients=None,
    evaluate=lambda n, x: ev.bitcast(x, n.args[0].dtype, n.dtype),
    takes_reduced=True,
)


def cast(x: Node, dtype: DType) -> Node:
    """x in another dtype: toward zero from float to integer, x != 0 to bool, the real part from complex to real."""
    return x if x.dtype is dtype else make(CAST, dtype, (x,))


def bitcast(x: Node, dtype: DType) -> Node:
    """The same bits read as another dtype of the same size."""
    if x.dtype.itemsize != dtype.itemsize:
        raise TypeError(f"[bitcast] {x.dtype} and {dtype} differ in size")
    return x if x.dtype is dtype else make(BITCAST, dtype, (x,))


def compute(x: Node) -> Node:
    """x in the dtype it is computed with."""
    return cast(x, x.dtype.compute)


def index() -> Node:
    """The position in the loop, as an int64."""
    return make(INDEX, int64)


# Complex numbers

make_complex = define(
    "make_complex",
    "TT -> C",
    FLOATING,
    cpp="{type}({0}, {1})",
    triton=None,
    gradients=(lambda g, y, re, im: real(g), lambda g, y, re, im: imag(g)),
    evaluate=lambda n, re, im: complex(re, im),
)
REAL_PART = define(
    "real",
    "T -> R",
    COMPLEX,
    cpp="{0}.re",
    triton=None,
    gradients=(lambda g, y, z: make_complex(g, zero_like(g)),),
    evaluate=lambda n, z: z.real,
)
IMAG_PART = define(
    "imag",
    "T -> R",
    COMPLEX,
    cpp="{0}.im",
    triton=None,
    gradients=(lambda g, y, z: make_complex(zero_like(g), g),),
    evaluate=lambda n, z: z.imag,
)
conj: Primitive = define(
    "conj",
    "T -> T",
    COMPLEX,
    cpp="{T}({0}.re, -{0}.im)",
    triton=None,
    gradients=(lambda g, y, z: conj(g),),
    evaluate=lambda n, z: z.conjugate(),
)


def real(z: Node) -> Node:
    """The real part; a real node itself."""
    return REAL_PART(z) if z.dtype.is_complex else z


def imag(z: Node) -> Node:
    """The imaginary part; 0 for a real node."""
    return IMAG_PART(z) if z.dtype.is_complex else zero_like(z)


def _angle_rule(g: Node, y: Node, z: Node) -> Node:
    if not z.dtype.is_complex:
        return zero_like(z)
    re, im = real(z), imag(z)
    square = re * re + im * im
    zero = zero_like(square)
    return make_complex(
        where(square == 0, zero, -g * (im / square)),
        where(square == 0, zero, g * (re / square)),
    )


angle = define(
    "angle",
    "T -> R",
    INEXACT,
    cpp={FLOATING: "math::angle({0})", COMPLEX: "math::arg({0})"},
    triton=f"tl.where({{0}} < 0, {math.pi!r}, tl.where({{0}} == {{0}}, 0.0, {{0}}))",
    gradients=(_angle_rule,),
    evaluate=lambda n, z: ev.angle(z),
    cost=Cost.EXPENSIVE,
)
