"""The compiler's back end: graphs of recorded operators become loops, fused kernels, one native module."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["compile", "list_mode_options", "list_options"]

_MODES: dict[str, dict[str, Any]] = {
    "default": {},
    "reduce-overhead": {"triton.cudagraphs": True},
    "max-autotune-no-cudagraphs": {"max_autotune": True, "coordinate_descent_tuning": True},
    "max-autotune": {"max_autotune": True, "triton.cudagraphs": True, "coordinate_descent_tuning": True},
}


def compile(gm: Any, example_inputs: Sequence[Any], options: dict[str, Any] | None = None) -> Callable[..., Any]:
    """A graph module compiled for these inputs."""
    from tocha._inductor.compile_fx import compile_fx  # the back end is loaded when it is first asked for

    return compile_fx(gm, list(example_inputs), options=options)


def list_mode_options(mode: str | None = None, dynamic: bool | None = None) -> dict[str, Any]:
    """The settings that each mode makes, or those of one.

    >>> list_mode_options("reduce-overhead")
    {'triton.cudagraphs': True}
    """
    if mode is not None and mode not in _MODES:
        raise KeyError(mode)
    return dict(_MODES[mode]) if mode is not None else {k: dict(v) for k, v in _MODES.items()}


def list_options() -> list[str]:
    """The names that `options` of compile may have."""
    from tocha._inductor import config

    return config.names()
