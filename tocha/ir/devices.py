"""Devices by name, for values that have no memory: any name can be said without the device being there."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Device:
    """A type of device and, where it is one of several, its number."""

    type: str = "cpu"
    index: int | None = None

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"


CPU = Device("cpu")
META = Device("meta")
