"""FloatTensor and the other old names of tensor types: constructors of tensors of one dtype on one kind of device.

Tensor.type speaks in their names; set_default_tensor_type takes them; tocha.cuda has its own, which refuse to construct.
"""

from __future__ import annotations

import functools
import importlib
import operator
from typing import Any

from tocha import _C
from tocha._core.library_name import spoken
from tocha._core.switches import warn_once
from tocha.overrides import DisableTorchFunction
from tocha.storage import LEGACY_DTYPES, TypedStorage, UntypedStorage, has_legacy_class, untyped_of

Tensor = _C.Tensor

_NAMES = {getattr(_C, dtype): f"{name.removesuffix('Storage')}Tensor" for name, dtype in LEGACY_DTYPES.items()} | {
    _C.uint16: "UInt16Tensor", _C.uint32: "UInt32Tensor", _C.uint64: "UInt64Tensor",
    _C.float8_e4m3fn: "Float8_e4m3fnTensor", _C.float8_e5m2: "Float8_e5m2Tensor", _C.complex32: "ComplexHalfTensor",
    _C.float8_e4m3fnuz: "Float8_e4m3fnuzTensor", _C.float8_e5m2fnuz: "Float8_e5m2fnuzTensor",
    _C.float8_e8m0fnu: "Float8_e8m0fnuTensor",
}  # fmt: skip
_DTYPES = {name: dtype for dtype, name in _NAMES.items()}
_FORMS = """
 * (*, tocha.device device = None)
 * (tocha.Storage storage)
 * (Tensor other)
 * (tuple of ints size, *, tocha.device device = None)
 * (object data, *, tocha.device device = None)
"""
_ALONE = ("storage", "other", "size", "data")


def scalar_type_name(dtype: _C.dtype) -> str:
    """What messages call a dtype: Float, Double, Long."""
    return _NAMES[dtype].removesuffix("Tensor")


# -- the classes -----------------------------------------------------------------------------------------


class tensortype(type):
    """The type of FloatTensor and its like: calling one makes a Tensor, and tensors are instances by dtype and device."""

    __module__ = "tocha"  # type: ignore[misc]
    dtype: _C.dtype
    layout = _C.strided
    is_sparse = False
    is_xpu = False

    @property
    def is_cuda(cls) -> bool:
        return _device_of(cls) == "cuda"

    def __call__(cls, *args: Any, **kwargs: Any) -> Tensor:
        _check_available(cls)
        args, kwargs = tensortype.named_size(args, kwargs)
        return construct(cls.dtype, args, kwargs)

    @staticmethod
    def named_size(args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
        """A lone Size as the argument of that name: in a captured graph it is a tuple, which by itself is data."""
        if len(args) == 1 and isinstance(args[0], _C.Size):
            return (), {"size": tuple(args[0]), **kwargs}
        return args, kwargs

    def __instancecheck__(cls, instance: object) -> bool:
        return (
            isinstance(instance, Tensor)
            and instance.dtype == cls.dtype
            and instance.device.type == _device_of(cls)
            and instance.layout == _C.strided
        )

    def __getattr__(cls, name: str) -> Any:
        """Methods are Tensor's: FloatTensor.add is Tensor.add."""
        try:
            return getattr(Tensor, name)
        except AttributeError:
            raise AttributeError(f"type object '{cls.__module__}.{cls.__name__}' has no attribute '{name}'") from None


def _device_of(cls: type) -> str:
    """Of tocha.cuda.FloatTensor "cuda"; the types of tocha.sparse are of the CPU, too."""
    return cls.__module__.partition(".")[2].removesuffix("sparse").strip(".") or "cpu"


def _check_available(cls: tensortype) -> None:
    if cls.is_cuda:
        raise TypeError(f"type {cls.__module__}.{cls.__name__} not available. Tocha not compiled with CUDA enabled.")


def _refuse_subclass(cls: Any, **kwargs: Any) -> None:
    base = cls.__mro__[1]
    raise TypeError(f"type '{base.__module__}.{base.__name__}' is not an acceptable base type")


@functools.cache
def types_of(module: str) -> dict[str, tensortype]:
    """FloatTensor, ... of a module: those with a storage class of their own, complex numbers excepted."""
    return {
        name: tensortype(
            name,
            (),
            {
                "__module__": module,
                "__doc__": f"Makes tensors of {dtype}.",
                "dtype": dtype,
                "__init_subclass__": classmethod(_refuse_subclass),
            },
        )
        for dtype, name in _NAMES.items()
        if has_legacy_class(dtype) and not dtype.is_complex
    }


# -- construction ----------------------------------------------------------------------------------------


def _type_name(value: object) -> str:
    """As C names a type: that of a class in Python has no module in it."""
    cls = type(value)
    in_python = bool(cls.__flags__ & _HEAP_TYPE)
    return cls.__name__ if in_python or cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__name__}"


