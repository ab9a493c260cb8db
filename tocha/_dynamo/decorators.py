"""What programs mark functions and blocks with, for capture to see."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tocha._dynamo import config, convert, leaves
from tocha._dynamo.native_calls import known
from tocha._dynamo.refusals import SkipFrame, Unsupported
from tocha._dynamo.values.base import Value
from tocha._dynamo.values.constant import Constant

if TYPE_CHECKING:
    from tocha._dynamo.frame import Frame


def _set_error_on_graph_break(value: bool) -> bool:
    """Returns what it was."""
    before = config.error_on_graph_break
    config.error_on_graph_break = value
    return before


@known(_set_error_on_graph_break)
def _set(f: Frame, value: Value) -> Value:
    before, f.out.error_on_break = f.out.error_on_break, value.constant()
    return Constant(before)


class error_on_graph_break:
    """Within the block, or in calls of the function, a graph break is an error (True) or is none (False)."""

    def __init__(self, error_on_graph_break: bool) -> None:
        self.error_on_graph_break = error_on_graph_break
        self.before: Any = None

    def __enter__(self) -> None:
        self.before = _set_error_on_graph_break(self.error_on_graph_break)

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
        _set_error_on_graph_break(self.before)

    def __call__(self, function: Callable) -> Callable:
        flag = self.error_on_graph_break

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            with error_on_graph_break(flag):
                return function(*args, **kwargs)

        return dont_skip_tracing(call)


def skip_frame(msg: str = "") -> None:
    """The frame that calls it is not captured."""


@known(skip_frame)
def _skip_frame(f: Frame, msg: Value | None = None) -> Value:
    raise SkipFrame(f"skip_frame({msg.constant() if msg else ''})")


def step_unsupported(msg: str = "") -> None:
    """Capture ends here; what is left of the frame runs uncaptured."""


@known(step_unsupported)
def _step_unsupported(f: Frame, msg: Value | None = None) -> Value:
    raise Unsupported("graph_break", f"step_unsupported({msg.constant() if msg else ''})")


def nonstrict_trace(traceable_fn: Any) -> Any:
    """Calls of the function stand in graphs as they are; whoever traces the graph sees what it does."""
    if not callable(traceable_fn):
        raise RuntimeError("nonstrict_trace expects a callable")

    @functools.wraps(traceable_fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return traceable_fn(*args, **kwargs)

    leaves.allow(wrapped)
    return wrapped


def forbid_in_graph(fn: Any) -> Any:
    """A call of the function in captured code is an error."""
    if isinstance(fn, (list, tuple)):
        return [forbid_in_graph(f) for f in fn]
    assert callable(fn), "forbid_in_graph applies only to callables"
    leaves.forbid(fn)
    return fn


def dont_skip_tracing(fn: Any = None) -> Any:
    """The function is captured although it lies in the library or in the standard library."""
    if fn is None:
        return dont_skip_tracing
    code = getattr(fn, "__code__", None)
    if code is not None:
        convert.FORCED[id(code)] = code
    return fn


def disable_nested_graph_breaks(fn: Any = None) -> Any:
    """A function breaks the graph of whoever calls it, not its own: as all do here."""
    return fn if fn is not None else disable_nested_graph_breaks


def patch_dynamo_config(arg1: Any = None, arg2: Any = None, **kwargs: Any) -> Any:
    """config.patch, for use in captured code too."""
    return config.patch(dict(arg1) if isinstance(arg1, tuple) else arg1, arg2, **kwargs)  # type: ignore[attr-defined]
