"""Copies of views: the operators that give what a view shows in memory of its own."""

from __future__ import annotations

from tocha.operators.record import composite, gradient, native, op
from tocha.operators.rules import Out
from tocha.operators.views import squeeze_dims

_COPY = "function, out"


@native("_dense_copy(Tensor self) -> Tensor", algorithm="memory", variants="", tags=frozenset({"by_table"}))
def _dense_copy(self):
    """A contiguous copy."""
    return Out(self.shape, self.dtype)


@gradient(_dense_copy, "self")
def dense_copy_gradient(grad):
    return grad


@composite(
    "alias_copy(Tensor self) -> Tensor", node="AliasBackward0_copy", variants=_COPY, whole=True, tags={"exact_out"}
)
def alias_copy(self):
    """A contiguous copy."""
    return op._dense_copy(self)


@native(
    "detach_copy(Tensor self) -> Tensor", algorithm="memory", kernel="_dense_copy", variants=_COPY, tags={"exact_out"}
)
def detach_copy(self):
    """A contiguous copy. It has a history, but one without a derivative."""
    return Out(self.shape, self.dtype)


@composite(
    "as_strided_copy(Tensor self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor",
    node="AsStridedBackward0_copy",
    variants=_COPY,
    samples=lambda t: [((t(3, 4), (2, 2), (4, 2), 1), {})],
    tags=frozenset({"memory_order", "exact_out"}),
    whole=True,
)
def as_strided_copy(self, size, stride, storage_offset):
    """as_strided, copied."""
    return op._dense_copy(self.as_strided(size, stride, storage_offset))


@composite(
    "expand_copy(Tensor self, SymInt[] size, *, bool implicit=False) -> Tensor",
    node="ExpandBackward0_copy",
    variants=_COPY,
    samples=lambda t: [((t(3, 1), (2, 3, 4)), {})],
    whole=True,
    tags={"exact_out"},
)
def expand_copy(self, size, implicit):
    """expand, copied."""
    return op._dense_copy(self.expand(size))


@composite(
    "permute_copy(Tensor self, int[] dims) -> Tensor",
    node="PermuteBackward0_copy",
    variants=_COPY,
    samples=lambda t: [((t(3, 4), (1, 0)), {})],
    whole=True,
    tags={"exact_out"},
)
def permute_copy(self, dims):
    """permute, copied."""
    return op._dense_copy(self.permute(dims))


@composite(
    "transpose_copy(Tensor self, int dim0, int dim1) -> Tensor",
    node="TransposeBackward0_copy",
    variants=_COPY,
    aten=("transpose_copy.int",),
    whole=True,
    tags={"exact_out"},
)
def transpose_copy(self, dim0, dim1):
    """transpose, copied."""
    return op._dense_copy(self.transpose(dim0, dim1))


@composite("t_copy(Tensor self) -> Tensor", node="TBackward0_copy", variants=_COPY, whole=True, tags={"exact_out"})
def t_copy(self):
    """t, copied."""
    return op._dense_copy(self.t())


@composite(
    "squeeze_copy(Tensor self) -> Tensor", node="SqueezeBackward0_copy", variants=_COPY, whole=True, tags={"exact_out"}
)
def squeeze_copy(self):
    """squeeze, copied."""
    return op._dense_copy(self.squeeze())


@composite(
    "squeeze_copy.dim(Tensor self, int dim) -> Tensor",
    node="SqueezeBackward1_copy",
    variants=_COPY,
    whole=True,
    tags={"exact_out"},
)
def squeeze_copy_dim(self, dim):
    """squeeze, copied."""
    return op._dense_copy(self.squeeze(dim))


@composite(
    "squeeze_copy.dims(Tensor self, int[] dim) -> Tensor",
    node="SqueezeBackward2_copy",
    variants=_COPY,
    whole=True,
    tags={"exact_out"},
)
def squeeze_copy_dims(self, dim):
    """squeeze, copied."""
    return op._dense_copy(squeeze_dims(self, dim))


