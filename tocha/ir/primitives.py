"""The table of primitives: arithmetic, rounding, order and the elementary functions.

One entry says all there is to know about a primitive (see node.Primitive). tocha.ir.select holds the entries that
compare, choose and convert, tocha.ir.special the special functions; formulas import them all from tocha.ir.scalar.
Gradient rules take (g, y, *operands): the gradient that arrives, the result, the operands. At kinks and ties they
follow PyTorch.
"""

from __future__ import annotations

import cmath
import math

from tocha.ir import evaluate as ev
from tocha.ir.dtypes import Kind
from tocha.ir.node import (
    COMPLEX,
    FLOATING,
    INEXACT,
    INTEGER,
    NUMERIC,
    REAL,
    Cost,
    GradientRule,
    Node,
    Primitive,
    Shortcut,
    define,
)
from tocha.ir.select import cast, conjugate, imag, isnan, no_gradient, no_gradient_second, real, where, zero_like

LN2 = math.log(2.0)
LN10 = math.log(10.0)


# Arithmetic

add = define(
    "add",
    "TT -> T",
    NUMERIC,
    cpp={INTEGER: "math::wrap_add({0}, {1})", INEXACT: "({0} + {1})"},
    triton="({0} + {1})",
    gradients=(lambda g, y, a, b: g, lambda g, y, a, b: g),
    evaluate=lambda n, a, b: a + b,
    exact=True,
    commutative=True,
    vector=True,
)
sub = define(
    "sub",
    "TT -> T",
    NUMERIC,
    cpp={INTEGER: "math::wrap_sub({0}, {1})", INEXACT: "({0} - {1})"},
    triton="({0} - {1})",
    gradients=(lambda g, y, a, b: g, lambda g, y, a, b: -g),
    evaluate=lambda n, a, b: a - b,
    exact=True,
    vector=True,
)
mul = define(
    "mul",
    "TT -> T",
    NUMERIC,
    cpp={INTEGER: "math::wrap_mul({0}, {1})", INEXACT: "({0} * {1})"},
    triton="({0} * {1})",
    gradients=(lambda g, y, a, b: g * conjugate(b), lambda g, y, a, b: g * conjugate(a)),
    evaluate=lambda n, a, b: a * b,
    exact=True,
    commutative=True,
    vector=True,
)
div = define(
    "div",
    "TT -> T",
    INEXACT,
    cpp="({0} / {1})",
    triton="({0} / {1})",
    gradients=(lambda g, y, a, b: g / conjugate(b), lambda g, y, a, b: -g * conjugate(y / b)),
    evaluate=lambda n, a, b: ev.div(a, b),
    exact=True,
    vector=True,
)
neg = define(
    "neg",
    "T -> T",
    NUMERIC,
    cpp={INTEGER: "math::wrap_neg({0})", INEXACT: "(-{0})"},
    triton="(-{0})",
    gradients=(lambda g, y, x: -g,),
    evaluate=lambda n, x: -x,
    exact=True,
    vector=True,
)
madd = define(  # a * b + c, rounded once where the processor can
    "madd",
    "TTT -> T",
    FLOATING,
    cpp="math::madd({0}, {1}, {2})",
    triton="libdevice.fma({0}, {1}, {2})",
    gradients=(lambda g, y, a, b, c: g * b, lambda g, y, a, b, c: g * a, lambda g, y, a, b, c: g),
    evaluate=lambda n, a, b, c: a * b + c,
)
reciprocal = define(
    "reciprocal",
    "T -> T",
    INEXACT,
    cpp={FLOATING: "({T}(1) / {0})", COMPLEX: "math::reciprocal({0})"},
    triton="(1.0 / {0})",
    gradients=(lambda g, y, x: -g * conjugate(y * y),),
    evaluate=lambda n, x: ev.reciprocal(x),
    exact=True,
)
absolute = define(
    "abs",
    "T -> R",
    NUMERIC,
    cpp="math::abs({0})",
    triton="tl.abs({0})",
    gradients=(lambda g, y, x: cast(g, x.dtype) * phase(x, y) if x.dtype.is_complex else g * sign(x),),
    evaluate=lambda n, x: ev.absolute(x),
    exact=True,
    vector=True,
)
sign: Primitive = define(
    "sign",
    "T -> T",
    REAL,
    cpp="math::sign({0})",
    triton="(({0} > 0).to({T}) - ({0} < 0).to({T}))",
    gradients=(no_gradient,),
    evaluate=lambda n, x: ev.sign(x),
    exact=True,
)


