"""What compressed sparse tensors answer and how they are changed: indices, values, copies, conversions, selections."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tocha import _C, autograd
from tocha.overrides import DisableTorchFunctionSubclass
from tocha.sparse._compressed import BLOCKED, BY_ROWS, form, group_of_each, make_compressed, places
from tocha.sparse._compressed_construct import to_dense, to_layout, to_sparse
from tocha.sparse._compressed_history import held, rebuild, values_at, with_held
from tocha.sparse._history import build, is_recorded
from tocha.sparse._tensor import COMPRESSED_FORMS, CompressedTensor, Tensor, form_of, layout_name, refuse_compressed

OTHER = {
    _C.sparse_csr: _C.sparse_csc,
    _C.sparse_csc: _C.sparse_csr,
    _C.sparse_bsr: _C.sparse_bsc,
    _C.sparse_bsc: _C.sparse_bsr,
}


def compressed_form(*names: str) -> Callable:
    """Makes a function the form of operators of these names for compressed tensors."""
    return form_of(*names, table=COMPRESSED_FORMS)


def _method(*names: str) -> Callable:
    """Puts a function onto the class too."""

    def put(f: Callable) -> Callable:
        for name in names:
            setattr(CompressedTensor, name, f)
        return compressed_form(*names)(f)

    return put


def _property(name: str) -> Callable:
    def put(f: Callable) -> Callable:
        setattr(CompressedTensor, name, property(f))
        compressed_form(name)(f)
        return f

    return put


_method("to_sparse", "to_sparse_coo")(to_sparse)
_method("to_dense")(to_dense)


@_property("layout")
def _layout(self: CompressedTensor) -> Any:
    return self._kind


@_property("is_sparse")
def _is_sparse(self: CompressedTensor) -> bool:
    return False


@_property("is_sparse_csr")
def _is_sparse_csr(self: CompressedTensor) -> bool:
    return self._kind == _C.sparse_csr


def _index_method(name: str, part: str, by_rows: bool) -> None:
    what = "row" if by_rows else "column"

    def read(self: CompressedTensor) -> Tensor:
        if (self._kind in BY_ROWS) != by_rows:
            raise RuntimeError(
                f"{name} expected sparse {what} compressed tensor layout but got {layout_name(self._kind)}"
            )
        return getattr(self, part).detach()

    read.__doc__ = f"The {name.replace('_', ' ')} of the tensor."
    _method(name)(read)


_index_method("crow_indices", "_groups", True)
_index_method("col_indices", "_within", True)
_index_method("ccol_indices", "_groups", False)
_index_method("row_indices", "_within", False)


@_method("values")
def _values(self: CompressedTensor) -> Tensor:
    """The values; they have the tensor's history."""
    return held(self) if is_recorded(self) else self._held.detach()


@_method("_nnz")
def _nnz(self: CompressedTensor) -> int:
    """How many values, or blocks, each matrix holds."""
    return self._within.size(-1)


@_method("sparse_dim", "_dimI")
def _sparse_dim(self: CompressedTensor) -> int:
    """Two: rows and columns."""
    return 2


@_method("dense_dim", "_dimV")
def _dense_dim(self: CompressedTensor) -> int:
    """How many dimensions a value has."""
    return len(form(self).dense)


def _coordinates_only(name: str) -> None:
    def refuse(self: CompressedTensor, *args: Any) -> Any:
        raise RuntimeError(f"{name} expected sparse coordinate tensor layout but got {layout_name(self._kind)}")

    refuse.__doc__ = "For tensors in coordinate form only."
    _method(name)(refuse)


for _name in ("indices", "coalesce", "is_coalesced"):
    _coordinates_only(_name)


def _short_name(self: CompressedTensor) -> str:
    return layout_name(self._kind).removeprefix("Sparse").upper()


@_method("stride")
def _stride(self: CompressedTensor, *args: Any) -> Any:
    """Refuses: there is no memory for all elements."""
    raise RuntimeError(f"Sparse {_short_name(self)} tensors do not have strides")


@_method("is_contiguous", "contiguous", "reshape", "flatten", "ravel")
def _is_contiguous(self: CompressedTensor, *args: Any, **kwargs: Any) -> Any:
    """Refuses: there is no memory for all elements."""
    raise RuntimeError(f"Sparse {_short_name(self)} tensors do not have is_contiguous")


