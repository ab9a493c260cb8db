"""Fake rules of custom operators: results without elements, and what a rule may ask for while it runs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


class FakeImplCtx:
    """What `get_ctx()` gives inside a rule: sizes that depend on elements."""

    def __init__(self, operator: str, unknown_size: Callable[[int, int | None], Any] | None = None):
        self.operator = operator
        self.unknown_size = unknown_size

    def new_dynamic_size(self, *, min: int = 0, max: int | None = None) -> Any:
        """A size that nobody knows before the operator has run."""
        if self.unknown_size is None:
            raise RuntimeError(
                f"{self.operator}: You're trying to run this operator with meta Tensors (as opposed to FakeTensors), but this operator "
                "may return an output Tensor with data-dependent shape. Meta Tensors don't support operators with outputs that have "
                "data-dependent shapes but FakeTensors do. If your operator does not return an output with data-dependent shape, make "
                "sure the FakeTensor and/or meta kernel does not call tocha.library.get_ctx(). Otherwise, please use FakeTensors."
            )
        if min < 0:
            raise ValueError(f"expected min to be greater than or equal to 0, got {min}.")
        return self.unknown_size(min, max)

    create_unbacked_symint = new_dynamic_size


class _Running(threading.local):
    context: FakeImplCtx | None = None


_running = _Running()


def get_ctx() -> FakeImplCtx | None:
    """The context of the fake rule that runs, None outside of one.

    >>> tocha.library.get_ctx() is None
    True
    """
    return _running.context


def run(
    operator: str,
    rule: Callable,
    args: tuple,
    kwargs: dict[str, Any],
    unknown_size: Callable[[int, int | None], Any] | None = None,
) -> Any:
    """Runs a rule; `unknown_size(min, max)` makes sizes that depend on elements, where whoever asks can have such."""
    before, _running.context = _running.context, FakeImplCtx(operator, unknown_size)
    try:
        return rule(*args, **kwargs)
    finally:
        _running.context = before
