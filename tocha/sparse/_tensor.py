"""The sparse tensor: a shape with indices and values, and how they are made, read and counted together.

Everything else in this room works on what is here; native code knows only the mark that `make` puts on the tensor.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeGuard

from tocha import _C
from tocha._core.forms import read_natively, registrar
from tocha.overrides import DisableTorchFunctionSubclass

Tensor = _C.Tensor
# What a function of tocha, or a method of tensors, does with tensors in coordinate form, and in compressed form.
FORMS: dict[Any, Callable] = {}
COMPRESSED_FORMS: dict[Any, Callable] = {}
# What calls with out= go through: _out.py puts its function here.
WITH_OUT: list[Callable] = []


class SparseBase(Tensor):
    """What sparse tensors of all layouts are: tensors that Python speaks for."""

    __module__ = "tocha.sparse"

    # What the native class answers without asking for overrides.

    def is_contiguous(self, memory_format: Any = _C.contiguous_format) -> bool:
        """False: there is no memory for all elements."""
        return False

    def __bool__(self) -> bool:
        return bool(_only_element(self, "Boolean value of Tensor with more than one value is ambiguous").item())

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    def __index__(self) -> int:
        raise TypeError("only integer tensors of a single element can be converted to an index")

    def __contains__(self, element: object) -> bool:
        raise NotImplementedError("[__contains__] has no form for sparse tensors; call to_dense() first")

    def __iter__(self) -> Any:
        raise NotImplementedError("[__iter__] has no form for sparse tensors; call to_dense() first")


class SparseTensor(SparseBase):
    """A tensor that holds only some of its elements: the others are zero. tocha.sparse_coo_tensor makes one.

    `_indices()` has a column of coordinates for each of the `_values()`. There may be fewer coordinates than
    dimensions: values are then tensors of the others. Equal coordinates may occur several times and are meant to be
    added; `coalesce()` does that and puts them in order.
    """

    _coo_indices: Tensor
    _coo_values: Tensor
    _coo_coalesced: bool
    _coo_checked: bool  # whether all indices are known to lie within the shape

    @classmethod
    def __torch_function__(cls, func: Any, types: Sequence[type], args: tuple = (), kwargs: dict | None = None) -> Any:
        if any(issubclass(kind, CompressedTensor) for kind in types):
            return NotImplemented
        form = FORMS.get(func)
        if form is None:
            raise NotImplementedError(f"[{name_of(func)}] has no form for sparse tensors; call to_dense() first")
        if kwargs and kwargs.get("out") is not None:
            return WITH_OUT[0](func, form, args, kwargs)
        return form(*args, **(kwargs or {}))

    def __deepcopy__(self, memo: dict) -> Tensor:
        if id(self) in memo:
            return memo[id(self)]
        if not self.is_leaf:
            raise RuntimeError(
                "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment."
            )
        parts = (self._coo_indices.clone(), self._coo_values.clone(), self.shape)
        new = make(*parts, self._coo_coalesced, self._coo_checked, requires_grad=self.requires_grad)
        if self.grad is not None:
            new.grad = self.grad.clone()
        memo[id(self)] = new
        return new


class CompressedTensor(SparseBase):
    """A sparse tensor whose rows or columns follow each other: tocha.sparse_csr_tensor and its kin make one.

    `_groups` says where the values of each row (CSR, BSR) or column (CSC, BSC) begin, `_within` where in it each of the
    `_held` values lies. docs/inside/sparse.md has the whole picture.
    """

    _kind: Any  # the layout
    _size: tuple[int, ...]  # the shape, which is quicker to read here
    _groups: Tensor  # crow_indices or ccol_indices
    _within: Tensor  # col_indices or row_indices
    _held: Tensor
    _checked: bool  # whether the indices are known to fit

    @classmethod
    def __torch_function__(cls, func: Any, types: Sequence[type], args: tuple = (), kwargs: dict | None = None) -> Any:
        form = COMPRESSED_FORMS.get(func)
        if form is None:
            refuse_compressed(name_of(func), (*args, *(kwargs or {}).values()))
        if kwargs and kwargs.get("out") is not None:
            return WITH_OUT[0](func, form, args, kwargs)
        return form(*args, **(kwargs or {}))


def refuse_compressed(name: str, args: Sequence[Any]) -> NoReturn:
    """Says in PyTorch's words that an operation has no form for a layout."""
    kind = next((a._kind for a in args if isinstance(a, CompressedTensor)), _C.sparse_csr)
    plain = name.strip("_")
    if _is_pointwise(name, plain):
        raise RuntimeError(f"[{name}] unsupported tensor layout: {layout_name(kind)}")
    raise NotImplementedError(
        f"[{name}] Could not run 'aten::{plain}' with arguments from the '{layout_name(kind)}CPU' backend: "
        "there is no form for this layout; call to_dense() first"
    )


