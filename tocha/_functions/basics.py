"""Public functions that are Python by nature: defaults, questions about objects, reading arrays."""

from __future__ import annotations

import importlib
import numbers
from typing import Any

from tocha import _C
from tocha._core.switches import warn_once
from tocha._tensor.types import scalar_type_name
from tocha.overrides import wrap_torch_function
from tocha.storage import TypedStorage

__all__ = [
    "asarray", "detach_", "get_device", "get_device_module", "is_complex", "is_conj", "is_floating_point", "is_inference",
    "is_neg", "is_nonzero", "is_same_size", "is_signed", "is_storage", "is_tensor", "numel", "set_default_dtype", "typename",
]  # fmt: skip


@wrap_torch_function(lambda condition, message=None: (condition,))
def _assert(condition: Any, message: str | None = None) -> None:
    """assert as a function, so that it can be traced."""
    assert condition, message


@wrap_torch_function(lambda input, assert_msg=None: (input,))
def _assert_async(
    input: _C.Tensor, assert_msg: str = "Expected Tensor with single nonzero value, but got zero"
) -> None:
    """Raises where a tensor's only element is zero. On an accelerator nothing would wait for it; here it is known at once."""
    if not bool(input):
        raise RuntimeError(assert_msg)


def set_default_dtype(d: _C.dtype) -> None:
    """The dtype of new floating tensors: float32 unless changed.

    >>> tocha.set_default_dtype(tocha.float64)
    >>> tocha.tensor([1.5]).dtype
    tocha.float64
    >>> tocha.set_default_dtype(tocha.float32)
    """
    _C._set_default_dtype(d)


def is_tensor(obj: object) -> bool:
    """Whether obj is a tensor.

    >>> tocha.is_tensor(tocha.ones(2)), tocha.is_tensor([1, 2])
    (True, False)
    """
    return isinstance(obj, _C.Tensor)


def is_storage(obj: object) -> bool:
    """Whether obj is a storage.

    >>> x = tocha.ones(2)
    >>> tocha.is_storage(x.untyped_storage()), tocha.is_storage(x)
    (True, False)
    """
    return isinstance(obj, _C.UntypedStorage | TypedStorage)


def is_floating_point(input: _C.Tensor) -> bool:
    """Whether the dtype is a real floating type."""
    return input.is_floating_point()


def is_complex(input: _C.Tensor) -> bool:
    """Whether the dtype is complex."""
    return input.is_complex()


