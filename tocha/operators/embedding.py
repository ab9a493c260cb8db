"""Sums of rows that indices name: the gradient of embedding, and embedding_bag.

Both are one operator, _add_rows: out[to[i]] += factors[i] * source[origin[i]]. It is its own transpose, so that its
gradient is itself with the indices exchanged.
"""

from __future__ import annotations

from tocha.ir import dtypes as dt
from tocha.operators import interpreter
from tocha.operators.indexing import no_gradient_yet
from tocha.operators.record import FLOATS, composite, facts, gradient, native, op, rule
from tocha.operators.rules import Out, is_float8, refuse_dtype, sparse_rows

SUM, MEAN, MAX = 0, 1, 2


@native(
    "_merge_indices(Tensor a, Tensor b) -> (Tensor, Tensor)",
    algorithm="selection",
    variants="function",
    tags=frozenset({"dynamic", "reads_values", "no_gradient"}),
    samples=lambda t: [((t.of([0, 2, 1]), t.of([0, 1, 3])), {})],
)
def _merge_indices(a, b):
    """Two lists of int64 walked side by side, the smaller head first and equal heads together: for each step the place in
    a and in b, -1 where that list has no part. How sparse tensors are added.
    """


@facts(_merge_indices)
def merge_indices_facts(a, b):
    count = interpreter.current().unknown_size("_merge_indices")
    return a.fresh([count]), b.fresh([count])


@native(
    "_add_rows(Tensor source, Tensor? origin, Tensor? to, Tensor? factors, int rows) -> Tensor",
    variants="function",
    samples=lambda t: [((t(4, 3), t.of([3, 0, 0]), t.of([1, 1, 0]), t(3), 2), {})],
)
def _add_rows(source, origin, to, factors, rows):
    """Sums of rows of a matrix: out[to[i]] += factors[i] * source[origin[i]]. Indices that are None count up, factors
    that are None are 1.
    """
    if not source.is_floating_point():
        refuse_dtype("embedding_bag", source.dtype)
    return Out([rows, source.size(1)], source.dtype)


@gradient(_add_rows, "source")
def add_rows_source_gradient(grad, source, origin, to, factors):
    return op._add_rows(grad, to, origin, factors, source.size(0))


@rule
def factors_gradient(grad: "Tensor", source: "Tensor", origin: "Tensor?", to: "Tensor?") -> "Tensor":
    """The products of the rows that a factor multiplies with the gradients of the rows that they are added to."""
    rows = source if origin is None else source.index_select(0, origin)
    grads = grad if to is None else grad.index_select(0, to)
    return (rows.unsqueeze(1) @ grads.unsqueeze(2)).reshape([rows.size(0)])


@gradient(_add_rows, "factors")
def add_rows_factors_gradient(grad, source, origin, to):
    return factors_gradient(grad, source, origin, to)


@rule
def occurrences(indices: "Tensor", count: "int", kept: "Tensor?") -> "Tensor":
    """How often each of `count` numbers is among the indices that are kept."""
    ones = op.ones_like(indices) if kept is None else kept.to(dt.int64)
    return op.zeros([count], dtype=dt.int64, device=indices.device).scatter_add_(0, indices, ones)


@rule
def bag_sizes(offsets: "Tensor", count: "int", total: "int", bags: "Tensor", kept: "Tensor?") -> "Tensor":
    """How many indices each bag has that are kept: where all are, from one offset to the next."""
    if kept is not None or count == 0:
        return occurrences(bags, count, kept)
    end = op.full([1], total, dtype=dt.int64, device=offsets.device)
    return op.cat([offsets.narrow(0, 1, count - 1), end]) - offsets.narrow(0, 0, count)


@rule
def keeps(indices: "Tensor", padding_idx: "int", dtype: "dtype") -> "Tensor?":
    """Factors that leave out the padding."""
    if padding_idx < 0:
        return None
    return indices.ne(padding_idx).to(dtype)


@composite(
    "embedding_dense_backward(Tensor grad_output, Tensor indices, SymInt num_weights, SymInt padding_idx, bool scale_grad_by_freq) -> Tensor",
    variants="function",
    samples=lambda t: [((t(2, 4, 3), t.index(2, 4, below=5), 5, -1, False), {})],
    core=True,
    whole=True,
)
def embedding_dense_backward(grad_output, indices, num_weights, padding_idx, scale_grad_by_freq):
    """The gradient of embedding's weight: each row's sum of what came to where its index stood."""
    n = grad_output.size(-1)
    grads = grad_output.reshape([indices.numel(), n])
    if grad_output.is_complex():
        grads = op.view_as_real(grads).reshape([indices.numel(), 2 * n])
    flat = indices.reshape([indices.numel()]).to(dt.int64)
    factors = keeps(flat, padding_idx, grads.dtype)
    if scale_grad_by_freq:
        share = occurrences(flat, num_weights, None).index_select(0, flat).to(grads.dtype).reciprocal()
        factors = share if factors is None else factors * share
    rows = op._add_rows(grads, None, flat, factors, num_weights)
    return op.view_as_complex(rows.reshape([num_weights, n, 2])) if grad_output.is_complex() else rows


