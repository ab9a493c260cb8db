"""How score_mod and mask_mod are called: with tensors of positions that broadcast, so that one call serves many scores.

A function is first tried on a corner of its positions, against what it says of one position alone. One that does not
broadcast (it sums, or indexes step by step) is called row by row or score by score instead: slower, never different.
"""

from __future__ import annotations

import enum
import importlib
import inspect
import itertools
import math
import operator
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from tocha import _C
from tocha.autograd.grad_mode import no_grad
from tocha.overrides import TorchFunctionMode

Tensor = _C.Tensor
MaskMod = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
ScoreMod = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]


class Kind(enum.Enum):
    """What a function is, by the number of its arguments."""

    MASK = 4
    SCORE = 5


def kind_of(function: Callable) -> Kind:
    """Whether a function says which scores count (four positions) or changes them (a score and four positions)."""
    parameters = inspect.signature(function).parameters.values()
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    count = sum(p.default is inspect.Parameter.empty and p.kind in positional for p in parameters)
    if count not in (4, 5):
        raise AssertionError(f"Expected 4 or 5 positional args, got {count}")
    return Kind(count)


class Positions(NamedTuple):
    """Where scores stand: a vector of numbers for each of their four dims."""

    batch: Tensor
    head: Tensor
    query: Tensor
    key: Tensor

    @staticmethod
    def of(batch: int, head: int, query: int, key: int, device: Any) -> Positions:
        """Every position of scores of this size."""
        return Positions(*(_C.arange(n, device=device) for n in (batch, head, query, key)))

    @property
    def shape(self) -> tuple[int, ...]:
        """The size of the scores that stand here."""
        return tuple(len(x) for x in self)

    def corner(self) -> Positions:
        """The last two along each dim."""
        return Positions(*(x[-2:] for x in self))


def _named(function: Callable) -> str:
    return getattr(function, "__name__", repr(function))


def _called(function: Callable, arguments: tuple[Tensor, ...], shape: tuple[int, ...]) -> Tensor:
    """One call, spread to the shape of the scores it is for."""
    found = function(*arguments)
    if not isinstance(found, Tensor):
        raise ValueError(f"[flex_attention] {_named(function)} must return a tensor, but got {type(found)}")
    return found if found.shape == shape else found.expand(shape)


def _at_once(function: Callable, score: Tensor | None, at: Positions) -> Tensor:
    sizes = ((-1, 1, 1, 1), (-1, 1, 1), (-1, 1), (-1,))
    spread = tuple(x.view(size) for x, size in zip(at, sizes, strict=True))
    return _called(function, spread if score is None else (score, *spread), at.shape)


def _by_row(function: Callable, score: Tensor | None, at: Positions) -> Tensor:
    """One call for each row of scores, whose keys alone broadcast."""
    where = itertools.product(*(range(n) for n in at.shape[:3]))
    rows = []
    for b, h, q in where:
        fixed = (at.batch[b], at.head[h], at.query[q], at.key)
        rows.append(_called(function, fixed if score is None else (score[b, h, q], *fixed), (len(at.key),)))
    return _C.stack(rows).view(at.shape)


def _one_by_one(function: Callable, score: Tensor | None, at: Positions) -> Tensor:
    """One call for each score, as the definition has it."""
    found = []
    for spot in itertools.product(*(range(n) for n in at.shape)):
        fixed = tuple(x[i] for x, i in zip(at, spot, strict=True))
        found.append(_called(function, fixed if score is None else (score[spot], *fixed), ()))
    return _C.stack(found).view(at.shape)


def is_staged(values: Any) -> bool:
    """Whether graphs are made, or tensors have no elements: nothing can be tried out then."""
    if "tocha._subclasses.fake" not in sys.modules:
        return False
    return importlib.import_module("tocha._higher_order_ops.operator").is_staged(values)


class PositionsAreTensors(TorchFunctionMode):
    """A position that is used as an index stays a tensor: nobody asks for its element."""

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        if func is Tensor.__getitem__:
            items = args[1] if isinstance(args[1], tuple) else (args[1],)
            if any(isinstance(i, Tensor) for i in items) and all(type(i) is int or _is_position(i) for i in items):
                like = next(i for i in items if isinstance(i, Tensor))
                tensors = [i if isinstance(i, Tensor) else _C.full_like(like, i) for i in items]
                return _C._call_record("index", (args[0], tensors))
        return func(*args, **(kwargs or {}))


def _is_position(i: Any) -> bool:
    return isinstance(i, Tensor) and i.dim() == 0 and not i.is_floating_point() and i.dtype is not _C.bool


def _vectorized(function: Callable, score: Tensor | None, at: Positions) -> Tensor:
    """The function of each position, as `vmap` has it: what the definition says, and nothing has to be tried."""
    vmap = importlib.import_module("tocha.func").vmap
    first = () if score is None else (0,)
    call = function
    for dim in (3, 2, 1, 0):
        call = vmap(call, (*first, *(0 if d == dim else None for d in range(4))))
    with PositionsAreTensors():
        return call(*at) if score is None else call(score, *at)


