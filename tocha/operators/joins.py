"""Joins: several tensors as one, and grids and combinations of them."""

from __future__ import annotations

from tocha.ir import dtypes as dt
from tocha.operators.record import composite, gradient, native, op, rule
from tocha.operators.rules import (
    Out,
    broadcast_shapes,
    can_cast,
    cat_strides,
    check_same_device,
    computes,
    contiguous_strides,
    is_float8,
    is_integral,
    result_type_of,
    view_strides,
    wrap_dim,
)

_APART = frozenset({"out_apart"})


@rule
def is_skipped(t: "Tensor") -> "bool":
    """An empty 1-d tensor joins anything: it stood for "nothing yet" before shapes with zeros existed."""
    return t.ndim == 1 and t.shape[0] == 0


def check_cat_out(out0, tensors):
    if len(tensors) > 0 and not can_cast(result_type_of(tensors), out0.dtype):
        raise TypeError(f"[cat] torch.cat(): input types can't be cast to the desired output type {out0.dtype}")


_INTO_OUT = {"check_out": check_cat_out}  # out= may be wider than what is joined


@native(
    "cat(Tensor[] tensors, int dim=0) -> Tensor",
    algorithm="memory",
    autocast="widest",
    variants="function, out",
    aliases=("concat", "concatenate"),
    tags=frozenset({"list_shapes", "moves", "out_apart", "out_dtype"}),
    types=_INTO_OUT,
    core=True,
)
def cat(tensors, dim):
    """Tensors one after the other along an existing dim."""
    if len(tensors) == 0:
        raise ValueError("[cat] torch.cat(): expected a non-empty list of Tensors")
    model = -1
    for i in range(len(tensors)):
        if tensors[i].ndim == 0:
            raise RuntimeError(f"[cat] zero-dimensional tensor (at position {i}) cannot be concatenated")
        if model < 0 and not is_skipped(tensors[i]):
            model = i
    check_same_device("cat", tensors)
    if model < 0:  # then no dim is wrong, either
        return Out([0], result_type_of(tensors))
    sizes = list(tensors[model].shape)
    at = wrap_dim(dim, len(sizes))
    total = 0
    for i in range(len(tensors)):
        shape = tensors[i].shape
        if not is_skipped(tensors[i]):
            if len(shape) != len(sizes):
                raise RuntimeError(
                    f"[cat] Tensors must have same number of dimensions: got {len(sizes)} and {len(shape)}"
                )
            for d in range(len(sizes)):
                if d != at and shape[d] != sizes[d]:
                    raise RuntimeError(
                        f"[cat] Sizes of tensors must match except in dimension {at}. Expected size {sizes[d]} but got size {shape[d]} for tensor number {i} in the list."
                    )
            total += shape[at]
    sizes[at] = total
    return Out(sizes, result_type_of(tensors), strides=cat_strides(sizes, tensors))


@gradient(cat, "tensors")
def cat_gradient(grad, tensors, dim):
    out: "Tensor[]" = []
    start = 0
    for t in tensors:
        if is_skipped(t):
            out.append(op.zeros(t.shape, dtype=grad.dtype, device=grad.device))
        else:
            out.append(grad.narrow(dim, start, t.size(dim)))
            start += t.size(dim)
    return out


@composite(
    "stack(Tensor[] tensors, int dim=0) -> Tensor",
    autocast="widest",
    variants="function, out",
    tags=_APART,
    types=_INTO_OUT,
)
def stack(tensors, dim):
    """Tensors of one shape along a new dim."""
    if len(tensors) == 0:
        raise RuntimeError("[stack] stack expects a non-empty TensorList")
    at = wrap_dim(dim, tensors[0].ndim + 1)
    for i in range(len(tensors)):
        if tensors[i].shape != tensors[0].shape:
            raise RuntimeError(
                f"[stack] stack expects each tensor to be equal size, but got {tensors[0].shape} at entry 0 and {tensors[i].shape} at entry {i}"
            )
    shape = tensors[0].shape
    if at == len(shape):
        return op.cat([t.unsqueeze(at) for t in tensors], at)
    # Laid out as the join along the dim that the new one stands before.
    return op._unsafe_view(op.cat(tensors, at), [*shape[:at], len(tensors), *shape[at:]])


