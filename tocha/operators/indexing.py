"""Reading and writing by index: advanced indexing, slices along a dim, flat positions, embeddings."""

from __future__ import annotations

from tocha.ir import dtypes as dt
from tocha.ir import layout
from tocha.operators import interpreter
from tocha.operators.facts import Facts
from tocha.operators.record import composite, facts, gradient, native, op, rule
from tocha.operators.rules import Out, broadcast_shapes, sparse_rows, wrap_dim
from tocha.operators.scatter import reduced_self_gradient, reduced_source_gradient

_EVERYWHERE = "function, method, inplace, out"
_DYNAMIC = frozenset({"dynamic", "any_device"})
_IN_PLACE = frozenset({"inplace_kernel", "any_device"})
_CONTIGUOUS = _IN_PLACE | {"contiguous"}  # whatever self's layout is
_EXPANDED = _IN_PLACE | {"any_overlap"}  # warns, where elements of self share memory


@rule
def no_gradient_yet(self: "Tensor", grad: "Tensor") -> "Tensor":
    """Zeros of self's shape, for a gradient to be written into."""
    return grad.new_zeros(self.shape)


@native(
    "index(Tensor self, Tensor?[] indices) -> Tensor",
    algorithm="index",
    tags=_DYNAMIC | {"dynamic_output_shape"},
    variants="",
    aten=("index.Tensor",),
    core=True,
)
def index(self, indices):
    """The elements picked by integer tensors and masks, as in self[indices]."""


@gradient(index, "self")
def index_gradient(grad, self, indices):
    return no_gradient_yet(self, grad).index_put_(indices, grad, True)


@native(
    "_unsafe_index(Tensor self, Tensor?[] indices) -> Tensor",
    kernel="index",
    tags=_DYNAMIC,
    variants="function",
    samples=lambda t: [((t(3, 4), (None, t.index(5, below=4))), {})],
    aten=("_unsafe_index.Tensor",),
)
def _unsafe_index(self, indices):
    """What index gives."""


def integer_indices(x, indices, name):
    """Indices by dim of x, masks as the coordinates of their elements; None where a dim is taken whole."""
    out = []
    for i in indices:
        if i is not None and i.dtype in (dt.bool_, dt.uint8):
            for j, n in enumerate(i.sizes):
                if len(out) + j >= x.ndim or x.sizes[len(out) + j] != n:
                    raise IndexError(
                        f"[{name}] The shape of the mask {i.shape} at index {j} does not match the shape of the indexed tensor {x.shape} at index {len(out) + j}"
                    )
            out += op._nonzero_tuple(i)
        elif i is None or i.dtype in (dt.int64, dt.int32):
            out.append(i)
        else:
            raise IndexError(f"[{name}] tensors used as indices must be long, int, byte or bool tensors, got {i.dtype}")
    if len(out) > x.ndim:
        raise IndexError(f"[{name}] too many indices for tensor of dimension {x.ndim} (got {len(out)})")
    return out + [None] * (x.ndim - len(out))


def _is_empty(n):
    return isinstance(n, int) and n == 0


class Selected:
    """The shape of x[indices]: neighbouring indices put their dims where they stand, scattered ones put them first."""

    def __init__(self, x, indices, name):
        found = integer_indices(x, indices, name)
        self.indices = [i for i in found if i is not None]
        self.picked = ()
        for i in self.indices:
            self.picked = interpreter.broadcast(self.picked, i.sizes, name)
        at = [d for d, i in enumerate(found) if i is not None]
        if all(isinstance(n, int) and n != 0 for n in self.picked) and any(_is_empty(x.sizes[d]) for d in at):
            raise IndexError(f"[{name}] index is out of bounds for dimension with size 0: {x.shape}")
        self.rest = [d for d, i in enumerate(found) if i is None]
        self.place = at[0] if at and at[-1] - at[0] + 1 == len(at) else 0
        rest = [x.sizes[d] for d in self.rest]
        self.sizes = [*rest[: self.place], *self.picked, *rest[self.place :]]

    def strides(self, x):
        """The order of dims that x has, and then each of the indices, which stand for all dims with sizes of one around their own;
        None for those of a new tensor."""
        if all(in_order(t) for t in (x, *self.indices)):
            return None
        kept = [x.steps[d] for d in self.rest]
        own = [*kept[: self.place], *(0 for _ in self.picked), *kept[self.place :]]
        return layout.ordered_strides(self.sizes, [own, *(self.steps_of(i) for i in self.indices)])

    def steps_of(self, index):
        """The strides of one index along the dims of the result."""
        end = self.place + len(self.picked)
        out = []
        for d, n in enumerate(self.sizes):
            own = d - end + index.ndim
            if self.place <= d < end:
                out.append(0 if own < 0 or (index.sizes[own] == 1 and n != 1) else index.steps[own])
            elif n != 1 or index.ndim == 0:
                out.append(0)
            else:
                out.append(index.sizes[0] * index.steps[0] if d < self.place else index.steps[-1])
        return out


