"""Forms of what is not pointwise: views, joins, reductions and softmax of nested tensors of jagged layout."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tocha import _C, autograd
from tocha._core.forms import read_natively, registrar
from tocha._core.type_info import iinfo
from tocha.nested._internal.nested_tensor import (
    FORMS,
    NestedTensor,
    Tensor,
    batch_size,
    build,
    component_of_each,
    dense_like,
    from_padded,
    is_nested,
    length_bounds,
    lengths_of,
    like,
    make,
    offsets_from,
    ragged_first,
    same_ragged,
    size_text,
    sizes_of,
    to_padded,
    values_of,
    wrapped,
)
from tocha.overrides import DisableTorchFunctionSubclass

form_of = registrar(FORMS)
read_natively(
    FORMS, "dtype", "device", "ndim", "requires_grad", "is_leaf", "grad_fn", "grad", "retains_grad", "output_nr"
)
read_natively(
    FORMS, "_version", "_base", "_backward_hooks", "_post_accumulate_grad_hooks", "itemsize", "is_cpu", "is_meta"
)
read_natively(FORMS, "is_cuda", "is_quantized", "dim", "ndimension", "element_size", "is_floating_point", "is_complex")
read_natively(FORMS, "is_signed", "is_conj", "is_neg", "is_inference", "_is_view", "get_device", "has_names", "detach_")
read_natively(
    FORMS, "requires_grad_", "retain_grad", "register_hook", "register_post_accumulate_grad_hook", "_bump_version"
)
read_natively(FORMS, "_register_hook_dict", "__format__", "__dir__", "storage_offset")


@form_of("shape")
def _shape(self: NestedTensor) -> Any:
    return sizes_of(self)


form_of("size")(lambda self, dim=None: NestedTensor.size(self, dim))
form_of("numel", "nelement")(lambda self: NestedTensor.numel(self))
form_of("stride")(lambda self, dim=None: NestedTensor.stride(self, dim))
form_of("layout")(lambda self: _C.jagged)
form_of("is_nested")(lambda self: True)
form_of("is_sparse")(lambda self: False)
form_of("__len__")(lambda self: batch_size(self))
form_of("is_contiguous")(lambda self, memory_format=None: NestedTensor.is_contiguous(self))


@form_of("is_same_size")
def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether two nested tensors have the same sizes, the ragged one included."""
    return is_nested(input) and is_nested(other) and bool(sizes_of(input) == sizes_of(other))


@form_of("item")
def _item(self: NestedTensor) -> Any:
    if self.numel() != 1:
        raise RuntimeError(f"a Tensor with {self.numel()} elements cannot be converted to Scalar")
    return ragged_first(self).item()


@form_of("detach")
def detach(self: NestedTensor) -> Tensor:
    """The same values without history."""
    return make(self._values, self._offsets, self._lengths, self._ragged_idx, self._bounds)


def _set_data(self: NestedTensor, new: NestedTensor) -> None:
    with DisableTorchFunctionSubclass():
        Tensor.data.__set__(self, new)
    self._values, self._offsets, self._lengths = new._values, new._offsets, new._lengths
    self._ragged_idx, self._bounds = new._ragged_idx, new._bounds


NestedTensor.data = property(detach, _set_data)  # type: ignore[assignment]


@form_of("backward")
def _backward(
    self: Tensor, gradient: Any = None, retain_graph: Any = None, create_graph: bool = False, inputs: Any = None
) -> None:
    autograd.backward(self, gradient, retain_graph, create_graph, inputs=inputs)


def _converting(name: str) -> Callable:
    def convert(self: NestedTensor, *args: Any, **kwargs: Any) -> Tensor:
        if getattr(self._values, name)(*args, **kwargs) is self._values:
            return self
        values = getattr(values_of(self), name)(*args, **kwargs)
        return like(self, values) if isinstance(values, Tensor) else values

    return convert


for _name in (
    "to",
    "double",
    "float",
    "half",
    "bfloat16",
    "long",
    "int",
    "short",
    "char",
    "byte",
    "bool",
    "cpu",
    "type",
):
    form_of(_name)(_converting(_name))


