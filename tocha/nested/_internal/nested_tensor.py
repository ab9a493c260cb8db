"""The nested tensor of jagged layout: values of all components one after the other, and offsets where each begins.

docs/inside/nested.md has the picture. What functions of tocha do with one is in FORMS (tocha/nested/_operators.py and its
neighbours); a pointwise operator needs no form: it runs on the values.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeGuard

from tocha import _C
from tocha._tensor import _rebuild_from_type_v2
from tocha.autograd.function import Function
from tocha.nested._internal.ragged import ragged_size
from tocha.overrides import DisableTorchFunctionSubclass

Tensor = _C.Tensor
FORMS: dict[Any, Callable] = {}
# What answers for functions without a form: set by tocha/nested/_pointwise.py.
FALLBACK: list[Callable] = []


class NestedTensor(Tensor):
    """A batch of tensors that differ in the size of one dimension. tocha.nested makes one."""

    _values: Tensor
    _offsets: Tensor
    _lengths: Tensor | None
    _ragged_idx: int
    _bounds: tuple[int | None, int | None]  # the least and the greatest length, where known

    @classmethod
    def __torch_function__(cls, func: Any, types: Sequence[type], args: tuple = (), kwargs: dict | None = None) -> Any:
        form = FORMS.get(func)
        if form is not None:
            return form(*args, **(kwargs or {}))
        return FALLBACK[0](func, args, kwargs or {})

    def values(self) -> Tensor:
        """The values of all components, one after the other; they have the tensor's history."""
        return values_of(self) if is_recorded(self) else self._values.detach()

    def offsets(self) -> Tensor:
        """Where the components begin, and where the last one ends."""
        return self._offsets

    def lengths(self) -> Tensor | None:
        """How long the components are, where they do not follow each other without gaps; else None."""
        return self._lengths

    @property
    def shape(self) -> Any:  # type: ignore[override]
        """The sizes, with a symbol for the ragged one."""
        return sizes_of(self)

    def size(self, dim: int | None = None) -> Any:
        """The sizes, or that of one dimension."""
        sizes = sizes_of(self)
        return sizes if dim is None else sizes[wrapped(dim, self.dim())]

    layout = property(lambda self: _C.jagged)
    is_nested = property(lambda self: True)
    is_sparse = property(lambda self: False)

    def numel(self) -> int:
        """How many elements the components have together."""
        if self._lengths is None:
            return self._values.numel()
        row = self._values.numel() // max(self._values.size(self._ragged_idx - 1), 1)
        return int(self._lengths.sum()) * row

    nelement = numel

    @property
    def _max_seqlen(self) -> int:
        return length_bounds(self)[1]

    @property
    def _min_seqlen(self) -> int:
        return length_bounds(self)[0]

    def is_contiguous(self, memory_format: Any = _C.contiguous_format) -> bool:
        """Whether components follow each other without gaps."""
        return self._lengths is None and self._values.is_contiguous()

    def stride(self, dim: int | None = None) -> Any:
        """The strides, of which that of the batch has the ragged size in it."""
        inner = list(self._values.stride())
        whole: Any = 1
        for n in sizes_of(self)[1:]:
            whole = n * whole
        strides = (whole, *inner)
        return strides if dim is None else strides[wrapped(dim, self.dim())]

    def __repr__(self, *args: Any, **kwargs: Any) -> str:
        sizes = ", ".join(str(n) for n in sizes_of(self))
        gradient = ""
        if self.grad_fn is not None:
            gradient = f", grad_fn=<{self.grad_fn.name()} object at {id(self.grad_fn):#x}>"
        elif self.requires_grad:
            gradient = ", requires_grad=True"
        return f"NestedTensor(size=({sizes}), offsets={self._offsets}{gradient}, contiguous={self.is_contiguous()})"

    __str__ = __repr__

    def __len__(self) -> int:
        return batch_size(self)

    def __iter__(self) -> Any:
        return iter(self.unbind())

    def __bool__(self) -> bool:
        raise RuntimeError("Boolean value of Tensor with more than one value is ambiguous")

    def tolist(self) -> Any:
        """Refuses, as for other subclasses."""
        raise RuntimeError(".tolist() is not supported for tensor subclasses, got NestedTensor")

    def numpy(self, *args: Any, **kwargs: Any) -> Any:
        """Refuses, as for other subclasses."""
        raise RuntimeError(".numpy() is not supported for tensor subclasses.")

    def _map_components(self, f: Callable[[Tensor], Tensor]) -> Tensor:
        """f of each component; it keeps the ragged size."""
        parts = _C.cat([f(part) for part in self.unbind()], self._ragged_idx - 1)
        if self._lengths is None:
            return like(self, parts)
        return build(parts, offsets_from(self._lengths), None, self._ragged_idx, self._bounds)

    def __deepcopy__(self, memo: dict) -> Tensor:
        if id(self) in memo:
            return memo[id(self)]
        if not self.is_leaf:
            raise RuntimeError(
                "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment."
            )
        memo[id(self)] = new = like(self, self._values.clone()).requires_grad_(self.requires_grad)
        return new

    def __reduce_ex__(self, protocol: Any) -> Any:  # type: ignore[override]
        bounds = zip(("min_seqlen", "max_seqlen"), self._bounds, strict=True)
        state = {
            "values": self._values,
            "offsets": self._offsets,
            "lengths": self._lengths,
            "_ragged_idx": self._ragged_idx,
            # PyTorch keeps a number that may become a symbol as the size of an empty tensor.
            "_metadata_cache": {name: _C.empty((n, 0)) for name, n in bounds if n is not None},
            "requires_grad": self.requires_grad,
        }
        return _rebuild_from_type_v2, (_rebuild_njt, NestedTensor, (state,), {})

    def __setstate__(self, state: Any) -> None:
        """Nothing: attributes of PyTorch's tensors repeat what the tensor is made of."""


