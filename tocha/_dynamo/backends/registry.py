"""Backends by name. A backend takes a graph module and example inputs, and returns a callable."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterable
from typing import Any

from tocha._dynamo.exc import InvalidBackend

_BACKENDS: dict[str, Callable[..., Any]] = {}
# Known by name, and refused until they exist.
_LATER = ("cudagraphs", "ipex", "onnxrt", "openvino", "openxla", "tensorrt", "tvm")
_LATER_FOR_TESTS = ("aot_ts", "ts")


def register_backend(compiler_fn: Any = None, name: str | None = None, tags: Iterable[str] = ()) -> Any:
    """Registers a backend under its name; also a decorator."""
    if compiler_fn is None:
        return functools.partial(register_backend, name=name, tags=tags)
    assert callable(compiler_fn), f"[register_backend] a backend is a callable: got {compiler_fn!r}"
    name = name or compiler_fn.__name__
    assert name not in _BACKENDS, f"duplicate name: {name}"
    _BACKENDS[name] = compiler_fn
    compiler_fn._tags = tuple(tags)
    return compiler_fn


register_debug_backend = functools.partial(register_backend, tags=("debug",))
register_experimental_backend = functools.partial(register_backend, tags=("experimental",))


@functools.cache
def _entry_points() -> dict[str, Any]:
    metadata = importlib.import_module("importlib.metadata")  # takes a while, for names that few programs use
    found = metadata.entry_points(group="torch_dynamo_backends")
    return {e.name: e for e in found}


def list_backends(exclude_tags: Iterable[str] | None = ("debug", "experimental")) -> list[str]:
    """The names of backends without these tags."""
    hidden = set(exclude_tags or ())
    names = {n for n, f in _BACKENDS.items() if not hidden & set(f._tags)}  # type: ignore[attr-defined]
    later = (*_LATER, *(() if "debug" in hidden else _LATER_FOR_TESTS))
    return sorted({*names, *_entry_points(), *later})


def lookup_backend(compiler_fn: Any) -> Callable[..., Any]:
    """A backend by its name; a callable is one."""
    if not isinstance(compiler_fn, str):
        return compiler_fn
    if compiler_fn in _BACKENDS:
        return _BACKENDS[compiler_fn]
    points = _entry_points()
    if compiler_fn in points:
        return register_backend(points[compiler_fn].load(), compiler_fn)
    if compiler_fn in (*_LATER, *_LATER_FOR_TESTS):
        raise InvalidBackend(compiler_fn) from NotImplementedError(f"the backend {compiler_fn!r} is not here yet")
    raise InvalidBackend(compiler_fn)