_HEAP_TYPE = 1 << 9


def _shown(value: object) -> str:
    return f"{spoken()}.dtype" if isinstance(value, _C.dtype) else type(value).__name__


def _bad_arguments(args: tuple, kwargs: dict[str, Any]) -> TypeError:
    shown = [_shown(a) for a in args] + [f"{name}={_shown(value)}" for name, value in kwargs.items()]
    return TypeError(
        f"new() received an invalid combination of arguments - got ({', '.join(shown)}), but expected one of:{_FORMS}"
    )


def _is_size(value: object) -> bool:
    """NumPy's integers are sizes, too; booleans, which have __index__ as well, are not."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        return False
    try:
        operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        return False
    return True


def construct(dtype: _C.dtype, args: tuple, kwargs: dict[str, Any]) -> Tensor:
    """What the old constructors make of sizes, data, a storage or another tensor.

    >>> import tocha
    >>> tocha.LongTensor([1, 2]), tocha.FloatTensor(2, 3).shape
    (tensor([1, 2]), tocha.Size([2, 3]))
    """
    with DisableTorchFunction():  # what is called to construct is nobody's business
        return _construct(dtype, args, kwargs, any_tensor=False)


def construct_default(args: tuple, kwargs: dict[str, Any]) -> Tensor:
    """Tensor(...): tensors of any dtype are taken as they are, all else gets the default dtype."""
    with DisableTorchFunction():
        return _construct(_C.get_default_dtype(), args, kwargs, any_tensor=True)


def _construct(dtype: _C.dtype, args: tuple, kwargs: dict[str, Any], any_tensor: bool) -> Tensor:
    options = dict(kwargs)
    device = options.pop("device", None)
    if not set(options) <= set(_ALONE) or (options and len(options) + len(args) > 1):
        raise _bad_arguments(args, kwargs)
    if device is not None and _C.device(device).type != "cpu":
        raise RuntimeError(
            f"legacy constructor expects device type: cpu but device type: {_C.device(device).type} was passed"
        )
    if options:
        ((name, value),) = options.items()
        if name == "size" and not isinstance(value, tuple | list):
            raise _bad_arguments(args, kwargs)
        if name == "data":
            return _of_data(dtype, value)
        return _of_sizes(dtype, value) if name == "size" else _of_one(dtype, value, any_tensor)
    if len(args) == 1 and (isinstance(args[0], Tensor) or not _is_size(args[0])):
        return _of_sizes(dtype, args[0]) if isinstance(args[0], _C.Size) else _of_one(dtype, args[0], any_tensor)
    if args and not _is_size(args[0]):
        raise _bad_arguments(args, kwargs)
    return _of_sizes(dtype, args or (0,))


def _of_sizes(dtype: _C.dtype, sizes: Any) -> Tensor:
    for place, size in enumerate(sizes, 1):
        reason = ""
        if not _is_size(size):
            reason = f"type must be tuple of ints,but got {type(size).__name__}"
        elif not -(1 << 63) <= operator.index(size) < 1 << 63:
            reason = "Overflow when unpacking long long"
        if reason:
            raise TypeError(
                f"new(): argument 'size' failed to unpack the object at pos {place} with error \"{reason}\""
            )
    return _C.empty(tuple(operator.index(s) for s in sizes), dtype=dtype)


def _of_one(dtype: _C.dtype, value: Any, any_tensor: bool) -> Tensor:
    if isinstance(value, TypedStorage | UntypedStorage):
        return _on_storage(dtype, value)
    if isinstance(value, Tensor):
        return _aliased(value) if any_tensor else _alias(dtype, value)
    return _of_data(dtype, value)


def _of_data(dtype: _C.dtype, value: Any) -> Tensor:
    if isinstance(value, str | bytes):
        raise TypeError(f"new(): invalid data type '{type(value).__name__}'")
    if isinstance(value, dict | Tensor) or not hasattr(type(value), "__getitem__") or _is_number(value):
        raise TypeError(f"new(): data must be a sequence (got {_type_name(value)})")
    return _C.tensor(value, dtype=dtype)


def _is_number(value: Any) -> bool:
    """NumPy's scalars, which have __getitem__."""
    return hasattr(value, "__array_interface__") and value.__array_interface__["shape"] == ()


