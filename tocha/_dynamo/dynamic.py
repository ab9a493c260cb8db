"""Which sizes and numbers are symbols: the first capture takes all as constants, what then changes becomes a symbol.

What a function has seen is kept with its code, by the names of sources. Marks on tensors (mark_dynamic and its like) and
compile(dynamic=...) decide beforehand. 0 and 1 are constants always: broadcasting treats them differently.
"""

from __future__ import annotations

import importlib
import math
import re
import types
from typing import Any, NamedTuple

import tocha
from tocha._dynamo import config, leaves
from tocha._dynamo.source import Source
from tocha.ir import symbolic as s
from tocha.ir.shape_env import ConstraintViolationError, DimDynamic, ShapeEnv, StatelessSymbolicContext
from tocha.ir.symbolic import free_symbols

ANY: Any = object()  # in place of a number that was seen to change


class Seen:
    """What the sources of one code object have been."""

    def __init__(self) -> None:
        self.numbers: dict[str, Any] = {}
        self.sizes: dict[str, Any] = {}  # a tuple, or ANY where even the number of dims changed

    def number_changes(self, name: str, value: Any) -> bool:
        known = self.numbers.setdefault(name, value)
        if known is not ANY and (type(known) is not type(value) or repr(known) != repr(value)):
            self.numbers[name] = ANY
        return self.numbers[name] is ANY

    def dims_that_change(self, name: str, sizes: tuple[int, ...]) -> tuple[bool, ...]:
        known = self.sizes.setdefault(name, sizes)
        if known is not ANY:
            merged = tuple(a if a == b else ANY for a, b in zip(known, sizes))
            known = self.sizes[name] = merged if len(known) == len(sizes) else ANY
        return tuple(known is ANY or known[i] is ANY for i in range(len(sizes)))


_SEEN: dict[int, tuple[types.CodeType, Seen]] = {}


def seen_by(code: types.CodeType) -> Seen:
    return _SEEN.setdefault(id(code), (code, Seen()))[1]


def see(code: types.CodeType, args: tuple) -> None:
    """A call that runs uncaptured: what is another at the next one changes."""
    for name, value in zip(code.co_varnames, args):
        if isinstance(value, tocha.Tensor):
            seen_by(code).dims_that_change(f"L[{name!r}]", tuple(value.shape))
            seen_by(code).dims_that_change(f"L[{name!r}].stride()", value.stride())
        elif type(value) in (int, float):
            seen_by(code).number_changes(f"L[{name!r}]", value)


def forget() -> None:
    _SEEN.clear()


def listed(setting: str, name: str) -> bool:
    """Do compiler.config.dynamic_sources and its kin name an input?"""
    settings = importlib.import_module("tocha.compiler.config")
    patterns = [p.strip() for p in getattr(settings, setting).split(",") if p.strip()]
    return any(p == name or _fits(p, name) for p in patterns)


def _fits(pattern: str, name: str) -> bool:
    try:
        return re.match(pattern, name) is not None
    except re.error:
        return False


_BY_NAME = {"dynamic_sources": DimDynamic.DYNAMIC, "unbacked_sources": DimDynamic.SIZE_LIKE_UNBACKED}


class Policy:
    """What one capture does with sizes and numbers."""

    def __init__(self, code: types.CodeType, dynamic: bool | None) -> None:
        self.all = dynamic is True or (dynamic is None and not config.assume_static_by_default)
        self.changing = dynamic is not False and config.automatic_dynamic_shapes
        self.seen = seen_by(code)

    def wishes(self, tensor: Any, source: Source, in_module: bool) -> StatelessSymbolicContext | None:
        """For each dim how its size and stride are treated; None where all are constants."""
        for setting, wish in _BY_NAME.items():
            if tensor.ndim and listed(setting, source.name):
                return StatelessSymbolicContext([wish] * tensor.ndim)
        fixed = (isinstance(tensor, tocha.nn.Parameter) and config.force_parameter_static_shapes) or in_module
        if fixed and _marks_of(tensor) is _NONE:
            return None
        changed = self.seen.dims_that_change(source.name, tuple(tensor.shape))
        moved = self.seen.dims_that_change(f"{source.name}.stride()", tensor.stride())
        made = [self._wish(_marks_of(tensor), i, changed[i], fixed) for i in range(tensor.ndim)]
        strides = [DimDynamic.DYNAMIC if m and self.changing and not fixed else DimDynamic.INFER_STRIDE for m in moved]
        if all(w is DimDynamic.STATIC for w in made) and DimDynamic.DYNAMIC not in strides:
            return None
        return StatelessSymbolicContext(made, dynamic_strides=strides)

    def _wish(self, marks: Marks, dim: int, changed: bool, fixed: bool) -> DimDynamic:
        if dim in marks.unbacked:
            return DimDynamic.SIZE_LIKE_UNBACKED
        if dim in marks.dynamic or dim in marks.weak:
            return DimDynamic.DYNAMIC
        if dim in marks.static or fixed:
            return DimDynamic.STATIC
        if changed and self.changing:
            return DimDynamic.DYNAMIC
        return DimDynamic.DUCK if self.all else DimDynamic.STATIC

    def number_is_symbol(self, value: Any, source: Source, in_module: bool) -> bool:
        """ints and floats from outside; bools are constants always."""
        if any(listed(setting, source.name) for setting in _BY_NAME):
            return math.isfinite(value) and -(2**63) <= value < 2**63
        if (type(value) is int and config.specialize_int) or (type(value) is float and config.specialize_float):
            return False
        if source.root.fetch not in ("local", "free") or _from_defaults(source):
            return False
        if in_module and not config.allow_unspec_int_on_nn_module:
            return False
        changed = self.seen.number_changes(source.name, value) and self.changing
        if not math.isfinite(value) or not -(2**63) <= value < 2**63:
            return False
        return changed or self.all


