"""Transposes, selections, sums and matrix products of sparse tensors."""

from __future__ import annotations

from typing import Any

from tocha import _C
from tocha.sparse._arithmetic import mul
from tocha.sparse._history import build, coalesced, product, values_of
from tocha.sparse._tensor import (
    WITH_OUT,
    SparseTensor,
    Tensor,
    add_rows,
    form_of,
    is_sparse,
    positions,
    reflected_form_of,
    sparse_dims,
)


def wrapped(dim: int, count: int) -> int:
    if not -max(count, 1) <= dim < max(count, 1):
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-max(count, 1)}, {max(count, 1) - 1}], but got {dim})"
        )
    return dim % max(count, 1)


# -- transposes ------------------------------------------------------------------------------------------


@form_of("permute")
def permute(input: SparseTensor, *dims: Any) -> Tensor:
    """The dimensions in another order; sparse ones stay sparse."""
    order = [wrapped(d, input.dim()) for d in (dims[0] if len(dims) == 1 and not isinstance(dims[0], int) else dims)]
    count = sparse_dims(input)
    if sorted(order) != list(range(input.dim())):
        raise RuntimeError(f"[permute] expected each of {input.dim()} dims once, got {dims}")
    if sorted(order[:count]) != list(range(count)):
        raise RuntimeError("[permute] transposed dimensions must be sparse, or all dense")
    if order == list(range(input.dim())):
        return input.detach() if not input.requires_grad else mul(input, 1)
    indices = input._coo_indices[order[:count]]
    values = values_of(input).permute(0, *(d - count + 1 for d in order[count:]))
    in_order = order[:count] == list(range(count)) and input._coo_coalesced
    return build("Permute", values, indices, [input.shape[d] for d in order], in_order, input._coo_checked)


@form_of("transpose", "swapaxes", "swapdims")
def transpose(input: SparseTensor, dim0: int, dim1: int) -> Tensor:
    """The tensor with two of its sparse dimensions exchanged."""
    a, b = wrapped(dim0, input.dim()), wrapped(dim1, input.dim())
    if max(a, b) >= sparse_dims(input):
        raise RuntimeError(
            "sparse transpose: transposed dimensions must be sparse "
            f"Got sparse_dim: {sparse_dims(input)}, d0: {a}, d1: {b}"
        )
    order = list(range(input.dim()))
    order[a], order[b] = b, a
    return permute(input, order)


@form_of("t", "T", "mT")
def t(input: SparseTensor) -> Tensor:
    """A matrix transposed."""
    dense = input.dim() - sparse_dims(input)
    if sparse_dims(input) > 2 or dense > 0:
        raise RuntimeError(
            "t() expects a tensor with <= 2 sparse and 0 dense dimensions, "
            f"but got {sparse_dims(input)} sparse and {dense} dense dimensions"
        )
    return transpose(input, 0, 1) if input.dim() == 2 else input


# -- selections ------------------------------------------------------------------------------------------


@form_of("index_select")
def index_select(input: SparseTensor, dim: int, index: Tensor, *, out: Any = None) -> Tensor:
    """The slices of a dimension that index names, in its order."""
    d, count = wrapped(dim, input.dim()), sparse_dims(input)
    if is_sparse(index) or index.dim() != 1 or index.dtype != _C.int64:
        raise IndexError("index_select() argument index must be 1-D strided (non-sparse) long-tensor.")
    wrong = index[(index < 0) | (index >= input.size(d))]
    if wrong.numel():
        raise IndexError(
            f"index_select(): index contains {wrong[0].item()} that is out of range for tensor of size "
            f"{list(input.shape)} at dimension {d}"
        )
    sizes = [*input.shape[:d], index.size(0), *input.shape[d + 1 :]]
    values = values_of(input)
    if d >= count:
        picked = values.index_select(d - count + 1, index)
        return build("IndexSelect", picked, input._coo_indices, sizes, input._coo_coalesced, input._coo_checked)
    positions(input)  # refuses indices beyond the shape
    rows, order = input._coo_indices[d].sort(stable=True)
    first = _C.searchsorted(rows, index)
    often = _C.searchsorted(rows, index, right=True) - first
    slot = _C.repeat_interleave(_C.arange(index.size(0)), often)
    within = _C.arange(slot.size(0)) - (often.cumsum(0) - often)[slot]
    source = order[first[slot] + within]
    indices = input._coo_indices.index_select(1, source)
    indices[d] = slot
    return build("IndexSelect", values.index_select(0, source), indices, sizes)


