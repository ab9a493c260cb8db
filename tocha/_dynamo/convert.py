"""The callback of the frame hook: decides whether a frame is captured, captures it, and answers with guards and code."""

from __future__ import annotations

import importlib
import logging
import os
import sys
import threading
import types
import warnings
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import tocha
from tocha import _C
from tocha._core.library_name import is_ours, ours
from tocha._dynamo import callbacks, config, dynamic, modes, overrides, stance
from tocha._dynamo.exc import (
    BackendCompilerFailed,
    FailOnRecompileLimitHit,
    InductorError,
    InternalTorchDynamoError,
    RecompileError,
)
from tocha._dynamo.output import Output
from tocha._dynamo.refusals import Changes, Escapes, Forbidden, SkipFrame, Unsupported
from tocha._dynamo.root import RootFrame
from tocha._dynamo.source import forget_identities
from tocha._logging import events
from tocha._subclasses.errors import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
)
from tocha.autograd import forward_ad
from tocha.fx import _symbolic_trace
from tocha.ir.shape_env import ConstraintViolationError
from tocha.nn import _Module as Module

_LIBRARY = os.path.dirname(tocha.__file__) + os.sep
_STANDARD = os.path.dirname(threading.__file__) + os.sep
_LOCK = threading.RLock()
LOG = logging.getLogger("tocha._dynamo")
_NUMPY = os.sep + os.path.join("site-packages", "numpy") + os.sep
_NO_PROGRAMS = ("tocha", "numpy", *(n for n in sys.stdlib_module_names if n != "__main__"))
_OWN = ("tocha._dynamo", "tocha.ir", "tocha.fx", "tocha._subclasses")  # whose exceptions no program handles


NOT_KNOWN = (
    DataDependentOutputException, DynamicOutputShapeException, UnsupportedFakeTensorException, UnsupportedOperatorException,
)  # fmt: skip
CODES: dict[int, types.CodeType] = {}  # everything that was captured: for reset()
FORCED: dict[int, types.CodeType] = {}  # the library's own code that is captured all the same
# Given to compile: captured wherever their tensors come from.
COMPILED: weakref.WeakSet[types.CodeType] = weakref.WeakSet()
_SEEN: dict[int, types.CodeType] = {}  # those that ran once under eager_then_compile
_WARNED: dict[int, types.CodeType] = {}  # those whose limit was spoken of
CONTEXTS: list[Callable[[], str]] = []  # what programs add to the reasons for which functions are captured again


def is_user_code(code: types.CodeType) -> bool:
    """Frames of the library and of the standard library run as they are; what they call is offered again."""
    if id(code) in FORCED:
        return True
    file = code.co_filename
    if file.startswith(_LIBRARY) or _NUMPY in file:
        return False
    return not (file.startswith(_STANDARD) and "site-packages" not in file) and not file.startswith("<frozen")


def is_made_by_library(code: types.CodeType, globals_: dict) -> bool:
    """Methods that dataclasses make have no file; they are their class's."""
    return code.co_filename == "<string>" and ours(str(globals_.get("__name__"))).split(".")[0] in _NO_PROGRAMS


class GuardFail(NamedTuple):
    """What `optimize(guard_fail_fn=f)` tells f: why a function is captured again."""

    reason: str
    orig_code: types.CodeType


