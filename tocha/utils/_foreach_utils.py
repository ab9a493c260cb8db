"""Lists of tensors by device and dtype, for packages whose optimizers go over lists."""

from __future__ import annotations

from typing import Any

from tocha import _C

Indices = list[int]
TensorListList = list[list[_C.Tensor | None]]


def _get_foreach_kernels_supported_devices() -> list[str]:
    """Accelerators whose optimizers go over lists where nobody said how."""
    return ["cuda", "xpu", "mtia", _C._get_privateuse1_backend_name()]


def _get_fused_kernels_supported_devices() -> list[str]:
    """Devices with fused steps."""
    return ["mps", "cuda", "xpu", "hpu", "cpu", "mtia", _C._get_privateuse1_backend_name()]


def _device_has_foreach_support(device: _C.device) -> bool:
    """Whether functions over lists take tensors of the device."""
    return device.type in (*_get_foreach_kernels_supported_devices(), "cpu")


def _has_foreach_support(tensors: list[Any], device: _C.device) -> bool:
    """Whether functions over lists take these."""
    return _device_has_foreach_support(device) and all(t is None or type(t) is _C.Tensor for t in tensors)


def _group_tensors_by_device_and_dtype(
    tensorlistlist: TensorListList, with_indices: bool = False
) -> dict[tuple[_C.device, _C.dtype], tuple[TensorListList, Indices]]:
    """Lists of equal length, taken apart by device and dtype of the first list's tensors.

    >>> import tocha
    >>> one, two = tocha.ones(1), tocha.ones(2, dtype=tocha.float64)
    >>> found = _group_tensors_by_device_and_dtype([[one, two]], with_indices=True)
    >>> found[two.device, two.dtype]
    ([[tensor([1., 1.], dtype=tocha.float64)]], [1])
    """
    found: dict[Any, tuple[TensorListList, Indices]] = {}
    for i, row in enumerate(zip(*tensorlistlist, strict=True)):
        first: Any = row[0]
        lists, indices = found.setdefault((first.device, first.dtype), ([[] for _ in row], []))
        for values, value in zip(lists, row, strict=True):
            values.append(value)
        if with_indices:
            indices.append(i)
    return found
