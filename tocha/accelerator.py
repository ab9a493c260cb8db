"""The device beside the CPU, whatever its kind: none in this build."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tocha import _C
from tocha._core.errors import refusing


def is_available() -> bool:
    """Whether there is an accelerator.

    >>> is_available(), device_count(), current_accelerator()
    (False, 0, None)
    """
    return False


def device_count() -> int:
    """The number of accelerators.

    >>> tocha.accelerator.device_count() >= 0
    True
    """
    return 0


def current_accelerator(check_available: bool = False) -> _C.device | None:
    """The kind of accelerator, None if there is none.

    >>> tocha.accelerator.current_accelerator() is None or tocha.accelerator.is_available()
    True
    """
    return None


def _refusing(name: str, purpose: str, given: str = "") -> Callable[..., Any]:
    error = "Cannot access accelerator device when none is available."
    example = f">>> tocha.accelerator.is_available() and tocha.accelerator.{name}({given})\nFalse"
    return refusing(name, f"{purpose} Needs an accelerator.\n\n{example}", lambda: RuntimeError(error))


current_device_index = _refusing("current_device_index", "The index of the selected device.")
set_device_index = _refusing("set_device_index", "Selects a device.", "0")
current_stream = _refusing("current_stream", "The stream that work goes to.")
set_stream = _refusing("set_stream", "Sends work to a stream.", "stream")
synchronize = _refusing("synchronize", "Waits for the work on a device.")
empty_cache = _refusing("empty_cache", "Gives unused memory back.")
memory_allocated = _refusing("memory_allocated", "Bytes in use by tensors.")
max_memory_allocated = _refusing("max_memory_allocated", "The most bytes that tensors used.")
memory_reserved = _refusing("memory_reserved", "Bytes held by the allocator.")
max_memory_reserved = _refusing("max_memory_reserved", "The most bytes the allocator held.")
memory_stats = _refusing("memory_stats", "Figures of the allocator.")
reset_peak_memory_stats = _refusing("reset_peak_memory_stats", "Begins anew with the highest figures.")
get_memory_info = _refusing("get_memory_info", "Free and total bytes of a device.")

empty_host_cache = _refusing("empty_host_cache", "Gives unused pinned memory back.")
get_device_capability = _refusing("get_device_capability", "What a device can do.")
reset_accumulated_memory_stats = _refusing("reset_accumulated_memory_stats", "Begins anew with the figures that are summed up.")  # fmt: skip
current_device_idx, set_device_idx = current_device_index, set_device_index  # the older names

Graph = _refusing("Graph", "Work that is recorded once and sent again.")


class device_index:
    """Within it a device is the current one; None leaves it as it is.

    >>> with device_index(None):
    ...     tocha.accelerator.device_count()
    0
    """

    def __init__(self, device: int | None, /) -> None:
        self.idx = device

    def __enter__(self) -> None:
        if self.idx is not None:
            set_device_index(self.idx)

    def __exit__(self, *exc: object) -> None:
        pass


_OTHERS = ("Callable", "Any", "annotations", "refusing")
__all__ = [n for n, v in globals().items() if callable(v) and not n.startswith("_") and n not in _OTHERS]