def in_order(t):
    return t.is_plain or layout.same_sizes(t.steps, layout.contiguous_strides(t.sizes))


@facts(index, _unsafe_index)
def index_facts(self, indices):
    s = Selected(self, indices, "index")
    return Facts(s.sizes, self.dtype, self.device, s.strides(self))


@gradient(_unsafe_index, "self")
def unsafe_index_gradient(grad, self, indices):
    return no_gradient_yet(self, grad).index_put_(indices, grad, True)


@native(
    "index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor",
    algorithm="index",
    tags=_EXPANDED,
    variants="function, method, inplace",
    samples=lambda t: [
        ((t(3, 4), (t.of([2, 0]),), t(2, 4)), {}),
        ((t(3, 4), (t.index(5, below=3), t.index(5, below=4)), t(5), True), {}),
        ((t(3, 4), (t.mask(3, 4),), t(1)), {}),
    ],
    core=True,
)
def index_put(self, indices, values, accumulate):
    """Writes values where indices point; with accumulate, adds them."""


@gradient(index_put, "self")
def index_put_gradient(grad, indices, accumulate):
    if accumulate:
        return grad
    return grad.index_put(indices, op.zeros([], dtype=grad.dtype, device=grad.device))


@gradient(index_put, "values")
def index_put_values_gradient(grad, indices):
    return op.index(grad, indices)


@native(
    "_unsafe_masked_index(Tensor self, Tensor mask, Tensor?[] indices, Scalar fill) -> Tensor",
    tags=_DYNAMIC,
    variants="function",
    samples=lambda t: [((t(3, 4), t.mask(5), (t.index(5, below=3), t.index(5, below=4)), 2), {})],
)
def _unsafe_masked_index(self, mask, indices, fill):
    """self[indices] where the mask holds, else fill; indices that are out of range count as the nearest one."""


@facts(_unsafe_masked_index)
def unsafe_masked_index_facts(self, mask, indices, fill):
    sizes = interpreter.broadcast(
        Selected(self, indices, "_unsafe_masked_index").sizes, mask.sizes, "_unsafe_masked_index"
    )
    return Facts(sizes, self.dtype, self.device)


@gradient(_unsafe_masked_index, "self")
def unsafe_masked_index_gradient(grad, self, mask, indices):
    return op._unsafe_masked_index_put_accumulate(no_gradient_yet(self, grad), mask, indices, grad)


@native(
    "_unsafe_masked_index_put_accumulate(Tensor self, Tensor mask, Tensor?[] indices, Tensor values) -> Tensor",
    tags=_IN_PLACE,
    variants="function",
    samples=lambda t: [((t(3, 4), t.mask(5), (t.index(5, below=3), t.index(5, below=4)), t(5)), {})],
)
def _unsafe_masked_index_put_accumulate(self, mask, indices, values):
    """Adds values where indices point and the mask holds; indices that are out of range count as the nearest one."""


@gradient(_unsafe_masked_index_put_accumulate, "self")
def unsafe_masked_index_put_gradient(grad):
    return grad


