"""Scalar primitives in Python, on bool, int, float and complex, with IEEE results where Python would raise.

The primitives' table names these functions; constant folding and the tests call them. Rounding to the dtype is the
caller's (DType.convert).
"""

from __future__ import annotations

import cmath
import math
import struct
from collections.abc import Callable

from tocha.ir.dtypes import DType, Kind, Number, bfloat16, float16, float32, float64

Unary = Callable[[float], float]
Binary = Callable[[float, float], float]
Evaluator = Callable[..., Number]


def div(a: Number, b: Number) -> Number:
    if isinstance(a, complex) or isinstance(b, complex):
        return a / b if b != 0 else complex(real_div(a.real, 0.0), real_div(a.imag, 0.0))
    return real_div(a, b)


def real_div(a: float, b: float) -> float:
    if b != 0:
        return a / b
    if a == 0 or a != a:
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1.0, b)


def fmod(a: float, b: float) -> float:
    if isinstance(a, int) and isinstance(b, int):
        return a - b * _integer_truncdiv(a, b)
    return math.nan if b == 0 or math.isinf(a) else math.fmod(a, b)


def remainder(a: float, b: float) -> float:
    """Python's a % b; a zero keeps the sign of a, as in PyTorch."""
    if isinstance(a, int) and isinstance(b, int):
        return a % b
    r = fmod(a, b)
    return r + b if r != 0 and (r < 0) != (b < 0) else r


def floordiv(dtype: DType, a: float, b: float) -> float:
    """As the kernel does it, every step rounded to the dtype: 1e10 // 300 is not the double's floor in float32."""
    if isinstance(a, int) and isinstance(b, int):
        return a // b
    if b == 0:
        return real_div(a, b)
    r = fmod(a, b)
    quotient = dtype.round(real_div(dtype.round(a - r), b))
    if r != 0 and (r < 0) != (b < 0):
        quotient = dtype.round(quotient - 1)
    if quotient == 0:
        return math.copysign(0.0, real_div(a, b))
    below = floor(quotient)
    return below + 1 if quotient - below > 0.5 else below


def truncdiv(dtype: DType, a: float, b: float) -> float:
    if isinstance(a, int) and isinstance(b, int):
        return _integer_truncdiv(a, b)
    return trunc(dtype.round(real_div(a, b)))


def _integer_truncdiv(a: int, b: int) -> int:
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


def floor(x: float) -> float:
    return _integral(math.floor, x)


def ceil(x: float) -> float:
    return _integral(math.ceil, x)


def trunc(x: float) -> float:
    return _integral(math.trunc, x)


def round_even(x: float) -> float:
    return _integral(round, x)


def _integral(fn: Callable[[float], int], x: float) -> float:
    return math.copysign(float(fn(x)), x) if math.isfinite(x) else x


def sign(x: float) -> float:
    return (x > 0) - (x < 0)


def signbit(x: float) -> bool:
    return math.copysign(1.0, x) < 0


def maximum(a: float, b: float) -> float:
    """NaN if either is; of two equal operands the first, which settles maximum(0.0, -0.0)."""
    return b if a < b or b != b else a


def minimum(a: float, b: float) -> float:
    return b if a > b or b != b else a


def fmax(a: float, b: float) -> float:
    return b if a != a else a if b != b else maximum(a, b)


def fmin(a: float, b: float) -> float:
    return b if a != a else a if b != b else minimum(a, b)


def heaviside(x: float, at_zero: float) -> float:
    return at_zero if x == 0 else float(x > 0) if isinstance(x, float) else int(x > 0)


def sqrt(x: float | complex) -> float | complex:
    if isinstance(x, complex):
        return cmath.sqrt(x)
    return math.sqrt(x) if x >= 0 else math.nan


def elementary(real: Unary, of_complex: Callable[[complex], complex], poles: dict[float, float]) -> Evaluator:
    """An evaluator from math's function (which raises) and cmath's: `poles` are the points with an infinite value,
    outside the domain is NaN, overflow is infinity with the sign of the operand if the function is odd there."""

    def evaluate(_node: object, x: float | complex) -> Number:
        if isinstance(x, complex):
            try:
                return of_complex(x)
            except (ValueError, OverflowError, ZeroDivisionError):
                return complex(math.nan, math.nan)
        if x in poles:
            return poles[x]
        try:
            return real(x)
        except ValueError:
            return math.nan
        except OverflowError:
            return math.copysign(math.inf, x) if real is math.sinh else math.inf

    return evaluate


def exp2(x: float) -> float:
    return 2.0**x


def complex_exp2(z: complex) -> complex:
    return cmath.exp(z * math.log(2.0))


def complex_expm1(z: complex) -> complex:
    # exp(z) - 1 without losing the small parts: expm1(x) cos y - 2 sin(y/2)^2, and exp(x) sin y.
    half = math.sin(z.imag / 2)
    return complex(math.expm1(z.real) * math.cos(z.imag) - 2 * half * half, math.exp(z.real) * math.sin(z.imag))


def complex_log2(z: complex) -> complex:
    return cmath.log(z) / math.log(2.0)


