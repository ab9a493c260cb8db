"""ShapeEnv: the symbols of one capture, where they come from, what was assumed of them, and what must be checked.

A backed symbol has a hint, the value it had when the program was looked at; asking something that does not follow from
what is known is answered by the hints and recorded as a guard, with the user's line. An unbacked symbol (a number read
from a tensor) has no hint: such a question raises, unless `_check` has promised the answer, which then is asserted when
the program runs. Names that PyTorch's users know are kept; tocha.fx.experimental.symbolic_shapes shows them.
"""

from __future__ import annotations

import contextlib
import enum
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tocha.ir import sym_types
from tocha.ir import symbolic as s
from tocha.ir.assumptions import Assumptions, Bound, Range
from tocha.ir.sym_types import Symbolic, SymBool, SymInt, expression, float_symbol, wrap
from tocha.ir.symbolic import Atom, Expr, Relation

PACKAGE = os.path.dirname(os.path.dirname(__file__)) + os.sep  # as code objects tell it: links are not followed


class DimDynamic(enum.Enum):
    """How a size is treated when a tensor becomes symbolic."""

    DYNAMIC = 0  # a symbol of its own
    DUCK = 1  # a symbol that equal sizes share
    STATIC = 2  # its value
    SIZE_LIKE_UNBACKED = 3  # a symbol without a hint
    INFER_STRIDE = 4
    OBLIVIOUS_SIZE = 5


class GuardOnDataDependentSymNode(RuntimeError):
    """A question about a number that is only known when the program runs."""

    def __init__(self, cond: Any, message: str):
        super().__init__(message)
        self.cond = cond


class ConstraintViolationError(RuntimeError):
    """What was promised of a size does not hold."""


@dataclass(frozen=True)
class Place:
    """A line of the user's program."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} in {self.function}"


def users_place() -> Place | None:
    """The innermost line outside this package."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(PACKAGE):
        frame = frame.f_back  # type: ignore[assignment]
    return None if frame is None else Place(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)


@dataclass(frozen=True)
class ShapeGuard:
    """A relation that the program was specialised on."""

    expr: Relation
    place: Place | None
    size_oblivious: bool = False

    @property
    def sloc(self) -> Place | None:
        return self.place

    def __str__(self) -> str:
        return s.relation_text(self.expr)


@dataclass(frozen=True)
class RuntimeAssert:
    """A relation of unbacked symbols that the program checks when it runs, or an operator of it."""

    expr: Relation
    msg: str
    place: Place | None
    error: type[Exception] = RuntimeError
    by_operator: bool = False


@dataclass(eq=False)
class StatelessSymbolicContext:
    """What is wished for each dim of a tensor."""

    dynamic_sizes: Sequence[DimDynamic]
    constraint_sizes: Sequence[Any] = ()
    dynamic_strides: Sequence[DimDynamic] = ()
    specialize_on: Sequence[Any] = field(default_factory=list)


