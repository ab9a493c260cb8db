"""Products, norms, embeddings and attention of nested tensors of jagged layout."""

from __future__ import annotations

from typing import Any

from tocha import _C
from tocha.nested._internal.nested_tensor import (
    FORMS,
    NestedTensor,
    Tensor,
    batch_size,
    dense_like,
    from_padded,
    is_nested,
    length_bounds,
    like,
    ragged_first,
    same_ragged,
    size_text,
    to_padded,
    values_of,
)
from tocha.nested._operators import form_of, transpose, unbind
from tocha.nn import functional


@form_of("linear")
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input @ weight.T + bias for each component."""
    if not is_nested(input) or is_nested(weight) or is_nested(bias):
        raise RuntimeError("linear(): expected a nested input, and a dense weight and bias")
    if input._ragged_idx == input.dim() - 1:
        raise RuntimeError("linear(): not supported for NestedTensor on ragged dim")
    return like(input, _C._nn.linear(values_of(input), weight, bias))


def _refuse_product(a: Any, b: Any) -> Any:
    raise RuntimeError(f"matmul(): not supported between inputs of shapes {size_text(a)} and {size_text(b)}")


@form_of("matmul", "__matmul__", "bmm")
def matmul(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """Products of matrices, for each component."""
    if is_nested(input) and is_nested(other):
        return _two_nested(input, other)
    if is_nested(input):
        return _nested_first(input, other)
    return _nested_second(input, other)  # type: ignore[arg-type]


form_of("__rmatmul__")(lambda self, other: matmul(other, self))


def _nested_first(a: NestedTensor, b: Tensor) -> Tensor:
    if b.dim() < 2 or a._ragged_idx == a.dim() - 1:
        return _refuse_product(a, b)
    if b.dim() == 2 or (b.dim() < a.dim() and a._ragged_idx < a.dim() - b.dim()):
        return like(a, values_of(a) @ b)
    if b.dim() != a.dim() or b.size(0) != batch_size(a) or a._ragged_idx != a.dim() - 2:
        return _refuse_product(a, b)
    padded = to_padded(a, 0.0).movedim(1, a._ragged_idx)
    return _nested_again(padded @ b, a)


def _nested_again(padded: Tensor, like_t: NestedTensor) -> Tensor:
    """A padded result with the ragged dimension where it was."""
    ragged = like_t._ragged_idx
    made = from_padded(padded.movedim(ragged, 1), like_t)
    if ragged == 1:
        return made
    return like(made, values_of(made).movedim(0, ragged - 1), ragged)


def _nested_second(a: Tensor, b: NestedTensor) -> Tensor:
    if a.dim() < 2 or b._ragged_idx == b.dim() - 2:
        return _refuse_product(a, b)
    if a.dim() == 2:
        return like(b, a @ values_of(b))
    if a.dim() != b.dim() or a.size(0) != batch_size(b) or b._ragged_idx != b.dim() - 1:
        return _refuse_product(a, b)
    return _nested_again(a @ to_padded(b, 0.0).movedim(1, b._ragged_idx), b)


def _two_nested(a: NestedTensor, b: NestedTensor) -> Tensor:
    """Where both ragged dimensions are summed over, the result is dense; where one is, it has the other one."""
    if a.dim() != b.dim() or a.dim() < 3:
        return _refuse_product(a, b)
    summed = a._ragged_idx == a.dim() - 1 and b._ragged_idx == b.dim() - 2
    of_batch = a._ragged_idx == b._ragged_idx < a.dim() - 2 and same_ragged(a, b)
    if of_batch:
        return like(a, values_of(a) @ values_of(b))
    if not summed or not _one_size(a, b):
        return _refuse_product(a, b)
    return to_padded(a, 0.0).movedim(1, a._ragged_idx) @ to_padded(b, 0.0).movedim(1, b._ragged_idx)


def _one_size(a: NestedTensor, b: NestedTensor) -> bool:
    return bool(a.shape[a._ragged_idx] == b.shape[b._ragged_idx])


def _check_normalized(input: NestedTensor, shape: Any, name: str) -> list[int]:
    sizes = list(shape)
    first = input.dim() - len(sizes)
    if first <= 0:
        raise RuntimeError(f"{name}(): normalizing over the batch dimension not supported for NestedTensor")
    return sizes


@form_of("layer_norm")
def layer_norm(
    input: NestedTensor, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5, *rest: Any
) -> Tensor:
    """The layer norm of each component; over the ragged dimension too, if it is among those that are named."""
    sizes = _check_normalized(input, normalized_shape, "layer_norm")
    if input.dim() - len(sizes) > input._ragged_idx:
        return like(input, _C._nn.layer_norm(values_of(input), sizes, weight, bias, eps))
    if input._ragged_idx != 1 or len(sizes) != input.dim() - 1:
        raise RuntimeError(
            "layer_norm(): only supported when normalizing over the last dims of a tensor whose ragged dim is 1"
        )
    parts = [_C._nn.layer_norm(part, list(part.shape), None, None, eps) for part in unbind(input)]
    made = _C.cat(parts)
    made = made if weight is None else made * weight
    return like(input, made if bias is None else made + bias)


@form_of("rms_norm")
def rms_norm(input: NestedTensor, normalized_shape: Any, weight: Any = None, eps: float | None = None) -> Tensor:
    """The norm by the root of the mean square of each component."""
    sizes = _check_normalized(input, normalized_shape, "rms_norm")
    if input.dim() - len(sizes) <= input._ragged_idx:
        raise RuntimeError("rms_norm(): not supported over the ragged dim for NestedTensor")
    return like(input, functional.rms_norm(values_of(input), sizes, weight, eps))


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: Any = None,
    max_norm: Any = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """The rows that each component's indices name."""
    if not is_nested(input) or is_nested(weight):
        raise RuntimeError("embedding(): expected nested indices and a dense weight")
    made = functional.embedding(values_of(input), weight, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse)
    return like(input, made)


