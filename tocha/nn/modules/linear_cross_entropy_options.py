"""The options of LinearCrossEntropyLoss: how a chunked computation would proceed."""

from __future__ import annotations

import dataclasses
import re

from tocha import _C

__all__ = ["LinearCrossEntropyOptions"]

_ACCUMULATION_POLICIES = ("accurate", "balanced", "compact", "auto")
_ACCUMULATION_DTYPES = (None, _C.float16, _C.bfloat16, _C.float32, _C.float64)


@dataclasses.dataclass(frozen=True)
class LinearCrossEntropyOptions:
    """How the rows of a linear cross entropy may be taken in pieces; changes no value.

    >>> LinearCrossEntropyOptions().chunking_method
    'auto'
    """

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: _C.dtype | None = None

    def __post_init__(self) -> None:
        size = self.batch_chunk_size
        if size is not None and not (isinstance(size, int) and size > 0):
            raise ValueError(f"batch_chunk_size must be positive int or None, got {size}")
        method = self.chunking_method
        if method is not None and not re.fullmatch(r"auto|aspect_ratio(:0*[1-9]\d*)?", method):
            raise ValueError(f"invalid chunking_method: {method!r}")
        if self.acc_policy not in _ACCUMULATION_POLICIES:
            raise ValueError(f"invalid acc_policy: {self.acc_policy!r}")
        if self.acc_dtype not in _ACCUMULATION_DTYPES:
            choices = ", ".join(str(d) for d in _ACCUMULATION_DTYPES)
            raise ValueError(
                f"acc_dtype must be one of {{{choices}}}, got {self.acc_dtype}. Pass acc_dtype=None to let the op pick automatically."
            )