@gradient(_unsafe_masked_index_put_accumulate, "values")
def unsafe_masked_index_put_values_gradient(grad, mask, indices):
    return op._unsafe_masked_index(grad, mask, indices, 0)


@rule
def check_index_vector(op: "str", index: "Tensor") -> "none":
    if index.ndim > 1:
        raise IndexError(f"[{op}] {op}(): Index is supposed to be a vector. Got {index.shape}")
    if index.dtype != dt.int32 and index.dtype != dt.int64:
        raise RuntimeError(f"[{op}] {op}(): Expected dtype int32 or int64 for index, got {index.dtype}")


@native(
    "index_select(Tensor self, int dim, Tensor index) -> Tensor",
    tags=frozenset({"out_apart"}),
    variants="function, method, out",
    samples=lambda t: [((t(3, 4), 1, t.index(6, below=4)), {})],
    core=True,
    types={"out_words": "index_select(): self and result must have the same scalar type: {result} and {out}"},
)
def index_select(self, dim, index):
    """The slices of self along dim that index names."""
    d = wrap_dim(dim, self.ndim)
    check_index_vector("index_select", index)
    if self.ndim == 0:
        if index.numel() != 1:
            raise RuntimeError(
                f"[index_select] index_select(): Index to scalar can have only 1 value, got {index.numel()} value(s)"
            )
        return Out(self.shape, self.dtype)
    if self.ndim > 1 and self.size(d) == 0 and index.numel() != 0:
        raise RuntimeError(
            f"[index_select] index_select(): self indexing axis dim should be positive, got {self.shape}"
        )
    sizes = list(self.shape)
    sizes[d] = index.numel()
    return Out(sizes, self.dtype)


@gradient(index_select, "self")
def index_select_gradient(grad, self, dim, index):
    return no_gradient_yet(self, grad).index_add_(dim, index, grad)


@native(
    "index_add(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor",
    tags=_CONTIGUOUS | {"exact_out"},
    variants=_EVERYWHERE,
    samples=lambda t: [
        ((t(3, 4), 0, t.index(5, below=3), t(5, 4)), {}),
        ((t(3, 4), 1, t.index(2, below=4), t(3, 2)), {"alpha": 2}),
    ],
)
def index_add(self, dim, index, source, alpha):
    """Adds alpha times the slices of source to the slices of self that index names."""


@gradient(index_add, "self")
def index_add_gradient(grad):
    return grad


@gradient(index_add, "source")
def index_add_source_gradient(grad, dim, index, source, alpha):
    picked = grad.index_select(dim, index).reshape(source.shape)
    if not alpha.is_complex() and float(alpha) == 1:
        return picked
    return (picked.conj() * alpha).conj()


@native(
    "index_copy(Tensor self, int dim, Tensor index, Tensor source) -> Tensor",
    autocast="widest",
    tags=_CONTIGUOUS | {"exact_out"},
    variants=_EVERYWHERE,
    samples=lambda t: [((t(3, 4), 0, t.of([2, 0]), t(2, 4)), {})],
)
def index_copy(self, dim, index, source):
    """Replaces the slices of self that index names by those of source."""


@gradient(index_copy, "self")
def index_copy_gradient(grad, dim, index):
    return grad.index_fill(dim, index, 0)


@gradient(index_copy, "source")
def index_copy_source_gradient(grad, dim, index, source):
    return grad.index_select(dim, index).reshape(source.shape)


@native(
    "index_fill(Tensor self, int dim, Tensor index, Operand value) -> Tensor",
    node="IndexFillBackward1|value=IndexFillBackward0",
    tags=_EXPANDED,
    variants="function, method, inplace",
    samples=lambda t: [((t(3, 4), 1, t.index(2, below=4), 2), {})],
    aten=("index_fill.int_Tensor", "index_fill.int_Scalar"),
)
def index_fill(self, dim, index, value):
    """Sets the slices of self that index names to a value."""


@gradient(index_fill, "self")
def index_fill_gradient(grad, dim, index):
    return grad.index_fill(dim, index, 0)