def phase(z: Node, modulus: Node) -> Node:
    """z / |z|, and 0 at 0."""
    return where(modulus == 0, zero_like(z), z / cast(modulus, z.dtype))


# Division with a remainder. The floating forms are PyTorch's: inf // 2 is NaN, -0.0 % 5 is -0.0.


def _quotient_rule(quotient: Primitive) -> tuple[GradientRule, GradientRule]:
    return (lambda g, y, a, b: g, lambda g, y, a, b: -g * quotient(a, b))


floordiv = define(
    "floordiv",
    "TT -> T",
    REAL,
    cpp={INTEGER: "math::floordiv({0}, {1}, {fault})", FLOATING: "math::floordiv({0}, {1})"},
    triton={INTEGER: "floordiv({0}, {1})", FLOATING: "floordiv({0}, {1})"},
    gradients=(no_gradient, no_gradient_second),
    evaluate=lambda n, a, b: ev.floordiv(n.dtype, a, b),
    cost=Cost.EXPENSIVE,
    exact=True,
    shortcut=Shortcut("math::floordiv_fast({0}, {1})", "math::fmod_needs_slow({0}, {1})"),
)
truncdiv = define(
    "truncdiv",
    "TT -> T",
    REAL,
    cpp={INTEGER: "math::truncdiv({0}, {1}, {fault})", FLOATING: "math::trunc({0} / {1})"},
    triton={INTEGER: "({0} // {1})", FLOATING: "libdevice.trunc({0} / {1})"},
    gradients=(no_gradient, no_gradient_second),
    evaluate=lambda n, a, b: ev.truncdiv(n.dtype, a, b),
    exact=True,
)
remainder = define(
    "remainder",
    "TT -> T",
    REAL,
    cpp={INTEGER: "math::remainder({0}, {1}, {fault})", FLOATING: "math::remainder({0}, {1})"},
    triton="remainder({0}, {1})",
    gradients=_quotient_rule(floordiv),
    evaluate=lambda n, a, b: ev.remainder(a, b),
    cost=Cost.EXPENSIVE,
    exact=True,
    shortcut=Shortcut("math::remainder_fast({0}, {1})", "math::fmod_needs_slow({0}, {1})"),
)
fmod = define(
    "fmod",
    "TT -> T",
    REAL,
    cpp={INTEGER: "math::fmod({0}, {1}, {fault})", FLOATING: "math::fmod({0}, {1})"},
    triton={INTEGER: "({0} % {1})", FLOATING: "libdevice.fmod({0}, {1})"},
    gradients=_quotient_rule(truncdiv),
    evaluate=lambda n, a, b: ev.fmod(a, b),
    cost=Cost.EXPENSIVE,
    exact=True,
    shortcut=Shortcut("math::fmod_fast({0}, {1})", "math::fmod_needs_slow({0}, {1})"),
)
gcd = define(
    "gcd",
    "TT -> T",
    INTEGER,
    cpp="math::gcd({0}, {1})",
    triton="gcd({0}, {1})",
    gradients=None,
    evaluate=lambda n, a, b: ev.gcd(a, b),
    cost=Cost.EXPENSIVE,
    exact=True,
    commutative=True,
)
lcm = define(
    "lcm",
    "TT -> T",
    INTEGER,
    cpp="math::lcm({0}, {1})",
    triton="lcm({0}, {1})",
    gradients=None,
    evaluate=lambda n, a, b: ev.lcm(a, b),
    cost=Cost.EXPENSIVE,
    commutative=True,
)


