"""Gathering and scattering along a dim by an index tensor of the same rank."""

from __future__ import annotations

from tocha.ir import dtypes as dt
from tocha.operators.record import gradient, native, op, rule
from tocha.operators.rules import Out, wrap_dim

_EVERYWHERE = "function, method, inplace, out"
_IN_PLACE = frozenset({"inplace_kernel", "any_device", "contiguous"})


@rule
def used_part(src: "Tensor", index: "Tensor") -> "Tensor":
    """The part of src that a smaller index reads."""
    out = src
    for d in range(index.ndim):
        if src.shape[d] != index.shape[d]:
            out = out.narrow(d, 0, index.shape[d])
    return out


@rule
def padded_back(grad: "Tensor", src: "Tensor") -> "Tensor":
    """The gradient of the part of src that the index read, with zeros for the rest."""
    if grad.shape == src.shape:
        return grad
    pad: "int[]" = []
    for d in reversed(range(src.ndim)):
        pad.extend([0, src.shape[d] - grad.shape[d]])
    return op.constant_pad_nd(grad, pad, 0)


@native(
    "gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor",
    tags=frozenset({"out_apart"}),
    variants="function, method, out",
    samples=lambda t: [((t(3, 4), 1, t.index(3, 6, below=4)), {}), ((t(3, 4), 0, t.index(2, 3, below=3)), {})],
    core=True,
)
def gather(self, dim, index, sparse_grad):
    """out[i][j][k] = self[index[i][j][k]][j][k] for dim 0, and so on."""
    d = wrap_dim(dim, self.ndim)
    if index.numel() != 0:
        if index.dtype != dt.int64 and index.dtype != dt.int32:
            raise RuntimeError(f"[gather] gather(): Expected dtype int32/int64 for index, got {index.dtype}")
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


@gradient(gather, "self")
def gather_gradient(grad, self, dim, index):
    places = index.to(dt.int64) if index.numel() == 0 else index  # an empty index may have any dtype
    return grad.new_zeros(self.shape).scatter_add_(dim, places, grad)


@native(
    "scatter.src(Tensor self, int dim, Tensor index, Tensor src) -> Tensor",
    kernel="scatter_src",
    tags=_IN_PLACE | {"exact_out"},
    variants=_EVERYWHERE,
    samples=lambda t: [((t(3, 4), 1, t.of([[1, 0], [3, 2]]), t(2, 2)), {})],
    core=True,
)
def scatter_src(self, dim, index, src):
    """self[index[i][j][k]][j][k] = src[i][j][k] for dim 0, and so on."""


@gradient(scatter_src, "self")
def scatter_gradient(grad, dim, index):
    return grad.scatter(dim, index, 0)


@gradient(scatter_src, "src")
def scatter_source_gradient(grad, dim, index, src):
    return padded_back(grad.gather(dim, index), src)


@native(
    "scatter.value(Tensor self, int dim, Tensor index, Scalar value) -> Tensor",
    kernel="scatter_value",
    node="ScatterBackward1",
    tags=_IN_PLACE | {"exact_out"},
    variants=_EVERYWHERE,
    samples=lambda t: [((t(3, 4), 0, t.index(2, 4, below=3), 2), {})],
    core=True,
)
def scatter_value(self, dim, index, value):
    """Writes one value to the places that index names."""


@gradient(scatter_value, "self")
def scatter_value_gradient(grad, dim, index):
    return grad.scatter(dim, index, 0)


@native(
    "scatter.src_reduce(Tensor self, int dim, Tensor index, Tensor src, *, str reduce) -> Tensor",
    kernel="scatter_src_reduce",
    node="NotImplemented",
    tags=_IN_PLACE | {"exact_out"},
    variants=_EVERYWHERE,
    samples=lambda t: [((t(3, 4), 1, t.index(3, 2, below=4), t(3, 2)), {"reduce": "multiply"})],
    aten=("scatter.reduce",),
)
def scatter_src_reduce(self, dim, index, src, reduce):
    """Adds src to, or multiplies it into, the places that index names."""