@form_of("contiguous")
def contiguous(self: NestedTensor, memory_format: Any = None) -> Tensor:
    """Components without gaps, ragged dimension first where it was moved."""
    if self._lengths is None:
        return self if self._values.is_contiguous() else like(self, values_of(self).contiguous())
    length_bounds(self)  # they are known from here on
    made = dense_like(self, ragged_first(self))
    return made if self._ragged_idx == 1 else transpose(made, 1, self._ragged_idx)


@form_of("to_dense")
def _to_dense(self: NestedTensor, dtype: Any = None, **rest: Any) -> Tensor:
    raise RuntimeError("to_dense does not support layout Jagged; to_padded_tensor() gives a dense tensor")


@form_of("copy_")
def copy_(self: Tensor, src: Tensor, non_blocking: bool = False) -> Tensor:
    """Gives self the values of src, which has its ragged size."""
    if not is_nested(self) or not is_nested(src):
        raise RuntimeError("copy_ only supports Nested Tensors that have same size and the exact same offset tensor.")
    if not same_ragged(self, src) and not _C.equal(lengths_of(self), lengths_of(src)):
        raise RuntimeError("copy_ only supports Nested Tensors that have same size and the exact same offset tensor.")
    values_of(self).copy_(values_of(src))
    self._bump_version()
    return self


def _like(name: str) -> None:
    function = getattr(_C, name)

    def make_like(input: NestedTensor, *args: Any, requires_grad: bool = False, **kwargs: Any) -> Tensor:
        if kwargs.get("layout") == _C.jagged:
            del kwargs["layout"]
        return like(input, function(input._values, *args, **kwargs)).requires_grad_(requires_grad)

    form_of(name)(make_like)


for _name in [n for n in dir(_C) if n.endswith("_like")]:
    _like(_name)


# -- components ------------------------------------------------------------------------------------------


@form_of("unbind")
def unbind(input: NestedTensor, dim: int = 0) -> tuple:
    """The components."""
    if wrapped(dim, input.dim()) != 0:
        raise RuntimeError("unbind(): only supported for NestedTensor on dim=0")
    values, at = values_of(input), input._ragged_idx - 1
    begin, lengths, total = input._offsets.tolist(), lengths_of(input).tolist(), values.size(at)
    for first, length in zip(begin, lengths, strict=False):
        if first < 0 or length < 0 or first + length > total:
            raise RuntimeError(
                f"unbind(): nested tensor offsets and lengths do not match ragged_idx dimension: got {begin}"
            )
    return tuple(values.narrow(at, first, length) for first, length in zip(begin, lengths, strict=False))


@form_of("to_padded_tensor")
def to_padded_tensor(self: NestedTensor, padding: float, output_size: Sequence[int] | None = None) -> Tensor:
    """All components in one tensor, filled up with `padding`; as long as all of them together where the greatest length has not been asked
    for, which would have to be read."""
    if self._lengths is not None:
        raise RuntimeError("to_padded_tensor(): not supported for nested tensors with holes")
    length = self._bounds[1] if output_size is None else output_size[self._ragged_idx]
    if length is None:
        length = self._values.size(self._ragged_idx - 1)
    return to_padded(self, padding, length).movedim(1, self._ragged_idx)


NestedTensor.to_padded_tensor = to_padded_tensor  # type: ignore[attr-defined]


@form_of("select")
def select(input: NestedTensor, dim: int, index: int) -> Tensor:
    """A component, or a slice of all of them along a dimension that is not ragged."""
    d = wrapped(dim, input.dim())
    if d == 0:
        count = batch_size(input)
        if not -count <= index < count:
            raise IndexError(
                f"select(): index {index} out of range for tensor of size {size_text(input)} at dimension 0"
            )
        return unbind(input)[index]
    if d == input._ragged_idx:
        raise RuntimeError("select(): not supported for NestedTensor on ragged dim")
    return like(input, values_of(input).select(d - 1, index), input._ragged_idx - (d < input._ragged_idx))