@composite(
    "unsqueeze_copy(Tensor self, int dim) -> Tensor",
    node="UnsqueezeBackward0_copy",
    variants=_COPY,
    whole=True,
    tags={"exact_out"},
)
def unsqueeze_copy(self, dim):
    """unsqueeze, copied."""
    return op._dense_copy(self.unsqueeze(dim))


@composite(
    "select_copy(Tensor self, int dim, SymInt index) -> Tensor",
    node="SelectBackward0_copy",
    variants=_COPY,
    aten=("select_copy.int",),
    whole=True,
    tags={"exact_out"},
)
def select_copy(self, dim, index):
    """select, copied."""
    return op._dense_copy(self.select(dim, index))


@composite(
    "slice_copy(Tensor self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor",
    node="SliceBackward0_copy",
    variants=_COPY,
    aten=("slice_copy.Tensor",),
    whole=True,
    tags={"exact_out"},
)
def slice_copy(self, dim, start, end, step):
    """A slice along dim, copied."""
    return op._dense_copy(op.slice(self, dim, start, end, step))


@composite(
    "narrow_copy(Tensor self, int dim, SymInt start, SymInt length) -> Tensor",
    node="NarrowCopyBackward0",
    variants="function, method, out",
    whole=True,
    types={"out_words": "Expected self.dtype() == output.dtype() to be true, but got false: {result} and {out}"},
)
def narrow_copy(self, dim, start, length):
    """narrow, copied."""
    return op._dense_copy(self.narrow(dim, start, length))


@composite(
    "unfold_copy(Tensor self, int dimension, int size, int step) -> Tensor",
    node="UnfoldBackward0_copy",
    variants=_COPY,
    samples=lambda t: [((t(3, 7), 1, 3, 2), {})],
    whole=True,
    tags={"exact_out"},
)
def unfold_copy(self, dimension, size, step):
    """unfold, copied."""
    return op._dense_copy(self.unfold(dimension, size, step))


@composite(
    "diagonal_copy(Tensor self, int offset=0, int dim1=0, int dim2=1) -> Tensor",
    node="DiagonalBackward0_copy",
    variants=_COPY,
    whole=True,
    tags={"exact_out"},
)
def diagonal_copy(self, offset, dim1, dim2):
    """diagonal, copied."""
    return op._dense_copy(self.diagonal(offset, dim1, dim2))


@composite(
    "view_copy(Tensor self, SymInt[] size) -> Tensor",
    node="ViewBackward0_copy",
    variants=_COPY,
    samples=lambda t: [((t(3, 4), (3, 2, 2)), {})],
    whole=True,
    tags={"exact_out"},
)
def view_copy(self, size):
    """view, copied; reshape where no view is."""
    return op._dense_copy(self.reshape(size))


@composite(
    "view_copy.dtype(Tensor self, dtype dtype) -> Tensor",
    variants=_COPY,
    samples=lambda t: [((t(3, 4), t(1, dtype="int32").dtype), {})],
    whole=True,
    tags={"exact_out"},
)
def view_copy_dtype(self, dtype):
    """view as another dtype, copied."""
    return op._dense_copy(self.view(dtype))


@composite(
    "view_as_real_copy(Tensor self) -> Tensor",
    variants=_COPY,
    samples=lambda t: [((t(3, 4, dtype="complex"),), {})],
    whole=True,
)
def view_as_real_copy(self):
    """view_as_real, copied."""
    return op._dense_copy(op.view_as_real(self))


@composite(
    "view_as_complex_copy(Tensor self) -> Tensor",
    variants=_COPY,
    samples=lambda t: [((t(3, 4, 2),), {})],
    whole=True,
    tags=frozenset({"memory_order"}),
)
def view_as_complex_copy(self):
    """view_as_complex, copied."""
    return op._dense_copy(op.view_as_complex(self))


@composite("lift_fresh_copy(Tensor self) -> Tensor", variants="out", whole=True)
def lift_fresh_copy(self):
    """A copy of a tensor that was just made of Python's data, so that a graph may write to it each time it runs."""
    return self.clone()