def _rebuild_njt(state: dict) -> NestedTensor:
    """A nested tensor from a file, whose parts are looked over."""
    values, offsets, lengths, ragged = (state[k] for k in ("values", "offsets", "lengths", "_ragged_idx"))
    indices = (offsets,) if lengths is None else (offsets, lengths)
    if not all(isinstance(t, Tensor) for t in (values, *indices)) or type(ragged) is not int:
        raise ValueError("a nested tensor is made of tensors of values, offsets and lengths, and the number of a dim")
    if not all(t.dim() == 1 and t.dtype in (_C.int32, _C.int64) for t in indices) or not 1 <= ragged <= values.dim():
        raise ValueError("offsets and lengths are vectors of integers, and the ragged dim is one of the values'")
    cache = state.get("_metadata_cache") or {}
    low, high = (cache.get(name) for name in ("min_seqlen", "max_seqlen"))
    bounds = (None if low is None else low.size(0), None if high is None else high.size(0))
    made = make(values, offsets, lengths, ragged, bounds)
    made.requires_grad_(state["requires_grad"] is True)
    return made


def wrapped(dim: int, count: int) -> int:
    """A dim counted from the front."""
    if not -count <= dim < count:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-count}, {count - 1}], but got {dim})")
    return dim % count


def make(
    values: Tensor,
    offsets: Tensor,
    lengths: Tensor | None = None,
    ragged: int = 1,
    bounds: tuple[int | None, int | None] = (None, None),
) -> NestedTensor:
    """A nested tensor of these parts, without history."""
    sizes = (offsets.size(0) - 1, *values.shape)
    with DisableTorchFunctionSubclass():
        shape = _C.zeros((), dtype=values.dtype, device=values.device).expand(sizes)
        made: NestedTensor = Tensor._make_subclass(NestedTensor, shape, False)
    made._values, made._offsets, made._lengths = values.detach(), offsets, lengths
    made._ragged_idx, made._bounds = ragged, bounds
    return made._mark_sparse()


def is_nested(t: Any) -> TypeGuard[NestedTensor]:
    """Whether t is a nested tensor of jagged layout."""
    return isinstance(t, NestedTensor)


def batch_size(t: NestedTensor) -> int:
    """How many components there are."""
    return t._offsets.size(0) - 1


def sizes_of(t: NestedTensor) -> Any:
    """The sizes, with a symbol for the ragged one."""
    inner: list[Any] = list(t._values.shape)
    inner[t._ragged_idx - 1] = ragged_size(t._offsets if t._lengths is None else t._lengths)
    return _C.Size([batch_size(t), *inner])


def size_text(t: Any) -> str:
    """The sizes as messages show them."""
    return f"({', '.join(str(n) for n in sizes_of(t))})" if is_nested(t) else str(t.shape)


def lengths_of(t: NestedTensor) -> Tensor:
    """How long each component is."""
    return t._offsets.diff() if t._lengths is None else t._lengths


def length_bounds(t: NestedTensor) -> tuple[int, int]:
    """The least and the greatest length: as they were given, or found once."""
    low, high = t._bounds
    if low is None or high is None:
        lengths = lengths_of(t)
        count = lengths.numel()
        low = low if low is not None else int(lengths.min()) if count else 0
        high = high if high is not None else int(lengths.max()) if count else 0
        t._bounds = (low, high)
    return low, high


def same_ragged(a: NestedTensor, b: NestedTensor) -> bool:
    """Whether two tensors have one ragged size, in the same place."""
    return a._ragged_idx == b._ragged_idx and bool(sizes_of(a)[a._ragged_idx] == sizes_of(b)[b._ragged_idx])


# -- histories -------------------------------------------------------------------------------------------


def is_recorded(t: Tensor) -> bool:
    """Whether what is computed from t has a history."""
    return _C.is_grad_enabled() and t.requires_grad


def values_of(t: NestedTensor) -> Tensor:
    """The values, with the history of t."""
    return _Values.apply(t) if is_recorded(t) else t._values