def _getitem(self: Tensor, index: Any) -> Tensor:
    if not is_nested(self):
        raise IndexError("[__getitem__] a nested tensor is no index")
    parts = list(index) if isinstance(index, tuple) else [index]
    if Ellipsis in [p for p in parts if not isinstance(p, Tensor)]:
        at = next(i for i, p in enumerate(parts) if p is Ellipsis)
        count = self.dim() - sum(p is not None for p in parts) + 1
        parts[at : at + 1] = [slice(None)] * count
        skipped = set(range(at, at + count))
    else:
        skipped = set()
    if isinstance(parts[0], int):
        component = select(self, 0, parts[0])
        return component[tuple(parts[1:])] if len(parts) > 1 else component
    if any(isinstance(p, Tensor) for p in parts):
        raise NotImplementedError(
            "[__getitem__] aten.index has no form for nested tensors; unbind() gives their components"
        )
    return _sliced(self, parts, skipped)


def _sliced(self: NestedTensor, parts: list, skipped: set[int]) -> Tensor:
    ragged = self._ragged_idx
    for d, part in enumerate(parts):
        if d in skipped or part is None:
            continue
        if d == 0:
            raise RuntimeError("slice(): not supported for NestedTensor on dim=0")
        if d == ragged and part != slice(None):
            raise RuntimeError("slice(): not supported for NestedTensor on ragged dim")
    values = values_of(self)[tuple(parts[1:])]
    gone = sum(isinstance(p, int) for p in parts[1:ragged]) - sum(p is None for p in parts[1:ragged])
    return like(self, values, ragged - gone)


NestedTensor.__getitem__ = _getitem  # type: ignore[assignment, method-assign]
form_of("__getitem__")(_getitem)
form_of("__iter__")(lambda self: iter(unbind(self)))


# -- views -----------------------------------------------------------------------------------------------


@form_of("transpose", "swapaxes", "swapdims")
def transpose(input: NestedTensor, dim0: int, dim1: int) -> Tensor:
    """Two dimensions exchanged, not the batch."""
    a, b = wrapped(dim0, input.dim()), wrapped(dim1, input.dim())
    if a == b:
        return input
    if 0 in (a, b):
        raise ValueError("Transpose is not supported on the batch dimension for jagged NT")
    ragged = b if input._ragged_idx == a else a if input._ragged_idx == b else input._ragged_idx
    return like(input, values_of(input).transpose(a - 1, b - 1), ragged)


form_of("mT")(lambda self: transpose(self, -2, -1))


@form_of("permute")
def permute(input: NestedTensor, *dims: Any) -> Tensor:
    """Dimensions in another order, the batch in front."""
    order = [wrapped(d, input.dim()) for d in (dims[0] if len(dims) == 1 and not isinstance(dims[0], int) else dims)]
    if sorted(order) != list(range(input.dim())):
        raise ValueError(
            f"permute(): number of dimensions in the tensor input does not match the length of the desired ordering of dimensions: got {order}"
        )
    if order[0] != 0:
        raise ValueError("Permute is not supported on the batch dimension for jagged NT")
    return like(input, values_of(input).permute(*(d - 1 for d in order[1:])), order.index(input._ragged_idx))


@form_of("unsqueeze")
def unsqueeze(input: NestedTensor, dim: int) -> Tensor:
    """A dimension of size one more."""
    d = wrapped(dim, input.dim() + 1)
    if d == 0:
        raise RuntimeError("unsqueeze(): not supported for NestedTensor on dim=0")
    return like(input, values_of(input).unsqueeze(d - 1), input._ragged_idx + (d <= input._ragged_idx))


@form_of("squeeze")
def squeeze(input: NestedTensor, dim: Any = None) -> Tensor:
    """A dimension of size one less."""
    if dim is None:
        raise NotImplementedError("[squeeze] aten.squeeze.default has no form for nested tensors: name the dimension")
    d = wrapped(dim, input.dim())
    if d == 0 or d == input._ragged_idx:
        raise RuntimeError(f"squeeze(): not supported for NestedTensor on {'dim=0' if d == 0 else 'ragged dim'}")
    if input._values.size(d - 1) != 1:
        return like(input, values_of(input))
    return like(input, values_of(input).squeeze(d - 1), input._ragged_idx - (d < input._ragged_idx))


