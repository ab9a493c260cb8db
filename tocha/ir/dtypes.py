"""The element types: names, kinds, C++ and Triton spellings, and how a Python number becomes a value of each.

Used by the scalar IR, the code generators and the operator records; csrc/core/dtype.h is the native counterpart.
"""

from __future__ import annotations

import enum
import math
import struct
from dataclasses import dataclass

Number = bool | int | float | complex


class Kind(enum.Enum):
    BOOLEAN = "boolean"
    INTEGER = "integer"
    FLOATING = "floating"
    COMPLEX = "complex"


@dataclass(frozen=True, slots=True)
class FloatFormat:
    """A binary floating format: significant bits (the implicit one included), exponent range, largest value."""

    precision: int
    min_exponent: int
    largest: float
    has_infinity: bool = True
    one_nan: bool = False  # what is too large becomes NaN, and there is no negative zero

    def round(self, value: float) -> float:
        """The nearest value of this format, ties to even; what is too large becomes infinity, or the largest without one."""
        if self.one_nan:
            rounded = FloatFormat(self.precision, self.min_exponent, self.largest).round(value)
            return math.nan if math.isinf(rounded) else rounded + 0.0
        if value == 0.0 or value != value:
            return value
        if math.isinf(value):
            return value if self.has_infinity else math.copysign(self.largest, value)
        exponent = max(math.frexp(value)[1] - 1, self.min_exponent)
        unit = exponent - (self.precision - 1)
        rounded = math.copysign(math.ldexp(float(round(math.ldexp(value, -unit))), unit), value)
        if abs(rounded) <= self.largest:
            return rounded
        return math.copysign(math.inf if self.has_infinity else self.largest, value)


class PowersOfTwo(FloatFormat):
    """Exponents alone: no sign, no zero, no fraction; ties go up, but for the least power, which has no leading one in float32."""

    __slots__ = ()

    def round(self, value: float) -> float:
        if value != value or math.isinf(value):
            return math.nan
        size = float32.round(abs(value))
        least = math.ldexp(1.0, self.min_exponent)
        if size <= least:
            return least
        fraction, exponent = math.frexp(size)
        power = math.ldexp(1.0, exponent if fraction >= 0.75 or size < 2 * least else exponent - 1)
        return power if power <= self.largest else math.nan


# Compared and hashed by identity: there is one object per dtype, and formulas look dtypes up all the time.
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class DType:
    """An element's type."""

    name: str
    code: str
    kind: Kind
    itemsize: int
    cpp: str
    triton: str
    is_signed: bool = True
    format: FloatFormat | None = None

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[object, ...]:
        return by_name, (self.name,)

    @property
    def cpp_enum(self) -> str:
        """Its name in csrc/core/dtype.h: Float32, UInt8, BFloat16."""
        start = 2 if self.name.startswith(("ui", "bf")) else 1
        return self.name[:start].upper() + self.name[start:]

    @property
    def bits(self) -> int:
        return 8 * self.itemsize

    @property
    def is_integer(self) -> bool:
        return self.kind is Kind.INTEGER

    @property
    def is_floating(self) -> bool:
        return self.kind is Kind.FLOATING

    @property
    def is_floating_point(self) -> bool:
        return self.kind is Kind.FLOATING

    @property
    def is_complex(self) -> bool:
        return self.kind is Kind.COMPLEX

    @property
    def is_differentiable(self) -> bool:
        return self.kind is Kind.FLOATING or self.kind is Kind.COMPLEX

    @property
    def is_reduced(self) -> bool:
        """Whether values are only stored in this dtype, and computed with in a wider one."""
        return self.compute is not self

    @property
    def compute(self) -> DType:
        """The dtype formulas compute in: float32 for float16, bfloat16 and float8, complex64 for complex32, else the dtype itself."""
        if self.is_floating and self.itemsize < 4:
            return float32
        return complex64 if self is complex32 else self

    @property
    def is_float8(self) -> bool:
        return self.is_floating and self.itemsize == 1

    @property
    def smallest_integer(self) -> int:
        return -(1 << (self.bits - 1)) if self.is_signed else 0

    @property
    def largest_integer(self) -> int:
        return (1 << (self.bits - 1 if self.is_signed else self.bits)) - 1

    def wrap(self, value: int) -> int:
        """The integer modulo 2**bits, in this dtype's range."""
        low = value & ((1 << self.bits) - 1)
        return low - (1 << self.bits) if self.is_signed and low >> (self.bits - 1) else low

    def convert(self, value: Number) -> Number:
        """A result computed in Python, brought into this dtype as the arithmetic of the dtype would: ints wrap,
        floats round. The value must already be of the dtype's kind or a simpler one."""
        if self.kind is Kind.FLOATING:
            return self.round(float(value))  # type: ignore[arg-type]
        if self.kind is Kind.INTEGER:
            return self.wrap(int(value))  # type: ignore[arg-type]
        if self.kind is Kind.BOOLEAN:
            return bool(value)
        part = real_of(self)
        z = complex(value)
        return complex(part.round(z.real), part.round(z.imag))

    def round(self, value: float) -> float:
        """The nearest value of this floating dtype."""
        if self is float64:
            return value
        if self is float32:
            try:
                return _FLOAT32.unpack(_FLOAT32.pack(value))[0]
            except OverflowError:
                return math.copysign(math.inf, value)
        assert self.format is not None
        return self.format.round(value)


_FLOAT32 = struct.Struct("<f")


