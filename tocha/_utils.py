"""How saved tensors and parameters are made again. Files name these functions, so they are called as PyTorch calls its own."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from tocha import _C
from tocha.storage import TypedStorage, UntypedStorage, has_legacy_class

Tensor = _C.Tensor
Storage = TypedStorage | UntypedStorage


def _with_metadata(t: Tensor, requires_grad: bool, metadata: dict | None) -> Tensor:
    """metadata may say that the elements are to be read conjugated or negated."""
    metadata = metadata or {}
    if metadata.get("conj"):
        t = t.conj().resolve_conj()
    if metadata.get("neg"):
        t = -t
    return t.requires_grad_(requires_grad) if requires_grad else t


def _placed(storage: UntypedStorage, dtype: _C.dtype, offset: int, size: Any, stride: Any) -> Tensor:
    return _C.empty(0, dtype=dtype, device=storage.device).set_(storage, offset, tuple(size), tuple(stride))


def _rebuild_tensor(storage: TypedStorage, storage_offset: int, size: Any, stride: Any) -> Tensor:
    """A tensor on a storage that knows its dtype."""
    return _placed(storage.untyped(), storage.dtype, storage_offset, size, stride)


def _rebuild_tensor_v2(
    storage: TypedStorage,
    storage_offset: int,
    size: Any,
    stride: Any,
    requires_grad: bool,
    backward_hooks: Any,
    metadata: dict | None = None,
) -> Tensor:
    return _with_metadata(_rebuild_tensor(storage, storage_offset, size, stride), requires_grad, metadata)


def _rebuild_tensor_v3(
    storage: Storage,
    storage_offset: int,
    size: Any,
    stride: Any,
    requires_grad: bool,
    backward_hooks: Any,
    dtype: _C.dtype,
    metadata: dict | None = None,
) -> Tensor:
    """For dtypes that never had a storage class of their own."""
    untyped = storage if isinstance(storage, UntypedStorage) else storage.untyped()
    return _with_metadata(_placed(untyped, dtype, storage_offset, size, stride), requires_grad, metadata)


def _rebuild_meta_tensor_no_storage(dtype: _C.dtype, size: Any, stride: Any, requires_grad: bool) -> Tensor:
    return _C.empty_strided(tuple(size), tuple(stride), dtype=dtype, device="meta", requires_grad=requires_grad)


def _rebuild_parameter(data: Tensor, requires_grad: bool, backward_hooks: Any) -> Tensor:
    from tocha.nn.parameter import Parameter

    return Parameter(data, requires_grad)


def _rebuild_parameter_with_state(data: Tensor, requires_grad: bool, backward_hooks: Any, state: Any) -> Tensor:
    return _set_state(_rebuild_parameter(data, requires_grad, backward_hooks), state)


def _set_state(t: Any, state: Any) -> Any:
    """Gives an object the attributes it was saved with: a dict, or a pair of those in __dict__ and those in slots."""
    attributes, slots = state if isinstance(state, tuple) else (state, None)
    for part in (attributes, slots):
        for name, value in (part or {}).items():
            setattr(t, name, value)
    return t


def _reduce_tensor(t: Tensor) -> tuple:
    """(function, arguments) that make t again, in PyTorch's terms; its storage is handed on as an object."""
    from tocha.nn.parameter import Parameter

    if type(t) is Parameter:
        plain = (t.detach(), t.requires_grad, OrderedDict())
        return (_rebuild_parameter_with_state, (*plain, t.__dict__)) if t.__dict__ else (_rebuild_parameter, plain)
    rebuilt = _reduce_plain(t)
    if type(t) is Tensor and not t.__dict__:
        return rebuilt
    from tocha._tensor import _rebuild_from_type_v2

    return _rebuild_from_type_v2, (rebuilt[0], type(t), rebuilt[1], t.__dict__)


def _reduce_plain(t: Tensor) -> tuple:
    if t.is_meta:
        return _rebuild_meta_tensor_no_storage, (t.dtype, tuple(t.size()), t.stride(), t.requires_grad)
    requires_grad = t.requires_grad
    t = t.detach().resolve_conj().resolve_neg()
    untyped = t.untyped_storage()
    place = (t.storage_offset(), tuple(t.size()), t.stride(), requires_grad, OrderedDict())
    if has_legacy_class(t.dtype):
        return _rebuild_tensor_v2, (TypedStorage(wrap_storage=untyped, dtype=t.dtype), *place)
    return _rebuild_tensor_v3, (untyped, *place, t.dtype)
