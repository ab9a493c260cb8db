"""Copies of batches in page-locked memory, from which an accelerator reads fast."""

from __future__ import annotations

import collections.abc
from typing import Any

from tocha import _C, cuda
from tocha.utils.data._utils.collate import _is_namedtuple, rebuild_mapping, rebuild_sequence

__all__ = ["has_accelerator", "pin_memory"]


def has_accelerator() -> bool:
    """Whether there is a device that pinned memory serves."""
    return bool(cuda.is_available())


def pin_memory(data: Any, device: Any = None) -> Any:
    """Pins the tensors of a batch, in containers too; any other object may have a pin_memory method of its own."""
    if isinstance(data, _C.Tensor):
        return data.pin_memory()  # type: ignore[attr-defined]
    if hasattr(data, "pin_memory"):
        return data.pin_memory()
    if isinstance(data, str | bytes):
        return data
    if isinstance(data, collections.abc.Mapping):
        return rebuild_mapping(data, {key: pin_memory(value, device) for key, value in data.items()})
    if _is_namedtuple(data):
        return type(data)(*(pin_memory(d, device) for d in data))
    if isinstance(data, tuple):
        return [pin_memory(d, device) for d in data]
    if isinstance(data, collections.abc.Sequence):
        return rebuild_sequence(data, [pin_memory(d, device) for d in data])
    return data
