"""What every pointwise operator does with nested tensors: it runs on their values. Which operators are pointwise, the records say."""

from __future__ import annotations

import functools
import importlib
from typing import Any, NoReturn

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

_ALSO = (
    "masked_fill",
    "dropout",
    "where",
    "clone",
    "to",
    "type",
    "isclose",
    "zero",
    "fill",
    "feature_dropout",
    "alpha_dropout",
)


@functools.cache
def pointwise_names() -> frozenset[str]:
    """The names of pointwise operators, with Python's own operators among them."""
    importlib.import_module("tocha.operators.families").load()
    names = set(_ALSO)
    for o in importlib.import_module("tocha.operators.record").OPERATORS.values():
        if o.kind == "pointwise" or "pointwise" in o.tags:
            found = {o.schema.name, *(alias.rpartition(".")[2] for alias in o.aliases)}
            names |= {name.removeprefix(f"{o.namespace}_") if o.namespace else name for name in found}
            names |= {o.operator.strip("_")} if o.operator else set()
    return frozenset(names)


def plain_name(func: Any) -> str:
    """A function's name without what says that it is in place, reflected, or Python's operator."""
    owner = getattr(func, "__self__", None)
    name = getattr(owner if func.__name__ == "__get__" else func, "__name__", repr(func))
    if name.startswith("__") and name.endswith("__"):
        bare = name.strip("_")
        known = pointwise_names()
        return next((n for n in (bare, bare[1:]) if n in known), bare)
    return name.rstrip("_")


def apply(func: Any, args: tuple, kwargs: dict) -> Any:
    """A function without a form of its own: on the values if it is pointwise, else refused."""
    name = plain_name(func)
    if name not in pointwise_names():
        refuse(name)
    first = next(a for a in (*args, *kwargs.values()) if is_nested(a))
    new = [_values(a, first, name) for a in args]
    named = {k: _values(a, first, name) for k, a in kwargs.items()}
    result = func(*new, **named)
    if (func.__name__.endswith("_") and not func.__name__.startswith("__")) or (
        func.__name__.startswith("__i") and func.__name__ != "__invert__"
    ):
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
