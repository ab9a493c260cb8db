"""The compiler's back end: graphs of recorded operators become loops, fused kernels, one native module."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

from tocha._inductor import config
from tocha._inductor.other_settings import OTHER_SETTINGS

__all__ = [
    "CompiledArtifact",
    "aot_compile",
    "check_options",
    "compile",
    "list_mode_options",
    "list_options",
    "standalone_compile",
]

_MODES: dict[str, dict[str, Any]] = {
    "default": {},
    "lite": {},
    "reduce-overhead": {"triton.cudagraphs": True},
    "max-autotune-no-cudagraphs": {"max_autotune": True, "coordinate_descent_tuning": True},
    "max-autotune": {"max_autotune": True, "triton.cudagraphs": True, "coordinate_descent_tuning": True},
}


def compile(gm: Any, example_inputs: Sequence[Any], options: dict[str, Any] | None = None) -> Callable[..., Any]:
    """A graph module compiled for these inputs."""
    back_end = importlib.import_module("tocha._inductor.compile_fx")  # loaded when it is first asked for
    if any(isinstance(x, list | tuple | dict) for x in example_inputs):
        return back_end.compile_nested(gm, example_inputs, options)
    return back_end.compile_fx(gm, list(example_inputs), options=options)


def standalone_compile(
    gm: Any,
    example_inputs: Sequence[Any],
    *,
    dynamic_shapes: str = "from_graph",
    options: dict[str, Any] | None = None,
    aot: bool = False,
    donate_graph_module: bool = False,
    fake_mode: Any = None,
) -> Any:
    """A graph compiled by itself: an artifact that is called, and saved for other processes.

    `dynamic_shapes` says whether sizes are those of the graph (symbols, where it was traced with them) or of the examples. All
    artifacts hold forward and backward, as PyTorch's do with `aot`; fake modes are made where they are needed.

    >>> import tocha
    >>> from tocha.fx.experimental.proxy_tensor import make_fx
    >>> artifact = standalone_compile(make_fx(lambda x: (x.cos() + 1,))(tocha.ones(2)), [tocha.ones(2)])
    >>> artifact(tocha.zeros(2))
    [tensor([2., 2.])]
    """
    module = importlib.import_module("tocha._inductor.standalone")
    return module.standalone_compile(
        gm, example_inputs, dynamic_shapes=dynamic_shapes, options=options, donate_graph_module=donate_graph_module
    )


def __getattr__(name: str) -> Any:
    if name == "CompiledArtifact":
        return importlib.import_module("tocha._inductor.standalone").CompiledArtifact
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def aot_compile(gm: Any, args: Any, kwargs: Any = None, *, options: dict[str, Any] | None = None) -> Any:
    """A library that runs without Python; there is none yet."""
    raise NotImplementedError("[aot_compile] programs that run without Python are not here yet; use tocha.compile")


def list_mode_options(mode: str | None = None, dynamic: bool | None = None) -> dict[str, Any]:
    """The settings that each mode makes, or those of one.

    >>> list_mode_options("reduce-overhead")
    {'triton.cudagraphs': True}
    """
    if mode is not None and mode not in _MODES:
        raise RuntimeError(f"[compile] Unrecognized mode={mode}, should be one of: {', '.join(_MODES)}")
    return dict(_MODES[mode]) if mode is not None else {k: dict(v) for k, v in _MODES.items()}


def settings_of_mode(mode: str) -> dict[str, Any]:
    """Of the settings that a mode makes, those that do something here.

    >>> settings_of_mode("max-autotune-no-cudagraphs")
    {'max_autotune': True}
    """
    return {k: v for k, v in list_mode_options(mode).items() if k not in OTHER_SETTINGS}


def list_options() -> list[str]:
    """The names that `options` of compile may have."""
    return config.names()


def check_options(options: dict[str, Any]) -> None:
    """Raises RuntimeError for a name that is no option, or a value of another type.

    >>> check_options({"max_autotune": 3})
    Traceback (most recent call last):
    RuntimeError: [compile] Unexpected type of attr max_autotune, got int should be bool
    """
    for name, value in options.items():
        known = name.replace("-", "_")
        try:
            wanted = type(getattr(config, known))
        except AttributeError as unknown:
            raise RuntimeError(
                f"[compile] Unexpected optimization option {name}, known options are {list_options()}: {unknown}"
            ) from None
        if wanted is not type(None) and type(value) is not wanted:
            raise RuntimeError(
                f"[compile] Unexpected type of attr {name}, got {type(value).__name__} should be {wanted.__name__}"
            )
