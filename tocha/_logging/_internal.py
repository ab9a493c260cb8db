"""PyTorch's name for the place of what the package offers."""

from tocha._logging import (
    DEFAULT_LOGGING,
    LazyString,
    getArtifactLogger,
    help_message,
    set_logs,
    warning_once,
)

__all__ = ["DEFAULT_LOGGING", "LazyString", "getArtifactLogger", "help_message", "set_logs", "warning_once"]