@gradient(stack, "tensors")
def stack_gradient(grad, dim):
    return grad.unbind(dim)


@composite(
    "_chunk_cat(Tensor[] tensors, int dim, int num_chunks) -> Tensor",
    variants="function, out",
    samples=lambda t: [(([t(3, 4), t(3, 2)], 1, 3), {})],
    whole=True,
)
def _chunk_cat(tensors, dim, num_chunks):
    """Cuts every tensor into num_chunks padded chunks along dim and joins the flattened chunks row by row."""
    if len(tensors) == 0:
        raise RuntimeError("[_chunk_cat] _chunk_cat expects a non-empty input tensor list")
    if num_chunks < 1:
        raise RuntimeError(f"[_chunk_cat] _chunk_cat expects positive num_chunks, got {num_chunks}")
    if dim < 0 and any(t.ndim != tensors[0].ndim for t in tensors):
        raise RuntimeError(
            f"[_chunk_cat] _chunk_cat expects non-negative dim when input tensors have different ndims, got {dim}"
        )
    at = wrap_dim(dim, tensors[0].ndim)
    parts: "Tensor[]" = []
    for t in tensors:
        if t.numel() == 0:
            raise RuntimeError("[_chunk_cat] _chunk_cat expects non-empty tensor")
        if t.dtype != tensors[0].dtype:
            raise RuntimeError(
                f"[_chunk_cat] _chunk_cat expects all input tensors with the same dtype, got {t.dtype} and {tensors[0].dtype}"
            )
        if t.ndim <= at:
            raise RuntimeError(
                f"[_chunk_cat] _chunk_cat expects dim < ndim for all input tensors, got {dim} for {t.shape}"
            )
        if t.shape[:at] != tensors[0].shape[:at]:
            raise RuntimeError(
                f"[_chunk_cat] _chunk_cat expects same sizes of 0,...,dim-1 dimensions for all tensors, got {t.shape} and {tensors[0].shape} for dim {at}"
            )
        n = t.shape[at]
        size = (n + num_chunks - 1) // num_chunks
        missing = size * num_chunks - n
        padded = t
        if missing > 0:
            shape = list(t.shape)
            shape[at] = missing
            padded = op.cat([t, t.new_zeros(shape)], at)
        parts.append(padded.reshape([*t.shape[:at], num_chunks, -1]))
    return op.cat(parts, at + 1)


@composite("atleast_1d(Tensor self) -> Tensor", variants="function", tags=frozenset({"maybe_aliasing_or_mutating"}))
def atleast_1d(self):
    """self with one dim or more."""
    return self.reshape([1]) if self.ndim == 0 else self


@composite("atleast_1d.tensors(Tensor[] tensors) -> Tensor[]", variants="function", aten=("atleast_1d.Sequence",))
def atleast_1d_tensors(tensors):
    """Each tensor with one dim or more."""
    return [op.atleast_1d(t) for t in tensors]


@composite("atleast_2d(Tensor self) -> Tensor", variants="function", tags=frozenset({"maybe_aliasing_or_mutating"}))
def atleast_2d(self):
    """self with two dims or more; a vector becomes a row."""
    if self.ndim == 0:
        return self.reshape([1, 1])
    return self.unsqueeze(0) if self.ndim == 1 else self


@composite("atleast_2d.tensors(Tensor[] tensors) -> Tensor[]", variants="function", aten=("atleast_2d.Sequence",))
def atleast_2d_tensors(tensors):
    """Each tensor with two dims or more."""
    return [op.atleast_2d(t) for t in tensors]


