"""Backends by name. A backend takes a graph module and example inputs, and returns a callable."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable
from typing import Any

from tocha import fx

_BACKENDS: dict[str, Callable[..., Any]] = {}
_LATER = (
    "aot_eager",
    "aot_eager_decomp_partition",
    "cudagraphs",
    "onnxrt",
    "openvino",
    "tvm",
    "ipex",
    "tensorrt",
)


class InvalidBackend(RuntimeError):
    def __init__(self, name: str) -> None:
        super().__init__(f"Invalid backend: {name!r}, see `tocha._dynamo.list_backends()` for available backends.")


def register_backend(compiler_fn: Any = None, name: str | None = None, tags: Any = ()) -> Any:
    """Registers a backend under its name; also a decorator."""
    if compiler_fn is None:
        return lambda f: register_backend(f, name, tags)
    _BACKENDS[name or compiler_fn.__name__] = compiler_fn
    compiler_fn._tags = frozenset(tags)
    return compiler_fn


@register_backend
def eager(module: fx.GraphModule, examples: list[Any], **options: Any) -> Callable[..., Any]:
    """The graph as it is."""
    return module.forward


@register_backend
def inductor(module: fx.GraphModule, examples: list[Any], **options: Any) -> Callable[..., Any]:
    """Fused native code."""
    from tocha._inductor.compile_fx import compile_fx  # the compiler's back end is loaded when it is first asked for

    return compile_fx(module, examples, **options)


def _entry_points() -> dict[str, Any]:
    found = importlib.metadata.entry_points(group="torch_dynamo_backends")
    return {e.name: e for e in found}


def list_backends(exclude_tags: Any = ("debug", "experimental")) -> list[str]:
    hidden = set(exclude_tags or ())
    names = {n for n, f in _BACKENDS.items() if not hidden & set(getattr(f, "_tags", ()))}
    return sorted({*names, *_entry_points(), *_LATER})


def lookup_backend(backend: Any) -> Callable[..., Any]:
    """A backend by its name; a callable is one."""
    if not isinstance(backend, str):
        return backend
    if backend in _BACKENDS:
        return _BACKENDS[backend]
    if backend in _LATER:
        raise InvalidBackend(backend) from NotImplementedError(f"the backend {backend!r} is not here yet")
    points = _entry_points()
    if backend not in points:
        raise InvalidBackend(backend)
    return register_backend(points[backend].load(), backend)