@native(
    "scatter.value_reduce(Tensor self, int dim, Tensor index, Scalar value, *, str reduce) -> Tensor",
    kernel="scatter_value_reduce",
    node="NotImplemented",
    tags=_IN_PLACE | {"exact_out"},
    variants=_EVERYWHERE,
    samples=lambda t: [((t(3, 4), 1, t.index(3, 2, below=4), 2), {"reduce": "add"})],
)
def scatter_value_reduce(self, dim, index, value, reduce):
    """Adds one value to, or multiplies it into, the places that index names."""


@native(
    "scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor",
    tags=_IN_PLACE | {"exact_out"},
    variants=_EVERYWHERE,
    samples=lambda t: [((t(3, 4), 0, t.index(5, 4, below=3), t(5, 4)), {})],
    core=True,
)
def scatter_add(self, dim, index, src):
    """self[index[i][j][k]][j][k] += src[i][j][k] for dim 0, and so on."""


@gradient(scatter_add, "self")
def scatter_add_gradient(grad):
    return grad


@gradient(scatter_add, "src")
def scatter_add_source_gradient(grad, dim, index, src):
    return padded_back(grad.gather(dim, index), src)


@native(
    "scatter_reduce(Tensor self, int dim, Tensor index, Tensor src, str reduce, *, bool include_self=True) -> Tensor",
    algorithm="index",
    tags=_IN_PLACE | {"exact_out"},
    variants=_EVERYWHERE,
    samples=lambda t: [
        ((t(3, 4), 0, t.index(5, 4, below=3), t(5, 4), "mean"), {}),
        ((t(3, 4), 1, t.index(3, 2, below=4), t(3, 2), "amax"), {"include_self": False}),
    ],
    aten=("scatter_reduce.two",),
    core=True,
    word="scatter_gather_tensor_cpu_reduce",
)
def scatter_reduce(self, dim, index, src, reduce, include_self):
    """Reduces src into the places that index names: sum, prod, mean, amax or amin."""


@rule
def members(self: "Tensor", dim: "int", index: "Tensor", include_self: "bool") -> "Tensor":
    """How many elements each place was reduced from; places that the index leaves out have themselves."""
    ones = op.ones(self.shape, dtype=dt.int64, device=index.device)
    start = ones if include_self else ones.scatter(dim, index, 0)
    return start.scatter_add_(dim, index, op.ones(index.shape, dtype=dt.int64, device=index.device))


@rule
def extreme_self(self: "Tensor", dim: "int", index: "Tensor", include_self: "bool", result: "Tensor") -> "Tensor":
    """Which elements of self are the extreme of their place."""
    hit = self == result
    return hit if include_self else hit.scatter(dim, index, False)


@rule
def extreme_shares(
    grad: "Tensor", self: "Tensor", dim: "int", index: "Tensor", part: "Tensor", include_self: "bool", result: "Tensor"
) -> "Tensor":
    """The gradient in equal parts for the elements that tie for the extreme of each place."""
    first = extreme_self(self, dim, index, include_self, result).to(dt.int64)
    return grad / first.scatter_add_(dim, index, (part == result.gather(dim, index)).to(dt.int64))


@rule
def zero_counts(self: "Tensor", dim: "int", index: "Tensor", part: "Tensor") -> "Tensor":
    """How many of the factors that come to each place are zero."""
    none = op.zeros(self.shape, dtype=dt.int64, device=index.device)
    return none.scatter_add_(dim, index, (part == 0).to(dt.int64))


@rule
def nonzero_products(self: "Tensor", dim: "int", index: "Tensor", part: "Tensor", include_self: "bool") -> "Tensor":
    """The product of each place's factors without the zeros that come to it."""
    factors = part.masked_fill(part == 0, 1)
    return op.scatter_reduce(self, dim, index, factors, "prod", include_self=include_self)


@rule
def other_factors(product: "Tensor", nonzeros: "Tensor", zeros: "Tensor", x: "Tensor") -> "Tensor":
    """The product of all factors but x, from that of all, that without zeros, and the number of zeros."""
    is_zero = x == 0
    return op.where(is_zero, op.where(zeros == 1, nonzeros, 0), product / x.masked_fill(is_zero, 1))


@rule
def reduced_self_gradient(
    grad: "Tensor",
    self: "Tensor",
    dim: "int",
    index: "Tensor",
    src: "Tensor",
    reduce: "str",
    include_self: "bool",
    result: "Tensor",
) -> "Tensor":
    if not include_self:
        return grad.scatter(dim, index, 0)
    if reduce == "sum":
        return grad
    part = used_part(src, index)
    if reduce == "mean":
        return grad / members(self, dim, index, True)
    if reduce == "prod":
        return grad * op.ones_like(self).scatter_reduce(dim, index, part, "prod")
    return extreme_shares(grad, self, dim, index, part, True, result) * (self == result)


