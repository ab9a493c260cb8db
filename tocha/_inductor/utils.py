"""What tests of compiled programs ask for: the sources of what a call compiles, and caches of their own."""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import shutil
import statistics
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import tocha
from tocha._inductor import codecache
from tocha._inductor.describe import sources as sources_of_kernels
from tocha._logging import events
from tocha._prims_common import clone_preserve_strides

__all__ = [
    "GPU_TYPES",
    "IndentedBuffer",
    "cache_on_self",
    "ceildiv",
    "clear_inductor_caches",
    "clone_preserve_strides",
    "fresh_cache",
    "fresh_inductor_cache",
    "get_code",
    "get_dtype_size",
    "is_cpu_device",
    "is_linux",
    "is_windows",
    "output_node",
    "pad_listlike",
    "print_performance",
    "run_and_get_code",
    "run_and_get_cpp_code",
    "run_and_get_kernels",
    "run_and_get_triton_code",
    "run_fw_bw_and_get_code",
    "timed",
    "unique",
]  # fmt: skip

FOLDER = "TORCHINDUCTOR_CACHE_DIR"
GPU_TYPES = ["cuda", "mps", "xpu", "mtia"]  # PyTorch's names of them


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


def run_and_get_triton_code(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> str:
    """The source of the one graph that is compiled for it: C++, whatever the name says."""
    sources = get_code(fn, *args, **kwargs)
    if len(sources) != 1:
        raise AssertionError(f"expected exactly one code output got {len(sources)}")
    return sources[0]


def run_and_get_kernels(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Any, list[str]]:
    """What fn returns, and the C++ of each kernel that is compiled for it."""
    result, sources = run_and_get_code(fn, *args, **kwargs)
    return result, [text for source in sources for text in sources_of_kernels(source).values()]


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


def clear_inductor_caches() -> None:
    """Forgets what this process knows of files on disk: these stay, as does what was compiled."""
    codecache.precompiled_flags.cache_clear()


def timed(model: Callable[..., Any], example_inputs: Sequence[Any], times: int = 1, device: str = "cpu") -> float:
    """Seconds of so many calls, with the same random numbers."""
    tocha.manual_seed(1337)
    began = time.perf_counter()
    for _ in range(times):
        result = model(*example_inputs)
    seconds = time.perf_counter() - began
    if times and result is None:
        raise AssertionError("model returned None")
    return seconds


def print_performance(
    model: Callable[..., Any], example_inputs: Sequence[Any] = (), times: int = 10, repeat: int = 10, baseline: float = 1.0,
    device: str = "cpu",
) -> float:  # fmt: skip
    """Prints the median of so many timings, in seconds a call and in parts of the baseline."""
    took = statistics.median(timed(model, example_inputs, times, device) for _ in range(repeat)) / times
    print(f"{took / baseline:.6f}")
    return took / baseline


def get_dtype_size(dtype: tocha.dtype) -> int:
    return dtype.itemsize


def is_cpu_device(inputs: Iterable[Any]) -> bool:
    """Are all tensors among them on the CPU?"""
    return all(x.device.type == "cpu" for x in inputs if isinstance(x, tocha.Tensor))


def is_linux() -> bool:
    return sys.platform == "linux"


def is_windows() -> bool:
    return sys.platform == "win32"


def ceildiv(number: Any, denom: Any) -> Any:
    """The quotient, rounded up.

    >>> ceildiv(7, 2)
    4
    """
    return -(number // -denom)


def pad_listlike(x: Any, size: int) -> Sequence[int]:
    """One number for each of so many dims."""
    values = [x] if isinstance(x, int) else x
    return type(values)([values[0]]) * size if len(values) == 1 else values


def unique(it: Iterable[Any]) -> Any:
    """Each object once, in order."""
    return {id(x): x for x in it}.values()


def output_node(gm: Any) -> Any:
    """The node of a graph that says what it returns."""
    return gm.graph.find_nodes(op="output")[0]


def cache_on_self(fn: Callable[[Any], Any]) -> Any:
    """A method without arguments that is called once for each object, until `clear_cache(obj)`."""
    key = f"__{fn.__name__}_cache"

    @functools.wraps(fn)
    def method(self: Any) -> Any:
        if not hasattr(self, key):
            object.__setattr__(self, key, fn(self))
        return getattr(self, key)

    method.clear_cache = lambda self: self.__dict__.pop(key, None)  # type: ignore[attr-defined]
    return method


class IndentedBuffer:
    """Lines of a text, indented by blocks.

    >>> text = IndentedBuffer()
    >>> text.writeline("if x:")
    >>> with text.indent():
    ...     text.writeline("y()")
    >>> print(text.getvalue(), end="")
    if x:
        y()
    """

    tabwidth = 4

    def __init__(self, initial_indent: int = 0) -> None:
        self._lines: list[str] = []
        self._indent = initial_indent

    def prefix(self) -> str:
        return " " * (self._indent * self.tabwidth)

    def writeline(self, line: str) -> None:
        self._lines.append(f"{self.prefix()}{line}" if line.strip() else "")

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.writeline(line)

    def newline(self) -> None:
        self._lines.append("")

    @contextlib.contextmanager
    def indent(self, offset: int = 1) -> Iterator[None]:
        self._indent += offset
        try:
            yield
        finally:
            self._indent -= offset

    def do_indent(self, offset: int = 1) -> None:
        self._indent += offset

    def do_unindent(self, offset: int = 1) -> None:
        self._indent -= offset

    def splice(self, other_code: IndentedBuffer | str, strip: bool = False) -> None:
        """Another buffer's lines, or a text's without the indentation that they have in common."""
        text = other_code.getvalue() if isinstance(other_code, IndentedBuffer) else textwrap.dedent(other_code)
        text = text.lstrip() if strip else text
        if text:
            self.writelines(text.rstrip().split("\n"))

    def getvalue(self) -> str:
        return "".join(f"{line}\n" for line in self._lines)

    def getrawvalue(self) -> str:
        """Lines that end with a backslash are joined with the next."""
        return self.getvalue().replace("\\\n", "")

    def clear(self) -> None:
        self._lines.clear()

    def contains(self, new_line: str) -> bool:
        return new_line in self._lines

    def __bool__(self) -> bool:
        return bool(self._lines)
