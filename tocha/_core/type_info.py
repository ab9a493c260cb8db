"""finfo and iinfo: the limits of the numeric dtypes."""

from __future__ import annotations

import math

from tocha import _C

_FLOATS = {  # significant bits, least exponent, greatest exponent, decimal digits
    "float16": (11, -14, 15, 3),
    "bfloat16": (8, -126, 127, 2),
    "float32": (24, -126, 127, 6),
    "float64": (53, -1022, 1023, 15),
    "float8_e4m3fn": (4, -6, 8, 0),
    "float8_e5m2": (3, -14, 15, 0),
    "float8_e4m3fnuz": (4, -7, 7, 0),
    "float8_e5m2fnuz": (3, -15, 15, 0),
    "float8_e8m0fnu": (1, -127, 127, 0),
}


class _TypeInfo:
    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.dtype == other.dtype  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((type(self), self.dtype))  # type: ignore[attr-defined]


class finfo(_TypeInfo):
    """Limits of a floating dtype.

    >>> import tocha
    >>> tocha.finfo(tocha.float32).eps
    1.1920928955078125e-07
    """

    __module__ = "tocha"

    def __init__(self, type: _C.dtype | None = None) -> None:
        d = _C.get_default_dtype() if type is None else type
        if not isinstance(d, _C.dtype):
            raise TypeError(f"finfo(): argument 'type' must be tocha.dtype, not {d.__class__.__name__}")
        if not (d.is_floating_point or d.is_complex):
            raise TypeError(f"tocha.finfo() requires a floating point input type. Use tocha.iinfo to handle '{d}'")
        real = d.to_real() if d.is_complex else d
        name = str(real).rpartition(".")[2]
        bits, low, high, digits = _FLOATS[name]
        self.dtype = name
        self.bits = real.itemsize * 8
        # PyTorch gives e5m2fnuz the step of e4m3fnuz.
        self.eps = 0.125 if name == "float8_e5m2fnuz" else 2.0 ** (1 - bits)
        # e4m3fn spends its top code on NaN, not on infinities.
        self.max = 448.0 if name == "float8_e4m3fn" else math.ldexp(2.0 - 2.0 ** (1 - bits), high)
        self.tiny = self.smallest_normal = 2.0**low
        self.min = -self.max if real.is_signed else self.tiny
        self.resolution = 10.0**-digits

    def __repr__(self) -> str:
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, eps={self.eps:g}, "
            f"smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, dtype={self.dtype})"
        )


class iinfo(_TypeInfo):
    """Limits of an integer dtype.

    >>> import tocha
    >>> tocha.iinfo(tocha.int8).max
    127
    """

    __module__ = "tocha"

    def __init__(self, type: _C.dtype) -> None:
        if not isinstance(type, _C.dtype):
            raise TypeError(f"iinfo(): argument 'type' must be tocha.dtype, not {type.__class__.__name__}")
        if type.is_floating_point or type.is_complex:
            raise TypeError(f"tocha.iinfo() requires an integer input type. Use tocha.finfo to handle '{type}'")
        if type is _C.bool:
            raise TypeError("tocha.bool is not supported by tocha.iinfo")
        self.dtype = str(type).rpartition(".")[2]
        self.bits = type.itemsize * 8
        self.min = -(2 ** (self.bits - 1)) if type.is_signed else 0
        self.max = 2 ** (self.bits - 1) - 1 if type.is_signed else 2**self.bits - 1

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"
