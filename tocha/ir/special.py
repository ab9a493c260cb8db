"""The special functions of the table of primitives: error functions, gamma family, Bessel family, polynomials.

An entry names the function of csrc/cpu/special that computes it and its gradient; the Python values are
tocha.ir.reference. Formulas import these from tocha.ir.scalar.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tocha.ir import evaluate as ev
from tocha.ir import reference as ref
from tocha.ir.dtypes import int64
from tocha.ir.node import FLOATING, Cost, GradientRule, Node, Primitive, Shortcut, define
from tocha.ir.primitives import absolute, exp, log, sign
from tocha.ir.select import cast, no_gradient, where, zero_like

SQRT_PI = math.sqrt(math.pi)
SQRT_2PI = math.sqrt(2.0 * math.pi)
SQRT_HALF = math.sqrt(0.5)


def _unary(
    name: str,
    gradient: GradientRule | None,
    evaluate: Callable[[float], float],
    triton: str | None = None,
    vector: bool = False,
    shortcut: Shortcut | None = None,
) -> Primitive:
    return define(
        name,
        "T -> T",
        FLOATING,
        cpp=f"math::{name}({{0}})",
        triton=triton,
        gradients=None if gradient is None else (gradient,),
        evaluate=lambda n, x: evaluate(x),
        cost=Cost.EXPENSIVE,
        vector=vector,
        shortcut=shortcut,
    )


def _binary(
    name: str, gradients: tuple[GradientRule | None, ...] | None, evaluate: Callable[[float, float], float]
) -> Primitive:
    return define(
        name,
        "TT -> T",
        FLOATING,
        cpp=f"math::{name}({{0}}, {{1}})",
        triton=None,
        gradients=gradients,
        evaluate=lambda n, a, b: evaluate(a, b),
        cost=Cost.EXPENSIVE,
    )


# Error functions and the normal distribution

erf = _unary("erf", lambda g, y, x: g * (2.0 / SQRT_PI * exp(-(x * x))), math.erf, "libdevice.erf({0})", vector=True)
# Of its own because vectors have it in fewer steps than its formula.
gelu = _unary(
    "gelu",
    lambda g, y, x: g * (0.5 * (1 + erf(x * math.sqrt(0.5))) + x * (exp(x * x * -0.5) * (1 / math.sqrt(2 * math.pi)))),
    lambda x: 0.5 * x * (1 + math.erf(x * math.sqrt(0.5))),
    "(0.5 * {0} * (1.0 + libdevice.erf({0} * 0.7071067811865476)))",
    vector=True,
)
erfc = _unary("erfc", lambda g, y, x: g * (-2.0 / SQRT_PI * exp(-(x * x))), math.erfc, "libdevice.erfc({0})")


def _erfcx_gradient(g: Node, y: Node, x: Node) -> Node:
    """2 x y - 2 / sqrt(pi), which cancels for large x: there the asymptotic series, to the last digit of a double."""
    far = x > 25.0
    u = 1.0 / where(far, x, zero_like(x) + 25.0)
    square = u * u
    tail = zero_like(x) + 1.0
    for k in range(8, 0, -1):
        tail = 1.0 - (k + 0.5) * square * tail
    return g * where(far, -square * tail / SQRT_PI, 2.0 * x * y - 2.0 / SQRT_PI)


erfcx = _unary("erfcx", _erfcx_gradient, ref.erfcx, "libdevice.erfcx({0})")
erfinv = _unary(
    "erfinv",
    lambda g, y, x: g * (0.5 * SQRT_PI * exp(y * y)),
    ref.erfinv,
    "libdevice.erfinv({0})",
    shortcut=Shortcut("math::erfinv_fast({0})", "math::erfinv_needs_slow({0})"),
)
ndtr = _unary("ndtr", lambda g, y, x: g * (exp(-0.5 * (x * x)) / SQRT_2PI), ref.ndtr, "libdevice.normcdf({0})")
ndtri = _unary("ndtri", lambda g, y, x: g * (SQRT_2PI * exp(0.5 * (y * y))), ref.ndtri, "libdevice.normcdfinv({0})")


def _hazard(g: Node, y: Node, x: Node) -> Node:
    """The density over ndtr, each half by the form that neither overflows nor cancels there."""
    zero = zero_like(x)
    up, down = where(x > 0.0, x, zero), where(x > 0.0, zero, x)
    above = exp(-0.5 * (up * up)) / ndtr(up)
    return g * (where(x > 0.0, above, 2.0 / erfcx(-down * SQRT_HALF)) / SQRT_2PI)


log_ndtr = _unary("log_ndtr", _hazard, ref.log_ndtr)


# The gamma family. The derivatives by the order of igamma and zeta have no closed form.

lgamma = _unary(
    "lgamma",
    lambda g, y, x: g * digamma(x),
    ev.lgamma,
    "libdevice.lgamma({0})",
    vector=True,
    shortcut=Shortcut("math::lgamma_fast({0})", "math::lgamma_needs_slow({0})"),
)
digamma: Primitive = _unary(
    "digamma",
    lambda g, y, x: g * polygamma(1, x),
    ref.digamma,
    shortcut=Shortcut("math::digamma_fast({0})", "math::digamma_needs_slow({0})"),
)
polygamma: Primitive = define(
    "polygamma",
    "iT -> T",
    FLOATING,
    cpp="math::polygamma({0}, {1})",
    triton=None,
    gradients=(lambda g, y, n, x: no_gradient(g, y, n), lambda g, y, n, x: g * polygamma(cast(n, int64) + 1, x)),
    evaluate=lambda node, n, x: ref.polygamma(n, x),
    cost=Cost.EXPENSIVE,
    shortcut=Shortcut("math::polygamma_fast({0}, {1})", "math::polygamma_needs_slow({0}, {1})"),
)
zeta: Primitive = _binary("zeta", (None, lambda g, y, x, q: g * (-x * zeta(x + 1.0, q))), ref.zeta)


def _gamma_density(a: Node, x: Node) -> Node:
    return exp((a - 1.0) * log(x) - x - lgamma(a))


igamma = _binary("igamma", (None, lambda g, y, a, x: g * _gamma_density(a, x)), ref.igamma)
igammac = _binary("igammac", (None, lambda g, y, a, x: -g * _gamma_density(a, x)), ref.igammac)


# The Bessel family. PyTorch differentiates only the four under their short names; so do we.


def _unless_zero(x: Node, value: Callable[[Node], Node], at_zero: float) -> Node:
    """value(x), or its limit near zero; what divides by x is not given a zero, so that it can be differentiated again."""
    assert x.dtype.format is not None
    far = absolute(x) > math.ldexp(1.0, 1 - x.dtype.format.precision)
    return where(far, value(where(far, x, 1.0)), at_zero)


i0 = _unary("i0", lambda g, y, x: g * i1(x), lambda x: ref.bessel_i(0, x), "libdevice.cyl_bessel_i0({0})")
i0e = _unary("i0e", lambda g, y, x: g * (i1e(x) - sign(x) * y), lambda x: ref.bessel_i(0, x) * math.exp(-abs(x)))
i1: Primitive = _unary(
    "i1",
    lambda g, y, x: g * _unless_zero(x, lambda z: i0(z) - y / z, 0.5),
    lambda x: ref.bessel_i(1, x),
    "libdevice.cyl_bessel_i1({0})",
)
i1e: Primitive = _unary(
    "i1e",
    lambda g, y, x: g * _unless_zero(x, lambda z: i0e(z) - y * (sign(x) + 1.0 / z), 0.5),
    lambda x: ref.bessel_i(1, x) * math.exp(-abs(x)),
)
bessel_j0 = _unary("bessel_j0", None, lambda x: ref.bessel_j(0, x), "libdevice.j0({0})")
bessel_j1 = _unary("bessel_j1", None, lambda x: ref.bessel_j(1, x), "libdevice.j1({0})")
bessel_y0 = _unary("bessel_y0", None, lambda x: ref.bessel_y(0, x), "libdevice.y0({0})")
bessel_y1 = _unary("bessel_y1", None, lambda x: ref.bessel_y(1, x), "libdevice.y1({0})")
modified_bessel_i0 = _unary("modified_bessel_i0", None, lambda x: ref.bessel_i(0, x), "libdevice.cyl_bessel_i0({0})")
modified_bessel_i1 = _unary("modified_bessel_i1", None, lambda x: ref.bessel_i(1, x), "libdevice.cyl_bessel_i1({0})")
modified_bessel_k0 = _unary("modified_bessel_k0", None, lambda x: ref.bessel_k(0, x))
modified_bessel_k1 = _unary("modified_bessel_k1", None, lambda x: ref.bessel_k(1, x))
scaled_modified_bessel_k0 = _unary("scaled_modified_bessel_k0", None, lambda x: ref.bessel_k(0, x) * math.exp(x))
scaled_modified_bessel_k1 = _unary("scaled_modified_bessel_k1", None, lambda x: ref.bessel_k(1, x) * math.exp(x))
spherical_bessel_j0 = _unary("spherical_bessel_j0", None, lambda x: math.sin(x) / x if x else 1.0)
airy_ai = _unary("airy_ai", None, ref.airy_ai)


# Orthogonal polynomials p_n(x), called as (x, n) with the degree n in x's dtype.

chebyshev_polynomial_t = _binary("chebyshev_polynomial_t", None, ref.chebyshev_t)
chebyshev_polynomial_u = _binary("chebyshev_polynomial_u", None, ref.chebyshev_u)
chebyshev_polynomial_v = _binary("chebyshev_polynomial_v", None, ref.chebyshev_v)
chebyshev_polynomial_w = _binary("chebyshev_polynomial_w", None, ref.chebyshev_w)
shifted_chebyshev_polynomial_t = _binary(
    "shifted_chebyshev_polynomial_t", None, lambda x, n: ref.chebyshev_t(2 * x - 1, n)
)
shifted_chebyshev_polynomial_u = _binary(
    "shifted_chebyshev_polynomial_u", None, lambda x, n: ref.chebyshev_u(2 * x - 1, n)
)
shifted_chebyshev_polynomial_v = _binary(
    "shifted_chebyshev_polynomial_v", None, lambda x, n: ref.chebyshev_v(2 * x - 1, n)
)
shifted_chebyshev_polynomial_w = _binary(
    "shifted_chebyshev_polynomial_w", None, lambda x, n: ref.chebyshev_w(2 * x - 1, n)
)
hermite_polynomial_h = _binary("hermite_polynomial_h", None, ref.hermite_h)
hermite_polynomial_he = _binary("hermite_polynomial_he", None, ref.hermite_he)
laguerre_polynomial_l = _binary("laguerre_polynomial_l", None, ref.laguerre_l)
legendre_polynomial_p = _binary("legendre_polynomial_p", None, ref.legendre_p)
