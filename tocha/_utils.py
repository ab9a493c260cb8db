"""How saved tensors and parameters are made again. Files name these functions, so they are called as PyTorch calls its own.

A file may call them with anything: sizes are held against the storage, which never grows to fit them.
"""

from __future__ import annotations

import importlib
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

from tocha import _C
from tocha._core.saved_state import set_state as _set_state
from tocha._tensor import _rebuild_from_type_v2
from tocha.nn.parameter import Parameter
from tocha.overrides import DisableTorchFunctionSubclass
from tocha.storage import TypedStorage, UntypedStorage, has_legacy_class, typed_storage, untyped_of

Tensor = _C.Tensor
Storage = TypedStorage | UntypedStorage
_LARGEST = 2**63 - 1


class ForeignBytes(UntypedStorage):
    """Bytes of a file in the other byte order; only the tensor that stands on them knows what to swap."""

    swapped = False

    def swap(self, dtype: _C.dtype) -> None:
        """Into this machine's order, once."""
        if not self.swapped and dtype.itemsize > 1:
            self.byteswap(dtype)
        self.swapped = True


def _check_integers(what: str, values: Any) -> tuple[int, ...]:
    if not isinstance(values, tuple | list) or not all(type(v) is int and 0 <= v <= _LARGEST for v in values):
        raise ValueError(f"the {what} of a tensor must be a tuple of numbers from 0 to 2**63-1")
    return tuple(values)


def _count_elements(size: Any) -> int:
    count = 1
    for n in size:
        count *= n
        if count > _LARGEST:  # stops before the number itself is too much work
            raise ValueError("a tensor cannot have more than 2**63-1 elements")
    return count


def _check_geometry(size: Any, stride: Any) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """Sizes, strides, and how many elements lie between the first one and the end of the last."""
    size, stride = _check_integers("size", size), _check_integers("stride", stride)
    if len(size) != len(stride):
        raise ValueError(f"a tensor of {len(size)} dimensions cannot have {len(stride)} strides")
    reach = 1 + sum((n - 1) * step for n, step in zip(size, stride, strict=True)) if _count_elements(size) else 0
    return size, stride, reach


def _placed(storage: UntypedStorage, dtype: _C.dtype, offset: Any, size: Any, stride: Any) -> Tensor:
    """A view of a storage that lies within it."""
    (offset,) = _check_integers("offset", (offset,))
    size, stride, reach = _check_geometry(size, stride)
    end = (offset + reach) * dtype.itemsize
    if reach and end > storage.nbytes():
        raise ValueError(f"a tensor that ends at byte {end} does not fit on a storage of {storage.nbytes()}")
    return _C.empty(0, dtype=dtype, device=storage.device).set_(storage, offset, size, stride)


def _with_metadata(t: Tensor, requires_grad: bool, metadata: dict | None) -> Tensor:
    """metadata may say that the elements are to be read conjugated or negated."""
    if metadata is not None and not isinstance(metadata, dict):
        raise TypeError(f"a tensor's metadata must be a dict, not {type(metadata).__name__}")
    if metadata and metadata.get("conj") is True:
        t = t.conj()
    if metadata and metadata.get("neg") is True:
        t = _C._neg_view(t)
    return t.requires_grad_() if requires_grad is True else t


def _rebuild_tensor(storage: TypedStorage, storage_offset: int, size: Any, stride: Any) -> Tensor:
    """A tensor on a storage that knows its dtype."""
    if not isinstance(storage, TypedStorage):
        raise TypeError(f"a tensor stands on a typed storage, not on {type(storage).__name__}")
    return _placed(untyped_of(storage), storage.dtype, storage_offset, size, stride)


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
    if not isinstance(storage, TypedStorage | UntypedStorage) or not isinstance(dtype, _C.dtype):
        raise TypeError(f"a tensor is made of a storage and a dtype, not of {type(storage).__name__} and {type(dtype)}")
    untyped = untyped_of(storage)
    if isinstance(untyped, ForeignBytes):
        untyped.swap(dtype)
    return _with_metadata(_placed(untyped, dtype, storage_offset, size, stride), requires_grad, metadata)


def _rebuild_meta_tensor_no_storage(dtype: _C.dtype, size: Any, stride: Any, requires_grad: bool) -> Tensor:
    size, stride, _ = _check_geometry(size, stride)
    return _C.empty_strided(size, stride, dtype=dtype, device="meta", requires_grad=requires_grad is True)


def _rebuild_sparse_tensor(layout: Any, data: Any) -> Tensor:
    """A sparse tensor of (indices, values, size) or (indices, values, size, is_coalesced), or of a compressed one's parts."""
    if layout in (_C.sparse_csr, _C.sparse_csc, _C.sparse_bsr, _C.sparse_bsc):
        if not isinstance(data, tuple) or len(data) != 4 or not all(isinstance(part, Tensor) for part in data[:3]):
            raise ValueError("a compressed sparse tensor is made of two tensors of indices, values and size")
        compressed: Any = importlib.import_module("tocha.sparse._compressed_construct")
        return compressed.sparse_compressed_tensor(*data, layout=layout, check_invariants=True)
    if layout is not _C.sparse_coo:
        raise NotImplementedError(f"[load] there are no tensors of layout {layout}")
    if not isinstance(data, tuple) or len(data) not in (3, 4):
        raise ValueError("a sparse tensor is made of indices, values, size and whether it is coalesced")
    make = importlib.import_module("tocha.sparse._construct").sparse_coo_tensor
    return make(*data[:3], check_invariants=True, is_coalesced=data[3] if len(data) == 4 else None)


