"""Methods of tensors that call Python for every element, and questions about layouts and devices.

`import tocha` puts them onto the class.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

from tocha import _C
from tocha._core.errors import refusing
from tocha._functions import elsewhere
from tocha.overrides import add_method, add_property
from tocha.storage import _warn_typed_storage_removal, legacy_class

Tensor = _C.Tensor
# Kinds of devices that PyTorch has and tocha does not: no tensor is of one.
_ABSENT = ("ipu", "maia", "mkldnn", "mps", "mtia", "vulkan", "xla", "xpu")


def _number(t: Tensor, value: Any) -> Any:
    """What Python computed, as a value for t: numbers for integers are cut off."""
    if not isinstance(value, int | float | complex):
        raise TypeError(f"must be real number, not {type(value).__name__}")
    return value if t.dtype.is_floating_point or t.dtype.is_complex else int(value)  # type: ignore[arg-type]


def _replace(self: Tensor, name: str, others: tuple[Tensor, ...], f: Callable) -> Tensor:
    """Every element of self becomes f of it and of those at its place in the others."""
    if self.requires_grad or any(t.requires_grad for t in others):
        raise RuntimeError(f"Can't call {name}() on Variable that requires grad. Use var.detach().{name}() instead.")
    for t in others:
        if t.dtype != self.dtype:
            raise TypeError(f"{name}: expected {self.type()} for 'other' (got {t.type()})")
    if not callable(f):
        raise TypeError(f"'{type(f).__name__}' object is not callable")
    if self.is_meta:
        return self
    columns = [t.expand(self.shape).flatten().tolist() for t in (self, *others)]
    values = [_number(self, f(*row)) for row in zip(*columns, strict=True)]
    return self.copy_(_C.tensor(values, dtype=self.dtype).reshape(self.shape))


def apply_(self: Tensor, callable: Callable) -> Tensor:
    """Replaces every element by callable(element), one call of Python for each.

    >>> import tocha
    >>> tocha.tensor([1.0, 2.0]).apply_(lambda v: v * 10)
    tensor([10., 20.])
    """
    return _replace(self, "apply_", (), callable)


def map_(self: Tensor, tensor: Tensor, callable: Callable) -> Tensor:
    """Replaces every element by callable(element, the one of tensor at its place).

    >>> x = tocha.tensor([1.0, 2.0])
    >>> x.map_(tocha.tensor([10.0, 20.0]), lambda a, b: a + b)
    tensor([11., 22.])
    """
    return _replace(self, "map_", (tensor,), callable)


def map2_(self: Tensor, x: Tensor, y: Tensor, callable: Callable) -> Tensor:
    """Replaces every element by callable(element, that of x, that of y).

    >>> x = tocha.tensor([1.0, 2.0])
    >>> x.map2_(tocha.tensor([10.0, 20.0]), tocha.tensor([100.0, 200.0]), lambda a, b, c: a + b + c)
    tensor([111., 222.])
    """
    return _replace(self, "map2_", (x, y), callable)


def is_nonzero(self: Tensor) -> bool:
    """Whether the only element is not zero.

    >>> tocha.tensor([2.0]).is_nonzero(), tocha.tensor([0.0]).is_nonzero()
    (True, False)
    """
    return bool(self)


def dim_order(self: Tensor, *, ambiguity_check: bool | list[_C.memory_format] = False) -> tuple[int, ...]:
    """The dims from the one with the widest steps in memory to the one with the narrowest.

    With ambiguity_check there must be one such order, or one of the given formats that the tensor has.

    >>> import tocha
    >>> tocha.ones(1, 2, 3, 3).to(memory_format=tocha.channels_last).dim_order()
    (0, 2, 3, 1)
    """
    formats = ambiguity_check if isinstance(ambiguity_check, list) else []
    if not isinstance(ambiguity_check, bool | list) or not all(isinstance(f, _C.memory_format) for f in formats):
        raise TypeError("The ambiguity_check argument must be a bool or a list of memory formats.")
    if formats:
        if sum(self.is_contiguous(memory_format=f) for f in formats) != 1:
            raise RuntimeError(_AMBIGUOUS)
    elif ambiguity_check is not False and any(n == 1 for n in self.shape):
        raise RuntimeError(_AMBIGUOUS)
    strides = self.stride()
    return tuple(sorted(range(self.dim()), key=lambda d: -strides[d]))


_AMBIGUOUS = "The tensor does not have unique dim order, or cannot map to exact one of the given memory formats."


def resize(self: Tensor, *sizes: Any) -> Tensor:
    """Deprecated: a tensor of as many elements in another shape.

    >>> tocha.arange(4).resize(2, 2)
    tensor([[0, 1],
            [2, 3]])
    """
    warnings.warn("non-inplace resize is deprecated", stacklevel=2)
    return _reshaped(self, _C.Size(sizes[0] if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes))


def resize_as(self: Tensor, tensor: Tensor) -> Tensor:
    """Deprecated: a tensor of as many elements in the shape of another.

    >>> tocha.arange(4).resize_as(tocha.empty(2, 2))
    tensor([[0, 1],
            [2, 3]])
    """
    warnings.warn("non-inplace resize_as is deprecated", stacklevel=2)
    return _reshaped(self, tensor.size())


def _reshaped(self: Tensor, size: _C.Size) -> Tensor:
    if self.numel() != size.numel():
        raise RuntimeError(
            f"requested resize to {'x'.join(map(str, size))} ({size.numel()} elements in total), but the given tensor has "
            f"a size of {'x'.join(map(str, self.size()))} ({self.numel()} elements). autograd's resize can only change the "
            "shape of a given tensor, while preserving the number of elements. "
        )
    return self.contiguous().view(size)


def storage_type(self: Tensor) -> type:
    """The class of the storage by its old name: tocha.FloatStorage, ...

    >>> tocha.ones(2).storage_type().__name__
    'FloatStorage'
    """
    _warn_typed_storage_removal()
    return legacy_class(self.dtype)


def _volatile(self: Tensor) -> bool:
    """Always False; what it was is `no_grad` now."""
    warnings.warn("volatile was removed (Variable.volatile is always False)", stacklevel=2)
    return False


def module_load(self: Tensor, other: Tensor, assign: bool = False) -> Tensor:
    """What load_state_dict puts in self's place when parameters are swapped: other, or self with other's values.

    >>> tocha.zeros(2).module_load(tocha.ones(2))
    tensor([1., 1.])
    """
    return other.detach() if assign else self.copy_(other).detach()


def is_distributed(self: Tensor) -> bool:
    """Whether the tensor lies on several machines: never.

    >>> tocha.ones(2).is_distributed()
    False
    """
    return False


def dequantize(self: Tensor) -> Tensor:
    """self in float32; no tensor is quantized."""
    return self.to(_C.float32)


def const_data_ptr(self: Tensor) -> int:
    """The address of the first element, for reading.

    >>> x = tocha.ones(2)
    >>> x.const_data_ptr() == x.data_ptr()
    True
    """
    return self.data_ptr()


def _refuse_elsewhere() -> None:
    for name in elsewhere.REMOVED_METHODS:
        add_method(name, elsewhere.refused(name))
    for name in elsewhere.QUANTIZED_METHODS:
        add_method(name, elsewhere.without_kernel(name))
    for kind, error in (("ipu", RuntimeError), ("mtia", AssertionError), ("xpu", AssertionError)):
        text = f"not compiled with {kind.upper()} enabled: this build has no support for {kind} devices"
        add_method(kind, refusing(kind, f"To a {kind} device: there is none.", functools.partial(error, text)))
    text = "record_stream needs a tensor on an accelerator: tensors of the CPU belong to no stream"
    text_of_nested = (
        "Could not run 'aten::to_padded_tensor' with arguments from the 'CPU' backend: it is for nested tensors"
    )
    add_method(
        "to_padded_tensor",
        refusing("to_padded_tensor", "For nested tensors only.", lambda: NotImplementedError(text_of_nested)),
    )
    add_method("record_stream", refusing("record_stream", "For tensors on accelerators.", lambda: RuntimeError(text)))


def install() -> None:
    """Puts these onto Tensor; called once by `import tocha`."""
    for method in (
        apply_, map_, map2_, is_nonzero, dim_order, resize, resize_as, storage_type, module_load, is_distributed, dequantize, const_data_ptr
    ):  # fmt: skip
        add_method(method.__name__, method)
    _refuse_elsewhere()
    add_property("volatile", _volatile)
    add_property("name", lambda self: None)
    for kind in _ABSENT:
        add_property(f"is_{kind}", lambda self: False)
