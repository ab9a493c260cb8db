"""Triangles and diagonals of matrices."""

from __future__ import annotations

from tocha.ir import dtypes as dt
from tocha.operators.record import composite, gradient, native, op, rule
from tocha.operators.rules import Out, device_or_default, wrap_dim


@native("tril(Tensor self, SymInt diagonal=0) -> Tensor", variants="function, method, inplace, out")
def tril(self, diagonal):
    """The lower triangle of matrices, zeros above it."""
    if self.ndim < 2:
        raise RuntimeError(f"[tril] tril: input tensor must have at least 2 dimensions, got {self.shape}")
    return Out(self.shape, self.dtype)


@gradient(tril, "self")
def tril_gradient(grad, diagonal):
    return grad.tril(diagonal)


@native("triu(Tensor self, SymInt diagonal=0) -> Tensor", variants="function, method, inplace, out")
def triu(self, diagonal):
    """The upper triangle of matrices, zeros below it."""
    if self.ndim < 2:
        raise RuntimeError(f"[triu] triu: input tensor must have at least 2 dimensions, got {self.shape}")
    return Out(self.shape, self.dtype)


@gradient(triu, "self")
def triu_gradient(grad, diagonal):
    return grad.triu(diagonal)


@rule
def lower_size(row: "int", col: "int", offset: "int") -> "int":
    """How many elements of a row by col matrix are on or below a diagonal."""
    shift = max(-row, min(offset, col))
    first = max(0, -shift)
    whole = min(max(first, col - shift - 1), row)  # from this row on all columns count
    return (whole - first) * (first + whole + 2 * shift + 1) // 2 + (row - whole) * col


@rule
def check_triangle(row: "int", col: "int", name: "str") -> "none":
    if row < 0:
        raise RuntimeError(f"[{name}] row must be non-negative, got{row}")
    if col < 0:
        raise RuntimeError(f"[{name}] col must be non-negative, got{col}")
    if float(row) * float(col) >= 4e18:
        raise RuntimeError(f"[{name}] a matrix of {row} rows and {col} columns has too many elements")


@native(
    "tril_indices(int row, int col, int offset=0, *, dtype? dtype=None, device? device=None) -> Tensor",
    variants="function",
    tags=frozenset({"factory"}),
    samples=lambda t: [((3, 4), {})],
    aten=(
        "tril_indices(int row, int col, int offset=0, *, ScalarType? dtype=4, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
    ),
)
def tril_indices(row, col, offset, dtype, device):
    """Rows and columns of a matrix's lower triangle, as a (2, n) tensor."""
    check_triangle(row, col, "tril_indices")
    return Out(
        [2, lower_size(row, col, offset)], dt.int64 if dtype is None else dtype, device=device_or_default(device)
    )


@native(
    "triu_indices(int row, int col, int offset=0, *, dtype? dtype=None, device? device=None) -> Tensor",
    variants="function",
    tags=frozenset({"factory"}),
    samples=lambda t: [((3, 4), {})],
    aten=(
        "triu_indices(int row, int col, int offset=0, *, ScalarType? dtype=4, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
    ),
)
def triu_indices(row, col, offset, dtype, device):
    """Rows and columns of a matrix's upper triangle, as a (2, n) tensor."""
    check_triangle(row, col, "triu_indices")
    n = row * col - lower_size(row, col, max(offset, -row) - 1)
    return Out([2, n], dt.int64 if dtype is None else dtype, device=device_or_default(device))


@composite("diag_embed(Tensor self, int offset=0, int dim1=-2, int dim2=-1) -> Tensor")
def diag_embed(self, offset, dim1, dim2):
    """Matrices with self's last dim on a diagonal, zeros elsewhere; the matrices' dims are dim1 and dim2."""
    a = wrap_dim(dim1, self.ndim + 1)
    b = wrap_dim(dim2, self.ndim + 1)
    if a == b:
        raise RuntimeError(f"[diag_embed] diagonal dimensions cannot be identical {dim1}, {dim2}")
    n = self.size(-1) + abs(offset)
    sizes = list(self.shape[:-1])
    sizes.insert(min(a, b), n)
    sizes.insert(max(a, b), n)
    out = self.new_zeros(sizes)
    out.diagonal(offset, a, b).copy_(self)
    return out


@gradient(diag_embed, "self")
def diag_embed_gradient(grad, offset, dim1, dim2):
    return grad.diagonal(offset, dim1, dim2)


@rule
def diag_node(self: "Tensor") -> "str":
    return "DiagEmbedBackward0" if self.ndim == 1 else "DiagonalBackward0_copy"


@composite(
    "diag(Tensor self, int diagonal=0) -> Tensor", node=diag_node, variants="function, method, out", tags={"exact_out"}
)
def diag(self, diagonal):
    """A matrix with a vector on its diagonal, or the diagonal of a matrix (copied)."""
    if self.ndim != 1 and self.ndim != 2:
        raise RuntimeError(f"[diag] diag(): Supports 1D or 2D tensors. Got {self.ndim}D")
    if self.ndim == 1:
        return self.diag_embed(diagonal)
    return op.diagonal_copy(self, diagonal)


@composite("diagflat(Tensor self, int offset=0) -> Tensor")
def diagflat(self, offset):
    """A matrix with all elements of self on its diagonal."""
    return self.contiguous().view([-1]).diag_embed(offset)
