"""What tests of compiled programs ask for: the sources of what a call compiles, and caches of their own."""

from __future__ import annotations

import contextlib
import importlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

from tocha._inductor import codecache
from tocha._logging import events

__all__ = [
    "fresh_cache", "fresh_inductor_cache", "get_code", "run_and_get_code", "run_and_get_cpp_code", "run_fw_bw_and_get_code",
]  # fmt: skip

FOLDER = "TORCHINDUCTOR_CACHE_DIR"


def run_and_get_code(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Any, list[str]]:
    """What fn returns, and the C++ of every graph that is compiled for it: as if nothing had been compiled before.

    >>> import tocha
    >>> result, (source,) = run_and_get_code(tocha.compile(lambda x: x.sin() + 1), tocha.zeros(4))
    >>> result
    tensor([1., 1., 1., 1.])
    >>> "sin" in source
    True
    """
    sources: list[str] = []

    def listener(event: events.Event) -> None:
        if isinstance(event, events.ProgramMade):
            sources.append(event.compiled.source)

    importlib.import_module("tocha._dynamo").reset()  # a higher room, which is there where anything was compiled
    with events.listening(listener):
        result = fn(*args, **kwargs)
    return result, sources


def get_code(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> list[str]:
    """The sources alone."""
    return run_and_get_code(fn, *args, **kwargs)[1]


def run_and_get_cpp_code(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Any, str]:
    """What fn returns, and the sources as one text."""
    result, sources = run_and_get_code(fn, *args, **kwargs)
    return result, "\n".join(sources)


def run_fw_bw_and_get_code(fn: Callable[[], Any]) -> tuple[Any, list[str]]:
    """The same with the backward graph of the tensor that fn returns."""

    def both() -> Any:
        result = fn()
        result.sum().backward()
        return result

    return run_and_get_code(both)


@contextlib.contextmanager
def fresh_cache(cache_entries: dict[str, Any] | None = None, dir: str | None = None, delete: bool = True) -> Iterator[None]:  # fmt: skip
    """Nothing is on disk; what is put there is removed afterwards, unless delete is False.

    `cache_entries` gets the names and sizes of the files that were made.
    """
    before = os.environ.get(FOLDER)
    folder = os.environ[FOLDER] = tempfile.mkdtemp(dir=dir)
    codecache.precompiled_flags.cache_clear()  # they name the folder
    try:
        yield
        if cache_entries is not None:
            found = (os.path.join(where, name) for where, _, names in os.walk(folder) for name in names)
            cache_entries.update({os.path.relpath(path, folder): os.path.getsize(path) for path in found})
    finally:
        if before is None:
            del os.environ[FOLDER]
        else:
            os.environ[FOLDER] = before
        codecache.precompiled_flags.cache_clear()
        if delete:
            shutil.rmtree(folder, ignore_errors=True)


fresh_inductor_cache = fresh_cache
