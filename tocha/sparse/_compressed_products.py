"""Matrix products with compressed sparse tensors.

Everything comes down to the kernels of tocha/operators/sparse.py on the rows of one matrix: a batch is one block-diagonal
matrix, columns are rows of the transpose, blocks are small dense products whose results are added up.
"""

from __future__ import annotations

from typing import Any

from tocha import _C
from tocha.sparse import _geometry
from tocha.sparse._compressed import (
    BLOCKED,
    BY_ROWS,
    dtype_of,
    flat,
    form,
    group_of_each,
    is_compressed,
    make_compressed,
    sizes,
)
from tocha.sparse._compressed_construct import from_compressed, to_coo, to_layout
from tocha.sparse._compressed_history import held, rebuild
from tocha.sparse._compressed_math import add_compressed, mul
from tocha.sparse._compressed_methods import compressed_form, transpose
from tocha.sparse._history import is_recorded, product
from tocha.sparse._tensor import (
    COMPRESSED_FORMS,
    CompressedTensor,
    Tensor,
    is_sparse,
    layout_name,
    layout_of,
    reflected_form_of,
)

# -- a compressed and a dense matrix ---------------------------------------------------------------------


def times_dense(t: CompressedTensor, values: Tensor, dense: Tensor) -> Tensor:
    """A compressed tensor, [batch..., n, m], with these values, times a dense one, [batch..., m, k]."""
    found = form(t)
    if found.dense:
        raise RuntimeError("[mm] hybrid sparse compressed tensors with dense dimensions have no products")
    parts = flat(t, values)
    table = dense.reshape(-1, dense.size(-1)) if found.batch else dense
    if found.block:
        product = _blocks_times(t._kind, parts, table, found)
    elif t._kind in BY_ROWS:
        product = _C._csr_mm(parts.values, parts.groups, parts.within, table)
    else:
        product = _C._csr_transposed_mm(parts.values, parts.groups, parts.within, table, found.matrices * found.rows)
    return product.reshape(*t._size[:-1], dense.size(-1)) if found.batch else product


def _blocks_times(kind: Any, parts: Any, table: Tensor, found: Any) -> Tensor:
    """Each block times the rows of the table that it meets; products of one row of blocks are added."""
    p, q = found.block
    group, within = group_of_each(parts.groups), parts.within.to(_C.int64)
    row, column = (group, within) if kind in BY_ROWS else (within, group)
    k = table.size(1)
    met = table.reshape(-1, q * k).index_select(0, column).reshape(-1, q, k)
    products = _C.bmm(parts.values, met).reshape(-1, p * k)
    count = found.matrices * found.rows
    sums = products.new_zeros((count, p * k)).index_add(0, row, products)
    return sums.reshape(count * p, k)


def _times(sparse: Any, dense: Tensor, flipped: bool) -> Tensor:
    """What `product` runs: a tensor without history times a dense one."""
    sparse = transpose(sparse, -2, -1) if flipped else sparse
    return times_dense(sparse, sparse._held, dense)


# -- two sparse matrices ---------------------------------------------------------------------------------


def _rows_of(t: Tensor) -> CompressedTensor:
    """A matrix of any sparse layout in rows."""
    if is_compressed(t) and t._kind in BLOCKED:
        t = to_coo(t)
    return to_layout(t, _C.sparse_csr)  # type: ignore[return-value]


def times_sparse(a: Tensor, b: Tensor) -> CompressedTensor:
    """The product of two sparse matrices, in rows."""
    left, right = _rows_of(a), _rows_of(b)
    size = (left.size(0), right.size(1))
    if not is_recorded(left) and not is_recorded(right):
        parts = (left._held, left._groups, left._within, right._held, right._groups, right._within)
        groups, within, values = _C._csr_product(*parts, right.size(1))
        return make_compressed(_C.sparse_csr, groups, within, values, size)
    made: Any = _geometry.mm_sparse(to_coo(left), to_coo(right))  # type: ignore[arg-type]
    return to_layout(made, _C.sparse_csr)  # type: ignore[return-value]


