"""The dtypes of quantized tensors, which this build does not have: they can be named, compared and printed, as packages do in
their tables of dtypes. Where a dtype is asked for they are refused. `tocha.NAME` makes them when somebody asks.
"""

from __future__ import annotations

from typing import Any

from tocha import _C
from tocha._core.library_name import spoken


class QuantizedDtype:
    """A name among dtypes."""

    is_floating_point = is_complex = False

    def __init__(self, name: str, itemsize: int, is_signed: bool):
        self._name, self.itemsize, self.is_signed = name, itemsize, is_signed

    @property  # type: ignore[misc]
    def __class__(self) -> Any:  # `isinstance(x, dtype)` says what it is
        return _C.dtype

    def __repr__(self) -> str:
        return f"{spoken()}.{self._name}"

    def __reduce__(self) -> str:
        return self._name

    @property
    def __module__(self) -> str:  # type: ignore[override]
        return spoken()


DTYPES = {
    d._name: d
    for d in (
        QuantizedDtype("qint8", 1, True),
        QuantizedDtype("qint32", 4, True),
        QuantizedDtype("quint8", 1, False),
        QuantizedDtype("quint4x2", 1, False),
        QuantizedDtype("quint2x4", 1, False),
    )
}
