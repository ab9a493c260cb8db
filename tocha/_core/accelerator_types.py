"""`Stream` and `Event`: queues of work and marks in them. The CPU has one queue, in which everything is done at once."""

from __future__ import annotations

from typing import Any, NoReturn

from tocha import _C
from tocha._core.library_name import spoken


def _device(name: str, device: Any) -> Any:
    found = _C.device("cpu" if device is None else device)
    if found.type != "cpu":
        raise RuntimeError(f"[{name}] PyTorch is not linked with support for {found.type} devices")
    return _C.device("cpu")


def _no_events() -> NoReturn:
    raise RuntimeError("[Stream] cpu backend doesn't support events.")


class Stream:
    """A queue of work on a device.

    >>> import tocha
    >>> tocha.Stream().query()
    True
    """

    device_index, device_type, stream_id = -1, 0, 0

    def __init__(self, device: Any = None, *, priority: int = 0):
        self.device = _device("Stream", device)

    def synchronize(self) -> None:
        """Waits until all is done: it is."""

    def query(self) -> bool:
        """Whether all is done."""
        return True

    def wait_event(self, event: Event) -> None:
        """Waits for a mark: nothing is under way."""

    def wait_stream(self, stream: Stream) -> None:
        """Refused: needs events."""
        _no_events()

    def record_event(self, event: Event | None = None) -> Event:
        """Refused: the CPU has no events."""
        _no_events()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and self.device == other.device

    def __hash__(self) -> int:
        return hash((Stream, self.device))

    def __repr__(self) -> str:
        return f"{spoken()}.Stream device_type=cpu, device_index=-1, stream_id=0"


class Event:
    """A mark in a stream."""

    event_id = 0

    def __init__(
        self, device: Any = None, *, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False
    ):
        self.device, self.enable_timing = _device("Event", device), enable_timing

    def record(self, stream: Stream | None = None) -> None:
        """Refused: the CPU has no events."""
        _no_events()

    def wait(self, stream: Stream | None = None) -> None:
        """Waits for a mark: nothing is under way."""

    def query(self) -> bool:
        """Whether what the mark stands after is done."""
        return True

    def synchronize(self) -> None:
        """Waits until what the mark stands after is done: it is."""

    def elapsed_time(self, end_event: Event) -> float:
        """Refused: no mark was ever set."""
        if not (self.enable_timing and end_event.enable_timing):
            raise ValueError("[Event] Both events must be created with argument 'enable_timing=True'.")
        raise ValueError("[Event] Both events must be recorded before calculating elapsed time.")

    def __repr__(self) -> str:
        return f"{spoken()}.Event device_type=cpu, device_index=-1, event_flag={int(self.enable_timing)}, event_id=0"
