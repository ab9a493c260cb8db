"""Splits: one tensor as several views of it, and writing into such a part of a copy."""

from __future__ import annotations

from tocha.ir import layout
from tocha.operators import interpreter
from tocha.operators.facts import Facts
from tocha.operators.record import composite, facts, gradient, native, op, rule, view
from tocha.operators.rules import View, wrap_dim


@rule
def pieces(self: "Tensor", sizes: "int[]", dim: "int") -> "View[]":
    """Consecutive runs of dim."""
    out: "View[]" = []
    shape = list(self.shape)
    start = self.storage_offset()
    for n in sizes:
        shape[dim] = n
        out.append(View(shape, self.strides, start))
        start += n * self.strides[dim]
    return out


@rule
def equal_sizes(n: "int", split_size: "int", name: "str") -> "int[]":
    """n cut into runs of split_size, the last one shorter."""
    if split_size < 0:
        raise RuntimeError(f"[{name}] split expects split_size be non-negative, but got split_size={split_size}")
    if split_size == 0:
        if n != 0:
            raise RuntimeError(
                f"[{name}] split_size can only be 0 if dimension size is 0, but got dimension size of {n}"
            )
        return [0]
    out = [split_size] * max((n + split_size - 1) // split_size, 1)
    out[-1] = n - split_size * (len(out) - 1)
    return out


@rule
def check_given_sizes(n: "int", split_sizes: "int[]", dim: "int", name: "str") -> "none":
    total = 0
    for s in split_sizes:
        if s < 0:
            raise RuntimeError(
                f"[{name}] split_with_sizes expects split_sizes have only non-negative entries, but got split_sizes={split_sizes}"
            )
        total += s
    if total != n:
        raise RuntimeError(
            f"[{name}] split_with_sizes expects split_sizes to sum exactly to {n} (input tensor's size at dimension {dim}), but got split_sizes={split_sizes}"
        )


@rule
def split_dim(self: "Tensor", dim: "int", name: "str") -> "int":
    if self.ndim == 0:
        raise RuntimeError(f"[{name}] split expects at least a 1-dimensional tensor")
    return wrap_dim(dim, self.ndim)


@view(
    "split(Tensor self, SymInt split_size, int dim=0) -> Tensor[]",
    variants="method",
    samples=lambda t: [((t(3, 5), 2, 1), {})],
    aten=("split.Tensor",),
)
def split(self, split_size, dim):
    """Views of split_size elements each along dim; the last may be smaller."""
    at = split_dim(self, dim, "split")
    return pieces(self, equal_sizes(self.shape[at], split_size, "split"), at)


@gradient(split, "self")
def split_gradient(grads, dim):
    return op.cat(grads, dim)


@view(
    "split.sizes(Tensor self, SymInt[] split_size, int dim=0) -> Tensor[]",
    node="SplitWithSizesBackward0",
    variants="method",
    samples=lambda t: [((t(3, 5), (1, 4), 1), {})],
    aten=("split.sizes", "split(Tensor(a -> *) self, int[] split_sizes, int dim=0) -> Tensor(a)[]"),
)
def split_sizes(self, split_size, dim):
    """Views of the given sizes along dim."""
    at = split_dim(self, dim, "split")
    check_given_sizes(self.shape[at], split_size, at, "split")
    return pieces(self, split_size, at)


@gradient(split_sizes, "self")
def split_sizes_gradient(grads, dim):
    return op.cat(grads, dim)


@view(
    "split_with_sizes(Tensor self, SymInt[] split_sizes, int dim=0) -> Tensor[]",
    samples=lambda t: [((t(3, 5), (1, 4), 1), {})],
    core=True,
)
def split_with_sizes(self, split_sizes, dim):
    """Views of the given sizes along dim."""
    at = split_dim(self, dim, "split_with_sizes")
    check_given_sizes(self.shape[at], split_sizes, at, "split_with_sizes")
    return pieces(self, split_sizes, at)


@gradient(split_with_sizes, "self")
def split_with_sizes_gradient(grads, dim):
    return op.cat(grads, dim)


@composite(
    "unsafe_split(Tensor self, SymInt split_size, int dim=0) -> Tensor[]",
    samples=lambda t: [((t(3, 5), 2, 1), {})],
    aten=("unsafe_split.Tensor",),
)
def unsafe_split(self, split_size, dim):
    """split whose parts autograd treats as independent."""
    return [op._unsafe_view(v, v.shape) for v in self.split(split_size, dim)]


@gradient(unsafe_split, "self")
def unsafe_split_gradient(grads, dim):
    return op.cat(grads, dim)


@composite(
    "unsafe_split_with_sizes(Tensor self, SymInt[] split_sizes, int dim=0) -> Tensor[]",
    samples=lambda t: [((t(3, 5), (1, 4), 1), {})],
)
def unsafe_split_with_sizes(self, split_sizes, dim):
    """split_with_sizes whose parts autograd treats as independent."""
    return [op._unsafe_view(v, v.shape) for v in self.split_with_sizes(split_sizes, dim)]


@gradient(unsafe_split_with_sizes, "self")
def unsafe_split_with_sizes_gradient(grads, dim):
    return op.cat(grads, dim)


@composite(
    "chunk(Tensor(a -> *) self, int chunks, int dim=0) -> Tensor(a)[]",
    samples=lambda t: [((t(3, 5), 2, 1), {})],
)
def chunk(self, chunks, dim):
    """At most `chunks` views of equal size along dim; the last may be smaller."""
    if self.ndim == 0:
        raise RuntimeError("[chunk] chunk expects at least a 1-dimensional tensor")
    if chunks <= 0:
        raise RuntimeError(f"[chunk] chunk expects `chunks` to be greater than 0, got: {chunks}")
    n = self.size(dim)
    size = (n + chunks - 1) // chunks
    if size == 0:  # every chunk is empty, and there are as many as asked for
        return self.split_with_sizes([0] * chunks, dim)
    return self.split(size, dim)


@composite(
    "unsafe_chunk(Tensor self, int chunks, int dim=0) -> Tensor[]",
    node="UnsafeSplitBackward0",
    samples=lambda t: [((t(3, 5), 2, 1), {})],
    tags=frozenset({"maybe_aliasing_or_mutating"}),
)
def unsafe_chunk(self, chunks, dim):
    """chunk whose parts autograd treats as independent."""
    return [op._unsafe_view(v, v.shape) for v in self.chunk(chunks, dim)]


@view("unbind(Tensor self, int dim=0) -> Tensor[]", aten=("unbind.int",))
def unbind(self, dim):
    """The parts of self at each index of dim, without that dim."""
    if self.ndim == 0:
        raise IndexError(f"[unbind] Dimension specified as {dim} but tensor has no dimensions")
    at = wrap_dim(dim, self.ndim)
    sizes = [*self.shape[:at], *self.shape[at + 1 :]]
    strides = [*self.strides[:at], *self.strides[at + 1 :]]
    out: "View[]" = []
    for i in range(self.shape[at]):
        out.append(View(sizes, strides, self.storage_offset() + i * self.strides[at]))
    return out


@gradient(unbind, "self")
def unbind_gradient(grads, dim):
    return op.stack(grads, dim)


@rule
def split_at(self: "Tensor", indices: "int[]", dim: "int") -> "Tensor[]":
    """Cuts before each index, as slices do: bounds are clipped, a part may be empty."""
    out: "Tensor[]" = []
    start = 0
    for i in indices:
        out.append(op.slice(self, dim, start, i, 1))
        start = i
    out.append(op.slice(self, dim, start, self.size(dim), 1))
    return out


@composite(
    "tensor_split(Tensor(a -> *) self, SymInt sections, int dim=0) -> Tensor(a)[]",
    samples=lambda t: [((t(7, 2), 3), {})],
    aten=("tensor_split.sections",),
)
def tensor_split(self, sections, dim):
    """`sections` views along dim whose sizes differ by one at most."""
    if self.ndim == 0:
        raise RuntimeError(
            "[tensor_split] tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims"
        )
    at = wrap_dim(dim, self.ndim)
    if sections <= 0:
        raise RuntimeError(f"[tensor_split] number of sections must be larger than 0, got {sections}")
    n = self.shape[at]
    longer = n % sections  # the first parts, by one
    cuts = [0] * (sections - 1)  # memory for all of them at once: for absurdly many there is none
    for i in range(1, sections):
        cuts[i - 1] = i * (n // sections) + min(i, longer)
    return split_at(self, cuts, at)


@composite(
    "tensor_split.indices(Tensor(a -> *) self, SymInt[] indices, int dim=0) -> Tensor(a)[]",
    samples=lambda t: [((t(7, 2), (2, 5)), {})],
)
def tensor_split_indices(self, indices, dim):
    """Views along dim, cut before each of the indices."""
    if self.ndim == 0:
        raise RuntimeError(
            "[tensor_split] tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims"
        )
    return split_at(self, indices, wrap_dim(dim, self.ndim))


@native(
    "tensor_split.tensor(Tensor(a -> *) self, Tensor tensor_indices_or_sections, int dim=0) -> Tensor(a)[]",
    algorithm="selection",
    kernel="tensor_split_tensor",
    tags=frozenset({"any_device", "reads_values", "no_gradient"}),  # the views that the kernel asks for have theirs
    samples=lambda t: [((t(5, 4), t.of([1, 3])), {}), ((t(5, 4), t.of(3), 1), {})],
    aten=("tensor_split.tensor_indices_or_sections",),
)
def tensor_split_tensor(self, tensor_indices_or_sections, dim):
    """tensor_split by a number of sections or by indices that a tensor holds."""


@facts(tensor_split_tensor)
def tensor_split_facts(self, tensor_indices_or_sections, dim):
    raise interpreter.DataDependent("tensor_split", f"the elements of {tensor_indices_or_sections} are not known")


@rule
def check_named_split(self: "Tensor", name: "str", least: "int") -> "none":
    if self.ndim < least:
        raise RuntimeError(
            f"[{name}] torch.{name} requires a tensor with at least {least} dimension, but got a tensor with {self.ndim} dimensions!"
        )


@rule
def check_divides(self: "Tensor", name: "str", dim: "int", sections: "int") -> "none":
    n = self.size(dim)
    if sections == 0 or n % sections != 0:
        raise RuntimeError(
            f"[{name}] torch.{name} attempted to split along dimension {dim}, but the size of the dimension {n} is not divisible by the split_size {sections}!"
        )


@composite(
    "hsplit(Tensor(a -> *) self, int sections) -> Tensor(a)[]",
    samples=lambda t: [((t(3, 4), 2), {})],
    aten=("hsplit.int",),
)
def hsplit(self, sections):
    """Equal parts along the second dim (the first of a vector)."""
    check_named_split(self, "hsplit", 1)
    dim = 0 if self.ndim == 1 else 1
    check_divides(self, "hsplit", dim, sections)
    return self.tensor_split(sections, dim)


@composite(
    "hsplit.array(Tensor(a -> *) self, int[] indices) -> Tensor(a)[]",
    samples=lambda t: [((t(3, 4), (1, 3)), {})],
)
def hsplit_array(self, indices):
    """Parts along the second dim (the first of a vector), cut before each index."""
    check_named_split(self, "hsplit", 1)
    return tensor_split_indices(self, indices, 0 if self.ndim == 1 else 1)


@composite(
    "vsplit(Tensor(a -> *) self, int sections) -> Tensor(a)[]",
    samples=lambda t: [((t(4, 3), 2), {})],
    aten=("vsplit.int",),
)
def vsplit(self, sections):
    """Equal parts along the first dim."""
    check_named_split(self, "vsplit", 2)
    check_divides(self, "vsplit", 0, sections)
    return self.tensor_split(sections, 0)


@composite(
    "vsplit.array(Tensor(a -> *) self, int[] indices) -> Tensor(a)[]",
    samples=lambda t: [((t(4, 3), (1, 3)), {})],
)
def vsplit_array(self, indices):
    """Parts along the first dim, cut before each index."""
    check_named_split(self, "vsplit", 2)
    return tensor_split_indices(self, indices, 0)


@composite(
    "dsplit(Tensor(a -> *) self, int sections) -> Tensor(a)[]",
    samples=lambda t: [((t(2, 3, 4), 2), {})],
    aten=("dsplit.int",),
)
def dsplit(self, sections):
    """Equal parts along the third dim."""
    check_named_split(self, "dsplit", 3)
    check_divides(self, "dsplit", 2, sections)
    return self.tensor_split(sections, 2)


@composite(
    "dsplit.array(Tensor(a -> *) self, int[] indices) -> Tensor(a)[]",
    samples=lambda t: [((t(2, 3, 4), (1, 3)), {})],
)
def dsplit_array(self, indices):
    """Parts along the third dim, cut before each index."""
    check_named_split(self, "dsplit", 3)
    return tensor_split_indices(self, indices, 2)


# -- copies ------------------------------------------------------------------------------------------


@composite(
    "unbind_copy(Tensor self, int dim=0) -> Tensor[]",
    node="UnbindBackward0_copy",
    variants="function",
    aten=("unbind_copy.int",),
    tags=frozenset({"view_copy"}),
    whole=True,
)
def unbind_copy(self, dim):
    """unbind, copied."""
    return [op._dense_copy(v) for v in self.unbind(dim)]


@composite(
    "split_copy(Tensor self, SymInt split_size, int dim=0) -> Tensor[]",
    node="SplitBackward0_copy",
    variants="function",
    samples=lambda t: [((t(3, 5), 2, 1), {})],
    aten=("split_copy.Tensor",),
    tags=frozenset({"view_copy"}),
    whole=True,
)
def split_copy(self, split_size, dim):
    """split, copied."""
    return [op._dense_copy(v) for v in self.split(split_size, dim)]


@composite(
    "split_with_sizes_copy(Tensor self, SymInt[] split_sizes, int dim=0) -> Tensor[]",
    node="SplitWithSizesBackward0_copy",
    variants="function",
    samples=lambda t: [((t(3, 5), (1, 4), 1), {})],
    tags=frozenset({"view_copy"}),
    whole=True,
)
def split_with_sizes_copy(self, split_sizes, dim):
    """split_with_sizes, copied."""
    return [op._dense_copy(v) for v in self.split_with_sizes(split_sizes, dim)]


# -- writing into a part of a copy -------------------------------------------------------------------


@native(
    "_clone_storage(Tensor self) -> Tensor", algorithm="memory", tags=frozenset({"any_device", "dynamic"}), variants=""
)
def _clone_storage(self):
    """A copy of all of self's memory with self's geometry on it."""


@facts(_clone_storage)
def clone_storage_facts(self):
    repeats = any(type(k) is int and k == 0 and n != 1 for n, k in zip(self.sizes, self.steps, strict=True))
    if repeats or self.conjugated or self.negated:
        return Facts(self.sizes, self.dtype, self.device, layout.like_strides(self.sizes, self.steps))
    return Facts(self.sizes, self.dtype, self.device, self.steps, self.offset)


@gradient(_clone_storage, "self")
def clone_storage_gradient(grad):
    return grad


@rule
def check_part(part: "Tensor", src: "Tensor", name: "str") -> "none":
    if part.shape != src.shape:
        raise RuntimeError(
            f"[{name}] expected src to have a size equal to the slice of self. src size = {src.shape}, slice size = {part.shape}"
        )


@composite(
    "select_scatter(Tensor self, Tensor src, int dim, SymInt index) -> Tensor",
    variants="function, method, out",
    samples=lambda t: [((t(3, 4), t(4), 0, 1), {})],
    core=True,
)
def select_scatter(self, src, dim, index):
    """A copy of self with src at one index of dim."""
    out = op._clone_storage(self)
    part = out.select(dim, index)
    check_part(part, src, "select_scatter")
    part.copy_(src)
    return out


@rule
def no_part(src: "Tensor", grad: "Tensor") -> "Tensor":
    """Zeros for the part that src replaced."""
    return op.zeros(src.shape, dtype=grad.dtype, device=grad.device)


@gradient(select_scatter, "self")
def select_scatter_gradient(grad, src, dim, index):
    return op.select_scatter(grad, no_part(src, grad), dim, index)


@gradient(select_scatter, "src")
def select_scatter_source_gradient(grad, dim, index):
    return grad.select(dim, index)


@composite(
    "slice_scatter(Tensor self, Tensor src, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor",
    variants="function, method, out",
    samples=lambda t: [((t(3, 4), t(3, 2), 1, 0, 4, 2), {})],
    tags={"exact_out"},
    core=True,
)
def slice_scatter(self, src, dim, start, end, step):
    """A copy of self with src in a slice along dim."""
    out = op._clone_storage(self)
    part = op.slice(out, dim, start, end, step)
    check_part(part, src, "slice_scatter")
    part.copy_(src)
    return out


@gradient(slice_scatter, "self")
def slice_scatter_gradient(grad, src, dim, start, end, step):
    return op.slice_scatter(grad, no_part(src, grad), dim, start, end, step)


@gradient(slice_scatter, "src")
def slice_scatter_source_gradient(grad, dim, start, end, step):
    return op.slice(grad, dim, start, end, step)


@composite(
    "diagonal_scatter(Tensor self, Tensor src, int offset=0, int dim1=0, int dim2=1) -> Tensor",
    variants="function, method, out",
    samples=lambda t: [((t(3, 4), t(3), 1), {})],
)
def diagonal_scatter(self, src, offset, dim1, dim2):
    """A copy of self with src on its diagonal."""
    out = op._clone_storage(self)
    part = out.diagonal(offset, dim1, dim2)
    check_part(part, src, "diagonal_scatter")
    part.copy_(src)
    return out


@gradient(diagonal_scatter, "self")
def diagonal_scatter_gradient(grad, src, offset, dim1, dim2):
    return op.diagonal_scatter(grad, no_part(src, grad), offset, dim1, dim2)


@gradient(diagonal_scatter, "src")
def diagonal_scatter_source_gradient(grad, offset, dim1, dim2):
    return grad.diagonal(offset, dim1, dim2)


@composite(
    "as_strided_scatter(Tensor self, Tensor src, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor",
    variants="function, method, out",
    samples=lambda t: [((t(3, 4), t(2, 2), (2, 2), (4, 2), 1), {})],
    tags=frozenset({"memory_order"}),
)
def as_strided_scatter(self, src, size, stride, storage_offset):
    """A copy of self with src where as_strided would look."""
    out = op._clone_storage(self)
    part = out.as_strided(size, stride, storage_offset)
    check_part(part, src, "as_strided_scatter")
    part.copy_(src)
    return out


@rule
def laid_out_like(grad: "Tensor", self: "Tensor") -> "Tensor":
    """grad in memory that has self's geometry."""
    start = self.storage_offset()
    end = start + 1
    for d in range(self.ndim):
        end += (self.shape[d] - 1) * self.strides[d]
    memory = op.zeros([max(end, 0)], dtype=grad.dtype, device=grad.device)
    return memory.as_strided(self.shape, self.strides, start).copy_(grad)


@gradient(as_strided_scatter, "self")
def as_strided_scatter_gradient(grad, self, src, size, stride, storage_offset):
    return op.as_strided_scatter(laid_out_like(grad, self), no_part(src, grad), size, stride, storage_offset)


@gradient(as_strided_scatter, "src")
def as_strided_scatter_source_gradient(grad, self, size, stride, storage_offset):
    return laid_out_like(grad, self).as_strided(size, stride, storage_offset)
