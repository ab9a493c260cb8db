"""Batches cut into parts for several devices, and results put together again; through tuples, lists and dicts."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tocha import _C
from tocha.nn.parallel._devices import DeviceLike, as_device, as_targets

Tensor = _C.Tensor

__all__ = ["gather", "scatter", "scatter_kwargs"]


def _is_namedtuple(x: Any) -> bool:
    return isinstance(x, tuple) and hasattr(x, "_asdict") and hasattr(x, "_fields")


def _scatter_tensor(x: Tensor, target_gpus: Sequence[DeviceLike], dim: int) -> list[Tensor]:
    targets = as_targets(list(target_gpus))
    chunks = x.chunk(len(targets), dim)
    return [chunk.to(target) for chunk, target in zip(chunks, targets, strict=False)]


def scatter(inputs: Any, target_gpus: Sequence[DeviceLike], dim: int = 0) -> list[Any]:
    """For each device its part: tensors are cut along dim, containers are rebuilt, anything else is shared.

    >>> scatter({"a": [1, 2]}, [0, 1])
    [{'a': [1, 2]}, {'a': [1, 2]}]
    """

    def parts(items: Any) -> list[tuple]:
        """The parts of several things, one tuple of them for each device."""
        return list(zip(*(scatter(item, target_gpus, dim) for item in items), strict=False))

    if isinstance(inputs, Tensor):
        return _scatter_tensor(inputs, target_gpus, dim)
    if not isinstance(inputs, tuple | list | dict) or not inputs:
        return [inputs for _ in target_gpus]
    if _is_namedtuple(inputs):
        return [type(inputs)(*part) for part in parts(inputs)]
    if isinstance(inputs, tuple):
        return parts(inputs)
    if isinstance(inputs, list):
        return [list(part) for part in parts(inputs)]
    return [type(inputs)(zip(inputs, part, strict=True)) for part in parts(inputs.values())]


def scatter_kwargs(
    inputs: tuple[Any, ...], kwargs: dict[str, Any] | None, target_gpus: Sequence[DeviceLike], dim: int = 0
) -> tuple[tuple[Any, ...], tuple[dict[str, Any], ...]]:
    """scatter of positional and keyword arguments; where one kind has fewer parts, empty ones fill up.

    >>> scatter_kwargs((1,), {"a": 2}, [0, 1])
    (((1,), (1,)), ({'a': 2}, {'a': 2}))
    """
    positional = scatter(inputs, target_gpus, dim) if inputs else []
    named = scatter(kwargs, target_gpus, dim) if kwargs else []
    count = max(len(positional), len(named))
    positional += [()] * (count - len(positional))
    named += [{} for _ in range(count - len(named))]
    return tuple(positional), tuple(named)


def _gather_tensors(outputs: Sequence[Tensor], target: _C.device, dim: int) -> Tensor:
    if any(x.device.type == "cpu" for x in outputs):
        raise AssertionError("Gather function not implemented for CPU tensors")
    if dim == 0 and all(x.dim() == 0 for x in outputs):
        warnings.warn(
            "Was asked to gather along dimension 0, but all input tensors were scalars; will instead unsqueeze and "
            "return a vector.",
            stacklevel=4,
        )
        outputs = [x.view(1) for x in outputs]
    return _C.cat([x.to(target) for x in outputs], dim)


def _gathered(outputs: Sequence[Any], join: Callable[[Sequence[Tensor]], Tensor]) -> Any:
    """Results of one structure as one: tensors joined, containers rebuilt."""
    first = outputs[0]
    if isinstance(first, Tensor):
        return join(outputs)
    if first is None:
        return None
    if isinstance(first, Mapping):
        if any(len(out) != len(first) for out in outputs):
            raise ValueError("All dicts must have the same number of keys")
        kind: Any = type(first)
        return kind((key, _gathered([out[key] for out in outputs], join)) for key in first)
    joined = (_gathered(items, join) for items in zip(*outputs, strict=False))
    return type(first)._make(joined) if _is_namedtuple(first) else type(first)(joined)


def gather(outputs: Sequence[Any], target_device: DeviceLike, dim: int = 0) -> Any:
    """One result on the target device from one of each device: tensors are joined along dim.

    >>> gather([None, None], "cpu") is None
    True
    """
    if isinstance(target_device, int) and target_device == -1:
        warnings.warn(
            'Using -1 to represent CPU tensor is deprecated. Please use a device object or string instead, e.g., "cpu".',
            FutureWarning,
            stacklevel=2,
        )
        target_device = "cpu"
    return _gathered(outputs, lambda tensors: _gather_tensors(tensors, as_device(target_device), dim))