def check_factors(name: str, a: Tensor, b: Tensor) -> None:
    """Two matrices that can be multiplied."""
    left, right = sizes(a), sizes(b)
    if len(left) != 2 or len(right) != 2:
        raise RuntimeError(
            f"[{name}] mat1 and mat2 must be matrices, got {len(left)}-D tensor and {len(right)}-D tensor"
        )
    if left[1] != right[0]:
        raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({left[0]}x{left[1]} and {right[0]}x{right[1]})")
    if dtype_of(a) != dtype_of(b):
        raise RuntimeError(f"[{name}] expected scalar type {_word(a)} but found {_word(b)}")


def _word(t: Tensor) -> str:
    name = str(t.dtype).split(".")[-1]
    return {"float32": "Float", "float64": "Double", "int64": "Long"}.get(name, name)


def _is_any_sparse(t: Tensor) -> bool:
    return is_sparse(t) or is_compressed(t)


@compressed_form("mm", "spmm", "dsmm")
def mm(input: Tensor, mat2: Tensor, *, out: Any = None) -> Tensor:
    """The product of two matrices: sparse in rows if both are sparse."""
    check_factors("mm", input, mat2)
    if _is_any_sparse(input) and _is_any_sparse(mat2):
        made: Tensor = times_sparse(input, mat2)
    elif _is_any_sparse(input):
        made = product(input, mat2, False, _times)
    else:
        made = product(mat2, input.t(), True, _times).t()
    return made


@compressed_form("mv")
def mv(input: Tensor, vec: Tensor, *, out: Any = None) -> Tensor:
    """The product of a matrix and a vector."""
    mat = sizes(input)
    if len(mat) != 2 or vec.dim() != 1:
        raise RuntimeError(f"vector + matrix @ vector expected, got 1, {len(mat)}, {vec.dim()}")
    if mat[1] != vec.size(0):
        raise RuntimeError(f"size mismatch, got input ({mat[0]}), mat ({mat[0]}x{mat[1]}), vec ({vec.size(0)})")
    return mm(input, vec.unsqueeze(1)).squeeze(1)


def _plain_rows(input: Any, other: Any) -> bool:
    """Whether these are one matrix in rows, without history, and a dense tensor: the kernel can have them as they are."""
    return (
        type(other) is Tensor
        and type(input) is CompressedTensor
        and input._kind is _C.sparse_csr
        and input._checked
        and input._groups.ndim == input._held.ndim == 1
        and other.ndim in (1, 2)
        and input._size[1] == other.shape[0]
        and input._held.dtype is other.dtype
        and not is_recorded(input)
    )


@reflected_form_of("__rmatmul__", table=COMPRESSED_FORMS)
@compressed_form("matmul", "__matmul__")
def matmul(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """The product of matrices, or of a matrix and a vector."""
    if _plain_rows(input, other):
        parts = (input._held, input._groups, input._within)  # type: ignore[attr-defined]
        return _C._csr_mm(*parts, other) if other.ndim == 2 else _C._csr_mm(*parts, other.unsqueeze(1)).squeeze(1)
    dims = (len(sizes(input)), len(sizes(other)))
    if dims == (2, 2):
        return mm(input, other)
    if dims == (2, 1):
        return mv(input, other)
    if dims == (1, 2):
        return mm(input.unsqueeze(0), other).squeeze(0)
    which = input if is_compressed(input) else other
    raise RuntimeError(f"[matmul] expand is unsupported for {layout_of(which)} tensors")


@compressed_form("bmm")
def bmm(input: Tensor, mat2: Tensor, *, out: Any = None) -> Tensor:
    """The products of matrices in batches, the first compressed and the second dense."""
    if not is_compressed(input) or _is_any_sparse(mat2):
        raise NotImplementedError(
            f"[bmm] Could not run 'aten::bmm' for {layout_of(input)} and {layout_of(mat2)}: the first must be compressed, the second dense"
        )
    if input.dim() != 3 or mat2.dim() != 3:
        raise RuntimeError(f"[bmm] batch1 must be a 3D tensor, got {list(input.shape)} and {list(mat2.shape)}")
    if input.size(0) != mat2.size(0) or input.size(2) != mat2.size(1):
        raise RuntimeError(
            f"[bmm] Expected size for first two dimensions of batch2 tensor to be: [{input.size(0)}, {input.size(2)}] "
            f"but got: [{mat2.size(0)}, {mat2.size(1)}]."
        )
    made = product(input, mat2, False, _times)
    return made


@compressed_form("addmm")
def addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1, out: Any = None) -> Tensor:
    """beta * input + alpha * (mat1 @ mat2), in the layout of input."""
    if is_compressed(input):
        return _addmm_compressed(input, mat1, mat2, beta, alpha)
    made = mm(mat1, mat2)
    made = made.to_dense() if _is_any_sparse(made) else made
    total = made * alpha if beta == 0 else input * beta + (made if alpha == 1 else made * alpha)
    return total