# -- sums and norms --------------------------------------------------------------------------------------


@form_of("sum")
def sum(input: SparseTensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, out: Any = None) -> Tensor:
    """The sum of all elements, or along dims: dense where no sparse dimension is left."""
    dims = range(input.dim()) if dim is None else [dim] if isinstance(dim, int) else list(dim)
    gone = {wrapped(d, input.dim()) for d in dims}
    if len(gone) != len(dims):
        raise RuntimeError(f"[sum] a dim appears multiple times in the list of dims: {dim}")
    count, shape = sparse_dims(input), list(input.shape)
    values = values_of(input)
    dense = [d - count + 1 for d in gone if d >= count]
    if dense or dtype is not None or not values.is_floating_point():
        values = values.sum(dense, keepdim, dtype=dtype) if dense else values.to(dtype or _sum_dtype(values.dtype))
    if all(d in gone for d in range(count)):
        total = values.sum(0)
        return total.reshape([1 if d in gone else n for d, n in enumerate(shape)]) if keepdim else total
    kept = [d for d in range(count) if keepdim or d not in gone]
    indices = input._coo_indices[kept]
    for row, d in enumerate(kept):
        if d in gone:
            indices[row] = 0
    sizes = [1 if d in gone else n for d, n in enumerate(shape) if keepdim or d not in gone]
    in_order = input._coo_coalesced and not any(d < count for d in gone)
    return coalesced(build("Sum", values, indices, sizes, in_order, input._coo_checked))


def _sum_dtype(dtype: Any) -> Any:
    return dtype if dtype.is_floating_point or dtype.is_complex else _C.int64


@form_of("norm")
def norm(
    input: SparseTensor, p: Any = "fro", dim: Any = None, keepdim: bool = False, out: Any = None, dtype: Any = None
) -> Tensor:
    """The p-norm of all elements."""
    dims = None if dim is None else {wrapped(d, input.dim()) for d in ([dim] if isinstance(dim, int) else dim)}
    if dims and len(dims) != input.dim():
        raise RuntimeError(
            "norm_sparse currently only supports full reductions, "
            "so 'dim' must either be empty or contain all dimensions of the input"
        )
    order = 2.0 if p in ("fro", None) else p
    found = _C._linalg.vector_norm(values_of(coalesced(input)), order, dtype=dtype)
    return found.reshape([1] * input.dim()) if keepdim else found


@form_of("any")
def any_(input: SparseTensor, dim: Any = None, keepdim: bool = False, *, out: Any = None) -> Tensor:
    """Whether an element is not zero."""
    if dim is not None:
        raise NotImplementedError("[any] sparse tensors are only asked for all elements together")
    return coalesced(input)._coo_values.any()


# -- matrix products -------------------------------------------------------------------------------------


def _check_matrix(t: Tensor) -> None:
    if is_sparse(t) and sparse_dims(t) != 2:
        raise RuntimeError(f"addmm: matrices expected, got {sparse_dims(t)}D tensor")
    if t.dim() != 2:
        raise RuntimeError(f"[mm] expected matrices, got a tensor of shape {list(t.shape)}")


def mm_dense(a: SparseTensor, b: Tensor) -> Tensor:
    """a @ b with b dense: for each value a row of b is added to a row of the result."""
    rows, columns = a._coo_indices
    positions(a)  # refuses indices beyond the shape
    values = values_of(a)
    if values.is_floating_point():
        return _C._add_rows(b, columns, rows, values, a.size(0))
    return add_rows(values.unsqueeze(1) * b.index_select(0, columns), rows, a.size(0))


