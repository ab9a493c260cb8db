"""Products of compressed sparse matrices, on the tensors that such a matrix is made of (docs/inside/sparse.md).

A matrix in rows: `crow[r]` to `crow[r + 1]` are the places of row r's values, `col` their columns. tocha/sparse calls
these, for every layout. Together they are closed under differentiation.
"""

from __future__ import annotations

from tocha.ir import dtypes as dt
from tocha.operators import interpreter
from tocha.operators.record import COMPLEX, FLOATS, INTS, facts, gradient, native, op, rule
from tocha.operators.rules import Out, refuse_dtype

_MULTIPLIED = (*FLOATS, *COMPLEX, *INTS)


@rule
def check_compressed(name: "str", crow: "Tensor", col: "Tensor") -> "none":
    """The indices of a compressed matrix: vectors, with a place for every row and one more."""
    if crow.dim() != 1 or col.dim() != 1 or crow.size(0) < 1:
        raise RuntimeError(f"[{name}] expected vectors of indices, got {crow.shape} and {col.shape}")


@rule
def check_factors_of_values(name: "str", values: "Tensor", col: "Tensor", dense: "Tensor") -> "none":
    """Values for every index, and a matrix of their dtype."""
    if values.dim() != 1 or values.size(0) != col.size(0) or dense.dim() != 2:
        raise RuntimeError(f"[{name}] expected {col.shape} values and a matrix, got {values.shape} and {dense.shape}")
    if values.dtype != dense.dtype:
        raise RuntimeError(f"[{name}] expected scalar type {values.dtype} but found {dense.dtype}")
    if values.dtype == dt.bool_:
        refuse_dtype(name, values.dtype)


@native(
    "_csr_mm(Tensor values, Tensor crow, Tensor col, Tensor dense) -> Tensor",
    algorithm="product",
    dtypes=_MULTIPLIED,
    variants="function",
    samples=lambda t: [((t(3), t.of([0, 2, 2, 3]), t.of([0, 3, 1]), t(4, 2)), {})],
)
def _csr_mm(values, crow, col, dense):
    """A compressed matrix times a dense one."""
    check_compressed("_csr_mm", crow, col)
    check_factors_of_values("_csr_mm", values, col, dense)
    return Out([crow.size(0) - 1, dense.size(1)], values.dtype)


@native(
    "_csr_transposed_mm(Tensor values, Tensor crow, Tensor col, Tensor dense, int rows) -> Tensor",
    algorithm="product",
    tags=frozenset({"rows_by_ends"}),
    dtypes=_MULTIPLIED,
    variants="function",
    samples=lambda t: [((t(3), t.of([0, 2, 2, 3]), t.of([0, 3, 1]), t(3, 2), 4), {})],
)
def _csr_transposed_mm(values, crow, col, dense, rows):
    """The transpose of a compressed matrix with `rows` columns times a dense one."""
    check_compressed("_csr_transposed_mm", crow, col)
    check_factors_of_values("_csr_transposed_mm", values, col, dense)
    if dense.size(0) != crow.size(0) - 1:
        raise RuntimeError(f"[_csr_transposed_mm] expected {crow.size(0) - 1} rows, got {dense.shape}")
    return Out([rows, dense.size(1)], values.dtype)


@native(
    "_csr_sampled(Tensor a, Tensor b, Tensor crow, Tensor col) -> Tensor",
    algorithm="product",
    tags=frozenset({"rows_by_ends"}),
    dtypes=_MULTIPLIED,
    variants="function",
    samples=lambda t: [((t(3, 2), t(4, 2), t.of([0, 2, 2, 3]), t.of([0, 3, 1])), {})],
)
def _csr_sampled(a, b, crow, col):
    """Elements of a @ b.T at the places of a compressed matrix."""
    check_compressed("_csr_sampled", crow, col)
    if a.dim() != 2 or b.dim() != 2 or a.size(1) != b.size(1) or a.size(0) != crow.size(0) - 1:
        raise RuntimeError(f"[_csr_sampled] expected rows of one length, got {a.shape} and {b.shape}")
    if a.dtype != b.dtype:
        raise RuntimeError(f"[_csr_sampled] expected scalar type {a.dtype} but found {b.dtype}")
    return Out([col.size(0)], a.dtype)


@gradient(_csr_mm, "values")
def csr_mm_values_gradient(grad, crow, col, dense):
    return op._csr_sampled(grad, dense.conj(), crow, col)


@gradient(_csr_mm, "dense")
def csr_mm_dense_gradient(grad, values, crow, col, dense):
    return op._csr_transposed_mm(values.conj(), crow, col, grad, dense.size(0))


@gradient(_csr_transposed_mm, "values")
def csr_transposed_mm_values_gradient(grad, crow, col, dense):
    return op._csr_sampled(dense.conj(), grad, crow, col)


@gradient(_csr_transposed_mm, "dense")
def csr_transposed_mm_dense_gradient(grad, values, crow, col):
    return op._csr_mm(values.conj(), crow, col, grad)


@gradient(_csr_sampled, "a")
def csr_sampled_a_gradient(grad, b, crow, col):
    return op._csr_mm(grad, crow, col, b.conj())


@gradient(_csr_sampled, "b")
def csr_sampled_b_gradient(grad, a, b, crow, col):
    return op._csr_transposed_mm(grad, crow, col, a.conj(), b.size(0))


@native(
    "_csr_transpose(Tensor crow, Tensor col, int columns) -> (Tensor, Tensor, Tensor)",
    algorithm="sort",
    variants="function",
    tags=frozenset({"no_gradient"}),
    samples=lambda t: [((t.of([0, 2, 2, 3]), t.of([0, 3, 1]), 4), {})],
)
def _csr_transpose(crow, col, columns):
    """The indices of the transpose, and the places of its values among the old ones."""
    check_compressed("_csr_transpose", crow, col)
    return Out([columns + 1], dt.int64), Out([col.size(0)], dt.int64), Out([col.size(0)], dt.int64)


@native(
    "_csr_product(Tensor values, Tensor crow, Tensor col, Tensor other_values, Tensor other_crow, Tensor other_col, int columns) -> (Tensor, Tensor, Tensor)",
    algorithm="product",
    dtypes=_MULTIPLIED,
    variants="function",
    tags=frozenset({"dynamic", "reads_values", "no_gradient"}),
    samples=lambda t: [
        ((t(3), t.of([0, 2, 2, 3]), t.of([0, 3, 1]), t(3), t.of([0, 1, 1, 2, 3]), t.of([0, 1, 1]), 2), {})
    ],
)
def _csr_product(values, crow, col, other_values, other_crow, other_col, columns):
    """The product of two compressed matrices, the other with `columns` columns: crow, col and values."""


@facts(_csr_product)
def csr_product_facts(values, crow, col, other_values, other_crow, other_col, columns):
    count = interpreter.current().unknown_size("_csr_product")
    return crow.fresh(crow.shape), col.fresh([count]), values.fresh([count])
