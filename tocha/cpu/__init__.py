"""The CPU under the names that devices have: one device, whose work is done when a call returns.

Programs written for any device call these; streams and events have nothing to wait for.
"""

from __future__ import annotations

import importlib
import os
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tocha import _C

__all__ = [
    "Event",
    "Stream",
    "StreamContext",
    "current_device",
    "current_stream",
    "device_count",
    "get_capabilities",
    "is_available",
    "is_initialized",
    "set_device",
    "stream",
    "synchronize",
]


def is_available() -> bool:
    """Whether there is a CPU.

    >>> is_available(), device_count(), current_device()
    (True, 1, 'cpu')
    """
    return True


def is_initialized() -> bool:
    """Whether the CPU was started.

    >>> tocha.cpu.is_initialized()
    True
    """
    return True


def device_count() -> int:
    """The number of CPUs that tensors can be on: all cores count as one.

    >>> tocha.cpu.device_count()
    1
    """
    return 1


def current_device() -> str:
    """The selected device.

    >>> tocha.cpu.current_device()
    'cpu'
    """
    return "cpu"


def set_device(device: Any) -> None:
    """There is one CPU, so nothing has to be selected.

    >>> tocha.cpu.set_device("cpu") is None
    True
    """


def synchronize(device: Any = None) -> None:
    """Work on the CPU is done when a call returns, so there is nothing to wait for.

    >>> tocha.cpu.synchronize() is None
    True
    """


class Event:
    """A mark in a stream, which is always reached.

    >>> event = tocha.cpu.Event()
    >>> event.record()
    >>> event.query()
    True
    """

    def query(self) -> bool:
        """Whether the mark is reached."""
        return True

    def record(self, stream: Stream | None = None) -> None:
        """Sets the mark."""

    def synchronize(self) -> None:
        """Waits until the mark is reached."""

    def wait(self, stream: Stream | None = None) -> None:
        """Lets a stream wait for the mark."""


class Stream:
    """An order of work; on the CPU that is the order of calls.

    >>> with tocha.cpu.stream(tocha.cpu.Stream()):
    ...     tocha.ones(1)
    tensor([1.])
    """

    def __init__(self, priority: int = -1) -> None:
        self.priority = priority

    def wait_stream(self, stream: Stream) -> None:
        """Lets this stream wait for another's work."""

    def record_event(self) -> None:
        """Sets a mark here."""

    def wait_event(self, event: Event) -> None:
        """Lets this stream wait for a mark."""


_current = _default = Stream()


def current_stream(device: Any = None) -> Stream:
    """The stream that work goes to.

    >>> type(tocha.cpu.current_stream()).__name__
    'Stream'
    """
    return _current


class StreamContext:
    """A context in which current_stream is another.

    >>> with tocha.cpu.StreamContext(tocha.cpu.Stream()):
    ...     tocha.ones(1)
    tensor([1.])
    """

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        global _current
        self._before = _current
        if self.stream is not None:
            _current = self.stream

    def __exit__(self, *exception: object) -> None:
        global _current
        _current = self._before


def stream(stream: Stream) -> StreamContext:
    """The context of a stream.

    >>> with tocha.cpu.stream(tocha.cpu.current_stream()):
    ...     tocha.ones(1)
    tensor([1.])
    """
    return StreamContext(stream)


def get_capabilities() -> Mapping[str, Any]:
    """What the processor has (only that: what it lacks is not named), and the instruction set that tocha uses of it.

    >>> get_capabilities()["num_logical_cores"] >= 1
    True
    """
    found: dict[str, Any] = {_public_name(flag): True for flag in _processor_flags()}
    found |= {"num_logical_cores": os.cpu_count() or 1, "architecture": os.uname().machine}
    found["capability"] = _C._cpu_capability()
    return types.MappingProxyType(found)


_RENAMED = {"fma": "fma3", "bmi1": "bmi", "sha_ni": "sha", "abm": "lzcnt", "pni": "sse3"}


def _public_name(flag: str) -> str:
    """PyTorch's word for a flag of /proc/cpuinfo: avx512_f for avx512f."""
    if flag.startswith("avx512") and not flag.startswith("avx512_"):
        return f"avx512_{flag[len('avx512') :]}"
    return _RENAMED.get(flag, flag)


def _processor_flags() -> list[str]:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return []
    found = [
        line.partition(":")[2].split() for line in lines if line.partition(":")[0].strip() in ("flags", "Features")
    ]
    return found[0] if found else []


def __getattr__(name: str) -> Any:
    """tocha.cpu.amp and tocha.cpu.memory are loaded when somebody asks for them."""
    if name in ("amp", "memory"):
        return importlib.import_module(f"tocha.cpu.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