def _is_pointwise(name: str, plain: str) -> bool:
    """Whether the records, which are read for the message only, have a formula or an operator of Python of this name."""
    importlib.import_module("tocha.operators.families").load()
    records = importlib.import_module("tocha.operators.record").OPERATORS.values()
    return any(
        (o.kind == "pointwise" and (o.schema.name == plain or plain in o.aliases))
        or (o.operator and o.operator == name)
        for o in records
    )


def layout_name(layout: Any) -> str:
    """What messages call a layout: SparseCsr."""
    return "".join(word.capitalize() for word in str(layout).split(".")[-1].split("_")).replace("SparseCoo", "Sparse")


def layout_of(t: Tensor) -> str:
    """What messages call a tensor's layout."""
    return layout_name(t.layout)


def name_of(func: Any) -> str:
    """A function's name; a property's where func reads one."""
    owner = getattr(func, "__self__", None)
    return getattr(owner if func.__name__ == "__get__" else func, "__name__", repr(func))


def _only_element(t: Tensor, otherwise: str) -> Tensor:
    if t.numel() != 1:
        raise RuntimeError(otherwise)
    return t.to_dense().reshape(())


def form_of(*names: str, table: dict[Any, Callable] = FORMS) -> Callable:
    """Makes a function the sparse form of tocha's functions and of tensors' methods of these names."""
    return registrar(table)(*names)


def reflected_form_of(*names: str, table: dict[Any, Callable] = FORMS) -> Callable:
    """Makes a function of two operands the sparse form of reflected operators, which are given them the other way round."""

    def register(f: Callable) -> Callable:
        form_of(*names, table=table)(lambda self, other: f(other, self))
        return f

    return register


def _read_natively(*names: str) -> None:
    """Properties and methods of which the native part of a sparse tensor is right."""
    for table in (FORMS, COMPRESSED_FORMS):
        read_natively(table, *names)


_read_natively("shape", "dtype", "device", "layout", "ndim")
_read_natively("requires_grad", "is_leaf", "grad_fn", "grad", "retains_grad", "output_nr", "_version", "_base")
_read_natively("_backward_hooks", "_post_accumulate_grad_hooks", "itemsize", "is_cpu", "is_meta")
_read_natively("is_cuda", "is_sparse", "is_distributed")
_read_natively("is_ipu", "is_maia", "is_mps", "is_mtia", "is_vulkan", "is_xla", "is_xpu", "name", "volatile")
_read_natively("is_quantized", "is_nested", "dim", "ndimension", "numel", "nelement", "element_size")
_read_natively("is_floating_point", "is_complex", "is_signed", "is_conj", "is_neg", "is_inference", "_is_view")
_read_natively(
    "get_device", "has_names", "storage_offset", "requires_grad_", "retain_grad", "detach_", "size", "stride"
)
_read_natively("is_same_size", "register_hook", "register_post_accumulate_grad_hook", "_register_hook_dict")
_read_natively("_bump_version", "__len__", "__repr__", "__format__", "__dir__")