def _of(name: str, input: object) -> Any:
    """input as a tensor that the function may ask; TypeError if it is none."""
    if not isinstance(input, _C.Tensor):
        raise TypeError(f"{name}(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
    return input


def is_signed(input: _C.Tensor) -> bool:
    """Whether the dtype has negative values."""
    return _of("is_signed", input).is_signed()


def is_conj(input: _C.Tensor) -> bool:
    """Whether the elements in memory are to be read conjugated."""
    return _of("is_conj", input).is_conj()


def is_neg(input: _C.Tensor) -> bool:
    """Whether the elements in memory are to be read negated."""
    return _of("is_neg", input).is_neg()


def is_inference(input: _C.Tensor) -> bool:
    """Whether the tensor was made in inference mode."""
    return _of("is_inference", input).is_inference()


def is_nonzero(input: _C.Tensor) -> bool:
    """Whether the only element is not zero.

    >>> import tocha
    >>> tocha.is_nonzero(tocha.tensor([0.0]))
    False
    """
    return bool(_of("is_nonzero", input))


def is_same_size(input: _C.Tensor, other: _C.Tensor) -> bool:
    """Whether both have the same shape."""
    return _of("is_same_size", input).is_same_size(other)


def get_device(input: _C.Tensor) -> int:
    """The index of the device; -1 on the CPU.

    >>> tocha.get_device(tocha.ones(2))
    -1
    """
    return _of("get_device", input).get_device()


def detach_(input: _C.Tensor) -> _C.Tensor:
    """Takes the tensor out of the graph that made it.

    >>> x = tocha.tensor([1.0], requires_grad=True) * 2
    >>> x.requires_grad
    True
    >>> tocha.detach_(x).requires_grad
    False
    """
    return _of("detach_", input).detach_()


def get_device_module(device: _C.device | str | None = None) -> Any:
    """The module of a kind of device, tocha.cpu or tocha.cuda; without one, of the accelerator, else the CPU.

    >>> import tocha
    >>> tocha.get_device_module("cpu") is tocha.cpu
    True
    """
    if device is not None and not isinstance(device, _C.device | str):
        raise RuntimeError(f"Invalid value of device '{device}', expect tocha.device, str, or None")
    kind = "cpu" if device is None else _C.device(device).type
    if kind not in ("cpu", "cuda"):
        raise RuntimeError(f"Device '{kind}' does not have a corresponding module registered as 'tocha.{kind}'.")
    return importlib.import_module(f"tocha.{kind}")


def numel(input: _C.Tensor) -> int:
    """The number of elements."""
    return input.numel()


def typename(obj: object) -> str:
    """The name of obj's type; for tensors the old style of name, e.g. tocha.FloatTensor.

    >>> tocha.typename(tocha.ones(2)), tocha.typename("text")
    ('tocha.FloatTensor', 'str')
    """
    if isinstance(obj, _C.Tensor):
        return obj.type()
    cls = obj if isinstance(obj, type) else type(obj)
    module = getattr(cls, "__module__", None)
    return f"{module}.{cls.__qualname__}" if module not in (None, "builtins") else cls.__qualname__


@wrap_torch_function(lambda obj, **options: ())
def asarray(
    obj: Any,
    *,
    dtype: _C.dtype | None = None,
    device: Any = None,
    copy: bool | None = None,
    requires_grad: bool | None = None,
) -> _C.Tensor:
    """obj as a tensor: shares memory where it can unless copy is True; with copy=False it must.

    It requires grad if asked to, or, where nothing is said, if obj does.

    >>> import tocha
    >>> tocha.asarray([1, 2])
    tensor([1, 2])
    """
    if isinstance(obj, _C.Tensor):
        t = obj
    elif hasattr(obj, "__array_interface__"):
        if copy is False and isinstance(obj, numbers.Number):
            raise RuntimeError("can't alias NumPy scalars. Either remove copy=False or transform it in a ndarray. ")
        t = _C.as_tensor(obj)
    elif hasattr(obj, "__dlpack__") or type(obj).__name__ == "PyCapsule":
        t = _C.from_dlpack(obj)
    elif _is_buffer(obj):
        t = _C.frombuffer(obj, dtype=dtype or _C.get_default_dtype())
    else:
        if copy is False:
            raise ValueError("can't alias arbitrary sequence into a tensor.")
        t = _C.tensor(obj, dtype=dtype, device=device)
        copy = None
    if requires_grad is None:
        requires_grad = _requires_grad_of(obj)
    if copy is False:
        _must_share(t, dtype, device)
    other = (dtype is not None and t.dtype != dtype) or (device is not None and t.device != _C.device(device))
    if (other or copy) and not requires_grad:
        t = t.detach()
    if other:
        t = t.to(device or t.device, dtype or t.dtype)
    elif copy:
        t = t.clone()
    return _recording(t, requires_grad)


def _requires_grad_of(obj: Any) -> bool:
    """Whether what is made of obj requires grad where nothing was said of it."""
    if not (isinstance(obj, _C.Tensor) and obj.requires_grad):
        return False
    warn_once(
        "torch.asarray: unspecified requires_grad now defaults to obj.requires_grad instead of False. Pass "
        "requires_grad=False explicitly to get the old behavior and silence this warning.",
        stacklevel=4,
    )
    return True


def _must_share(t: _C.Tensor, dtype: _C.dtype | None, device: Any) -> None:
    """Refuses what only a copy could give."""
    if device is not None and t.device != _C.device(device):
        raise ValueError(f"can't alias tensor from device '{t.device}' to '{_C.device(device)}'.")
    if dtype is not None and t.dtype != dtype:
        have, want = scalar_type_name(t.dtype), scalar_type_name(dtype)
        raise ValueError(f"can't alias tensor with dtype '{have}' into dtype '{want}'.")


def _recording(t: _C.Tensor, requires_grad: bool) -> _C.Tensor:
    """t itself, asked to require grad or not; only what has a history has to be another tensor to be free of it."""
    if requires_grad and not (t.is_floating_point() or t.is_complex()):
        raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
    if not t.is_leaf:
        return t if requires_grad else t.detach()
    return t if t.requires_grad == requires_grad else t.requires_grad_(requires_grad)


def _is_buffer(obj: Any) -> bool:
    try:
        memoryview(obj)
    except TypeError:
        return False
    return True