@gradient(index_fill, "value")
def index_fill_value_gradient(grad, dim, index):
    filled = op.zeros(grad.shape, dtype=dt.bool_, device=grad.device).index_fill(dim, index, True)
    return op.where(filled, grad, 0).sum()


@native(
    "index_reduce(Tensor self, int dim, Tensor index, Tensor source, str reduce, *, bool include_self=True) -> Tensor",
    tags=_CONTIGUOUS | {"exact_out"},
    variants=_EVERYWHERE,
    samples=lambda t: [
        ((t(3, 4), 0, t.index(5, below=3), t(5, 4), "prod"), {}),
        ((t(3, 4), 1, t.index(2, below=4), t(3, 2), "amax"), {"include_self": False}),
    ],
    word="index_func_",
)
def index_reduce(self, dim, index, source, reduce, include_self):
    """Reduces slices of source into the slices of self that index names: prod, mean, amax or amin."""


@rule
def with_a_dim(t: "Tensor") -> "Tensor":
    return t.reshape([1]) if t.ndim == 0 else t


@rule
def spread_index(index: "Tensor", source: "Tensor", dim: "int") -> "Tensor":
    """An index of slices as the index of source's elements that scatter takes."""
    d = wrap_dim(dim, source.ndim)
    return index.reshape([source.size(d) if i == d else 1 for i in range(source.ndim)]).expand(source.shape)


@gradient(index_reduce, "self")
def index_reduce_gradient(grad, self, dim, index, source, reduce, include_self, result):
    parts = with_a_dim(source)
    found = reduced_self_gradient(
        with_a_dim(grad),
        with_a_dim(self),
        dim,
        spread_index(index, parts, dim),
        parts,
        reduce,
        include_self,
        with_a_dim(result),
    )
    return found.reshape(self.shape)


@gradient(index_reduce, "source")
def index_reduce_source_gradient(grad, self, dim, index, source, reduce, include_self, result):
    parts = with_a_dim(source)
    found = reduced_source_gradient(
        with_a_dim(grad),
        with_a_dim(self),
        dim,
        spread_index(index, parts, dim),
        parts,
        reduce,
        include_self,
        with_a_dim(result),
    )
    return found.reshape(source.shape)


@native(
    "take(Tensor self, Tensor index) -> Tensor",
    tags=frozenset({"out_apart"}),
    variants="function, method, out",
    samples=lambda t: [((t(3, 4), t.index(2, 3, below=12)), {})],
    types={
        "out_words": "take(): self and out expected to have the same dtype, but got self.dtype = {result} and out.dtype = {out}"
    },
)
def take(self, index):
    """The elements of self, as if it were 1-d, at the positions in index."""
    if index.dtype != dt.int64:
        raise RuntimeError(f"[take] take(): Expected a long tensor for index, but got {index.dtype}")
    if self.numel() == 0 and index.numel() != 0:
        raise IndexError("[take] take(): tried to take from an empty tensor")
    return Out(index.shape, self.dtype)


@gradient(take, "self")
def take_gradient(grad, self, index):
    return no_gradient_yet(self, grad).put_(index, grad, True)


@rule
def put_alert(accumulate: "bool") -> "str":
    """Of several values for one position any may stay; sums are the same."""
    return "" if accumulate else "put_"


@native(
    "put(Tensor self, Tensor index, Tensor source, bool accumulate=False) -> Tensor",
    tags=_IN_PLACE,
    nondeterministic=put_alert,
    variants="function, method, inplace",
    samples=lambda t: [((t(3, 4), t.of([3, 11, 0]), t(3)), {}), ((t(3, 4), t.index(5, below=12), t(5), True), {})],
)
def put(self, index, source, accumulate):
    """Writes source into the positions of self, as if it were 1-d, that index names; with accumulate, adds."""


@gradient(put, "self")
def put_gradient(grad, index, source, accumulate):
    if accumulate:
        return grad
    return grad.put(index, op.zeros(source.shape, dtype=grad.dtype, device=grad.device))


@gradient(put, "source")
def put_source_gradient(grad, index, source):
    return grad.take(index).reshape(source.shape)