def _on_storage(dtype: _C.dtype, storage: Any) -> Tensor:
    if isinstance(storage, TypedStorage) and storage.dtype != dtype:
        wanted, given = (_NAMES[d].removesuffix("Tensor") for d in (dtype, storage.dtype))
        raise RuntimeError(
            f"Expected a Storage of type {wanted} or an UntypedStorage, but got type {given} for argument 1 'storage'"
        )
    untyped = untyped_of(storage)
    return _C.empty(0, dtype=dtype).set_(untyped, 0, (untyped.nbytes() // dtype.itemsize,), (1,))


def _alias(dtype: _C.dtype, other: Tensor) -> Tensor:
    if other.dtype != dtype or other.device.type != "cpu":
        raise TypeError(f"expected {dtype} on cpu (got {other.dtype} on {other.device.type})")
    return _aliased(other)


def _aliased(tensor: Tensor) -> Tensor:
    """As an operator, which graphs can have: as_subclass would take a fake tensor for a plain one."""
    return importlib.import_module("tocha._ops").ops.aten.alias(tensor)


# -- names -----------------------------------------------------------------------------------------------


def _name_of(t: Tensor) -> str:
    where = "" if t.device.type == "cpu" else t.device.type + "."
    layout = "sparse." if t.layout == _C.sparse_coo else ""
    return f"{spoken()}.{where}{layout}{_NAMES[t.dtype]}"


def _parsed(name: str) -> tuple[str, _C.dtype]:
    """The device and dtype of tocha.FloatTensor, torch.cuda.FloatTensor, ..."""
    library, *device, kind = name.split(".") if "." in name else ("", name)
    if device[-1:] == ["sparse"]:
        device.pop()  # a name's layout says nothing: only dtype and device are converted
    if library not in ("tocha", "torch") or device not in ([], ["cuda"], ["meta"]) or kind not in _DTYPES:
        raise ValueError(f"invalid type: '{name}'")
    return device[0] if device else "cpu", _DTYPES[kind]


def type_of(self: Tensor, dtype: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:
    """The old style of type name, or self converted to a dtype, such a name, or such a type.

    >>> import tocha
    >>> tocha.ones(2).type()
    'tocha.FloatTensor'
    >>> tocha.ones(2).type(tocha.LongTensor)
    tensor([1, 1])
    """
    if dtype is None:
        return _name_of(self)
    if isinstance(dtype, _C.dtype):
        return self.to(dtype, non_blocking)
    if dtype is Tensor:
        return self.to("cpu", _C.get_default_dtype(), non_blocking)
    if isinstance(dtype, tensortype):
        return self.to(_device_of(dtype), dtype.dtype, non_blocking)
    if isinstance(dtype, str):
        return self.to(*_parsed(dtype), non_blocking)
    if isinstance(dtype, type):
        raise ValueError(f"invalid type: '{dtype.__name__}'")
    raise TypeError("dtype must be a type, str, or dtype object")


def _find(name: str) -> Any:
    module, _, attribute = name.rpartition(".")
    if module.partition(".")[0] == "torch":
        module = "tocha" + module[len("torch") :]
    return getattr(importlib.import_module(module), attribute) if module else importlib.import_module(attribute)


def set_default_tensor_type(t: Any, /) -> None:
    """Deprecated: sets the default dtype by a tensor type or its name; set_default_dtype and set_default_device do the same.

    >>> import tocha
    >>> tocha.set_default_tensor_type(tocha.FloatTensor)
    >>> tocha.get_default_dtype()
    tocha.float32
    """
    warn_once(
        "tocha.set_default_tensor_type() is deprecated as of PyTorch 2.1, please use tocha.set_default_dtype() and "
        "tocha.set_default_device() as alternatives."
    )
    kind = _find(t) if isinstance(t, str) else t
    if not isinstance(kind, tensortype):
        raise TypeError("invalid type object: only floating-point types are supported as the default type")
    _check_available(kind)
    if not kind.dtype.is_floating_point:
        raise TypeError("only floating-point types are supported as the default type")
    _C._set_default_dtype(kind.dtype)
