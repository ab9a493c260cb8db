"""Functions of tocha.sparse that are no products: softmax over what is held, diagonals, checks of gradients."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tocha import _C
from tocha.sparse._compressed import is_compressed
from tocha.sparse._compressed_history import with_held
from tocha.sparse._geometry import wrapped
from tocha.sparse._history import build, coalesced, values_of
from tocha.sparse._tensor import (
    SparseTensor,
    Tensor,
    add_rows,
    is_sparse,
    layout_name,
    layout_of,
    make,
    positions,
    sparse_dims,
)


def _normalized(input: Tensor, dim: int, dtype: Any, logarithm: bool) -> Tensor:
    name = "log_softmax" if logarithm else "softmax"
    if not is_sparse(input):
        backend = "CPU" if layout_of(input) == "Strided" else f"{layout_of(input)}CPU"
        raise NotImplementedError(
            f"[{name}] Could not run 'aten::_sparse_{name}' with arguments from the '{backend}' backend: "
            "only tensors in coordinate form have it"
        )
    d = wrapped(dim, input.dim())
    t: SparseTensor = coalesced(input if dtype is None else input.to(dtype))  # type: ignore[arg-type]
    values, count = values_of(t), sparse_dims(t)
    if not values.is_floating_point():
        raise NotImplementedError(f"\"{name}\" not implemented for '{values.dtype}'")
    if d >= count:
        new = (_C.log_softmax if logarithm else _C.softmax)(values, d - count + 1)
    else:
        new = _over_groups(t, values, d, logarithm)
    node = "SparseLogSoftmax" if logarithm else "SparseSoftmax"
    return build(node, new, t._coo_indices, t.shape, True)


def _over_groups(t: SparseTensor, values: Tensor, dim: int, logarithm: bool) -> Tensor:
    """The softmax of values that differ in one coordinate only; what is not held counts as minus infinity."""
    if values.size(0) == 0:
        return values
    sizes = [1 if i == dim else n for i, n in enumerate(t.shape[: sparse_dims(t)])]
    indices = t._coo_indices.clone()
    indices[dim] = 0
    others = make(indices, values.new_zeros(()).expand(values.shape), (*sizes, *values.shape[1:]))
    which = _C._unique2(positions(others), True, True)[1]
    groups = int(which.max()) + 1
    at = which.reshape(-1, *[1] * (values.dim() - 1)).expand(values.shape)
    low = values.new_full((groups, *values.shape[1:]), float("-inf"))
    most = low.scatter_reduce(0, at, values.detach(), "amax").index_select(0, which)
    shifted = values - most
    powers = shifted.exp()
    total = add_rows(powers, which, groups).index_select(0, which)
    return shifted - total.log() if logarithm else powers / total


def softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """The softmax over the elements that are held; those that are not count as minus infinity, and stay away.

    >>> import tocha
    >>> s = tocha.sparse_coo_tensor([[0, 0, 1], [0, 2, 1]], [1.0, 1.0, 5.0], (2, 3))
    >>> tocha.sparse.softmax(s, 1).values()
    tensor([0.5000, 0.5000, 1.0000])
    """
    return _normalized(input, dim, dtype, logarithm=False)


def log_softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """The logarithm of softmax, over the elements that are held.

    >>> import tocha
    >>> s = tocha.sparse_coo_tensor([[0, 0, 1], [0, 2, 1]], [1.0, 1.0, 5.0], (2, 3))
    >>> tocha.sparse.log_softmax(s, 1).values()
    tensor([-0.6931, -0.6931,  0.0000])
    """
    return _normalized(input, dim, dtype, logarithm=True)


def spdiags(diagonals: Tensor, offsets: Tensor, shape: Any, layout: Any = None) -> Tensor:
    """A sparse matrix with rows of `diagonals` along its diagonals: the element for column j is the j-th of its row.

    >>> import tocha
    >>> tocha.sparse.spdiags(tocha.ones(1, 2), tocha.tensor([1]), (2, 2)).to_dense()
    tensor([[0., 1.],
            [0., 0.]])
    """
    if diagonals.dim() > 2 or diagonals.dim() == 0:
        raise RuntimeError(f"Diagonals must be vector or matrix: got {diagonals.dim()} dims")
    if len(shape) != 2:
        raise RuntimeError(f"Output shape must be 2d: got {tuple(shape)}")
    if offsets.dim() > 1:
        raise RuntimeError(f"Offsets must be scalar or vector: got {offsets.dim()} dims")
    rows, steps = diagonals.reshape(-1, diagonals.size(-1)), offsets.reshape(-1)
    if rows.size(0) != steps.size(0):
        raise RuntimeError(
            f"Number of diagonals ({rows.size(0)}) does not match the number of offsets ({steps.size(0)})"
        )
    if layout not in (None, _C.sparse_coo, _C.sparse_csc, _C.sparse_csr):
        raise RuntimeError(
            f"Only output layouts (Sparse, SparseCsc, SparseCsr) are supported, got {layout_name(layout)}"
        )
    if steps.dtype != _C.int64:
        word = {"float32": "Float", "int32": "Int", "float64": "Double"}.get(
            str(steps.dtype).split(".")[-1], str(steps.dtype)
        )
        raise RuntimeError(f"Offset Tensor must have dtype Long but got {word}")
    if steps.unique().numel() != steps.numel():
        raise RuntimeError("Offset tensor contains duplicate values")
    columns = _C.arange(min(rows.size(1), shape[1]))
    row = columns.unsqueeze(0) - steps.unsqueeze(1)
    inside = ((row >= 0) & (row < shape[0])).nonzero()
    which, column = inside[:, 0], inside[:, 1]
    indices = _C.stack([row[which, column], column])
    made = build("Spdiags", rows[which, column], indices, tuple(shape))
    return made if layout in (None, _C.sparse_coo) else made.to_sparse(layout=layout)


def as_sparse_gradcheck(gradcheck: Callable) -> Callable:
    """A gradcheck for functions of sparse tensors: with masked=True (the default here) only what is held is varied.

    >>> import tocha
    >>> gradcheck = tocha.sparse.as_sparse_gradcheck(tocha.autograd.gradcheck)
    >>> s = tocha.sparse_coo_tensor([[0, 1]], [1.0, 2.0], (3,), dtype=tocha.float64, requires_grad=True)
    >>> gradcheck(lambda s: s.to_dense(masked_grad=True) ** 2, s)
    True
    """

    @functools.wraps(gradcheck)
    def check(func: Callable, inputs: Any, **kwargs: Any) -> Any:
        masked = kwargs.pop("masked", True)
        given = list(inputs) if isinstance(inputs, tuple | list) else [inputs]
        plain = [_leaf(t, masked) if _is_varied(t) else t for t in given]

        def on_parts(*parts: Any) -> Any:
            args = [_from_leaf(p, t, masked) if _is_varied(t) else p for p, t in zip(parts, given, strict=True)]
            results = func(*args)
            many = results if isinstance(results, tuple | list) else (results,)
            dense = tuple(_dense(r) for r in many)
            return dense if isinstance(results, tuple | list) else dense[0]

        return gradcheck(on_parts, tuple(plain), **kwargs)

    return check


def _is_varied(t: Any) -> bool:
    return (is_sparse(t) or is_compressed(t)) and t.requires_grad


def _dense(t: Any) -> Any:
    return t.to_dense() if is_sparse(t) or is_compressed(t) else t


def _leaf(t: Any, masked: bool) -> Tensor:
    """What is varied in place of a sparse tensor: its values, or all of its elements."""
    t = coalesced(t) if is_sparse(t) else t
    return (t.detach().values() if masked else t.detach().to_dense()).clone().requires_grad_()


def _from_leaf(part: Tensor, t: Any, masked: bool) -> Tensor:
    if is_sparse(t):
        t = coalesced(t)
        return build("Leaf", part, t._coo_indices, t.shape, True) if masked else part.to_sparse()
    return with_held(t, "Leaf", part) if masked else part.to_sparse(layout=t.layout)


def resize_as_sparse_(self: Tensor, the_template: Tensor) -> Tensor:
    """Gives a sparse tensor the sizes of another one."""
    return self.resize_as_sparse_(the_template)


def _copy_of(part: str) -> Callable[[Tensor], Tensor]:
    def copied(input: Tensor) -> Tensor:
        return getattr(input, part)().clone()

    copied.__name__ = copied.__qualname__ = f"{part}_copy"
    copied.__doc__ = f"What `Tensor.{part}` gives, in memory of its own."
    return copied


ccol_indices_copy = _copy_of("ccol_indices")
col_indices_copy = _copy_of("col_indices")
crow_indices_copy = _copy_of("crow_indices")
indices_copy = _copy_of("indices")
row_indices_copy = _copy_of("row_indices")
values_copy = _copy_of("values")
