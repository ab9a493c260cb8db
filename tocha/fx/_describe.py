"""Short descriptions of values for printed code: f32[2, 3][3, 1]cpu."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tocha

_LETTERS = {"uint": "u", "int": "i", "float": "f", "complex": "c", "bfloat": "bf"}


def _abbreviation(dtype: tocha.dtype) -> str:
    """f32 for float32, b8 for bool, f8e4m3fn for float8_e4m3fn."""
    name = str(dtype).rpartition(".")[2]
    kind = name.rstrip("0123456789") if "_" not in name else name.partition("8")[0]
    return "b8" if name == "bool" else _LETTERS[kind] + name[len(kind) :].replace("_", "")


dtype_abbrs = {d: _abbreviation(d) for d in vars(tocha).values() if isinstance(d, tocha.dtype)}

_CODES = {
    "yellow": 33, "cyan": 36, "green": 32, "blue": 34, "red": 31, "dim": 2,
}  # fmt: skip


def painter(colored: bool) -> Callable[[str, str], str]:
    """paint(text, "red"): in colour on terminals that know the codes, or the text itself."""

    def paint(text: str, color: str) -> str:
        return f"\033[{_CODES[color]}m{text}\033[0m"

    return paint if colored else lambda text, color: text


def _sizes(values: Sequence) -> str:
    return ", ".join(str(v) for v in values)


def describe_tensor(
    value: Any, include_stride: bool = False, include_device: bool = False, colored: bool = False
) -> str:
    """dtype and shape of a tensor, or of what ShapeProp knows about it; empty for other values.

    >>> import tocha
    >>> describe_tensor(tocha.zeros(2, 3), include_stride=True, include_device=True)
    'f32[2, 3][3, 1]cpu'
    """
    paint = painter(colored)
    is_tensor = isinstance(value, tocha.Tensor)
    if not is_tensor and not (hasattr(value, "shape") and hasattr(value, "dtype") and hasattr(value, "stride")):
        return ""
    text = paint(dtype_abbrs.get(value.dtype, str(value.dtype)), "red") + paint(f"[{_sizes(value.shape)}]", "blue")
    if not is_tensor:
        return text
    if include_stride and value.layout == tocha.strided:
        text += paint(f"[{_sizes(value.stride())}]", "blue")
    return text + (paint(str(value.device), "green") if include_device else "")
