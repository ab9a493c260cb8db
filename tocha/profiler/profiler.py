"""PyTorch's home of the profiler's classes, which programs import from."""

from typing import Any

from tocha.profiler import *  # noqa: F403
from tocha.profiler import ProfilerAction, __all__


def _default_schedule_fn(_: int) -> Any:
    """Without a schedule every step is recorded."""
    return ProfilerAction.RECORD


__all__ = [*__all__]
