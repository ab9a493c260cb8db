"""The older names of mixed precision on CUDA; without a device they warn and change nothing."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from tocha import _C, amp
from tocha.amp._of_device import autocast_of, grad_scaler_of

__all__ = ["GradScaler", "amp_definitely_not_available", "autocast", "custom_bwd", "custom_fwd"]

autocast = autocast_of("cuda", _C.float16)
GradScaler = grad_scaler_of("cuda")


def _warn(name: str) -> None:
    warnings.warn(
        f"`tocha.cuda.amp.{name}(args...)` is deprecated. "
        f"Please use `tocha.amp.{name}(args..., device_type='cuda')` instead.",
        FutureWarning,
        stacklevel=3,
    )


def custom_fwd(fwd: Callable | None = None, *, cast_inputs: _C.dtype | None = None) -> Any:
    """The older name of tocha.amp.custom_fwd(..., device_type='cuda')."""
    _warn("custom_fwd")
    return amp.custom_fwd(fwd, device_type="cuda", cast_inputs=cast_inputs)


def custom_bwd(bwd: Callable) -> Any:
    """The older name of tocha.amp.custom_bwd(..., device_type='cuda')."""
    _warn("custom_bwd")
    return amp.custom_bwd(bwd, device_type="cuda")


def amp_definitely_not_available() -> bool:
    """Whether there is no mixed precision on CUDA."""
    from tocha import cuda

    return not cuda.is_available()
