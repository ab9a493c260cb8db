"""Methods that only sparse tensors have a use for, and those that answer for all that a tensor is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tocha import autograd
from tocha.overrides import DisableTorchFunctionSubclass
from tocha.sparse._construct import sparse_mask, to_dense
from tocha.sparse._history import build, coalesced, is_recorded, values_of
from tocha.sparse._tensor import SparseTensor, Tensor, form_of, make, replace, sparse_dims


def method_of(*names: str) -> Callable:
    """Puts a function onto the class, and makes it the form of operators of these names."""

    def put(f: Callable) -> Callable:
        for name in names:
            setattr(SparseTensor, name, f)
        return form_of(*names)(f)

    return put


method_of("to_dense")(to_dense)
method_of("sparse_mask")(sparse_mask)
method_of("coalesce")(coalesced)


def _compressed_only(name: str, what: str) -> None:
    def refuse(self: SparseTensor) -> Tensor:
        raise RuntimeError(f"{name} expected sparse {what} compressed tensor layout but got Sparse")

    refuse.__doc__ = "For compressed tensors only."
    method_of(name)(refuse)


for _part, _what in (("crow", "row"), ("col", "row"), ("ccol", "column"), ("row", "column")):
    _compressed_only(f"{_part}_indices", _what)


@method_of("is_coalesced")
def _is_coalesced(self: SparseTensor) -> bool:
    """Whether every coordinate occurs once, in order."""
    return self._coo_coalesced


def _check_coalesced(t: SparseTensor, part: str) -> None:
    if not t._coo_coalesced:
        raise RuntimeError(f"Cannot get {part} on an uncoalesced tensor, please call .coalesce() first")


@method_of("indices")
def _indices_of(self: SparseTensor) -> Tensor:
    """The coordinates of a coalesced tensor, a column for each value."""
    _check_coalesced(self, "indices")
    return self._coo_indices.detach()


@method_of("values")
def _values_of(self: SparseTensor) -> Tensor:
    """The values of a coalesced tensor; they have its history."""
    _check_coalesced(self, "values")
    return values_of(self) if is_recorded(self) else self._coo_values.detach()


@method_of("_indices")
def _plain_indices(self: SparseTensor) -> Tensor:
    """The coordinates as they are held."""
    return self._coo_indices.detach()


@method_of("_values")
def _plain_values(self: SparseTensor) -> Tensor:
    """The values as they are held, without history; to write to them changes the tensor."""
    return self._coo_values.detach()


@method_of("_nnz")
def _count(self: SparseTensor) -> int:
    """How many values there are, zeros and equal coordinates included."""
    return self._coo_values.size(0)


@method_of("sparse_dim", "_dimI")
def _sparse_dim(self: SparseTensor) -> int:
    """How many dimensions the coordinates are of."""
    return sparse_dims(self)


@method_of("dense_dim", "_dimV")
def _dense_dim(self: SparseTensor) -> int:
    """How many dimensions a value has."""
    return self.dim() - sparse_dims(self)


@method_of("_coalesced_")
def _set_coalesced(self: SparseTensor, coalesced: bool) -> SparseTensor:
    """Says that every coordinate occurs once, in order."""
    self._coo_coalesced = bool(coalesced)
    return self


def with_values(t: SparseTensor, name: str, values: Tensor) -> SparseTensor:
    """A tensor with t's coordinates and other values."""
    return build(name, values, t._coo_indices, t.shape, t._coo_coalesced, t._coo_checked)


@method_of("clone")
def clone(self: SparseTensor, *, memory_format: Any = None) -> SparseTensor:
    """A copy with its own indices and values."""
    indices = self._coo_indices.clone()
    return build("Clone", values_of(self).clone(), indices, self.shape, self._coo_coalesced, self._coo_checked)


@method_of("detach")
def detach(self: SparseTensor) -> SparseTensor:
    """The same values without history."""
    return make(self._coo_indices, self._coo_values, self.shape, self._coo_coalesced, self._coo_checked)


def _set_data(self: SparseTensor, new: Tensor) -> None:
    with DisableTorchFunctionSubclass():
        Tensor.data.__set__(self, new)
    replace(self, new)  # type: ignore[arg-type]