class ShapeEnv:
    """Makes symbols, answers questions about them, remembers what the answers rested on.

    >>> env = ShapeEnv()
    >>> n = env.create_symintnode(env.create_symbol(8, "n"), hint=8)
    >>> bool(n * 2 > 10), env.guards[0].expr
    (True, s0 >= 6)
    """

    def __deepcopy__(self, memo: dict) -> ShapeEnv:
        """Copies of what has its symbols speak of the same symbols."""
        return self

    def __init__(
        self,
        *,
        allow_scalar_outputs: bool = True,
        allow_dynamic_output_shape_ops: bool = True,
        assume_static_by_default: bool = False,
        specialize_zero_one: bool = True,
        duck_shape: bool = True,
        tracked_fakes: list | None = None,
    ):
        self.allow_scalar_outputs = allow_scalar_outputs
        self.allow_dynamic_output_shape_ops = allow_dynamic_output_shape_ops
        self.assume_static_by_default = assume_static_by_default
        self.specialize_zero_one = specialize_zero_one
        self.duck_shape = duck_shape
        self.tracked_fakes = tracked_fakes
        self.known = Assumptions()
        self.guards: list[ShapeGuard] = []
        self.var_to_val: dict[Atom, Any] = {}
        self.var_to_sources: dict[Atom, list[Any]] = {}
        self.deferred_runtime_asserts: dict[Atom, list[RuntimeAssert]] = {}
        self.unbacked: list[Atom] = []  # in the order of making
        self.pending_fresh_unbacked_symbols: list[Atom] = []
        self.size_like: set[Atom] = set()
        self.frozen = False
        self._by_value: dict[int, Expr] = {}
        self._suppressed = 0
        self.trying = False  # an answer is tried out: no other question is answered that way meanwhile
        self.program_asks = False
        self.taken: list[Any] | None = None  # answers that rest on sizes being neither 0 nor 1, for who collects them
        self._counts: dict[str, int] = {}

    # -- symbols

    @property
    def var_to_range(self) -> dict[Atom, Range]:
        return self.known.ranges

    @property
    def replacements(self) -> dict[Atom, Any]:
        return self.known.replacements

    def _new(self, prefix: str) -> Expr:
        number = self._counts.get(prefix, 0)
        self._counts[prefix] = number + 1
        return s.symbol(f"{prefix}{number}")

    def create_symbol(
        self,
        val: int,
        source: Any = None,
        dynamic_dim: DimDynamic = DimDynamic.DUCK,
        constraint_dim: Any = None,
        positive: bool | None = True,
        do_not_specialize_zero_one: bool = False,
        symbolic_context: Any = None,
    ) -> Any:
        """The expression for a size that is `val` now: a number where it is specialised."""
        if dynamic_dim is DimDynamic.STATIC:
            return val
        if dynamic_dim is DimDynamic.SIZE_LIKE_UNBACKED:
            return self.create_unbacked_symint(source, size_like=True).expr
        if val in (0, 1) and self.specialize_zero_one and not do_not_specialize_zero_one and positive is not None:
            return val
        shares = dynamic_dim is DimDynamic.DUCK and self.duck_shape
        if shares and val in self._by_value:
            found = self._by_value[val]
            self.var_to_sources[s.atom_of(found)].append(source)  # type: ignore[index]
            return found
        made = self._new("s")
        atom = s.atom_of(made)
        assert atom is not None
        self.var_to_val[atom] = val
        self.var_to_sources[atom] = [source]
        if positive:
            self.known.constrain(
                atom, 2 if self.specialize_zero_one and not do_not_specialize_zero_one else 0, math.inf
            )
        if shares:
            self._by_value[val] = made
        if constraint_dim is not None:
            constraint_dim.apply(self, atom)
        return made

    def create_unspecified_symbol(
        self, val: Any, source: Any, dynamic_dim: DimDynamic = DimDynamic.DYNAMIC, constraint_dim: Any = None
    ) -> Any:
        """A symbol for a number that is no size: any sign, 0 and 1 like any other."""
        if isinstance(val, float):
            return self.create_float_symbol(val, source)
        return self.create_symbol(
            val, source, dynamic_dim, constraint_dim, positive=None, do_not_specialize_zero_one=True
        )

    def create_float_symbol(self, val: float, source: Any) -> Any:
        atom = s.atom_of(self._new("zf"))
        assert atom is not None
        self.var_to_val[atom] = val
        self.var_to_sources[atom] = [source]
        return float_symbol(atom)

    def create_symintnode(self, sym: Any, *, hint: int | None = None, source: Any = None) -> Any:
        return wrap(sym, self)

    create_symfloatnode = create_symboolnode = create_symintnode

    def _add_unbacked(self, atom: Atom) -> None:
        self.unbacked.append(atom)
        self.pending_fresh_unbacked_symbols.append(atom)
        self.known.late.add(atom)

    def create_unbacked_symint(self, source: Any = None, size_like: bool = False) -> SymInt:
        made = self._new("u")
        atom = s.atom_of(made)
        assert atom is not None
        self._add_unbacked(atom)
        self.var_to_sources[atom] = [source]
        if size_like:
            self.mark_size_like(atom)
        return SymInt(made, self)

    def create_unbacked_symfloat(self) -> Any:
        atom = s.atom_of(self._new("zuf"))
        assert atom is not None
        self._add_unbacked(atom)
        return wrap(float_symbol(atom), self)

    def create_unbacked_symbool(self) -> SymBool:
        number = self.create_unbacked_symint()
        self.known.constrain(s.atom_of(number.expr), 0, 1)  # type: ignore[arg-type]
        return wrap(s.eq(number.expr, 1), self)

    def mark_size_like(self, atom: Atom) -> None:
        self.size_like.add(atom)
        self.known.constrain(atom, 0, math.inf)

    def is_unbacked_symint(self, atom: Atom) -> bool:
        return atom in self.unbacked

    def create_symbolic_sizes_strides_storage_offset(
        self, ex: Any, source: Any = None, *, symbolic_context: StatelessSymbolicContext | None = None
    ) -> tuple[tuple[Any, ...], tuple[Any, ...], Any]:
        """A tensor's geometry in symbols: strides that follow from sizes are expressed by them."""
        sizes, strides = tuple(ex.size()), tuple(ex.stride())
        wishes = symbolic_context.dynamic_sizes if symbolic_context else [self._usual_wish()] * len(sizes)
        limits = (symbolic_context.constraint_sizes if symbolic_context else ()) or [None] * len(sizes)
        symbols = [
            self.create_symbol(n, (source, "size", i), wish, limit)
            for i, (n, wish, limit) in enumerate(zip(sizes, wishes, limits, strict=True))
        ]
        loose = list(symbolic_context.dynamic_strides) if symbolic_context else []
        expressed = self._express_strides(
            sizes, strides, symbols, source, loose or [DimDynamic.INFER_STRIDE] * len(sizes)
        )
        offset = int(ex.storage_offset())
        shown = self.create_symbol(offset, (source, "offset"), self._usual_wish()) if offset > 1 else offset
        return tuple(wrap(e, self) for e in symbols), tuple(wrap(e, self) for e in expressed), wrap(shown, self)

    def _usual_wish(self) -> DimDynamic:
        return DimDynamic.STATIC if self.assume_static_by_default else DimDynamic.DUCK

    def _express_strides(
        self, sizes: tuple, strides: tuple, symbols: list[Any], source: Any, wishes: list[DimDynamic]
    ) -> list[Any]:
        """Each stride as 0 or 1, as the extent of a dim inside it, or as a symbol of its own."""
        out: list[Any] = [None] * len(sizes)
        extents: dict[int, Any] = {1: 1}
        for i in sorted(range(len(sizes)), key=lambda i: (strides[i], -i)):
            stride = strides[i]
            if stride in (0, 1):
                out[i] = stride
            elif stride in extents:
                out[i] = extents[stride]
            else:
                wish = wishes[i]
                if wish is DimDynamic.INFER_STRIDE:
                    wish = DimDynamic.DUCK if any(isinstance(e, Expr) for e in symbols) else DimDynamic.STATIC
                out[i] = self.create_symbol(stride, (source, "stride", i), wish)
            extents.setdefault(stride * sizes[i], s.mul(out[i], symbols[i]))
        return out

    # -- questions

    def simplify(self, e: Any) -> Any:
        return self.known.simplify(e)

    def replace(self, e: Any) -> Any:
        return s.substitute(e, self.replacements)

    def hint(self, e: Any) -> Any:
        """The value by the hints; None where a symbol has none."""
        try:
            return s.evaluate(self.simplify(e), self.var_to_val)
        except KeyError:
            return None

    def require_hint(self, e: Any) -> Any:
        found = self.hint(e)
        if found is None:
            raise GuardOnDataDependentSymNode(e, self._data_dependent(e))
        return found

    def size_hint(self, e: Any, *, allow_none: bool = False, fallback: int | None = None) -> Any:
        found = self.hint(expression(e))
        if found is None and fallback is not None:
            return fallback
        return found if found is not None or allow_none else self.require_hint(expression(e))

    def bound_sympy(self, e: Any, size_oblivious: bool = False) -> Range:
        return self.known.bounds(self.simplify(e))

    def decide(self, r: Any) -> bool:
        """Whether r holds: known, or by the hints and with a guard."""
        known = self.known.holds(r)
        if known is not None:
            return known
        r = self.simplify(r)
        answer = self.hint(r)
        if answer is None:
            promised = self._size_oblivious(r) if not self.program_asks else None
            if promised is not None:
                if self.taken is not None and not self.trying:
                    self.taken.append(r if promised else s.negate(r))
                return promised
            if self.trying and r.kind in ("eq", "ne"):
                return bool(r.kind == "ne")
            raise GuardOnDataDependentSymNode(r, self._data_dependent(r))
        self.guard(r if answer else s.negate(r))
        return bool(answer)

    evaluate_expr = decide

    @contextlib.contextmanager
    def asked_by_program(self) -> Iterator[None]:
        """Questions meanwhile decide what the program does: nothing is taken for granted of numbers that come from data."""
        before, self.program_asks = self.program_asks, True
        try:
            yield
        finally:
            self.program_asks = before

    def _size_oblivious(self, r: Any) -> bool | None:
        """For sizes without a hint, those that come from data: they are taken not to be 0 or 1 where nothing else decides."""
        atoms = [a for a in r.symbols if a in self.size_like]
        sums = [v for a, v in self.replacements.items() if a in self.size_like and s.free_symbols(v) & r.symbols]
        if not atoms and not sums:
            return None
        assumed = Assumptions()
        assumed.ranges = dict(self.known.ranges)
        assumed.replacements = dict(self.known.replacements)
        assumed.nonnegative = list(self.known.nonnegative)
        for a in atoms:
            assumed.constrain(a, 2, math.inf)
        known = assumed.holds(r)
        if known is None and sums:  # sizes that were found to be what others leave
            assumed.nonnegative += [s.add(v, -2) for v in sums]
            assumed.forget_derived()
            known = assumed.holds(r)
        return known

    def specialize(self, e: Any) -> Any:
        """The value of e, on which the program then rests."""
        e = self.simplify(e)
        if isinstance(e, int | float):
            return e
        low, high = self.known.bounds(e) if isinstance(e, Expr) else (-math.inf, math.inf)
        if low == high:
            return int(low)
        value = self.hint(e)
        if value is None:
            raise GuardOnDataDependentSymNode(e, self._data_dependent(e))
        self.guard(s.eq(e, value) if isinstance(e, Expr) else s.compare_floats("==", e, value))
        return value

    def guard(self, r: Any) -> None:
        if self._suppressed:
            return
        if self.frozen:
            raise RuntimeError(f"a guard on {s.relation_text(r)} is added after the environment was frozen")
        self.guards.append(ShapeGuard(r, users_place()))
        self.known.learn(r)

    def expect(
        self, r: Any, message: str = "", error: type[Exception] = RuntimeError, by_operator: bool = False
    ) -> bool:
        """r is promised (`_check`): guarded where there is a hint, else asserted when the program runs."""
        known = self.known.holds(r)
        if known is not None:
            return known
        r = self.simplify(r)
        if self.hint(r) is not None:
            return self.decide(r)
        newest = max((a for a in r.symbols if a in self.unbacked), key=lambda a: a.serial)
        made = RuntimeAssert(r, message, users_place(), error, by_operator)
        self.deferred_runtime_asserts.setdefault(newest, []).append(made)
        self.known.learn(r)
        return True

    def _data_dependent(self, e: Any) -> str:
        shown = s.relation_text(e) if isinstance(e, Relation) else s.text(e)
        atoms = sorted((a for a in s.free_symbols(e) if a in self.unbacked), key=lambda a: a.serial)
        place = users_place()
        return (
            f"Could not guard on data-dependent expression {shown} (unhinted: {', '.join(a.name for a in atoms)}): its value is only "
            f"known when the program runs. Caused by: {place}. Say what is known of it with tocha._check(...), or ask with "
            "guard_or_false / guard_or_true."
        )

    def constrain_range(self, atom: Atom, low: Bound, high: Bound) -> None:
        if not self.known.constrain(atom, low, high):
            raise ConstraintViolationError(f"{atom.name} cannot lie in [{low}, {high}]")
        value = self.var_to_val.get(atom)
        if value is not None and not low <= value <= high:
            raise ConstraintViolationError(f"{atom.name} is {value}, which is not in [{low}, {high}]")

    @contextlib.contextmanager
    def suppress_guards(self) -> Iterator[None]:
        """Questions are answered by the hints and not recorded."""
        self._suppressed += 1
        try:
            yield
        finally:
            self._suppressed -= 1

    @contextlib.contextmanager
    def supposing(self, r: Any) -> Iterator[None]:
        """r is taken to hold meanwhile."""
        before, self.known = self.known, self.known.copy()
        self.known.learn(r)
        try:
            yield
        finally:
            self.known = before

    @contextlib.contextmanager
    def trial(self, r: Any) -> Iterator[None]:
        """What would happen if r held, and numbers that come from data were unequal to others else: nothing of it is kept."""
        promised = {k: list(v) for k, v in self.deferred_runtime_asserts.items()}
        self.trying = True
        try:
            with self.supposing(r), self.suppress_guards(), self.ignore_fresh_unbacked_symbols():
                yield
        finally:
            self.trying, self.deferred_runtime_asserts = False, promised

    @contextlib.contextmanager
    def ignore_fresh_unbacked_symbols(self) -> Iterator[None]:
        kept = list(self.pending_fresh_unbacked_symbols)
        try:
            yield
        finally:
            self.pending_fresh_unbacked_symbols = kept

    def freeze(self) -> None:
        self.frozen = True

    def freeze_runtime_asserts(self) -> None:
        self.frozen = True

    # -- guards for others

    def format_guards(self, verbose: bool = False) -> str:
        lines = [f" - {g}" + (f"  # {g.place}" if verbose and g.place else "") for g in self.guards]
        return "\n".join(lines)

    def get_nontrivial_guards(self) -> list[Any]:
        """The guards as they stand after all that was learnt since."""
        out: list[Any] = []
        for g in self.guards:
            r = self.replace(g.expr)
            if isinstance(r, Relation) and r not in out:
                out.append(r)
        return out

    def bind_symbols(self, placeholders: Iterable[Any], args: Iterable[Any]) -> dict[Atom, int]:
        """The values of symbols when `args` stand where the symbolic `placeholders` stood."""
        values: dict[Atom, int] = {}
        for p, a in zip(placeholders, args, strict=True):
            pairs = [(p, a)] if isinstance(p, Symbolic) else []
            if hasattr(p, "size") and hasattr(a, "size"):
                pairs = [*zip(p.size(), a.size(), strict=True), *zip(p.stride(), a.stride(), strict=True)]
                pairs.append((p.storage_offset(), a.storage_offset()))
            for symbolic, value in pairs:
                atom = (
                    s.atom_of(symbolic.expr)
                    if isinstance(symbolic, Symbolic) and isinstance(symbolic.expr, Expr)
                    else None
                )
                if atom is not None and atom.kind == "symbol":
                    values.setdefault(atom, int(value))
        return values

    def evaluate_guards_for_args(
        self, placeholders: Sequence[Any], args: Sequence[Any], *, ignore_static: bool = True
    ) -> bool:
        """Whether every guard holds for these arguments."""
        values = {**self.bind_symbols(placeholders, args)}
        for atom, value in self.replacements.items():
            if atom in values and s.free_symbols(value) <= values.keys() and s.evaluate(value, values) != values[atom]:
                return False
        return all(s.evaluate(g.expr, values) for g in self.guards if g.expr.symbols <= values.keys())

    def guard_texts(self, name: Callable[[Atom], str]) -> list[str]:
        return [s.relation_text(g.expr, name) for g in self.guards]