class Capture:
    """One way of compiling: a backend and its options. The callback that the hook calls."""

    limit: int | None = None  # in place of config.recompile_limit
    guard_fail_fn: Callable[[GuardFail], object] | None = None

    def __init__(self, backend: Callable[..., Any], fullgraph: bool, dynamic: bool | None, keep: Any = None) -> None:
        self.backend, self.fullgraph, self.dynamic, self.keep = backend, fullgraph, dynamic, keep
        self.inside = 0

    def __call__(self, code: types.CodeType, function: Any, globals_: dict, args: tuple, closure: Any) -> Any:
        if not is_user_code(code) or is_made_by_library(code, globals_):
            return False
        if _C._levels() or overrides.outer_modes() or forward_ad._current_level >= 0:
            # graphs know nothing of transforms' levels, of others' modes, nor of tangents
            return None
        if _symbolic_trace.is_fx_tracing():
            if config.error_on_nested_fx_trace:
                raise RuntimeError(
                    "[capture] Detected that you are using FX to symbolically trace a dynamo-optimized function. This is not supported at the moment."
                )
            return None
        with _LOCK:
            return self.convert(code, globals_, args, closure)

    def convert(self, code: types.CodeType, globals_: dict, args: tuple, closure: Any) -> Any:
        if not worth(code, globals_, args, closure):
            return None
        entries = [e for e in _C._capture.code_entries(code) if e[0] is self and e[3] is globals_]
        if any(e[1].first_failure(args, globals_, closure) is None for e in entries):
            return True  # another thread was quicker
        before = [e for e in entries if e[2] is not None]
        if not self.may_capture(code, before):
            dynamic.see(code, args)
            return None
        if before and not self.may_recompile(code, before, args, globals_, closure):
            return None
        CODES[id(code)] = code
        try:
            with events.capturing(code), callbacks.told(code):
                guards, made = self.capture(code, globals_, args, closure)
        except Escapes as escapes:
            forget_trace(escapes)
            CODES[id(code)] = code
            return (escapes.guards, None) if len(entries) == len(before) else None
        except SkipFrame as skipped:
            if self.fullgraph:
                raise skipped.cause or Unsupported("opcode", str(skipped)) from None
            LOG.info("%s is not captured: %s\n%s", code.co_qualname, skipped, skipped.cause or "")
            forget_trace(skipped)
            return False
        except RecursionError:
            raise  # the hook runs the frame
        except Exception as error:
            if config.suppress_errors:
                LOG.warning("%s runs uncaptured: %s", code.co_qualname, error)
                return False
            if isinstance(error, (Unsupported, BackendCompilerFailed, ConstraintViolationError, Forbidden, InternalTorchDynamoError)):  # fmt: skip
                raise
            raise InternalTorchDynamoError(
                f"[capture] the tracer failed in {code.co_qualname}: {type(error).__name__}: {error}"
            ) from error
        return guards, made

    def may_capture(self, code: types.CodeType, before: list) -> bool:
        """What tocha.compiler.set_stance says of a function that has to be captured, or captured again."""
        how = stance.current().stance
        if how == "fail_on_recompile":
            raise RuntimeError(
                f"Detected recompile when torch.compile stance is 'fail_on_recompile'. {code.co_qualname} ({code.co_filename}:{code.co_firstlineno})"
            )
        if how in ("eager_then_compile", "aot_eager_then_compile") and not before and id(code) not in _SEEN:
            _SEEN[id(code)] = code
            return False
        return how != "eager_on_recompile"

    def may_recompile(self, code: Any, before: list, args: tuple, globals_: dict, closure: Any) -> bool:
        reason = before[0][1].first_failure(args, globals_, closure) if before[0][1] else None
        events.recompiled(code, reason, lambda: failures(before, args, globals_, closure))
        if self.guard_fail_fn is not None:
            self.guard_fail_fn(GuardFail(str(reason), code))
        if config.error_on_recompile:
            raise RecompileError(
                f"[capture] Recompiling function {code.co_name} in {code.co_filename}:{code.co_firstlineno}: {reason}"
            )
        said = "".join(f" [{hook()[:256]}]" for hook in CONTEXTS)
        LOG.info("%s is captured again: %s%s", code.co_qualname, reason, said)
        total = len(_C._capture.code_entries(code))
        allowed = self.limit if self.limit is not None else config.recompile_limit
        if len(before) < allowed and total < config.accumulated_recompile_limit:
            return True
        limit, most = "recompile_limit", allowed
        if len(before) < allowed:
            limit, most = "accumulated_recompile_limit", config.accumulated_recompile_limit
        failed = failures(before, args, globals_, closure)
        kept = max(failed, key=failed.count, default=reason)
        text = (
            f"[capture] {code.co_qualname} ({code.co_filename}:{code.co_firstlineno}) hit config.{limit} ({most}): it was captured "
            f"{len(before)} times and runs uncaptured from now on. Last reason: {reason}; the guard that failed most: {kept}. {_remedy(str(kept))}"
        )
        if config.fail_on_recompile_limit_hit or self.fullgraph:
            why = "fail_on_recompile_limit_hit" if config.fail_on_recompile_limit_hit else "fullgraph=True"
            raise FailOnRecompileLimitHit(f"{text} Hard failure due to {why}.")
        if id(code) not in _WARNED:
            _WARNED[id(code)] = code
            warnings.warn(text, stacklevel=2)
        return False

    def capture(self, code: types.CodeType, globals_: dict, args: tuple, closure: Any) -> tuple[Any, types.CodeType]:
        break_at, refused = None, None
        forget_identities()
        while True:
            count = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)
            out = Output(code, globals_, code.co_varnames[:count], self.dynamic, self.fullgraph)
            root = RootFrame(out, code, globals_, args, closure)
            root.break_at, root.refused = break_at, refused
            try:
                with modes.Preserved() as before:
                    made = root.capture(before.during(self.compile_graph), before.switched)
                out.promises.check(out.env)
                out.guard_sharing()
                out.forget_inputs()
                events.tell(events.FrameMade(code, out, made))
                return out.guards.build(self.keep), made
            except RecursionError:
                raise SkipFrame("calls are nested too deeply") from None
            except Changes as first:
                first.happens()
            except (Escapes, SkipFrame) as stopped:
                if isinstance(stopped, SkipFrame) and (refused is None or refused.refusal.name != "exception"):
                    raise
                raise Escapes(out.guards.build(self.keep)) from stopped
            except Unsupported as unsupported:
                if out.whole or out.error_on_break:
                    raise
                if break_at is not None:
                    raise SkipFrame("the state at a graph break cannot be made again", unsupported) from unsupported
                break_at = root.count - 1 if unsupported.at is None else unsupported.at
                refused = unsupported
                LOG.info("graph break in %s: %s", code.co_qualname, unsupported)
                events.tell(events.GraphBroke(code, unsupported, out.calls))
                forget_trace(unsupported)
            finally:
                root.release()

    def compile_graph(self, module: Any, examples: list[Any]) -> Callable[..., Any]:
        events.tell(events.GraphCaptured(module, examples))
        try:
            with events.stage("backend"):
                compiled = watched(stance.current().backend or self.backend)(module, examples)
        except Exception as error:
            if isinstance(error, NOT_KNOWN) and not self.fullgraph:  # the program itself can be run, uncaptured
                LOG.warning("Backend compiler exception: %s. Adding a graph break.", error)
                raise SkipFrame("the backend does not know what comes out of an operator", Unsupported("facts", str(error))) from error  # fmt: skip
            raise failure_of(self.backend)(self.backend, error) from error
        if not callable(compiled):
            raise BackendCompilerFailed(
                self.backend, TypeError(f"a backend returns a callable, got {type(compiled).__name__}")
            )
        return compiled