# Rounding


def _rounding(name: str, triton: str, evaluate: ev.Unary) -> Primitive:
    return define(
        name,
        "T -> T",
        FLOATING,
        cpp=f"math::{name}({{0}})",
        triton=triton,
        gradients=(no_gradient,),
        evaluate=lambda n, x: evaluate(x),
        exact=True,
    )


floor = _rounding("floor", "tl.floor({0})", ev.floor)
ceil = _rounding("ceil", "tl.ceil({0})", ev.ceil)
trunc = _rounding("trunc", "libdevice.trunc({0})", ev.trunc)
round = _rounding("round", "libdevice.rint({0})", ev.round_even)


# Order. maximum and minimum propagate NaN, fmax and fmin ignore it; all keep the first of two equal operands.


def _ordering(
    name: str, triton: str, gradients: tuple[GradientRule, ...], evaluate: ev.Binary, vector: bool = False
) -> Primitive:
    return define(
        name,
        "TT -> T",
        REAL,
        cpp=f"math::{name}({{0}}, {{1}})",
        triton=triton,
        gradients=gradients,
        evaluate=lambda n, a, b: evaluate(a, b),
        exact=True,
        vector=vector,
    )


def _shared(loses: Node, ties: Node, g: Node) -> Node:
    """Gradient g unless the operand loses; half of it on a tie."""
    return where(ties, g * 0.5, where(loses, zero_like(g), g))


maximum = _ordering(
    "maximum",
    "tl.maximum({0}, {1}, propagate_nan=tl.PropagateNan.ALL)",
    (lambda g, y, a, b: _shared(a < b, a == b, g), lambda g, y, a, b: _shared(a > b, a == b, g)),
    ev.maximum,
    vector=True,
)
minimum = _ordering(
    "minimum",
    "tl.minimum({0}, {1}, propagate_nan=tl.PropagateNan.ALL)",
    (lambda g, y, a, b: _shared(a > b, a == b, g), lambda g, y, a, b: _shared(a < b, a == b, g)),
    ev.minimum,
    vector=True,
)
fmax = _ordering(
    "fmax",
    "tl.maximum({0}, {1})",
    (
        lambda g, y, a, b: where((a >= b) | isnan(b), g, zero_like(g)),
        lambda g, y, a, b: where((a >= b) | isnan(b), zero_like(g), g),
    ),
    ev.fmax,
)
fmin = _ordering(
    "fmin",
    "tl.minimum({0}, {1})",
    (
        lambda g, y, a, b: where((a <= b) | isnan(b), g, zero_like(g)),
        lambda g, y, a, b: where((a <= b) | isnan(b), zero_like(g), g),
    ),
    ev.fmin,
)
# Bounds: the gradient passes where x is within them, ends included, and nowhere for NaN.
clamp_min = _ordering(
    "clamp_min",
    "tl.maximum({0}, {1}, propagate_nan=tl.PropagateNan.ALL)",
    (
        lambda g, y, x, low: where(x >= low, g, zero_like(g)),
        lambda g, y, x, low: where(x < low, g, zero_like(g)),
    ),
    ev.maximum,
)
clamp_max = _ordering(
    "clamp_max",
    "tl.minimum({0}, {1}, propagate_nan=tl.PropagateNan.ALL)",
    (
        lambda g, y, x, high: where(x <= high, g, zero_like(g)),
        lambda g, y, x, high: where(x > high, g, zero_like(g)),
    ),
    ev.minimum,
)
clamp = define(
    "clamp",
    "TTT -> T",
    REAL,
    cpp="math::clamp({0}, {1}, {2})",
    triton="tl.clamp({0}, {1}, {2}, propagate_nan=tl.PropagateNan.ALL)",
    gradients=(
        lambda g, y, x, low, high: where((x >= low) & (x <= high), g, zero_like(g)),
        lambda g, y, x, low, high: where((x < low) & (low < high), g, zero_like(g)),
        lambda g, y, x, low, high: where((x > high) | (high < low), g, zero_like(g)),
    ),
    evaluate=lambda n, x, low, high: ev.minimum(ev.maximum(x, low), high),
    exact=True,
)
# Of its own so that its gradient needs the result only: relu_ overwrites the operand.
relu = define(
    "relu",
    "T -> T",
    REAL,
    cpp="math::relu({0})",
    triton="tl.where({0} < 0, 0, {0})",
    gradients=(lambda g, y, x: where(y <= 0, zero_like(g), g),),
    evaluate=lambda n, x: type(x)(0) if x < 0 else x,
    exact=True,
)
heaviside = define(
    "heaviside",
    "TT -> T",
    REAL,
    cpp="math::heaviside({0}, {1})",
    triton="tl.where({0} == 0, {1}, ({0} > 0).to({T}))",
    gradients=None,
    evaluate=lambda n, x, at_zero: ev.heaviside(x, at_zero),
    exact=True,
)


