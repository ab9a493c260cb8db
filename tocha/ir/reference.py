"""Special functions in plain Python: the values that tests hold the kernels and gradients to.

Chosen to be evidently right (integrals, recurrences, asymptotic series), good to about 1e-12 at moderate arguments,
and slow. Named by the entries of tocha.ir.special.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable

_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)


def _simpson(f: Callable[[float], float], a: float, b: float, intervals: int = 2000) -> float:
    h = (b - a) / intervals
    inner = sum((4 if k % 2 else 2) * f(a + k * h) for k in range(1, intervals))
    return (f(a) + inner + f(b)) * h / 3


def _periodic_mean(f: Callable[[float], float], points: int = 400) -> float:
    """Mean of a smooth 2 pi-periodic function: the trapezoidal sum converges geometrically."""
    return sum(f(2 * math.pi * k / points) for k in range(points)) / points


def ndtr(x: float) -> float:
    return 0.5 * math.erfc(-x * math.sqrt(0.5))


def erfcx(x: float) -> float:
    if x < 20:
        return math.exp(x * x) * math.erfc(x)
    term, total = 1.0, 1.0
    for k in range(1, 12):
        term *= -(2 * k - 1) / (2 * x * x)
        total += term
    return total / (x * math.sqrt(math.pi))


def log_ndtr(x: float) -> float:
    if x > -1:
        return math.log1p(-0.5 * math.erfc(x * math.sqrt(0.5)))
    return math.log(0.5 * erfcx(-x * math.sqrt(0.5))) - 0.5 * x * x


def ndtri(p: float) -> float:
    """The quantile, by bisection on log_ndtr and on its mirror image."""
    if not 0 < p < 1:
        return -math.inf if p == 0 else math.inf if p == 1 else math.nan
    if p > 0.5:
        return -ndtri(1 - p)
    low, high, target = -40.0, 0.5, math.log(p)
    for _ in range(80):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if log_ndtr(middle) < target else (low, middle)
    return 0.5 * (low + high)


def erfinv(y: float) -> float:
    if not -1 < y < 1:
        return math.copysign(math.inf, y) if abs(y) == 1 else math.nan
    x = ndtri(0.5 * (1 + y)) * math.sqrt(0.5)
    # One Newton step restores what 1 + y rounded away.
    return x - (math.erf(x) - y) * 0.5 * math.sqrt(math.pi) * math.exp(x * x)


def digamma(x: float) -> float:
    if x == 0:
        return math.copysign(math.inf, -x)
    if x < 0:
        return math.nan if x == math.floor(x) else digamma(1 - x) - math.pi / math.tan(math.pi * x)
    shift = 0.0
    while x < 12:
        shift -= 1 / x
        x += 1
    tail = sum(b / (2 * k * x ** (2 * k)) for k, b in enumerate(_BERNOULLI, 1))
    return shift + math.log(x) - 0.5 / x - tail


def zeta(s: float, q: float) -> float:
    """Hurwitz's zeta for s > 1, q > 0, by Euler and Maclaurin."""
    if s == 1:
        return math.inf
    if s < 1 or q <= 0:
        return math.inf if q == math.floor(q) and s > 1 else math.nan
    n = 15
    total = sum((q + k) ** -s for k in range(n))
    x = q + n
    total += x ** (1 - s) / (s - 1) + 0.5 * x**-s
    rising, power = s, x ** (-s - 1)
    for k, b in enumerate(_BERNOULLI, 1):
        total += b / math.factorial(2 * k) * rising * power
        rising *= (s + 2 * k - 1) * (s + 2 * k)
        power /= x * x
    return total


def polygamma(n: int, x: float) -> float:
    if n == 0:
        return digamma(x)
    return (1 if n % 2 else -1) * math.factorial(n) * zeta(n + 1.0, x)


def igamma(a: float, x: float) -> float:
    """The regularized lower incomplete gamma function, by its power series."""
    if x <= 0 or a <= 0:
        return 0.0 if x == 0 and a > 0 else 1.0 if a == 0 and x > 0 else math.nan
    term = total = 1 / a
    k = 1
    while abs(term) > 1e-17 * abs(total):
        term *= x / (a + k)
        total += term
        k += 1
    return total * math.exp(a * math.log(x) - x - math.lgamma(a))


def igammac(a: float, x: float) -> float:
    return 1 - igamma(a, x)


def bessel_j(n: int, x: float) -> float:
    return _periodic_mean(lambda t: math.cos(n * t - x * math.sin(t)))


def bessel_i(n: int, x: float) -> float:
    return _periodic_mean(lambda t: math.exp(x * math.cos(t)) * math.cos(n * t))


def bessel_y(n: int, x: float) -> float:
    if x <= 0:
        return -math.inf if x == 0 else math.nan
    oscillating = _simpson(lambda t: math.sin(x * math.sin(t) - n * t), 0.0, math.pi)
    decaying = _simpson(
        lambda t: (math.exp(n * t) + (-1) ** n * math.exp(-n * t)) * math.exp(-x * math.sinh(t)), 0.0, _reach(x), 8000
    )
    return (oscillating - decaying) / math.pi


def bessel_k(n: int, x: float) -> float:
    if x <= 0:
        return math.inf if x == 0 else math.nan
    return _simpson(lambda t: math.exp(-x * math.cosh(t)) * math.cosh(n * t), 0.0, _reach(x), 4000)


def _reach(x: float) -> float:
    """Where exp(-x sinh t) is below every double that matters."""
    return math.asinh(750 / x)


def airy_ai(x: float) -> float:
    """The integral of exp(i(t^3/3 + x t)) along a line above the real axis, where it decays like a Gaussian."""
    height = math.sqrt(x) if x > 1 else 1.0

    def integrand(s: float) -> float:
        t = complex(s, height)
        return cmath.exp(1j * (t * t * t / 3 + x * t)).real

    return _simpson(integrand, 0.0, 7.0, 4000) / math.pi


def _recurrence(n: float, first: float, step: Callable[[int, float, float], float]) -> float:
    """p_n from p_0 = 1, p_1 = first and p_{k+1} = step(k, p_k, p_{k-1}); 0 for a negative degree."""
    degree = math.trunc(n)
    if degree <= 0:
        return 1.0 if degree == 0 else 0.0
    previous, current = 1.0, first
    for k in range(1, degree):
        previous, current = current, step(k, current, previous)
    return current


def chebyshev_t(x: float, n: float) -> float:
    return _recurrence(n, x, lambda k, p, q: 2 * x * p - q)


def chebyshev_u(x: float, n: float) -> float:
    return _recurrence(n, 2 * x, lambda k, p, q: 2 * x * p - q)


def chebyshev_v(x: float, n: float) -> float:
    return _recurrence(n, 2 * x - 1, lambda k, p, q: 2 * x * p - q)


def chebyshev_w(x: float, n: float) -> float:
    return _recurrence(n, 2 * x + 1, lambda k, p, q: 2 * x * p - q)


def hermite_h(x: float, n: float) -> float:
    return _recurrence(n, 2 * x, lambda k, p, q: 2 * x * p - 2 * k * q)


def hermite_he(x: float, n: float) -> float:
    return _recurrence(n, x, lambda k, p, q: x * p - k * q)


def laguerre_l(x: float, n: float) -> float:
    return _recurrence(n, 1 - x, lambda k, p, q: ((2 * k + 1 - x) * p - k * q) / (k + 1))


def legendre_p(x: float, n: float) -> float:
    return _recurrence(n, x, lambda k, p, q: ((2 * k + 1) * x * p - k * q) / (k + 1))