def _addmm_compressed(input: CompressedTensor, mat1: Tensor, mat2: Tensor, beta: Any, alpha: Any) -> Tensor:
    made = mm(mat1, mat2) if _is_any_sparse(mat1) or _is_any_sparse(mat2) else mat1 @ mat2
    if not is_compressed(made):
        raise RuntimeError(
            "addmm: computation on CPU is not implemented for "
            f"{layout_of(input)} + {layout_of(mat1)} @ {layout_of(mat2)}"
        )
    return add_compressed(mul(input, beta), from_compressed(made, input._kind), alpha)  # type: ignore[arg-type]


@compressed_form("addmv")
def addmv(input: Tensor, mat: Tensor, vec: Tensor, *, beta: Any = 1, alpha: Any = 1, out: Any = None) -> Tensor:
    """beta * input + alpha * (mat @ vec)."""
    return input * beta + mv(mat, vec) * alpha


@compressed_form("baddbmm")
def baddbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1, out: Any = None) -> Tensor:
    """beta * input + alpha * (batch1 @ batch2)."""
    return input * beta + bmm(batch1, batch2) * alpha


@compressed_form("linear")
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input @ weight.T + bias, with a sparse weight or input."""
    if is_compressed(input) and not _is_any_sparse(weight):
        made = mm(input, weight.t())
    else:
        rows = input.reshape(-1, input.size(-1))
        _check_linear(rows, weight)
        made = product(weight, rows.t(), False, _times).t().reshape(*input.shape[:-1], weight.size(0))
    return made if bias is None else made + bias


def _check_linear(rows: Tensor, weight: Tensor) -> None:
    if _is_any_sparse(rows) or weight.dim() != 2:
        raise RuntimeError("[linear] expected a dense input and a sparse matrix as its weight")
    check_factors("linear", rows, transpose(weight.detach(), 0, 1))  # type: ignore[arg-type]


# -- products at the places of a matrix ------------------------------------------------------------------


def sampled_addmm(
    input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1.0, alpha: Any = 1.0, out: Any = None
) -> Tensor:
    """beta * input + alpha * (mat1 @ mat2) at the places of input, a tensor in rows; nothing else is computed.

    >>> import tocha
    >>> s = tocha.sparse_csr_tensor([0, 1, 2], [1, 0], [1.0, 2.0], (2, 2))
    >>> tocha.sparse.sampled_addmm(s, tocha.ones(2, 3), tocha.ones(3, 2)).values()
    tensor([4., 5.])
    """
    t = _check_sampled(input, mat1, mat2)
    parts = flat(t, held(t))
    left, right = mat1.reshape(-1, mat1.size(-1)), mat2.transpose(-2, -1)
    products = _C._csr_sampled(left, right.reshape(-1, right.size(-1)), parts.groups, parts.within).reshape(
        t._held.shape
    )
    values = products * alpha if beta == 0 else held(t) * beta + products * alpha
    made = rebuild("SparseSampledAddmm", values, t._kind, t._groups, t._within, t.shape, t._checked)
    return made if out is None else out.copy_(made)


def _check_sampled(input: Tensor, mat1: Tensor, mat2: Tensor) -> CompressedTensor:
    name = "sampled_addmm"
    if not is_compressed(input):
        raise NotImplementedError(
            f"[{name}] Could not run 'aten::sparse_sampled_addmm' with arguments from the '{layout_of(input)}CPU' backend: "
            "only tensors of layout sparse_csr have it"
        )
    if input._kind != _C.sparse_csr:
        raise RuntimeError(f"{name}: Expected result to have sparse csr layout, but got {layout_name(input._kind)}")
    for which, mat in (("mat1", mat1), ("mat2", mat2)):
        if _is_any_sparse(mat):
            raise RuntimeError(f"{name}: Expected {which} to have strided layout, but got {layout_of(mat)}")
    if mat1.dtype != mat2.dtype:
        raise RuntimeError(
            f"{name}: Expected mat1 and mat2 to have the same dtype, but got {_word(mat1)} and {_word(mat2)}"
        )
    if mat1.dtype != input.dtype:
        raise RuntimeError(
            f"{name}: Expected self and mat1 to have the same dtype, but got {_word(input)} and {_word(mat1)}"
        )
    for which, mat in (("mat1", mat1), ("mat2", mat2)):
        if mat.dim() < 2:
            raise RuntimeError(f"{name}: Expected {which} to be a matrix, got {mat.dim()}-D tensor")
    if mat1.shape[:-2] != mat2.shape[:-2] or mat1.shape[:-2] != input.shape[:-2]:
        raise RuntimeError(
            f"{name}: Expected self, mat1 and mat2 to have the same batch size, but got {list(input.shape)}"
        )
    if mat1.size(-1) != mat2.size(-2):
        raise RuntimeError(
            f"{name}: mat1 and mat2 shapes cannot be multiplied ({mat1.size(-2)}x{mat1.size(-1)} and {mat2.size(-2)}x{mat2.size(-1)})"
        )
    for d, mat, which in ((-2, mat1, "mat1"), (-1, mat2, "mat2")):
        if input.size(d) != mat.size(d):
            raise RuntimeError(f"{name}: self.shape[{d}] must match {which}.shape[{d}]")
    return input


def reduced_mm(a: Tensor, b: Tensor, reduce: str) -> Tensor:
    """A matrix in rows times a dense one, where the products that make an element are combined by `reduce`."""
    reduce = {"max": "amax", "min": "amin"}.get(reduce, reduce)
    if reduce not in ("sum", "prod", "mean", "amax", "amin"):
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}")
    if reduce == "prod":
        raise RuntimeError("sparse_mm_reduce: reduce type of prod has not been enabled.")
    if not is_compressed(a):
        raise NotImplementedError(
            f"[sparse.mm] Could not run 'aten::_sparse_mm_reduce_impl' with arguments from the '{layout_of(a)}CPU' backend"
        )
    if a._kind != _C.sparse_csr:
        raise RuntimeError(f"sparse_mm_reduce: expect self to be SparseCsr, got {layout_name(a._kind)}")
    if _is_any_sparse(b):
        raise RuntimeError(
            f"Expected tensor to have Strided Layout, but got tensor with {layout_of(b)} Layout (while checking arguments for sparse_mm_reduce)"
        )
    check_factors("sparse.mm", a, b)
    if reduce in ("sum", "mean"):
        total = times_dense(a, held(a), b)
        counts = (a._groups[1:] - a._groups[:-1]).clamp(min=1).to(b.dtype)
        return total / counts.unsqueeze(1) if reduce == "mean" else total
    row = group_of_each(flat(a, a._held).groups)
    products = held(a).unsqueeze(1) * b.index_select(0, a._within.to(_C.int64))
    start = products.new_zeros((a.size(0), b.size(1)))
    at = row.unsqueeze(1).expand(products.shape)
    return start.scatter_reduce(0, at, products, reduce, include_self=False)