# Elementary functions


def _elementary(
    name: str,
    triton: str,
    gradient: GradientRule,
    evaluate: ev.Evaluator,
    kinds: frozenset[Kind] = INEXACT,
    shortcut: Shortcut | None = None,
    vector: bool = False,
) -> Primitive:
    return define(
        name,
        "T -> T",
        kinds,
        cpp=f"math::{name}({{0}})",
        triton=triton,
        gradients=(gradient,),
        evaluate=evaluate,
        cost=Cost.EXPENSIVE,
        shortcut=shortcut,
        vector=vector,
    )


def _circular(
    name: str, triton: str, gradient: GradientRule, evaluate: ev.Evaluator, vector: bool = False
) -> Primitive:
    """Great arguments need a long reduction by pi/2, which is a branch in the loop."""
    shortcut = Shortcut(f"math::{name}_fast({{0}})", "math::trig_needs_slow({0})")
    return _elementary(name, triton, gradient, evaluate, shortcut=shortcut, vector=vector)


sqrt = define(
    "sqrt",
    "T -> T",
    INEXACT,
    cpp="math::sqrt({0})",
    triton="libdevice.sqrt({0})",
    gradients=(lambda g, y, x: g / conjugate(2 * y),),
    evaluate=lambda n, x: ev.sqrt(x),
    exact=True,
    vector=True,
)
rsqrt = define(
    "rsqrt",
    "T -> T",
    INEXACT,
    cpp="math::rsqrt({0})",
    triton="libdevice.rsqrt({0})",
    gradients=(lambda g, y, x: -0.5 * g * conjugate(y * y * y),),
    evaluate=lambda n, x: ev.rsqrt(x),
)
exp = _elementary(
    "exp", "tl.exp({0})", lambda g, y, x: g * conjugate(y), ev.elementary(math.exp, cmath.exp, {}), vector=True
)
# exp where the operand is known not to be above 0, as in softmax: shorter, and what would be subnormal is 0.
exp_below_zero = _elementary(
    "exp_below_zero", "tl.exp({0})", lambda g, y, x: g * y, ev.elementary(math.exp, cmath.exp, {}), FLOATING
)
exp2 = _elementary(
    "exp2",
    "tl.exp2({0})",
    lambda g, y, x: g * conjugate(y) * LN2,
    ev.elementary(ev.exp2, ev.complex_exp2, {}),
    vector=True,
)
expm1 = _elementary(
    "expm1",
    "libdevice.expm1({0})",
    lambda g, y, x: g * conjugate(y + 1),
    ev.elementary(math.expm1, ev.complex_expm1, {}),
    vector=True,
)
log = _elementary(
    "log",
    "tl.log({0})",
    lambda g, y, x: g / conjugate(x),
    ev.elementary(math.log, cmath.log, {0.0: -math.inf}),
    vector=True,
)
log2 = _elementary(
    "log2",
    "tl.log2({0})",
    lambda g, y, x: g / conjugate(x * LN2),
    ev.elementary(math.log2, ev.complex_log2, {0.0: -math.inf}),
    vector=True,
)
log10 = _elementary(
    "log10",
    "libdevice.log10({0})",
    lambda g, y, x: g / conjugate(x * LN10),
    ev.elementary(math.log10, cmath.log10, {0.0: -math.inf}),
    vector=True,
)
log1p = _elementary(
    "log1p",
    "libdevice.log1p({0})",
    lambda g, y, x: g / conjugate(x + 1),
    ev.elementary(math.log1p, ev.complex_log1p, {-1.0: -math.inf}),
    vector=True,
)
sin = _circular(
    "sin", "tl.sin({0})", lambda g, y, x: g * conjugate(cos(x)), ev.elementary(math.sin, cmath.sin, {}), vector=True
)
cos: Primitive = _circular(
    "cos",
    "tl.cos({0})",
    lambda g, y, x: -g * conjugate(sin(x)),
    ev.elementary(math.cos, cmath.cos, {}),
    vector=True,
)
tan = _circular(
    "tan", "libdevice.tan({0})", lambda g, y, x: g * conjugate(y * y + 1), ev.elementary(math.tan, cmath.tan, {})
)
asin = _elementary(
    "asin",
    "libdevice.asin({0})",
    # Not 1 - x * x: a number less a complex infinity is NaN, since the subtraction multiplies by alpha.
    lambda g, y, x: g * conjugate(rsqrt(-x * x + 1)),
    ev.elementary(math.asin, cmath.asin, {}),
)
acos = _elementary(
    "acos",
    "libdevice.acos({0})",
    lambda g, y, x: -g * conjugate(rsqrt(-x * x + 1)),
    ev.elementary(math.acos, cmath.acos, {}),
)
atan = _elementary(
    "atan", "libdevice.atan({0})", lambda g, y, x: g / conjugate(x * x + 1), ev.elementary(math.atan, cmath.atan, {})
)
sinh = _elementary(
    "sinh", "libdevice.sinh({0})", lambda g, y, x: g * conjugate(cosh(x)), ev.elementary(math.sinh, cmath.sinh, {})
)
cosh: Primitive = _elementary(
    "cosh", "libdevice.cosh({0})", lambda g, y, x: g * conjugate(sinh(x)), ev.elementary(math.cosh, cmath.cosh, {})
)
tanh = _elementary(
    "tanh",
    "libdevice.tanh({0})",
    lambda g, y, x: g * conjugate(1 - y * y),
    ev.elementary(math.tanh, cmath.tanh, {}),
    vector=True,
)
asinh = _elementary(
    "asinh",
    "libdevice.asinh({0})",
    lambda g, y, x: g * conjugate(rsqrt(x * x + 1)),
    ev.elementary(math.asinh, cmath.asinh, {}),
)
acosh = _elementary(
    "acosh",
    "libdevice.acosh({0})",
    # Two roots: with complex x, sqrt(x*x - 1) would lie on the wrong branch for half of the plane.
    lambda g, y, x: g * conjugate(rsqrt(x - 1) * rsqrt(x + 1)) if x.dtype.is_complex else g * rsqrt(x * x - 1),
    ev.elementary(math.acosh, cmath.acosh, {}),
)
atanh = _elementary(
    "atanh",
    "libdevice.atanh({0})",
    lambda g, y, x: g / conjugate(1 - x * x),
    ev.elementary(math.atanh, cmath.atanh, {1.0: math.inf, -1.0: -math.inf}),
)
sigmoid = _elementary(
    "sigmoid",
    "tl.sigmoid({0})",
    lambda g, y, x: g * conjugate((1 - y) * y),
    ev.elementary(ev.sigmoid, ev.complex_sigmoid, {}),
    vector=True,
)