def _rebuild_nested_tensor(buffer: Any, sizes: Any, strides: Any, storage_offsets: Any) -> Tensor:
    """A nested tensor of strided layout."""
    return importlib.import_module("tocha.nested._strided").rebuild(buffer, sizes, strides, storage_offsets)


def _rebuild_parameter(data: Tensor, requires_grad: bool, backward_hooks: Any) -> Tensor:
    if not isinstance(data, Tensor):
        raise TypeError(f"a parameter is made of a tensor, not of {type(data).__name__}")
    return Parameter(data, requires_grad is True)


def _rebuild_parameter_with_state(data: Tensor, requires_grad: bool, backward_hooks: Any, state: Any) -> Tensor:
    return _set_state(_rebuild_parameter(data, requires_grad, backward_hooks), state)


def _reduce_tensor(t: Tensor) -> tuple:
    """(function, arguments) that make t again, in PyTorch's terms; its storage is handed on as an object."""
    with DisableTorchFunctionSubclass():
        if type(t) is Parameter:
            plain: tuple = (t.detach(), t.requires_grad, OrderedDict())
            return (_rebuild_parameter_with_state, (*plain, t.__dict__)) if t.__dict__ else (_rebuild_parameter, plain)
        rebuilt = _reduce_plain(t)
    if type(t) is Tensor and not t.__dict__:
        return rebuilt
    return _rebuild_from_type_v2, (rebuilt[0], type(t), rebuilt[1], t.__dict__)


def _reduce_plain(t: Tensor) -> tuple:
    if t.is_meta:
        return _rebuild_meta_tensor_no_storage, (t.dtype, tuple(t.size()), t.stride(), t.requires_grad)
    untyped = t.untyped_storage()
    place: tuple = (t.storage_offset(), tuple(t.size()), t.stride(), t.requires_grad, OrderedDict())
    lazy = {name: True for name, applies in (("conj", t.is_conj()), ("neg", t.is_neg())) if applies}
    metadata = (lazy,) if lazy else ()
    if has_legacy_class(t.dtype):
        return _rebuild_tensor_v2, (typed_storage(untyped, t.dtype), *place, *metadata)
    return _rebuild_tensor_v3, (untyped, *place, t.dtype, *metadata)


# -- helpers that packages take from PyTorch's module of this name ------------------------------------------


def _flatten_dense_tensors(tensors: Any) -> Tensor:
    """One tensor of one dimension that holds the elements of all."""
    return _C.cat([t.contiguous().view(-1) for t in tensors])


def _unflatten_dense_tensors(flat: Tensor, tensors: Any) -> tuple[Tensor, ...]:
    """Views of a flat tensor in the shapes of others."""
    parts = flat.split([t.numel() for t in tensors])
    return tuple(part.view(t.shape) for part, t in zip(parts, tensors, strict=True))


def _take_tensors(tensors: Any, size_limit: int) -> Iterator[list[Tensor]]:
    """Tensors in groups of one type, each of about size_limit bytes."""
    waiting: dict[str, list[Tensor]] = {}
    for t in tensors:
        group = waiting.setdefault(t.type(), [])
        held = sum(x.numel() * x.element_size() for x in group)
        if group and held + t.numel() * t.element_size() > size_limit:
            yield group
            group = waiting[t.type()] = []
        group.append(t)
    yield from (group for group in waiting.values() if group)


def _element_size(dtype: _C.dtype) -> int:
    """How many bytes an element has."""
    return dtype.itemsize


def _get_available_device_type() -> str | None:
    """The type of the accelerator that is here."""
    accelerator = importlib.import_module("tocha.accelerator")
    return accelerator.current_accelerator().type if accelerator.is_available() else None


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int | None:
    """The number of a device; of the current one where it is optional and none is said."""
    if isinstance(device, int):
        return device
    found = _C.device(device) if isinstance(device, str) else device
    if isinstance(found, _C.device):
        if found.type == "cpu" and not allow_cpu:
            raise ValueError(f"Expected a non cpu device, but got: {device}")
        if found.type == "cpu" or found.index is not None:
            return -1 if found.type == "cpu" else found.index
    if not optional:
        raise ValueError(f"Expected a torch.device with a specified index or an integer, but got: {device}")
    return None


def _get_device_module(device_type: str) -> Any:
    """The module of a type of device."""
    try:
        return importlib.import_module(f"tocha.{device_type}")
    except ModuleNotFoundError as error:
        raise RuntimeError(
            f"Device '{device_type}' does not have a corresponding module registered as 'torch.{device_type}'."
        ) from error


def is_compiling() -> bool:
    """Whether the code that asks is being captured."""
    return importlib.import_module("tocha.compiler").is_compiling()


def is_captured() -> bool:
    """False; capture goes on with True. It is asked where the compiler must not be loaded for an answer."""
    return False


def _import_dotted_name(name: str) -> Any:
    """What a name with dots means: a module's attribute's attribute."""
    first, *rest = name.split(".")
    found: Any = importlib.import_module(first)
    for part in rest:
        found = getattr(found, part)
    return found


class classproperty:
    """A property of a class: its function is given the class."""

    def __init__(self, func: Any):
        self.fget = func

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self.fget(type(instance) if owner is None else owner)


def __getattr__(name: str) -> Any:
    if name in ("ExceptionWrapper", "KeyErrorMessage"):
        return getattr(importlib.import_module("tocha.utils.data._utils.exceptions"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
