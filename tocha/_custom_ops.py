"""The older way of making operators, which packages still import: tocha.library is the present one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tocha import library
from tocha._library.infer_schema import infer_schema

__all__ = ["custom_op", "impl", "impl_abstract", "impl_backward", "impl_save_for_backward"]


def custom_op(qualname: str, func_or_schema: str | Callable | None = None) -> Any:
    """Defines an operator by its schema, or by the signature of a function."""
    if isinstance(func_or_schema, str):
        return library.define(qualname, func_or_schema)

    def inner(func: Callable) -> Callable:
        library.define(qualname, infer_schema(func, mutates_args=()))
        return func

    return inner if func_or_schema is None else inner(func_or_schema)


def impl(qualname: str, *, device_types: Any = ("cpu", "cuda"), func: Callable | None = None) -> Any:
    """Gives the implementation of an operator for types of device."""

    def inner(func: Callable) -> Callable:
        library.impl(qualname, device_types, func)
        return func

    return inner if func is None else inner(func)


def impl_abstract(qualname: str, *, func: Callable | None = None) -> Any:
    """Tells the shapes of an operator's results: `library.register_fake`."""
    return library.register_fake(qualname) if func is None else library.register_fake(qualname, func)


def impl_save_for_backward(qualname: str, *, func: Callable | None = None) -> Any:
    """Refused: `library.register_autograd` takes both halves of a gradient."""
    raise NotImplementedError("[impl_save_for_backward] is not built in tocha: use library.register_autograd")


def impl_backward(qualname: str, output_differentiability: Any = None, *, func: Callable | None = None) -> Any:
    """Refused: `library.register_autograd` takes both halves of a gradient."""
    raise NotImplementedError("[impl_backward] is not built in tocha: use library.register_autograd")
