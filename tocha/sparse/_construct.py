"""Making sparse tensors: from indices and values, from dense tensors, and back."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from tocha import _C
from tocha.sparse._history import build, take_at, values_of
from tocha.sparse._tensor import (
    SparseTensor,
    Tensor,
    add_rows,
    check_bounds,
    is_sparse,
    make,
    positions,
    sparse_dims,
    sparse_sizes,
)


class check_sparse_tensor_invariants:
    """Whether new sparse tensors are checked throughout: `with check_sparse_tensor_invariants():`, or for good by enable().

    >>> import tocha
    >>> with tocha.sparse.check_sparse_tensor_invariants():
    ...     tocha.sparse_coo_tensor([[7]], [1.0], (2,))
    Traceback (most recent call last):
    RuntimeError: size is inconsistent with indices: for dim 0, size is 2 but found index 7
    """

    __module__ = "tocha.sparse"
    _enabled = False

    def __init__(self, enable: bool = True) -> None:
        self._wanted = enable

    def __enter__(self) -> None:
        self._before = self.is_enabled()
        check_sparse_tensor_invariants._enabled = self._wanted

    def __exit__(self, *exc: object) -> None:
        check_sparse_tensor_invariants._enabled = self._before

    def __call__(self, function: Callable) -> Callable:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            with type(self)(self._wanted):
                return function(*args, **kwargs)

        return call

    @staticmethod
    def is_enabled() -> bool:
        """Whether everything is checked."""
        return check_sparse_tensor_invariants._enabled

    @staticmethod
    def enable() -> None:
        """Checks from now on."""
        check_sparse_tensor_invariants._enabled = True

    @staticmethod
    def disable() -> None:
        """Checks no more."""
        check_sparse_tensor_invariants._enabled = False


def sparse_coo_tensor(
    *args: Any,
    dtype: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
    **named: Any,
) -> Tensor:
    """sparse_coo_tensor(indices, values, size=None), or (size) for one without values: a tensor in coordinate form.

    Column i of indices says where values[i] lies. With fewer rows than dimensions, values are tensors of the remaining
    ones. Without size the tensor is just as large as the indices need. check_invariants asks whether all indices lie
    within the size, which is else found out when they are used.

    >>> import tocha
    >>> s = tocha.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], [3.0, 4.0, 5.0], (2, 3))
    >>> s
    tensor(indices=tensor([[0, 1, 1],
                           [2, 0, 2]]),
           values=tensor([3., 4., 5.]),
           size=(2, 3), nnz=3, layout=tocha.sparse_coo)
    >>> s.to_dense()
    tensor([[0., 0., 3.],
            [4., 0., 5.]])
    """
    indices, values, size = _arguments(args, named)
    if pin_memory:
        raise RuntimeError("Cannot access accelerator device when none is available.")
    if indices is None:
        indices = _C.empty((len(size), 0), dtype=_C.int64, device=device)
        values = _C.empty((0,), dtype=dtype, device=device)
    for part in (indices, values):
        if is_sparse(part):
            raise TypeError("[sparse_coo_tensor] indices and values must be dense")
    indices = _C.as_tensor(indices, device=device).detach().to(_C.int64)
    values = _C.as_tensor(values, dtype=dtype, device=device or indices.device)
    if device is None:
        indices = indices.to(values.device)
    values = values.reshape(1) if values.dim() == 0 else values
    if size is None:
        size = _inferred_size(indices, values)
    size = tuple(int(n) for n in size)
    if any(n < 0 for n in size) or math.prod(size) >= 2**63:
        raise RuntimeError(f"numel: integer multiplication overflow for sizes {list(size)}")
    _check_parts(indices, values, size)
    checked = check_sparse_tensor_invariants.is_enabled() if check_invariants is None else check_invariants
    if checked:
        check_bounds(indices, size)
    made = build("SparseCooTensorWithDimsAndTensors", values, indices, size, bool(is_coalesced), checked)
    if checked and is_coalesced:
        _check_coalesced(made)
    return made.requires_grad_() if requires_grad and not made.requires_grad else made


def _arguments(args: tuple, named: dict[str, Any]) -> tuple[Any, Any, Any]:
    """indices, values and size as they were given, None for what is missing."""
    names = ("indices", "values", "size")
    unknown = next((n for n in named if n not in names), None)
    if unknown is not None or len(args) > 3 or any(n in named for n in names[: len(args)]):
        what = f"an unexpected keyword argument '{unknown}'" if unknown else "its arguments twice"
        raise TypeError(f"sparse_coo_tensor() got {what}")
    given = {**dict(zip(names, args, strict=False)), **named}
    if len(given) == 1:
        size = next(iter(given.values()))
        if not isinstance(size, Sequence) or "values" in given or not all(isinstance(n, int) for n in size):
            kind = type(size).__name__
            raise TypeError(
                f"sparse_coo_tensor(): argument 'size' (position 1) must be tuple of ints, not {kind.replace('SparseTensor', 'Tensor')}"
            )
        return None, None, size
    if not {"indices", "values"} <= given.keys():
        raise TypeError("sparse_coo_tensor() received an invalid combination of arguments")
    size = given.get("size")
    if size is not None and not (isinstance(size, Sequence) and all(isinstance(n, int) for n in size)):
        raise TypeError("sparse_coo_tensor() received an invalid combination of arguments: size must be tuple of ints")
    return given["indices"], given["values"], size


def _inferred_size(indices: Tensor, values: Tensor) -> tuple[int, ...]:
    if indices.dim() != 2:
        raise RuntimeError(f"indices must be sparse_dim x nnz, but got: {list(indices.shape)}")
    if indices.size(1) == 0:
        return (0,) * indices.size(0) + tuple(values.shape[1:])
    for d, least in enumerate(indices.amin(1).tolist()):
        if least < 0:
            raise RuntimeError(f"found negative index {least} for dim {d}")
    return (*(n + 1 for n in indices.amax(1).tolist()), *values.shape[1:])


def _check_parts(indices: Tensor, values: Tensor, size: tuple[int, ...]) -> None:
    if indices.dim() == 0 or indices.dim() > 2:
        raise RuntimeError(f"indices must be sparse_dim x nnz, but got: {list(indices.shape)}")
    sparse_dim, dense_dim = indices.size(0), values.dim() - 1
    if len(size) != sparse_dim + dense_dim:
        raise RuntimeError(
            "'len(size) == sparse_dim + dense_dim' is not satisfied: "
            f"len(size) = {len(size)}, sparse_dim = {sparse_dim}, dense_dim = {dense_dim}"
        )
    if indices.dim() != 2:
        raise RuntimeError(f"indices must be sparse_dim x nnz, but got: {list(indices.shape)}")
    if indices.size(1) != values.size(0):
        raise RuntimeError(
            "indices and values must have same nnz, "
            f"but got nnz from indices: {indices.size(1)}, nnz from values: {values.size(0)}"
        )
    if tuple(values.shape[1:]) != size[sparse_dim:]:
        expected = [values.size(0), *size[sparse_dim:]]
        raise RuntimeError(f"values has incorrect size, expected {expected}, got {list(values.shape)}")


def _check_coalesced(t: SparseTensor) -> None:
    at = positions(t)
    if at.numel() > 1 and not bool((at[1:] > at[:-1]).all()):
        raise RuntimeError("cannot set is_coalesced to true if indices correspond to uncoalesced COO tensor")


def to_coordinates(t: Tensor, sparse_dim: int | None = None) -> Tensor:
    """The sparse form of a tensor: what is not zero along its first sparse_dim dimensions, all of them by default."""
    if is_sparse(t):
        if sparse_dim is not None and sparse_dim != sparse_dims(t):
            raise RuntimeError(
                "to_sparse: conversion from Sparse to Sparse with sparse_dim argument !=self.sparse_dim() is not supported"
            )
        return t
    count = t.dim() if sparse_dim is None else sparse_dim
    if t.dim() > 0 and count == 0:
        raise RuntimeError("dense_to_sparse: sparse_dim argument must be in >0 when self.dim()>0")
    if not 0 <= count <= t.dim():
        raise RuntimeError(f"dense_to_sparse: sparse_dim argument must be in [0,{t.dim()}] range, but {count} is given")
    held = t.detach() != 0
    if count < t.dim():
        held = held.reshape(*t.shape[:count], math.prod(t.shape[count:])).any(-1)
    indices = held.nonzero().t().contiguous()
    return build("ToSparse", take_at(t, _pattern(indices, t)), indices, t.shape, True)


def _pattern(indices: Tensor, t: Tensor) -> SparseTensor:
    """Coordinates within the shape of a dense tensor; the values mean nothing."""
    nothing = t.detach().new_zeros(()).expand(indices.size(1), *t.shape[indices.size(0) :])
    return make(indices, nothing, t.shape)


def to_dense(t: SparseTensor, dtype: Any = None, *, masked_grad: bool | None = None) -> Tensor:
    """The same numbers in a tensor that holds all of its elements."""
    if dtype is not None:
        raise RuntimeError("dtype argument is not supported by sparse_to_dense")
    rows = add_rows(values_of(t), positions(t), math.prod(sparse_sizes(t)))
    return _C._unsafe_view(rows, t.shape)  # nobody else holds the rows: no view of them


def sparse_mask(t: Tensor, mask: Tensor) -> Tensor:
    """The elements of t at the indices of a sparse mask, as a sparse tensor with those indices."""
    if not is_sparse(mask):
        raise NotImplementedError("[sparse_mask] the mask must be a sparse tensor")
    if t.shape != mask.shape:
        raise RuntimeError(
            "sparse_mask(): operands have incompatible sizes; "
            f"self has size {list(t.shape)} but mask has size {list(mask.shape)}"
        )
    pattern: SparseTensor = mask
    if is_sparse(t) and sparse_dims(t) != sparse_dims(pattern):
        raise RuntimeError("sparse_mask(): the mask must have the sparse dimensions of self")
    positions(pattern)  # refuses indices beyond the shape
    return build("SparseMask", take_at(t, pattern), pattern._coo_indices, t.shape, pattern._coo_coalesced)
