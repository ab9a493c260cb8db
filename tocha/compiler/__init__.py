"""What programs say to the compiler."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from tocha import nn as _nn
from tocha._dynamo import backends as _backends
from tocha._dynamo import config as config
from tocha._dynamo import polyfills as _polyfills
from tocha._dynamo.eval_frame import (
    allow_in_graph,
    compile,
    disable,
    get_default_backend,
    is_compiling,
    reset,
    set_default_backend,
)
from tocha._dynamo.stance import set_stance

__all__ = [
    "allow_in_graph",
    "assume_constant_result",
    "compile",
    "config",
    "cudagraph_mark_step_begin",
    "disable",
    "get_default_backend",
    "is_compiling",
    "is_dynamo_compiling",
    "is_exporting",
    "keep_portable_guards_unsafe",
    "keep_tensor_guards_unsafe",
    "list_backends",
    "reset",
    "set_default_backend",
    "set_stance",
    "skip_all_guards_unsafe",
    "skip_guard_on_all_nn_modules_unsafe",
    "skip_guard_on_globals_unsafe",
    "skip_guard_on_inbuilt_nn_modules_unsafe",
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
    if not callable(original_fn):
        raise TypeError(f"substitute_in_graph expects a function but got {type(original_fn)!r}")

    def register(function: Callable) -> Callable:
        if not inspect.isfunction(function):
            raise TypeError(f"@substitute_in_graph(...) expects a function but got {type(function)!r}")
        if not skip_signature_check:
            _check_signatures(original_fn, function)
        if hasattr(original_fn, "__code__"):
            _polyfills.SUBSTITUTES[id(original_fn)] = (original_fn, function)
        else:
            _polyfills.TABLE[original_fn] = function
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


# ---- guard_filter_fn


def skip_all_guards_unsafe(guard_entries: Sequence[Any]) -> list[bool]:
    """For `options={"guard_filter_fn": ...}`: nothing is guarded. What was captured first runs ever after."""
    return [False for _ in guard_entries]


def skip_guard_on_globals_unsafe(guard_entries: Sequence[Any]) -> list[bool]:
    """Global variables are not guarded."""
    return [not entry.is_global for entry in guard_entries]


def keep_tensor_guards_unsafe(guard_entries: Sequence[Any], keep_parameters: bool = False) -> list[bool]:
    """Tensors are guarded, parameters only if wanted; nothing else is."""
    return [
        entry.guard_type == "TENSOR_MATCH" and (keep_parameters or not isinstance(entry.value, _nn.Parameter))
        for entry in guard_entries
    ]


def keep_portable_guards_unsafe(guard_entries: Sequence[Any]) -> list[bool]:
    """What holds in other processes too is guarded: not the identity of objects."""
    return [entry.guard_type not in ("ID_MATCH", "DUPLICATE_INPUT", "LAMBDA_GUARD") for entry in guard_entries]


def _of_module(entry: Any, is_one: Callable[[Any], bool]) -> bool:
    source = entry.orig_guard.source
    while source is not None:
        if source.fetch == "attribute" and source.key in ("_modules", "_parameters", "_buffers"):
            return True
        source = source.base
    return is_one(entry.value)


def skip_guard_on_all_nn_modules_unsafe(guard_entries: Sequence[Any]) -> list[bool]:
    """Modules and what lies in them are not guarded."""
    return [not _of_module(e, lambda v: isinstance(v, type) and issubclass(v, _nn.Module)) for e in guard_entries]


def skip_guard_on_inbuilt_nn_modules_unsafe(guard_entries: Sequence[Any]) -> list[bool]:
    """The library's own modules and what lies in them are not guarded."""

    def is_one(value: Any) -> bool:
        return isinstance(value, type) and issubclass(value, _nn.Module) and value.__module__.startswith("tocha.nn.")

    return [not _of_module(e, is_one) for e in guard_entries]
