"""What programs say to the compiler."""

from __future__ import annotations

import functools as _functools
import importlib as _importlib
import io as _io
from collections.abc import Callable, Sequence
from typing import Any

from tocha import nn as _nn
from tocha._dynamo import backends as _backends
from tocha._dynamo.decorators import assume_constant_result, substitute_in_graph
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
from tocha.compiler import config as config

__all__ = [
    "allow_in_graph",
    "assume_constant_result",
    "bisect",
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
    "load_cache_artifacts",
    "load_compiled_function",
    "nested_compile_region",
    "report",
    "reset",
    "save_cache_artifacts",
    "set_default_backend",
    "set_enable_guard_collectives",
    "set_stance",
    "skip_all_guards_unsafe",
    "skip_guard_on_all_nn_modules_unsafe",
    "skip_guard_on_globals_unsafe",
    "skip_guard_on_inbuilt_nn_modules_unsafe",
    "substitute_in_graph",
    "wrap_numpy",
]


is_dynamo_compiling = is_compiling


def is_exporting() -> bool:
    """Whether a program is being exported: there is no export yet.

    >>> tocha.compiler.is_exporting()
    False
    """
    return False


def list_backends(exclude_tags: Any = ("debug", "experimental")) -> list[str]:
    """The names that `tocha.compile(backend=...)` takes.

    >>> "inductor" in tocha.compiler.list_backends()
    True
    """
    return _backends.list_backends(exclude_tags)


def cudagraph_mark_step_begin() -> None:
    """A new step begins: memory of the last one may be used again.

    >>> tocha.compiler.cudagraph_mark_step_begin() is None
    True
    """


def save_cache_artifacts() -> tuple[bytes, Any] | None:
    """What compiling took in this process, as bytes, and what that is; None where nothing was compiled.

    >>> artifacts = tocha.compiler.save_cache_artifacts()
    >>> artifacts is None or isinstance(artifacts[0], bytes)
    True
    """
    return _importlib.import_module("tocha.compiler._cache").save_cache_artifacts()


def load_cache_artifacts(serialized_artifacts: bytes) -> Any:
    """Puts what save_cache_artifacts gave, here or elsewhere, into this machine's cache."""
    return _importlib.import_module("tocha.compiler._cache").load_cache_artifacts(serialized_artifacts)


def report(path: Any, compare_with: Any = None) -> Any:
    """Records what is compiled from now on, for one page at `path` (docs/guide/report.md): with `with`, until the block ends, else until
    the program does. `compare_with` is another report, whose figures are shown beside these.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "report.html")
    >>> with tocha.compiler.report(path):
    ...     _ = tocha.compile(lambda x: x + 1, backend="eager")(tocha.ones(2))
    >>> os.path.exists(path)
    True
    """
    return _importlib.import_module("tocha.compiler._report").report(path, compare_with)


def bisect(fn: Callable, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None) -> Any:
    """Where compiling a function goes wrong: the stage, and of the back end the pass and the kernel (docs/guide/debugging.md)."""
    return _importlib.import_module("tocha.compiler._bisect").bisect(fn, args, kwargs)


