"""How compiled functions behave from now on: as always, uncaptured, or with nothing captured anew."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tocha import _C
from tocha._dynamo import leaves
from tocha._dynamo.backends.registry import lookup_backend

STANCES = ("default", "eager_then_compile", "aot_eager_then_compile", "force_eager", "eager_on_recompile", "fail_on_recompile")  # fmt: skip


@dataclass(frozen=True)
class Stance:
    """How compiled functions are called, for now."""

    stance: str = "default"
    skip_guard_eval_unsafe: bool = False
    backend: Any = None


_current = Stance()


def current() -> Stance:
    return _current


def _take(stance: Stance) -> Stance:
    global _current
    before, _current = _current, stance
    _C._capture.set_bypass(stance.stance == "force_eager")
    return before


class set_stance:
    """Holds at once; also as a context manager and a decorator.

    "default" captures as always; "force_eager" runs everything uncaptured; "eager_on_recompile" runs what was captured,
    and uncaptured what would have to be captured anew; "fail_on_recompile" raises there; "eager_then_compile" runs a
    function uncaptured the first time. `force_backend` is used in place of whatever functions were compiled with.

    >>> f = tocha.compile(lambda x: (x + 1, tocha.compiler.is_compiling()), backend="eager")
    >>> with tocha.compiler.set_stance("force_eager"):
    ...     f(tocha.tensor([1.0]))
    (tensor([2.]), False)
    """

    def __init__(
        self, stance: str = "default", *, skip_guard_eval_unsafe: bool = False, force_backend: Any = None
    ) -> None:
        if stance not in STANCES:
            raise RuntimeError(f"invalid torch.compile stance {Stance(stance)}")
        if force_backend is not None and stance != "default":
            raise RuntimeError("non-default stance cannot have force_backend set")
        backend = lookup_backend(force_backend) if force_backend is not None else None
        self.stance = Stance(stance, skip_guard_eval_unsafe, backend)
        self.before = _take(self.stance)

    def __enter__(self) -> None:
        _take(self.stance)

    def __exit__(self, *error: object) -> None:
        _take(self.before)

    def __call__(self, function: Callable) -> Callable:
        _take(self.before)

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            before = _take(self.stance)
            try:
                return function(*args, **kwargs)
            finally:
                _take(before)

        leaves.forbid(call)
        return call


leaves.forbid(set_stance)  # what is being captured is not captured otherwise from here on


def run(fn: Any = None) -> Any:
    """A function that runs what was captured of it, and is captured no more."""
    assert fn is None or callable(fn), f"[run] a callable is needed: got {fn!r}"
    if fn is None:
        return run

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        before = _take(Stance("eager_on_recompile"))
        try:
            return fn(*args, **kwargs)
        finally:
            _take(before)

    return call