def complex_log1p(z: complex) -> complex:
    return complex(0.5 * math.log1p(z.real * (2 + z.real) + z.imag * z.imag), math.atan2(z.imag, 1 + z.real))


def sigmoid(x: float) -> float:
    if x >= 0:
        return 1 / (1 + math.exp(-x))
    e = math.exp(x)
    return e / (1 + e)


def complex_sigmoid(z: complex) -> complex:
    return 1 / (1 + cmath.exp(-z))


def reciprocal(x: Number) -> Number:
    return div(1.0, x)


def rsqrt(x: Number) -> Number:
    return div(1.0, sqrt(x))  # type: ignore[arg-type]


def power(a: Number, b: Number) -> Number:
    if isinstance(a, int) and isinstance(b, int):
        if b >= 0:
            return pow(a, b)
        return 1 if a == 1 else (-1 if b % 2 else 1) if a == -1 else 0
    if isinstance(a, complex) or isinstance(b, complex):
        # exp(b log a), also at a = 0 where the logarithm is infinite.
        return a**b if a != 0 else 0j if b.real > 0 else complex(math.nan, math.nan)
    try:
        return math.pow(a, b)
    except OverflowError:
        return -math.inf if a < 0 and b % 2 == 1 else math.inf
    except ValueError:
        if a != 0:
            return math.nan
        return math.copysign(math.inf, a) if abs(b) % 2 == 1 else math.inf


def gcd(a: int, b: int) -> int:
    return math.gcd(a, b)


def lcm(a: int, b: int) -> int:
    return math.lcm(a, b)


def frexp_mantissa(x: float) -> float:
    return math.frexp(x)[0]


def frexp_exponent(x: float) -> int:
    return math.frexp(x)[1]


def ldexp(x: float, n: int) -> float:
    try:
        return math.ldexp(x, n)
    except OverflowError:
        return math.copysign(math.inf, x)


def lgamma(x: float) -> float:
    if math.isinf(x) or (x <= 0 and x == math.floor(x)):
        return math.inf
    return math.lgamma(x)


def angle(x: float | complex) -> float:
    if isinstance(x, complex):
        return math.atan2(x.imag, x.real)
    return x if x != x else math.pi if x < 0 else 0.0


def absolute(x: Number) -> Number:
    return math.hypot(x.real, x.imag) if isinstance(x, complex) else abs(x)


def shift_left(dtype: DType, a: int, n: int) -> int:
    return a << n if 0 <= n < dtype.bits else 0


def shift_right(dtype: DType, a: int, n: int) -> int:
    return a >> n if 0 <= n < dtype.bits else -(a < 0)


def cast(value: Number, source: DType, target: DType) -> Number:
    """A conversion as the CPU kernels do it: toward zero from float to integer, out of range as on x86-64."""
    if target.kind is Kind.BOOLEAN:
        return value != 0
    if isinstance(value, complex) and target.kind is not Kind.COMPLEX:
        value = value.real
    if isinstance(value, float) and target.kind is Kind.INTEGER:
        return _float_to_int(value, target)
    return target.convert(value)


def _float_to_int(value: float, target: DType) -> int:
    # The hardware converts to int32 or int64 and answers with their minimum when that fails; narrower results are
    # the low bits of it. Above 2**63, uint64 goes through value - 2**63.
    if target.name == "uint64" and value >= 2.0**63:
        return _through(value - 2.0**63, 64) ^ (1 << 63) if value < 2.0**64 else 0
    through = 64 if target.bits == 64 or target.name == "uint32" else 32
    return target.wrap(_through(value, through))


def _through(value: float, bits: int) -> int:
    limit = 2.0 ** (bits - 1)
    return int(value) if -limit - 1 < value < limit else -(1 << (bits - 1))


_PACK = {float64: "<d", float32: "<f", float16: "<e"}


def bitcast(value: Number, source: DType, target: DType) -> Number:
    """The same bits read as another dtype."""
    if source.is_float8 or target.is_float8 or Kind.COMPLEX in (source.kind, target.kind):
        raise NotImplementedError(f"bitcast from {source} to {target} has no Python value")
    if source.format is None:
        raw = int(value) & ((1 << source.bits) - 1)  # type: ignore[arg-type]
    elif source is bfloat16:
        raw = int.from_bytes(struct.pack("<f", value), "little") >> 16
    else:
        raw = int.from_bytes(struct.pack(_PACK[source], value), "little")
    if target.format is None:
        return bool(raw) if target.kind is Kind.BOOLEAN else target.wrap(raw)
    if target is bfloat16:
        return struct.unpack("<f", (raw << 16).to_bytes(4, "little"))[0]
    return struct.unpack(_PACK[target], raw.to_bytes(target.itemsize, "little"))[0]


def nextafter(dtype: DType, a: float, b: float) -> float:
    if dtype is float64 or a != a or b != b:
        return math.nextafter(a, b)
    if a == b:
        return b
    if a == 0:
        return math.copysign(2.0**-149, b)
    bits = struct.unpack("<i", struct.pack("<f", a))[0]
    away = (a < b) == (a > 0)
    return struct.unpack("<f", struct.pack("<i", bits + (1 if away else -1)))[0]
