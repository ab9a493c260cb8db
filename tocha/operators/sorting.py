"""Sorting, selecting by rank, and distinct elements."""

from __future__ import annotations

from tocha.ir import dtypes as dt
from tocha.ir import layout
from tocha.operators import interpreter
from tocha.operators.record import composite, facts, gradient, native, op, rule
from tocha.operators.reductions import placed
from tocha.operators.rules import Out, like_strides, refuse_dtype, wrap_dim

_DYNAMIC = frozenset({"dynamic"})


@rule
def sort_node(stable: "bool?") -> "str":
    return "SortBackward0" if stable is None else "SortBackward1"


@native(
    "sort(Tensor self, int dim=-1, bool descending=False, *, bool? stable=None) -> (Tensor values, Tensor indices)",
    algorithm="sort",
    node=sort_node,
    variants="function, method, out",
    tags=frozenset({"out_whole"}),
    aten=(
        "sort(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)",
        "sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)",
        "sort.values_stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False, Tensor(a!) values, Tensor(b!) indices) -> (Tensor(a!) values, Tensor(b!) indices)",
    ),
    core=("sort",),
    word="sorting_kernel_method_name",
)
def sort(self, dim, descending, stable):
    """The elements in order along dim, and where they were; NaN is the largest."""
    wrap_dim(dim, self.ndim)
    if self.is_complex():
        raise RuntimeError("[sort] Sort does not support complex dtypes on CPU")
    return Out(self.shape, self.dtype, strides=like_strides(self, None)), Out(
        self.shape, dt.int64, strides=like_strides(self, None)
    )


@gradient(sort, "self")
def sort_gradient(grad, self, dim, result1):
    return placed(grad, self, dim, True, result1)


@composite(
    "argsort(Tensor self, int dim=-1, bool descending=False, *, bool stable=False) -> Tensor",
    aten=(
        "argsort(Tensor self, int dim=-1, bool descending=False) -> Tensor",
        "argsort.stable(Tensor self, *, bool stable, int dim=-1, bool descending=False) -> Tensor",
    ),
)
def argsort(self, dim, descending, stable):
    """The indices that sort self along dim."""
    _, indices = op.sort(self, dim, descending, stable=stable)
    return indices


@composite("msort(Tensor self) -> Tensor", variants="function, method, out", tags={"exact_out"})
def msort(self):
    """Sorted along the first dim."""
    values, _ = op.sort(self, 0)
    return values


@native(
    "topk(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor values, Tensor indices)",
    algorithm="sort",
    variants="function, method, out",
    tags=frozenset({"out_whole"}),
    core=True,
)
def topk(self, k, dim, largest, sorted):
    """The k largest (or smallest) elements along dim, best first, and where they are."""
    d = wrap_dim(dim, self.ndim)
    if self.is_complex() or self.dtype == dt.bool_:
        raise RuntimeError(f"[topk] topk does not support {'complex' if self.is_complex() else 'bool'} dtypes on CPU")
    n = self.shape[d] if self.ndim > 0 else 1
    if k < 0 or k > n:
        raise RuntimeError(f"[topk] selected index k out of range: {k} of {n}")
    sizes = list(self.shape)
    if self.ndim > 0:
        sizes[d] = k
    return Out(sizes, self.dtype), Out(sizes, dt.int64)


@gradient(topk, "self")
def topk_gradient(grad, self, dim, result1):
    return placed(grad, self, dim, True, result1)


@native(
    "kthvalue(Tensor self, SymInt k, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)",
    algorithm="sort",
    tags=frozenset({"out_apart"}),
    variants="function, method, out",
    samples=lambda t: [((t(3, 4), 2), {}), ((t(3, 4), 3, 0, True), {})],
    types={
        "out_words": (
            "output values must be of same type as input: {result}, not {out}",
            "output indices must be of scalar type Long, not {out}",
        )
    },
)
def kthvalue(self, k, dim, keepdim):
    """The k-th smallest element along dim, counted from 1, and where it is."""
    d = wrap_dim(dim, self.ndim)
    n = self.shape[d] if self.ndim > 0 else 1
    if n == 0:
        raise IndexError(f"[kthvalue] kthvalue(): Expected reduction dim {d} to have non-zero size.")
    if k < 1 or k > n:
        raise RuntimeError(f"[kthvalue] kthvalue(): selected number k out of range for dimension {d}: {k} of {n}")
    if self.is_complex() or self.dtype == dt.bool_:
        refuse_dtype("kthvalue", self.dtype)
    sizes = list(self.shape)
    if self.ndim > 0:
        if keepdim:
            sizes[d] = 1
        else:
            sizes.pop(d)
    return Out(sizes, self.dtype), Out(sizes, dt.int64)


@gradient(kthvalue, "self")
def kthvalue_gradient(grad, self, dim, keepdim, result1):
    return placed(grad, self, dim, keepdim, result1)


@native(
    "_unique2(Tensor self, bool sorted=True, bool return_inverse=False, bool return_counts=False) -> (Tensor, Tensor, Tensor)",
    underived="_unique2",
    algorithm="sort",
    kernel="unique_all",
    tags=_DYNAMIC | {"dynamic_output_shape"},
    variants="function",
    word="unique",
)
def _unique2(self, sorted, return_inverse, return_counts):
    """The distinct elements in order, which of them every element is, and how often each occurs."""


@facts(_unique2)
def unique_facts(self, sorted, return_inverse, return_counts):
    count = interpreter.current().unknown_size("unique")
    return (
        self.fresh([count]),
        self.fresh(self.sizes if return_inverse else [0], dtype=dt.int64),
        self.fresh([count if return_counts else 0], dtype=dt.int64),
    )


@native(
    "_unique_dim(Tensor self, int dim, bool return_inverse=False, bool return_counts=False) -> (Tensor, Tensor, Tensor)",
    underived="unique_dim",
    algorithm="sort",
    kernel="unique_dim",
    tags=_DYNAMIC,
    variants="function",
    word="unique_dim",
)
def _unique_dim(self, dim, return_inverse, return_counts):
    """The distinct slices along dim in order, which of them every slice is, and how often each occurs."""


@facts(_unique_dim)
def unique_dim_facts(self, dim, return_inverse, return_counts):
    d = wrap_dim(dim, self.ndim)
    count = interpreter.current().unknown_size("unique_dim")
    sizes = [*self.sizes[:d], count, *self.sizes[d + 1 :]]
    outermost = layout.contiguous_strides([count, *self.sizes[:d], *self.sizes[d + 1 :]])
    return (
        self.fresh(sizes, [*outermost[1 : d + 1], outermost[0], *outermost[d + 1 :]]),
        self.fresh([self.sizes[d] if return_inverse else 0], dtype=dt.int64),
        self.fresh([count if return_counts else 0], dtype=dt.int64),
    )


@native(
    "_unique_consecutive(Tensor self, bool return_inverse=False, bool return_counts=False, int? dim=None) -> (Tensor, Tensor, Tensor)",
    underived="unique_consecutive",
    algorithm="sort",
    kernel="unique_runs",
    tags=_DYNAMIC,
    variants="function",
    word="unique",
)
def _unique_consecutive(self, return_inverse, return_counts, dim):
    """The first of every run of equal elements (or slices), which run every element is in, and the runs' lengths."""


@facts(_unique_consecutive)
def unique_consecutive_facts(self, return_inverse, return_counts, dim):
    if dim is not None:
        return unique_dim_facts(self, dim, return_inverse, return_counts)
    return unique_facts(self, True, return_inverse, return_counts)