def mm_sparse(a: SparseTensor, b: SparseTensor) -> SparseTensor:
    """a @ b of two sparse matrices: every value of a meets the values of b in the row that is its column."""
    a, b = coalesced(a), coalesced(b)
    columns, rows = a._coo_indices[1], b._coo_indices[0].contiguous()
    first = _C.searchsorted(rows, columns)
    often = _C.searchsorted(rows, columns, right=True) - first
    left = _C.repeat_interleave(_C.arange(columns.size(0)), often)
    right = first[left] + _C.arange(left.size(0)) - (often.cumsum(0) - often)[left]
    products = values_of(a).index_select(0, left) * values_of(b).index_select(0, right)
    indices = _C.stack([a._coo_indices[0][left], b._coo_indices[1][right]])
    return coalesced(build("Mm", products, indices, (a.size(0), b.size(1))))


def check_product(input: Tensor, mat2: Tensor) -> None:
    """Two matrices that can be multiplied."""
    _check_matrix(input)
    _check_matrix(mat2)
    if input.size(1) != mat2.size(0):
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({input.size(0)}x{input.size(1)} and {mat2.size(0)}x{mat2.size(1)})"
        )
    if input.dtype != mat2.dtype:
        raise RuntimeError(f"[mm] expected scalar type {input.dtype} but found {mat2.dtype}")


def mm_masked(input: Tensor, mat2: Tensor) -> Tensor:
    """The product of two matrices, sparse if both are; the gradient of a sparse factor has its places."""
    check_product(input, mat2)
    if is_sparse(input):
        return mm_sparse(input, mat2) if is_sparse(mat2) else mm_dense(input, mat2)
    return mm_dense(t(mat2), input.t()).t()


@form_of("mm", "spmm", "dsmm")
def mm(input: Tensor, mat2: Tensor, *, out: Any = None) -> Tensor:
    """The product of two matrices, sparse if both are; with a dense factor the gradient of the sparse one is dense."""
    if is_sparse(input) == is_sparse(mat2):
        found = mm_masked(input, mat2)
    else:
        check_product(input, mat2)
        found = product(input, mat2, False, _times) if is_sparse(input) else product(mat2, input.t(), True, _times).t()
    return found


def _times(sparse: Any, dense: Tensor, flipped: bool) -> Tensor:
    return mm_dense(t(sparse) if flipped else sparse, dense)  # type: ignore[arg-type]


@form_of("bmm")
def bmm(input: Tensor, mat2: Tensor, *, out: Any = None) -> Tensor:
    """The products of matrices in batches, the first sparse and the second dense: one block-diagonal product."""
    if not is_sparse(input) or is_sparse(mat2):
        raise NotImplementedError("[bmm] expected a sparse first and a dense second batch of matrices")
    if input.dim() != 3 or mat2.dim() != 3 or sparse_dims(input) != 3:
        raise RuntimeError(f"[bmm] batch1 must be a 3D tensor, got {list(input.shape)} and {list(mat2.shape)}")
    b, n, m = input.shape
    if mat2.size(0) != b or mat2.size(1) != m:
        raise RuntimeError(
            f"[bmm] Expected size for first two dimensions of batch2 tensor to be: [{b}, {m}] "
            f"but got: [{mat2.size(0)}, {mat2.size(1)}]."
        )
    positions(input)  # refuses indices beyond the shape
    number, row, column = input._coo_indices
    indices = _C.stack([number * n + row, number * m + column])
    joined = build("Bmm", values_of(input), indices, (b * n, b * m), input._coo_coalesced)
    found = mm_masked(joined, mat2.reshape(b * m, -1)).reshape(b, n, mat2.size(2))
    return found