@composite("atleast_3d(Tensor self) -> Tensor", variants="function", tags=frozenset({"maybe_aliasing_or_mutating"}))
def atleast_3d(self):
    """self with three dims or more; a vector gets a dim on either side, a matrix one at the end."""
    if self.ndim == 0:
        return self.reshape([1, 1, 1])
    if self.ndim == 1:
        return self.unsqueeze(0).unsqueeze(-1)
    return self.unsqueeze(-1) if self.ndim == 2 else self


@composite("atleast_3d.tensors(Tensor[] tensors) -> Tensor[]", variants="function", aten=("atleast_3d.Sequence",))
def atleast_3d_tensors(tensors):
    """Each tensor with three dims or more."""
    return [op.atleast_3d(t) for t in tensors]


@composite("hstack(Tensor[] tensors) -> Tensor", variants="function, out", tags=_APART, types=_INTO_OUT)
def hstack(tensors):
    """Tensors side by side: along the second dim, vectors along the first."""
    if len(tensors) == 0:
        raise RuntimeError("[hstack] hstack expects a non-empty TensorList")
    parts = [op.atleast_1d(t) for t in tensors]
    return op.cat(parts, 0 if parts[0].ndim == 1 else 1)


@composite(
    "vstack(Tensor[] tensors) -> Tensor", variants="function, out", aliases=("row_stack",), tags=_APART, types=_INTO_OUT
)
def vstack(tensors):
    """Tensors one below the other, vectors as rows."""
    if len(tensors) == 0:
        raise RuntimeError("[vstack] vstack expects a non-empty TensorList")
    return op.cat([op.atleast_2d(t) for t in tensors], 0)


@composite("dstack(Tensor[] tensors) -> Tensor", variants="function, out", tags=_APART, types=_INTO_OUT)
def dstack(tensors):
    """Tensors along the third dim."""
    if len(tensors) == 0:
        raise RuntimeError("[dstack] dstack expects a non-empty TensorList")
    return op.cat([op.atleast_3d(t) for t in tensors], 2)


@composite("column_stack(Tensor[] tensors) -> Tensor", variants="function, out", tags=_APART, types=_INTO_OUT)
def column_stack(tensors):
    """Tensors side by side, vectors and numbers as columns."""
    if len(tensors) == 0:
        raise RuntimeError("[column_stack] column_stack expects a non-empty TensorList")
    return op.hstack([t.reshape([t.numel(), 1]) if t.ndim <= 1 else t for t in tensors])


@composite("block_diag(Tensor[] tensors) -> Tensor", variants="function", tags=frozenset({"list_shapes"}))
def block_diag(tensors):
    """A matrix with the given matrices on its diagonal and zeros elsewhere; vectors count as rows."""
    if len(tensors) == 0:
        return op.empty([1, 0])
    check_same_device("block_diag", tensors)
    blocks: "Tensor[]" = []
    rows = 0
    columns = 0
    for i, t in enumerate(tensors):
        if t.ndim > 2:
            raise RuntimeError(
                f"[block_diag] torch.block_diag: Input tensors must have 2 or fewer dimensions. Input {i} has {t.ndim} dimensions"
            )
        block = op.atleast_2d(t)
        rows += block.shape[0]
        columns += block.shape[1]
        blocks.append(block)
    out = op.zeros([rows, columns], dtype=result_type_of(tensors), device=tensors[0].device)
    row = 0
    column = 0
    for block in blocks:
        out.narrow(0, row, block.shape[0]).narrow(1, column, block.shape[1]).copy_(block)
        row += block.shape[0]
        column += block.shape[1]
    return out


@gradient(block_diag, "tensors")
def block_diag_gradient(grad, tensors):
    out: "Tensor[]" = []
    row = 0
    column = 0
    for t in tensors:
        rows = t.size(0) if t.ndim == 2 else 1
        columns = t.size(-1) if t.ndim > 0 else 1
        out.append(grad.narrow(0, row, rows).narrow(1, column, columns).reshape(t.shape))
        row += rows
        column += columns
    return out