def _exponent_rule(g: Node, y: Node, a: Node, b: Node) -> Node:
    at_zero = (a == 0) & (real(b) >= 0)
    if b.dtype.is_complex:
        at_zero = at_zero & (imag(b) == 0)
    return g * where(at_zero, zero_like(y), conjugate(y * log(a)))  # PyTorch's: NaN for an infinite gradient


pow: Primitive = define(
    "pow",
    "TT -> T",
    NUMERIC,
    cpp={INTEGER: "math::integer_pow({0}, {1})", INEXACT: "math::pow({0}, {1})"},
    triton={INTEGER: "integer_pow({0}, {1})", FLOATING: "libdevice.pow({0}, {1})"},
    gradients=(
        lambda g, y, a, b: where(b == 0, zero_like(g), g * conjugate(b * pow(a, b - 1))),
        _exponent_rule,
    ),
    evaluate=lambda n, a, b: ev.power(a, b),
    cost=Cost.EXPENSIVE,
)


def _atan2_rule(g: Node, a: Node, b: Node, numerator: Node) -> Node:
    square = a * a + b * b
    return g * where(square == 0, zero_like(numerator), numerator / square)


atan2 = define(
    "atan2",
    "TT -> T",
    FLOATING,
    cpp="math::atan2({0}, {1})",
    triton="libdevice.atan2({0}, {1})",
    gradients=(lambda g, y, a, b: _atan2_rule(g, a, b, b), lambda g, y, a, b: _atan2_rule(g, a, b, -a)),
    evaluate=lambda n, a, b: math.atan2(a, b),
    cost=Cost.EXPENSIVE,
)
hypot = define(
    "hypot",
    "TT -> T",
    FLOATING,
    cpp="math::hypot({0}, {1})",
    triton="libdevice.hypot({0}, {1})",
    gradients=(lambda g, y, a, b: g * a / y, lambda g, y, a, b: g * b / y),
    evaluate=lambda n, a, b: math.hypot(a, b),
    cost=Cost.EXPENSIVE,
)
copysign = define(
    "copysign",
    "TT -> T",
    FLOATING,
    cpp="math::copysign({0}, {1})",
    triton="libdevice.copysign({0}, {1})",
    gradients=(lambda g, y, a, b: g * where(a == 0, zero_like(g), y / a), no_gradient_second),
    evaluate=lambda n, a, b: math.copysign(a, b),
    exact=True,
)
nextafter = define(
    "nextafter",
    "TT -> T",
    FLOATING,
    cpp="math::nextafter({0}, {1})",
    triton="libdevice.nextafter({0}, {1})",
    gradients=(lambda g, y, a, b: where(a == b, zero_like(g), g), no_gradient_second),
    evaluate=lambda n, a, b: ev.nextafter(n.dtype, a, b),
    takes_reduced=True,
)
ldexp: Primitive = define(
    "ldexp",
    "Ti -> T",
    FLOATING,
    cpp="math::ldexp({0}, {1})",
    triton="libdevice.ldexp({0}, {1})",
    gradients=(lambda g, y, x, n: ldexp(g, n), no_gradient_second),
    evaluate=lambda node, x, n: ev.ldexp(x, n),
    exact=True,
)
frexp_mantissa = define(
    "frexp_mantissa",
    "T -> T",
    FLOATING,
    cpp="math::frexp_mantissa({0})",
    triton=None,
    gradients=(lambda g, y, x: ldexp(g, -frexp_exponent(x)),),
    evaluate=lambda n, x: ev.frexp_mantissa(x),
    exact=True,
)
frexp_exponent: Primitive = define(
    "frexp_exponent",
    "T -> i",
    FLOATING,
    cpp="math::frexp_exponent({0})",
    triton=None,
    gradients=None,
    evaluate=lambda n, x: ev.frexp_exponent(x),
    exact=True,
)