compressed_form("squeeze", "unsqueeze", "diagonal", "narrow", "sort", "argsort")(_stride)


@_method("untyped_storage", "storage", "share_memory_", "is_shared")
def _storage(self: CompressedTensor, *args: Any) -> Any:
    """Refuses: indices and values have storages, the tensor has none."""
    raise NotImplementedError("Cannot access storage of SparseCsrTensorImpl; its indices and values have one each")


@_method("data_ptr", "tolist")
def _data_ptr(self: CompressedTensor) -> Any:
    """Refuses: there is no memory for all elements."""
    raise RuntimeError("Cannot access data pointer of Tensor that doesn't have storage")


@_method("numpy", "__array__")
def _numpy(self: CompressedTensor, *args: Any, **kwargs: Any) -> Any:
    """Refuses: NumPy has no such arrays."""
    raise TypeError(f"can't convert {layout_name(self._kind)} layout tensor to numpy. Use Tensor.to_dense() first.")


@_method("__dlpack__")
def _dlpack(self: CompressedTensor, *args: Any, **kwargs: Any) -> Any:
    """Refuses: only strided tensors are exchanged."""
    raise BufferError("Can't export tensors with layout other than tocha.strided")


@_method("is_pinned")
def _is_pinned(self: CompressedTensor, *args: Any) -> bool:
    """False: the parts are ordinary memory."""
    return False


@_method("item")
def _item(self: CompressedTensor) -> Any:
    """The one element as a Python number."""
    if self.numel() != 1:
        raise RuntimeError(f"a Tensor with {self.numel()} elements cannot be converted to Scalar")
    return to_dense(detach(self)).item()


def _nbytes(self: CompressedTensor) -> int:
    return self.numel() * self.element_size()


CompressedTensor.nbytes = property(_nbytes)  # type: ignore[assignment]


# -- copies ----------------------------------------------------------------------------------------------


@_method("clone")
def clone(self: CompressedTensor, *, memory_format: Any = None) -> CompressedTensor:
    """A copy with its own indices and values."""
    parts = (self._groups.clone(), self._within.clone(), self.shape, self._checked)
    return rebuild("Clone", held(self).clone(), self._kind, *parts)


@_method("detach")
def detach(self: CompressedTensor) -> CompressedTensor:
    """The same values without history."""
    return make_compressed(self._kind, self._groups, self._within, self._held, self.shape, self._checked)


def _deepcopy(self: CompressedTensor, memo: dict) -> Tensor:
    if id(self) in memo:
        return memo[id(self)]
    if not self.is_leaf:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment."
        )
    new = clone(detach(self)).requires_grad_(self.requires_grad)
    if self.grad is not None:
        new.grad = self.grad.clone()
    memo[id(self)] = new
    return new


CompressedTensor.__deepcopy__ = _deepcopy  # type: ignore[attr-defined]


def replace(t: CompressedTensor, new: Any) -> CompressedTensor:
    """Gives t the parts of another tensor of its shape and layout: what operations in place end with."""
    if new.dtype != t.dtype:
        raise RuntimeError(f"result type {new.dtype} can't be cast to the desired output type {t.dtype}")
    t._groups, t._within, t._held, t._checked = new._groups, new._within, new._held, new._checked
    t._bump_version()
    return t


def check_writable(t: CompressedTensor) -> None:
    """Refuses to change a sparse tensor whose gradient is wanted."""
    if is_recorded(t):
        what = "a leaf Variable that requires grad" if t.is_leaf else "a sparse tensor with a history"
        raise RuntimeError(f"{what} is being used in an in-place operation.")


def _set_data(self: CompressedTensor, new: Tensor) -> None:
    with DisableTorchFunctionSubclass():
        Tensor.data.__set__(self, new)
    self._size = new._size  # type: ignore[attr-defined]
    replace(self, new)


CompressedTensor.data = property(detach, _set_data)  # type: ignore[assignment]