# -- bags --------------------------------------------------------------------------------------------


@native(
    "_bag_of_each(Tensor offsets, int count, bool include_last_offset) -> Tensor",
    variants="",
    tags=frozenset({"no_gradient"}),
)
def _bag_of_each(offsets, count, include_last_offset):
    """Which bag each of `count` indices belongs to, given where the bags begin."""
    return Out([count], dt.int64)


@native(
    "_sum_bags(Tensor weight, Tensor indices, Tensor bags, Tensor? factors, int count, bool by_frequency, bool sparse, int padding_idx) -> Tensor",
    variants="",
    node="EmbeddingBagBackward0",
)
def _sum_bags(weight, indices, bags, factors, count, by_frequency, sparse, padding_idx):
    """The sum of each bag's rows. The rest says how the weight's gradient is made: divided by how often a row occurs, or
    sparse, without the padding.
    """
    if not weight.is_floating_point():
        refuse_dtype("embedding_bag", weight.dtype)
    return Out([count, weight.size(1)], weight.dtype)


@gradient(_sum_bags, "weight")
def sum_bags_weight_gradient(grad, weight, indices, bags, factors, by_frequency, sparse, padding_idx):
    if sparse:
        if by_frequency:
            raise RuntimeError("[embedding_backward] scale_grad_by_freq not supported with sparse gradients")
        rows = grad.index_select(0, bags)
        return sparse_rows(
            rows if factors is None else rows * factors.unsqueeze(1), indices, weight.size(0), padding_idx
        )
    scale: "Tensor?" = factors
    if by_frequency:
        often = occurrences(indices, weight.size(0), None).index_select(0, indices).to(grad.dtype)
        scale = often.reciprocal() if factors is None else factors / often
    return op._add_rows(grad, bags, indices, scale, weight.size(0))


@gradient(_sum_bags, "factors")
def sum_bags_factors_gradient(grad, weight, indices, bags):
    return factors_gradient(grad, weight, indices, bags)


@native(
    "_bag_max(Tensor weight, Tensor indices, Tensor bags, int count, int padding_idx) -> (Tensor, Tensor)",
    variants="",
    differentiable=(0,),
    node="EmbeddingBagBackward0",
)
def _bag_max(weight, indices, bags, count, padding_idx):
    """The greatest of each bag's rows, element by element, and which row that is: -1 where the bag is empty."""
    return Out([count, weight.size(1)], weight.dtype), Out([count, weight.size(1)], dt.int64)


@gradient(_bag_max, "weight")
def bag_max_gradient(grad, weight, result1):
    none = result1 < 0
    at = result1.masked_fill(none, 0)
    return no_gradient_yet(weight, grad).scatter_add_(0, at, grad.masked_fill(none, 0))


@rule
def check_bags(weight: "Tensor", indices: "Tensor", offsets: "Tensor", include_last_offset: "bool") -> "none":
    for t in [indices, offsets]:
        if t.dtype != dt.int64 and t.dtype != dt.int32:
            raise RuntimeError(
                f"[embedding_bag] Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got torch.{indices.dtype}Tensor instead (while checking arguments for embedding_bag): offsets are {offsets.dtype}"
            )
    if weight.dim() != 2 or indices.dim() != 1 or offsets.dim() != 1:
        raise RuntimeError(
            f"[embedding_bag] expected a matrix of weights and vectors of indices and offsets, but got {weight.shape}, {indices.shape} and {offsets.shape}"
        )
    if include_last_offset and offsets.numel() == 0:
        raise RuntimeError("[embedding_bag] include_last_offset: number of offset should be at least 1")
    if not weight.is_floating_point() or is_float8(weight.dtype):
        raise RuntimeError(
            f"[embedding_bag] Expected tensor for argument #1 'weight' to have one of the following scalar types: Half, BFloat16, Float, Double; but got torch.{weight.dtype}Tensor instead (while checking arguments for embedding_bag)"
        )


