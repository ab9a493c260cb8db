"""Writing to places of nested tensors of jagged layout, and what follows from other forms of theirs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from tocha import _C
from tocha._core.forms import registrar
from tocha.nested import _operators
from tocha.nested._internal.nested_tensor import (
    FORMS,
    NestedTensor,
    Tensor,
    is_nested,
    lengths_of,
    like,
    sizes_of,
    values_of,
)
from tocha.nn import functional

form_of = registrar(FORMS)
form_of("is_pinned", "is_shared")(lambda self, device=None: False)


def _rows(self: NestedTensor, indices: Sequence[Any]) -> Tensor:
    """Where the places (component, place in it) lie among the values."""
    component = indices[0].to(_C.int64)
    if len(indices) == 1:
        starts, ends = (self._offsets[:-1], self._offsets[:-1] + lengths_of(self))
        parts = [_C.arange(int(starts[i]), int(ends[i])) for i in component.reshape(-1).tolist()]
        return _C.cat(parts) if parts else component.new_empty((0,))
    place = indices[1]
    kept = component.clamp(max=self._offsets.size(0) - 2)
    if bool((place >= lengths_of(self)[kept]).any()):
        raise RuntimeError("Some indices in the ragged dimension are out of bounds!")
    return self._offsets[component] + place


@form_of("index_put_")
def index_put_(self: NestedTensor, indices: Sequence[Any], values: Tensor, accumulate: bool = False) -> Tensor:
    """Writes to elements: indices of components, places along the ragged dim, and further dims."""
    if not is_nested(self) or self._ragged_idx != 1 or any(is_nested(t) for t in (*indices, values)):
        raise ValueError(
            "NestedTensor index_put_(input: jt_all, indices: any, values: t, accumulate: any?): expected input to be a "
            "jagged layout NestedTensor whose ragged dim is 1, and indices and values to be dense"
        )
    if any(not isinstance(t, Tensor) or t.dtype == _C.bool for t in indices):
        raise NotImplementedError("[index_put_] aten.index_put_ takes tensors of integers for nested tensors")
    values_of(self).index_put_((_rows(self, indices), *indices[2:]), values, accumulate)
    return self


@form_of("index_put")
def index_put(input: NestedTensor, indices: Sequence[Any], values: Tensor, accumulate: bool = False) -> Tensor:
    """The same in a copy."""
    return index_put_(input.clone(), indices, values, accumulate)


@form_of("__setitem__")
def _setitem(self: NestedTensor, index: Any, value: Any) -> None:
    parts = index if isinstance(index, tuple) else (index,)
    if isinstance(parts[0], int):
        component = _operators.select(self, 0, parts[0])
        component[parts[1:] or Ellipsis] = value
    elif all(isinstance(p, Tensor) for p in parts):
        index_put_(self, parts, value if isinstance(value, Tensor) else _C.tensor(value, dtype=self.dtype))
    else:
        self[index].copy_(value)


NestedTensor.__setitem__ = _setitem  # type: ignore[assignment, method-assign]


@form_of("__contains__")
def _contains(self: NestedTensor, element: Any) -> bool:
    return element in values_of(self)


NestedTensor.__contains__ = _contains  # type: ignore[assignment, method-assign]

# -- what the values answer for --------------------------------------------------------------------------

form_of("view_as")(lambda self, other: self.view(sizes_of(other)))
form_of("expand_as")(lambda self, other: self.expand(sizes_of(other)))
form_of("new_tensor")(lambda self, data, **named: self._values.new_tensor(data, **named))
form_of("data_ptr")(lambda self: 0)
form_of("conj", "resolve_conj", "resolve_neg")(
    lambda self: self if not self.is_complex() else like(self, values_of(self).conj())
)


@form_of("real")
def _real(self: NestedTensor) -> Tensor:
    return like(self, values_of(self).real) if self.is_complex() else self


@form_of("imag")
def _imag(self: NestedTensor) -> Tensor:
    return like(self, values_of(self).imag)


@form_of("share_memory_")
def _share_memory(self: NestedTensor) -> Tensor:
    self._values.share_memory_()
    self._offsets.share_memory_()
    return self


def _l1_loss(input: Tensor, target: Tensor, reduction: int = 1) -> Tensor:
    """The mean (1) or the sum (2) of absolute differences, or the differences."""
    difference = (input - target).abs()
    if reduction == 0:
        return difference
    return difference.mean() if reduction == 1 else difference.sum()


FORMS[functional.l1_loss] = _l1_loss  # overrides are told of the public function


@form_of("movedim", "moveaxis")
def _movedim(input: NestedTensor, source: Any, destination: Any) -> Tensor:
    """Dimensions moved, not the batch."""
    count = input.dim()
    moved = {}
    for a, b in zip(*([d] if isinstance(d, int) else d for d in (source, destination)), strict=True):
        moved[b % count] = a % count
    rest = iter([d for d in range(count) if d not in moved.values()])
    order = [moved[d] if d in moved else next(rest) for d in range(count)]
    return input.permute(*order)


@form_of("T", "mH", "H")
def _transposed(self: NestedTensor) -> NoReturn:
    raise ValueError("Permute is not supported on the batch dimension for jagged NT")


@form_of("new_empty", "new_zeros", "new_ones", "new_full")
def _new(self: NestedTensor, *size: Any, **named: Any) -> NoReturn:
    raise RuntimeError("new_empty() not supported for NJT with shape != ()")


@form_of("masked_select")
def _masked_select(input: Tensor, mask: Tensor) -> Tensor:
    raise RuntimeError("masked_select only support 2-D selections currently")


@form_of("untyped_storage", "storage")
def _storage(self: NestedTensor) -> NoReturn:
    raise RuntimeError(
        "The tensor has a non-zero number of elements, but its data is not allocated yet: values() has the elements"
    )


@form_of("__array__")
def _array(self: NestedTensor, dtype: Any = None) -> NoReturn:
    raise RuntimeError(".numpy() is not supported for tensor subclasses.")


@form_of("__float__", "__int__", "__complex__", "__index__")
def _number(self: NestedTensor) -> NoReturn:
    raise ValueError("only one element tensors can be converted to Python scalars")