@_method("copy_")
def copy_(self: Tensor, src: Tensor, non_blocking: bool = False) -> Tensor:
    """Gives self the values of src: both of one layout, with as many values."""
    if not isinstance(self, CompressedTensor):
        raise RuntimeError(
            f"copy_sparse_compressed_ expected sparse compressed tensor layout but got {layout_name(self.layout)}"
        )
    if not isinstance(src, CompressedTensor) or src._kind != self._kind:
        raise RuntimeError(
            "torch.copy_: copy of sparse compressed tensors having different layouts is not supported. "
            f"self layout is {layout_name(self._kind)} and src layout is {layout_name(src.layout)}"
        )
    check_writable(self)
    if self.shape != src.shape:
        raise RuntimeError(f"[copy_] expected a source of shape {tuple(self.shape)}, got {tuple(src.shape)}")
    if self._nnz() != src._nnz():
        raise RuntimeError(
            "torch.copy_: only sparse compressed tensors with the same number of specified elements are supported."
        )
    return replace(self, clone(src.detach().to(self.dtype)))


def _converting(name: str) -> Callable:
    """The form of a conversion: self where nothing is to be done."""

    def convert(self: CompressedTensor, *args: Any, **kwargs: Any) -> CompressedTensor:
        if getattr(self._held, name)(*args, **kwargs) is self._held:
            return self
        values = getattr(held(self), name)(*args, **kwargs)
        if not isinstance(values, Tensor):
            refuse_compressed(name, (self,))
        groups, within = self._groups.to(values.device), self._within.to(values.device)
        return rebuild("ToCopy", values, self._kind, groups, within, self.shape, self._checked)

    return convert


for _name in ("to", "double", "float", "half", "bfloat16", "long", "int", "short", "char", "byte", "bool", "cpu"):
    _method(_name)(_converting(_name))
for _name in ("cfloat", "cdouble"):
    _method(_name)(_converting(_name))


@_method("type")
def _type(self: CompressedTensor, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
    """A tensor of another dtype; there is no old class of such tensors."""
    if dtype is None:
        raise RuntimeError(f"Unimplemented backend {layout_name(self._kind)}CPU")
    return self.to(dtype)


@compressed_form("backward")
def _backward(
    self: Tensor, gradient: Any = None, retain_graph: Any = None, create_graph: bool = False, inputs: Any = None
) -> None:
    autograd.backward(self, gradient, retain_graph, create_graph, inputs=inputs)


@_method("sparse_mask")
def sparse_mask(self: Tensor, mask: Tensor) -> Tensor:
    """The elements of self at the indices of a compressed mask, in its layout."""
    if not isinstance(mask, CompressedTensor):
        raise NotImplementedError(
            f"[sparse_mask] no form for {layout_name(self.layout)} with a mask of {layout_name(mask.layout)}"
        )
    if self.shape != mask.shape:
        raise RuntimeError(
            "sparse_mask(): operands have incompatible sizes; "
            f"self has size {list(self.shape)} but mask has size {list(mask.shape)}"
        )
    return with_held(mask, "SparseMask", values_at(self, mask))


# -- transposes and selections ---------------------------------------------------------------------------


def wrapped(dim: int, count: int) -> int:
    """A dim counted from the front."""
    if not -max(count, 1) <= dim < max(count, 1):
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-max(count, 1)}, {max(count, 1) - 1}], but got {dim})"
        )
    return dim % max(count, 1)


@compressed_form("transpose", "swapaxes", "swapdims")
def transpose(input: CompressedTensor, dim0: int, dim1: int) -> Tensor:
    """The tensor with rows for columns: the other layout of the same parts. Or with two batch dims exchanged."""
    a, b = wrapped(dim0, input.dim()), wrapped(dim1, input.dim())
    batch, found = input._groups.dim() - 1, form(input)
    kinds = ["Batch" if d < batch else "Sparse" if d < batch + 2 else "Dense" for d in (a, b)]
    if found.dense:
        raise RuntimeError("transpose(): hybrid sparse compressed tensors with dense dimensions are not supported")
    if kinds[0] != kinds[1]:
        raise RuntimeError(
            "transpose(): can only transpose dimensions of the same type (Batch, Sparse, Dense), "
            f"got {a}({kinds[0]}) and {b}({kinds[1]})"
        )
    size = list(input.shape)
    size[a], size[b] = size[b], size[a]
    values = held(input)
    if kinds[0] == "Batch":
        groups, within = input._groups.transpose(a, b), input._within.transpose(a, b)
        return rebuild("Transpose", values.transpose(a, b), input._kind, groups, within, size, input._checked)
    if a == b:
        return with_held(input, "Transpose", values)
    if found.block:
        values = values.transpose(batch + 1, batch + 2)
    return rebuild("Transpose", values, OTHER[input._kind], input._groups, input._within, size, input._checked)