def build(
    values: Tensor, offsets: Tensor, lengths: Tensor | None = None, ragged: int = 1, bounds: tuple = (None, None)
) -> NestedTensor:
    """A nested tensor with the history of its values."""
    if is_recorded(values):
        name = values.grad_fn.name() if values.grad_fn is not None else "NestedViewFromJaggedBackward0"
        return _builder(name).apply(values, offsets, lengths, ragged, bounds)
    return make(values, offsets, lengths, ragged, bounds)


def like(t: NestedTensor, values: Tensor, ragged: int | None = None) -> NestedTensor:
    """A nested tensor with t's components and other values."""
    return build(values, t._offsets, t._lengths, t._ragged_idx if ragged is None else ragged, t._bounds)


class _Values(Function):
    """A nested tensor to its values."""

    @staticmethod
    def forward(ctx: Any, t: NestedTensor) -> Tensor:
        ctx.t = make(t._values, t._offsets, t._lengths, t._ragged_idx, t._bounds)
        return t._values.detach()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return like(ctx.t, grad)


_Values._backward_cls.__name__ = "NestedGetValuesBackward0"  # type: ignore[attr-defined]


class _Build(Function):
    """Values to a nested tensor."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, offsets: Tensor, lengths: Any, ragged: int, bounds: tuple) -> Tensor:
        return make(values, offsets, lengths, ragged, bounds)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple:
        return values_of(grad) if is_nested(grad) else None, None, None, None, None


@functools.cache
def _builder(name: str) -> Any:
    """The bridge whose nodes go by the name of what made the values."""
    made: Any = type(name, (_Build,), {})
    made._backward_cls.__name__ = name
    return made


# -- components and padding ------------------------------------------------------------------------------


def rows_of(t: NestedTensor) -> Tensor:
    """The positions along the ragged dimension of the values that the components own, component by component."""
    if t._lengths is None:
        return _C.arange(t._values.size(t._ragged_idx - 1))
    return within(t) + t._offsets[:-1].repeat_interleave(t._lengths)


def within(t: NestedTensor) -> Tensor:
    """For every position that is owned, how far it is from the beginning of its component."""
    lengths = lengths_of(t)
    begin = lengths.cumsum(0) - lengths
    return _C.arange(int(lengths.sum())) - begin.repeat_interleave(lengths)


def component_of_each(t: NestedTensor) -> Tensor:
    """For every position that is owned, which component owns it."""
    return _C.arange(batch_size(t)).repeat_interleave(lengths_of(t))


def check_offsets(t: NestedTensor) -> None:
    """Refuses offsets that fall or point outside of the values."""
    total, offsets = t._values.size(t._ragged_idx - 1), t._offsets
    ends = offsets[1:] if t._lengths is None else offsets[:-1] + t._lengths
    fits = bool((offsets[:1] >= 0).all()) and bool((ends <= total).all()) and bool((lengths_of(t) >= 0).all())
    if not fits or (t._lengths is None and offsets.numel() and int(offsets[0]) != 0):
        raise RuntimeError(
            f"[nested] offsets must rise from 0 to at most {total}, the size of the values: got {offsets}"
        )


def ragged_first(t: NestedTensor) -> Tensor:
    """The values with the ragged dimension in front, with history; only what components own."""
    check_offsets(t)
    values = values_of(t).movedim(t._ragged_idx - 1, 0) if t._ragged_idx != 1 else values_of(t)
    return values if t._lengths is None and _covers(t) else values.index_select(0, rows_of(t))


def _covers(t: NestedTensor) -> bool:
    return int(t._offsets[-1]) == t._values.size(t._ragged_idx - 1)


def to_padded(t: NestedTensor, padding: Any, length: int | None = None) -> Tensor:
    """[batch, length, ...]: components one under the other, filled up with a number."""
    values, size = ragged_first(t), length_bounds(t)[1] if length is None else length
    inside, component = within(t), component_of_each(t)
    if size < values.size(0) and size < int(lengths_of(t).max()):
        kept = (inside < size).nonzero()[:, 0]
        values, inside, component = values.index_select(0, kept), inside[kept], component[kept]
    rows = values.new_full((batch_size(t) * size, *values.shape[1:]), padding)
    return rows.index_copy(0, component * size + inside, values).reshape(batch_size(t), size, *values.shape[1:])


def from_padded(padded: Tensor, t: NestedTensor) -> NestedTensor:
    """A nested tensor with t's components of a padded one, [batch, length, ...], ragged dimension first."""
    size = padded.size(1)
    rows = padded.reshape(-1, *padded.shape[2:]).index_select(0, component_of_each(t) * size + within(t))
    return dense_like(t, rows)


def dense_like(t: NestedTensor, rows: Tensor) -> NestedTensor:
    """A nested tensor of t's components without gaps, of values with the ragged dimension in front."""
    if t._lengths is None:
        return build(rows, t._offsets, None, 1, t._bounds)
    return build(rows, offsets_from(t._lengths), None, 1, t._bounds)


def offsets_from(lengths: Tensor) -> Tensor:
    """Where components of these lengths begin."""
    return _C.cat([lengths.new_zeros((1,)), lengths.cumsum(0)])