def _inner_sizes(input: NestedTensor, name: str, sizes: Sequence[Any]) -> tuple[list[int], int]:
    """The sizes of the values for sizes of the tensor, and where the ragged one stands then."""
    before = _product(input._values.shape[: input._ragged_idx - 1])
    wanted = list(sizes)
    ragged = next((i for i, n in enumerate(wanted) if i > 0 and not isinstance(n, int)), None)
    if ragged is None:
        ragged = next((i for i, n in enumerate(wanted) if i > 0 and n == -1 and _product(wanted[1:i]) == before), None)
    if ragged is None or wanted[0] not in (batch_size(input), -1):
        raise RuntimeError(f"{name}(): cannot view shape {size_text(input)} as {list(sizes)}")
    inner = wanted[1:]
    inner[ragged - 1] = input._values.size(input._ragged_idx - 1)
    rest = [n for i, n in enumerate(inner) if i != ragged - 1]
    total = _product(n for i, n in enumerate(input._values.shape) if i != input._ragged_idx - 1)
    known = _product(n for n in rest if n != -1)
    if (-1 not in rest and known != total) or rest.count(-1) > 1 or (-1 in rest and (known == 0 or total % known)):
        raise RuntimeError(f"{name}(): cannot view shape {size_text(input)} as {list(sizes)}")
    return [total // known if n == -1 else n for n in inner], ragged


def _product(sizes: Any) -> int:
    total = 1
    for n in sizes:
        total *= n
    return total


def _viewing(name: str) -> None:
    def view(input: NestedTensor, *shape: Any, **kwargs: Any) -> Tensor:
        sizes = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape or next(iter(kwargs.values()))
        if isinstance(sizes, _C.dtype):
            return like(input, getattr(values_of(input), name)(sizes))
        inner, ragged = _inner_sizes(input, "view", sizes)
        return like(input, getattr(values_of(input), name)(inner), ragged)

    form_of(name)(view)


_viewing("view")
_viewing("reshape")


@form_of("flatten")
def flatten(input: NestedTensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Dimensions joined, none of them the batch or the ragged one."""
    first, last = wrapped(start_dim, input.dim()), wrapped(end_dim, input.dim())
    if first == 0:
        raise RuntimeError("flatten(): not supported for NestedTensor on dim=0")
    if first <= input._ragged_idx <= last and first != last:
        raise RuntimeError("flatten(): not supported for NestedTensor on ragged dim")
    joined = values_of(input).flatten(first - 1, last - 1)
    return like(input, joined, input._ragged_idx - (last - first if last < input._ragged_idx else 0))


@form_of("unflatten")
def unflatten(input: NestedTensor, dim: int, sizes: Sequence[int]) -> Tensor:
    """A dimension split into several."""
    d = wrapped(dim, input.dim())
    if d == 0 or d == input._ragged_idx:
        raise RuntimeError(f"unflatten(): not supported for NestedTensor on {'dim=0' if d == 0 else 'ragged dim'}")
    more = len(sizes) - 1 if d < input._ragged_idx else 0
    return like(input, values_of(input).unflatten(d - 1, tuple(sizes)), input._ragged_idx + more)


@form_of("expand")
def expand(input: Tensor, *size: Any) -> Tensor:
    """Dimensions of size one repeated."""
    sizes = list(size[0] if len(size) == 1 and not isinstance(size[0], int) else size)
    if not is_nested(input):
        raise RuntimeError("expand(): a dense tensor cannot be expanded to a nested size")
    if len(sizes) != input.dim() or not bool(sizes[input._ragged_idx] == sizes_of(input)[input._ragged_idx]):
        raise RuntimeError(f"expand(): cannot expand shape {size_text(input)} -> {sizes}")
    inner = sizes[1:]
    inner[input._ragged_idx - 1] = -1
    return like(input, values_of(input).expand(*inner))


# -- pieces and joins ------------------------------------------------------------------------------------


def _inner_dim(input: NestedTensor, dim: int, name: str, batch: bool = False) -> int:
    d = wrapped(dim, input.dim())
    if d == 0 and not batch:
        raise RuntimeError(f"{name}(): not supported for NestedTensor on dim=0")
    if d == input._ragged_idx:
        raise RuntimeError(f"{name}(): not supported for NestedTensor on ragged dim")
    return d - 1


@form_of("chunk")
def chunk(input: NestedTensor, chunks: int, dim: int = 0) -> tuple:
    """Pieces along a dimension; along the batch, components of their own."""
    d = _inner_dim(input, dim, "chunk", batch=True)
    if d >= 0:
        return tuple(like(input, part) for part in values_of(input).chunk(chunks, d))
    values, lengths = ragged_first(input), lengths_of(input)
    groups = lengths.chunk(chunks)
    parts = values.split([int(g.sum()) for g in groups])
    return tuple(build(part, offsets_from(group)) for part, group in zip(parts, groups, strict=True))


@form_of("split", "split_with_sizes", "tensor_split")
def split(input: NestedTensor, split_size: Any, dim: int = 0) -> tuple:
    """Pieces of given sizes along a dimension."""
    d = _inner_dim(input, dim, "split")
    return tuple(like(input, part) for part in values_of(input).split(split_size, d))


@form_of("narrow")
def narrow(input: NestedTensor, dim: int, start: int, length: int) -> Tensor:
    """A part of a dimension that is not ragged."""
    return like(input, values_of(input).narrow(_inner_dim(input, dim, "narrow"), start, length))


def _joined(name: str, tensors: Sequence[Tensor]) -> NestedTensor:
    first = next(t for t in tensors if is_nested(t))
    for t in tensors:
        if not is_nested(t) or not same_ragged(t, first):
            raise RuntimeError(
                f"{name}(): expected all tensors to be nested with one ragged size, got {size_text(t)} beside {size_text(first)}"
            )
    return first


@form_of("cat", "concat", "concatenate")
def cat(tensors: Sequence[Tensor], dim: int = 0, *, out: Any = None) -> Tensor:
    """Components joined along a dimension that is not ragged."""
    first = _joined("cat", tensors)
    d = _inner_dim(first, dim, "cat")
    return like(first, _C.cat([values_of(t) for t in tensors], d))  # type: ignore[arg-type]


@form_of("stack")
def stack(tensors: Sequence[Tensor], dim: int = 0, *, out: Any = None) -> Tensor:
    """Components side by side along a new dimension."""
    first = _joined("stack", tensors)
    d = wrapped(dim, first.dim() + 1)
    if d == 0:
        raise RuntimeError("stack(): not supported for NestedTensor on dim=0")
    made = _C.stack([values_of(t) for t in tensors], d - 1)  # type: ignore[arg-type]
    return like(first, made, first._ragged_idx + (d <= first._ragged_idx))


# -- reductions ------------------------------------------------------------------------------------------


def _reduced_dims(input: NestedTensor, dim: Any, name: str) -> set[int]:
    given = [dim] if isinstance(dim, int) else list(dim)
    dims = {wrapped(d, input.dim()) for d in given}
    ragged = input._ragged_idx
    if 0 in dims and ragged not in dims:
        raise RuntimeError(
            f"{name}(): reducing along the batch dimension but not the ragged dimension is not supported for nested tensors"
        )
    if ragged in dims and 0 not in dims and len(dims) > 1:
        if name == "mean":
            raise AssertionError("Cannot reduce on both ragged and non-batch dimensions without also reducing on batch")
        raise RuntimeError(
            f"{name}(): reducing along a ragged and non-batch dimension is not supported for nested tensors"
        )
    return dims


def _identity(name: str, dtype: Any) -> Any:
    """What padding leaves a reduction as it is."""
    if name in ("sum", "mean", "any"):
        return 0
    if name in ("prod", "all"):
        return 1
    low = name in ("amax", "max", "argmax")
    if dtype.is_floating_point:
        return float("-inf" if low else "inf")
    if dtype == _C.bool:
        return not low
    return iinfo(dtype).min if low else iinfo(dtype).max


def _reduction(name: str) -> None:
    function = getattr(_C, name)

    def reduce(input: NestedTensor, dim: Any = None, keepdim: bool = False, **kwargs: Any) -> Any:
        kwargs.pop("out", None)
        if isinstance(dim, Tensor):
            return _binary(name, input, dim)
        if dim is None or (not isinstance(dim, int) and len(dim) == 0):
            return function(ragged_first(input), **kwargs)
        dims = _reduced_dims(input, dim, name)
        if dims == {input._ragged_idx}:
            return _over_ragged(name, function, input, keepdim, kwargs)
        if 0 in dims:
            return _over_batch(function, input, dims, keepdim, kwargs)
        inner = [d - 1 for d in sorted(dims)]
        gone = 0 if keepdim else sum(d < input._ragged_idx for d in dims)
        made = function(values_of(input), inner[0] if isinstance(dim, int) else inner, keepdim, **kwargs)
        if isinstance(made, tuple):
            return type(made)(like(input, part, input._ragged_idx - gone) for part in made)
        return like(input, made, input._ragged_idx - gone)

    form_of(name)(reduce)


def _reductions(*names: str) -> None:
    for name in names:
        _reduction(name)


def _binary(name: str, a: Tensor, b: Tensor) -> Tensor:
    return getattr(_C, {"max": "maximum", "min": "minimum"}[name])(a, b)


def _over_ragged(name: str, function: Callable, input: NestedTensor, keepdim: bool, kwargs: dict) -> Any:
    """Each component reduced to one: a dense tensor."""
    ragged = input._ragged_idx
    if name in ("sum", "mean"):
        rows = ragged_first(input)
        dtype = kwargs.get("dtype") or (rows.dtype if rows.is_floating_point() or rows.is_complex() else _C.int64)
        rows = rows.to(dtype)
        made = rows.new_zeros((batch_size(input), *rows.shape[1:])).index_add(0, component_of_each(input), rows)
        if name == "mean":
            made = made / lengths_of(input).reshape(-1, *[1] * (made.dim() - 1)).to(dtype)
        return made.unsqueeze(ragged) if keepdim else made
    padded = to_padded(input, _identity(name, input.dtype))
    made = function(padded, 1, **kwargs)
    if not keepdim:
        return made
    return type(made)(part.unsqueeze(ragged) for part in made) if isinstance(made, tuple) else made.unsqueeze(ragged)


def _over_batch(function: Callable, input: NestedTensor, dims: set[int], keepdim: bool, kwargs: dict) -> Tensor:
    """The batch, the ragged dimension and perhaps others reduced together."""
    rows = ragged_first(input)
    others = [d for d in range(1, input.dim()) if d != input._ragged_idx]  # the dims of rows after the first
    inner = [0, *(1 + i for i, d in enumerate(others) if d in dims)]
    made = function(rows, inner, **kwargs)
    if keepdim:
        made = made.reshape([1 if d in dims else input._values.size(d - 1) for d in range(input.dim())])
    return made


_reductions("sum", "mean", "prod", "amax", "amin", "max", "min", "any", "all", "argmax", "argmin")


def _softmax(name: str) -> None:
    function = getattr(_C, name)

    def normalize(input: NestedTensor, dim: int, dtype: Any = None, **rest: Any) -> Tensor:
        d = wrapped(dim, input.dim())
        if d == 0:
            raise RuntimeError(f"{name}(): not supported when reducing across the batch dimension for NestedTensor")
        if d != input._ragged_idx:
            return like(input, function(values_of(input), d - 1, dtype=dtype))
        if name == "log_softmax":
            raise RuntimeError("log_softmax(): not supported when reducing along the ragged dimension for NestedTensor")
        if input._lengths is not None:
            raise RuntimeError(f"{name}(): not supported where lengths is not None for NestedTensor")
        made = from_padded(function(to_padded(input, float("-inf")), 1, dtype=dtype), input)
        return made if input._ragged_idx == 1 else transpose(made, 1, input._ragged_idx)

    form_of(name)(normalize)


_softmax("softmax")
_softmax("log_softmax")


@form_of("equal")
def equal(input: Tensor, other: Tensor) -> bool:
    """Whether two nested tensors have equal components."""
    if not is_nested(input) or not is_nested(other) or batch_size(input) != batch_size(other):
        return False
    return all(_C.equal(a, b) for a, b in zip(unbind(input), unbind(other), strict=True))
