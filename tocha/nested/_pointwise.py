"""What every pointwise operator does with nested tensors: it runs on their values. Which operators are pointwise, the records say."""

from __future__ import annotations

from typing import Any, NoReturn

from tocha._core.pointwise_names import is_in_place, plain_name, pointwise_names
from tocha.nested._internal.nested_tensor import (
    FALLBACK,
    NestedTensor,
    Tensor,
    batch_size,
    component_of_each,
    is_nested,
    length_bounds,
    like,
    same_ragged,
    size_text,
    values_of,
    within,
)


def apply(func: Any, args: tuple, kwargs: dict) -> Any:
    """A function without a form of its own: on the values if it is pointwise, else refused."""
    name = plain_name(func)
    if name not in pointwise_names():
        refuse(name)
    first = next(a for a in (*args, *kwargs.values()) if is_nested(a))
    new = [_values(a, first, name) for a in args]
    named = {k: _values(a, first, name) for k, a in kwargs.items()}
    result = func(*new, **named)
    if is_in_place(func):
        return args[0]
    return tuple(_nested(r, first) for r in result) if isinstance(result, tuple) else _nested(result, first)


FALLBACK.append(apply)


def refuse(name: str) -> NoReturn:
    """Says that an operation has no form for nested tensors."""
    raise NotImplementedError(f"[{name}] aten.{name} has no form for nested tensors; unbind() gives their components")


def _nested(result: Any, first: NestedTensor) -> Any:
    if not isinstance(result, Tensor) or result.dim() < first.dim() - 1:
        return result
    return like(first, result)


def _values(a: Any, first: NestedTensor, name: str) -> Any:
    """An operand in the shape that the values have."""
    if is_nested(a):
        if a is not first and not same_ragged(a, first):
            refuse_shapes(name, first, a)
        return values_of(a)
    if not isinstance(a, Tensor) or a.dim() == 0:
        return a
    return _broadcast(a, first, name)


def refuse_shapes(name: str, a: Any, b: Any) -> NoReturn:
    """Says that two shapes do not go together."""
    raise RuntimeError(
        f"cannot call binary pointwise function {name} with inputs of shapes {size_text(a)} and {size_text(b)}"
    )


def _broadcast(dense: Tensor, t: NestedTensor, name: str) -> Tensor:
    """A dense operand beside a nested one, [batch, ..., ragged, ...]."""
    ragged = t._ragged_idx
    if dense.dim() < t.dim() - ragged:
        return dense  # it has only dims after the ragged one
    if dense.dim() > t.dim():
        refuse_shapes(name, t, dense)
    full = dense.reshape(*[1] * (t.dim() - dense.dim()), *dense.shape)
    if full.size(0) == 1 and full.size(ragged) == 1:
        return full.squeeze(0)
    if full.size(0) not in (1, batch_size(t)):
        refuse_shapes(name, t, dense)
    moved = full.movedim(ragged, 1)
    if moved.size(1) == 1:
        rows = moved.squeeze(1).expand(batch_size(t), *moved.shape[2:]).index_select(0, component_of_each(t))
    elif moved.size(1) == length_bounds(t)[1] and t._lengths is None:
        whole = moved.expand(batch_size(t), *moved.shape[1:])
        rows = whole.reshape(-1, *moved.shape[2:]).index_select(0, component_of_each(t) * moved.size(1) + within(t))
    else:
        refuse_shapes(name, t, dense)
    return rows.movedim(0, ragged - 1)
