"""PassManager: runs passes in turn, in an order that meets constraints, with checks between."""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable
from typing import Any

from tocha.fx.graph_module import GraphModule
from tocha.fx.passes.infra.pass_base import PassResult
from tocha.nn import Module

__all__ = ["PassManager", "pass_result_wrapper", "this_before_that_pass_constraint"]

logger = logging.getLogger(__name__)


def pass_result_wrapper(fn: Callable) -> Callable[..., PassResult | None]:
    """A pass from a function that changes a module in place and may return it."""
    if fn is None:
        return None  # type: ignore[return-value]

    @functools.wraps(fn)
    def wrapped(gm: Any) -> PassResult:
        result = fn(gm)
        if isinstance(result, PassResult):
            return result
        return PassResult(gm if result is None else result, True)

    return wrapped


def _name_of(f: Callable) -> str:
    return getattr(f, "__name__", type(f).__name__)


def _validate_pass_schedule_constraint(
    constraint: Callable[[Callable, Callable], bool], passes: list[Callable]
) -> None:
    for i, a in enumerate(passes):
        for j, b in enumerate(passes[i + 1 :]):
            if not constraint(a, b):
                raise RuntimeError(
                    f"pass schedule constraint violated. Expected {a} before {b} but found {a} at index {i} and {b} at "
                    f"index {j} in pass list."
                )


def _topological_sort_passes(passes: list[Callable], constraints: list[Callable]) -> list[Callable]:
    """An order that meets all constraints, near the one given."""
    if not constraints:
        return passes
    after: dict[Callable, list[Callable]] = {p: [] for p in passes}
    waiting = dict.fromkeys(passes, 0)
    for a in passes:
        for b in passes:
            if a is not b and any(not c(a, b) for c in constraints):
                after[b].append(a)  # b must come first
                waiting[a] += 1
    ready = [p for p in passes if waiting[p] == 0]
    ordered: list[Callable] = []
    while ready:
        p = ready.pop(0)
        ordered.append(p)
        for q in after[p]:
            waiting[q] -= 1
            if waiting[q] == 0:
                ready.append(q)
    if len(ordered) != len(passes):
        stuck = [p for p in passes if waiting[p]]
        raise RuntimeError(f"Circular dependency detected within the following passes: {stuck}")
    return ordered


def this_before_that_pass_constraint(this: Callable, that: Callable) -> Callable[[Callable, Callable], bool]:
    """A constraint: false for (that, this)."""

    def holds(a: Callable, b: Callable) -> bool:
        return not (a == that and b == this)

    return holds


class PassManager:
    """Runs passes `steps` times, each on what the one before gave.

    >>> import tocha
    >>> from tocha.fx.passes.infra.pass_base import PassResult
    >>> def drop_dead_code(module):
    ...     return PassResult(module, module.graph.eliminate_dead_code())
    >>> PassManager([drop_dead_code])(tocha.fx.symbolic_trace(lambda x: (x + 1, x)[1])).modified
    True
    """

    def __init__(
        self,
        passes: list[Callable] | None = None,
        constraints: list[Callable] | None = None,
        steps: int | None = None,
        run_checks_after_each_pass: bool = False,
        suppress_check_failures: bool = False,
    ) -> None:
        self.passes: list[Callable] = passes or []
        self.constraints: list[Callable] = constraints or []
        self.steps = steps or 1
        self.run_checks_after_each_pass = run_checks_after_each_pass
        self.suppress_check_failures = suppress_check_failures
        self._validated = False
        self._check: Callable[[Module], None] | None = None

    def add_pass(self, _pass: Callable) -> None:
        self.passes.append(_pass)
        self._validated = False

    def add_constraint(self, constraint: Callable[[Callable, Callable], bool]) -> None:
        self.constraints.append(constraint)
        self._validated = False

    def validate_constraints(self) -> None:
        """Raises if the order of the passes breaks a constraint."""
        if self._validated:
            return
        for constraint in self.constraints:
            _validate_pass_schedule_constraint(constraint, self.passes)
        self._validated = True

    def solve_constraints(self) -> None:
        """Reorders the passes so that all constraints hold."""
        self.passes = _topological_sort_passes(self.passes, self.constraints)
        self._validated = True

    def add_checks(self, check: Callable[[Module], None]) -> None:
        """A function that raises where a module is wrong; run after each pass if that was asked for."""
        if len(inspect.signature(check).parameters) != 1:
            raise TypeError("PassManager check function should only take in one variable, a module")
        self._check = check

    def check(self, module: Module) -> None:
        if self._check is not None:
            try:
                self._check(module)
            except Exception:
                if not self.suppress_check_failures:
                    raise

    def __call__(self, module: Module) -> PassResult:
        if not self._validated:
            self.solve_constraints()
        self.check(module)
        overall = False
        for _ in range(self.steps):
            changed = False
            for i, p in enumerate(self.passes):
                name = _name_of(p)
                logger.debug("Running pass '%s'", name)
                try:
                    module, modified = self._run(p, name, module)
                except Exception as error:
                    before = [_name_of(q) for q in self.passes[:i]]
                    raise Exception(
                        f"An error occurred when running the '{name}' pass after the following passes: {before}"
                    ) from error
                changed = changed or modified
                if isinstance(module, GraphModule):
                    module.recompile()
                if self.run_checks_after_each_pass:
                    self.check(module)
            overall = overall or changed
            if not changed:
                break
        return PassResult(module, overall)  # type: ignore[arg-type]

    def _run(self, p: Callable, name: str, module: Module) -> tuple[Module, bool]:
        result = p(module)
        if not isinstance(result, PassResult) and not (hasattr(result, "graph_module") and hasattr(result, "modified")):
            raise TypeError(
                f"The result of the pass {name} should be type PassResult.Please wrap it with pass_result_wrapper()"
            )
        return result.graph_module, result.modified