SparseTensor.data = property(detach, _set_data)  # type: ignore[assignment]


@method_of("copy_")
def copy_(self: Tensor, src: Tensor, non_blocking: bool = False) -> Tensor:
    """Gives self the indices and the values of src, both sparse."""
    if not isinstance(self, SparseTensor) or not isinstance(src, SparseTensor):
        raise RuntimeError("copy_() between dense and sparse Tensors is not implemented!")
    check_writable(self)
    if self.shape != src.shape:
        raise RuntimeError(f"[copy_] expected a source of shape {tuple(self.shape)}, got {tuple(src.shape)}")
    return replace(self, clone(src.detach().to(self.dtype)))


def check_writable(t: SparseTensor) -> None:
    """Refuses to change a sparse tensor whose gradient is wanted."""
    if is_recorded(t):
        what = "a leaf Variable that requires grad" if t.is_leaf else "a sparse tensor with a history"
        raise RuntimeError(f"{what} is being used in an in-place operation.")


def _converting(name: str) -> Callable:
    """The sparse form of a conversion: self where nothing is to be done."""

    def convert(self: SparseTensor, *args: Any, **kwargs: Any) -> SparseTensor:
        if getattr(self._coo_values, name)(*args, **kwargs) is self._coo_values:
            return self
        values = getattr(values_of(self), name)(*args, **kwargs)
        if not isinstance(values, Tensor):
            raise NotImplementedError(f"[{name}] has no form for sparse tensors; call to_dense() first")
        indices = self._coo_indices.to(values.device)
        return build("ToCopy", values, indices, self.shape, self._coo_coalesced, self._coo_checked)

    return convert


for _name in ("to", "double", "float", "half", "bfloat16", "long", "int", "short", "char", "byte", "bool", "cpu"):
    method_of(_name)(_converting(_name))
_convert_type = _converting("type")


@method_of("type")
def _type(self: SparseTensor, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
    """The name of the old class of such tensors, or a tensor of another dtype."""
    if dtype is None:
        return self._coo_values.type().replace(".", ".sparse.", 1)  # type: ignore[union-attr]
    return _convert_type(self, dtype, *args, **kwargs)


@method_of("item")
def _item(self: SparseTensor) -> Any:
    """The one element as a Python number."""
    if self.numel() != 1:
        raise RuntimeError(f"a Tensor with {self.numel()} elements cannot be converted to Scalar")
    return to_dense(detach(self)).item()


@method_of("numpy", "__array__")
def _numpy(self: SparseTensor, *args: Any, **kwargs: Any) -> Any:
    """Refuses: NumPy has no such arrays."""
    raise TypeError("can't convert Sparse layout tensor to numpy. Use Tensor.to_dense() first.")


@method_of("__dlpack__")
def _dlpack(self: SparseTensor, *args: Any, **kwargs: Any) -> Any:
    """Refuses: only strided tensors are exchanged."""
    raise BufferError("Can't export tensors with layout other than tocha.strided")


@method_of("untyped_storage", "storage", "share_memory_")
def _storage(self: SparseTensor, *args: Any) -> Any:
    """Refuses: indices and values have storages, the tensor has none."""
    raise NotImplementedError("Cannot access storage of a sparse tensor; its indices and values have one each")


@method_of("data_ptr")
def _data_ptr(self: SparseTensor) -> int:
    """Refuses: there is no memory for all elements."""
    raise RuntimeError("Cannot access data pointer of Tensor that doesn't have storage")


@method_of("is_pinned", "is_shared")
def _false(self: SparseTensor, *args: Any) -> bool:
    """False, for what only storages are."""
    return False


def _nbytes(self: SparseTensor) -> int:
    raise RuntimeError(
        "nbytes is not defined for sparse tensors. If you want the size of the constituent tensors, add the nbytes of the "
        "indices and values. If you want the size of the equivalent dense tensor, multiply numel() by element_size()"
    )


SparseTensor.nbytes = property(_nbytes)  # type: ignore[assignment]


@form_of("backward")
def _backward(
    self: SparseTensor, gradient: Any = None, retain_graph: Any = None, create_graph: bool = False, inputs: Any = None
) -> None:
    autograd.backward(self, gradient, retain_graph, create_graph, inputs=inputs)
