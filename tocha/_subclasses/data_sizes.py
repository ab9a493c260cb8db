"""What operators ask of numbers that come from data, answered without their values.

An operator that would refuse one of the answers is taken to get the other: that it does is its own check when the program
runs. Numbers are taken to be in general position else: unequal where nothing makes them equal. Where neither decides, the
sizes and offsets of some views are new symbols.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from tocha._subclasses.errors import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
)
from tocha.ir import symbolic as s
from tocha.ir.assumptions import solve
from tocha.ir.shape_env import GuardOnDataDependentSymNode, ShapeEnv
from tocha.ir.sym_types import Symbolic, SymInt, expression, wrap
from tocha.operators.facts import Facts, Scalar
from tocha.operators.interpreter import DataDependent
from tocha.operators.record import Operator
from tocha.operators.rules import wrap_dim

Call = Callable[[dict[str, Any]], Any]  # an operator on its arguments
QUESTIONS = 64  # of one call of an operator
_NOT_REFUSED = (
    GuardOnDataDependentSymNode,
    DataDependent,
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
)


def answered(env: ShapeEnv, asked: GuardOnDataDependentSymNode, operator: Call, arguments: dict[str, Any]) -> Any:
    """The result of a call that asked something of numbers that come from data; raises where that stays open."""

    def call() -> Any:
        return operator(arguments)

    with contextlib.ExitStack() as taken:
        for _ in range(QUESTIONS):
            r = asked.cond
            if env.trying or not isinstance(r, s.Relation):
                raise asked
            if (refusal := _refusal(env, call, r)) is not None:
                _promise(env, s.negate(r), refusal)
            elif (refusal := _refusal(env, call, s.negate(r))) is not None:
                _promise(env, r, refusal)
            elif r.kind in ("eq", "ne"):
                taken.enter_context(env.supposing(r if r.kind == "ne" else s.negate(r)))
            else:
                raise asked
            try:
                return watched(env, operator, arguments)
            except GuardOnDataDependentSymNode as again:
                asked = again
    raise asked


def in_general_position(env: ShapeEnv | None, compute: Callable[[], Any]) -> Any:
    """What is computed where numbers that come from data are unequal to others, as the operator was taken to find them whose
    gradients these are."""
    if env is None:
        return compute()
    with contextlib.ExitStack() as taken:
        for _ in range(QUESTIONS):
            try:
                return compute()
            except GuardOnDataDependentSymNode as asked:
                r = asked.cond
                if env.trying or not isinstance(r, s.Relation) or r.kind not in ("eq", "ne"):
                    raise
                taken.enter_context(env.supposing(r if r.kind == "ne" else s.negate(r)))
    return compute()


def of_the_same_sizes(env: ShapeEnv | None, grad: Any, result: Any) -> None:
    """A gradient has the sizes of what it is the gradient of, also where they are other numbers that come from data."""
    if env is None or not env.unbacked or not (isinstance(grad, Facts) and isinstance(result, Facts)):
        return
    for a, b in zip(grad.sizes, result.sizes, strict=False):
        if not (isinstance(a, int) and isinstance(b, int)):
            env.known.learn(s.eq(expression(a), expression(b)))


def watched(env: ShapeEnv, operator: Call, arguments: dict[str, Any]) -> Any:
    """The result of a call. Where it took sizes not to be 0 or 1 and would refuse them, they are promised not to be."""
    before, env.taken = env.taken, []
    try:
        found, taken = operator(arguments), dict.fromkeys(env.taken)
    finally:
        env.taken = before
    for r in taken:
        for symbol, value in _contradicting(env, r) if env.known.holds(r) is None else ():
            given = {n: _at(v, env, {symbol: value}) for n, v in arguments.items()}
            refusal = _refusal(env, partial(operator, given), s.eq(s.of_atom(symbol), value))
            if refusal is not None:
                _promise(env, r, refusal)
                break
    return found


def made_of_sizes(env: ShapeEnv, results: Any) -> None:
    """Numbers that come from data and are sizes of results now are not negative: no tensor has such a size."""
    for f in results if isinstance(results, list | tuple) else (results,):
        for n in f.sizes if isinstance(f, Facts) else ():
            atom = None if isinstance(n, int) else s.atom_of(expression(n))
            if atom is not None and env.is_unbacked_symint(atom) and env.known.bounds(s.of_atom(atom))[0] < 0:
                refusal = f"Trying to create tensor with negative dimension {n}: {list(f.sizes)}"
                _promise(env, s.ge(s.of_atom(atom), 0), RuntimeError(refusal))


def _contradicting(env: ShapeEnv, r: Any) -> Iterator[tuple[s.Atom, Any]]:
    """Values of symbols that make a size 0 or 1, and r false."""
    sizes = [s.of_atom(a) for a in sorted(r.symbols & env.size_like)]
    sizes += [v for a, v in env.replacements.items() if a in env.size_like and s.free_symbols(v) & r.symbols]
    for size in sizes:
        for n in (0, 1):
            for symbol in sorted(size.symbols & r.symbols):
                value = solve(s.eq(size, n), symbol)
                if value is not None and s.substitute(r, {symbol: value}) is False:
                    yield symbol, value
                    break


def _at(v: Any, env: ShapeEnv, values: dict[s.Atom, Any]) -> Any:
    """An argument where symbols are known."""
    if isinstance(v, Symbolic):
        return wrap(s.substitute(env.simplify(v.expr), values), env)
    if isinstance(v, Scalar):
        return Scalar(_at(v.value, env, values))
    if isinstance(v, list | tuple):
        return type(v)(_at(x, env, values) for x in v)
    if not isinstance(v, Facts):
        return v
    sizes, steps = (_at(x, env, values) for x in (v.sizes, v.steps))
    offset, number = (_at(x, env, values) for x in (v.offset, v.number))
    return Facts(sizes, v.dtype, v.device, steps, offset, v.memory, v.conjugated, v.negated, v.requires_grad, v.base, number)  # fmt: skip


def _refusal(env: ShapeEnv, call: Callable[[], Any], r: s.Relation) -> Exception | None:
    """What an operator raises where r holds."""
    with env.trial(r), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a call that nobody made
        try:
            call()
        except _NOT_REFUSED:
            return None
        except (RuntimeError, IndexError, ValueError, TypeError) as e:
            return e
    return None


def _promise(env: ShapeEnv, r: Any, refusal: Exception) -> None:
    kind = next(k for k in (RuntimeError, IndexError, ValueError, TypeError) if isinstance(refusal, k))
    env.expect(r, str(refusal), kind, by_operator=True)
    for atom in s.free_symbols(r):
        if env.is_unbacked_symint(atom) and env.known.bounds(s.of_atom(atom))[0] >= 0:
            env.mark_size_like(atom)


# ---- views of which not all is known


def new_number(mode: Any, key: tuple, high: Any = None) -> Any:
    """A number that nothing is known of: the same one where the same is asked again. With `high`, a size up to it."""
    env = mode.shape_env
    known = mode.unknown_sizes.get(key)
    if known is None:
        known = mode.unknown_sizes[key] = env.create_unbacked_symint(size_like=True)
        if isinstance(high, int):
            env.constrain_range(s.atom_of(known.expr), 0, high)
    return known


def _key(*parts: Any) -> tuple:
    return tuple(expression(p) if isinstance(p, SymInt) else p for p in parts)


def some_slice(mode: Any, self: Facts, dim: int, start: Any, end: Any, step: Any) -> Facts:
    """self[start:end:step], where nobody knows which end of the dim the numbers are counted from."""
    at = wrap_dim(dim, self.ndim)
    sizes, steps, n = list(self.sizes), list(self.steps), self.sizes[at]
    sizes[at] = new_number(mode, ("slice", *_key(n, start, end, step)), n)
    offset = self.offset
    if isinstance(start, int) and start >= 0 and isinstance(n, int):
        offset = offset + min(start, n) * steps[at]
    elif start is not None:
        offset = offset + new_number(mode, ("start", *_key(n, start)), n) * steps[at]
    steps[at] = steps[at] * step
    return self.with_geometry(sizes, steps, offset)


def some_select(mode: Any, self: Facts, dim: int, index: Any) -> Facts:
    at = wrap_dim(dim, self.ndim)
    sizes, steps, n = list(self.sizes), list(self.steps), self.sizes[at]
    offset = self.offset + new_number(mode, ("index", *_key(n, index)), n) * steps[at]
    del sizes[at], steps[at]
    return self.with_geometry(sizes, steps, offset)


def some_narrow(mode: Any, self: Facts, dim: int, start: Any, length: Any) -> Facts:
    at = wrap_dim(dim, self.ndim)
    sizes, n = list(self.sizes), self.sizes[at]
    sizes[at] = length
    offset = self.offset + new_number(mode, ("start", *_key(n, start)), n) * self.steps[at]
    return self.with_geometry(sizes, list(self.steps), offset)


LOOSE: dict[str, Callable[..., Facts]] = {"slice": some_slice, "select": some_select, "narrow": some_narrow}


def loose_view(mode: Any, o: Operator, arguments: dict[str, Any]) -> Facts | None:
    """The view with new symbols in it; None of other operators."""
    rule = LOOSE.get(o.name)
    return rule(mode, *arguments.values()) if rule is not None else None
