"""Small helpers that programs import from torch.serialization: types of storages, versions of modules, devices to load to."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

from tocha import _C, storage

__all__ = [
    "StorageType", "check_module_version_greater_or_equal", "normalize_storage_type", "storage_to_tensor_type", "validate_cuda_device",
    "validate_hpu_device",
]  # fmt: skip


class StorageType:
    """What the type of a storage is written as where a file names it."""

    def __init__(self, name: str):
        self._name = name

    @property
    def dtype(self) -> Any:
        return getattr(storage, self._name).dtype

    def __str__(self) -> str:
        return f"StorageType(dtype={self.dtype})"


def normalize_storage_type(storage_type: type) -> type:
    """The type's name among the library's own (`tocha.FloatStorage`).

    >>> tocha.serialization.normalize_storage_type(tocha.FloatStorage).__name__
    'FloatStorage'
    """
    return getattr(storage, storage_type.__name__)


def storage_to_tensor_type(obj: Any) -> type:
    """The type of tensors that have storages of this one's type."""
    storage_type = type(obj)
    home = importlib.import_module(storage_type.__module__)
    return getattr(home, storage_type.__name__.replace("Storage", "Tensor"))


def _version_of(module: Any, length: int) -> tuple[int, ...]:
    return tuple(int(part) for part in str(module.__version__).split(".")[:length])


def check_module_version_greater_or_equal(
    module: Any, req_version_tuple: tuple[int, ...], error_if_malformed: bool = True
) -> bool:
    """Whether a module's version is at least this one.

    >>> import types
    >>> check_module_version_greater_or_equal(types.SimpleNamespace(__version__="1.2.3"), (1, 2))
    True
    """
    try:
        return _version_of(module, len(req_version_tuple)) >= req_version_tuple
    except ValueError as error:
        name = getattr(module, "__name__", module)
        message = (
            f"'{name}' module version string is malformed '{module.__version__}' and cannot be compared with tuple "
            f"{req_version_tuple}"
        )
        if error_if_malformed:
            raise RuntimeError(message) from error
        warnings.warn(f"{message}, but continuing assuming that requirement is met", stacklevel=2)
        return True


def validate_cuda_device(location: str) -> int:
    """The index of the CUDA device that a location names, if it is there."""
    cuda = importlib.import_module("tocha.cuda")
    if not cuda.is_available():
        raise RuntimeError(
            "Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False. If you are running on a "
            "CPU-only machine, please use load with map_location=tocha.device('cpu') to map your storages to the CPU."
        )
    index = _C.device(location).index or 0
    if index >= cuda.device_count():
        raise RuntimeError(
            f"Attempting to deserialize object on CUDA device {index} but torch.cuda.device_count() is {cuda.device_count()}. "
            "Please use load with map_location to map your storages to an existing device."
        )
    return index


def validate_hpu_device(location: str) -> int:
    """Refuses: there is no such device."""
    raise RuntimeError(
        "The HPU device module is not registered. If you are running on a CPU-only machine, please use load with "
        "map_location=tocha.device('cpu') to map your storages to the CPU."
    )