@composite(
    "broadcast_tensors(Tensor[] tensors) -> Tensor[]",
    variants="function",
    samples=lambda t: [(([t(3, 1), t(4)],), {})],
)
def broadcast_tensors(tensors):
    """The tensors expanded to their common shape."""
    shape: "int[]" = []
    for t in tensors:
        shape = broadcast_shapes(shape, t.shape, "broadcast_tensors")
    return [t if t.shape == shape else t.expand(shape) for t in tensors]


@composite(
    'meshgrid(Tensor[] tensors, *, str indexing="ij") -> Tensor[]',
    variants="function",
    samples=lambda t: [(([t(3), t(4)],), {}), (([t(3), t(4)],), {"indexing": "xy"})],
    aten=("meshgrid(Tensor[] tensors) -> Tensor[]", "meshgrid.indexing(Tensor[] tensors, *, str indexing) -> Tensor[]"),
)
def meshgrid(tensors, indexing):
    """Coordinates on the grid that 1-d tensors span; "xy" exchanges the first two dims."""
    if len(tensors) == 0:
        raise RuntimeError("[meshgrid] meshgrid expects a non-empty TensorList")
    if indexing != "ij" and indexing != "xy":
        raise RuntimeError(f'[meshgrid] torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}')
    for t in tensors:
        if t.ndim > 1:
            raise RuntimeError(
                f"[meshgrid] torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: {t.shape}"
            )
        if t.dtype != tensors[0].dtype:
            raise RuntimeError(
                f"[meshgrid] meshgrid expects all tensors to have the same dtype, got {tensors[0].dtype} and {t.dtype}"
            )
        if t.device != tensors[0].device:
            raise RuntimeError(
                f"[meshgrid] meshgrid expects all tensors to have the same device, got {tensors[0].device} and {t.device}"
            )
    swap = indexing == "xy" and len(tensors) >= 2
    shape = [t.numel() for t in tensors]
    if swap:
        shape[0], shape[1] = shape[1], shape[0]
    out: "Tensor[]" = []
    for i, t in enumerate(tensors):
        at = 1 - i if swap and i < 2 else i
        place = [1] * len(tensors)
        place[at] = t.numel()
        out.append(t.reshape(place).expand(shape))
    return out


@composite(
    "cartesian_prod(Tensor[] tensors) -> Tensor",
    variants="function",
    samples=lambda t: [(([t(3), t(4)],), {})],
    tags=frozenset({"maybe_aliasing_or_mutating"}),
)
def cartesian_prod(tensors):
    """Every choice of one element from each vector, as rows; of a single vector, that vector."""
    if len(tensors) == 0:
        raise RuntimeError("[cartesian_prod] meshgrid expects a non-empty TensorList")
    for t in tensors:
        if t.ndim != 1:
            raise RuntimeError(f"[cartesian_prod] Expect a 1D vector, but got shape {t.shape}")
    if len(tensors) == 1:
        return tensors[0]
    return op.stack([t.flatten() for t in op.meshgrid(tensors)], 1)


@rule
def choices(n: "int", r: "int", with_replacement: "bool") -> "int":
    """How many ways to choose r of n things."""
    pool = n + r - 1 if with_replacement and n > 0 else n
    if r > pool:
        return 0
    count = 1
    for i in range(r):
        count = count * (pool - i) // (i + 1)
    return count


@native(
    "_combination_indices(int n, int r, bool with_replacement, device device) -> Tensor",
    algorithm="recursion",
    variants="",
)
def _combination_indices(n, r, with_replacement, device):
    """Which elements each combination takes, in lexicographic order."""
    return Out([choices(n, r, with_replacement), r], dt.int64, device=device)