@rule
def along_dim_sizes(self_sizes: "int[]", index_sizes: "int[]", dim: "int") -> "int[]":
    """Both broadcast to each other everywhere but at dim, where index says how many."""
    a = list(self_sizes)
    a[dim] = 1
    b = list(index_sizes)
    b[dim] = 1
    sizes = broadcast_shapes(a, b, "take_along_dim")
    sizes[dim] = index_sizes[dim]
    return sizes


@native("_take_along(Tensor self, Tensor indices, int dim) -> Tensor", variants="", node="GatherBackward0")
def _take_along(self, indices, dim):
    """gather with broadcasting; indices beyond the end wrap around."""
    return Out(along_dim_sizes(self.shape, indices.shape, dim), self.dtype)


@native(
    "_wrapped_indices(Tensor indices, int size) -> Tensor",
    variants="",
    tags=frozenset({"any_device", "dynamic", "no_gradient"}),
)
def _wrapped_indices(indices, size):
    """indices modulo size; themselves where nothing is to be done."""


@facts(_wrapped_indices)
def wrapped_indices_facts(indices, size):
    return indices


@gradient(_take_along, "self")
def take_along_gradient(grad, self, indices, dim):
    sizes = list(grad.shape)
    sizes[dim] = self.size(dim)
    places = op._wrapped_indices(indices, self.size(dim)).expand(grad.shape)
    return grad.new_zeros(sizes).scatter_add_(dim, places, grad)


@composite(
    "take_along_dim(Tensor self, Tensor indices, int? dim=None) -> Tensor",
    tags=frozenset({"out_apart", "exact_out"}),
    variants="function, method, out",
    samples=lambda t: [((t(3, 4), t.index(3, 2, below=4), 1), {}), ((t(3, 4), t.index(5, below=12)), {})],
)
def take_along_dim(self, indices, dim):
    """Picks along dim by an index of the same rank, as argsort gives; without dim both are taken as 1-d."""
    if indices.dtype != dt.int64:
        raise RuntimeError(
            f"[take_along_dim] torch.take_along_dim(): dtype of indices should be Long but got {indices.dtype}"
        )
    if dim is None:
        return self.reshape([-1]).gather(0, indices.reshape([-1]))
    if self.ndim != indices.ndim:
        raise RuntimeError(
            f"[take_along_dim] torch.take_along_dim(): input and indices should have the same number of dimensions, but got {self.ndim} dimensions for input, and {indices.ndim} dimensions for indices"
        )
    d = wrap_dim(dim, self.ndim)
    if self.ndim == 0:
        raise IndexError(f"[take_along_dim] Dimension specified as {d} but tensor has no dimensions")
    return op._take_along(self, indices, d)


@native(
    "embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, bool scale_grad_by_freq=False, bool sparse=False) -> Tensor",
    variants="function",
    samples=lambda t: [((t(5, 3), t.index(2, 4, below=5)), {})],
    core=True,
)
def embedding(weight, indices, padding_idx, scale_grad_by_freq, sparse):
    """The rows of weight that indices name."""
    if weight.ndim != 2:
        raise RuntimeError(f"[embedding] 'weight' must be 2-D, got {weight.shape}")
    if indices.dtype != dt.int64 and indices.dtype != dt.int32:
        raise RuntimeError(
            f"[embedding] Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got torch.{indices.dtype}Tensor instead (while checking arguments for embedding)"
        )
    if weight.size(0) == 0 and indices.numel() != 0:
        raise RuntimeError(f"[embedding] index_select(): self indexing axis dim should be positive, got {weight.shape}")
    return Out([*indices.shape, weight.shape[1]], weight.dtype)


@gradient(embedding, "weight")
def embedding_gradient(grad, weight, indices, padding_idx, scale_grad_by_freq, sparse):
    if sparse:
        if scale_grad_by_freq:
            raise RuntimeError("[embedding_backward] scale_grad_by_freq not supported with sparse gradients")
        count = indices.numel()
        return sparse_rows(grad.reshape([count, grad.size(-1)]), indices.reshape([count]), weight.size(0), padding_idx)
    return op.embedding_dense_backward(grad, indices, weight.size(0), padding_idx, scale_grad_by_freq)


