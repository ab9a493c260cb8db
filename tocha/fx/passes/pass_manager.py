"""The older, simpler manager of passes: functions of anything, one after the other."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any

from tocha.fx.passes.infra.pass_manager import _validate_pass_schedule_constraint, this_before_that_pass_constraint

__all__ = [
    "PassManager", "inplace_wrapper", "log_hook", "loop_pass", "these_before_those_pass_constraint",
    "this_before_that_pass_constraint",
]  # fmt: skip

logger = logging.getLogger(__name__)


def inplace_wrapper(fn: Callable) -> Callable:
    """A function that changes its argument, as one that returns it."""

    @functools.wraps(fn)
    def wrapped(gm: Any, *args: Any, **kwargs: Any) -> Any:
        fn(gm, *args, **kwargs)
        return gm

    return wrapped


def log_hook(fn: Callable, level: int = logging.INFO) -> Callable:
    """Logs what a function returns."""

    @functools.wraps(fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        result = fn(*args, **kwargs)
        logger.log(level, "Ran pass %s\t Return value: %s", fn, result)
        return result

    return wrapped


def loop_pass(base_pass: Callable, n_iter: int | None = None, predicate: Callable | None = None) -> Callable:
    """A pass run n_iter times, or as long as predicate(result) says.

    >>> loop_pass(lambda x: x + 1, n_iter=3)(1)
    4
    """
    if (n_iter is None) == (predicate is None):
        raise AssertionError("Exactly one of `n_iter`or `predicate` must be specified.")

    @functools.wraps(base_pass)
    def wrapped(source: Any) -> Any:
        if n_iter is not None:
            for _ in range(n_iter):
                source = base_pass(source)
        elif predicate is not None:
            while predicate(source):
                source = base_pass(source)
        return source

    return wrapped


def these_before_those_pass_constraint(these: Callable, those: Callable) -> Callable[[Callable, Callable], bool]:
    """A constraint on factories of passes: those made by `these` come before those made by `those`."""

    def holds(a: Any, b: Any) -> bool:
        def made_by(p: Any, factory: Any) -> bool:
            return p is factory or getattr(p, "__name__", p) == getattr(factory, "__name__", factory)

        return not (made_by(a, those) and made_by(b, these))

    return holds


class PassManager:
    """Runs passes in turn after checking their order against the constraints."""

    def __init__(self, passes: list[Callable] | None = None, constraints: list[Callable] | None = None) -> None:
        self.passes = passes or []
        self.constraints = constraints or []
        self._validated = False

    @classmethod
    def build_from_passlist(cls, passes: list[Callable]) -> PassManager:
        return cls(passes)

    def add_pass(self, _pass: Callable) -> None:
        self.passes.append(_pass)
        self._validated = False

    def add_constraint(self, constraint: Callable) -> None:
        self.constraints.append(constraint)
        self._validated = False

    def remove_pass(self, _passes: list[str]) -> None:
        if _passes is not None:
            self.passes = [p for p in self.passes if p.__name__ not in _passes]
            self._validated = False

    def replace_pass(self, _target: Callable, _replacement: Callable) -> None:
        self.passes = [_replacement if p.__name__ == _target.__name__ else p for p in self.passes]
        self._validated = False

    def validate(self) -> None:
        if not self._validated:
            for constraint in self.constraints:
                _validate_pass_schedule_constraint(constraint, self.passes)
            self._validated = True

    def __call__(self, source: Any) -> Any:
        self.validate()
        for p in self.passes:
            source = p(source)
        return source
