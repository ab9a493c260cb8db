"""Views as steps that can be taken again, and undone after a write; and which elements of a view share memory."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from tocha import _C, _ops
from tocha._library.native_calls import Eager, held, record_arguments, released
from tocha.ir.shape_env import guard_or_false, may_overlap
from tocha.ir.sym_types import Symbolic
from tocha.ir.symbolic import Atom, evaluate
from tocha.utils import _pytree as pytree

Tensor = _C.Tensor


class Step:
    """One view operator between a storage's base and a tensor on it. Of an operator that gives several views `index` says which, and
    those of one call have the same `call`."""

    def __init__(self, handle: Any, args: tuple, kwargs: dict[str, Any], index: int | None = None, call: Any = None):
        self.handle, self.args, self.kwargs, self.index = handle, args, kwargs, index
        self.call = object() if call is None else call

    def run(self, t: Tensor) -> Any:
        """What the operator gives: one view, or all of several."""
        return self.handle(t, *self.args, **self.kwargs)

    def apply(self, t: Tensor) -> Tensor:
        found = self.run(t)
        return found if self.index is None else found[self.index]

    @property
    def is_symbolic(self) -> bool:
        return has_symbols((self.args, self.kwargs))

    def at(self, values: Mapping[Atom, int]) -> Step:
        """The same with these numbers for symbols: on a real tensor a symbol would be what it was while tracing."""
        args, kwargs = numbers_at((self.args, self.kwargs), values)
        return Step(self.handle, args, kwargs, self.index, self.call)

    def undo(self, base: Tensor, new: Tensor) -> Tensor:
        """The base after the view was written to."""
        importlib.import_module("tocha.operators.inverses")
        target = self.handle._target
        rule = getattr(getattr(target, "overload", None), "record", None)
        if rule is None or rule.inverse is None:
            view = self.apply(base)
            return scattered(base, view, new)
        values = record_arguments(target.overload, (base, *self.args), self.kwargs)
        place = [] if self.index is None else [self.index]
        reader = Eager()
        with reader:
            return released(rule.inverse(values[0], held(new), *values[1:], *place))


def has_symbols(numbers: Any) -> bool:
    return any(isinstance(v, Symbolic) for v in pytree.tree_leaves(numbers))


def numbers_at(numbers: Any, values: Mapping[Atom, int]) -> Any:
    """The same with these numbers for symbols."""

    def plain(v: Any) -> Any:
        return evaluate(v.env.simplify(v.expr), values) if isinstance(v, Symbolic) else v

    return pytree.tree_map(plain, numbers)


def repeated_dims(t: Tensor) -> list[int]:
    """Dims along which all elements are one in memory, as expand makes them. Whether there are elements is asked of symbols too: an
    empty part of an expanded tensor repeats none, and may be written to."""
    found = [
        i for i, (n, s) in enumerate(zip(t.shape, t.stride(), strict=True)) if type(s) is int and s == 0 and n != 1
    ]
    return [] if found and any(guard_or_false(n == 0) for n in t.shape) else found


def repeats(t: Tensor) -> bool:
    return bool(repeated_dims(t))


def overlaps(t: Tensor) -> bool:
    """Whether an element of memory may be several of the tensor: an expanded tensor, or windows that overlap."""
    return repeats(t) or may_overlap(t.shape, t.stride())


def without_repeats(t: Tensor, like: Tensor | None = None) -> Tensor:
    """One element for each of those that expand made of it (in `like`, which has the same shape)."""
    for d in repeated_dims(t if like is None else like):
        t = t.narrow(d, 0, 1)
    return t


def scattered(base: Tensor, view: Tensor, new: Tensor) -> Tensor:
    """The base with new elements where the view lies. Where both begin with one element its place in the storage is not said: that of
    an input may be another in another call."""
    offset = view.storage_offset()
    given = () if offset is base.storage_offset() or offset == base.storage_offset() else (offset,)
    return _ops.ops.aten.as_strided_scatter.default(base, new, view.shape, view.stride(), *given)