FORMS[functional.embedding] = embedding


def one_hot(tensor: NestedTensor, num_classes: int = -1) -> Tensor:
    """A one at each component's numbers."""
    return like(tensor, functional.one_hot(values_of(tensor), num_classes))


FORMS[functional.one_hot] = one_hot


def _of_rows(*names: str) -> None:
    """Functions of nn.functional that act on the last dimension, or on every element."""
    for name in names:
        function = getattr(functional, name, None)
        if function is not None and function not in FORMS:
            FORMS[function] = _on_values(function)


def _on_values(function: Any) -> Any:
    def run(input: NestedTensor, *args: Any, **kwargs: Any) -> Tensor:
        return like(input, function(values_of(input), *args, **kwargs))

    return run


_of_rows("dropout", "gelu", "silu", "relu", "leaky_relu", "elu", "selu", "softplus", "mish", "hardswish", "tanh")


def _functional_softmax(name: str) -> None:
    def run(input: Tensor, dim: int, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
        return getattr(_C, name)(input, dim, dtype=dtype)

    if getattr(functional, name) not in FORMS:
        FORMS[getattr(functional, name)] = run


_functional_softmax("softmax")
_functional_softmax("log_softmax")


# -- attention -------------------------------------------------------------------------------------------


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: Any = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Attention within each component: [batch, heads, ragged, size] each, or [batch, ragged, size]."""
    if not (is_nested(query) and is_nested(key) and is_nested(value)):
        raise ValueError("scaled_dot_product_attention(): expected query, key and value all to be nested tensors")
    if not query.dim() == key.dim() == value.dim() or query.dim() < 3:
        raise ValueError(
            f"Expected query, key, and value to all have the same number of dimensions, got {size_text(query)}, {size_text(key)} and {size_text(value)}"
        )
    if attn_mask is not None:
        raise ValueError("Masks are not yet supported!")
    if not query._ragged_idx == key._ragged_idx == value._ragged_idx == query.dim() - 2:
        raise RuntimeError(
            "No viable backend for scaled_dot_product_attention was found: the ragged dim must be the last but one"
        )
    if not _one_size(key, value) or batch_size(query) != batch_size(key):
        raise ValueError(f"Expected key and value to have one ragged size, got {size_text(key)} and {size_text(value)}")
    options = {"dropout_p": dropout_p, "is_causal": is_causal, "scale": scale, "enable_gqa": enable_gqa}
    if _is_even(query) and _is_even(key):
        return _even_attention(query, key, value, options)
    parts = [
        functional.scaled_dot_product_attention(q.unsqueeze(0), k.unsqueeze(0), v.unsqueeze(0), **options).squeeze(0)
        for q, k, v in zip(unbind(query), unbind(key), unbind(value), strict=True)
    ]
    rows = _C.cat([part.transpose(-3, -2) if part.dim() > 2 else part for part in parts])
    return _attended(query, rows)


FORMS[functional.scaled_dot_product_attention] = scaled_dot_product_attention
for _home in (_C, _C._nn):
    if hasattr(_home, "scaled_dot_product_attention"):
        FORMS[_home.scaled_dot_product_attention] = scaled_dot_product_attention


def _attended(query: NestedTensor, rows: Tensor) -> Tensor:
    """Results, [ragged, heads, size], as a tensor with query's form."""
    plain = like(query, rows, 1) if query._lengths is None else dense_like(query, rows)
    return plain if query.dim() == 3 else transpose(plain, 1, 2)


def _is_even(t: NestedTensor) -> bool:
    low, high = length_bounds(t)
    return low == high and low > 0


def _even_attention(query: NestedTensor, key: NestedTensor, value: NestedTensor, options: dict) -> Tensor:
    """Components of one length are an ordinary batch."""

    def batch(t: NestedTensor) -> Tensor:
        rows = ragged_first(t)
        made = rows.reshape(batch_size(t), -1, *rows.shape[1:])
        return made.transpose(1, 2) if made.dim() == 4 else made

    made = functional.scaled_dot_product_attention(batch(query), batch(key), batch(value), **options)
    made = made.transpose(1, 2) if made.dim() == 4 else made
    return _attended(query, made.reshape(-1, *made.shape[2:]))