def failure_of(backend: Any) -> type[BackendCompilerFailed]:
    """What is raised where the backend fails: by the options that it is given with, a partial."""
    return (
        InductorError
        if getattr(getattr(backend, "func", backend), "__name__", "") == "inductor"
        else BackendCompilerFailed
    )


def watched(backend: Callable[..., Any]) -> Callable[..., Any]:
    """With config.repro_after, a backend that leaves a script where it fails."""
    if config.repro_after is None:
        return backend
    return importlib.import_module("tocha._dynamo.repro").watched(backend)


def failures(before: list, args: tuple, globals_: dict, closure: Any) -> list[str]:
    """Of each earlier capture, the guard that fails."""
    return [e[1].first_failure(args, globals_, closure) for e in before if e[1]]


def forget_trace(error: BaseException | None) -> None:
    """A traceback holds all frames of the stack, and they hold the program's objects. Exceptions of the program itself,
    which it may be handling just now, are not touched."""
    while ours(type(error).__module__).startswith(_OWN):
        assert error is not None
        error.__traceback__ = None
        behind = error.__cause__ or error.__context__
        error.__context__ = None
        error = behind


def _remedy(guard: str) -> str:
    """What helps against a guard that keeps failing."""
    if guard.startswith("tensor(") or ".size()[" in guard:
        return "If sizes change, compile with dynamic=True or use tocha._dynamo.mark_dynamic."
    if " == " in guard:
        return "If a number of a module changes, config.allow_unspec_int_on_nn_module makes it a symbol; globals and defaults are constants: pass it as an argument."
    return "Keep the object the same from call to call, or raise the limit."


def forget() -> None:
    """Nothing was captured, nobody was warned."""
    for code in CODES.values():
        _C._capture.forget_code(code)
    CODES.clear()
    _SEEN.clear()
    _WARNED.clear()


def worth(code: types.CodeType, globals_: dict, args: tuple, closure: Any) -> bool:
    """Does the frame have anything to do with tensors?"""
    seen: set[int] = set()
    if id(code) in FORCED or code in COMPILED or any(_has_tensors(a, seen, 3) for a in args):
        return True
    for cell in closure or ():
        try:
            if _has_tensors(cell.cell_contents, seen, 2):
                return True
        except ValueError:
            continue
    return any(_has_tensors(globals_.get(n), seen, 1) for n in code.co_names)


def _is_library(value: Any) -> bool:
    return isinstance(value, types.ModuleType) and is_ours(value.__name__)


def _of_library(value: Any) -> bool:
    """An optimizer, a distribution: objects of the library that hold tensors somewhere."""
    return ours(type(value).__module__).startswith("tocha.") and not isinstance(value, type)


def _has_tensors(value: Any, seen: set[int], depth: int) -> bool:
    if isinstance(value, (tocha.Tensor, Module)) or _is_library(value) or _of_library(value):
        return True
    if type(value).__module__ == "numpy" and type(value).__name__ == "ndarray":
        return True
    if depth == 0 or id(value) in seen or isinstance(value, (int, str, float, type(None), type)):
        return False
    seen.add(id(value))
    if isinstance(value, dict):
        return any(_has_tensors(v, seen, depth - 1) for v in value.values())
    if isinstance(value, (list, tuple, set, frozenset)):
        return any(_has_tensors(v, seen, depth - 1) for v in value)
    if isinstance(value, types.MethodType):
        return _has_tensors(value.__self__, seen, depth)
    state = getattr(value, "__dict__", None)
    return isinstance(state, dict) and any(_has_tensors(v, seen, depth - 1) for v in state.values())
