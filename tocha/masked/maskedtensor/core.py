"""The masked tensor: data and a mask of one shape; elements whose mask is False are as if they were not there.

What functions of tocha do with one is in FORMS (`operators.py`); pointwise operators run on the data.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeGuard

from tocha import _C
from tocha.autograd.function import Function
from tocha.overrides import DisableTorchFunctionSubclass

Tensor = _C.Tensor
FORMS: dict[Any, Callable] = {}
# What answers for functions without a form: set by operators.py.
FALLBACK: list[Callable] = []
LAYOUTS = (_C.strided, _C.sparse_coo, _C.sparse_csr)


class MaskedTensor(Tensor):
    """Data of which only the elements count whose mask is True.

    >>> from tocha.masked import masked_tensor
    >>> x = masked_tensor(tocha.tensor([1.0, 2.0, 3.0]), tocha.tensor([True, False, True]))
    >>> x
    MaskedTensor(
      [  1.0000,       --,   3.0000]
    )
    >>> x.sum()
    MaskedTensor(  4.0000, True)
    """

    _masked_data: Tensor
    _masked_mask: Tensor

    def __new__(cls, data: Tensor, mask: Tensor, requires_grad: bool = False) -> MaskedTensor:
        check_parts(data, mask)
        made = make(data.detach(), mask)
        made.requires_grad_(requires_grad)
        return made

    def __init__(self, data: Tensor, mask: Tensor, requires_grad: bool = False) -> None:
        pass

    @classmethod
    def __torch_function__(cls, func: Any, types: Sequence[type], args: tuple = (), kwargs: dict | None = None) -> Any:
        form = FORMS.get(func)
        if form is not None:
            return form(*args, **(kwargs or {}))
        return FALLBACK[0](func, args, kwargs or {})

    def get_data(self) -> Tensor:
        """The data, with the elements that do not count."""
        return data_of(self)

    def get_mask(self) -> Tensor:
        """Which elements count."""
        return self._masked_mask

    def to_tensor(self, value: Any) -> Tensor:
        """A dense tensor with `value` where elements do not count."""
        return data_of(self).masked_fill(~self._masked_mask, value)

    layout = property(lambda self: self._masked_data.layout)
    is_sparse = property(lambda self: self._masked_data.layout == _C.sparse_coo)
    is_nested = property(lambda self: False)

    def is_sparse_coo(self) -> bool:
        """Whether the data are sparse in coordinate form."""
        return self._masked_data.layout == _C.sparse_coo

    def is_sparse_csr(self) -> bool:  # type: ignore[override]
        """Whether the data are sparse in rows."""
        return self._masked_data.layout == _C.sparse_csr

    def is_contiguous(self, memory_format: Any = _C.contiguous_format) -> bool:
        """Whether the data are."""
        return self._masked_data.is_contiguous()

    def stride(self, dim: int | None = None) -> Any:
        """The strides of the data."""
        return self._masked_data.stride() if dim is None else self._masked_data.stride(dim)

    def numpy(self, *args: Any, **kwargs: Any) -> Any:
        """Refuses, as for other subclasses."""
        raise RuntimeError(".numpy() is not supported for tensor subclasses.")

    def tolist(self) -> Any:
        """Refuses, as for other subclasses."""
        raise RuntimeError(".tolist() is not supported for tensor subclasses, got MaskedTensor")

    def item(self) -> Any:
        """The one element as a Python number."""
        if self.numel() != 1:
            raise RuntimeError(f"a Tensor with {self.numel()} elements cannot be converted to Scalar")
        return self._masked_data.item()

    def __bool__(self) -> bool:
        if self.numel() != 1:
            raise RuntimeError("Boolean value of Tensor with more than one value is ambiguous")
        return bool(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __iter__(self) -> Any:
        return iter([self[i] for i in range(self.shape[0])])

    def __repr__(self, *args: Any, **kwargs: Any) -> str:
        data, mask = (t.to_dense() if t.layout != _C.strided else t for t in (self._masked_data, self._masked_mask))
        if data.dim() == 0:
            shown = _element(data) if bool(mask) else "--"
            return f"MaskedTensor({shown}, {bool(mask)})"
        return f"MaskedTensor(\n  {_written(data, mask, 1)}\n)"

    __str__ = __repr__

    def __deepcopy__(self, memo: dict) -> Tensor:
        if id(self) not in memo:
            copied = make(self._masked_data.clone(), self._masked_mask.clone())
            memo[id(self)] = copied.requires_grad_(self.requires_grad)
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> Any:  # type: ignore[override]
        return _rebuild, (self._masked_data, self._masked_mask, self.requires_grad)


def _rebuild(data: Tensor, mask: Tensor, requires_grad: bool) -> MaskedTensor:
    return MaskedTensor(data, mask, requires_grad)


def _element(x: Tensor) -> str:
    return f"{x.item():8.4f}" if x.is_floating_point() else str(x.item())


def _written(data: Tensor, mask: Tensor, depth: int) -> str:
    if data.dim() == 1:
        shown = [_element(x) if bool(kept) else "      --" for x, kept in zip(data, mask, strict=True)]
        return f"[{', '.join(shown)}]"
    indent = "  " * (depth + 1)
    rows = [indent + _written(x, kept, depth + 1) for x, kept in zip(data, mask, strict=True)]
    return "[\n" + ",\n".join(rows) + "\n" + "  " * depth + "]"


def check_parts(data: Any, mask: Any) -> None:
    """Refuses what does not make a masked tensor, in PyTorch's words."""
    if not isinstance(data, Tensor) or is_masked_tensor(data):
        raise TypeError("data must be a Tensor")
    if not isinstance(mask, Tensor) or is_masked_tensor(mask):
        raise TypeError("mask must be a Tensor")
    if data.layout not in LAYOUTS:
        raise TypeError(f"data layout of {data.layout} is not supported.")
    if data.layout != mask.layout:
        raise TypeError("data and mask must have the same layout.")
    if mask.dtype != _C.bool:
        raise TypeError("mask must have dtype bool.")
    if not (data.is_floating_point() or data.dtype in (_C.bool, _C.int8, _C.int16, _C.int32, _C.int64, _C.uint8)):
        raise TypeError(f"{data.dtype} is not supported in MaskedTensor.")
    if data.dim() != mask.dim():
        raise ValueError("data.dim() must equal mask.dim()")
    if data.shape != mask.shape:
        raise ValueError("data.size() must equal mask.size()")