# ---- questions that users ask ---------------------------------------------------------------------


def statically_known_true(x: Any) -> bool:
    """Whether it holds for all values; never adds a guard."""
    return x.env.known.holds(x.expr) is True if isinstance(x, SymBool) else bool(x)


def guard_or_false(a: Any) -> bool:
    """Its value, guarded where there is a hint; False where nobody can know."""
    return _guard_or(a, False)


def guard_or_true(a: Any) -> bool:
    """Its value, guarded where there is a hint; True where nobody can know."""
    return _guard_or(a, True)


def _guard_or(x: Any, otherwise: bool) -> bool:
    if not isinstance(x, SymBool):
        return bool(x)
    known = x.env.known.holds(x.expr)
    if known is not None:
        return known
    return otherwise if x.env.hint(x.expr) is None else bool(x)


def may_overlap(sizes: Sequence[Any], steps: Sequence[Any]) -> bool:
    """Whether two elements may lie in one place, as those of windows do and those of what is expanded. Each dim, from the least step on,
    must step over all that those before it reach."""
    dims = [(step, n) for n, step in zip(sizes, steps, strict=True) if not (type(n) is int and n == 1)]
    if any(guard_or_false(n == 0) for _, n in dims if type(n) is int or n.node.hint == 0):
        return False
    hints = [step if type(step) is int else step.node.hint for step, _ in dims]
    if None in hints:
        return len({str(step) for step, _ in dims}) < len(dims)
    reach: Any = 0
    for _, i in sorted((hint, i) for i, hint in enumerate(hints)):
        step, n = dims[i]
        if not guard_or_false(step > reach):
            return True
        reach = reach + (n - 1) * step
    return False


def values_of(symbols: Mapping[Atom, int]) -> dict[str, int]:
    return {a.name: v for a, v in symbols.items()}


sym_types.ShapeEnv = ShapeEnv  # type: ignore[misc]  # annotations there name it