def make(
    indices: Tensor,
    values: Tensor,
    size: Sequence[int],
    coalesced: bool = False,
    checked: bool = True,
    requires_grad: bool = False,
) -> SparseTensor:
    """A sparse tensor of these parts, which fit together; it has no history."""
    with DisableTorchFunctionSubclass():
        shape = _C.zeros((), dtype=values.dtype, device=values.device).expand(tuple(size))
        made: SparseTensor = Tensor._make_subclass(SparseTensor, shape, requires_grad)
    made._coo_indices = indices.detach()
    made._coo_values = values.detach()
    made._coo_coalesced = coalesced or values.size(0) < 2
    made._coo_checked = checked
    return made._mark_sparse()


def replace(t: SparseTensor, new: SparseTensor) -> SparseTensor:
    """Gives t the parts of another tensor of its shape: what operations in place end with."""
    if new.dtype != t.dtype:
        raise RuntimeError(f"result type {new.dtype} can't be cast to the desired output type {t.dtype}")
    t._coo_indices, t._coo_values = new._coo_indices, new._coo_values
    t._coo_coalesced, t._coo_checked = new._coo_coalesced, new._coo_checked
    t._bump_version()
    return t


def is_sparse(t: Any) -> TypeGuard[SparseTensor]:
    """Whether t is a sparse tensor."""
    return isinstance(t, SparseTensor)


def sparse_dims(t: SparseTensor) -> int:
    """How many dimensions the coordinates are of."""
    return t._coo_indices.size(0)


def sparse_sizes(t: SparseTensor) -> tuple[int, ...]:
    """The sizes of the dimensions that the coordinates are of."""
    return tuple(t.shape[: sparse_dims(t)])


def check_bounds(indices: Tensor, size: Sequence[int]) -> None:
    """Refuses coordinates outside a shape."""
    if indices.numel() == 0 or indices.is_meta:
        return
    low, high = indices.amin(1).tolist(), indices.amax(1).tolist()
    for d, (least, most) in enumerate(zip(low, high, strict=True)):
        if least < 0:
            raise RuntimeError(f"found negative index {least} for dim {d}")
        if most >= size[d]:
            raise RuntimeError(
                f"size is inconsistent with indices: for dim {d}, size is {size[d]} but found index {most}"
            )


def positions(t: SparseTensor) -> Tensor:
    """Where the values lie in the tensor whose sparse dimensions are laid out as one."""
    sizes = sparse_sizes(t)
    if not t._coo_checked:
        check_bounds(t._coo_indices, sizes)
        t._coo_checked = True
    if len(sizes) == 1:
        return t._coo_indices[0]
    steps = [math.prod(sizes[d + 1 :]) for d in range(len(sizes))]
    return (t._coo_indices * _C.tensor(steps, dtype=_C.int64).reshape(-1, 1)).sum(0)


def coordinates(at: Tensor, sizes: Sequence[int]) -> Tensor:
    """The coordinates of positions: a row for each dimension."""
    if len(sizes) == 1:
        return at.unsqueeze(0)
    if not sizes:
        return _C.empty((0, at.size(0)), dtype=_C.int64)
    return _C.stack(_C._unravel_index(at, list(sizes)))


def add_rows(values: Tensor, to: Tensor, count: int) -> Tensor:
    """out[to[i]] += values[i], in the order of i, for `count` rows of zeros."""
    sizes = (count, *values.shape[1:])
    flat = values.reshape(values.size(0), math.prod(sizes[1:]))
    if flat.is_floating_point():
        return _C._add_rows(flat, None, to, None, count).reshape(sizes)
    if flat.dtype == _C.bool:
        return add_rows(values.to(_C.int64), to, count) != 0
    return _C.zeros((count, flat.size(1)), dtype=flat.dtype).index_add(0, to, flat).reshape(sizes)
