"""What programs say to the compiler."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tocha import _C
from tocha._dynamo import backends as _backends
from tocha._dynamo import eval_frame as _eval_frame
from tocha._dynamo import polyfills as _polyfills
from tocha._dynamo.eval_frame import allow_in_graph, compile, disable, is_compiling, reset

__all__ = [
    "allow_in_graph",
    "assume_constant_result",
    "compile",
    "cudagraph_mark_step_begin",
    "disable",
    "is_compiling",
    "is_dynamo_compiling",
    "is_exporting",
    "list_backends",
    "reset",
    "set_stance",
    "substitute_in_graph",
]


is_dynamo_compiling = is_compiling


def is_exporting() -> bool:
    return False


def list_backends(exclude_tags: Any = ("debug", "experimental")) -> list[str]:
    return _backends.list_backends(exclude_tags)


def cudagraph_mark_step_begin() -> None:
    """A new step begins: memory of the last one may be used again."""


def assume_constant_result(fn: Callable) -> Callable:
    """Calls of the function are made while capturing; their results are constants."""
    fn._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return fn


def substitute_in_graph(original_fn: Any, *, can_constant_fold_through: bool = False, skip_signature_check: bool = False, **more: Any) -> Any:  # fmt: skip
    """Registers Python that captured code goes through instead of a native function."""

    def register(function: Callable) -> Callable:
        if hasattr(original_fn, "__code__"):
            _polyfills.SUBSTITUTES[id(original_fn)] = (original_fn, function)
        else:
            _polyfills.TABLE[original_fn] = function
        return function

    return register


class set_stance:
    """How compiled functions behave from now on, or within a block: "default", "force_eager", "eager_on_recompile",
    "fail_on_recompile"."""

    def __init__(
        self, stance: str = "default", *, skip_guard_eval_unsafe: bool = False, force_backend: Any = None
    ) -> None:
        known = ("default", "force_eager", "eager_on_recompile", "fail_on_recompile")
        if stance not in known:
            raise RuntimeError(f"invalid torch.compile stance '{stance}'")
        self.stance = stance
        self.before = _C._capture.set_bypass(stance == "force_eager")

    def __enter__(self) -> set_stance:
        return self

    def __exit__(self, *error: object) -> None:
        _C._capture.set_bypass(self.before)

    def __call__(self, function: Callable) -> Callable:
        stance = self.stance
        _C._capture.set_bypass(self.before)

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            with set_stance(stance):
                return function(*args, **kwargs)

        return call


_ = _eval_frame