def _integer(name: str, code: str, itemsize: int, is_signed: bool) -> DType:
    return DType(name, code, Kind.INTEGER, itemsize, f"{name}_t", f"tl.{name}", is_signed)


bool_ = DType("bool", "b", Kind.BOOLEAN, 1, "bool", "tl.int1", is_signed=False)
uint8 = _integer("uint8", "u8", 1, False)
int8 = _integer("int8", "i8", 1, True)
int16 = _integer("int16", "i16", 2, True)
int32 = _integer("int32", "i32", 4, True)
int64 = _integer("int64", "i64", 8, True)
uint16 = _integer("uint16", "u16", 2, False)
uint32 = _integer("uint32", "u32", 4, False)
uint64 = _integer("uint64", "u64", 8, False)
float16 = DType("float16", "f16", Kind.FLOATING, 2, "Half", "tl.float16", format=FloatFormat(11, -14, 65504.0))
bfloat16 = DType(
    "bfloat16", "bf16", Kind.FLOATING, 2, "BFloat16", "tl.bfloat16", format=FloatFormat(8, -126, 255.0 * 2.0**120)
)
float32 = DType(
    "float32",
    "f32",
    Kind.FLOATING,
    4,
    "float",
    "tl.float32",
    format=FloatFormat(24, -126, (2.0**24 - 1) * 2.0**104),
)
float64 = DType(
    "float64",
    "f64",
    Kind.FLOATING,
    8,
    "double",
    "tl.float64",
    format=FloatFormat(53, -1022, (2.0**53 - 1) * 2.0**971),
)
complex64 = DType("complex64", "c64", Kind.COMPLEX, 8, "Complex<float>", "")
complex128 = DType("complex128", "c128", Kind.COMPLEX, 16, "Complex<double>", "")
float8_e4m3fn = DType(
    "float8_e4m3fn",
    "f8e4m3fn",
    Kind.FLOATING,
    1,
    "Float8_e4m3fn",
    "tl.float8e4nv",
    format=FloatFormat(4, -6, 448.0, has_infinity=False),
)
float8_e5m2 = DType(
    "float8_e5m2", "f8e5m2", Kind.FLOATING, 1, "Float8_e5m2", "tl.float8e5", format=FloatFormat(3, -14, 57344.0)
)
complex32 = DType("complex32", "c32", Kind.COMPLEX, 4, "Complex<Half>", "")
float8_e4m3fnuz = DType(
    "float8_e4m3fnuz",
    "f8e4m3fnuz",
    Kind.FLOATING,
    1,
    "Float8_e4m3fnuz",
    "tl.float8e4b8",
    format=FloatFormat(4, -7, 240.0, has_infinity=False, one_nan=True),
)
float8_e5m2fnuz = DType(
    "float8_e5m2fnuz",
    "f8e5m2fnuz",
    Kind.FLOATING,
    1,
    "Float8_e5m2fnuz",
    "tl.float8e5b16",
    format=FloatFormat(3, -15, 57344.0, has_infinity=False, one_nan=True),
)
float8_e8m0fnu = DType(
    "float8_e8m0fnu",
    "f8e8m0fnu",
    Kind.FLOATING,
    1,
    "Float8_e8m0fnu",
    "",
    is_signed=False,
    format=PowersOfTwo(1, -127, 2.0**127, has_infinity=False),
)

# In the order of csrc/core/dtype.h.
DTYPES: tuple[DType, ...] = (
    bool_, uint8, int8, int16, int32, int64, uint16, uint32, uint64, float16, bfloat16, float32, float64,
    complex64, complex128, float8_e4m3fn, float8_e5m2, complex32, float8_e4m3fnuz, float8_e5m2fnuz, float8_e8m0fnu,
)  # fmt: skip

_BY_NAME = {d.name: d for d in DTYPES}
_REAL_OF = {complex32: float16, complex64: float32, complex128: float64}
_COMPLEX_OF = {r: c for c, r in _REAL_OF.items()} | {bfloat16: complex64} | {c: c for c in _REAL_OF}


def by_name(name: str) -> DType:
    return _BY_NAME[name]


def real_of(dtype: DType) -> DType:
    """complex64 -> float32 and so on; any other dtype is its own."""
    return _REAL_OF.get(dtype, dtype)


def complex_of(dtype: DType) -> DType:
    """float32 -> complex64 and so on, bfloat16 -> complex64; a complex dtype is its own."""
    if dtype not in _COMPLEX_OF:
        raise RuntimeError(f"Unknown Complex ScalarType for {dtype}")
    return _COMPLEX_OF[dtype]


def is_lossless(source: DType, target: DType) -> bool:
    """Whether every value of `source` is a value of `target`."""
    if source is target:
        return True
    if target is float8_e8m0fnu:
        return False
    if source.kind is Kind.BOOLEAN:
        return True
    if target.kind is Kind.BOOLEAN or (source.is_complex and not target.is_complex):
        return False
    source, target = real_of(source), real_of(target)
    if source.is_integer and target.is_integer:
        return source.smallest_integer >= target.smallest_integer and source.largest_integer <= target.largest_integer
    if target.format is None:
        return False
    if source.format is None:
        # Exponents too: uint16's 65535 has only 16 bits but is beyond float16.
        bits = source.bits - source.is_signed
        return bits <= target.format.precision and source.largest_integer <= target.format.largest
    return (
        source.format.precision <= target.format.precision
        and source.format.min_exponent - source.format.precision >= target.format.min_exponent - target.format.precision
        and source.format.largest <= target.format.largest
        and (target.format.has_infinity or not source.format.has_infinity)
    )
