"""Gathering and scattering along a dim by an index tensor of the same rank."""

from __future__ import annotations

from tocha.ir import dtypes as dt
from tocha.operators.record import native
from tocha.operators.rules import Out, wrap_dim

_EVERYWHERE = "function, method, inplace, out"
_IN_PLACE = frozenset({"inplace_kernel", "any_device"})


@native(
    "gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor",
    variants="function, method, out",
    samples=lambda t: [((t(3, 4), 1, t.index(3, 6, below=4)), {}), ((t(3, 4), 0, t.index(2, 3, below=3)), {})],
)
def gather(self, dim, index, sparse_grad):
    """out[i][j][k] = self[index[i][j][k]][j][k] for dim 0, and so on."""
    d = wrap_dim(dim, self.ndim)
    if index.numel() != 0:
        if index.dtype != dt.int64 and index.dtype != dt.int32:
            raise RuntimeError(f"[gather] Expected dtype int32/int64 for index, got {index.dtype}")
        if max(self.ndim, 1) != max(index.ndim, 1):
            raise RuntimeError(
                f"[gather] Index tensor must have the same number of dimensions as input tensor, got {index.shape} and {self.shape}"
            )
        if self.ndim != 0:
            for i in range(index.ndim):
                if i != d and index.shape[i] > self.shape[i]:
                    raise RuntimeError(
                        f"[gather] Size does not match at dimension {i} expected index {index.shape} to be no larger than self {self.shape} apart from dimension {d}"
                    )
    return Out(index.shape, self.dtype)


@native(
    "scatter.src(Tensor self, int dim, Tensor index, Tensor src) -> Tensor",
    kernel="scatter_src",
    tags=_IN_PLACE,
    variants=_EVERYWHERE,
    samples=lambda t: [((t(3, 4), 1, t.of([[1, 0], [3, 2]]), t(2, 2)), {})],
)
def scatter_src(self, dim, index, src):
    """self[index[i][j][k]][j][k] = src[i][j][k] for dim 0, and so on."""


@native(
    "scatter.value(Tensor self, int dim, Tensor index, Scalar value) -> Tensor",
    kernel="scatter_value",
    tags=_IN_PLACE,
    variants=_EVERYWHERE,
    samples=lambda t: [((t(3, 4), 0, t.index(2, 4, below=3), 2), {})],
)
def scatter_value(self, dim, index, value):
    """Writes one value to the places that index names."""


@native(
    "scatter.src_reduce(Tensor self, int dim, Tensor index, Tensor src, *, str reduce) -> Tensor",
    kernel="scatter_src_reduce",
    tags=_IN_PLACE,
    variants=_EVERYWHERE,
    samples=lambda t: [((t(3, 4), 1, t.index(3, 2, below=4), t(3, 2)), {"reduce": "multiply"})],
)
def scatter_src_reduce(self, dim, index, src, reduce):
    """Adds src to, or multiplies it into, the places that index names."""


@native(
    "scatter.value_reduce(Tensor self, int dim, Tensor index, Scalar value, *, str reduce) -> Tensor",
    kernel="scatter_value_reduce",
    tags=_IN_PLACE,
    variants=_EVERYWHERE,
    samples=lambda t: [((t(3, 4), 1, t.index(3, 2, below=4), 2), {"reduce": "add"})],
)
def scatter_value_reduce(self, dim, index, value, reduce):
    """Adds one value to, or multiplies it into, the places that index names."""


@native(
    "scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor",
    tags=_IN_PLACE,
    variants=_EVERYWHERE,
    samples=lambda t: [((t(3, 4), 0, t.index(5, 4, below=3), t(5, 4)), {})],
)
def scatter_add(self, dim, index, src):
    """self[index[i][j][k]][j][k] += src[i][j][k] for dim 0, and so on."""


@native(
    "scatter_reduce(Tensor self, int dim, Tensor index, Tensor src, str reduce, *, bool include_self=True) -> Tensor",
    tags=_IN_PLACE,
    variants=_EVERYWHERE,
    samples=lambda t: [
        ((t(3, 4), 0, t.index(5, 4, below=3), t(5, 4), "mean"), {}),
        ((t(3, 4), 1, t.index(3, 2, below=4), t(3, 2), "amax"), {"include_self": False}),
    ],
)
def scatter_reduce(self, dim, index, src, reduce, include_self):
    """Reduces src into the places that index names: sum, prod, mean, amax or amin."""


@native(
    "segment_reduce(Tensor data, str reduce, *, Tensor? lengths=None, Tensor? indices=None, Tensor? offsets=None, int axis=0, bool unsafe=False, Scalar? initial=None) -> Tensor",
    variants="function",
    samples=lambda t: [((t(6, 2), "sum"), {"lengths": t.of([2, 0, 4])}), ((t(6), "max"), {"offsets": t.of([0, 1, 6])})],
)
def segment_reduce(data, reduce, lengths, indices, offsets, axis, unsafe, initial):
    """Reduces consecutive segments along axis, given by their lengths or by the offsets where they begin and end."""
    d = wrap_dim(axis, data.ndim)
    if indices is not None:
        raise RuntimeError("[segment_reduce] indices based reduction is not supported")
    if lengths is None and offsets is None:
        raise RuntimeError("[segment_reduce] Either lengths or offsets must be defined.")
    sizes = list(lengths.shape) if lengths is not None else list(offsets.shape)
    if len(sizes) != d + 1 or data.ndim <= d:
        raise RuntimeError(
            f"[segment_reduce] Expected axis to be the last dimension of lengths or offsets but got {axis} for {sizes}"
        )
    for i in range(d):
        if sizes[i] != data.shape[i]:
            raise RuntimeError(
                f"[segment_reduce] lengths or offsets {sizes} do not match data {data.shape} before axis {d}"
            )
    if lengths is None:
        if sizes[d] == 0:
            raise RuntimeError("[segment_reduce] offsets need one element at least")
        sizes[d] -= 1
    return Out([*sizes, *data.shape[d + 1 :]], data.dtype)
