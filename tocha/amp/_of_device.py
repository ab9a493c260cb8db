"""The older names of mixed precision, one set per kind of device: tocha.cpu.amp and tocha.cuda.amp are made of them."""

from __future__ import annotations

import warnings
from typing import Any

from tocha import _C
from tocha.amp.autocast_mode import autocast
from tocha.amp.grad_scaler import GradScaler


def _warn(device: str, name: str) -> None:
    warnings.warn(
        f"`tocha.{device}.amp.{name}(args...)` is deprecated. Please use `tocha.amp.{name}('{device}', args...)` instead.",
        FutureWarning,
        stacklevel=3,
    )


def autocast_of(device: str, default: _C.dtype) -> type[autocast]:
    """autocast for one kind of device, without the argument that says which."""

    class AutocastOfDevice(autocast):
        def __init__(self, enabled: bool = True, dtype: _C.dtype = default, cache_enabled: bool = True) -> None:
            _warn(device, "autocast")
            super().__init__(device, dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)

    return _named(AutocastOfDevice, "autocast", device, f"The older name of tocha.amp.autocast('{device}', ...).")


def grad_scaler_of(device: str) -> type[GradScaler]:
    """GradScaler for one kind of device."""

    class GradScalerOfDevice(GradScaler):
        def __init__(
            self,
            init_scale: float = 2.0**16,
            growth_factor: float = 2.0,
            backoff_factor: float = 0.5,
            growth_interval: int = 2000,
            enabled: bool = True,
        ) -> None:
            _warn(device, "GradScaler")
            super().__init__(device, init_scale, growth_factor, backoff_factor, growth_interval, enabled)

    return _named(GradScalerOfDevice, "GradScaler", device, f"The older name of tocha.amp.GradScaler('{device}', ...).")


def _named(cls: Any, name: str, device: str, purpose: str) -> Any:
    cls.__name__ = cls.__qualname__ = name
    cls.__module__ = f"tocha.{device}.amp"
    cls.__doc__ = purpose
    return cls
