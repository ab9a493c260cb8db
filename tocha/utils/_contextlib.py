"""Contexts that decorate functions, for packages that make their own beside no_grad."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tocha.autograd.grad_mode import _Context as _DecoratorContextManager

__all__ = ["context_decorator"]


class _NoParamDecoratorContextManager(_DecoratorContextManager):
    """One whose class decorates without parentheses, too."""

    def __new__(cls, orig_func: Callable | None = None) -> Any:
        made = super().__new__(cls)
        return made if orig_func is None else made(orig_func)


class _Made(_DecoratorContextManager):
    """The context that a function makes anew for each call."""

    def __init__(self, make: Callable[[], Any]):
        self._make = make

    def clone(self) -> Any:
        return self._make()


def context_decorator(ctx: Any, func: Callable) -> Callable:
    """func, each call in a context: in ctx itself, or in the one that ctx makes when it is called.

    >>> import contextlib
    >>> @contextlib.contextmanager
    ... def said():
    ...     print("in")
    ...     yield
    >>> context_decorator(said, lambda: print("at work"))()
    in
    at work
    """
    is_context = hasattr(ctx, "__enter__")
    if is_context and callable(ctx):
        raise AssertionError(
            f"Passed in {ctx} is both callable and also a valid context manager (has __enter__), making it ambiguous which "
            "interface to use.  If you intended to pass a context manager factory, rewrite your call as "
            "context_decorator(lambda: ctx()); if you intended to pass a context manager directly, rewrite your call as "
            "context_decorator(lambda: ctx)"
        )
    return _Made(ctx if callable(ctx) else lambda: ctx)(func)