def is_masked_tensor(obj: Any, /) -> TypeGuard[MaskedTensor]:
    """Whether an object is a masked tensor.

    >>> import tocha
    >>> tocha.masked.is_masked_tensor(tocha.ones(2))
    False
    """
    return isinstance(obj, MaskedTensor)


def make(data: Tensor, mask: Tensor) -> MaskedTensor:
    """A masked tensor of parts that fit, without history. Sparse data are held where the mask is."""
    if data.layout != _C.strided:
        mask = mask.coalesce() if mask.layout == _C.sparse_coo else mask
        data = data.detach().sparse_mask(mask)
    with DisableTorchFunctionSubclass():
        shape = _C.zeros((), dtype=data.dtype, device=data.device).expand(tuple(data.shape))
        made: MaskedTensor = Tensor._make_subclass(MaskedTensor, shape, False)
    made._masked_data, made._masked_mask = data.detach(), mask
    return made._mark_sparse()


def is_recorded(t: Tensor) -> bool:
    """Whether what is computed from t has a history."""
    return _C.is_grad_enabled() and t.requires_grad


def data_of(t: MaskedTensor) -> Tensor:
    """The data, with the history of t."""
    return _Data.apply(t) if is_recorded(t) else t._masked_data


def build(data: Tensor, mask: Tensor) -> MaskedTensor:
    """A masked tensor with the history of its data."""
    if is_recorded(data):
        name = data.grad_fn.name() if data.grad_fn is not None else "_MaskedBackward"
        return _builder(name).apply(data, mask)
    return make(data, mask)


class _Data(Function):
    """A masked tensor to its data. Elements that do not count have no gradient."""

    @staticmethod
    def forward(ctx: Any, t: MaskedTensor) -> Tensor:
        ctx.mask = t._masked_mask
        return t._masked_data.detach()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return build(grad, ctx.mask)


class _Build(Function):
    """Data to a masked tensor."""

    @staticmethod
    def forward(ctx: Any, data: Tensor, mask: Tensor) -> Tensor:
        ctx.mask = mask
        return make(data, mask)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple:
        data = data_of(grad) if is_masked_tensor(grad) else grad
        if data.layout == _C.strided:
            data = _C.where(ctx.mask, data, _C.zeros((), dtype=data.dtype))
        return data, None


@functools.cache
def _builder(name: str) -> Any:
    """The bridge whose nodes go by the name of what made the data."""
    made: Any = type(name, (_Build,), {})
    made._backward_cls.__name__ = name
    return made