def _from_defaults(source: Source | None) -> bool:
    while source is not None:
        if source.fetch == "attribute" and source.key in ("__defaults__", "__kwdefaults__"):
            return True
        source = source.base
    return False


# ---- what users say of tensors


class Unbacked(NamedTuple):
    """What is known all the same of a size that was marked as unbacked."""

    strict: bool
    shape_id: str | None
    low: int | None
    high: int | None


class Marks:
    """Dims of one tensor that the user decided about."""

    def __init__(self) -> None:
        self.dynamic: dict[int, tuple[int | None, int | None]] = {}
        self.weak: set[int] = set()
        self.static: set[int] = set()
        self.unbacked: dict[int, Unbacked] = {}


_NONE = Marks()


def _marks_of(tensor: Any) -> Marks:
    return getattr(tensor, "_dynamo_marks", _NONE)


def _dims(t: Any, index: Any) -> list[int]:
    if not isinstance(t, tocha.Tensor):
        raise TypeError(f"[mark] a tensor is expected, got {type(t).__name__}")
    return [int(i) % t.ndim if t.ndim else int(i) for i in (index if isinstance(index, list | tuple) else [index])]


def _own(t: Any) -> Marks:
    if not hasattr(t, "_dynamo_marks"):
        t._dynamo_marks = Marks()
    return t._dynamo_marks


def mark_dynamic(t: Any, index: Any, *, hint_override: int | None = None, min: int | None = None, max: int | None = None, specialize_on: Any = None) -> None:  # fmt: skip
    """The size of this dim is a symbol; capturing fails where the program makes it a constant."""
    for i in _dims(t, index):
        _own(t).dynamic[i] = (min, max)


def maybe_mark_dynamic(t: Any, index: Any) -> None:
    """The size of this dim is a symbol, if the program lets it."""
    _own(t).weak.update(_dims(t, index))


def mark_static(t: Any, index: Any = None) -> None:
    """The size of this dim (of all dims, without one) is a constant."""
    dims = _dims(t, list(range(t.ndim)) if index is None else index)
    _own(t).static.update(dims)
    for i in dims:
        _own(t).dynamic.pop(i, None)
        _own(t).weak.discard(i)


def mark_unbacked(t: Any, index: Any, hint_override: int | None = None, strict: bool = False, specialize_on: Any = None, shape_id: str | None = None, *, min: int | None = None, max: int | None = None) -> None:  # fmt: skip
    """The size of this dim is a symbol of which nothing is known, not even that it is neither 0 nor 1, but that it lies
    between `min` and `max`, and that sizes of one `shape_id` are equal. `strict`: the program must not make it a constant."""
    _own(t).unbacked.update(dict.fromkeys(_dims(t, index), Unbacked(strict, shape_id, min, max)))


for _mark in (mark_dynamic, maybe_mark_dynamic, mark_unbacked):  # too late where sizes have become numbers or symbols
    leaves.forbid(_mark)


class Promises:
    """Dims that were marked as dynamic, and must be so when capturing is done."""

    def __init__(self) -> None:
        self.made: list[tuple[Any, Source, int]] = []
        self.alike: dict[str, Any] = {}  # by shape_id: the first size

    def add(self, env: ShapeEnv, tensor: Any, source: Source, sizes: tuple) -> None:
        for dim, (low, high) in _marks_of(tensor).dynamic.items():
            size = sizes[dim]
            if isinstance(size, int):
                if size not in (0, 1):
                    raise _violated(source, dim, f"it is {size}")
                continue
            (atom,) = free_symbols(size.expr)
            env.constrain_range(atom, 2 if low is None else low, math.inf if high is None else high)
            self.made.append((size.expr, source, dim))
        for dim, known in _marks_of(tensor).unbacked.items():
            self._add_unbacked(env, sizes[dim].expr, int(tensor.shape[dim]), known, source, dim)

    def _add_unbacked(self, env: ShapeEnv, size: Any, real: int, known: Unbacked, source: Source, dim: int) -> None:
        """What is known is guarded: another size than that is captured anew, without marks."""
        low, high = 0 if known.low is None else known.low, math.inf if known.high is None else known.high
        if not low <= real <= high:
            raise _violated(source, dim, f"it is {real}, which is not in [{low}, {high}]", "unbacked")
        (atom,) = free_symbols(size)
        env.constrain_range(atom, low, high)
        if known.shape_id is not None:
            first, other = self.alike.setdefault(known.shape_id, (size, real))
            if other != real:
                raise _violated(
                    source, dim, f"it is {real}, and not {other} like others of {known.shape_id!r}", "unbacked"
                )
            if first is not size:
                env.guard(s.eq(size, first))
        if known.strict:
            self.made.append((size, source, dim))

    def check(self, env: ShapeEnv) -> None:
        for expr, source, dim in self.made:
            low, high = env.bound_sympy(expr)
            if low == high:  # it said so, or neither more nor less is left
                raise _violated(source, dim, f"the program makes it {low}")


def _violated(source: Source, dim: int, why: str, mark: str = "dynamic") -> ConstraintViolationError:
    return ConstraintViolationError(
        f"[mark_{mark}] Constraints violated: {source.name}.size()[{dim}] was marked as {mark}, but {why}. Remove the mark, or use maybe_mark_dynamic."
    )
