"""The older names of mixed precision on the CPU."""

from tocha import _C
from tocha.amp._of_device import autocast_of, grad_scaler_of

__all__ = ["GradScaler", "autocast"]

autocast = autocast_of("cpu", _C.bfloat16)
GradScaler = grad_scaler_of("cpu")
