"""What programs mark functions and blocks with, for capture to see."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import tocha
from tocha._core.on_demand import Later
from tocha._dynamo import config, convert, frame, leaves, polyfills
from tocha._dynamo.dynamic import mark_dynamic as mark_dynamic
from tocha._dynamo.dynamic import mark_static as mark_static
from tocha._dynamo.dynamic import mark_unbacked as mark_unbacked
from tocha._dynamo.dynamic import maybe_mark_dynamic as maybe_mark_dynamic
from tocha._dynamo.native_calls import known
from tocha._dynamo.refusals import SkipFrame, Unsupported
from tocha._dynamo.source import Source
from tocha._dynamo.stance import run as run
from tocha._dynamo.stance import set_stance as set_stance
from tocha._dynamo.values.base import Value
from tocha._dynamo.values.constant import Constant

if TYPE_CHECKING:
    from tocha._dynamo.frame import Frame

nonstrict = Later("tocha._dynamo.nonstrict")


def _set_error_on_graph_break(value: bool) -> bool:
    """Returns what it was."""
    before = config.error_on_graph_break
    config.error_on_graph_break = value
    return before


_SETTING = Source("object", config, None, "config").attribute("error_on_graph_break")


@known(_set_error_on_graph_break)
def _set(f: Frame, value: Value) -> Value:
    before, f.out.error_on_break = f.out.error_on_break, value.constant()
    if not f.out.fullgraph:
        f.out.guards.add(_SETTING, "constant", f.out.error_on_break_then)
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

    nonstrict.stand_in_graphs(traceable_fn, wrapped)
    return wrapped


_NONSTRICT: dict[int, Any] = {}  # a function's id -> what captured code has marked it as


@known(nonstrict_trace)
def _nonstrict_trace(f: Frame, traceable_fn: Value) -> Value:
    """Marked where it is called. A function that captured code made has no identity to stand in a graph."""
    real = traceable_fn.constant()
    if id(real) not in _NONSTRICT:
        _NONSTRICT[id(real)] = nonstrict_trace(real)  # keeps the function
    return f.wrap_known(_NONSTRICT[id(real)])


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


def assume_constant_result(fn: Callable) -> Callable:
    """Calls of the function are made while capturing; their results are constants.

    >>> @tocha.compiler.assume_constant_result
    ... def size():
    ...     return 3
    >>> tocha.compile(lambda x: x * size(), backend="eager")(tocha.tensor([2.0]))
    tensor([6.])
    """
    fn._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return fn


def substitute_in_graph(original_fn: Any, *, can_constant_fold_through: bool = False, skip_signature_check: bool = False, is_embedded_type: bool = False) -> Any:  # fmt: skip
    """Registers Python that captured code goes through instead of a native function."""
    if not callable(original_fn):
        raise TypeError(f"substitute_in_graph expects a function but got {type(original_fn)!r}")

    def register(function: Callable) -> Callable:
        if not inspect.isfunction(function):
            raise TypeError(f"@substitute_in_graph(...) expects a function but got {type(function)!r}")
        if not skip_signature_check:
            _check_signatures(original_fn, function)
        if hasattr(original_fn, "__code__"):
            polyfills.SUBSTITUTES[id(original_fn)] = (original_fn, function)
        else:
            polyfills.TABLE[original_fn] = function
        return function

    return register


def _check_signatures(original: Any, function: Callable) -> None:
    try:
        wanted = inspect.signature(original)
    except ValueError:
        return  # a native function that says nothing of its arguments
    given = inspect.signature(function)
    plain = [[(max(p.kind, p.POSITIONAL_OR_KEYWORD), p.name) for p in s.parameters.values()] for s in (wanted, given)]
    if plain[0] != plain[1]:
        raise TypeError(f"Signature mismatch between {original} and {function}: {wanted} != {given}")


def allow_c_slot(tp: type, *, tp_hash: bool = True, tp_richcompare: bool = True) -> type:
    """Objects of a native class may be hashed and compared while capturing: nothing but their value decides."""
    if not isinstance(tp, type):
        raise TypeError(f"allow_c_slot expects a type, got {type(tp)}")
    leaves.PURE_CLASSES.add(tp)
    return tp


def mark_static_address(t: Any, guard: bool = False) -> None:
    """The tensor's memory stays where it is; with guard, moving it captures the function again."""
    if not isinstance(t, tocha.Tensor):
        raise TypeError(f"mark_static_address expects a tensor but received {type(t).__name__}")
    t._dynamo_static_input_type = "guarded" if guard else "unguarded"  # type: ignore[attr-defined]


def is_dynamo_disable_recursive(method: Any) -> bool | None:
    """True: neither the function nor what it calls is captured; False: it itself is not; None: it may be."""
    return getattr(method, "_torchdynamo_disable_recursive", None)


class override_cudagraphs:
    """Whether graphs within the block, or in calls of the function, are recorded for replay on the device."""

    def __init__(self, fwd: bool | None = None, bwd: bool | None = None) -> None:
        self.fwd, self.bwd = fwd, bwd

    def __enter__(self) -> None: ...

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None: ...

    def __call__(self, function: Callable) -> Callable:
        return function


def override_optimization_hint(x: Any, val: int) -> None:
    """The value that a number of which nothing is known probably has: for choices between ways to compute the same."""
    if isinstance(val, bool) or not isinstance(val, int):
        raise TypeError(f"override_optimization_hint expects an int, got {type(val).__name__}")


@known(override_optimization_hint)
def _override_hint(f: Frame, x: Value, val: Value) -> Value:
    return Constant(None)


def set_recursion_limit(limit: int) -> None:
    """How deeply calls may be nested in captured code; -1: as deeply as by default."""
    if limit != -1 and limit < 1:
        raise ValueError("recursion limit must be >= 1, or -1 to reset")
    frame.MAX_DEPTH = frame.DEFAULT_DEPTH if limit == -1 else limit


def get_recursion_limit() -> int:
    return -1 if frame.MAX_DEPTH == frame.DEFAULT_DEPTH else frame.MAX_DEPTH


def register_hook_for_recompile_user_context(hook: Callable[[], str]) -> None:
    """What the hook says (256 characters of it) stands beside the reason for which a function is captured again."""
    convert.CONTEXTS.append(hook)


def reset_recompile_user_contexts() -> None:
    convert.CONTEXTS.clear()


def replay(filename: str) -> None:
    """Runs a recorded capture again."""
    raise NotImplementedError("[replay] captures are not recorded: config.replay_record_enabled has no effect")


OF_FRAMES = ("allow_in_graph", "disable", "disallow_in_graph", "graph_break")  # which PyTorch has here


def __getattr__(name: str) -> Any:
    if name in OF_FRAMES:
        return getattr(importlib.import_module("tocha._dynamo.eval_frame"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
