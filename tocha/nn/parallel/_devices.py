"""Which accelerators there are, and what users call them."""

from __future__ import annotations

from tocha import _C, cuda

DeviceLike = int | str | _C.device


def accelerators() -> list[_C.device]:
    """The devices that modules can be spread over: none on a machine with a CPU alone."""
    if not cuda.is_available():
        return []
    return [_C.device("cuda", i) for i in range(cuda.device_count())]


def as_device(device: DeviceLike) -> _C.device:
    """A device from its number among the accelerators, its name or itself."""
    if not isinstance(device, int):
        return _C.device(device)
    there = accelerators()
    return there[device] if 0 <= device < len(there) else _C.device("cuda", device)


def as_targets(devices: list[DeviceLike] | tuple[DeviceLike, ...]) -> list[_C.device]:
    """Devices to spread over; the CPU is none."""
    targets = [as_device(d) for d in devices]
    for target in targets:
        if target.type == "cpu":
            raise ValueError(f"Expected a non cpu device, but got: {target}")
    return targets
