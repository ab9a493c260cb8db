"""The dtypes of quantized tensors, and of numbers of less than a byte, which this build does not have: they can be named, compared and printed, as packages do in
their tables of dtypes. Where a dtype is asked for they are refused. `tocha.NAME` makes them when somebody asks.
"""

from __future__ import annotations

from typing import Any

from tocha import _C
from tocha._core.library_name import spoken


class Name:
    """What there is only the name of, in the library's own namespace."""

    def __init__(self, name: str):
        self._name = name

    def __repr__(self) -> str:
        return f"{spoken()}.{self._name}"

    def __reduce__(self) -> str:
        return self._name

    @property
    def __module__(self) -> str:  # type: ignore[override]
        return spoken()

    def __init_subclass__(cls) -> None:
        cls.__module__ = Name.__dict__["__module__"]  # type: ignore[method-assign]  # every class statement sets its own, over the property


class QuantizedDtype(Name):
    """A name among dtypes."""

    is_complex = False

    def __init__(self, name: str, itemsize: int, is_signed: bool, is_floating_point: bool = False):
        super().__init__(name)
        self.itemsize, self.is_signed, self.is_floating_point = itemsize, is_signed, is_floating_point

    @property  # type: ignore[misc]
    def __class__(self) -> Any:  # `isinstance(x, dtype)` says what it is
        return _C.dtype


DTYPES = {
    d._name: d
    for d in (
        QuantizedDtype("qint8", 1, True),
        QuantizedDtype("qint32", 4, True),
        QuantizedDtype("quint8", 1, False),
        QuantizedDtype("quint4x2", 1, False),
        QuantizedDtype("quint2x4", 1, False),
        *(QuantizedDtype(f"int{bits}", 1, True) for bits in range(1, 8)),
        *(QuantizedDtype(f"uint{bits}", 1, False) for bits in range(1, 8)),
        *(QuantizedDtype(name, 1, False) for name in ("bits1x8", "bits2x4", "bits4x2", "bits8")),
        QuantizedDtype("bits16", 2, False),
        QuantizedDtype("float4_e2m1fn_x2", 1, True, is_floating_point=True),
    )
}


class qscheme(Name):
    """How quantized values stand for numbers: a name, too."""


SCHEMES = {
    name: qscheme(name)
    for name in (
        "per_tensor_affine", "per_channel_affine", "per_tensor_symmetric", "per_channel_symmetric", "per_channel_affine_float_qparams",
    )
}  # fmt: skip
NAMES = {**DTYPES, **SCHEMES, "qscheme": qscheme}