@composite(
    "embedding_bag(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int mode=0, bool sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False, int? padding_idx=None) -> (Tensor, Tensor, Tensor, Tensor)",
    dtypes=FLOATS,
    variants="function",
    samples=lambda t: [((t(5, 3), t.index(6, below=5), t.of([0, 2, 4])), {"mode": 1})],
    aten=(
        "embedding_bag(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int mode=0, bool sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False) -> (Tensor, Tensor, Tensor, Tensor)",
        "embedding_bag.padding_idx(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq, int mode, bool sparse, Tensor? per_sample_weights, bool include_last_offset, int? padding_idx) -> (Tensor, Tensor, Tensor, Tensor)",
    ),
)
def embedding_bag(
    weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights, include_last_offset, padding_idx
):
    """Sums (mode 0), means (1) or maxima (2) of bags of rows; bag k has the indices from offsets[k] to offsets[k + 1].
    Also returns the bag of each index, the sizes of the bags without padding, and for maxima the rows they come from.
    """
    check_bags(weight, indices, offsets, include_last_offset)
    if mode < SUM or mode > MAX:
        raise RuntimeError(f"[embedding_bag] `mode` must be sum, mean, or max, got {mode}")
    count = offsets.numel() - 1 if include_last_offset else offsets.numel()
    pad = -1
    if padding_idx is not None:
        pad = padding_idx
        if pad >= weight.size(0) or pad < -weight.size(0):
            raise RuntimeError(
                f"[embedding_bag] padding_idx must be within the number of embeddings, {-weight.size(0)} through {weight.size(0) - 1}, but got {pad}"
            )
        pad = pad + weight.size(0) if pad < 0 else pad
    flat = indices.to(dt.int64)
    starts = offsets.to(dt.int64)
    bags = op._bag_of_each(starts, flat.numel(), include_last_offset)
    kept = keeps(flat, pad, weight.dtype)
    sizes = bag_sizes(starts, count, flat.numel(), bags, kept)
    if mode == MAX:
        found = op._bag_max(weight, flat, bags, count, pad)
        return found[0], bags, sizes, found[1]
    factors: "Tensor?" = kept
    if per_sample_weights is not None:
        factors = per_sample_weights if kept is None else per_sample_weights * kept
    out = op._sum_bags(weight, flat, bags, factors, count, scale_grad_by_freq, sparse, pad)
    if mode == MEAN:
        out = out / sizes.clamp_min(1).unsqueeze(1).to(out.dtype)
    return out, bags, sizes, sizes


@rule
def bag_mode(mode: "str", scale_grad_by_freq: "bool", sparse: "bool") -> "int":
    if mode == "sum":
        return SUM
    if mode == "mean":
        return MEAN
    if mode != "max":
        raise ValueError(f"[embedding_bag] mode has to be one of sum, mean or max, but got {mode}")
    if scale_grad_by_freq:
        raise ValueError("[embedding_bag] max mode does not support scaling the gradient by the frequency")
    if sparse:
        raise ValueError("[embedding_bag] max mode does not support sparse weights")
    return MAX


@composite(
    "nn_embedding_bag(Tensor input, Tensor weight, Tensor? offsets=None, float? max_norm=None, float norm_type=2, bool scale_grad_by_freq=False, str mode='mean', bool sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False, int? padding_idx=None) -> Tensor",
    dtypes=FLOATS,
    variants="function",
    samples=lambda t: [
        ((t.index(2, 4, below=5), t(5, 3)), {}),
        ((t.index(6, below=5), t(5, 3), t.of([0, 2, 4])), {}),
        ((t.index(6, below=5), t(5, 3), t.of([0, 2, 2])), {"mode": "max", "padding_idx": 1}),
    ],
    aten=(),
)
def nn_embedding_bag(
    input,
    weight,
    offsets,
    max_norm,
    norm_type,
    scale_grad_by_freq,
    mode,
    sparse,
    per_sample_weights,
    include_last_offset,
    padding_idx,
):
    """Sums, means or maxima of bags of rows of weight. Each row of a matrix of indices is a bag; in a vector of them,
    offsets says where bags begin. With sparse=True the gradient of weight is a sparse tensor.
    """
    if per_sample_weights is not None and per_sample_weights.shape != input.shape:
        raise ValueError(
            f"[embedding_bag] If per_sample_weights ({per_sample_weights.shape}) is not None, then it must have the same shape as the input ({input.shape})"
        )
    if not weight.dim() == 2:
        raise ValueError(f"[embedding_bag] weight has to be a 2D Tensor, but got Tensor of dimension {weight.dim()}")
    starts: "Tensor?" = offsets
    if input.dim() == 2:
        if offsets is not None:
            raise ValueError(
                "[embedding_bag] if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed length sequences"
            )
        starts = op.arange(0, input.numel(), max(input.size(1), 1), dtype=dt.int64, device=input.device)
        if input.numel() == 0:
            starts = op.zeros([input.size(0)], dtype=dt.int64, device=input.device)
    elif input.dim() == 1:
        if offsets is None:
            raise ValueError("[embedding_bag] offsets has to be a 1D Tensor but got None")
        if offsets.dim() != 1:
            raise ValueError("[embedding_bag] offsets has to be a 1D Tensor")
    else:
        raise ValueError(f"[embedding_bag] input has to be 1D or 2D Tensor, but got Tensor of dimension {input.dim()}")
    kind = bag_mode(mode, scale_grad_by_freq, sparse)
    if per_sample_weights is not None and kind != SUM:
        raise NotImplementedError(
            f"[embedding_bag] per_sample_weights is only supported for mode='sum' (got mode='{mode}')"
        )
    flat = input.reshape([input.numel()])
    if max_norm is not None:
        op.embedding_renorm_(weight, flat, max_norm, norm_type)
    weights: "Tensor?" = None
    if per_sample_weights is not None:
        weights = per_sample_weights.reshape([input.numel()])
    return op.embedding_bag(
        weight, flat, starts, scale_grad_by_freq, kind, sparse, weights, include_last_offset, padding_idx
    )[0]