@form_of("linear")
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input @ weight.T + bias, with a sparse weight or input."""
    if is_sparse(input):
        made = mm(input, t(weight) if is_sparse(weight) else weight.t())
    else:
        rows = input.reshape(-1, input.size(-1))
        check_product(rows, t(weight.detach()))  # type: ignore[arg-type]
        made = product(weight, rows.t(), False, _times).t().reshape(*input.shape[:-1], weight.size(0))
    return made if bias is None else made + bias


@form_of("hspmm")
def hspmm(mat1: SparseTensor, mat2: Tensor, *, out: Any = None) -> Tensor:
    """mat1 @ mat2 as a tensor whose rows are sparse: those that mat1 has values in."""
    if out is not None:
        return WITH_OUT[0](hspmm, hspmm, (mat1, mat2), {"out": out})
    rows = _rows_with_values(mat1)
    return build(
        "Hspmm", mm_masked(mat1, mat2).index_select(0, rows), rows.unsqueeze(0), (mat1.size(0), mat2.size(1)), True
    )


@form_of("smm")
def smm(input: SparseTensor, mat: Tensor) -> Tensor:
    """input @ mat as a sparse tensor, with all elements of the rows that input has values in."""
    if not is_sparse(input):
        raise RuntimeError("[smm] tensor.sspaddmm(...) can only be called on sparse tensors")
    return build("Smm", *_rows_of_product(input, mat), (input.size(0), mat.size(1)), True)


@form_of("sspaddmm")
def sspaddmm(
    input: SparseTensor, mat1: SparseTensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1, out: Any = None
) -> Tensor:
    """beta * input + alpha * (mat1 @ mat2) as a sparse tensor: the elements of both side by side."""
    if not is_sparse(input) or not is_sparse(mat1):
        raise RuntimeError("[sspaddmm] tensor.sspaddmm(...) can only be called on sparse tensors")
    values, indices = _rows_of_product(mat1, mat2)
    joined = _C.cat([values_of(input) * beta, values * alpha])
    return build("Sspaddmm", joined, _C.cat([input._coo_indices, indices], 1), input.shape)


def _rows_with_values(t: SparseTensor) -> Tensor:
    _check_matrix(t)
    return _C._unique2(t._coo_indices[0], True)[0]


def _rows_of_product(mat1: SparseTensor, mat2: Tensor) -> tuple[Tensor, Tensor]:
    rows = _rows_with_values(mat1)
    made = mm_masked(mat1, mat2)
    columns = _C.arange(made.size(1))
    indices = _C.stack([rows.repeat_interleave(columns.size(0)), columns.repeat(rows.size(0))])
    return made.index_select(0, rows).reshape(-1), indices


@form_of("mv")
def mv(input: Tensor, vec: Tensor, *, out: Any = None) -> Tensor:
    """The product of a matrix and a vector."""
    if is_sparse(vec) or vec.dim() != 1 or input.dim() != 2:
        raise RuntimeError("[mv] expected a sparse matrix and a dense vector")
    if input.size(1) != vec.size(0):
        raise RuntimeError("mv: expected self.size(-1) == vec.size(-1)")
    return mm(input, vec.unsqueeze(1)).squeeze(1)


@reflected_form_of("__rmatmul__")
@form_of("matmul", "__matmul__")
def matmul(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """The product of matrices, or of a matrix and a vector."""
    if input.dim() == 2 and other.dim() == 2:
        return mm(input, other)
    if input.dim() == 2 and other.dim() == 1:
        return mv(input, other)
    if input.dim() == 1 and other.dim() == 2 and not is_sparse(input):
        return mm(input.unsqueeze(0), other).squeeze(0)
    raise RuntimeError("[matmul] expand is unsupported for Sparse tensors: only matrices and vectors can be multiplied")


@form_of("addmm")
def addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1, out: Any = None) -> Tensor:
    """beta * input + alpha * (mat1 @ mat2)."""
    if is_sparse(input):
        raise RuntimeError("addmm_sparse_dense: expected strided result tensor, got tensor with layout Sparse")
    made = mm(mat1, mat2)
    total = input * beta + (made.to_dense() if is_sparse(made) else made) * alpha
    return total