@rule
def reduced_source_gradient(
    grad: "Tensor",
    self: "Tensor",
    dim: "int",
    index: "Tensor",
    src: "Tensor",
    reduce: "str",
    include_self: "bool",
    result: "Tensor",
) -> "Tensor":
    part = used_part(src, index)
    if reduce == "sum":
        return padded_back(grad.gather(dim, index), src)
    if reduce == "mean":
        return padded_back((grad / members(self, dim, index, include_self)).gather(dim, index), src)
    if reduce == "prod":
        others = other_factors(
            result.gather(dim, index),
            nonzero_products(self, dim, index, part, include_self).gather(dim, index),
            zero_counts(self, dim, index, part).gather(dim, index),
            part,
        )
        return padded_back(grad.gather(dim, index) * others, src)
    shares = extreme_shares(grad, self, dim, index, part, include_self, result).gather(dim, index)
    return padded_back(op.where(part == result.gather(dim, index), shares, 0), src)


@gradient(scatter_reduce, "self")
def scatter_reduce_gradient(grad, self, dim, index, src, reduce, include_self, result):
    return reduced_self_gradient(grad, self, dim, index, src, reduce, include_self, result)


@gradient(scatter_reduce, "src")
def scatter_reduce_source_gradient(grad, self, dim, index, src, reduce, include_self, result):
    return reduced_source_gradient(grad, self, dim, index, src, reduce, include_self, result)


@native(
    "segment_reduce(Tensor data, str reduce, *, Tensor? lengths=None, Tensor? indices=None, Tensor? offsets=None, int axis=0, bool unsafe=False, Scalar? initial=None) -> Tensor",
    variants="function",
    flat=("data",),
    samples=lambda t: [((t(6, 2), "sum"), {"lengths": t.of([2, 0, 4])}), ((t(6), "max"), {"offsets": t.of([0, 1, 6])})],
    word="_segment_reduce_cpu",
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


@rule
def segment_of_each(data: "Tensor", lengths: "Tensor?", offsets: "Tensor?", axis: "int") -> "Tensor":
    """The number of the segment that each position along axis is in; too small or too large where it is in none."""
    n = data.shape[axis]
    bounds = offsets.to(dt.int64) if lengths is None else op.constant_pad_nd(lengths.cumsum(-1), [1, 0], 0)
    positions = op.arange(n, device=data.device).expand([*data.shape[:axis], n])
    return op.searchsorted(bounds, positions, right=True) - 1


@gradient(segment_reduce, "data")
def segment_reduce_gradient(grad, data, reduce, lengths, offsets, axis, initial, result):
    d = wrap_dim(axis, data.ndim)
    segments = grad.shape[d]
    if segments == 0 or data.numel() == 0:
        return op.zeros_like(data)
    which = segment_of_each(data, lengths, offsets, d)
    which = which.reshape([*which.shape, *([1] * (data.ndim - d - 1))]).expand(data.shape)
    inside = (which >= 0) & (which < segments)
    index = which.clamp(0, segments - 1)
    empty = op.zeros(grad.shape, dtype=dt.int64, device=grad.device)
    if reduce == "sum":
        shares = grad.gather(d, index)
    elif reduce == "mean":
        shares = (grad / empty.scatter_add(d, index, inside.to(dt.int64))).gather(d, index)
    elif reduce == "prod":
        factors = data.masked_fill(~inside | (data == 0), 1)
        products = op.ones_like(grad).scatter_reduce(d, index, factors, "prod")
        if initial is not None:
            products = products * initial
        zeros = empty.scatter_add(d, index, (inside & (data == 0)).to(dt.int64))
        shares = grad.gather(d, index) * other_factors(
            result.gather(d, index), products.gather(d, index), zeros.gather(d, index), data
        )
    else:
        hit = inside & (data == result.gather(d, index))
        ties = empty.scatter_add(d, index, hit.to(dt.int64))
        shares = op.where(hit, (grad / ties).gather(d, index), 0)
    return op.where(inside, shares, 0)
