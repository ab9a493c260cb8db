"""Switches of cuDNN, which this build does not have: they can be set and read, and change nothing on the CPU."""

from __future__ import annotations

import contextlib
from typing import Any

from tocha import _C
from tocha.backends._flags import Precision, exchange, held, make_flags

CUDNN_TENSOR_DTYPES = {_C.float16, _C.float32, _C.float64}
enabled = True
benchmark = False
benchmark_limit: int | None = None
deterministic = False
allow_tf32 = True
fp32_precision = "none"
conv = Precision("cudnn.conv", "tf32")
rnn = Precision("cudnn.rnn", "tf32")


def is_available() -> bool:
    """Whether cuDNN is there.

    >>> is_available(), version()
    (False, None)
    """
    return False


def version() -> int | None:
    """cuDNN's version."""
    return None


def is_acceptable(tensor: _C.Tensor) -> bool:
    """Whether cuDNN would work on this tensor."""
    return False


def _values(
    enabled: bool | None,
    benchmark: bool | None,
    benchmark_limit: int | None,
    deterministic: bool | None,
    allow_tf32: bool | None,
    fp32_precision: str,
) -> dict[str, Any]:
    return {
        "enabled": enabled,
        "benchmark": benchmark,
        "benchmark_limit": benchmark_limit,
        "deterministic": deterministic,
        "allow_tf32": allow_tf32,
        "fp32_precision": fp32_precision,
    }


def set_flags(
    _enabled: bool | None = None,
    _benchmark: bool | None = None,
    _benchmark_limit: int | None = None,
    _deterministic: bool | None = None,
    _allow_tf32: bool | None = None,
    _fp32_precision: str = "none",
) -> tuple:
    """Sets those that are not None; returns what they were."""
    values = _values(_enabled, _benchmark, _benchmark_limit, _deterministic, _allow_tf32, _fp32_precision)
    return exchange(__name__, values)


def flags(
    enabled: bool = False,
    benchmark: bool = False,
    benchmark_limit: int = 10,
    deterministic: bool = False,
    allow_tf32: bool = True,
    fp32_precision: str = "none",
) -> contextlib.AbstractContextManager[None]:
    """Holds these values for a context.

    >>> from tocha.backends import cudnn
    >>> with cudnn.flags(enabled=True, benchmark=True):
    ...     cudnn.benchmark
    True
    """
    values = _values(enabled, benchmark, benchmark_limit, deterministic, allow_tf32, fp32_precision)
    return held(__name__, values)


make_flags(__name__, enabled=bool, benchmark=bool, deterministic=bool, allow_tf32=bool, fp32_precision=str)