_Way = Callable[[Callable, Tensor | None, Positions], Tensor]


def _ends(found: Tensor) -> Tensor:
    """The first and the last value of what was found for positions."""
    return _C.stack([found[0, 0, 0, 0], found[-1, -1, -1, -1]])


def _agrees(way: _Way, function: Callable, score: Tensor | None, at: Positions, expected: Tensor) -> bool:
    try:
        found = way(function, score, at)
    except (IndexError, RuntimeError):  # what indexing and broadcasting raise when shapes do not go together
        return False
    return _same(_ends(found), expected)


def _same(found: Tensor, expected: Tensor) -> bool:
    wide = _C.float64
    return bool(found.to(wide).allclose(expected.to(wide), rtol=1e-3, atol=1e-3, equal_nan=True))


def _sample(at: Positions, dtype: _C.dtype) -> Tensor:
    """Scores that are all different, to try a score_mod with."""
    return _C.linspace(-1, 1, math.prod(at.shape), dtype=dtype, device=at.key.device).view(at.shape)


def _defined(function: Callable, score: Tensor | None, at: Positions) -> Tensor:
    """What the function says of the first and the last position alone."""
    last = tuple(n - 1 for n in at.shape)
    both = []
    for spot in ((0, 0, 0, 0), last):
        single = Positions(*(x[i : i + 1] for x, i in zip(at, spot, strict=True)))
        value = None if score is None else score[spot].view(1, 1, 1, 1)
        both.append(_one_by_one(function, value, single).view(()))
    return _C.stack(both)


def _fastest_way(function: Callable, kind: Kind, at: Positions, dtype: _C.dtype) -> _Way:
    """The fastest way to call the function that agrees with what it says of single positions."""
    score = _sample(at, dtype) if kind is Kind.SCORE else None
    expected = _defined(function, score, at)
    for way in (_at_once, _by_row):
        if _agrees(way, function, score, at, expected):
            return way
    if not _same(_defined(function, score, at), expected):
        raise RuntimeError(
            f"[flex_attention] {_named(function)} says two things of one position: it must not draw random numbers"
        )
    return _one_by_one


class Mod:
    """A score_mod or mask_mod together with the fastest way to call it that gives what its definition gives."""

    def __init__(self, function: Callable, kind: Kind, at: Positions, dtype: _C.dtype = _C.float32) -> None:
        """Tries the function at the corner of the positions; dtype is what the scores are in."""
        self._function = function
        self._way: _Way = _at_once
        if is_staged(tuple(at)):
            self._way = _vectorized
        elif 0 not in at.shape:
            with no_grad():
                self._way = _fastest_way(function, kind, at.corner(), dtype)

    def __call__(self, at: Positions, score: Tensor | None = None) -> Tensor:
        """What the function says at these positions, in their shape."""
        return self._way(self._function, score, at)


def noop_mask(batch: Tensor, head: Tensor, token_q: Tensor, token_kv: Tensor) -> Tensor:
    """The mask_mod that lets every query see every key.

    >>> import tocha
    >>> noop_mask(*[tocha.tensor(0)] * 4)
    tensor(True)
    """
    return batch.new_ones((), dtype=_C.bool)


def _check_callable(mask_mods: tuple[MaskMod, ...]) -> None:
    if not all(callable(m) for m in mask_mods):
        raise RuntimeError(f"All inputs should be callable mask_mods: {mask_mods}")


def _combined(name: str, mask_mods: tuple[MaskMod, ...], combine: Callable, start: bool) -> MaskMod:
    _check_callable(mask_mods)

    def combined(b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
        found = kv_idx.new_full((), start, dtype=_C.bool)
        for mask in mask_mods:
            found = combine(found, mask(b, h, q_idx, kv_idx))
        return found

    combined.__name__ = name
    return combined


def and_masks(*mask_mods: MaskMod) -> MaskMod:
    """The mask_mod that is True where all of these are.

    >>> import tocha
    >>> near = and_masks(lambda b, h, q, k: q >= k, lambda b, h, q, k: q - k < 2)
    >>> near(0, 0, tocha.tensor(3), tocha.arange(5))
    tensor([False, False,  True,  True, False])
    """
    return _combined("and_mask", mask_mods, operator.and_, True)


def or_masks(*mask_mods: MaskMod) -> MaskMod:
    """The mask_mod that is True where one of these is.

    >>> import tocha
    >>> far = or_masks(lambda b, h, q, k: q == k, lambda b, h, q, k: k == 0)
    >>> far(0, 0, tocha.tensor(3), tocha.arange(5))
    tensor([ True, False, False,  True, False])
    """
    return _combined("or_mask", mask_mods, operator.or_, False)