def nested_compile_region(fn: Any = None, *, options: Any = None, max_reuse_entries: int = 8, reuse_hash_fn: Any = None) -> Any:  # fmt: skip
    """Marks a function that models call again and again. Captured code goes through each call of it.

    >>> @tocha.compiler.nested_compile_region
    ... def block(x):
    ...     return x.sin() * 2
    >>> tocha.compile(lambda x: block(block(x)), backend="eager")(tocha.zeros(2))
    tensor([0., 0.])
    """
    if fn is None:
        return _functools.partial(nested_compile_region, options=options, max_reuse_entries=max_reuse_entries, reuse_hash_fn=reuse_hash_fn)  # fmt: skip

    @_functools.wraps(fn)
    def region(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    return region


def wrap_numpy(fn: Callable) -> Callable:
    """A function of NumPy arrays as one of tensors.

    >>> import numpy
    >>> f = tocha.compiler.wrap_numpy(lambda a: numpy.sqrt(a) + 1)
    >>> f(tocha.tensor([4.0, 9.0]))
    tensor([3., 4.])
    """
    return _importlib.import_module("tocha._dynamo.external_utils").wrap_numpy(fn)


def load_compiled_function(file: _io.IOBase, *, f_globals: dict[str, object] | None = None, external_data: dict[str, Any] | None = None) -> Callable:  # fmt: skip
    """A compiled function from a file."""
    raise NotImplementedError("[compiler] compiled functions are not written to files: save_cache_artifacts() keeps what compiling them takes")  # fmt: skip


def set_enable_guard_collectives(enabled: bool) -> bool:
    """Whether processes that work together tell each other before one of them captures again; returns what it was.

    >>> tocha.compiler.set_enable_guard_collectives(False)
    False
    """
    if enabled:
        raise RuntimeError("[compiler] guard collectives need tocha.distributed")
    return False


# ---- guard_filter_fn


def skip_all_guards_unsafe(guard_entries: Sequence[Any]) -> list[bool]:
    """For `options={"guard_filter_fn": ...}`: nothing is guarded. What was captured first runs ever after.

    >>> tocha.compile(lambda x: x + 1, backend="eager", options={"guard_filter_fn": tocha.compiler.skip_all_guards_unsafe})(tocha.tensor([1.0]))
    tensor([2.])
    """
    return [False for _ in guard_entries]


def skip_guard_on_globals_unsafe(guard_entries: Sequence[Any]) -> list[bool]:
    """Global variables are not guarded.

    >>> tocha.compile(lambda x: x + 1, backend="eager", options={"guard_filter_fn": tocha.compiler.skip_guard_on_globals_unsafe})(tocha.tensor([1.0]))
    tensor([2.])
    """
    return [not entry.is_global for entry in guard_entries]


def keep_tensor_guards_unsafe(guard_entries: Sequence[Any], keep_parameters: bool = False) -> list[bool]:
    """Tensors are guarded, parameters only if wanted; nothing else is.

    >>> tocha.compile(lambda x: x + 1, backend="eager", options={"guard_filter_fn": tocha.compiler.keep_tensor_guards_unsafe})(tocha.tensor([1.0]))
    tensor([2.])
    """
    return [
        entry.guard_type == "TENSOR_MATCH" and (keep_parameters or not isinstance(entry.value, _nn.Parameter))
        for entry in guard_entries
    ]


def keep_portable_guards_unsafe(guard_entries: Sequence[Any]) -> list[bool]:
    """What other languages could ask too is guarded: tensors that are not global, modes such as no_grad, and sizes.

    >>> tocha.compile(lambda x: x + 1, backend="eager", options={"guard_filter_fn": tocha.compiler.keep_portable_guards_unsafe})(tocha.tensor([1.0]))
    tensor([2.])
    """
    return [
        entry.guard_type == "GLOBAL_STATE" or (entry.guard_type == "TENSOR_MATCH" and not entry.is_global)
        for entry in guard_entries
    ]


def skip_guard_on_all_nn_modules_unsafe(guard_entries: Sequence[Any]) -> list[bool]:
    """Modules and what lies in them are not guarded.

    >>> tocha.compile(lambda x: x + 1, backend="eager", options={"guard_filter_fn": tocha.compiler.skip_guard_on_all_nn_modules_unsafe})(tocha.tensor([1.0]))
    tensor([2.])
    """
    return [not entry.modules for entry in guard_entries]


def skip_guard_on_inbuilt_nn_modules_unsafe(guard_entries: Sequence[Any]) -> list[bool]:
    """The library's own modules and what lies in them are not guarded.

    >>> tocha.compile(lambda x: x + 1, backend="eager", options={"guard_filter_fn": tocha.compiler.skip_guard_on_inbuilt_nn_modules_unsafe})(tocha.tensor([1.0]))
    tensor([2.])
    """
    return [not (entry.modules and entry.modules[0].__module__.startswith("tocha.nn.")) for entry in guard_entries]