@native(
    "embedding_renorm_(Tensor self, Tensor indices, float max_norm, float norm_type) -> Tensor",
    variants="function",
    tags=frozenset({"no_gradient"}),  # a constraint on the weights, not a step of the calculation
    samples=lambda t: [((t(5, 3), t.index(2, 4, below=5), 0.5, 2.0), {})],
)
def embedding_renorm_(self, indices, max_norm, norm_type):
    """Scales the rows of self that indices name down to max_norm where their norm is larger."""


@composite(
    "nn_embedding(Tensor input, Tensor weight, int? padding_idx=None, float? max_norm=None, float norm_type=2.0, bool scale_grad_by_freq=False, bool sparse=False) -> Tensor",
    variants="function",
    samples=lambda t: [((t.index(2, 4, below=5), t(5, 3)), {})],
    aten=(),
)
def nn_embedding(input, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse):
    """The rows of weight that input names; with max_norm, those rows are first scaled down to it."""
    pad = -1
    if padding_idx is not None:
        pad = padding_idx
        rows = weight.size(0)
        if pad >= rows or pad < -rows:
            raise RuntimeError("[embedding] Padding_idx must be within num_embeddings")
        pad = pad + rows if pad < 0 else pad
    if max_norm is not None:
        op.embedding_renorm_(weight, input, max_norm, norm_type)
    return op.embedding(weight, input, pad, scale_grad_by_freq, sparse)


@native(
    "nn_one_hot(Tensor tensor, int num_classes=-1) -> Tensor",
    tags=_DYNAMIC | {"dynamic_output_shape"},
    variants="function",
    samples=lambda t: [((t.index(3, 4, below=5), 6), {})],
    aten=("one_hot(Tensor self, int num_classes=-1) -> Tensor",),
)
def nn_one_hot(tensor, num_classes):
    """Rows of zeros with a one at the class; without num_classes as many classes as the largest one needs."""


@facts(nn_one_hot)
def one_hot_facts(tensor, num_classes):
    classes = interpreter.current().unknown_size("one_hot") if num_classes < 0 else num_classes
    return tensor.fresh([*tensor.sizes, classes], dtype=dt.int64)


@native(
    "_unravel_index(Tensor indices, int[] shape) -> Tensor[]",
    variants="function",
    tags=frozenset({"any_device"}),
    samples=lambda t: [((t.index(5, below=12), (3, 4)), {})],
)
def _unravel_index(indices, shape):
    """The coordinates in `shape` of flat positions."""


@facts(_unravel_index)
def unravel_index_facts(indices, shape):
    return [indices.fresh(dtype=dt.int64) for _ in shape]


@native(
    "isin(Tensor elements, Tensor test_elements, *, bool assume_unique=False, bool invert=False) -> Tensor",
    variants="function, out",
    aten=("isin.Tensor_Tensor",),
)
def isin(elements, test_elements, assume_unique, invert):
    """For each element whether it occurs among the test elements."""
    for t in [elements, test_elements]:
        if t.is_complex() or t.dtype == dt.bool_:
            raise RuntimeError(f"[isin] Unsupported input type encountered for isin(): {t.dtype}")
    return Out(elements.shape, dt.bool_)


@composite(
    "isin.Tensor_Scalar(Tensor elements, Scalar test_element, *, bool assume_unique=False, bool invert=False) -> Tensor",
    variants="function, out",
    whole=True,
)
def isin_tensor_scalar(elements, test_element, assume_unique, invert):
    """For each element whether it equals the test element."""
    return op.isin(elements, test_element, assume_unique=assume_unique, invert=invert)


@composite(
    "isin.Scalar_Tensor(Scalar element, Tensor test_elements, *, bool assume_unique=False, bool invert=False) -> Tensor",
    variants="function, out",
    whole=True,
)
def isin_scalar_tensor(element, test_elements, assume_unique, invert):
    """Whether the element occurs among the test elements."""
    return op.isin(element, test_elements, assume_unique=assume_unique, invert=invert)
