"""Mixed precision."""

from tocha.amp.grad_scaler import GradScaler

__all__ = ["GradScaler"]
