"""Names for types in annotations: numbers, devices, files, storages."""

from __future__ import annotations

import builtins
import os
from typing import IO, Any, TypeAlias

from tocha import _C
from tocha.storage import TypedStorage, UntypedStorage

__all__ = ["Device", "FileLike", "Number", "Storage"]

Number: TypeAlias = int | float | bool
Device: TypeAlias = _C.device | str | int | None
FileLike: TypeAlias = str | os.PathLike[str] | IO[bytes]
Size: TypeAlias = _C.Size
Tensor: TypeAlias = _C.Tensor
IntLikeType: TypeAlias = int
FloatLikeType: TypeAlias = float
BoolLikeType: TypeAlias = bool

_int = builtins.int
_float = builtins.float
_bool = builtins.bool
_complex = builtins.complex
_str = builtins.str
_bytes = builtins.bytes
_dtype = _C.dtype
_device = _C.device
_layout = _C.layout
_size: TypeAlias = _C.Size | list[int] | tuple[int, ...]
_Number = (int, float, bool)
_TensorOrTensors: TypeAlias = _C.Tensor | tuple[_C.Tensor, ...] | list[_C.Tensor]


class _StorageMeta(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, TypedStorage | UntypedStorage)


class Storage(metaclass=_StorageMeta):
    """What typed and untyped storages have in common.

    >>> import tocha
    >>> isinstance(tocha.ones(1).untyped_storage(), Storage)
    True
    """

    _cdata: int
    device: _C.device
    dtype: _C.dtype

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise TypeError("Storage is a name for annotations; make an UntypedStorage")