@compressed_form("t")
def t(input: CompressedTensor) -> Tensor:
    """A matrix transposed."""
    if input.dim() > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {input.dim()}D")
    made = transpose(input, 0, 1)
    return made


@compressed_form("mT", "adjoint", "mH")
def _transposed_matrices(input: CompressedTensor) -> Tensor:
    return transpose(input, -2, -1)


@compressed_form("select")
def select(input: CompressedTensor, dim: int, index: int) -> Tensor:
    """A slice: of a batch or a dense dimension in the same layout, a row or a column in coordinate form."""
    d = wrapped(dim, input.dim())
    if not -input.size(d) <= index < input.size(d):
        raise IndexError(
            f"select(): index {index} out of range for tensor of size {list(input.shape)} at dimension {d}"
        )
    at, batch = index % input.size(d), input._groups.dim() - 1
    size = [n for i, n in enumerate(input.shape) if i != d]
    values = held(input)
    if d < batch:
        parts = (input._groups.select(d, at), input._within.select(d, at))
        return rebuild("Select", values.select(d, at), input._kind, *parts, size, input._checked)
    if d >= batch + 2:
        block = 2 if input._kind in BLOCKED else 0
        return rebuild("Select", values.select(d - 1 + block, at), input._kind, input._groups, input._within, size)
    if batch:
        raise RuntimeError(
            "select(): selecting sparse dimensions is not supported for batched sparse compressed tensors."
        )
    if input._kind in BLOCKED:
        raise RuntimeError("select(): no view exists for the given input, consider using torch.select_copy.")
    places(input)  # refuses indices beyond the shape
    if (d == 0) == (input._kind in BY_ROWS):
        first, last = int(input._groups[at]), int(input._groups[at + 1])
        indices, chosen = input._within[first:last], values[first:last]
    else:
        which = (input._within == at).nonzero()[:, 0]
        indices, chosen = group_of_each(input._groups)[which], values.index_select(0, which)
    return build("Select", chosen, indices.to(_C.int64).unsqueeze(0), size, True)


def _getitem(self: Tensor, index: Any) -> Tensor:
    if not isinstance(self, CompressedTensor):
        raise IndexError("[__getitem__] tensors used as indices must be strided")
    chosen: Any = self
    for one in index if isinstance(index, tuple) else (index,):
        if not isinstance(one, int) or isinstance(one, bool):
            _stride(self)
        chosen = _element(chosen, one) if not isinstance(chosen, CompressedTensor) else select(chosen, 0, one)
    return chosen


def _element(t: Tensor, index: int) -> Tensor:
    """A slice of what selecting left: sparse in coordinates."""
    return t.to_dense()[index]


CompressedTensor.__getitem__ = _getitem  # type: ignore[assignment]
compressed_form("__getitem__")(_getitem)


@compressed_form("unbind")
def unbind(input: CompressedTensor, dim: int = 0) -> tuple:
    """All slices along a dimension."""
    return tuple(select(input, dim, i) for i in range(input.size(wrapped(dim, input.dim()))))


def _iterate(self: CompressedTensor) -> Any:
    return iter(unbind(self))


CompressedTensor.__iter__ = _iterate  # type: ignore[assignment, method-assign]
compressed_form("__iter__")(_iterate)


def _to_compressed(layout: Any) -> Callable:
    def convert(self: CompressedTensor, blocksize: Any = None, dense_dim: int | None = None) -> Tensor:
        return to_layout(self, layout, blocksize, dense_dim)

    def convert_plain(self: CompressedTensor, dense_dim: int | None = None) -> Tensor:
        return to_layout(self, layout, None, dense_dim)

    return convert if layout in BLOCKED else convert_plain


for _kind in OTHER:
    _method("to_" + str(_kind).split(".")[-1])(_to_compressed(_kind))
