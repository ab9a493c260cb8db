"""From tensors to facts and back: what tests need to hold interpreted records against native calls."""

from __future__ import annotations

from typing import Any

import tocha
from tocha.ir import dtypes as dt
from tocha.ir.devices import Device
from tocha.ir.layout import MemoryFormat
from tocha.operators.facts import Facts, Memory


class Memories:
    """One Memory per storage, so that facts share where tensors share."""

    def __init__(self) -> None:
        self.known: dict[int, Memory] = {}

    def of(self, t: tocha.Tensor) -> Memory:
        return self.known.setdefault(t.untyped_storage()._cdata, Memory())

    def facts(self, value: Any) -> Any:
        """A native value as the interpreter takes it."""
        if isinstance(value, tocha.Tensor):
            return Facts(
                tuple(value.shape),
                dt.by_name(str(value.dtype).split(".")[1]),
                Device(value.device.type, value.device.index),
                value.stride(),
                value.storage_offset(),
                self.of(value),
                value.is_conj(),
                value.is_neg(),
            )
        if isinstance(value, tocha.dtype):
            return dt.by_name(str(value).split(".")[1])
        if isinstance(value, tocha.device):
            return Device(value.type, value.index)
        if isinstance(value, tocha.memory_format):
            return MemoryFormat(str(value).split(".")[1])
        if isinstance(value, list | tuple):
            return [self.facts(v) for v in value]
        return value


def described(value: Any) -> Any:
    """A result's facts in a form that compares."""
    if isinstance(value, list | tuple):
        return [described(v) for v in value]
    if isinstance(value, Facts):
        return (tuple(value.sizes), meaningful(value.sizes, value.steps), value.dtype.name, str(value.device), value.conjugated, value.negated)
    if isinstance(value, tocha.Tensor):
        return (
            tuple(value.shape),
            meaningful(tuple(value.shape), value.stride()),
            str(value.dtype).split(".")[1],
            str(value.device),
            value.is_conj(),
            value.is_neg(),
        )
    return value


def meaningful(sizes: tuple, strides: tuple) -> tuple:
    """Strides where they say something."""
    return tuple(strides)
