"""Mixed precision: autocast regions, and the hooks for functions of one's own."""

from tocha.amp.autocast_mode import autocast, custom_bwd, custom_fwd, is_autocast_available

__all__ = ["autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]
