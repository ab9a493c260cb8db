"""The older names of mixed precision on CUDA; without a device they warn and change nothing."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tocha import _C, amp
from tocha.amp._of_device import autocast_of, grad_scaler_of

__all__ = ["GradScaler", "amp_definitely_not_available", "autocast", "custom_bwd", "custom_fwd"]

autocast = autocast_of("cuda", _C.float16)
GradScaler = grad_scaler_of("cuda")
custom_fwd: Callable[..., Any] = functools.partial(amp.custom_fwd, device_type="cuda")
custom_bwd: Callable[..., Any] = functools.partial(amp.custom_bwd, device_type="cuda")


def amp_definitely_not_available() -> bool:
    """Whether there is no mixed precision on CUDA."""
    from tocha import cuda

    return not cuda.is_available()