@composite(
    "combinations(Tensor self, int r=2, bool with_replacement=False) -> Tensor",
    variants="function",
    samples=lambda t: [((t(4),), {"with_replacement": True})],
)
def combinations(self, r, with_replacement):
    """The combinations of r elements of a vector, as rows."""
    if self.ndim != 1:
        raise RuntimeError(f"[combinations] Expect a 1D vector, but got shape {self.shape}")
    if r < 0:
        raise RuntimeError(f"[combinations] Expect a non-negative number, but got {r}")
    if r == 0:
        return self.new_empty([0])
    picks = op._combination_indices(self.numel(), r, with_replacement, self.device)
    return op._unsafe_view(self.index_select(0, picks.reshape([-1])), picks.shape)


@composite("kron(Tensor self, Tensor other) -> Tensor", variants="function, method, out")
def kron(self, other):
    """The Kronecker product: other scaled by every element of self."""
    n = max(self.ndim, other.ndim)
    a = [1] * (n - self.ndim) + list(self.shape)
    b = [1] * (n - other.ndim) + list(other.shape)
    left: "int[]" = []
    right: "int[]" = []
    for i in range(n):
        left.extend([a[i], 1])
        right.extend([1, b[i]])
    sizes = [a[i] * b[i] for i in range(n)]
    plain = self.strides == contiguous_strides(self.shape) and other.strides == contiguous_strides(other.shape)
    if computes(self) and n > 1 and plain and b[n - 1] < 256:
        # Along the last dim both are spelled out: rows of the product are then runs of memory, not of a few elements.
        last = [a[n - 1], b[n - 1]]
        rows = self.reshape(left).expand([*left[:-2], *last]).reshape([*left[:-2], sizes[n - 1]])
        columns = other.reshape(right).expand([*right[:-2], *last]).reshape([*right[:-2], sizes[n - 1]])
        return op._unsafe_view(rows * columns, sizes)
    product = self.reshape(left) * other.reshape(right)
    if view_strides(product.shape, product.strides, sizes) is None:
        product = product.contiguous()
    return op._unsafe_view(product, sizes)


@rule
def powers(x: "Tensor", n: "int") -> "Tensor":
    """x to the power of 0, 1, ... n - 1, along a dim after all others."""
    ones = op.ones_like(x).unsqueeze(-1)
    if n == 1:
        return ones
    return op.cat([ones, op.cumprod(x.unsqueeze(-1).expand([*x.shape, n - 1]), -1)], -1)


@composite(
    "vander(Tensor x, int? N=None, bool increasing=False) -> Tensor",
    variants="function",
    samples=lambda t: [((t(3),), {}), ((t(3), 2, True), {})],
)
def vander(x, N, increasing):
    """The Vandermonde matrix: powers of a vector's elements as columns."""
    if x.ndim != 1:
        raise RuntimeError(f"[vander] x must be a one-dimensional tensor, got {x.shape}")
    n = x.numel() if N is None else N
    if n < 0:
        raise RuntimeError(f"[vander] N must be non-negative, got {n}")
    if n == 0:
        return x.new_empty([x.numel(), 0], dtype=dt.int64 if is_integral(x.dtype) else x.dtype)
    columns = powers(x.to(dt.int64) if is_integral(x.dtype) else x, n)
    return columns if increasing else columns.flip(1)


@composite("linalg_vander(Tensor x, *, SymInt? N=None) -> Tensor", variants="function")
def linalg_vander(x, N):
    """The Vandermonde matrix of each vector in a batch."""
    if x.dtype == dt.bool_ or is_float8(x.dtype):
        raise RuntimeError(
            f"[linalg.vander] linalg.vander supports floating point, complex, and integer tensors, but got {x.dtype}"
        )
    vectors = x.reshape([1]) if x.ndim == 0 else x
    n = vectors.shape[-1] if N is None else N
    if N is not None and n <= 1:
        raise RuntimeError(f"[linalg.vander] N must be greater than 1, got {n}")
    if n == 0:
        return x.new_empty([*x.shape, 0])
    return powers(vectors.to(dt.int64) if is_integral(x.dtype) else vectors, n)
